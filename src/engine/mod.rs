//! The parts that all primitives share. They do not depend on keys, scripts or connections.
//!
//! ```text
//! acquire                   acquisitions, with the waiting loop
//! events · held · requests  events of the store; shares in a hold; requests that acquire nothing
//! release                   hand-offs and releases
//! introduction              what the client publishes about itself
//! watchdog                  the renewal of grants
//! contention                the waiters, the holders and the request slot of each name
//! core                      shared state: store, clock, counters, pending releases, notifier
//! pending                   the pending releases
//! hold                      a grant while it lasts
//! grant · retry · limits    the grant of the store; retries; the timeouts of calls
//! recent                    the recent releases
//! clock · timing · counters · tasks
//! ```
//!
//! A module imports only modules that are below this module in the list: `tests/tidy.rs` reads the
//! imports. This file creates the [`Engine`], to which the modules above `introduction` add
//! methods.
//!
//! One background task, started in [`Engine::revive`], runs the loops of the watchdog, of pending
//! releases and of introductions. The task does not keep the engine alive. The task ends when the
//! engine is dropped and no release is pending.
//!
//! # Locks
//!
//! Locks are taken in this order. The first is `listening` of `contention`. The second is `entries`
//! of `contention` or the plan of the watchdog, never both. The last is the state of a hold, an
//! inbox, the pending releases or the recent releases. The store may hold its own lock while it
//! sends an event to the engine. So the engine calls no function of the store under these locks,
//! except under `listening`.

pub(crate) mod acquire;
pub(crate) mod clock;
mod contention;
mod core;
mod counters;
mod events;
pub(crate) mod grant;
pub(crate) mod held;
mod hold;
mod introduction;
pub(crate) mod limits;
mod pending;
mod recent;
pub(crate) mod release;
mod requests;
mod retry;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod stress;
pub(crate) mod tasks;
pub(crate) mod timing;
mod watchdog;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{OptionFuture, join3};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    time::{Instant, sleep, timeout, timeout_at},
};

use self::{
    acquire::pacing::Lines,
    clock::Clock,
    contention::NameRegistry,
    core::Core,
    introduction::introduce,
    limits::{Limits, within},
    pending::PendingReleases,
    recent::RecentReleases,
    release::background::complete_all,
    tasks::{OnDrop, Spawner},
    timing::{HEALTH_LIMIT, LONGEST_TIMEOUT, RETURN_LOOKS},
    watchdog::Watchdog,
};
#[cfg(test)]
use crate::store::redis::memory::MemoryStore;
use crate::{
    domain::{ClientInfo, Failure, Health, Identity, LogThrottle, LostReason, Name, Stats},
    error::Error,
    metrics,
    store::{Event, RedisStore, Subscriber},
};

/// The engine of one client, over one store.
pub(crate) struct Engine {
    pub(crate) identity: Identity,
    core: Arc<Core>,
    contention: Arc<NameRegistry>,
    watchdog: Arc<Watchdog>,
    lines: Lines,
    cannot_ask: LogThrottle,
    not_replicated: LogThrottle,
    spawner: Spawner,
    pub(crate) limits: Limits,
    /// The client info that this client publishes, if any.
    info: Option<Arc<ClientInfo>>,
    /// Whether the background task runs.
    runs: Arc<AtomicBool>,
    /// The number of the next grant.
    grants: AtomicU64,
}

impl Engine {
    /// Creates the engine of a client of `server`, on a machine that is never suspended.
    #[cfg(test)]
    pub(crate) fn on(server: &MemoryStore, client: &str) -> Arc<Self> {
        let awake = Clock::with(|| Duration::ZERO);
        Self::new(Identity::of(client), Arc::new(server.store(client)), awake, tasks::here())
    }

    #[cfg(test)]
    pub(crate) fn new(
        identity: Identity,
        store: Arc<RedisStore>,
        clock: Clock,
        spawner: Spawner,
    ) -> Arc<Self> {
        Self::within(Limits::default(), None, identity, store, clock, spawner)
    }

    /// Creates the engine of a client that waits for its store within `limits`.
    pub(crate) fn within(
        limits: Limits,
        info: Option<ClientInfo>,
        identity: Identity,
        store: Arc<RedisStore>,
        clock: Clock,
        spawner: Spawner,
    ) -> Arc<Self> {
        metrics::describe();
        let core = Arc::new(Core {
            store,
            clock,
            counters: Arc::default(),
            pending: PendingReleases::default(),
            recent: RecentReleases::default(),
            moves: AtomicU64::new(0),
            waited_for: Arc::default(),
            asking: AtomicUsize::new(0),
            store_recovered: Notify::new(),
            notifier: Notify::new(),
            open: Semaphore::new(0),
            used: Semaphore::new(0),
        });
        let contention = NameRegistry::new(&core);
        let watchdog = Watchdog::new(&core, &contention);
        let engine = Arc::new(Self {
            identity,
            core,
            contention,
            watchdog,
            lines: Lines::default(),
            cannot_ask: LogThrottle::default(),
            not_replicated: LogThrottle::default(),
            spawner,
            limits,
            info: info.map(Arc::new),
            runs: Arc::default(),
            grants: AtomicU64::new(0),
        });
        let subscriber: Arc<dyn Subscriber<Event>> = Arc::<Self>::clone(&engine);
        engine.core.store.send_to(Arc::downgrade(&subscriber));
        engine
    }

    /// Starts the background tasks of the engine and of its store, unless they already run. Returns
    /// an error if the client is shut down, or if the caller has no runtime.
    pub(crate) fn ready(&self) -> Result<(), Error> {
        if self.core.open.is_closed() {
            return Err(Error::ShutDown);
        }
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        self.core.store.keep_up();
        self.revive();
        Ok(())
    }

    /// Starts the background task on the runtime of the caller, unless the task already runs.
    /// Returns whether the task runs. If the caller has no runtime, or if the runtime of the caller
    /// has ended, the task does not run.
    fn revive(&self) -> bool {
        // Each acquisition calls this function, so the usual case costs only one atomic load.
        let running = self.runs.load(Ordering::Acquire);
        if running || Handle::try_current().is_err() || self.runs.swap(true, Ordering::AcqRel) {
            return self.runs.load(Ordering::Acquire);
        }
        let (runs, contention) = (Arc::clone(&self.runs), Arc::clone(&self.contention));
        let (core, watchdog) = (Arc::clone(&self.core), Arc::clone(&self.watchdog));
        let releases = complete_all(core, Arc::clone(&contention), Arc::clone(&watchdog));
        // A random id of a client is always a valid name.
        let client = Name::new(self.identity.client()).ok();
        let introductions = self.info.as_ref().zip(client).map(|(info, client)| {
            let (core, watchdog) = (Arc::clone(&self.core), Arc::clone(&self.watchdog));
            introduce(core, watchdog, Arc::clone(info), client)
        });
        let introductions = OptionFuture::from(introductions);
        let all = join3(watchdog.run(), releases, introductions);
        let ends = OnDrop::new(move || {
            runs.store(false, Ordering::Release);
            contention.wake_all_waiters();
        });
        (self.spawner)(Box::pin(async move {
            let _ends = ends;
            all.await;
        }));
        self.runs.load(Ordering::Acquire)
    }

    /// Sends a health check, and returns the health of the client and of the store.
    pub(crate) async fn health(&self) -> Health {
        let start = Instant::now();
        let looked = match Handle::try_current() {
            Ok(_) => within(HEALTH_LIMIT, async { Ok(self.core.store.check().await) }).await,
            Err(_) => Err(Failure::NoRuntime),
        };
        let round_trip = match &looked {
            Ok(about) if about.nodes.is_empty() => about.failure.is_none().then(|| start.elapsed()),
            Ok(about) => about.nodes.iter().filter_map(|node| node.round_trip).max(),
            Err(_) => None,
        };
        let unavailable_reason = match &looked {
            _ if self.core.open.is_closed() => Some(LostReason::ShutDown.to_string()),
            Ok(about) => about.unavailable_reason(),
            Err(failure) => Some(failure.to_string()),
        };
        let (commands_up, messages_up) = self.core.store.are_up();
        let holds_in_doubt = self.watchdog.holds().iter().filter(|hold| hold.is_in_doubt()).count();
        Health {
            commands_up,
            messages_up,
            round_trip,
            unavailable_reason,
            findings: self.core.store.findings(),
            holds_in_doubt,
            ..Health::of(looked.unwrap_or_default())
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.core.counters.read(self.core.store.reconnects())
    }

    /// Pauses for `pause`, or until a connection to the store is up.
    async fn wait_for_store(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.core.store_recovered.notified() => {}
        }
    }

    /// Shuts the client down within `max_wait`. Rejects new acquisitions, waits until holds and
    /// requests in flight end, revokes the remaining holds, and completes pending releases. Returns
    /// the number of revoked holds, and the number of releases that are not completed.
    pub(crate) async fn shut_down(&self, max_wait: Duration) -> (usize, usize) {
        let start = Instant::now();
        let max_wait = max_wait.min(LONGEST_TIMEOUT);
        self.core.open.close();
        self.contention.close();

        if Handle::try_current().is_err() {
            // Without a runtime there are no timers, so this function cannot wait.
            return (self.take_back_all(), self.incomplete());
        }
        self.revive();
        let returned = timeout(max_wait / 2, self.all_returned()).await;
        let taken = if returned.is_ok() { 0 } else { self.take_back_all() };
        let flushed = timeout_at(start + max_wait, self.all_completed()).await;
        let left = if flushed.is_ok() { 0 } else { self.incomplete() };
        (taken, left)
    }

    /// Returns the number of releases that are not completed. A request in flight counts as one,
    /// because the store may have granted the request.
    fn incomplete(&self) -> usize {
        self.core.asking() + self.core.pending.queued()
    }

    /// Waits until every background release is completed.
    #[cfg(feature = "blocking")]
    pub(crate) async fn releases_completed(&self) {
        self.core.pending.all_completed().await;
    }

    async fn all_returned(&self) {
        // `asking` is read before `held`, because a request that ends between the two reads has
        // become a hold or a pending release.
        while self.core.asking() > 0 || self.core.counters.held() > 0 {
            sleep(RETURN_LOOKS).await;
        }
    }

    async fn all_completed(&self) {
        while self.core.asking() > 0 {
            sleep(RETURN_LOOKS).await;
        }
        self.core.pending.all_completed().await;
    }

    /// Ends and releases every hold.
    fn take_back_all(&self) -> usize {
        self.watchdog.holds().iter().filter(|hold| self.take_back(hold)).count()
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.contention.is_idle() && self.watchdog.watched() == 0 && self.core.pending.queued() == 0
    }
}

/// Shows only the id and two counts, because users print clients in logs and in their own types.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("client", &self.identity.client())
            .field("held", &self.core.counters.held())
            .field("owed", &self.core.pending.queued())
            .finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.used.close();
    }
}
