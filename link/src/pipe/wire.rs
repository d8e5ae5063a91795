//! Many callers share one stream. The client writes requests in the order of the calls, and the
//! server replies in the same order.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::task::AtomicWaker;
use redis::{Arg, Cmd, PushInfo, PushKind, ServerError, Value, cmd};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, oneshot},
    task::{JoinSet, yield_now},
    time::sleep,
};

use crate::{
    failure::Failure,
    mutex::Mutex,
    pipe::{
        ending::Ending,
        frames::{Frame, Frames},
        stream::Stream,
        watch::{LOOKS, Progress, Watch},
    },
};

/// Receives the messages that the server pushes.
pub(crate) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// The number of bytes to read at once.
const READ: usize = 16 * 1024;

/// The client divides the requests in flight into this number of batches. The server executes one
/// batch while the client prepares the next batch. With a single batch, client and server would be
/// idle in turn. With 64 tasks, one batch gave 75,000 acquisitions with their releases a second,
/// and four batches gave 120,000.
const BATCHES: usize = 4;

/// The largest size of a buffer that is kept after a write, in bytes.
const KEPT: usize = 1024 * 1024;

/// One connection, shared by many callers.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    outbox: Mutex<Outbox>,
    /// Woken by the first unwritten request, and by a full batch.
    writer: AtomicWaker,
    /// Notified when a request is sent while no watch runs.
    unwatched: Notify,
}

#[derive(Debug, Default)]
struct Outbox {
    /// The bytes to write.
    bytes: Vec<u8>,
    /// How many requests are in `bytes`.
    unwritten: usize,
    /// The number of requests in a full batch.
    batch: usize,
    /// The callers that wait for the next replies, in order.
    pending: VecDeque<PendingRequest>,
    progress: Progress,
    /// Whether a watch runs.
    watched: bool,
    ended: Option<Ending>,
}

/// The caller of a request, and the kind of reply that the caller expects.
#[derive(Debug)]
enum PendingRequest {
    One(oneshot::Sender<Value>),
    Many {
        missing: usize,
        come: Vec<Value>,
        sender: oneshot::Sender<Vec<Value>>,
    },
    /// A change of subscriptions. For each of these channels, in order, the server pushes a
    /// confirmation of this kind. If the server rejects the change, it sends one rejection instead
    /// of all confirmations.
    Confirmed {
        kind: PushKind,
        channels: VecDeque<Vec<u8>>,
        sender: oneshot::Sender<Value>,
    },
    /// A command that gets a reply only if it is rejected. The client sends a PING after the
    /// command. If the reply to the PING comes first, the server has accepted the command.
    Followed {
        refused: Option<Value>,
        sender: oneshot::Sender<Value>,
    },
}

/// A caller, and the reply to its request.
#[derive(Debug)]
enum CompletedRequest {
    One(oneshot::Sender<Value>, Value),
    Many(oneshot::Sender<Vec<Value>>, Vec<Value>),
}

impl Wire {
    /// Sends `command` and waits for the reply, which may be a rejection.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let (sender, reply) = oneshot::channel();
        self.ask([command], PendingRequest::One(sender))?;
        reply.await.map_err(|_| self.failure())
    }

    /// Sends all of `commands` together and waits for the replies.
    pub(crate) async fn call_all(&self, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let (sender, replies) = oneshot::channel();
        let come = Vec::with_capacity(commands.len());
        self.ask(commands, PendingRequest::Many { missing: commands.len(), come, sender })?;
        replies.await.map_err(|_| self.failure())
    }

    /// Sends a command such as SUBSCRIBE, and waits for its confirmations or its rejection. A push
    /// of this `kind` confirms each argument of the command.
    pub(crate) async fn confirm(&self, command: &Cmd, kind: PushKind) -> Result<Value, Failure> {
        let (sender, reply) = oneshot::channel();
        let channels = command.args_iter().skip(1).filter_map(|argument| match argument {
            Arg::Simple(channel) => Some(channel.to_vec()),
            _ => None,
        });
        self.ask(
            [command],
            PendingRequest::Confirmed { kind, channels: channels.collect(), sender },
        )?;
        reply.await.map_err(|_| self.failure())
    }

    /// Sends a command such as SUNSUBSCRIBE and a PING. Waits for the rejection or the PONG.
    /// Confirmations do not count, because the server also pushes such confirmations without a
    /// request.
    pub(crate) async fn follow(&self, command: &Cmd) -> Result<Value, Failure> {
        let (sender, reply) = oneshot::channel();
        self.ask([command, &cmd("PING")], PendingRequest::Followed { refused: None, sender })?;
        reply.await.map_err(|_| self.failure())
    }

    fn ask<'a>(
        &self,
        commands: impl IntoIterator<Item = &'a Cmd>,
        request: PendingRequest,
    ) -> Result<(), Failure> {
        let mut outbox = self.outbox.lock();
        if let Some(ending) = &outbox.ended {
            return Err(Failure::unreachable(ending.to_string()));
        }
        for command in commands {
            command.write_packed_command(&mut outbox.bytes);
        }
        outbox.pending.push_back(request);
        outbox.unwritten += 1;
        let wakes_writer = outbox.unwritten == 1 || outbox.unwritten == outbox.batch;
        outbox.progress.asked += 1;
        let unwatched = !std::mem::replace(&mut outbox.watched, true);
        drop(outbox);
        if wakes_writer {
            self.writer.wake();
        }
        if unwatched {
            self.unwatched.notify_one();
        }
        Ok(())
    }

    /// Returns why a request got no reply.
    fn failure(&self) -> Failure {
        self.outbox.lock().ended.clone().unwrap_or(Ending::Dropped).failure()
    }

    /// Waits until the connection must end because replies are missing: see [`Watch`]. While no
    /// request is in flight, no timer runs.
    pub(crate) async fn gives_up(&self, command_timeout: Duration) -> Ending {
        loop {
            let Some(now) = self.awaited() else {
                self.unwatched.notified().await;
                continue;
            };
            let mut watch = Watch::new(command_timeout, now);
            loop {
                sleep(command_timeout / LOOKS).await;
                let Some(now) = self.awaited() else { break };
                if let Some(ending) = watch.look(now) {
                    return ending;
                }
            }
        }
    }

    /// Records why the connection ended, unless a cause is already recorded. From now on, new
    /// requests fail.
    pub(crate) fn set_ending(&self, ending: &Ending) {
        self.outbox.lock().ended.get_or_insert_with(|| ending.clone());
    }

    /// Returns the progress, or `None` if no request waits for a reply.
    fn awaited(&self) -> Option<Progress> {
        let mut outbox = self.outbox.lock();
        outbox.watched = !outbox.pending.is_empty();
        outbox.watched.then_some(outbox.progress)
    }

    /// Carries the bytes in both directions until `stream` ends. Returns why the stream ended. If
    /// this future is dropped, the connection ends, too.
    pub(crate) async fn drive(self: Arc<Self>, stream: Stream, on_push: Option<OnPush>) -> Ending {
        let closing = Closing(&self);
        let Stream { from, to } = stream;
        // The writer is a separate task, so that one thread writes while another thread reads
        // replies.
        let mut writer = JoinSet::new();
        writer.spawn(Arc::clone(&self).write(to));
        let ended = tokio::select! {
            biased;
            Err(ended) = self.read(from, on_push) => ended,
            Some(written) = writer.join_next() => match written {
                Ok(ended) => ended,
                // The runtime shuts down, and will also drop this future. The connection does not
                // count as lost.
                Err(error) if error.is_cancelled() => pending().await,
                Err(_) => Ending::Dropped,
            },
        };
        self.set_ending(&ended);
        drop(closing);
        ended
    }

    /// Writes all requests, until a write fails.
    async fn write(self: Arc<Self>, mut to: impl AsyncWrite + Unpin) -> Ending {
        let mut bytes = Vec::new();
        loop {
            self.take(&mut bytes).await;
            let written = async {
                to.write_all(&bytes).await?;
                to.flush().await
            };
            if let Err(error) = written.await {
                return error.into();
            }
            bytes.clear();
            bytes.shrink_to(KEPT);
        }
    }

    /// Waits for unwritten requests, and moves them to the empty buffer `bytes`. If the batch is
    /// not full, first lets the other tasks of this thread run, because they may add requests.
    async fn take(&self, bytes: &mut Vec<u8>) {
        let mut others = pin!(yield_now());
        poll_fn(|context| {
            self.writer.register(context.waker());
            let has_batch = {
                let outbox = self.outbox.lock();
                if outbox.unwritten == 0 {
                    return Poll::Pending;
                }
                outbox.unwritten >= outbox.batch
            };
            if has_batch { Poll::Ready(()) } else { others.as_mut().poll(context) }
        })
        .await;
        let mut outbox = self.outbox.lock();
        outbox.unwritten = 0;
        std::mem::swap(&mut outbox.bytes, bytes);
    }

    /// Reads until the stream ends or fails.
    async fn read(
        &self,
        mut from: impl AsyncRead + Unpin,
        on_push: Option<OnPush>,
    ) -> Result<Infallible, Ending> {
        let (mut frames, mut come) = (Frames::default(), Vec::new());
        loop {
            match from.read_buf(frames.space(READ)).await {
                Ok(0) => return Err(Ending::HungUp),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let read = take_all(&mut frames, &mut come);
            // The replies before an unreadable one still go to their callers.
            self.answer(&mut come, on_push.as_ref())?;
            read?;
        }
    }

    /// Passes the received replies to their callers.
    fn answer(&self, come: &mut Vec<Frame>, on_push: Option<&OnPush>) -> Result<(), Ending> {
        let mut completed = Vec::with_capacity(come.len());
        let mut pushes = Vec::new();
        let mut outbox = self.outbox.lock();
        outbox.batch = outbox.pending.len() / BATCHES;
        let mut sort = |frame| {
            match frame {
                Frame::PassedOver(bytes) => tracing::debug!(target: "leasehold", bytes,
                    "pub/sub message of another program discarded: too long"),
                Frame::Value(Value::Push { kind, data }) => {
                    completed.extend(outbox.confirmed(&kind, &data)?);
                    pushes.push(PushInfo { kind, data });
                }
                Frame::Value(value) => completed.extend(outbox.replied(value)?),
            }
            Ok(())
        };
        let sorted = come.drain(..).try_for_each(&mut sort);
        drop(outbox);
        if let Some(on_push) = on_push {
            pushes.into_iter().for_each(|push| on_push(push));
        }
        completed.into_iter().for_each(CompletedRequest::send);
        sorted
    }
}

fn take_all(frames: &mut Frames, into: &mut Vec<Frame>) -> Result<(), Ending> {
    while let Some(frame) = frames.take().map_err(Ending::Unreadable)? {
        into.push(frame);
    }
    Ok(())
}

impl Outbox {
    /// Handles a reply. Returns the request that the reply completes. Fails if no request waits for
    /// the reply. In that case, earlier replies may have gone to the wrong requests.
    fn replied(&mut self, value: Value) -> Result<Option<CompletedRequest>, Ending> {
        self.progress.replies += 1;
        if let Some(PendingRequest::Many { missing, come, .. }) = self.pending.front_mut()
            && *missing > 1
        {
            *missing -= 1;
            come.push(value);
            return Ok(None);
        }
        if let Some(PendingRequest::Followed { refused, .. }) = self.pending.front_mut()
            && refused.is_none()
            && refuses_what_came_first(&value)
        {
            *refused = Some(value);
            return Ok(None);
        }
        let request = self.pending.pop_front().ok_or(Ending::Surplus)?;
        self.progress.answered += 1;
        Ok(Some(match request {
            PendingRequest::One(sender) | PendingRequest::Confirmed { sender, .. } => {
                CompletedRequest::One(sender, value)
            }
            PendingRequest::Many { mut come, sender, .. } => {
                come.push(value);
                CompletedRequest::Many(sender, come)
            }
            PendingRequest::Followed { refused, sender } => {
                CompletedRequest::One(sender, refused.unwrap_or(Value::Okay))
            }
        }))
    }

    /// Handles a push. Returns the request that the push completes. A push without a request
    /// completes nothing.
    fn confirmed(
        &mut self,
        come: &PushKind,
        data: &[Value],
    ) -> Result<Option<CompletedRequest>, Ending> {
        match self.pending.front_mut() {
            Some(PendingRequest::Confirmed { kind, channels, .. })
                if kind == come && is_of(data, channels.front()) =>
            {
                channels.pop_front();
                if channels.is_empty() {
                    return self.replied(Value::Okay);
                }
                self.progress.replies += 1;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

/// Returns whether a push is about this channel.
fn is_of(data: &[Value], channel: Option<&Vec<u8>>) -> bool {
    let about = match data.first() {
        Some(Value::BulkString(output)) => output.as_slice(),
        Some(Value::SimpleString(output)) => output.as_bytes(),
        _ => return false,
    };
    channel.is_some_and(|channel| channel == about)
}

/// Returns whether `reply` rejects the command, and not the PING after the command.
fn refuses_what_came_first(reply: &Value) -> bool {
    let of_ping = |error: &ServerError| error.details().is_some_and(|it| it.contains("'ping'"));
    matches!(reply, Value::ServerError(error) if !of_ping(error))
}

impl CompletedRequest {
    /// Sends the reply to the caller, if the caller still waits.
    fn send(self) {
        match self {
            Self::One(sender, value) => drop(sender.send(value)),
            Self::Many(sender, values) => drop(sender.send(values)),
        }
    }
}

/// Fails all remaining requests when this value is dropped.
struct Closing<'a>(&'a Wire);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.set_ending(&Ending::Dropped);
        let mut outbox = self.0.outbox.lock();
        let pending = std::mem::take(&mut outbox.pending);
        drop(outbox);
        drop(pending);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::{
        io::{DuplexStream, duplex},
        task::JoinHandle,
        time::{Instant, sleep, timeout},
    };

    use super::*;

    /// The command timeout.
    const LIMIT: Duration = Duration::from_secs(1);

    type Pushed = Arc<Mutex<Vec<PushKind>>>;

    /// A wire, the server's end of its stream, and the pushes that the wire received.
    struct Setup {
        wire: Arc<Wire>,
        server: DuplexStream,
        pushed: Pushed,
        carried: JoinHandle<Ending>,
    }

    impl Setup {
        fn new() -> Self {
            let (client, server) = duplex(1 << 16);
            let (wire, pushed) = (Arc::<Wire>::default(), Pushed::default());
            let kinds = Arc::clone(&pushed);
            let on_push: OnPush = Arc::new(move |info| kinds.lock().push(info.kind));
            let carried = tokio::spawn(Arc::clone(&wire).drive(Stream::of(client), Some(on_push)));
            Self { wire, server, pushed, carried }
        }

        /// Starts a caller that waits for the reply to `command`.
        async fn asks(&self, command: &str) -> JoinHandle<Result<Value, Failure>> {
            let (wire, command) = (Arc::clone(&self.wire), cmd(command));
            let asked = tokio::spawn(async move { wire.call(&command).await });
            sleep(Duration::from_millis(1)).await;
            asked
        }

        /// Returns why the watch ends the connection, if it does within `limit`.
        async fn given_up(&self, limit: Duration) -> Option<Ending> {
            timeout(limit, self.wire.gives_up(LIMIT)).await.ok()
        }

        async fn receives(&mut self, bytes: &str) {
            self.server.write_all(bytes.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replies_go_to_callers_in_request_order() {
        let mut t = Setup::new();
        let (first, second) = (t.asks("PING").await, t.asks("ECHO").await);
        let mut received = [0; 28];
        t.server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nECHO\r\n");

        // A reply may come in pieces.
        t.receives("+PO").await;
        t.receives("NG\r\n:7\r").await;
        assert!(!second.is_finished());
        assert_eq!(first.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
        t.receives("\n").await;
        assert_eq!(second.await.unwrap().unwrap(), Value::Int(7));
    }

    #[tokio::test(start_paused = true)]
    async fn batch_returns_all_replies_including_rejections() {
        let mut t = Setup::new();
        let (wire, commands) = (Arc::clone(&t.wire), [cmd("HDEL"), cmd("PUBLISH")]);
        let mut asked = Box::pin(wire.call_all(&commands));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;
        t.receives(":1\r\n").await;
        assert!((&mut asked).now_or_never().is_none());
        t.receives("-NOPERM no\r\n:9\r\n").await;
        let replies = asked.await.unwrap();
        assert!(matches!(replies.as_slice(), [Value::Int(1), Value::ServerError(_)]));
        assert_eq!(next.await.unwrap().unwrap(), Value::Int(9));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_call_leaves_later_replies_to_their_callers() {
        let mut t = Setup::new();
        let (gone, next) = (t.asks("PING").await, t.asks("PING").await);
        gone.abort();
        t.receives(":1\r\n:2\r\n").await;
        assert_eq!(next.await.unwrap().unwrap(), Value::Int(2));
    }

    #[tokio::test(start_paused = true)]
    async fn subscription_is_confirmed_by_one_push_for_each_channel() {
        let mut t = Setup::new();
        let (wire, subscribe) = (Arc::clone(&t.wire), cmd("SUBSCRIBE").arg("a").arg("b").clone());
        let mut asked = Box::pin(wire.confirm(&subscribe, PushKind::Subscribe));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;

        // A message between the confirmations confirms nothing.
        t.receives(">3\r\n+subscribe\r\n+a\r\n:1\r\n>3\r\n+message\r\n+a\r\n+0\r\n").await;
        assert!((&mut asked).now_or_never().is_none());
        t.receives(">3\r\n+subscribe\r\n+b\r\n:2\r\n+PONG\r\n").await;
        assert_eq!(asked.await.unwrap(), Value::Okay);
        assert_eq!(next.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
        let pushed = t.pushed.lock().clone();
        assert_eq!(pushed, [PushKind::Subscribe, PushKind::Message, PushKind::Subscribe]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_rejection_fails_a_subscription_of_several_channels() {
        let mut t = Setup::new();
        let (wire, subscribe) = (Arc::clone(&t.wire), cmd("SUBSCRIBE").arg("a").arg("b").clone());
        let mut asked = Box::pin(wire.confirm(&subscribe, PushKind::Subscribe));
        assert!((&mut asked).now_or_never().is_none());
        let next = t.asks("PING").await;
        t.receives("-NOPERM no\r\n+PONG\r\n").await;
        assert!(matches!(asked.await, Ok(Value::ServerError(_))));
        assert_eq!(next.await.unwrap().unwrap(), Value::SimpleString("PONG".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_connection_reports_that_a_pending_call_may_have_run() {
        let mut t = Setup::new();
        let (waits, cut) = (t.asks("PING").await, Setup::new());
        let waits_too = cut.asks("PING").await;

        // The server closes one connection, and this client closes the other connection.
        t.server.shutdown().await.unwrap();
        cut.carried.abort();
        assert!(waits.await.unwrap().unwrap_err().may_have_happened());
        assert!(waits_too.await.unwrap().unwrap_err().may_have_happened());

        // A later caller gets the error that its request was not sent.
        for wire in [&t.wire, &cut.wire] {
            let failure = wire.call(&cmd("PING")).await.unwrap_err();
            assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
        }
    }

    /// When a runtime ends, it may cancel the writer before the future of `drive`. Former bug: the
    /// client then logged a lost connection.
    #[test]
    fn end_of_a_runtime_does_not_count_as_a_lost_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (client, _server) = duplex(64);
        let mut driven = Box::pin(Arc::<Wire>::default().drive(Stream::of(client), None));
        runtime.block_on(async { assert!((&mut driven).now_or_never().is_none()) });
        drop(runtime);
        assert!(driven.now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn subscription_is_confirmed_only_by_a_push_for_its_channel() {
        let mut t = Setup::new();
        let wire = Arc::clone(&t.wire);
        let mut subscribe = cmd("SSUBSCRIBE");
        subscribe.arg("a");
        let mut asked = Box::pin(wire.confirm(&subscribe, PushKind::SSubscribe));
        assert!((&mut asked).now_or_never().is_none());
        // If a slot migrates, the server ends the subscriptions of that slot without a request.
        // Pushes of another kind or for another channel confirm nothing.
        t.receives(">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n").await;
        t.receives(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n").await;
        t.receives(">3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n").await;
        assert!((&mut asked).now_or_never().is_none());
        t.receives(">3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n").await;
        assert_eq!(asked.await.unwrap(), Value::Okay);
    }

    #[tokio::test(start_paused = true)]
    async fn unsubscribe_without_a_confirmation_ends_at_the_next_reply() {
        let refusal = "-MOVED 1 a:1\r\n";
        let no_ping = "-NOPERM User x has no permissions to run the 'ping' command\r\n";
        for (replies, refused) in
            [("+PONG\r\n", false), ("-MOVED 1 a:1\r\n+PONG\r\n", true), (no_ping, false)]
        {
            let mut t = Setup::new();
            let wire = Arc::clone(&t.wire);
            let mut leave = cmd("SUNSUBSCRIBE");
            leave.arg("a");
            let mut asked = Box::pin(wire.follow(&leave));
            assert!((&mut asked).now_or_never().is_none());
            t.receives(">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n").await;
            assert!((&mut asked).now_or_never().is_none());
            t.receives(replies).await;
            assert_eq!(matches!(asked.await.unwrap(), Value::ServerError(_)), refused);
            // The next reply goes to the next request.
            let next = t.asks("PING").await;
            t.receives(refusal).await;
            assert!(matches!(next.await.unwrap().unwrap(), Value::ServerError(_)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_reply_ends_the_connection() {
        let mut t = Setup::new();
        let (answered, waits) = (t.asks("PING").await, t.asks("PING").await);
        t.receives(":1\r\nHTTP/1.1 400 Bad Request\r\n").await;
        assert_eq!(answered.await.unwrap().unwrap(), Value::Int(1));
        let failure = waits.await.unwrap().unwrap_err();
        assert!(failure.may_have_happened() && failure.is_temporary(), "{failure}");
        assert!(failure.to_string().contains("a reply cannot be read"), "{failure}");
        t.carried.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn unrequested_reply_ends_the_connection() {
        // A push is not a reply.
        let mut t = Setup::new();
        t.receives(">3\r\n+subscribe\r\n+a\r\n:1\r\n").await;
        assert!(!t.carried.is_finished());
        let asked = t.asks("PING").await;
        t.receives(":1\r\n").await;
        assert_eq!(asked.await.unwrap().unwrap(), Value::Int(1));

        // No request waits for this reply. If the connection stayed open, the next caller would get
        // this reply.
        t.receives(":1\r\n").await;
        assert!(matches!(t.carried.await.unwrap(), Ending::Surplus));
        let failure = t.wire.call(&cmd("PING")).await.unwrap_err();
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn surplus_reply_after_a_valid_reply_ends_the_connection() {
        let mut t = Setup::new();
        let asked = t.asks("PING").await;
        t.receives(":1\r\n:2\r\n").await;
        assert_eq!(asked.await.unwrap().unwrap(), Value::Int(1));
        assert!(matches!(t.carried.await.unwrap(), Ending::Surplus));
    }

    #[tokio::test(start_paused = true)]
    async fn missing_replies_end_the_connection_after_two_timeouts() {
        for silence in ["", "+half", ":1", "$200000\r\n", "*2\r\n:1\r\n"] {
            let mut t = Setup::new();
            let (_asked, start) = (t.asks("PING").await, Instant::now());
            t.receives(silence).await;
            let push = ">3\r\n+message\r\n+a\r\n+0\r\n";
            let (wire, says) = (Arc::clone(&t.wire), silence.is_empty());
            let mut given_up = Box::pin(wire.gives_up(LIMIT));
            while (&mut given_up).now_or_never().is_none() {
                if says {
                    // Messages are not replies.
                    t.receives(push).await;
                }
                sleep(Duration::from_millis(10)).await;
            }
            let took = start.elapsed();
            assert!(took >= LIMIT && took < 2 * LIMIT, "{silence:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_or_idle_connection_is_kept() {
        let mut t = Setup::new();
        assert!(t.given_up(100 * LIMIT).await.is_none());
        for _ in 0..20 {
            // The request of a cancelled caller still waits for its reply.
            t.asks("PING").await.abort();
            assert!(t.given_up(LIMIT * 9 / 10).await.is_none());
            t.receives(":1\r\n").await;
        }
        assert!(t.given_up(100 * LIMIT).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connection_is_dropped_even_without_callers() {
        let t = Setup::new();
        t.asks("PING").await.abort();
        assert!(matches!(t.given_up(2 * LIMIT).await, Some(Ending::Silent(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn missing_reply_ends_the_connection_even_after_a_later_reply() {
        let mut t = Setup::new();
        let (_lost, shifted) = (t.asks("PING").await, t.asks("PING").await);
        t.receives(":2\r\n").await;
        assert!(matches!(t.given_up(2 * LIMIT).await, Some(Ending::Silent(_))));
        assert!(!shifted.is_finished());
    }
}
