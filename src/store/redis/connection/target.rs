//! Which server, and as whom.

use std::{fmt, path::PathBuf};

use super::{host_port, secret::Secret, shown::shown};

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
            Self::Tcp { host, port, .. } => host_port::written(host, *port, f),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where to look for the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// Here, whatever it is.
    At(Address),
    /// At the one of these that is the primary.
    Among(Vec<Address>),
    /// Where these sentinels say.
    Sentinels(Watched),
}

/// Who we are to those who are no server of ours.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

/// A master, and the sentinels that say where it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Watched {
    /// What the sentinels call it.
    pub(crate) master: String,
    pub(crate) sentinels: Vec<Address>,
    /// Who we are to the sentinels.
    pub(crate) credentials: Credentials,
    /// Whether the servers that they name speak TLS.
    pub(crate) tls: bool,
}

impl Address {
    pub(super) fn speaks_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl Place {
    /// The addresses that are known before anybody is asked.
    pub(super) fn addresses(&self) -> &[Address] {
        match self {
            Self::At(address) => std::slice::from_ref(address),
            Self::Among(addresses) => addresses,
            Self::Sentinels(watched) => &watched.sentinels,
        }
    }
}

/// Says where, never who.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.addresses().iter().map(ToString::to_string).collect();
        match self {
            Self::At(_) | Self::Among(_) => f.write_str(&texts.join(", ")),
            Self::Sentinels(watched) => {
                write!(f, "`{}` of the sentinels {}", shown(&watched.master), texts.join(", "))
            }
        }
    }
}

/// A server and the way in: URL and settings in one.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
}
