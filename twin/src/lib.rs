//! A simulated Redis server inside the process of a test, in virtual time. A seed decides its
//! random choices, and the test can cause faults.
//!
//! A [`Twin`] speaks the protocol of Redis over a stream in memory, so a test can use a real
//! client. The server and its network run on the runtime of the test, which has one thread and a
//! paused clock. All random choices derive from the seed, so the same seed gives the same run.
//!
//! A twin replies as Redis 7.0 does to the commands that it supports, including scripts and
//! permissions. `tests/differential.rs` sends the same commands to a twin and to a real server, and
//! compares the replies.
//!
//! Start with [`Twin::new`] and [`Twin::connect`]. Faults are [`stop`](Twin::stop),
//! [`cut`](Twin::cut), [`refuse`](Twin::refuse), [`kill`](Twin::kill), [`delay`](Twin::delay), and
//! a [`replica`](Twin::replica) that lags. A [`Net`] connects several servers.

mod address;
mod cluster;
mod commands;
mod connection;
mod control;
mod core;
mod data;
mod delay;
mod faults;
mod glob;
mod hash;
mod inspect;
mod net;
mod number;
mod reply;
mod request;
mod script;
mod sentinels;
mod slots;
mod traits;
mod users;
mod values;
mod zset;

use std::{
    future::pending,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{DuplexStream, duplex},
    sync::Notify,
    time::sleep,
};

use self::core::Core;
pub use self::{
    cluster::Cluster,
    core::{Executed, clients::Connection},
    delay::Delay,
    faults::{Cut, Reach, Refusal},
    net::{Host, Net},
    sentinels::Sentinels,
};

/// The number of unread bytes that the network holds in one direction of a connection.
const BUFFER: usize = 256 * 1024;

/// A simulated server. A clone is a handle of the same server.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let twin = leasehold_twin::Twin::new(7);
/// let mut stream = twin.connect().await.unwrap();
/// stream.write_all(b"INCR visits\r\n").await.unwrap();
/// let mut reply = [0; 4];
/// stream.read_exact(&mut reply).await.unwrap();
/// assert_eq!(&reply, b":1\r\n");
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Twin {
    shared: Arc<Shared>,
}

/// The state that all handles, connections and replicas of one server share.
#[derive(Debug)]
struct Shared {
    core: Mutex<Core>,
    resumed: Notify,
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server is not isolated.
    async fn in_touch(&self) {
        loop {
            let resumed = self.resumed.notified();
            if !self.core().faults.isolated {
                return;
            }
            resumed.await;
        }
    }

    /// Waits until the server runs and can reach other servers.
    async fn among_others(&self) {
        loop {
            let resumed = self.resumed.notified();
            if self.core().faults.is_among_others() {
                return;
            }
            resumed.await;
        }
    }
}

impl Twin {
    /// Creates a server without data. Its random numbers derive from `seed`.
    pub fn new(seed: u64) -> Self {
        let core = Mutex::new(Core::new(seed, &commands::TABLE));
        let shared = Shared { core, resumed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Opens a connection, and returns the client's end. Opening a connection takes as long as a
    /// request and its reply.
    ///
    /// # Errors
    ///
    /// If the server is dead, or [refuses](Reach::Refused) connections.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, no connection is made.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        self.connect_from("", Reach::default).await
    }

    /// Like [`connect`](Self::connect), from `host`. `reached` returns the state of the path from
    /// this host to the server.
    async fn connect_from(
        &self,
        host: &str,
        reached: impl Fn() -> Reach,
    ) -> io::Result<DuplexStream> {
        let way = {
            let mut core = self.core();
            let (there, back) = (core.faults.requests, core.faults.replies);
            there.draw(&mut core.random) + back.draw(&mut core.random)
        };
        if !way.is_zero() {
            sleep(way).await;
        }
        let reach = self.core().faults.reach().max(reached());
        match reach {
            Reach::Open => Ok(self.accept(host)),
            Reach::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            Reach::Silent => pending().await,
        }
    }

    fn accept(&self, host: &str) -> DuplexStream {
        let (client, server) = duplex(BUFFER);
        tokio::spawn(connection::Connection::new(Arc::clone(&self.shared), host, server));
        client
    }

    /// Creates a replica, which receives writes and published messages after `lag`. The replica
    /// executes reads and serves subscribers. `PUBLISH` at this server does not count the
    /// subscribers of the replica.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use leasehold_twin::{Delay, Twin};
    ///
    /// let master = Twin::new(7);
    /// let replica = master.replica(Delay::UpTo(Duration::from_millis(50)));
    /// replica.promote();
    /// assert!(master.is_replica());
    /// # });
    /// ```
    #[must_use]
    pub fn replica(&self, lag: Delay) -> Self {
        let seed = self.core().random.u64(..);
        let replica = Self::new(seed);
        replica.follow(self, lag);
        replica
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.shared.core()
    }
}
