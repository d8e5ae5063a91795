//! A web service that changes rows of PostgreSQL under a fenced lock, with axum and sqlx.
//!
//! ```text
//! export REDIS_URL=redis://127.0.0.1/ DATABASE_URL=postgres://localhost/shop
//! cargo run --bin orders
//! curl -i -X POST localhost:3000/orders/42/add/5     # prints the new total
//! ```
//!
//! The lock excludes two requests for one order at the same time. The token protects the row from a
//! request that was paused for longer than its lease. The row keeps the highest token, and rejects
//! each statement with a lower one.

use std::{error, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use leasehold::{Client, Error, RunOutcome};
use sqlx::{PgPool, query, query_scalar};
use tokio::{net::TcpListener, time::sleep};

/// The column `token` has the highest token of all holds that have used the row.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS orders (
    id bigint PRIMARY KEY, total bigint NOT NULL, token bigint NOT NULL DEFAULT 0)";

/// Stores the token, and reads the total. After this statement, holds with lower tokens cannot
/// write.
const READ: &str = "UPDATE orders SET token = $2 WHERE id = $1 AND token <= $2 RETURNING total";

const WRITE: &str = "UPDATE orders SET total = $3, token = $2 WHERE id = $1 AND token <= $2";

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let rows = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    query(TABLE).execute(&rows).await?;
    query("INSERT INTO orders VALUES (42, 10) ON CONFLICT DO NOTHING").execute(&rows).await?;
    let locks = Client::connect_lazy(&std::env::var("REDIS_URL")?)?;
    let shop = Shop { locks: locks.clone(), rows, work: Duration::from_millis(100) };

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on {}", listener.local_addr()?);
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, shop.app()).with_graceful_shutdown(stop).await?;
    locks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) locks: Client,
    pub(crate) rows: PgPool,
    /// How long the work between the read and the write takes.
    pub(crate) work: Duration,
}

impl Shop {
    pub(crate) fn app(self) -> Router {
        Router::new().route("/orders/{order}/add/{amount}", post(add)).with_state(self)
    }

    async fn add(&self, order: i64, amount: i64, token: i64) -> Result<i64, Failed> {
        let read = query_scalar(READ).bind(order).bind(token).fetch_optional(&self.rows);
        let total: i64 = read.await?.ok_or(Failed::Refused)?;
        sleep(self.work).await; // for example, a request to another service
        let written = query(WRITE).bind(order).bind(token).bind(total + amount);
        match written.execute(&self.rows).await?.rows_affected() {
            0 => Err(Failed::Refused),
            _ => Ok(total + amount),
        }
    }
}

async fn add(
    State(shop): State<Shop>,
    Path((order, amount)): Path<(i64, i64)>,
) -> Result<String, Failed> {
    let lock = shop.locks.fenced_lock(format!("orders:{order}"))?;
    // The HTTP clients of this service time out after five seconds, so a longer wait for the lock
    // would be useless.
    let guard = lock.acquire_within(Duration::from_secs(5)).await?;
    let token = guard.token_i64();
    match guard.run(async |_held| shop.add(order, amount, token).await).await {
        // The last statement has compared the token with that of the row. So a later loss of the
        // lock does no harm.
        RunOutcome::Completed(total) | RunOutcome::CompletedAfterLoss { value: total, .. } => {
            Ok(format!("{}\n", total?))
        }
        RunOutcome::Cancelled { name, reason } => Err(Error::Lost { name, reason }.into()),
    }
}

enum Failed {
    Lock(Error),
    Database(sqlx::Error),
    /// No row was changed: the order does not exist, or its row has a higher token.
    Refused,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Writes the error to the log, and returns only a status to the caller.
impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let reply = match &self {
            Self::Lock(error) if error.is_busy() => (StatusCode::CONFLICT, "try again later\n"),
            Self::Lock(error) if error.is_transient() => {
                (StatusCode::SERVICE_UNAVAILABLE, "try again\n")
            }
            // The change may have happened. The caller must read the order before it retries.
            Self::Lock(_) | Self::Database(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed\n"),
            Self::Refused => (StatusCode::CONFLICT, "no such order, or a later hold changed it\n"),
        };
        match self {
            Self::Lock(error) => eprintln!("{error}"),
            Self::Database(error) => eprintln!("{error}"),
            Self::Refused => eprintln!("a statement changed no row"),
        }
        reply.into_response()
    }
}
