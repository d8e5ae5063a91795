//! Makes dialers for the nodes of a cluster.

use std::sync::Arc;

use crate::{
    address::{
        host_port::HostPort,
        settings::Settings,
        target::{Address, Place, Target},
    },
    channels::Channels,
    connection::dial::Dialer,
    error::Error,
    session::reach::Reach,
};

#[derive(Debug)]
pub(super) struct NodeDialer {
    settings: Settings,
    client_id: String,
    /// User, password and TLS of the first address in the URL. All nodes have the same.
    seed: Target,
    /// All dialers share this value, because a new one for TLS would read all authorities that the
    /// system trusts.
    reach: Arc<Reach>,
}

impl NodeDialer {
    /// Returns a maker of dialers, for the nodes of the cluster to which `seed` belongs.
    ///
    /// # Errors
    ///
    /// If a certificate is invalid.
    pub(super) fn new(seed: Target, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        let reach = Reach::to(&seed.place, settings)?;
        Ok(Self { settings: settings.clone(), client_id: client_id.to_owned(), seed, reach })
    }

    /// Translates an announced address into the one that the client dials. All dialled addresses
    /// come from this function.
    fn target(&self, at: &HostPort) -> Result<Target, Error> {
        let tls = matches!(self.seed.place, Place::At(Address::Tcp { tls: true, .. }));
        let reached = self.settings.translation.place(&at.host, at.port, tls)?;
        Ok(Target { place: reached, ..self.seed.clone() })
    }

    /// Returns a dialer. Without `channels`, the dialer is only for one visit: its connections load
    /// no scripts.
    pub(super) fn dialer(
        &self,
        at: &HostPort,
        channels: Option<Channels>,
    ) -> Result<Dialer, Error> {
        let (target, reach) = (self.target(at)?, Arc::clone(&self.reach));
        let dialer = |scripts| Dialer::by(reach, target, &self.settings, &self.client_id, scripts);
        match channels {
            // Another node announced this node, so an earlier login has succeeded.
            Some(channels) => Ok(dialer((self.settings.scripts)(channels))?.after_earlier_login()),
            None => dialer(Vec::new()),
        }
    }
}
