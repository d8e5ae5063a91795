//! How the nodes of a cluster are reached.

use std::sync::Arc;

use super::super::{
    channels::Channels,
    connection::{Address, Dialer, HostPort, Place, Reach, Settings, Target},
    preloads,
};
use crate::error::Error;

/// How the nodes are reached.
#[derive(Debug)]
pub(super) struct NodeDialer {
    settings: Settings,
    client_id: String,
    /// User, password and TLS of them all, as the first seed has them.
    seed: Target,
    /// Made once: TLS reads all authorities that the system trusts.
    reach: Arc<Reach>,
}

impl NodeDialer {
    /// # Errors
    ///
    /// If there is something wrong with the certificates.
    pub(super) fn new(seed: Target, settings: &Settings, client_id: &str) -> Result<Self, Error> {
        let reach = Reach::to(&seed.place, settings)?;
        Ok(Self { settings: settings.clone(), client_id: client_id.to_owned(), seed, reach })
    }

    /// How to reach the node at `at`: the one place where an announced address
    /// becomes one that is dialled.
    fn target(&self, at: &HostPort) -> Result<Target, Error> {
        let tls = matches!(self.seed.place, Place::At(Address::Tcp { tls: true, .. }));
        let reached = self.settings.translation.place(&at.host, at.port, tls)?;
        Ok(Target { place: reached, ..self.seed.clone() })
    }

    /// A dialer for one short visit, or for good if the kind of channels is known.
    pub(super) fn dialer(
        &self,
        at: &HostPort,
        channels: Option<Channels>,
    ) -> Result<Dialer, Error> {
        let (target, reach) = (self.target(at)?, Arc::clone(&self.reach));
        let dialer = |scripts| Dialer::by(reach, target, &self.settings, &self.client_id, scripts);
        match channels {
            // Another node has announced it.
            Some(channels) => Ok(dialer(preloads(channels))?.after_earlier_login()),
            None => dialer(Vec::new()),
        }
    }
}
