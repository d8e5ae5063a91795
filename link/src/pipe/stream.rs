//! The byte stream of a connection.

use tokio::io::split;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

/// The two directions of a connection. One task reads while another task writes. Because each
/// direction has its own object, no task waits for a system call of the other task.
pub(crate) struct Stream {
    pub(crate) from: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) to: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stream {
    /// Returns a stream whose two directions share one lock.
    pub(crate) fn of(both: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
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
