//! Where a client connects, and with which credentials.

use std::{fmt, path::PathBuf};

use crate::{
    address::{host_port, secret::Secret},
    shown::shown,
};

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// Shows the address and never the credentials.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => host_port::written(host, *port, f),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where to find the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// At this address. Its server may be a primary or a replica.
    At(Address),
    /// At one of these addresses: the one whose server is the primary.
    Among(Vec<Address>),
    /// At the address that these sentinels return.
    Sentinels(Watched),
}

/// The credentials for sentinels.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Credentials {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

/// A primary, and the sentinels that name its address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Watched {
    /// The name that the sentinels use for the primary.
    pub(crate) master: String,
    pub(crate) sentinels: Vec<Address>,
    /// The credentials for the sentinels.
    pub(crate) credentials: Credentials,
    /// Whether the servers that the sentinels name use TLS.
    pub(crate) tls: bool,
}

impl Address {
    pub(crate) fn speaks_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl Place {
    /// Returns the addresses that the URL names.
    pub(crate) fn addresses(&self) -> &[Address] {
        match self {
            Self::At(address) => std::slice::from_ref(address),
            Self::Among(addresses) => addresses,
            Self::Sentinels(watched) => &watched.sentinels,
        }
    }
}

/// Shows the address and never the credentials.
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

/// A server and its credentials, from the URL and the settings.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
}
