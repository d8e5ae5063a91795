//! A network: servers have addresses, and clients dial these addresses.
//!
//! A server may be unreachable for all clients, or only for the clients of one [`Host`]. An address
//! may later lead to another server, like a DNS name.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fastrand::Rng;
use tokio::io::DuplexStream;

use super::{
    Twin,
    address::Address,
    faults::{Cut, Reach},
};

/// A network of servers. A clone is a handle of the same network.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Net, Reach};
///
/// let net = Net::new(7);
/// let server = net.start("10.0.0.1:6379");
/// assert!(net.dial("10.0.0.1:6379").await.is_ok());
/// assert!(net.dial("10.0.0.2:6379").await.is_err());
///
/// // Only the clients of this host are cut off.
/// let host = net.host("app-1");
/// host.reach("10.0.0.1:6379", Reach::Refused);
/// assert!(host.dial("10.0.0.1:6379").await.is_err());
/// assert_eq!(server.connections().len(), 1);
/// # });
/// ```
#[derive(Clone)]
pub struct Net(Arc<Mutex<Inner>>);

struct Inner {
    random: Rng,
    servers: BTreeMap<String, Twin>,
    /// The state of each path, by the host of the client and the address. A missing path is open.
    reaches: BTreeMap<(String, String), Reach>,
}

/// The host of all clients that dial without a host.
const ANYWHERE: &str = "";

impl Net {
    /// Creates a network without servers. The random numbers of all its servers derive from `seed`.
    pub fn new(seed: u64) -> Self {
        let (servers, reaches) = (BTreeMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Inner { random: Rng::with_seed(seed), servers, reaches })))
    }

    /// Starts a server without data at `host:port`.
    ///
    /// # Panics
    ///
    /// If `address` is not a `host:port`.
    #[track_caller]
    #[must_use]
    pub fn start(&self, address: &str) -> Twin {
        let twin = Twin::new(self.seed());
        self.place(address, &twin);
        twin
    }

    /// Sets the address of a server.
    #[track_caller]
    pub(crate) fn place(&self, address: &str, server: &Twin) {
        let known: Result<Address, _> = address.parse();
        server.core().address = known.unwrap_or_else(|()| panic!("{address:?}: no host:port"));
        self.lead(address, server);
    }

    /// Redirects `address` to `server`. Other servers still announce `server` by its earlier
    /// address.
    pub fn lead(&self, address: &str, server: &Twin) {
        self.inner().servers.insert(address.into(), server.clone());
    }

    /// Returns the server at an address.
    pub fn at(&self, address: &str) -> Option<Twin> {
        self.inner().servers.get(address).cloned()
    }

    /// Opens a connection to the server at `address`: see [`Twin::connect`].
    ///
    /// # Errors
    ///
    /// If there is no server at `address`, or connections are refused.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, no connection is made.
    pub async fn dial(&self, address: &str) -> io::Result<DuplexStream> {
        self.host(ANYWHERE).dial(address).await
    }

    /// Returns a host in the network, from which clients can dial.
    #[must_use]
    pub fn host(&self, name: &str) -> Host {
        Host { net: self.clone(), name: name.into() }
    }

    /// Sets what happens to all clients that dial `address` from now on.
    pub fn reach(&self, address: &str, reach: Reach) {
        self.host(ANYWHERE).reach(address, reach);
    }

    /// Cuts all connections to `address`, and returns their number.
    pub fn cut(&self, address: &str, cut: Cut) -> usize {
        self.at(address).map_or(0, |server| server.cut(cut, |_| true))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.inner().random.u64(..)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Net").field(&self.inner().servers.keys()).finish()
    }
}

/// A host in a [`Net`] from which clients dial.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Cut, Net};
///
/// let net = Net::new(7);
/// let server = net.start("10.0.0.1:6379");
/// let host = net.host("app-1");
/// let _stream = host.dial("10.0.0.1:6379").await;
/// assert_eq!(host.cut("10.0.0.1:6379", Cut::Silence), 1);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    net: Net,
    name: String,
}

impl Host {
    /// Opens a connection from this host to the server at `address`.
    ///
    /// # Errors
    ///
    /// If there is no server at `address`, or connections are refused.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, no connection is made.
    pub async fn dial(&self, address: &str) -> io::Result<DuplexStream> {
        let server = self.net.at(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        server.connect_from(&self.name, || self.reached(address)).await
    }

    /// Sets what happens to clients that dial `address` from this host from now on.
    pub fn reach(&self, address: &str, reach: Reach) {
        self.net.inner().reaches.insert((self.name.clone(), address.into()), reach);
    }

    /// Cuts the connections of this host to `address`, and returns their number.
    pub fn cut(&self, address: &str, cut: Cut) -> usize {
        let own = |server: Twin| server.cut(cut, |connection| connection.host == self.name);
        self.net.at(address).map_or(0, own)
    }

    /// Returns the state of the path from this host to an address.
    fn reached(&self, address: &str) -> Reach {
        let inner = self.net.inner();
        let of = |host: &str| inner.reaches.get(&(host.into(), address.into())).copied();
        let both = [of(ANYWHERE), of(&self.name)].into_iter().flatten();
        both.max().unwrap_or_default()
    }
}
