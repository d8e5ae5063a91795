//! Ports for servers that may be stopped and started again.
//!
//! The ports are below the range that the kernel uses for outgoing connections. Otherwise an
//! outgoing connection could take the port of a stopped server, or a client that retries could
//! connect to itself.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a port on which no process listens at the moment.
///
/// The function returns every port once before it returns a port again. So a stopped server does
/// not lose its port to another server of this process. A server of another process may take the
/// port first. If the bind fails, the caller must retry with another port.
pub(crate) fn free_port() -> u16 {
    bind_free_port().local_addr().expect("a bound socket has an address").port()
}

pub(crate) fn bind_free_port() -> TcpListener {
    (0..COUNT)
        .find_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, next())).ok())
        .unwrap_or_else(|| panic!("no free port from {FIRST} on"))
}

/// Returns one port after another. The first port differs between processes.
fn next() -> u16 {
    FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT
}

static NEXT: LazyLock<AtomicU16> =
    LazyLock::new(|| AtomicU16::new(RandomState::new().hash_one(0) as u16));

const FIRST: u16 = 16_384;
/// A power of two, so that no port is skipped when the counter overflows.
const COUNT: u16 = 16_384;
