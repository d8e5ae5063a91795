//! Streams that the user of this crate provides, instead of network connections.

use std::{fmt, future::Future, io, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::pipe::stream::Stream;

/// Opens a stream to the server at an address, for example to a simulated server.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn(String) -> Connecting + Send + Sync>);

type Connecting = BoxFuture<'static, io::Result<Stream>>;

impl Connector {
    /// Returns a connector that calls `connect` for every address.
    pub fn by<S, F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        Self::by_address(move |_| connect())
    }

    /// Returns a connector that calls `connect` with the `host:port` to dial.
    pub fn by_address<S, F>(connect: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let boxed = |connected: io::Result<S>| connected.map(Stream::of);
        Self(Arc::new(move |address| connect(address).map(boxed).boxed()))
    }

    pub(crate) async fn connect(&self, address: String) -> io::Result<Stream> {
        (self.0)(address).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
