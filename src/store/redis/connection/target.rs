//! Which server, and as whom.

use std::{fmt, path::PathBuf};

#[cfg(test)]
use super::connector::Connector;
use super::secret::Secret;

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Address {
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
    /// Whatever a test has instead.
    #[cfg(test)]
    Made(Connector),
}

/// Says where, never who.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            #[cfg(test)]
            Self::Made(_) => f.write_str("a server that a test has made"),
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
