//! A tower layer: at any time, only one request of each key runs in all processes together.
//!
//! ```text
//! cargo run --example tower_layer                  # no server; or REDIS_URL=redis://127.0.0.1/
//! curl -i -X POST localhost:3000/accounts/7        # twice at once: one after the other
//! curl -i localhost:3000/accounts/7                # reads take no lock
//! ```
//!
//! The layer fits every service of tower: servers with axum or tonic, and also clients.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router, error_handling::HandleErrorLayer, extract::Request, http::Method, http::StatusCode,
    routing::get,
};
use leasehold::{Client, Error};
use tokio::{net::TcpListener, time::sleep};
use tower::{BoxError, Layer, Service, ServiceBuilder};

/// Runs each request under the lock that `key` names. If `key` names no lock, runs the request
/// without one.
#[derive(Clone)]
pub(crate) struct LockLayer<K> {
    client: Client,
    timeout: Duration,
    key: K,
}

impl<K> LockLayer<K> {
    /// Creates a layer whose requests wait for their locks for at most `timeout`.
    pub(crate) fn new(client: Client, timeout: Duration, key: K) -> Self {
        Self { client, timeout, key }
    }
}

impl<S, K: Clone> Layer<S> for LockLayer<K> {
    type Service = Locked<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        Locked { layer: self.clone(), inner }
    }
}

/// A service whose requests take locks: see [`LockLayer`].
#[derive(Clone)]
pub(crate) struct Locked<S, K> {
    layer: LockLayer<K>,
    inner: S,
}

impl<R, S, K> Service<R> for Locked<S, K>
where
    R: Send + 'static,
    S: Service<R, Response: Send, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    K: Fn(&R) -> Option<String>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let LockLayer { client, timeout, key } = &self.layer;
        let (lock, timeout) = (key(&request).map(|name| client.lock(name)), *timeout);
        // `self.inner` is ready, but its clone may not be. So this request uses the original.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let run = async move || inner.call(request).await.map_err(Into::into);
        Box::pin(async move {
            let Some(lock) = lock else { return run().await };
            // If the caller drops this future, the request is dropped, and the lock is released.
            lock?.run_within(timeout, |_held| run()).await?
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect_lazy(&url)?,
        Err(_) => Client::in_memory(),
    };
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app(client)).await?;
    Ok(())
}

pub(crate) fn app(client: Client) -> Router {
    let locks = LockLayer::new(client, Duration::from_millis(500), account_of);
    let layers = ServiceBuilder::new().layer(HandleErrorLayer::new(reply_of)).layer(locks);
    Router::new().route("/accounts/{account}", get(read).post(book)).layer(layers)
}

/// Returns the path of a `POST` request. The path names the changed account and the lock. Other
/// requests take no lock.
fn account_of(request: &Request) -> Option<String> {
    (request.method() == Method::POST).then(|| request.uri().path().trim_matches('/').into())
}

async fn read() -> &'static str {
    "read\n"
}

async fn book() -> &'static str {
    sleep(Duration::from_millis(200)).await;
    "booked\n"
}

/// Returns the reply to a client whose request did not run, or whose lock was lost.
async fn reply_of(error: BoxError) -> (StatusCode, &'static str) {
    eprintln!("{error}");
    match error.downcast_ref::<Error>() {
        Some(error) if error.is_busy() => (StatusCode::CONFLICT, "another request is running\n"),
        Some(error) if error.is_transient() => (StatusCode::SERVICE_UNAVAILABLE, "try again\n"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed\n"),
    }
}
