//! Streams to a simulated server, in place of a network.

use std::{fmt, future::Future, io, ptr, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};

use super::stream::Stream;

/// Makes a stream to a simulated server.
#[derive(Clone)]
pub(crate) struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

type Connecting = BoxFuture<'static, io::Result<Box<dyn Stream>>>;

impl Connector {
    pub(crate) fn by<S, F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        S: Stream + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let boxed = |connected: io::Result<S>| connected.map(|it| Box::new(it) as Box<dyn Stream>);
        Self(Arc::new(move || connect().map(boxed).boxed()))
    }

    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        (self.0)().await
    }
}

impl PartialEq for Connector {
    fn eq(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for Connector {}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
