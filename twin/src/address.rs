//! The address of a server, as other servers and clients use it.

use std::{fmt, str::FromStr};

/// A host and a port.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Default for Address {
    fn default() -> Self {
        Self { host: "127.0.0.1".into(), port: 6379 }
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        Ok(Self { host: host.into(), port: port.parse().map_err(drop)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
