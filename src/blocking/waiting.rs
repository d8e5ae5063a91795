//! Runs the clients of the blocking API on a runtime thread, and waits for futures on the thread of
//! the caller.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    task::coop,
    time::timeout,
};

use crate::{
    Client, RunOutcome,
    error::{Error, Result},
    primitives::Loss,
};

/// The longest time for which the runtime thread waits for background releases before it ends. The
/// time begins when the program has dropped the last client, object and guard.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// An async client, and the runtime thread on which it runs. All objects and guards of the client
/// share this core.
#[derive(Debug)]
pub(super) struct Core {
    client: Client,
    running: Arc<Running>,
}

/// A runtime thread, and the clients that run on it.
#[derive(Debug)]
struct Running {
    clients: Vec<Client>,
    handle: Handle,
    /// Sends the clients to the runtime thread when the last core is dropped. The thread then
    /// completes the releases of the clients, and ends.
    last: Option<oneshot::Sender<Vec<Client>>>,
}

impl Core {
    /// Starts a runtime thread, on which `connect` creates the client.
    pub(super) fn start(connect: impl AsyncFnOnce() -> Result<Client>) -> Result<Arc<Self>> {
        let mut cores = Self::start_all(async move || Ok(vec![connect().await?]))?;
        cores.pop().ok_or(Error::NoRuntime)
    }

    /// Starts a runtime thread, on which `connect` creates the clients.
    pub(super) fn start_all(
        connect: impl AsyncFnOnce() -> Result<Vec<Client>>,
    ) -> Result<Vec<Arc<Self>>> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|_| Error::NoRuntime)?;
        let handle = runtime.handle().clone();
        let (last, dropped) = oneshot::channel();
        let thread = thread::Builder::new().name("leasehold".into());
        let run = move || runtime.block_on(until_releases_completed(dropped));
        thread.spawn(run).map_err(|_| Error::NoRuntime)?;
        // If `connect` fails, the function drops `last`, which ends the thread.
        let clients = wait(&handle, connect())??;
        let running = Arc::new(Running { clients, handle, last: Some(last) });
        let core = |client: &Client| {
            Arc::new(Self { client: client.clone(), running: Arc::clone(&running) })
        };
        Ok(running.clients.iter().map(core).collect())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns this core. The macros in `face.rs` call `first` on a [`Core`] or on [`Cores`].
    pub(super) fn first(&self) -> &Self {
        self
    }

    /// Waits for `future`, whose timers and connections run on the runtime thread.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`] if a task of an async runtime calls this method.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        wait(&self.running.handle, future)
    }

    /// Runs `work` on this thread, and then waits for `back`, which releases the hold.
    pub(super) fn run<T, C>(
        &self,
        context: &C,
        work: impl FnOnce(&C) -> T,
        back: impl Future<Output = Option<Loss>>,
    ) -> RunOutcome<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(context)));
        // If a task of an async runtime calls `run`, `wait` drops `back`, and a background task
        // releases the hold.
        let lost = self.wait(back).ok().flatten();
        match done {
            Ok(value) => RunOutcome::of(value, lost),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Drop for Running {
    /// Lets the runtime thread complete the releases, but does not wait for it: the last guard may
    /// be dropped in an async task, which must not block.
    fn drop(&mut self) {
        if let Some(last) = self.last.take() {
            // If the runtime thread has already ended, there is nothing to do. This happens only at
            // the end of the process.
            drop(last.send(std::mem::take(&mut self.clients)));
        }
    }
}

/// Waits until the last core is dropped. Then waits for at most `LAST_RELEASES` until the
/// background releases are completed.
async fn until_releases_completed(dropped: oneshot::Receiver<Vec<Client>>) {
    if let Ok(clients) = dropped.await {
        drop(
            timeout(LAST_RELEASES, join_all(clients.iter().map(Client::releases_completed))).await,
        );
    }
}

/// The cores of several clients, which may run on different runtime threads.
#[derive(Clone, Debug)]
pub(super) struct Cores(Arc<[Arc<Core>]>);

impl Cores {
    pub(super) fn of(cores: impl IntoIterator<Item = Arc<Core>>) -> Self {
        let mut cores: Vec<_> = cores.into_iter().collect();
        cores.sort_by_key(Arc::as_ptr);
        cores.dedup_by_key(|core| Arc::as_ptr(core));
        Self(cores.into())
    }

    /// Waits for `future` on the runtime of the first core.
    ///
    /// Before this wait, starts the background tasks of each client on the runtime of that client.
    /// If `future` started these tasks, they would run on the first runtime, which may end before
    /// the other clients. If a client is shut down, `future` decides whether it needs this client.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        for core in self.0.iter() {
            drop(core.wait(async { core.client().start_background() })?);
        }
        self.first().wait(future)
    }

    pub(super) fn first(&self) -> &Core {
        &self.0[0]
    }
}

fn wait<T>(handle: &Handle, future: impl Future<Output = T>) -> Result<T> {
    if is_inside_async() {
        return Err(Error::InsideAsync);
    }
    let _entered = handle.enter();
    Ok(park_on(future))
}

/// Returns whether the caller is a task of an async runtime. Code inside `spawn_blocking` does not
/// count as a task.
///
/// Tokio has no function for this check. But tokio gives each task a budget of polls
/// (`tokio::task::coop`), and blocking code has no budget. So this function draws from the budget
/// until the budget runs out, which happens only in a task. When the draws are dropped, the budget
/// is restored.
fn is_inside_async() -> bool {
    const MORE_THAN_ANY_BUDGET: usize = 512;
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut draws = Vec::with_capacity(MORE_THAN_ANY_BUDGET);
    let ran_dry = loop {
        match coop::poll_proceed(&mut context) {
            Poll::Pending => break true,
            Poll::Ready(_) if draws.len() == MORE_THAN_ANY_BUDGET => break false,
            Poll::Ready(draw) => draws.push(draw),
        }
    };
    // The drop of a draw restores the budget to its value before that draw. So the first draw must
    // be dropped last.
    while draws.pop().is_some() {}
    ran_dry
}

/// Polls `future` on this thread. Between two polls, the thread sleeps until the waker wakes it.
fn park_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_thread_is_outside_of_an_async_context() {
        assert!(!is_inside_async());
        let core = Core::start(async || Ok(Client::in_memory())).unwrap();
        assert_eq!(core.wait(async { 42 }).unwrap(), 42);
    }

    #[tokio::test]
    async fn async_context_check_uses_no_coop_budget_of_the_task() {
        for _ in 0..3 {
            assert!(is_inside_async());
        }
        assert!(coop::has_budget_remaining());
        tokio::task::yield_now().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn async_context_is_detected_in_spawn_and_not_in_spawn_blocking() {
        assert!(tokio::spawn(async { is_inside_async() }).await.unwrap());
        assert!(!tokio::task::spawn_blocking(is_inside_async).await.unwrap());
        assert!(!tokio::task::block_in_place(is_inside_async));
    }
}
