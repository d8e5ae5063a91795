//! How to log in to a server, and the timeouts of its replies.

use std::time::Duration;

#[cfg(any(test, feature = "testing"))]
use super::connector::Connector;
use super::{resolver::Resolver, secret::Secret, target::Credentials, translation::Translation};

/// The settings of a [`ClientBuilder`](crate::ClientBuilder) for Redis.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// The credentials for sentinels.
    pub(crate) sentinel: Credentials,
    /// Maps announced addresses to reachable ones.
    pub(crate) translation: Translation,
    /// Resolves host names.
    pub(crate) resolver: Resolver,
    /// Streams to simulated servers, in place of a network.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) connector: Option<Connector>,
    pub(crate) database: Option<u32>,
    /// Whether sentinels speak TLS; by default as the servers do.
    pub(crate) sentinels_speak_tls: Option<bool>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsSettings,
    /// The TLS settings for sentinels, if they differ from those for servers.
    #[cfg(feature = "tls")]
    pub(crate) sentinel_tls: TlsSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_secs(3),
            user: None,
            password: None,
            sentinel: Credentials::default(),
            translation: Translation::default(),
            resolver: Resolver::default(),
            #[cfg(any(test, feature = "testing"))]
            connector: None,
            database: None,
            sentinels_speak_tls: None,
            #[cfg(feature = "tls")]
            tls: TlsSettings::default(),
            #[cfg(feature = "tls")]
            sentinel_tls: TlsSettings::default(),
        }
    }
}

/// The trusted authorities and the client certificate, as PEM texts.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSettings {
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) client: Option<(Vec<u8>, Secret)>,
}

#[cfg(feature = "tls")]
impl TlsSettings {
    pub(super) fn is_given(&self) -> bool {
        self.authorities.is_some() || self.client.is_some()
    }

    /// Returns these settings, and those of `others` for each missing one.
    pub(super) fn or(&self, others: &Self) -> Self {
        let authorities = self.authorities.as_ref().or(others.authorities.as_ref());
        let client = self.client.as_ref().or(others.client.as_ref());
        Self { authorities: authorities.cloned(), client: client.cloned() }
    }
}
