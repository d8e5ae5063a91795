//! The latency of the smallest operations, such as `PING`. An operation that contains a small
//! operation cannot be faster.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::Outcome;
use crate::{clock, figures::percentile, job::Delays};

/// The pause between two messages, in which all processes become idle.
const PAUSE: Duration = Duration::from_micros(500);

pub(super) async fn ping(url: &str, count: usize) -> Outcome<Delays> {
    let mut connection = connect(url).await?;
    let mut delays = vec![];
    for _ in 0..count {
        let asked = Instant::now();
        connection.send_packed_command(&redis::cmd("PING")).await?;
        delays.push(asked.elapsed().as_nanos() as u64);
    }
    Ok(summary(delays))
}

/// Measures how long the reply to each of `count` messages takes, if the message has a receiver.
pub(super) async fn publish(url: &str, channel: &str, count: usize) -> Outcome<Delays> {
    let mut connection = connect(url).await?;
    let mut delays = vec![];
    while delays.len() < count {
        sleep(PAUSE).await;
        let asked = clock::monotonic_ns();
        let mut call = redis::cmd("PUBLISH");
        call.arg(channel).arg(asked);
        let receivers: u64 = call.query_async(&mut connection).await?;
        if receivers > 0 {
            delays.push(clock::monotonic_ns() - asked);
        }
    }
    Ok(summary(delays))
}

pub(super) async fn listen(url: &str, channel: &str, count: usize) -> Outcome<Delays> {
    let mut messages = redis::Client::open(url)?.get_async_pubsub().await?;
    messages.subscribe(channel).await?;
    let mut stream = messages.on_message();
    let mut delays = vec![];
    while delays.len() < count {
        let message = stream.next().await.ok_or("the subscription ended")?;
        let came = clock::monotonic_ns();
        delays.push(came - message.get_payload::<u64>()?);
    }
    Ok(summary(delays))
}

async fn connect(url: &str) -> Outcome<MultiplexedConnection> {
    let info = redis::IntoConnectionInfo::into_connection_info(url)?;
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    Ok(redis::Client::open(info.set_tcp_settings(tcp))?.get_multiplexed_async_connection().await?)
}

fn summary(mut delays: Vec<u64>) -> Delays {
    Delays { p50_ns: percentile(&mut delays, 0.5), p99_ns: percentile(&mut delays, 0.99) }
}
