//! Keeps one connection up: carries its bytes while it lives, and connects again when it is lost.
//!
//! The supervisor is a task, and ends with its runtime. The next caller then starts another
//! supervisor.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{Notify, oneshot},
    task::{unconstrained, yield_now},
    time::{Instant, sleep},
};

use crate::{
    backoff::Backoff,
    connect_failure::ConnectFailure,
    connection::{
        dial::{Dialer, Dialled, Purpose},
        report::Reports,
        watcher::Watcher,
    },
    failure::Failure,
    health::About,
    mutex::Mutex,
    pipe::{
        ending::Ending,
        wire::{OnPush, Wire},
    },
};

/// The first and the longest pause before reconnecting.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The state of a connection, shared with its callers.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The connection, while it is up.
    pub(super) live: Mutex<Option<Arc<Wire>>>,
    /// Notified when `live` changes, when an attempt has failed, and when the supervisor ends. It
    /// wakes waiters in the order of their calls.
    pub(crate) changed: Notify,
    /// Whether a supervisor runs.
    pub(super) supervised: AtomicBool,
    /// How many connections were made so far.
    connections: AtomicU64,
    /// How many connections have ended. This count rises before `live` changes.
    losses: AtomicU64,
    /// The server of the last connection. Before the first connection, the place that the URL
    /// names.
    server: Mutex<String>,
    /// Why the connection is down.
    connect_failure: Mutex<Option<Outage>>,
    /// The last known state of the server.
    about: Mutex<About>,
    /// What was logged about this connection, also by earlier supervisors.
    reports: Mutex<Reports>,
}

/// Why there is no connection.
#[derive(Debug)]
struct Outage {
    words: String,
    /// The rejection, if the server rejected the login.
    rejection: Option<Failure>,
}

impl Outage {
    /// Returns the outage after a lost connection. Returns `None` after a demotion, because the
    /// reply that showed the demotion explains more.
    fn lost(ending: &Ending) -> Option<Self> {
        let by_words = matches!(ending, Ending::Demoted);
        let words = || format!("connection lost: {ending}");
        (!by_words).then(|| Self { words: words(), rejection: None })
    }

    fn connect_failed(failure: ConnectFailure, dialer: &Dialer) -> Self {
        let rejection = failure.rejection(&dialer.discovery().to_string());
        Self { words: dialer.error(failure).to_string(), rejection }
    }
}

impl State {
    /// Returns why the connection is down, if that is known.
    pub(crate) fn connect_failure(&self) -> Option<String> {
        self.connect_failure.lock().as_ref().map(|outage| outage.words.clone())
    }

    /// Returns the rejection of the login, if that is why the connection is down.
    pub(crate) fn rejection(&self) -> Option<Failure> {
        self.connect_failure.lock().as_ref()?.rejection.clone()
    }

    /// Returns the last known state of the server.
    pub(crate) fn about(&self) -> About {
        self.about.lock().clone()
    }

    /// Returns the server of the last connection.
    pub(crate) fn server(&self) -> String {
        self.server.lock().clone()
    }

    fn set_command_server(&self, server: &str) {
        server.clone_into(&mut self.server.lock());
    }

    /// Returns how often the connection was lost and restored.
    pub(crate) fn reconnects(&self) -> u64 {
        self.connections.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Returns how often the connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Returns for how long the connection has been down.
    pub(crate) fn lost_for(&self) -> Option<Duration> {
        self.reports.lock().absence(Instant::now())
    }

    /// Returns whether there was a connection before.
    fn was_connected(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    fn connected(&self, about: &About) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.note_server(about);
    }

    pub(crate) fn note_server(&self, about: &About) {
        self.about.lock().clone_from(about);
    }

    fn note(&self, failure: Option<Outage>) {
        *self.connect_failure.lock() = failure;
    }
}

pub(super) struct Supervisor {
    state: Arc<State>,
    dialer: Arc<Dialer>,
    watcher: Arc<dyn Watcher>,
    command_timeout: Duration,
    backoff: Backoff,
}

impl Supervisor {
    /// Returns a supervisor for the connection of `state`, or `None` if one runs. Clears the
    /// failure that an earlier supervisor recorded, because its cause may be gone.
    pub(crate) fn of(
        state: &Arc<State>,
        dialer: &Arc<Dialer>,
        watcher: &Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Option<Self> {
        if state.supervised.swap(true, Ordering::AcqRel) {
            return None;
        }
        state.note(None);
        state.set_command_server(&dialer.discovery().to_string());
        Some(Self {
            state: Arc::clone(state),
            dialer: Arc::clone(dialer),
            watcher: Arc::clone(watcher),
            command_timeout,
            backoff: Backoff::default(),
        })
    }

    /// Keeps the connection up until the sender of `cut` is dropped, and polls sentinels for the
    /// primary. Starts with the connection `first`, if the caller passes one. Without `first`, there
    /// was no connection yet, or the runtime of the last connection has ended.
    pub(crate) async fn run(self, first: Option<Dialled>, cut: oneshot::Receiver<Infallible>) {
        let dialer = Arc::clone(&self.dialer);
        tokio::select! {
            biased;
            never = self.keep_up(first) => match never {},
            never = dialer.discovery().keep_informed() => match never {},
            () = until_cut(cut) => {}
        }
    }

    async fn keep_up(mut self, first: Option<Dialled>) -> Infallible {
        let mut dialled = match first {
            Some(first) => {
                self.state.set_command_server(&first.address.to_string());
                first
            }
            None => {
                self.state.reports.lock().begin(Instant::now());
                self.dial_again().await
            }
        };
        loop {
            let since = Instant::now();
            let ending = self.run_connection(dialled).await;
            // A connection that ends soon does not count as a success, so the backoff continues.
            let was_good = since.elapsed() > PAUSES.1;
            if was_good {
                self.backoff = Backoff::default();
            }
            self.lost(&ending);
            if !(was_good && matches!(ending, Ending::Moved(_))) {
                self.back_off().await;
            }
            dialled = self.dial_again().await;
        }
    }

    /// Carries the bytes of one connection until the connection ends.
    async fn run_connection(&self, Dialled { wire, driver, address, about }: Dialled) -> Ending {
        self.state.note(None);
        if self.watcher.leads() {
            self.dialer.discovery().set_command_server(&about);
        }
        self.watcher.connected(&about);
        self.state.connected(&about);
        // Called before any caller can use the connection, so that the watcher resets its state
        // before the first reply comes.
        self.watcher.up();
        *self.state.live.lock() = Some(Arc::clone(&wire));
        self.state.changed.notify_waiters();
        let gives_up = wire.gives_up(self.command_timeout);
        let discovery = self.dialer.discovery();
        let is_gone = discovery.is_gone(&address, &wire, &about);
        let until_moved = async {
            match self.watcher.leads() {
                true => pending().await,
                false => discovery.until_moved(&about).await,
            }
        };
        // `FuturesUnordered` polls each of these three futures only when it is woken. `select!`
        // alone would poll all three with each reply.
        let mut reasons: FuturesUnordered<_> =
            [gives_up.boxed(), is_gone.boxed(), until_moved.boxed()].into_iter().collect();
        // The driver is polled first, so that it reads the received bytes before the server counts
        // as silent.
        let ending = tokio::select! {
            biased;
            ending = driver => ending,
            Some(ending) = reasons.next() => {
                wire.set_ending(&ending);
                ending
            }
            never = self.watcher.serve(&wire) => match never {},
        };
        self.state.note(Outage::lost(&ending));
        self.is_down();
        ending
    }

    /// Connects, retrying until it succeeds.
    async fn dial_again(&mut self) -> Dialled {
        loop {
            match self.dialer.dial(&purpose(&self.watcher)).await {
                Ok(dialled) => {
                    self.state.set_command_server(&dialled.address.to_string());
                    self.back();
                    return dialled;
                }
                Err(failure) => {
                    self.state.note(Some(Outage::connect_failed(failure, &self.dialer)));
                    self.state.changed.notify_waiters();
                    self.still_lost();
                }
            }
            self.back_off().await;
        }
    }

    /// Waits before the next attempt, longer each time. A new address of the server ends the wait.
    async fn back_off(&mut self) {
        let pause = self.backoff.next(PAUSES);
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = self.dialer.discovery().until_changed() => self.backoff = Backoff::default(),
        }
    }

    fn lost(&mut self, cause: &Ending) {
        let (server, traffic) = (self.state.server(), self.watcher.traffic());
        self.dialer.lost(&server, traffic);
        let losses = self.state.reports.lock().lost(Instant::now());
        match losses {
            Some(losses) => tracing::warn!(target: "leasehold",
                server, traffic, %cause, losses, "connection lost"),
            None => tracing::debug!(target: "leasehold",
                server, traffic, %cause, "connection lost"),
        }
    }

    fn still_lost(&mut self) {
        let (server, traffic) = (self.state.server(), self.watcher.traffic());
        let cause = self.state.connect_failure().unwrap_or_default();
        let rejected = self.state.rejection().is_some();
        let lost_for = self.state.reports.lock().still_lost(Instant::now(), rejected);
        match lost_for {
            Some(lost_for) if self.state.was_connected() => tracing::warn!(target: "leasehold",
                server, traffic, cause, ?lost_for, "connection still lost"),
            Some(tried_for) => tracing::warn!(target: "leasehold",
                server, traffic, cause, ?tried_for, "connection not established yet"),
            None => {
                tracing::debug!(target: "leasehold", server, traffic, cause, "connection still lost");
            }
        }
    }

    fn back(&mut self) {
        let (server, traffic) = (self.state.server(), self.watcher.traffic());
        let after = self.state.reports.lock().back(Instant::now());
        match after {
            Some(after) if self.state.was_connected() => tracing::warn!(target: "leasehold",
                server, traffic, ?after, "connection restored"),
            Some(after) => tracing::warn!(target: "leasehold",
                server, traffic, ?after, "connection established"),
            None => tracing::debug!(target: "leasehold", server, traffic, "connection established"),
        }
    }

    fn is_down(&self) {
        let mut live = self.state.live.lock();
        if live.is_some() {
            self.state.losses.fetch_add(1, Ordering::Release);
            *live = None;
            drop(live);
            self.state.reports.lock().begin(Instant::now());
            if self.watcher.leads() {
                self.dialer.discovery().clear_command_server();
            }
            self.watcher.down();
        }
    }
}

/// Waits until the sender of `cut` is dropped. Then lets the runtime receive the replies that have
/// already come to this machine, so that they reach their callers.
async fn until_cut(cut: oneshot::Receiver<Infallible>) {
    // A connection that receives without a pause uses up the coop budget of this task.
    drop(unconstrained(cut).await);
    yield_now().await;
}

/// Runs when the runtime or the link is dropped, and after a cut.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.is_down();
        self.state.supervised.store(false, Ordering::Release);
        // Wakes the callers that wait for the connection, so that one of them starts the next
        // supervisor.
        self.state.changed.notify_waiters();
    }
}

/// Returns the purpose of the connections that `watcher` uses.
pub(super) fn purpose(watcher: &Arc<dyn Watcher>) -> Purpose {
    let (commands, watcher) = (watcher.leads(), Arc::downgrade(watcher));
    let on_push: OnPush = Arc::new(move |info| {
        if let Some(watcher) = watcher.upgrade() {
            watcher.pushed(info);
        }
    });
    Purpose { on_push, commands }
}
