//! Many callers on one stream: requests are written as they come, and answered in
//! that order.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use redis::{Cmd, PushInfo, PushKind, Value};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::{Notify, oneshot},
    task::yield_now,
};

use super::frames;
use crate::domain::Failure;

/// What is told by the server without being asked.
pub(super) type OnPush = Box<dyn Fn(PushInfo) + Send + Sync>;

/// How much is read at once.
const READ: usize = 16 * 1024;

/// So many requests on their way are written at once, each as it comes: the other
/// side works on one while we make the next. Of more than these a write for each
/// costs more than the wait for all.
const FEW: usize = 24;

/// A buffer that has grown beyond this is not kept.
const KEPT: usize = 1024 * 1024;

/// One connection, for all who speak on it.
#[derive(Debug, Default)]
pub(super) struct Wire {
    outbox: Mutex<Outbox>,
    filled: Notify,
    /// How often something came from the other side.
    heard: AtomicU64,
}

#[derive(Debug, Default)]
struct Outbox {
    /// What is to be written.
    bytes: Vec<u8>,
    /// Who waits for what comes next, in order.
    asked: VecDeque<Asked>,
    /// Why nothing comes any more.
    closed: Option<Failure>,
}

/// What a request is answered with.
#[derive(Debug)]
enum Asked {
    One(oneshot::Sender<Value>),
    Many {
        missing: usize,
        come: Vec<Value>,
        sender: oneshot::Sender<Vec<Value>>,
    },
    /// A change of subscriptions: so many pushes confirm it, or it is refused once.
    Confirmed {
        missing: usize,
        sender: oneshot::Sender<Value>,
    },
}

/// A request that is answered, and by what.
#[derive(Debug)]
enum Answered {
    One(oneshot::Sender<Value>, Value),
    Many(oneshot::Sender<Vec<Value>>, Vec<Value>),
}

impl Wire {
    /// Sends `command` and waits for the reply, refusals among them.
    pub(super) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let (sender, reply) = oneshot::channel();
        self.ask([command], Asked::One(sender))?;
        reply.await.map_err(|_| self.failure())
    }

    /// Sends all of `commands` together and waits for the replies.
    pub(super) async fn call_all(&self, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let (sender, replies) = oneshot::channel();
        let come = Vec::with_capacity(commands.len());
        self.ask(commands, Asked::Many { missing: commands.len(), come, sender })?;
        replies.await.map_err(|_| self.failure())
    }

    /// Sends a command that subscribes or the like, and waits until it is confirmed
    /// for each of its arguments, or refused.
    pub(super) async fn confirm(&self, command: &Cmd) -> Result<Value, Failure> {
        let (sender, reply) = oneshot::channel();
        let missing = command.args_iter().len().saturating_sub(1);
        self.ask([command], Asked::Confirmed { missing, sender })?;
        reply.await.map_err(|_| self.failure())
    }

    /// How often something came from the other side.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    fn ask<'a>(
        &self,
        commands: impl IntoIterator<Item = &'a Cmd>,
        asked: Asked,
    ) -> Result<(), Failure> {
        let mut outbox = self.outbox();
        if outbox.closed.is_some() {
            return Err(Failure::unreachable("the connection is lost"));
        }
        let idle = outbox.bytes.is_empty();
        for command in commands {
            command.write_packed_command(&mut outbox.bytes);
        }
        outbox.asked.push_back(asked);
        drop(outbox);
        if idle {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Why a request was not answered.
    fn failure(&self) -> Failure {
        self.outbox().closed.clone().unwrap_or_else(|| Failure::unanswered("connection lost"))
    }

    /// Carries the bytes both ways for as long as `stream` lives, or this is polled.
    pub(super) async fn carry(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite,
        on_push: Option<OnPush>,
    ) {
        let closing = Closing(&self);
        let (from, to) = split(stream);
        let ended = tokio::select! {
            ended = self.write(to) => ended,
            ended = self.read(from, on_push) => ended,
        };
        closing.because(ended);
    }

    /// Writes what is to be written, until that fails.
    async fn write(&self, mut to: WriteHalf<impl AsyncWrite>) -> Failure {
        let mut bytes = Vec::new();
        loop {
            while !self.take(&mut bytes) {
                self.filled.notified().await;
                if self.is_crowded() {
                    // Others have more to say by now: one write for all of them.
                    yield_now().await;
                }
            }
            let written = async {
                to.write_all(&bytes).await?;
                to.flush().await
            };
            if let Err(error) = written.await {
                return Failure::unanswered(error);
            }
            bytes.clear();
            bytes.shrink_to(KEPT);
        }
    }

    /// Whether so many speak that they are better written together.
    fn is_crowded(&self) -> bool {
        self.outbox().asked.len() > FEW
    }

    /// Takes what is to be written, into an empty buffer. Returns whether that is
    /// anything.
    fn take(&self, bytes: &mut Vec<u8>) -> bool {
        std::mem::swap(&mut self.outbox().bytes, bytes);
        !bytes.is_empty()
    }

    /// Reads what comes, until nothing more can.
    async fn read(&self, mut from: ReadHalf<impl AsyncRead>, on_push: Option<OnPush>) -> Failure {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        loop {
            bytes.reserve(READ);
            match from.read_buf(&mut bytes).await {
                Ok(0) => return Failure::unanswered(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(_) => {}
                Err(error) => return Failure::unanswered(error),
            }
            self.heard.fetch_add(1, Ordering::Relaxed);
            let read = read_all(&mut bytes, &mut values);
            self.answer(&mut values, on_push.as_ref());
            if let Err(reason) = read {
                tracing::warn!(target: "leasehold", reason,
                    "what the server says cannot be read: connection cut");
                // Whose reply it was nobody knows: each may have been executed.
                return Failure::unanswered(format!("a reply cannot be read: {reason}"));
            }
            bytes.shrink_to(KEPT);
        }
    }

    /// Tells whoever waits for them what has come.
    fn answer(&self, values: &mut Vec<Value>, on_push: Option<&OnPush>) {
        let mut answered = Vec::with_capacity(values.len());
        let mut outbox = self.outbox();
        let mut pushes = Vec::new();
        for value in values.drain(..) {
            match value {
                Value::Push { kind, data } => {
                    answered.extend(outbox.confirmed(&kind));
                    pushes.push(PushInfo { kind, data });
                }
                value => answered.extend(outbox.replied(value)),
            }
        }
        drop(outbox);
        if let Some(on_push) = on_push {
            pushes.into_iter().for_each(on_push);
        }
        answered.into_iter().for_each(Answered::tell);
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes every reply out of `bytes` that is all there.
fn read_all(bytes: &mut Vec<u8>, values: &mut Vec<Value>) -> Result<(), String> {
    let mut at = 0;
    let read = loop {
        match frames::first(&bytes[at..]) {
            Ok(Some((value, length))) => {
                values.push(value);
                at += length;
            }
            Ok(None) => break Ok(()),
            Err(reason) => break Err(reason),
        }
    };
    bytes.drain(..at);
    read
}

impl Outbox {
    /// The next reply has come. Returns the request that is answered with it.
    fn replied(&mut self, value: Value) -> Option<Answered> {
        if let Some(Asked::Many { missing, come, .. }) = self.asked.front_mut()
            && *missing > 1
        {
            *missing -= 1;
            come.push(value);
            return None;
        }
        Some(match self.asked.pop_front()? {
            Asked::One(sender) | Asked::Confirmed { sender, .. } => Answered::One(sender, value),
            Asked::Many { mut come, sender, .. } => {
                come.push(value);
                Answered::Many(sender, come)
            }
        })
    }

    /// A push has come. Returns the request that is confirmed by it.
    fn confirmed(&mut self, kind: &PushKind) -> Option<Answered> {
        let confirms = matches!(kind, PushKind::Subscribe | PushKind::Unsubscribe);
        let Some(Asked::Confirmed { missing, .. }) = self.asked.front_mut() else { return None };
        if !confirms || std::mem::replace(missing, missing.saturating_sub(1)) > 1 {
            return None;
        }
        self.replied(Value::Okay)
    }
}

impl Answered {
    /// Tells it to the caller, if that one still waits.
    fn tell(self) {
        match self {
            Self::One(sender, value) => drop(sender.send(value)),
            Self::Many(sender, values) => drop(sender.send(values)),
        }
    }
}

/// When it is dropped nothing is answered any more.
struct Closing<'a>(&'a Wire);

impl Closing<'_> {
    fn because(self, failure: Failure) {
        self.0.outbox().closed = Some(failure);
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox();
        outbox.closed.get_or_insert_with(|| Failure::unanswered("the connection was cut"));
        let asked = std::mem::take(&mut outbox.asked);
        drop(outbox);
        drop(asked);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use redis::cmd;
    use tokio::{
        io::{DuplexStream, duplex},
        task::JoinHandle,
        time::sleep,
    };

    use super::*;

    type Pushed = Arc<Mutex<Vec<PushKind>>>;

    /// A wire, the other side of it, and what was pushed to this one.
    struct Setup {
        wire: Arc<Wire>,
        server: DuplexStream,
        pushed: Pushed,
        carried: JoinHandle<()>,
    }

    impl Setup {
        fn new() -> Self {
            let (client, server) = duplex(1 << 16);
            let (wire, pushed) = (Arc::<Wire>::default(), Pushed::default());
            let told = Arc::clone(&pushed);
            let on_push: OnPush = Box::new(move |info| told.lock().unwrap().push(info.kind));
            let carried = tokio::spawn(Arc::clone(&wire).carry(client, Some(on_push)));
            Self { wire, server, pushed, carried }
        }

        /// A caller that waits for what `command` is answered with.
        async fn asks(&self, command: &str) -> JoinHandle<Result<Value, Failure>> {
            let (wire, command) = (Arc::clone(&self.wire), cmd(command));
            let asked = tokio::spawn(async move { wire.call(&command).await });
            sleep(Duration::from_millis(1)).await;
            asked
        }

        async fn says(&mut self, bytes: &str) {
            self.server.write_all(bytes.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_go_to_those_who_asked_in_order() {
        let mut t = Setup::new();
        let (first, second) = (t.asks("PING").await, t.asks("ECHO").await);
        let mut heard = [0; 28];
        t.server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nECHO\r\n");

        // in pieces as they come
        t.says("+PO").await;
        t.says("NG\r\n:7\r").await;
        assert!(!second.is_finished());
        assert_eq!(first.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
        t.says("\n").await;
        assert_eq!(second.await.unwrap().unwrap(), Value::Int(7));
    }

    #[tokio::test(start_paused = true)]
    async fn several_commands_are_answered_together_refusals_among_them() {
        let mut t = Setup::new();
        let (wire, commands) = (Arc::clone(&t.wire), [cmd("HDEL"), cmd("PUBLISH")]);
        let mut asked = Box::pin(wire.call_all(&commands));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;
        t.says(":1\r\n").await;
        assert!((&mut asked).now_or_never().is_none());
        t.says("-NOPERM no\r\n:9\r\n").await;
        let replies = asked.await.unwrap();
        assert!(matches!(replies.as_slice(), [Value::Int(1), Value::ServerError(_)]));
        assert_eq!(next.await.unwrap().unwrap(), Value::Int(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_has_gone_does_not_shift_the_replies() {
        let mut t = Setup::new();
        let (gone, next) = (t.asks("PING").await, t.asks("PING").await);
        gone.abort();
        t.says(":1\r\n:2\r\n").await;
        assert_eq!(next.await.unwrap().unwrap(), Value::Int(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_is_confirmed_by_a_push_for_each_channel() {
        let mut t = Setup::new();
        let (wire, subscribe) = (Arc::clone(&t.wire), cmd("SUBSCRIBE").arg("a").arg("b").clone());
        let mut asked = Box::pin(wire.confirm(&subscribe));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;

        // a message in between confirms nothing
        t.says(">3\r\n+subscribe\r\n+a\r\n:1\r\n>3\r\n+message\r\n+a\r\n+0\r\n").await;
        assert!((&mut asked).now_or_never().is_none());
        t.says(">3\r\n+subscribe\r\n+b\r\n:2\r\n+PONG\r\n").await;
        assert_eq!(asked.await.unwrap(), Value::Okay);
        assert_eq!(next.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
        let pushed = t.pushed.lock().unwrap().clone();
        assert_eq!(pushed, [PushKind::Subscribe, PushKind::Message, PushKind::Subscribe]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_is_refused_once_for_all_its_channels() {
        let mut t = Setup::new();
        let (wire, subscribe) = (Arc::clone(&t.wire), cmd("SUBSCRIBE").arg("a").arg("b").clone());
        let mut asked = Box::pin(wire.confirm(&subscribe));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;
        t.says("-NOPERM no\r\n+PONG\r\n").await;
        assert!(matches!(asked.await, Ok(Value::ServerError(_))));
        assert_eq!(next.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_when_the_connection_ends_is_told_that_it_may_have_happened() {
        let mut t = Setup::new();
        let (waits, cut) = (t.asks("PING").await, Setup::new());
        let waits_too = cut.asks("PING").await;

        // the other side hangs up; or this one does
        t.server.shutdown().await.unwrap();
        cut.carried.abort();
        assert!(waits.await.unwrap().unwrap_err().may_have_happened());
        assert!(waits_too.await.unwrap().unwrap_err().may_have_happened());

        // and who comes later, that it has not
        for wire in [&t.wire, &cut.wire] {
            let failure = wire.call(&cmd("PING")).await.unwrap_err();
            assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_ends_the_connection() {
        let mut t = Setup::new();
        let (answered, waits) = (t.asks("PING").await, t.asks("PING").await);
        t.says(":1\r\nHTTP/1.1 400 Bad Request\r\n").await;
        assert_eq!(answered.await.unwrap().unwrap(), Value::Int(1));
        let failure = waits.await.unwrap().unwrap_err();
        assert!(failure.may_have_happened() && failure.may_pass(), "{failure}");
        assert!(failure.to_string().contains("a reply cannot be read"), "{failure}");
        t.carried.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asked_for_is_passed_over() {
        let mut t = Setup::new();
        t.says(":1\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n").await;
        let asked = t.asks("PING").await;
        t.says(":2\r\n").await;
        assert_eq!(asked.await.unwrap().unwrap(), Value::Int(2));
    }
}
