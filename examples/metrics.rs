//! Workers that contend for one lock, and a page with their metrics for Prometheus.
//!
//! ```text
//! metrics [ADDRESS]
//! cargo run --example metrics --features metrics   # no server; or REDIS_URL=redis://127.0.0.1/
//! curl localhost:9464/metrics
//! ```
//!
//! `contrib/prometheus.yml` scrapes the page, and `contrib/check.sh` sends all queries of the
//! dashboard and the alerts to Prometheus. The program `telemetry` in `apps/` sends the metrics to
//! OpenTelemetry instead.

use std::time::Duration;

use axum::{Router, routing::get};
use leasehold::{Client, Error, Lock, Rate, RateLimiter, metrics::BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, time::sleep};

/// A short ttl, so that locks are soon lost if Redis is down.
const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The recorder must be installed before the first client is created, because each new client
    // describes the metrics to the recorder.
    let page = recorder()?;
    leasehold::metrics::label_locks(|name| name.starts_with("orders:").then_some("orders:*"));
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect(&url).await?,
        Err(_) => Client::in_memory(),
    };
    let (limiter, rate) = (client.rate_limiter("api")?, Rate::per(5, Duration::from_secs(1)));
    limiter.set_if_absent(rate).await?;
    for worker in 0..4 {
        let lock = client.lock(format!("orders:{}", worker % 2))?.ttl(TTL);
        // The time limit of hand-offs is longer than a hold, so that a worker hands the lock off to
        // the next worker.
        let lock = lock.local_handoff(10, Duration::from_millis(500));
        tokio::spawn(work(lock, limiter.clone()));
    }
    tokio::spawn(report(client.lock("report")?.ttl(TTL)));
    let app = Router::new().route("/metrics", get(async move || page.render()));
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9464".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Installs the recorder of this process, with the buckets that fit locks.
fn recorder() -> Result<PrometheusHandle, Box<dyn std::error::Error>> {
    let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, buckets) in BUCKETS {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    Ok(exporter.install_recorder()?)
}

/// Works under short holds of a lock for which other workers wait.
async fn work(lock: Lock, limiter: RateLimiter) {
    loop {
        let worked = lock.run_within(Duration::from_millis(400), async |_held| {
            let may_call = limiter.try_acquire(1).await.is_ok();
            sleep(Duration::from_millis(if may_call { 300 } else { 30 })).await;
        });
        note(worked.await).await;
    }
}

/// Works under long holds, which the client must renew.
async fn report(lock: Lock) {
    loop {
        note(lock.run(async |_held| sleep(3 * TTL).await).await).await;
    }
}

/// Logs an error, such as a lost lock or an unreachable Redis, and pauses. Ignores a timeout,
/// because other workers held the lock then.
async fn note(worked: Result<(), Error>) {
    match worked {
        Err(error) if !error.is_busy() => {
            eprintln!("{error}");
            sleep(Duration::from_millis(100)).await;
        }
        _ => {}
    }
}
