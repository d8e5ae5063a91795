//! A proxy that changes replies, as if the server sent wrong replies.
//!
//! Unlike [`Proxy`](crate::Proxy), this proxy parses where a reply starts and ends. So it can omit
//! a reply, repeat it, or send another reply instead.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use crate::port::bind_free_port;

/// A reply of the server, or a message of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct ServerMessage<'a> {
    /// The index of the connection: the first one is 0.
    pub connection: usize,
    /// The number of earlier replies on this connection.
    pub nth: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl ServerMessage<'_> {
    /// Whether this is a push message, which needs no request.
    pub fn is_push(&self) -> bool {
        self.bytes.starts_with(b">")
    }
}

/// The bytes or the event that the client receives instead of a reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Tampering {
    /// The reply of the server, unchanged.
    Truth,
    /// These texts, each after its pause. If the list is empty, the client receives nothing.
    Words(Vec<(Duration, Vec<u8>)>),
    /// These bytes, repeated without end.
    Endless(Vec<u8>),
    /// The connection is closed.
    HangUp,
}

/// A proxy in front of a port of 127.0.0.1 that changes the replies of the server.
///
/// # Examples
///
/// ```
/// use testkit::{Connection, Redis, Tampering, TamperingProxy};
///
/// let redis = Redis::start();
/// let reply = Tampering::Words(vec![(Default::default(), b":7\r\n".into())]);
/// let proxy = TamperingProxy::before(redis.port(), move |_| reply.clone());
/// assert_eq!(Connection::open(proxy.port()).command(&["PING"]).number(), 7);
/// ```
pub struct TamperingProxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    tell: Box<dyn Fn(ServerMessage<'_>) -> Tampering + Send + Sync>,
    closed: AtomicBool,
    connections: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl TamperingProxy {
    /// Starts a proxy in front of `port` that sends the result of `tell` for each reply.
    pub fn before(
        port: u16,
        tell: impl Fn(ServerMessage<'_>) -> Tampering + Send + Sync + 'static,
    ) -> Self {
        let listener = bind_free_port();
        let own_port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared {
            tell: Box::new(tell),
            closed: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            streams: Mutex::default(),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, port, &shared)
        });
        Self { port: own_port, shared, acceptor: Some(acceptor) }
    }

    /// The port to connect to, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for TamperingProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TamperingProxy").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for TamperingProxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        for stream in self.shared.streams().drain(..) {
            shut(&stream);
        }
        // The connection wakes the accepting thread, which then ends.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, port: u16, shared: &Arc<Shared>) {
    while let Ok((client, _)) = listener.accept() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || serve(client, port, &shared).ok());
    }
}

fn serve(client: TcpStream, port: u16, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        shared.streams().push(stream.try_clone()?);
    }
    let number = shared.connections.fetch_add(1, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            io::copy(&mut &client, &mut &server).ok();
            shut(&server);
        });
        tell(&client, &server, number, shared).ok();
        shut(&client);
        shut(&server);
    });
    Ok(())
}

fn tell(mut to: &TcpStream, from: &TcpStream, connection: usize, by: &Shared) -> io::Result<()> {
    let mut from = BufReader::new(from);
    for nth in 0.. {
        let mut bytes = Vec::new();
        read(&mut from, &mut bytes)?;
        match (by.tell)(ServerMessage { connection, nth, bytes: &bytes }) {
            Tampering::Truth => to.write_all(&bytes)?,
            Tampering::Words(words) => {
                for (pause, word) in words {
                    sleep(pause);
                    to.write_all(&word)?;
                }
            }
            Tampering::Endless(word) => loop {
                to.write_all(&word)?;
            },
            Tampering::HangUp => break,
        }
    }
    Ok(())
}

/// Reads one reply into `bytes`.
fn read(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    let begin = bytes.len();
    if from.read_until(b'\n', bytes)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8_lossy(&bytes[begin..]).trim_end().to_owned();
    let count = line.get(1..).and_then(|count| count.parse().ok()).unwrap_or(0);
    match line.as_bytes().first() {
        Some(b'$' | b'=' | b'!') if !line.ends_with("-1") => {
            from.take(count + 2).read_to_end(bytes).map(drop)
        }
        Some(b'*' | b'~' | b'>') => (0..count).try_for_each(|_| read(from, bytes)),
        Some(b'%') => (0..2 * count).try_for_each(|_| read(from, bytes)),
        _ => Ok(()),
    }
}

fn shut(stream: &TcpStream) {
    // This fails only if the other side has already closed the connection.
    stream.shutdown(Shutdown::Both).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_recorded_separately() {
        let output = "%1\r\n+a\r\n*2\r\n:1\r\n$2\r\n\r\n\r\n-ERR no\r\n$-1\r\n>1\r\n$1\r\nx\r\n";
        let mut from = output.as_bytes();
        let mut lengths = vec![];
        while !from.is_empty() {
            let mut bytes = Vec::new();
            read(&mut from, &mut bytes).unwrap();
            lengths.push(bytes.len());
        }
        assert_eq!(lengths, [24, 9, 5, 11]);
    }
}
