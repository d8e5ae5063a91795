//! Which server, how to get in, and how long to wait for it.

use std::{fmt, path::PathBuf, time::Duration};

/// What a [`ClientBuilder`](crate::ClientBuilder) sets for Redis.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: Option<u32>,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_secs(3),
            user: None,
            password: None,
            database: None,
            #[cfg(feature = "tls")]
            tls: TlsSettings::default(),
        }
    }
}

/// Whom to trust and what to show, as PEM texts.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSettings {
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) client: Option<(Vec<u8>, Secret)>,
}

/// Bytes that are never shown.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    #[cfg(feature = "tls")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text: passwords are made from text only.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// Says where, never who.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A server and the way in: URL and settings in one.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
}
