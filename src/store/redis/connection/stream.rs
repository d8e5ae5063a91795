//! The byte stream of a connection.

#[cfg(any(test, feature = "testing", feature = "tls"))]
use tokio::io::split;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

/// Bytes in both directions. One task reads while another one writes. If the two directions are
/// separate, neither waits for a system call of the other.
pub(crate) struct Stream {
    pub(super) from: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) to: Box<dyn AsyncWrite + Send + Unpin>,
}

#[cfg(any(test, feature = "testing", feature = "tls"))]
impl Stream {
    /// A stream whose two directions share one lock.
    pub(super) fn of(both: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (from, to) = split(both);
        Self { from: Box::new(from), to: Box::new(to) }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        let (from, to) = stream.into_split();
        Self { from: Box::new(from), to: Box::new(to) }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        let (from, to) = stream.into_split();
        Self { from: Box::new(from), to: Box::new(to) }
    }
}
