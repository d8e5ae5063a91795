//! Where the server is: at one address, at one of several, or where sentinels say.
//!
//! A failover is never followed by a connection: it is cut, even if it is well, and another one
//! is made. Whoever learns that a server is not the primary any more says so here, and
//! all connections to it end.

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
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use super::{
    about,
    connect_failure::{ConnectFailure, cannot_be_primary, is_read_only},
    ending::Ending,
    reach::Reach,
    sentinels::Sentinels,
    settings::Settings,
    target::{Address, Place},
    wire::Wire,
};
use crate::{
    domain::{About, Hazard, Mutex, Role, spread},
    error::Error,
};

/// How often a server with others beside it is asked whether it is the primary still.
const EACH: Duration = Duration::from_secs(1);

/// The longest pause before a connection that leads to a replica is made again, and the part of the
/// time there that it is: thousands of clients may share that server.
const SELDOM: Duration = Duration::from_secs(10);
const PART: u32 = 4;

/// So many addresses are remembered at most.
const MOST: usize = 64;

/// Where one server is, as far as is known.
#[derive(Debug)]
pub(super) struct PrimaryDiscovery {
    place: Place,
    /// Who is asked, if they are to be.
    sentinels: Option<Sentinels>,
    /// Whether there was a primary at all.
    met_primary: AtomicBool,
    /// Since when it has led to a replica, if it did the last time.
    replica_since: Mutex<Option<Instant>>,
    /// Where there was somebody of those that sentinels name.
    reached: Mutex<BTreeSet<String>>,
    /// ReportedPrimary when somebody says that the server is not the primary any more.
    suspicions: Notify,
    /// The server that commands go to: all other connections are to lead there, too.
    leader: watch::Sender<Leader>,
    /// Who else calls itself a primary.
    others: Mutex<Vec<String>>,
    /// Whether the last connection that carries no commands was led to another server than they.
    leads_elsewhere: AtomicBool,
}

/// The server that commands go to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Leader {
    server: String,
    run_id: Option<String>,
}

impl Leader {
    /// Whether it is known to be another than the one that is called `run_id`.
    fn is_another(&self, run_id: &str) -> bool {
        self.run_id.as_ref().is_some_and(|it| it != run_id)
    }
}

impl PrimaryDiscovery {
    /// # Errors
    ///
    /// If there is something wrong with the certificates for sentinels.
    pub(super) fn of(
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

    /// A place, and the sentinels that say where it is.
    pub(super) fn new(place: Place, sentinels: Option<Sentinels>) -> Self {
        let (met_primary, reached) = (AtomicBool::new(false), Mutex::default());
        let replica_since = Mutex::default();
        let (leader, others) = (watch::Sender::default(), Mutex::default());
        let (suspicions, leads_elsewhere) = (Notify::new(), AtomicBool::new(false));
        Self {
            place,
            sentinels,
            met_primary,
            replica_since,
            reached,
            suspicions,
            leader,
            others,
            leads_elsewhere,
        }
    }

    /// Whether it may be at another address by and by, so that only a primary will do.
    pub(super) fn may_change(&self) -> bool {
        !matches!(self.place, Place::At(_))
    }

    /// Where it may be now: at one of these. While this waits somebody must
    /// [keep informed](Self::keep_informed).
    pub(super) async fn now(&self) -> Result<Vec<Address>, ConnectFailure> {
        match &self.sentinels {
            Some(sentinels) => Ok(vec![sentinels.master().await?]),
            None => Ok(self.place.addresses().to_vec()),
        }
    }

    /// Learns where it is, for ever, if that is to be learnt.
    pub(super) async fn keep_informed(&self) -> Infallible {
        match &self.sentinels {
            Some(sentinels) => sentinels.keep_asking().await,
            None => pending().await,
        }
    }

    /// Waits until there is news of where it is.
    pub(super) async fn news(&self) {
        match &self.sentinels {
            Some(sentinels) => sentinels.news().await,
            None => pending().await,
        }
    }

    /// Waits until it is known to be at none of `addresses`.
    pub(super) async fn leaves(&self, addresses: &[Address]) -> Address {
        match (&self.sentinels, addresses) {
            (Some(sentinels), [address]) => sentinels.another_than(address).await,
            _ => pending().await,
        }
    }

    /// What is in the way of knowing where it is.
    pub(super) fn failure(&self) -> Option<ConnectFailure> {
        self.sentinels.as_ref().map(Sentinels::failure)
    }

    /// What can hurt locks, by those who say where it is.
    pub(super) fn hazards(&self) -> Vec<Hazard> {
        let sentinels = self.sentinels.as_ref().map(Sentinels::hazards).unwrap_or_default();
        let others = self.others.lock().clone();
        let others = others.into_iter().map(|address| Hazard::OtherPrimary { address });
        let elsewhere = self.leads_elsewhere.load(Ordering::Relaxed);
        let elsewhere = elsewhere.then_some(Hazard::ServerMismatch);
        sentinels.into_iter().chain(others).chain(elsewhere).collect()
    }

    /// How it came to be looked for at `address`, if others say where it is, and that may be wrong.
    pub(super) fn origin(&self, address: &Address) -> Option<String> {
        let reached = self.reached.lock().contains(&address.to_string());
        self.sentinels.as_ref()?.origin(address, reached)
    }

    /// The addresses at which commands do not go to anybody, if it is one of several.
    pub(super) fn other_addresses(&self) -> Vec<&Address> {
        let Place::Among(addresses) = &self.place else { return Vec::new() };
        let server = self.leader.borrow().server.clone();
        addresses.iter().filter(|it| it.to_string() != server).collect()
    }

    /// Whether somebody at `address` has called itself a primary, too, the last time.
    pub(super) fn is_other(&self, address: &String) -> bool {
        self.others.lock().contains(address)
    }

    /// Notes who else calls itself a primary now.
    pub(super) fn found(&self, others: Vec<String>) {
        *self.others.lock() = others;
    }

    /// Commands go to a server that says this of itself.
    pub(super) fn leads_to(&self, met: &About) {
        self.leads_elsewhere.store(false, Ordering::Relaxed);
        let leader = Leader { server: met.server.clone(), run_id: met.run_id.clone() };
        self.leader.send_if_modified(|known| {
            let changed = *known != leader;
            *known = leader;
            changed
        });
    }

    /// Commands go nowhere for a moment, so that others may be where they will go.
    pub(super) fn leads_nowhere(&self) {
        self.leader.send_modify(|known| known.run_id = None);
    }

    /// Waits until commands go to another server than this connection, which carries none and
    /// leads to one that says this of itself. What names one address may move it in between.
    pub(super) async fn strays(&self, met: &About) -> Ending {
        let Some(own) = &met.run_id else { return pending().await };
        let mut leader = self.leader.subscribe();
        self.leads_elsewhere.store(leader.borrow().is_another(own), Ordering::Relaxed);
        while leader.borrow_and_update().is_another(own) {
            // From the beginning: it is tried again by and by.
            sleep(EACH).await;
            if leader.borrow_and_update().is_another(own) {
                return Ending::Astray;
            }
        }
        // The sender is ours.
        drop(leader.wait_for(|it| it.is_another(own)).await);
        Ending::Astray
    }

    /// Waits until the server at `address`, to which `wire` leads, is not the primary any more.
    pub(super) async fn is_gone(&self, address: &Address, wire: &Wire, met: &About) -> Ending {
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

    /// Waits until it is time to look anew where one address leads to. Services move
    /// theirs at a failover; but one that always led to a replica is what its user wants.
    async fn may_have_moved(&self, met: &About) {
        let is_new_here =
            met.role == Some(Role::Replica) && self.met_primary.load(Ordering::Relaxed);
        if !is_new_here {
            self.suspicions.notified().await;
        }
        // Until then it says itself why it takes nothing.
        let since = self.replica_since.lock().map(|at| at.elapsed());
        sleep(spread((since.unwrap_or_default() / PART).clamp(EACH, SELDOM))).await;
    }

    /// A connection is made to a server that says this of itself.
    pub(super) fn met(&self, about: &About) {
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

    /// Whether one of several servers has let us in before.
    pub(super) fn has_accepted_login(&self) -> bool {
        self.may_change() && self.met_primary.load(Ordering::Relaxed)
    }

    /// The server has refused something: it may not be the primary any more.
    pub(super) fn refused(&self, refusal: &ServerError) {
        let suspicious = match self.may_change() {
            true => cannot_be_primary(refusal),
            false => is_read_only(refusal) && self.met_primary.load(Ordering::Relaxed),
        };
        if suspicious {
            self.suspicions.notify_waiters();
        }
    }

    /// Where nobody tells us, the server is asked.
    async fn is_demoted(&self, wire: &Wire) {
        if !matches!(self.place, Place::Among(_)) {
            return pending().await;
        }
        loop {
            sleep(EACH).await;
            // On a connection that speaks this already it only says what the server is. Whether
            // an answer comes is seen by those who carry the connection.
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
