//! `leasehold bench`: how fast this server serves locks, measured from this machine.

use std::{cell::Cell, time::Duration};

use leasehold::{Client, Error, Lock};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    args::{Bench, Server},
    exit::Exit,
    inspect::print,
    run::farewell,
    server,
    signals::{self, Signals},
};

/// The rate is measured once with each of these numbers of tasks. Each task has its own lock.
const TASKS: [usize; 3] = [1, 16, 64];

pub(crate) async fn bench(server: &Server, bench: &Bench) -> Result<u8, Exit> {
    let mut signals = Signals::catch(true)?;
    let client = server::connect_or_end(server, Client::builder(), &mut signals).await?;
    let other = server::connect_or_end(server, Client::builder(), &mut signals).await?;
    let prefix = format!("leasehold-bench:{}", client.id());
    let measured = tokio::select! {
        measured = measure(&client, &other, &prefix, bench.time) => measured.map_err(Exit::from),
        signal = signals.fatal() => {
            Err(signals::ended_by(signal, "measure server", "nothing was measured"))
        }
    };
    farewell(&client).await;
    farewell(&other).await;
    let measured = measured?;
    print(&if bench.json { format!("{}\n", measured.as_json()) } else { measured.as_text() })?;
    Ok(0)
}

#[derive(Debug)]
struct Measured {
    round_trip: Latency,
    /// For each number of tasks, how often all tasks together acquire and release per second.
    pairs: Vec<(usize, f64)>,
    hand_over: Latency,
}

async fn measure(
    client: &Client,
    other: &Client,
    prefix: &str,
    time: Duration,
) -> Result<Measured, Error> {
    let lock = |number: usize| client.lock(format!("{prefix}:{number}"));
    let round_trip = round_trips(&lock(0)?, time).await?;
    let mut pairs = vec![];
    for tasks in TASKS {
        let locks = (0..tasks).map(lock).collect::<Result<Vec<_>, _>>()?;
        pairs.push((tasks, pairs_per_second(locks, time).await?));
    }
    let name = format!("{prefix}:hand-over");
    let hand_over = hand_overs(&client.lock(&name)?, &other.lock(&name)?, time).await?;
    Ok(Measured { round_trip, pairs, hand_over })
}

async fn round_trips(lock: &Lock, time: Duration) -> Result<Latency, Error> {
    let (mut all, since) = (vec![], Instant::now());
    while since.elapsed() < time {
        let start = Instant::now();
        lock.is_locked().await?;
        all.push(start.elapsed());
    }
    Ok(Latency::of(all))
}

async fn pairs_per_second(locks: Vec<Lock>, time: Duration) -> Result<f64, Error> {
    let since = Instant::now();
    let mut tasks = JoinSet::new();
    for lock in locks {
        tasks.spawn(async move {
            let mut count = 0_u32;
            while since.elapsed() < time {
                lock.acquire().await?.release().await?.into_result()?;
                count += 1;
            }
            Ok::<_, Error>(count)
        });
    }
    let counts: Result<Vec<_>, Error> = tasks.join_all().await.into_iter().collect();
    Ok(f64::from(counts?.into_iter().sum::<u32>()) / since.elapsed().as_secs_f64())
}

/// Measures the time from a release by one client until the waiting client acquires the lock.
async fn hand_overs(one: &Lock, other: &Lock, time: Duration) -> Result<Latency, Error> {
    // The client that released last, and the time of that release.
    let released = Cell::new(None);
    let contend = async |client: usize, lock: &Lock, stop: Instant| {
        let mut all = vec![];
        while Instant::now() < stop {
            let guard = lock.acquire().await?;
            if let Some((by, at)) = released.take()
                && by != client
            {
                all.push(Instant::now().duration_since(at));
            }
            released.set(Some((client, Instant::now())));
            guard.release().await?.into_result()?;
        }
        Ok::<_, Error>(all)
    };
    let stop = Instant::now() + time;
    let (mut all, more) = tokio::try_join!(contend(0, one, stop), contend(1, other, stop))?;
    all.extend(more);
    Ok(Latency::of(all))
}

/// A distribution of durations.
#[derive(Debug)]
struct Latency {
    count: usize,
    median: Duration,
    /// 99 % of the durations are shorter.
    p99: Duration,
}

impl Latency {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all.get(all.len() * percent / 100).copied().unwrap_or_default();
        Self { count: all.len(), median: at(50), p99: at(99) }
    }

    fn as_json(&self) -> Value {
        let micros = |time: Duration| time.as_micros() as u64;
        json!({ "count": self.count, "p50_us": micros(self.median), "p99_us": micros(self.p99) })
    }

    fn as_text(&self) -> String {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (median, p99, count) = (millis(self.median), millis(self.p99), self.count);
        format!("p50 {median:.2} ms, p99 {p99:.2} ms, of {count}\n")
    }
}

impl Measured {
    fn as_json(&self) -> Value {
        let pairs = self.pairs.iter();
        let pairs =
            pairs.map(|(tasks, rate)| json!({ "tasks": tasks, "per_second": rate.round() }));
        json!({
            "round_trip": self.round_trip.as_json(),
            "pairs": pairs.collect::<Vec<_>>(),
            "hand_over": self.hand_over.as_json(),
        })
    }

    fn as_text(&self) -> String {
        let pairs = self
            .pairs
            .iter()
            .map(|(tasks, rate)| format!("pairs, {tasks:>2} tasks   {rate:.0} per second\n"));
        format!(
            "round trip        {}{}hand-over         {}",
            self.round_trip.as_text(),
            pairs.collect::<String>(),
            self.hand_over.as_text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_has_the_median_and_the_99th_percentile() {
        let latency = Latency::of((0..1_000).rev().map(Duration::from_micros).collect());
        assert_eq!(latency.as_json(), json!({ "count": 1_000, "p50_us": 500, "p99_us": 990 }));
        assert_eq!(Latency::of(vec![]).count, 0);
    }
}
