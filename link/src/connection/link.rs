//! A connection that is restored when it is lost.
//!
//! A command waits for the connection no longer than the command timeout. Once it is sent, it has
//! no timer of its own, which would take 6 % of the instructions of a pair: `watch.rs` ends a
//! connection that does not reply, and all its commands fail. The link never sends an unanswered
//! command again: only the engine knows whether that is safe.

use std::{
    fmt, slice,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{Cmd, Value};
use tokio::{
    runtime::Handle,
    task::{AbortHandle, yield_now},
    time::{Instant, timeout_at},
};

use crate::{
    connect_failure::ConnectFailure,
    connection::{
        dial::{Dialer, Dialled},
        supervisor::{State, Supervisor, purpose},
        watcher::Watcher,
    },
    error::Error,
    failure::Failure,
    health::About,
    mutex::Mutex,
    pipe::wire::Wire,
};

/// One supervised connection.
pub(crate) struct Link {
    state: Arc<State>,
    dialer: Arc<Dialer>,
    watcher: Arc<dyn Watcher>,
    supervisor: Mutex<Option<AbortHandle>>,
    command_timeout: Duration,
    /// Whether callers get a rejected login at once.
    reports_rejection: bool,
}

impl Link {
    /// Connects, and keeps the connection up until the link is dropped.
    pub(crate) async fn connect(
        dialer: Arc<Dialer>,
        watcher: Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let first = dialer.dial(&purpose(&watcher)).await;
        let first = first.map_err(|failure| dialer.error(failure))?;
        let link = Self::new(dialer, watcher, command_timeout);
        let passing = |failure: Failure| ConnectFailure::passing(failure.to_string());
        let connected = match link.supervise(Some(first)) {
            // The supervisor sets `live` as soon as it runs.
            Ok(()) => link.live().await.map(drop).map_err(passing),
            Err(failure) => Err(passing(failure)),
        };
        connected.map_err(|failure| link.dialer.error(failure))?;
        Ok(link)
    }

    /// Connects in the background, now if there is a runtime, else with the first call. Until then
    /// it counts as unreachable.
    pub(crate) fn connect_lazy(
        dialer: Arc<Dialer>,
        watcher: Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Self {
        let link = Self::new(dialer, watcher, command_timeout);
        // Without a runtime the next caller starts the supervisor.
        drop(link.keep_up());
        link
    }

    fn new(dialer: Arc<Dialer>, watcher: Arc<dyn Watcher>, command_timeout: Duration) -> Self {
        let supervisor = Mutex::default();
        let (state, reports_rejection) = (Arc::default(), false);
        Self { state, dialer, watcher, supervisor, command_timeout, reports_rejection }
    }

    /// Lets callers get a rejected login at once. Then they do not wait for a server that rejects
    /// it, because another server may accept it.
    pub(crate) fn reporting_rejection(mut self) -> Self {
        self.reports_rejection = true;
        self
    }

    /// Starts a supervisor on the runtime of the caller, unless one runs. Each call does this.
    ///
    /// # Errors
    ///
    /// If the caller has no runtime.
    pub(crate) fn keep_up(&self) -> Result<(), Failure> {
        match self.state.supervised.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.supervise(None),
        }
    }

    fn supervise(&self, first: Option<Dialled>) -> Result<(), Failure> {
        let runtime = Handle::try_current().map_err(|_| Failure::NoRuntime)?;
        let Self { state, dialer, watcher, .. } = self;
        // Locked before the supervisor starts, so that its handle is stored before that of the next
        // one.
        let mut task = self.supervisor.lock();
        if let Some(supervisor) = Supervisor::of(state, dialer, watcher, self.command_timeout) {
            *task = Some(runtime.spawn(supervisor.run(first)).abort_handle());
        }
        Ok(())
    }

    /// Sends `command` and waits for the reply, which may be a rejection.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let wire = self.live().await?;
        let answer = wire.call(command).await;
        if let Ok(reply) = &answer {
            self.check_rejections(&wire, slice::from_ref(reply));
        }
        answer
    }

    /// Sends all of `commands` at once and waits for the replies.
    pub(crate) async fn call_all(&self, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let wire = self.live().await?;
        let answer = wire.call_all(commands).await;
        if let Ok(replies) = &answer {
            self.check_rejections(&wire, replies);
        }
        answer
    }

    /// Checks the replies for a rejection that shows that the server is no longer the primary.
    fn check_rejections(&self, wire: &Arc<Wire>, replies: &[Value]) {
        for reply in replies {
            let Value::ServerError(refusal) = reply else { continue };
            // Another connection may lead to another server by now.
            let is_live = |live: &Arc<Wire>| Arc::ptr_eq(live, wire);
            if self.state.live.lock().as_ref().is_some_and(is_live) {
                self.dialer.discovery().refused(refusal);
            }
        }
    }

    /// Waits until the connection is up, no longer than a command may take.
    pub(crate) async fn ready(&self) -> Result<(), Failure> {
        self.live().await.map(drop)
    }

    /// Waits until the connection is up, or the first attempt has failed.
    pub(crate) async fn tried(&self) {
        loop {
            let changed = self.state.changed.notified();
            let is_known = self.is_up() || self.connect_failure().is_some();
            if is_known || self.keep_up().is_err() {
                return;
            }
            changed.await;
            yield_now().await;
        }
    }

    /// Ends the connection, healthy or not: callers that wait for a reply get none. The next call
    /// restores it.
    pub(crate) fn cut(&self) {
        if let Some(supervisor) = self.supervisor.lock().take() {
            supervisor.abort();
        }
    }

    /// Returns the connection, and waits for it while it is down.
    async fn live(&self) -> Result<Arc<Wire>, Failure> {
        // Timers need a runtime; without one they would panic.
        Handle::try_current().map_err(|_| Failure::NoRuntime)?;
        if let Some(wire) = &*self.state.live.lock() {
            return Ok(Arc::clone(wire));
        }
        // Boxed, because it is rare: the future of a request that need not wait stays small.
        Box::pin(self.until_live()).await
    }

    async fn until_live(&self) -> Result<Arc<Wire>, Failure> {
        let until = Instant::now() + self.command_timeout;
        loop {
            let changed = self.state.changed.notified();
            if let Some(wire) = &*self.state.live.lock() {
                return Ok(Arc::clone(wire));
            }
            self.keep_up()?;
            if let Some(rejection) = self.rejection() {
                return Err(rejection);
            }
            if timeout_at(until, changed).await.is_err() || Instant::now() >= until {
                return Err(self.failure());
            }
            // A runtime that shuts down drops the supervisor, which notifies this task. Yielding
            // lets the runtime drop this task, too.
            yield_now().await;
        }
    }

    /// The failure of requests while the connection is down.
    pub(crate) fn failure(&self) -> Failure {
        self.rejection().unwrap_or_else(|| self.unreachable())
    }

    fn unreachable(&self) -> Failure {
        let failure = self.connect_failure();
        Failure::unreachable(failure.unwrap_or_else(|| "still connecting".into()))
    }

    /// The rejection of the login, if this link reports it.
    fn rejection(&self) -> Option<Failure> {
        self.state.rejection().filter(|_| self.reports_rejection)
    }

    /// Why the connection is down, if that is known.
    pub(crate) fn connect_failure(&self) -> Option<String> {
        self.state.connect_failure()
    }

    /// For how long the connection has been down.
    pub(crate) fn lost_for(&self) -> Option<Duration> {
        self.state.lost_for()
    }

    /// How often the connection was lost and restored.
    pub(crate) fn reconnects(&self) -> u64 {
        self.state.reconnects()
    }

    /// How often the connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.state.losses()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.live.lock().is_some()
    }

    /// The server of the last connection.
    pub(crate) fn server(&self) -> String {
        self.state.server()
    }

    /// The last known state of the server.
    pub(crate) fn about(&self) -> About {
        self.state.about()
    }

    /// Notes the present state of the server.
    pub(crate) fn note_server(&self, about: &About) {
        self.state.note_server(about);
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("dialer", &self.dialer).finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use redis::cmd;
    use testkit::Redis;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::address::{settings::Settings, url::target};

    #[derive(Debug, Default)]
    struct Counter {
        ups: AtomicUsize,
        downs: AtomicUsize,
    }

    impl Watcher for Counter {
        fn traffic(&self) -> &'static str {
            "tests"
        }

        fn up(&self) {
            self.ups.fetch_add(1, Ordering::SeqCst);
        }

        fn down(&self) {
            self.downs.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Counter {
        fn seen(&self) -> (usize, usize) {
            (self.ups.load(Ordering::SeqCst), self.downs.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn waiting_callers_do_not_delay_a_runtime_shutdown() {
        let (redis, watcher) = (Redis::start(), Arc::<Counter>::default());
        let runtime = Runtime::new().unwrap();
        let link = Arc::new(runtime.block_on(link(&redis, &watcher)));
        let caller = Arc::clone(&link);
        // It runs while the runtime drops all sleeping tasks, including that of the connection.
        runtime.spawn(async move {
            std::thread::sleep(Duration::from_millis(300));
            caller.call(&cmd("PING")).await
        });
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        drop(runtime);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    async fn link(redis: &Redis, watcher: &Arc<Counter>) -> Link {
        let settings = Settings::default();
        let target = target(&redis.url(), &settings).unwrap();
        let dialer = Dialer::new(target, &settings, "tests", vec![]).unwrap();
        let watcher = Arc::<Counter>::clone(watcher);
        Link::connect(Arc::new(dialer), watcher, Duration::from_secs(3)).await.unwrap()
    }

    #[test]
    fn link_restarts_on_the_runtime_of_the_next_call() {
        let (redis, watcher) = (Redis::start(), Arc::<Counter>::default());
        let first = Runtime::new().unwrap();
        let link = first.block_on(link(&redis, &watcher));
        assert_eq!(watcher.seen(), (1, 0));
        drop(first);
        assert_eq!(watcher.seen(), (1, 1));

        // without a runtime there is an error, and no panic
        let asked = link.call(&cmd("PING")).now_or_never().unwrap();
        assert!(matches!(asked, Err(Failure::NoRuntime)), "{asked:?}");
        assert!(matches!(link.keep_up(), Err(Failure::NoRuntime)));

        let next = Runtime::new().unwrap();
        assert!(next.block_on(link.call(&cmd("PING"))).is_ok());
        assert_eq!((watcher.seen(), link.reconnects()), ((2, 1), 1));
    }
}
