//! Transports the bytes of one connection in both directions.
//!
//! The bytes of a client arrive after a delay. The server then executes the commands in these
//! bytes, even if the client has disconnected meanwhile. A stopped server executes the commands
//! when it continues. Bytes of one direction keep their order.

use std::{
    collections::VecDeque,
    future::Future,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Shared,
    core::Core,
    delay::Delay,
    faults::Cut,
    reply::Reply,
    request::{self, Request},
};

/// The number of bytes to read at once.
const READ: usize = 8 * 1024;

/// The server's end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    id: u64,
    /// `None` if the client has disconnected.
    stream: Option<DuplexStream>,
    scratch: Box<[u8]>,
    /// The bytes in transit to the server, and when they arrive.
    underway: VecDeque<(Instant, Vec<u8>)>,
    /// Arrived bytes that are not executed yet.
    arrived: Vec<u8>,
    words: Vec<Range<usize>>,
    /// The bytes for the client.
    leaving: Vec<u8>,
    left: usize,
    /// Whether the server closes the connection as soon as it has sent the remaining bytes. For
    /// example, the client has sent invalid bytes and gets an error.
    closing: bool,
    timer: Pin<Box<Sleep>>,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, host: &str, stream: DuplexStream) -> Self {
        let id = shared.core().join(host);
        Self {
            shared,
            id,
            stream: Some(stream),
            scratch: vec![0; READ].into(),
            underway: VecDeque::new(),
            arrived: Vec::new(),
            words: Vec::new(),
            leaving: Vec::new(),
            left: 0,
            closing: false,
            timer: Box::pin(sleep_until(Instant::now())),
        }
    }

    /// Executes every step that is possible now.
    fn carry(&mut self, cx: &mut Context<'_>, core: &mut Core) -> Step {
        let now = Instant::now();
        core.tick();
        let Some(client) = core.client(self.id) else { return Step::Over };
        client.attend(cx.waker());
        let cut = client.cut;
        self.closing |= client.is_ending;
        if !core.faults.stopped {
            core.unblock_late(self.id);
        }
        let mut moved = self.read(cx, core, cut);
        if cut == Some(Cut::Replies) {
            self.stream = None;
        }
        moved |= !core.faults.stopped && !self.closing && self.serve(core, now);
        if self.write(cx, core, now) || moved {
            return Step::Again;
        }
        let waits = core.faults.stopped && !self.arrived.is_empty();
        // If a disconnected client waits for replicas, the server forgets the client, as Redis
        // does.
        let idle = self.underway.is_empty() && !waits;
        let output = self.closing && self.leaving.is_empty();
        if (self.stream.is_none() && idle) || output {
            return Step::Over;
        }
        self.wait(cx, core)
    }

    /// Reads bytes from the client. Returns whether bytes came, or the client disconnected.
    fn read(&mut self, cx: &mut Context<'_>, core: &mut Core, cut: Option<Cut>) -> bool {
        let mut moved = false;
        while let Some(stream) = &mut self.stream {
            let mut buffer = ReadBuf::new(&mut self.scratch);
            match Pin::new(stream).poll_read(cx, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let length = buffer.filled().len();
                    if cut != Some(Cut::Silence) {
                        self.receive(core, length);
                    }
                }
                Poll::Ready(_) => self.stream = None,
            }
            moved = true;
        }
        moved
    }

    /// Puts the bytes that the client has sent into transit to the server.
    fn receive(&mut self, core: &mut Core, length: usize) {
        let bytes = &self.scratch[..length];
        let delay = core.faults.requests;
        if delay == Delay::None && self.underway.is_empty() {
            return self.arrived.extend_from_slice(bytes);
        }
        let due = core.instant() + delay.draw(&mut core.random);
        let due = self.underway.back().map_or(due, |(before, _)| due.max(*before));
        self.underway.push_back((due, bytes.to_vec()));
    }

    /// Executes the commands that have arrived. Returns whether it has executed any.
    fn serve(&mut self, core: &mut Core, now: Instant) -> bool {
        while let Some((due, _)) = self.underway.front()
            && *due <= now
        {
            let (_, bytes) = self.underway.pop_front().unwrap_or_else(|| (now, vec![]));
            self.arrived.extend_from_slice(&bytes);
        }
        let mut at = 0;
        while core.blocked(self.id).is_none() {
            let rest = &self.arrived[at..];
            match request::first(rest, &mut self.words) {
                Request::Whole(length) => {
                    let words: Vec<_> = self.words.iter().map(|word| &rest[word.clone()]).collect();
                    core.serve(self.id, &words);
                    at += length;
                }
                Request::Part => break,
                Request::Nonsense(why) => {
                    core.say(self.id, &Reply::error(format!("ERR Protocol error: {why}")));
                    self.closing = true;
                    break;
                }
            }
        }
        self.arrived.drain(..at);
        at > 0
    }

    /// Writes the bytes for the client. Returns whether it has written any.
    fn write(&mut self, cx: &mut Context<'_>, core: &mut Core, now: Instant) -> bool {
        let Some(client) = core.client(self.id) else { return true };
        client.take(now, &mut self.leaving);
        let mut moved = false;
        while self.left < self.leaving.len() {
            let Some(stream) = &mut self.stream else {
                self.left = self.leaving.len();
                break;
            };
            match Pin::new(stream).poll_write(cx, &self.leaving[self.left..]) {
                Poll::Pending => return moved,
                Poll::Ready(Ok(length)) => self.left += length,
                // The client has disconnected, so its replies are dropped. The bytes that it sent
                // before must still be read.
                Poll::Ready(Err(_)) => self.left = self.leaving.len(),
            }
            moved = true;
        }
        self.leaving.clear();
        self.left = 0;
        moved
    }

    /// Waits for the next event.
    fn wait(&mut self, cx: &mut Context<'_>, core: &mut Core) -> Step {
        let stopped = core.faults.stopped;
        let requests = self.underway.front().map(|(due, _)| *due).filter(|_| !stopped);
        let replies = core.client(self.id).and_then(|client| client.next_due());
        let blocked = core.blocked(self.id).and_then(|it| it.until).filter(|_| !stopped);
        let Some(due) = requests.into_iter().chain(replies).chain(blocked).min() else {
            return Step::Wait;
        };
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Step::Again,
            Poll::Pending => Step::Wait,
        }
    }
}

/// The next step.
#[derive(Debug, Eq, PartialEq)]
enum Step {
    Again,
    Wait,
    Over,
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.core();
        loop {
            match self.carry(cx, &mut core) {
                Step::Again => {}
                Step::Wait => return Poll::Pending,
                Step::Over => return Poll::Ready(()),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.core().leave(self.id);
    }
}
