//! A connection that is made again when it is lost.
//!
//! Commands wait for it while it is away, no longer than the command timeout.
//! A command that was sent and not answered is never sent again here: only the
//! engine knows what that would mean.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, PushInfo, Value};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    dial::{Dialer, Dialled},
    wire::{OnPush, Wire},
};
use crate::{domain::Failure, error::Error};

/// The first and the longest pause before a lost connection is made again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Who is told what happens on a link.
pub(crate) trait Watcher: Send + Sync {
    /// What the link carries.
    fn carries(&self) -> &'static str;
    /// The link is up, for the first time or again.
    fn up(&self) {}
    /// The link is down: what it carried is lost.
    fn down(&self) {}
    /// The server said something without being asked.
    fn pushed(&self, _info: PushInfo) {}
}

/// Watches the link for commands, which has nothing to tell.
#[derive(Debug)]
pub(crate) struct Commands;

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }
}

/// One supervised connection.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    supervisor: AbortHandle,
    command_timeout: Duration,
}

#[derive(Debug)]
struct Shared {
    live: watch::Sender<Option<Arc<Live>>>,
    reconnects: AtomicU64,
    /// Why the last attempt to connect failed.
    obstacle: Mutex<Option<String>>,
}

/// A connection while it is up.
#[derive(Debug)]
struct Live {
    wire: Arc<Wire>,
    cut: Notify,
}

impl Link {
    /// Connects, and keeps the connection up until the link is dropped.
    pub(crate) async fn connect(
        dialer: Arc<Dialer>,
        watcher: Arc<dyn Watcher>,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let dialled = dialer.dial(Some(pushes_to(&watcher))).await?;
        let shared = Arc::new(Shared {
            live: watch::Sender::new(None),
            reconnects: AtomicU64::new(0),
            obstacle: Mutex::default(),
        });
        let supervision = supervise(Arc::clone(&shared), dialer, watcher, dialled);
        let supervisor = tokio::spawn(supervision).abort_handle();
        let link = Self { shared, supervisor, command_timeout };
        // The supervisor puts it there as soon as it runs.
        link.live().await.map_err(|failure| Error::Connect {
            server: "the server".into(),
            reason: failure.to_string(),
        })?;
        Ok(link)
    }

    /// Sends `command` and waits for the reply, refusals among them.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let live = self.live().await?;
        self.awaited(&live, live.wire.call(command)).await
    }

    /// Sends all of `commands` at once and waits for the replies.
    pub(crate) async fn call_all(&self, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let live = self.live().await?;
        self.awaited(&live, live.wire.call_all(commands)).await
    }

    /// Sends a command that subscribes or the like, and waits until that is done or
    /// refused.
    pub(crate) async fn confirm(&self, command: &Cmd) -> Result<Value, Failure> {
        let live = self.live().await?;
        self.awaited(&live, live.wire.confirm(command)).await
    }

    async fn awaited<T>(
        &self,
        live: &Live,
        reply: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let heard_before = live.wire.heard();
        timeout(self.command_timeout, reply).await.unwrap_or_else(|elapsed| {
            // Replies come in order. If nothing came, the other side hangs or is
            // gone, and the kernel may never tell.
            if live.wire.heard() == heard_before {
                live.cut.notify_one();
            }
            Err(Failure::unanswered(elapsed))
        })
    }

    /// The connection, waited for if it is away.
    async fn live(&self) -> Result<Arc<Live>, Failure> {
        if let Some(live) = &*self.shared.live.borrow() {
            return Ok(Arc::clone(live));
        }
        // In a box: this is seldom, and a question is small that need not wait.
        Box::pin(self.until_live()).await
    }

    async fn until_live(&self) -> Result<Arc<Live>, Failure> {
        let mut changes = self.shared.live.subscribe();
        let up = changes.wait_for(Option::is_some);
        match timeout(self.command_timeout, up).await {
            Ok(Ok(live)) => live.clone().ok_or_else(|| self.away()),
            Ok(Err(_)) | Err(_) => Err(self.away()),
        }
    }

    fn away(&self) -> Failure {
        let obstacle = self.shared.obstacle.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Failure::unreachable(obstacle.unwrap_or_else(|| "the connection is being made".into()))
    }

    /// How often the connection was lost and made again.
    pub(crate) fn reconnects(&self) -> u64 {
        self.shared.reconnects.load(Ordering::Relaxed)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

fn pushes_to(watcher: &Arc<dyn Watcher>) -> OnPush {
    let watcher = Arc::downgrade(watcher);
    Box::new(move |info| {
        if let Some(watcher) = watcher.upgrade() {
            watcher.pushed(info);
        }
    })
}

/// Keeps the connection up, for ever.
async fn supervise(
    shared: Arc<Shared>,
    dialer: Arc<Dialer>,
    watcher: Arc<dyn Watcher>,
    mut dialled: Dialled,
) {
    loop {
        let (wire, driver) = dialled;
        carry(&shared, &*watcher, Live { wire, cut: Notify::new() }, driver).await;
        let (server, carries) = (dialer.server(), watcher.carries());
        tracing::warn!(target: "leasehold", server, carries, "connection lost");
        dialled = dial_again(&shared, &dialer, &watcher).await;
        shared.reconnects.fetch_add(1, Ordering::Relaxed);
        tracing::info!(target: "leasehold", server, carries, "connected again");
    }
}

/// Carries the bytes of one connection as long as it lives.
async fn carry(
    shared: &Shared,
    watcher: &dyn Watcher,
    live: Live,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    let live = Arc::new(live);
    shared.live.send_replace(Some(Arc::clone(&live)));
    watcher.up();
    tokio::select! {
        () = driver => {}
        () = live.cut.notified() => {
            let carries = watcher.carries();
            tracing::warn!(target: "leasehold", carries, "the server answers nothing: connection cut");
        }
    }
    shared.live.send_replace(None);
    watcher.down();
}

async fn dial_again(shared: &Shared, dialer: &Dialer, watcher: &Arc<dyn Watcher>) -> Dialled {
    let (mut pause, longest) = PAUSES;
    loop {
        sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(longest);
        match dialer.dial(Some(pushes_to(watcher))).await {
            Ok(dialled) => return dialled,
            Err(error) => {
                tracing::debug!(target: "leasehold", %error, "cannot connect yet");
                let mut obstacle = shared.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
                *obstacle = Some(error.to_string());
            }
        }
    }
}
