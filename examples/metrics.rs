//! Workers on one lock, and a page of their metrics for Prometheus.
//!
//! ```text
//! cargo run --example metrics --features metrics   # no server; or REDIS_URL=redis://127.0.0.1/
//! curl localhost:9464/metrics
//! ```
//!
//! `contrib/prometheus.yml` scrapes it. For OpenTelemetry, let the receiver `prometheus` of a
//! collector scrape the page. The names are OpenTelemetry's, as an exporter for Prometheus writes
//! them.

use std::time::Duration;

use axum::{Router, routing::get};
use leasehold::{Client, Error, Lock, Rate, RateLimiter, metrics::BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, time::sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before the first client.
    let page = recorder()?;
    leasehold::metrics::label_locks(|name| name.starts_with("orders:").then_some("orders:*"));
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect(&url).await?,
        Err(_) => Client::in_memory(),
    };
    let (limiter, rate) = (client.rate_limiter("api")?, Rate::per(5, Duration::from_secs(1)));
    limiter.set_if_absent(rate).await?;
    for worker in 0..4 {
        let lock = client.lock(format!("orders:{}", worker % 2))?;
        tokio::spawn(work(lock, limiter.clone()));
    }
    let app = Router::new().route("/metrics", get(async move || page.render()));
    let listener = TcpListener::bind("127.0.0.1:9464").await?;
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

async fn work(lock: Lock, limiter: RateLimiter) -> Result<(), Error> {
    loop {
        match lock.acquire_within(Duration::from_millis(400)).await {
            Ok(guard) => {
                let may_call = limiter.try_acquire(1).await.is_ok();
                sleep(Duration::from_millis(if may_call { 300 } else { 30 })).await;
                guard.release().await?.into_result()?;
            }
            Err(error) if error.is_busy() => {}
            Err(error) => return Err(error),
        }
    }
}
