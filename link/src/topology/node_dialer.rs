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
    /// The first address in the URL, with user, password and TLS. All nodes use the same user,
    /// password and TLS.
    seed: Target,
    /// All dialers share this value. With TLS, each new value would read the trusted authorities of
    /// the system again.
    reach: Arc<Reach>,
}

impl NodeDialer {
    /// Returns a maker of dialers for the nodes of one cluster, to which `seed` belongs.
    ///
    /// # Errors
    ///
    /// If a certificate is invalid.
    pub(super) fn new(seed: Target, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        let reach = Reach::to(&seed.place, settings)?;
        Ok(Self { settings: settings.clone(), client_id: client_id.to_owned(), seed, reach })
    }

    /// Translates an announced address into the address that the client dials. All dialled
    /// addresses come from this function.
    fn target(&self, at: &HostPort) -> Result<Target, Error> {
        let tls = matches!(self.seed.place, Place::At(Address::Tcp { tls: true, .. }));
        let reached = self.settings.translation.place(&at.host, at.port, tls)?;
        Ok(Target { place: reached, ..self.seed.clone() })
    }

    /// Returns a dialer for the node at `at`. Without `channels`, its connections load no scripts,
    /// because they only read the topology.
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
