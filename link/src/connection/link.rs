//! A connection that is restored when it is lost.
//!
//! A command waits for the connection for at most the command timeout. A sent command has no timer
//! of its own, because the timer would take 6 % of the instructions of an acquisition and its
//! release. Instead, `watch.rs` ends a connection whose server does not reply, and all commands on
//! that connection fail. If a command got no reply, the link never sends the command again, because
//! only the caller knows whether a second execution is safe.

use std::{
    convert::Infallible,
    fmt, slice,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{Cmd, Value};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::yield_now,
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
    mutex::Mutex,
    pipe::wire::Wire,
};

/// One supervised connection.
pub(crate) struct Link {
    pub(crate) state: Arc<State>,
    dialer: Arc<Dialer>,
    watcher: Arc<dyn Watcher>,
    /// Dropping the sender ends the supervisor.
    supervisor: Mutex<Option<oneshot::Sender<Infallible>>>,
    command_timeout: Duration,
    /// Whether calls fail at once if the server rejects the login.
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
            // `live` returns as soon as the supervisor has run and set `state.live`.
            Ok(()) => link.live().await.map(drop).map_err(passing),
            Err(failure) => Err(passing(failure)),
        };
        connected.map_err(|failure| link.dialer.error(failure))?;
        Ok(link)
    }

    /// Connects in the background. If the caller has no runtime, connecting starts at the first
    /// call. Until the connection is up, the server counts as unreachable.
    pub(crate) fn connect_lazy(
        dialer: Arc<Dialer>,
        watcher: Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Self {
        let link = Self::new(dialer, watcher, command_timeout);
        // The error is ignored: without a runtime, the next caller starts the supervisor.
        drop(link.keep_up());
        link
    }

    /// Makes no connection yet. The first call connects.
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        watcher: Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Self {
        let supervisor = Mutex::default();
        let (state, reports_rejection) = (Arc::default(), false);
        Self { state, dialer, watcher, supervisor, command_timeout, reports_rejection }
    }

    /// Lets calls fail at once if the server rejects the login. By default, calls wait until a
    /// login succeeds. For a node of a cluster, this wait does not help: other nodes have accepted
    /// the login, so this node probably lacks the user.
    pub(crate) fn reporting_rejection(mut self) -> Self {
        self.reports_rejection = true;
        self
    }

    /// Starts a supervisor on the runtime of the caller, if none runs. A request that finds no
    /// connection calls this function.
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
        // The mutex is locked before the supervisor starts. Without this order, the supervisor
        // could end at once, and the next supervisor could store its sender first. The older sender
        // would then replace the newer one.
        let mut current = self.supervisor.lock();
        if let Some(supervisor) = Supervisor::of(state, dialer, watcher, self.command_timeout) {
            let (sender, cut) = oneshot::channel();
            *current = Some(sender);
            runtime.spawn(supervisor.run(first, cut));
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

    /// Reports rejections to the discovery, because a rejection may show that the server is
    /// demoted.
    fn check_rejections(&self, wire: &Arc<Wire>, replies: &[Value]) {
        for reply in replies {
            let Value::ServerError(refusal) = reply else { continue };
            // While this reply was in flight, the link may have connected to another server. The
            // rejection does not concern the new server.
            let is_live = |live: &Arc<Wire>| Arc::ptr_eq(live, wire);
            if self.state.live.lock().as_ref().is_some_and(is_live) {
                self.dialer.discovery().refused(refusal);
            }
        }
    }

    /// Waits until the connection is up, for at most the command timeout.
    pub(crate) async fn ready(&self) -> Result<(), Failure> {
        self.live().await.map(drop)
    }

    /// Waits until the connection is up, or the first attempt has failed.
    pub(crate) async fn tried(&self) {
        loop {
            let changed = self.state.changed.notified();
            let is_known = self.is_up() || self.state.connect_failure().is_some();
            if is_known || self.keep_up().is_err() {
                return;
            }
            changed.await;
            yield_now().await;
        }
    }

    /// Ends the connection, even if it is healthy. Calls fail if their replies have not come yet.
    /// The next call connects again.
    pub(crate) fn cut(&self) {
        drop(self.supervisor.lock().take());
    }

    /// Returns the connection. While the connection is down, waits for it.
    async fn live(&self) -> Result<Arc<Wire>, Failure> {
        // Without a runtime, the timers below would panic.
        Handle::try_current().map_err(|_| Failure::NoRuntime)?;
        if let Some(wire) = &*self.state.live.lock() {
            return Ok(Arc::clone(wire));
        }
        // The rare wait is boxed, so that the future of every request stays small.
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
            // A runtime that shuts down drops the supervisor, which wakes this task. The yield lets
            // the runtime drop this task, too.
            yield_now().await;
        }
    }

    /// Returns the failure of requests while the connection is down.
    pub(crate) fn failure(&self) -> Failure {
        self.rejection().unwrap_or_else(|| self.unreachable())
    }

    fn unreachable(&self) -> Failure {
        let failure = self.state.connect_failure();
        Failure::unreachable(failure.unwrap_or_else(|| "still connecting".into()))
    }

    /// Returns the rejection of the login, if this link reports it to calls.
    fn rejection(&self) -> Option<Failure> {
        self.state.rejection().filter(|_| self.reports_rejection)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.live.lock().is_some()
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
        // This task still runs while the runtime drops all sleeping tasks, such as the supervisor.
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

    /// Former bug: when the topology changed, releases whose replies had come were in doubt.
    #[tokio::test]
    async fn reply_that_came_before_the_cut_reaches_its_caller() {
        let (redis, watcher) = (Redis::start(), Arc::<Counter>::default());
        let (link, ping) = (link(&redis, &watcher).await, cmd("PING"));
        let mut asked = Box::pin(link.call(&ping));
        assert!((&mut asked).now_or_never().is_none());
        yield_now().await;
        // The reply comes while this thread runs no task.
        std::thread::sleep(Duration::from_millis(300));
        link.cut();
        assert!(asked.await.is_ok());
        let ended = async {
            while watcher.seen() != (1, 1) {
                yield_now().await;
            }
        };
        timeout_at(Instant::now() + Duration::from_secs(5), ended).await.unwrap();
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
        assert_eq!((watcher.seen(), link.state.reconnects()), ((2, 1), 1));
    }
}
