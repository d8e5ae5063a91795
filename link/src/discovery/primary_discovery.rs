//! Finds the server: at one address, at one of several addresses, or at the address that sentinels
//! name.
//!
//! After a failover, the client closes each connection to the old primary, even if the connection
//! works. If a reply on one connection shows the demotion, all connections to that server end.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fmt,
    future::pending,
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{ServerError, Value, cmd};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::{
    address::{
        settings::Settings,
        target::{Address, Place},
    },
    backoff::spread,
    connect_failure::{ConnectFailure, cannot_be_primary, is_read_only},
    discovery::{published::Published, sentinels::Sentinels},
    error::Error,
    hazard::Hazard,
    health::{About, Role},
    mutex::Mutex,
    pipe::{ending::Ending, wire::Wire},
    session::{about, reach::Reach},
};

/// The interval of role checks at the primary, if the URL names several servers.
const EACH: Duration = Duration::from_secs(1);

/// Before the client replaces a connection to a replica, the client pauses. The pause is 1 / `PART`
/// of the time that the client has been connected to replicas, but at least `EACH` and at most
/// `SELDOM`. The pause limits the load of a replica that thousands of clients share.
const SELDOM: Duration = Duration::from_secs(10);
const PART: u32 = 4;

/// The highest number of addresses in `reached`.
const MOST: usize = 64;

/// The search for one server, and what is known about its address.
#[derive(Debug)]
pub(crate) struct PrimaryDiscovery {
    place: Place,
    /// The sentinels, if the URL names any.
    sentinels: Option<Sentinels>,
    /// Whether this client ever reached a primary.
    met_primary: AtomicBool,
    /// Since when connections have led to a replica. `None` if the last connection led to no
    /// replica.
    replica_since: Mutex<Option<Instant>>,
    /// Of the addresses that sentinels have returned, those at which a server has replied.
    reached: Mutex<BTreeSet<String>>,
    /// Notified when a reply shows that the server is no longer the primary.
    suspicions: Notify,
    /// The server that commands go to. All other connections must lead to the same server.
    leader: Published<Leader>,
    /// The other addresses of the URL whose servers are also primaries.
    others: Mutex<Vec<String>>,
    /// Whether the last connection for messages reached another server than the connection for
    /// commands.
    reached_other_server: AtomicBool,
}

/// The server that commands go to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Leader {
    server: String,
    run_id: Option<String>,
}

impl Leader {
    /// Returns whether the run id of the leader is known and differs from `run_id`.
    fn is_another(&self, run_id: &str) -> bool {
        self.run_id.as_ref().is_some_and(|it| it != run_id)
    }
}

impl PrimaryDiscovery {
    /// Creates the search for the server at `place`, and for its sentinels, if any.
    ///
    /// # Errors
    ///
    /// If the certificates for sentinels are invalid.
    pub(crate) fn of(
        place: Place,
        settings: &Settings,
        reach: &Arc<Reach>,
        client_name: &str,
    ) -> Result<Self, Error> {
        let sentinels = match &place {
            Place::Sentinels(watched) => Some(Sentinels::new(
                watched.clone(),
                settings.translation.clone(),
                reach.to_sentinels(&place, settings)?,
                client_name.to_owned(),
                settings.connect_timeout,
            )),
            Place::At(_) | Place::Among(_) => None,
        };
        Ok(Self::new(place, sentinels))
    }

    /// Like [`of`](Self::of), but the caller passes the `sentinels` that `place` names.
    pub(crate) fn new(place: Place, sentinels: Option<Sentinels>) -> Self {
        Self {
            place,
            sentinels,
            met_primary: AtomicBool::new(false),
            replica_since: Mutex::default(),
            reached: Mutex::default(),
            suspicions: Notify::new(),
            leader: Published::default(),
            others: Mutex::default(),
            reached_other_server: AtomicBool::new(false),
        }
    }

    /// Returns whether the address may change. If so, the client accepts only a primary.
    pub(crate) fn may_change(&self) -> bool {
        !matches!(self.place, Place::At(_))
    }

    /// Returns the current addresses of the server. Meanwhile another task must run
    /// [`keep_informed`](Self::keep_informed).
    pub(crate) async fn now(&self) -> Result<Vec<Address>, ConnectFailure> {
        match &self.sentinels {
            Some(sentinels) => Ok(vec![sentinels.master().await?]),
            None => Ok(self.place.addresses().to_vec()),
        }
    }

    /// Polls the sentinels for the address of the primary, if there are sentinels. Never returns.
    pub(crate) async fn keep_informed(&self) -> Infallible {
        match &self.sentinels {
            Some(sentinels) => sentinels.keep_asking().await,
            None => pending().await,
        }
    }

    /// Waits until the address of the server changes.
    pub(crate) async fn until_changed(&self) {
        match &self.sentinels {
            Some(sentinels) => sentinels.until_changed().await,
            None => pending().await,
        }
    }

    /// Waits until the sentinels name a primary that is not at `addresses`. Returns its address.
    pub(crate) async fn leaves(&self, addresses: &[Address]) -> Address {
        match (&self.sentinels, addresses) {
            (Some(sentinels), [address]) => sentinels.another_than(address).await,
            _ => pending().await,
        }
    }

    /// Returns why the address of the server is unknown.
    pub(crate) fn failure(&self) -> Option<ConnectFailure> {
        self.sentinels.as_ref().map(Sentinels::failure)
    }

    /// Returns the hazards that the search for the server has found.
    pub(crate) fn hazards(&self) -> Vec<Hazard> {
        let sentinels = self.sentinels.as_ref().map(Sentinels::hazards).unwrap_or_default();
        let others = self.others.lock().clone();
        let others = others.into_iter().map(|address| Hazard::OtherPrimary { address });
        let elsewhere = self.reached_other_server.load(Ordering::Relaxed);
        let elsewhere = elsewhere.then_some(Hazard::ServerMismatch);
        sentinels.into_iter().chain(others).chain(elsewhere).collect()
    }

    /// Returns where `address` comes from, as a hint why it may be wrong. Returns `None` if there
    /// are no sentinels, or if the address is probably right.
    pub(crate) fn origin(&self, address: &Address) -> Option<String> {
        let reached = self.reached.lock().contains(&address.to_string());
        self.sentinels.as_ref()?.origin(address, reached)
    }

    /// If the URL names several addresses, returns those that commands do not use.
    pub(crate) fn other_addresses(&self) -> Vec<&Address> {
        let Place::Among(addresses) = &self.place else { return Vec::new() };
        let server = self.leader.read(|it| it.server.clone());
        addresses.iter().filter(|it| it.to_string() != server).collect()
    }

    /// Returns whether the server at `address` was also a primary at the last check.
    pub(crate) fn is_other(&self, address: &String) -> bool {
        self.others.lock().contains(address)
    }

    /// Records the other addresses whose servers are also primaries now.
    pub(crate) fn found(&self, others: Vec<String>) {
        *self.others.lock() = others;
    }

    /// Records that commands go to the server `met`.
    pub(crate) fn set_command_server(&self, met: &About) {
        self.reached_other_server.store(false, Ordering::Relaxed);
        self.leader.set(Leader { server: met.server.clone(), run_id: met.run_id.clone() });
    }

    /// Records that the connection for commands is down. Until this connection is up again, other
    /// connections may lead to any server. One of them may be the first to reach the new primary.
    pub(crate) fn clear_command_server(&self) {
        let server = self.leader.read(|it| it.server.clone());
        self.leader.set(Leader { server, run_id: None });
    }

    /// Waits until commands go to another server than `met`, the server of this connection. For
    /// example, a DNS name has changed since this connection was made.
    pub(crate) async fn until_moved(&self, met: &About) -> Ending {
        let Some(own) = &met.run_id else { return pending().await };
        let until_moved = |leader: &Leader| leader.is_another(own);
        let from_the_start = self.leader.read(until_moved);
        self.reached_other_server.store(from_the_start, Ordering::Relaxed);
        if from_the_start {
            // The servers differ from the start. After a pause, the next connection may reach the
            // server that commands go to.
            sleep(EACH).await;
        }
        self.leader.until(|it| until_moved(it).then_some(Ending::Astray)).await
    }

    /// Waits until the server at `address`, to which `wire` leads, is no longer the primary.
    pub(crate) async fn is_gone(&self, address: &Address, wire: &Wire, met: &About) -> Ending {
        if !self.may_change() {
            self.may_have_moved(met).await;
            return Ending::Demoted;
        }
        tokio::select! {
            biased;
            () = self.suspicions.notified() => Ending::Demoted,
            other = self.leaves(slice::from_ref(address)) => Ending::Moved(other.to_string()),
            () = self.is_demoted(wire) => Ending::Demoted,
        }
    }

    /// Waits until it is time to resolve a single address again. At a failover, a managed service
    /// moves its address to the new primary. If the address has never led to a primary, the client
    /// stays at the replica, because the user wants a replica.
    async fn may_have_moved(&self, met: &About) {
        let is_new_here =
            met.role == Some(Role::Replica) && self.met_primary.load(Ordering::Relaxed);
        if !is_new_here {
            self.suspicions.notified().await;
        }
        // During this pause, the replica itself rejects each write.
        let since = self.replica_since.lock().map(|at| at.elapsed());
        sleep(spread((since.unwrap_or_default() / PART).clamp(EACH, SELDOM))).await;
    }

    /// Records a new connection to the server `about`.
    pub(crate) fn connected(&self, about: &About) {
        match about.role {
            Some(Role::Replica) => {
                self.replica_since.lock().get_or_insert_with(Instant::now);
            }
            _ => *self.replica_since.lock() = None,
        }
        if about.role == Some(Role::Primary) {
            self.met_primary.store(true, Ordering::Relaxed);
        }
        let mut reached = self.reached.lock();
        if self.sentinels.is_some() && reached.len() < MOST {
            reached.insert(about.server.clone());
        }
    }

    /// Returns whether the address may change, and a primary has already accepted the login.
    pub(crate) fn has_accepted_login(&self) -> bool {
        self.may_change() && self.met_primary.load(Ordering::Relaxed)
    }

    /// Records a rejection, which may show that the server is no longer the primary.
    pub(crate) fn refused(&self, refusal: &ServerError) {
        let suspicious = match self.may_change() {
            true => cannot_be_primary(refusal),
            false => is_read_only(refusal) && self.met_primary.load(Ordering::Relaxed),
        };
        if suspicious {
            self.suspicions.notify_waiters();
        }
    }

    /// If the URL names several servers, polls the role of the server until it is demoted. With
    /// sentinels, no poll is needed, because the sentinels report a demotion.
    async fn is_demoted(&self, wire: &Wire) {
        if !matches!(self.place, Place::Among(_)) {
            return pending().await;
        }
        loop {
            sleep(EACH).await;
            // The connection already uses RESP3, so this command changes nothing and returns the
            // role. If no reply comes, the watch of the connection ends the connection.
            if let Ok(Value::Map(facts)) = wire.call(cmd("HELLO").arg(3)).await
                && let Ok(about) = about::greeted(&facts)
                && about::must_be_primary(&about).is_err()
            {
                return;
            }
        }
    }
}

impl fmt::Display for PrimaryDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}
