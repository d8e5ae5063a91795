//! Machinery that all primitives share: no keys, no scripts, no connections.
//!
//! ```text
//! acquire ──▶ turns ──▶ store      THE waiting loop, and who may ask
//!    │          └─────▶ wakeups    when to ask again
//!    ▼
//!  hold ──▶ keeper ──▶ store       a grant while it lasts, kept alive
//!    │
//!  held ──▶ releases ─▶ store      shares in it; given back, awaited or not
//! ```
//!
//! Two background tasks, both started in [`Engine::ready`]: the keeper's and the
//! releases'. Neither holds the engine; they end when it is dropped, the
//! releases' after everything owed is settled.

pub(crate) mod acquire;
pub(crate) mod clock;
mod courtesy;
pub(crate) mod held;
pub(crate) mod hold;
mod keeper;
pub(crate) mod limits;
mod news;
mod persist;
mod releases;
#[cfg(test)]
mod simulation;
mod standing;
pub(crate) mod stats;
pub(crate) mod tasks;
mod turns;
mod wakeups;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    task::AbortHandle,
    time::{Instant, timeout, timeout_at},
};

use self::{
    clock::Clock,
    courtesy::Courtesy,
    hold::Hold,
    keeper::Keeper,
    limits::{Limits, within},
    news::News,
    persist::{Given, persist},
    releases::{Debt, Releases, recount},
    stats::{Counters, Stats},
    tasks::Spawner,
    turns::Turns,
    wakeups::Hub,
};
use crate::{
    domain::{Failure, GivenBack, Holder, Identity, LostReason, Name, Others, Owner},
    error::Error,
    store::{Answer, Sleepers, Store},
};

/// More patience than any clock can count to is as good as this.
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// One client's machinery over one store.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) identity: Identity,
    store: Arc<dyn Store>,
    clock: Clock,
    counters: Arc<Counters>,
    hub: Arc<Hub>,
    /// Kept for the store, which only knows where it is.
    _news: Arc<News>,
    turns: Arc<Turns>,
    keeper: Arc<Keeper>,
    releases: Arc<Releases>,
    courtesy: Arc<Courtesy>,
    spawner: Spawner,
    pub(crate) limits: Limits,
    running: Mutex<Vec<AbortHandle>>,
    /// How many grants there were: each has a number.
    grants: AtomicU64,
    closed: AtomicBool,
    closing: Notify,
}

impl Engine {
    #[cfg(test)]
    pub(crate) fn new(
        identity: Identity,
        store: Arc<dyn Store>,
        clock: Clock,
        spawner: Spawner,
    ) -> Arc<Self> {
        Self::within(Limits::default(), identity, store, clock, spawner)
    }

    /// A client's machinery that waits for its store within `limits`.
    pub(crate) fn within(
        limits: Limits,
        identity: Identity,
        store: Arc<dyn Store>,
        clock: Clock,
        spawner: Spawner,
    ) -> Arc<Self> {
        let counters = Arc::<Counters>::default();
        let hub = Hub::new(Arc::clone(&store), Arc::clone(&counters));
        let (turns, keeper) = (Turns::new(&hub), Keeper::new(&clock));
        let releases = Arc::<Releases>::default();
        let news = Arc::new(News {
            hub: Arc::clone(&hub),
            turns: Arc::clone(&turns),
            keeper: Arc::clone(&keeper),
            releases: Arc::clone(&releases),
            clock: clock.clone(),
        });
        let told: Arc<dyn Sleepers> = Arc::<News>::clone(&news);
        store.wake(Arc::downgrade(&told));
        Arc::new(Self {
            identity,
            turns,
            hub,
            _news: news,
            keeper,
            releases,
            courtesy: Courtesy::new(&clock),
            store,
            clock,
            counters,
            spawner,
            limits,
            running: Mutex::default(),
            grants: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        })
    }

    /// Makes sure that the background tasks run, on this runtime if the one they
    /// ran on is gone.
    fn ready(&self) -> Result<(), Error> {
        if self.is_shut() {
            return Err(Error::ShutDown);
        }
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_empty() || running.iter().any(AbortHandle::is_finished) {
            running.iter().for_each(AbortHandle::abort);
            *running = self.start();
        }
        Ok(())
    }

    fn start(&self) -> Vec<AbortHandle> {
        let parts = || (Arc::clone(&self.store), self.clock.clone(), Arc::clone(&self.counters));
        let (store, clock, counters) = parts();
        let hub = Arc::clone(&self.hub);
        let keeper = Arc::clone(&self.keeper).run(store, clock, counters, hub);
        let (store, clock, counters) = parts();
        let courtesy = Arc::clone(&self.courtesy);
        let releases = Arc::clone(&self.releases).run(store, clock, counters, courtesy);
        vec![self.spawner.start(Box::pin(keeper)), self.spawner.start(Box::pin(releases))]
    }

    /// Asks the store about `name` until it answers or patience ends.
    async fn ask<'a, T>(&self, name: &Name, ask: impl Fn() -> Answer<'a, T>) -> Result<T, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let limit = self.limits.question;
        let given = within(limit, self.persist(self.clock.now() + limit, ask)).await;
        given.map(|given| given.answer).map_err(|failure| Error::about(name, failure))
    }

    /// Who holds `name` now.
    pub(crate) async fn holder(&self, name: &Name) -> Result<Option<Holder>, Error> {
        self.ask(name, || self.store.holder(name)).await
    }

    /// How many times `owner` holds `name` now.
    pub(crate) async fn held_by(&self, name: &Name, owner: &Owner) -> Result<u32, Error> {
        self.ask(name, || self.store.held_by(name, owner)).await
    }

    /// Frees `name`, whoever holds it. Returns whether somebody did.
    pub(crate) async fn force_release(&self, name: &Name) -> Result<bool, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        // Asked again it might free somebody who entered meanwhile.
        let freed = within(self.limits.question, self.store.force_release(name)).await;
        freed.map_err(|failure| Error::about(name, failure))
    }

    async fn persist<'a, T>(
        &self,
        until: Instant,
        ask: impl Fn() -> Answer<'a, T>,
    ) -> Result<Given<T>, Failure> {
        persist(&self.clock, until, ask).await
    }

    /// Gives `hold` back, as far as the caller waits for it. The background does
    /// the rest, and looks again if a grant may still be on its way.
    async fn give_back(&self, hold: &Hold, now: Instant) -> Result<GivenBack, Failure> {
        let promise = self.releases.promise(Debt::of(hold));
        let limit = self.limits.release;
        let until = hold.store_ends().min(now + limit);
        let way = hold.way();
        let asked = self.persist(until, || self.store.release(hold.claim(), way));
        let given = within(limit, asked).await?;
        if !hold.is_unsure() {
            promise.kept();
        }
        match given {
            // The question that went unanswered was executed.
            Given { answer: GivenBack::NotHeld { .. }, unsure: true } => {
                Ok(GivenBack::Freed(Others::Nobody))
            }
            Given { answer, .. } => {
                if let GivenBack::Freed(sought) = answer {
                    self.courtesy.note(hold.name(), sought);
                }
                Ok(answer)
            }
        }
    }

    /// Tells the store how many shares `hold` has now.
    async fn tell_count(&self, hold: &Arc<Hold>) -> Result<(), Failure> {
        let promise = self.releases.promise(Debt::Recount { hold: Arc::clone(hold) });
        let limit = self.limits.release;
        let until = hold.store_ends().min(self.clock.now() + limit);
        within(limit, recount(&self.store, &self.clock, hold, None, until)).await?;
        promise.kept();
        Ok(())
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.read(self.store.reconnects())
    }

    fn is_shut(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until the client is shut down.
    async fn is_closed(&self) {
        loop {
            let closing = self.closing.notified();
            if self.is_shut() {
                return;
            }
            closing.await;
        }
    }

    /// Admits nothing new, waits for holds to come back, takes back what is left
    /// and settles what is owed; all of it within `patience`. Returns how many
    /// holds were taken back, and how many releases are left unsettled.
    pub(crate) async fn shut_down(&self, patience: Duration) -> (usize, usize) {
        let start = Instant::now();
        let patience = patience.min(LONGEST_PATIENCE);
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
        self.turns.close();

        if Handle::try_current().is_err() {
            // Without timers there is no waiting.
            return (self.take_back_all(), self.releases.owed());
        }
        let returned = timeout(patience / 2, self.all_returned()).await;
        let taken = if returned.is_ok() { 0 } else { self.take_back_all() };
        let flushed = timeout_at(start + patience, self.releases.all_settled()).await;
        let left = if flushed.is_ok() { 0 } else { self.releases.owed() };
        (taken, left)
    }

    /// Waits until every release that nobody waits for is made.
    #[cfg(feature = "blocking")]
    pub(crate) async fn settled(&self) {
        self.releases.all_settled().await;
    }

    async fn all_returned(&self) {
        const LOOK_AGAIN: Duration = Duration::from_millis(5);
        while self.keeper.watched() > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends every hold and gives it back.
    fn take_back_all(&self) -> usize {
        let mut taken = 0;
        for hold in self.keeper.holds() {
            taken += usize::from(hold.end(LostReason::ShutDown) == LostReason::ShutDown);
            self.keeper.unwatch(hold.id());
            self.turns.left(hold.claim());
            self.releases.owe(Debt::of(&hold));
        }
        taken
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let idle = self.hub.is_idle() && self.turns.is_idle();
        idle && self.keeper.watched() == 0 && self.releases.owed() == 0
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.keeper.close();
        self.releases.close();
    }
}
