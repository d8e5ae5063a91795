//! Resolves a host name for each connection attempt, and uses the first address that accepts the
//! connection.

use std::{
    collections::HashMap,
    fmt,
    io::{self, ErrorKind},
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
    stream::FuturesUnordered,
};
use tokio::{
    net::TcpStream,
    task::{AbortHandle, spawn_blocking},
    time::sleep,
};

use crate::mutex::Mutex;

/// How long the client waits for one address before it also tries the next address.
const HEAD_START: Duration = Duration::from_millis(250);

type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Resolves host names by the system, or by a function of the caller.
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<Lookup>,
    running: Arc<Running>,
}

/// The lookups in flight, by host and port. A lookup cannot be cancelled: it blocks a thread of the
/// runtime until the system replies. For this reason, all connection attempts to a server share one
/// lookup. If the lookup of one host hangs, it blocks one thread, and lookups of other hosts
/// continue.
#[derive(Default)]
struct Running(Mutex<HashMap<(String, u16), (AbortHandle, Answer)>>);

/// The addresses of a host, or the error of the lookup.
type Answer = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, (ErrorKind, String)>>>;

impl Running {
    /// Joins a running lookup of `host`, or starts one. Results are not cached: a call after the
    /// end of a lookup starts a new lookup.
    fn join(&self, host: &str, port: u16, lookup: &Arc<Lookup>) -> Answer {
        let mut running = self.0.lock();
        running.retain(|_, (task, _)| !task.is_finished());
        let (_, answer) = running.entry((host.to_owned(), port)).or_insert_with(|| {
            let (lookup, host) = (Arc::clone(lookup), host.to_owned());
            let task = spawn_blocking(move || lookup(&host, port));
            let described = |error: io::Error| (error.kind(), error.to_string());
            let handle = task.abort_handle();
            let answer = async move {
                task.await.map_err(io::Error::from).and_then(|it| it).map_err(described)
            };
            (handle, answer.boxed().shared())
        });
        answer.clone()
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::asking(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }
}

impl Resolver {
    /// Resolves host names by the function `known` instead of the system.
    pub fn by(known: impl Fn(&str) -> Vec<SocketAddr> + Send + Sync + 'static) -> Self {
        Self::asking(move |host, _| Ok(known(host)))
    }

    fn asking(
        lookup: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self { lookup: Arc::new(lookup), running: Arc::default() }
    }

    /// Connects to `host` at its current addresses.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        first_of(self.addresses(host, port).await?).await
    }

    /// Returns the addresses of `host`. An IP address needs no lookup.
    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let answer = self.running.join(host, port, &self.lookup).await;
        answer.map_err(|(kind, why)| io::Error::new(kind, why))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("resolver")
    }
}

/// Returns the first connection that a server accepts. The client tries the next address as soon as
/// one address rejects the connection, or has not replied for `HEAD_START`. So a silent address
/// does not block the other addresses.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut refusal = io::Error::new(ErrorKind::NotFound, "the host name has no address");
    let (mut tried, mut left) = (FuturesUnordered::new(), addresses.into_iter());
    loop {
        tried.extend(left.next().map(TcpStream::connect));
        tokio::select! {
            biased;
            connected = tried.next() => match connected {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => refusal = error,
                None => return Err(refusal),
            },
            () = sleep(HEAD_START), if left.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream as Blocking},
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use socket2::{Domain, Socket, Type};
    use tokio::time::Instant;

    use super::*;

    /// Returns an address that ignores connection attempts, as long as the second value exists.
    fn silent() -> (SocketAddr, impl Drop) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let connect = || Blocking::connect_timeout(&address, Duration::from_millis(100)).ok();
        let mut waiting = vec![];
        while let Some(stream) = connect() {
            waiting.push(stream);
        }
        (address, Kept(socket, waiting))
    }

    #[expect(dead_code, reason = "kept until it is dropped")]
    struct Kept(Socket, Vec<Blocking>);

    impl Drop for Kept {
        fn drop(&mut self) {}
    }

    fn listening() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    fn closed() -> SocketAddr {
        listening().0
    }

    /// Former bug: the client tried only the first address until the timeout.
    #[tokio::test]
    async fn connect_is_not_delayed_by_silent_or_refusing_addresses() {
        let ((open, _listener), (silent, _waiting)) = (listening(), silent());
        for addresses in [
            vec![open, silent],
            vec![silent, open],
            vec![closed(), open],
            vec![silent, closed(), silent, open],
        ] {
            let began = Instant::now();
            let stream = first_of(addresses.clone()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), open, "{addresses:?}");
            assert!(began.elapsed() < Duration::from_secs(5), "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn last_connect_error_is_returned_when_all_addresses_fail() {
        let refused = first_of(vec![closed(), closed()]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let no_address = first_of(vec![]).await.unwrap_err();
        assert_eq!(no_address.to_string(), "the host name has no address");
    }

    /// Former bug: each timed-out attempt left a blocked thread, until the runtime had no thread
    /// left. A limit shared by all hosts did not help, because one silent host then delayed all
    /// other hosts.
    #[tokio::test]
    async fn silent_name_lookup_blocks_one_thread_and_no_other_host() {
        let (asked, silence) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let (count, wait) = (Arc::clone(&asked), Arc::clone(&silence));
        let resolver = Resolver::asking(move |host, _| {
            if host == "silent.test" && count.fetch_add(1, Ordering::Relaxed) == 0 {
                wait.wait();
            }
            Err(ErrorKind::TimedOut.into())
        });
        for _ in 0..8 {
            let attempt = resolver.connect("silent.test", 1);
            tokio::time::timeout(Duration::from_millis(20), attempt).await.unwrap_err();
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let other = resolver.connect("other.test", 1).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::TimedOut);

        // Now the name server replies, so the next attempt starts a new lookup.
        silence.wait();
        let refused = resolver.connect("silent.test", 1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        let before = asked.load(Ordering::Relaxed);
        resolver.connect("silent.test", 1).await.unwrap_err();
        assert_eq!(asked.load(Ordering::Relaxed), before + 1, "no result is cached");
    }

    #[tokio::test]
    async fn resolver_accepts_names_and_addresses() {
        let (open, _listener) = listening();
        for host in ["localhost", "127.0.0.1"] {
            Resolver::default().connect(host, open.port()).await.unwrap();
        }
    }
}
