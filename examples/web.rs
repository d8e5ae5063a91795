//! A web service that processes one request at a time for each order, over all of its instances.
//!
//! ```text
//! cargo run --example web                       # no server; or REDIS_URL=redis://127.0.0.1/
//! curl -i -X POST localhost:3000/orders/42      # twice at once: 200 for both, one after the other
//! curl localhost:3000/metrics                   # for Prometheus
//! curl -i localhost:3000/ready                  # for a load balancer: 200, or 503
//! ```
//!
//! The service starts even if Redis is down, and is ready as soon as Redis replies.
//!
//! If a client closes its connection, axum drops the handler. This drops the work and releases the
//! lock. After Ctrl-C, running requests finish.

use std::time::Duration;

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use leasehold::{Client, Error, LockContext};
use tokio::{net::TcpListener, time::sleep};

/// How long a request waits for its lock. The HTTP client would not wait longer.
const WAIT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long running requests and releases may take during the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect_lazy(&url)?,
        Err(_) => Client::in_memory(),
    };
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on {}", listener.local_addr()?);
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    serve(listener, client, stop).await?;
    Ok(())
}

/// Serves requests until `stop` completes. Then completes running requests and releases.
pub(crate) async fn serve(
    listener: TcpListener,
    client: Client,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    // First the requests finish and release their locks. After that, the shutdown releases the
    // remaining locks.
    axum::serve(listener, app(client.clone())).with_graceful_shutdown(stop).await?;
    let shutdown = client.shutdown(SHUTDOWN_TIMEOUT).await;
    println!("{} locks were still held, {} end by themselves", shutdown.revoked, shutdown.pending);
    Ok(())
}

fn app(client: Client) -> Router {
    Router::new()
        .route("/orders/{order}", post(work_on))
        .route("/metrics", get(metrics))
        .route("/ready", get(ready))
        .with_state(client)
}

async fn work_on(
    State(client): State<Client>,
    Path(order): Path<String>,
) -> Result<String, Failed> {
    let lock = client.lock(format!("orders:{order}"))?;
    Ok(lock.run_within(WAIT_TIMEOUT, async |held| bill(&held, &order).await).await??)
}

/// The work, which must not run twice at the same time for one order.
async fn bill(held: &LockContext, order: &str) -> Result<String, Error> {
    for _step in 0..10 {
        held.check()?; // checks the lock before each side effect
        sleep(Duration::from_millis(20)).await;
    }
    Ok(format!("billed {order}\n"))
}

/// Returns every metric of the client, in the text format of Prometheus.
async fn metrics(State(client): State<Client>) -> String {
    client.stats().prometheus()
}

/// Replies whether a load balancer should send requests to this instance.
async fn ready(State(client): State<Client>) -> (StatusCode, &'static str) {
    match client.health().await.unavailable_reason {
        None => (StatusCode::OK, "ready\n"),
        Some(reason) => {
            eprintln!("not ready: {reason}");
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    }
}

/// An error of a lock, which becomes a response to the client.
struct Failed(Error);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, words) = match &error {
            error if error.is_busy() => (StatusCode::CONFLICT, "another request works on it\n"),
            error if error.is_transient() => (StatusCode::SERVICE_UNAVAILABLE, "try again\n"),
            Error::ShutDown => (StatusCode::SERVICE_UNAVAILABLE, "try again\n"),
            Error::Name(_) => (StatusCode::BAD_REQUEST, "there is no such order\n"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "the work failed\n"),
        };
        eprintln!("{status}: {error}"); // the log gets the error, and the caller only a status
        (status, words).into_response()
    }
}
