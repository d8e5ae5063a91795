//! Names become addresses: each time anew, and whichever of them answers first is used.

use std::{fmt, io, net::SocketAddr, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    net::{TcpStream, lookup_host},
    time::sleep,
};

/// An address that says nothing has so long until the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// What a test knows of a name.
#[cfg(test)]
type Known = dyn Fn(&str) -> Vec<SocketAddr> + Send + Sync;

/// Who knows the addresses of a name: the system, or what a test has instead.
#[derive(Clone, Default)]
pub(crate) struct Resolver {
    #[cfg(test)]
    known: Option<std::sync::Arc<Known>>,
}

impl Resolver {
    #[cfg(test)]
    pub(crate) fn by(known: impl Fn(&str) -> Vec<SocketAddr> + Send + Sync + 'static) -> Self {
        Self { known: Some(std::sync::Arc::new(known)) }
    }

    /// A connection to `host`, wherever that is now.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        first_of(self.addresses(host, port).await?).await
    }

    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        #[cfg(test)]
        if let Some(known) = &self.known {
            return Ok(known(host));
        }
        Ok(lookup_host((host, port)).await?.collect())
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("resolver")
    }
}

/// A connection to whichever takes one first. The next is tried as soon as one has refused, or
/// has said nothing for a while: one that is silent for ever keeps nobody from the others.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut refusal = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
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
    use std::net::{TcpListener, TcpStream as Blocking};

    use socket2::{Domain, Socket, Type};
    use tokio::time::Instant;

    use super::*;

    /// An address where connections are neither taken nor refused, while the rest is kept.
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

    /// Only the first address was tried until the time was over.
    #[tokio::test]
    async fn one_that_is_silent_or_refuses_keeps_nobody_from_the_others() {
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
    async fn where_all_refuse_the_last_refusal_is_told_and_a_name_of_nobody_is_named() {
        let refused = first_of(vec![closed(), closed()]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let nobody = first_of(vec![]).await.unwrap_err();
        assert_eq!(nobody.to_string(), "the name has no address");
    }

    #[tokio::test]
    async fn the_system_knows_names_and_addresses() {
        let (open, _listener) = listening();
        for host in ["localhost", "127.0.0.1"] {
            Resolver::default().connect(host, open.port()).await.unwrap();
        }
    }
}
