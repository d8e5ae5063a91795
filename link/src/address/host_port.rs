//! A host and a port in their written form: `10.0.0.1:6379`, `[::1]:6379`.

use std::fmt;

/// A host and a port, as people and servers write them.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl HostPort {
    /// Parses `host:port`. The host may be in brackets, or empty.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Self { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        written(&self.host, self.port, f)
    }
}

/// Writes `host:port`, with brackets around an IPv6 address.
pub(crate) fn written(host: &str, port: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match host.contains(':') {
        true => write!(f, "[{host}]:{port}"),
        false => write!(f, "{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_host_and_port_are_read_back() {
        for (host, port, text) in
            [("h", 1, "h:1"), ("::1", 6379, "[::1]:6379"), ("10.0.0.1", 65_535, "10.0.0.1:65535")]
        {
            let it = HostPort { host: host.into(), port };
            assert_eq!(it.to_string(), text);
            assert_eq!(HostPort::read(text), Some(it));
        }
        // Some servers write an IPv6 address without brackets, and their own address without a
        // host.
        assert_eq!(HostPort::read("::1:2"), Some(HostPort { host: "::1".into(), port: 2 }));
        assert_eq!(HostPort::read(":2"), Some(HostPort { host: String::new(), port: 2 }));
        for odd in ["", "host", "host:", "host:0", "host:70000", "host:x"] {
            assert_eq!(HostPort::read(odd), None, "{odd}");
        }
    }
}
