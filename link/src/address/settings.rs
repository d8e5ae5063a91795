//! How to reach servers and to log in, and how long to wait.

use std::time::Duration;

use crate::address::{
    resolver::Resolver, secret::Secret, target::Credentials, translation::Translation,
};
use crate::{channels::Channels, pipe::connector::Connector};

/// A script that each new connection for commands loads.
#[derive(Clone, Debug)]
pub struct Preload {
    /// The SHA-1 of `text`. The server must return the same hash when it has loaded the script.
    pub hash: String,
    /// The source of the script.
    pub text: &'static str,
}

/// A function that returns the scripts which each connection for commands loads.
pub type Scripts = fn(Channels) -> Vec<Preload>;

/// A function that counts a lost connection. Its arguments are the server and the purpose of the
/// connection, such as `commands` or `messages`.
pub type OnLoss = fn(&str, &'static str);

/// How to reach the servers and to log in, and how long to wait.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The timeout of a whole connection attempt, which finds the server, connects and logs in.
    pub connect_timeout: Duration,
    /// The timeout of a sent command. A command also waits at most this long for a connection.
    pub command_timeout: Duration,
    /// The user. If set, it replaces the user in the URL.
    pub user: Option<String>,
    /// The password. If set, it replaces the password in the URL.
    pub password: Option<Secret>,
    /// The credentials for sentinels.
    pub sentinel: Credentials,
    /// Maps announced addresses to reachable addresses.
    pub translation: Translation,
    /// Resolves host names.
    pub resolver: Resolver,
    /// Opens the streams to servers, for example in a simulation. If unset, the network is used.
    pub connector: Option<Connector>,
    /// The number of the database.
    pub database: Option<u32>,
    /// Returns the scripts to load on each new connection for commands.
    pub scripts: Scripts,
    /// Called when a connection is lost.
    pub on_loss: OnLoss,
    /// Whether sentinels use TLS. If unset, sentinels use TLS if the servers use TLS.
    pub sentinels_speak_tls: Option<bool>,
    /// The TLS settings for servers.
    #[cfg(feature = "tls")]
    pub tls: TlsSettings,
    /// The TLS settings for sentinels. A missing setting is taken from `tls`.
    #[cfg(feature = "tls")]
    pub sentinel_tls: TlsSettings,
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
            connector: None,
            database: None,
            scripts: |_| Vec::new(),
            on_loss: |_, _| {},
            sentinels_speak_tls: None,
            #[cfg(feature = "tls")]
            tls: TlsSettings::default(),
            #[cfg(feature = "tls")]
            sentinel_tls: TlsSettings::default(),
        }
    }
}

/// The trusted certificate authorities and the client certificate, as PEM texts.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// The trusted authorities, instead of those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The certificate of this client, and its key.
    pub client: Option<(Vec<u8>, Secret)>,
}

#[cfg(feature = "tls")]
impl TlsSettings {
    pub(crate) fn is_given(&self) -> bool {
        self.authorities.is_some() || self.client.is_some()
    }

    /// Returns these settings. `others` provides each missing setting.
    pub(crate) fn or(&self, others: &Self) -> Self {
        let authorities = self.authorities.as_ref().or(others.authorities.as_ref());
        let client = self.client.as_ref().or(others.client.as_ref());
        Self { authorities: authorities.cloned(), client: client.cloned() }
    }
}
