//! Maps announced addresses to reachable addresses. A server in a container or a cloud may announce
//! an address that is unreachable from outside.

use std::{fmt, sync::Arc};

use crate::{
    address::{
        host_port::HostPort,
        target::{Address, Place},
    },
    connect_failure::ConnectFailure,
    error::Error,
    shown::shown,
};

/// Translates an announced address to a reachable address. Returns `None` if the announced address
/// is itself reachable.
pub(super) type Translate = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The user's translation of announced addresses.
#[derive(Clone, Default)]
pub struct Translation(Option<Arc<Translate>>);

impl Translation {
    /// Translates by a function. The function returns the reachable address for an announced
    /// address, or `None` if the announced address is itself reachable.
    pub fn by(translate: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(translate)))
    }

    /// Returns where to find the server that is announced as `host` and `port`.
    pub(crate) fn place(&self, host: &str, port: u16, tls: bool) -> Result<Place, Error> {
        let reached = self.of(host, port, tls).map(Place::At);
        reached.map_err(|failure| failure.before(shown(&format!("{host}:{port}"))))
    }

    /// Returns the reachable address of the server that is announced as `host` and `port`.
    pub(crate) fn of(&self, host: &str, port: u16, tls: bool) -> Result<Address, ConnectFailure> {
        let announced = Address::Tcp { host: host.to_owned(), port, tls };
        let Some(translated) = self.0.as_ref().and_then(|it| it(&announced.to_string())) else {
            return Ok(announced);
        };
        read(&translated, tls).ok_or_else(|| {
            let (made, announced) = (shown(&translated), shown(&announced.to_string()));
            ConnectFailure::lasting(format!(
                "translate_addresses returned `{made}` for `{announced}`; return host:port"
            ))
        })
    }
}

/// Parses `host:port`.
fn read(text: &str, tls: bool) -> Option<Address> {
    let HostPort { host, port } = HostPort::read(text).filter(|it| !it.host.is_empty())?;
    Some(Address::Tcp { host, port, tls })
}

impl fmt::Debug for Translation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "by a function" } else { "none" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untranslated_address_is_used_as_announced() {
        let table = Translation::by(|announced| {
            (announced == "10.0.0.1:6379").then(|| "[::1]:7001".into())
        });
        let of = |host, port| table.of(host, port, false).unwrap().to_string();
        assert_eq!(of("10.0.0.1", 6379), "[::1]:7001");
        assert_eq!(of("10.0.0.2", 6379), "10.0.0.2:6379");
        assert_eq!(of("::2", 6379), "[::2]:6379");
    }

    #[test]
    fn failure_names_an_invalid_address_translation() {
        for odd in ["", "host", "host:", ":1", "host:0", "host:70000", "host:x"] {
            let table = Translation::by(move |_| Some(odd.to_owned()));
            let words = table.of("10.0.0.1", 6379, false).unwrap_err().to_string();
            assert!(words.contains(&format!("`{odd}` for `10.0.0.1:6379`")), "{words}");
        }
    }
}
