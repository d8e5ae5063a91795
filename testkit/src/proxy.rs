//! A proxy between a client and a server that can break the network.
//!
//! Each connection has one thread for each direction. The thread reads bytes, and checks the state
//! in [`Shared`] before it passes them on. The proxy does not parse the bytes. A chunk from the
//! client counts as a request, and the next chunk from the server counts as its reply.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use crate::clock::PAUSE;
use crate::port::bind_free_port;

/// A TCP proxy in front of a port of 127.0.0.1, with faults that can be
/// switched on and off while it runs.
///
/// # Examples
///
/// A request that is executed, and whose reply is lost:
///
/// ```
/// use testkit::{Connection, Proxy, Redis};
///
/// let redis = Redis::start();
/// let proxy = Proxy::before(redis.port());
/// let mut client = Connection::open(proxy.port());
///
/// proxy.lose_next_reply();
/// assert!(client.try_command(&["INCR", "counter"]).is_err());
/// assert_eq!(redis.command(&["GET", "counter"]).text(), "1");
/// ```
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy that passes everything on to `port`.
    pub fn before(port: u16) -> Self {
        let listener = bind_free_port();
        let own_port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared::default());
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

    /// The number of open connections of clients.
    pub fn connections(&self) -> usize {
        self.shared.state().links.iter().filter(|link| link.strong_count() > 0).count()
    }

    /// Closes all present connections. New connections are accepted.
    ///
    /// Bytes that the proxy has not yet passed on are lost.
    pub fn cut(&self) {
        self.catch_up();
        self.shared.cut(|_| {});
    }

    /// If `on`, closes all connections, and closes each new connection at once.
    pub fn refuse(&self, on: bool) {
        if on {
            self.shared.cut(|state| state.faults.refuse = true);
        } else {
            self.shared.change(|faults| faults.refuse = false);
        }
    }

    /// Sets whether the proxy discards replies. Requests still reach the server.
    ///
    /// Discarded replies never arrive. After the last discarded reply, cut the connections.
    /// Otherwise a client may take a later reply for a discarded one.
    pub fn swallow_replies(&self, on: bool) {
        self.shared.change(|faults| faults.swallow = on);
    }

    /// Loses the reply to the next request. The server executes the request, and the proxy closes
    /// the connection before the reply.
    ///
    /// On that connection, all other bytes that are in transit are lost, too.
    pub fn lose_next_reply(&self) {
        self.lose_reply_to("");
    }

    /// Loses the reply to the next request that contains `text`, such as the name of a key or the
    /// hash of a script.
    pub fn lose_reply_to(&self, text: &str) {
        self.shared.change(|faults| faults.lose_reply_to = Some(text.into()));
    }

    /// The number of replies that were lost because of `lose_next_reply` or `lose_reply_to`.
    pub fn lost_replies(&self) -> usize {
        self.shared.state().lost_replies
    }

    /// Sets whether the proxy blocks all bytes in both directions.
    ///
    /// Connections stay open, and new ones are accepted, as if packets vanished. Bytes that are
    /// sent meanwhile arrive afterwards, as with TCP.
    pub fn black_hole(&self, on: bool) {
        self.shared.change(|faults| faults.black_hole = on);
    }

    /// Sets the delay of each reply. Zero means no delay.
    ///
    /// If a reply arrives during the delay of another reply, the delays add up.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|faults| faults.delay = delay);
    }

    /// Sets how connections from one address are treated, until the next call for this address.
    pub(crate) fn block(&self, from: Ipv4Addr, block: Option<Block>) {
        let from = IpAddr::from(from);
        let mut state = self.shared.state();
        match block {
            Some(block) => state.blocked.insert(from, block),
            None => state.blocked.remove(&from),
        };
        if block == Some(Block::Refused) {
            state.links.retain(|link| link.upgrade().is_some_and(|link| link.close_if(from)));
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until the proxy has accepted all connections that clients have made so far.
    ///
    /// The kernel accepts a connection before the proxy does, and the client then counts as
    /// connected. The proxy accepts connections in order. So this function opens one more
    /// connection, and waits until the proxy has accepted it.
    fn catch_up(&self) {
        let mut state = self.shared.state();
        let Ok(marker) = self.knock() else { return };
        state.marker = marker.local_addr().ok();
        let is_unseen = |state: &mut State| state.marker.is_some();
        drop(self.shared.changed.wait_while(state, is_unseen));
    }

    fn knock(&self) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.cut(|state| state.closed = true);
        // The connection wakes the accepting thread, which then ends.
        drop(self.knock());
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

/// How the proxy blocks a client from its server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Block {
    /// Closes all connections, and closes each new connection at once.
    Refused,
    /// Blocks all bytes, without an error.
    Silent,
}

/// The state that the threads of a proxy share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The blocked clients, by address.
    blocked: BTreeMap<IpAddr, Block>,
    closed: bool,
    faults: Faults,
    links: Vec<Weak<Link>>,
    lost_replies: usize,
    /// The address of the connection that `catch_up` opens. This connection carries no bytes.
    marker: Option<SocketAddr>,
}

#[derive(Debug, Default)]
struct Faults {
    black_hole: bool,
    delay: Duration,
    lose_reply_to: Option<String>,
    refuse: bool,
    swallow: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
        self.changed.notify_all();
    }

    /// Makes a change and closes all connections, in one step.
    fn cut(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.links.drain(..).filter_map(|link| link.upgrade()).for_each(|link| link.close());
        drop(state);
        self.changed.notify_all();
    }

    /// Waits while bytes are blocked. Returns `None` if `link` is closed.
    fn wait_to_pass(&self, link: &Link) -> Option<MutexGuard<'_, State>> {
        let is_held = |state: &mut State| state.holds(link) && !link.is_closed();
        let state = self.changed.wait_while(self.state(), is_held);
        Some(state.unwrap_or_else(PoisonError::into_inner)).filter(|_| !link.is_closed())
    }
}

impl State {
    /// Accepts a connection, unless it must be rejected.
    fn admit(&mut self, client: TcpStream, from: IpAddr) -> Option<Arc<Link>> {
        let refused = self.blocked.get(&from) == Some(&Block::Refused);
        if self.closed || self.faults.refuse || refused {
            return None;
        }
        let link = Arc::new(Link::new(client, from));
        self.links.retain(|link| link.strong_count() > 0);
        self.links.push(Arc::downgrade(&link));
        Some(link)
    }

    /// Whether bytes are blocked on `link`.
    fn holds(&self, link: &Link) -> bool {
        self.faults.black_hole || self.blocked.get(&link.from) == Some(&Block::Silent)
    }

    /// Whether the reply to `request` must be lost. If so, also ends the fault, so that no later
    /// reply is lost.
    fn takes_loss(&mut self, request: &[u8]) -> bool {
        let text = self.faults.lose_reply_to.as_deref();
        let is_it = text.is_some_and(|text| contains(request, text.as_bytes()));
        if is_it {
            self.faults.lose_reply_to = None;
        }
        is_it
    }
}

/// A connection of a client, and the connection of the proxy to the server for this client.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    closed: AtomicBool,
    from: IpAddr,
    /// The connection to the server. Empty until the connection is open.
    server: OnceLock<TcpStream>,
    /// Whether the next reply must be lost.
    loses: AtomicBool,
}

impl Link {
    fn new(client: TcpStream, from: IpAddr) -> Self {
        let (closed, loses) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { client, closed, from, server: OnceLock::new(), loses }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        shut(&self.client, Shutdown::Both);
        if let Some(server) = self.server.get() {
            shut(server, Shutdown::Both);
        }
    }

    /// Closes the connection if it comes from this address. Returns whether it is still open.
    fn close_if(&self, from: IpAddr) -> bool {
        if self.from == from {
            self.close();
        }
        self.from != from
    }

    /// Closes the client's side. The server still executes what it has received.
    fn lose(&self, server: &TcpStream) {
        shut(&self.client, Shutdown::Both);
        shut(server, Shutdown::Write);
    }
}

fn accept(listener: &TcpListener, port: u16, shared: &Arc<Shared>) {
    loop {
        let Ok((client, address)) = listener.accept() else {
            // An `accept` fails if there are no free file descriptors. Other connections may close
            // and free some.
            sleep(PAUSE);
            continue;
        };
        let mut state = shared.state();
        if state.closed {
            return;
        }
        if state.marker.take_if(|marker| *marker == address).is_some() {
            shared.changed.notify_all();
        } else if let Some(link) = state.admit(client, address.ip()) {
            let shared = Arc::clone(shared);
            thread::spawn(move || connect(&link, port, &shared));
        }
    }
}

/// Connects to the server and transports bytes until the connection ends.
fn connect(link: &Link, port: u16, shared: &Shared) {
    if shared.wait_to_pass(link).is_none() {
        return;
    }
    let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return link.close();
    };
    let server = link.server.get_or_init(|| stream);
    for stream in [&link.client, server] {
        // This fails only if the connection has already ended.
        stream.set_nodelay(true).ok();
    }
    thread::scope(|scope| {
        scope.spawn(|| carry_requests(link, server, shared));
        carry_replies(link, server, shared);
    });
}

fn carry_requests(link: &Link, server: &TcpStream, shared: &Shared) {
    let mut buffer = [0; CHUNK];
    while let Some(request) = read_chunk(&link.client, &mut buffer) {
        let Some(mut state) = shared.wait_to_pass(link) else { break };
        if state.takes_loss(request) {
            link.loses.store(true, Ordering::SeqCst);
        }
        drop(state);
        if write_chunk(server, request).is_err() {
            break;
        }
    }
    // While bytes are blocked, the server does not notice that its client has closed the
    // connection.
    drop(shared.wait_to_pass(link));
    shut(server, Shutdown::Write);
}

fn carry_replies(link: &Link, server: &TcpStream, shared: &Shared) {
    let mut buffer = [0; CHUNK];
    while let Some(reply) = read_chunk(server, &mut buffer) {
        let delay = shared.state().faults.delay;
        sleep(delay);
        let Some(mut state) = shared.wait_to_pass(link) else { break };
        if link.loses.swap(false, Ordering::SeqCst) {
            state.lost_replies += 1;
            link.lose(server);
        } else if !state.faults.swallow {
            drop(state);
            // If the client has closed the connection, nobody reads the remaining replies. The
            // proxy still reads them, because a server that cannot write its replies does not
            // continue.
            write_chunk(&link.client, reply).ok();
        }
    }
    drop(shared.wait_to_pass(link));
    link.close();
}

/// Reads the available bytes. Returns `None` if the connection has ended.
fn read_chunk<'a>(mut from: &TcpStream, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    match from.read(buffer) {
        Ok(0) | Err(_) => None,
        Ok(length) => Some(&buffer[..length]),
    }
}

fn write_chunk(mut to: &TcpStream, chunk: &[u8]) -> io::Result<()> {
    to.write_all(chunk)
}

fn shut(stream: &TcpStream, how: Shutdown) {
    // This fails only if the other side has already closed the connection.
    stream.shutdown(how).ok();
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

const CHUNK: usize = 64 * 1024;
