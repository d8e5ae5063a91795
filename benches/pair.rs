//! What a lock costs beside the bare scripts that it runs.
//!
//! Every measurement has its twin in the same run: the same scripts, called by
//! hash over one multiplexed connection of the same crate, with nothing around
//! them. What counts is the ratio of the two; the times themselves are the
//! machine's. `make bench` prints both.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use leasehold::{Client, LockGuard, Release};
use redis::aio::MultiplexedConnection;
use testkit::Redis;
use tokio::{runtime::Runtime, task::JoinSet};

/// How many leases the keeper keeps while it is measured.
const LEASES: u64 = 10_000;

/// The bare scripts, on a connection of their own.
#[derive(Clone)]
struct Raw {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
}

impl Raw {
    async fn connect(url: &str) -> Self {
        let url = format!("{url}?protocol=resp3");
        let info = redis::IntoConnectionInfo::into_connection_info(url).unwrap();
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = redis::Client::open(info.set_tcp_settings(tcp)).unwrap();
        let config = redis::AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(16_384);
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut hashes = Vec::new();
        for script in [
            include_str!("../src/store/redis/lua/lock/acquire.lua"),
            include_str!("../src/store/redis/lua/lock/release.lua"),
        ] {
            let mut load = redis::cmd("SCRIPT");
            let load = load.arg("LOAD").arg(script);
            hashes.push(load.query_async::<String>(&mut connection).await.unwrap());
        }
        let release = hashes.pop().unwrap();
        Self { connection, acquire: hashes.pop().unwrap(), release }
    }

    async fn pair(&mut self, name: &str, owner: &str, channel: &str) {
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(1).arg(name).arg(owner).arg(30_000);
        black_box(self.connection.send_packed_command(&acquire).await.unwrap());
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(name).arg(owner).arg(channel);
        black_box(self.connection.send_packed_command(&release).await.unwrap());
    }
}

/// Runs `pairs` pairs on `tasks` tasks, and says how long that took.
async fn spread<F>(tasks: u64, pairs: u64, run: impl Fn(u64, u64) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = now();
    let mut set = JoinSet::new();
    for task in 0..tasks {
        set.spawn(run(task, pairs.div_ceil(tasks)));
    }
    set.join_all().await;
    start.elapsed()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

async fn our_pairs(client: Client, name: String, pairs: u64) {
    let lock = client.lock(name).unwrap();
    for _ in 0..pairs {
        let released = lock.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(black_box(released), Release::Released);
    }
}

async fn raw_pairs(mut raw: Raw, name: String, pairs: u64) {
    let (owner, channel) = (format!("raw:{name}"), format!("redisson_lock__channel:{{{name}}}"));
    for _ in 0..pairs {
        raw.pair(&name, &owner, &channel).await;
    }
}

/// What one pair cost in each sample, by case, for ours and for raw.
type Costs = RefCell<BTreeMap<String, [Vec<f64>; 2]>>;

struct Bench {
    costs: Costs,
    runtime: Runtime,
    redis: Redis,
    client: Client,
    raw: Raw,
}

impl Bench {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let redis = Redis::start();
        let client = runtime.block_on(Client::connect(&redis.url())).unwrap();
        let raw = runtime.block_on(Raw::connect(&redis.url()));
        Self { costs: Costs::default(), runtime, redis, client, raw }
    }

    /// Notes what `pairs` pairs cost: ours are `which` 0, raw ones 1.
    fn note(&self, case: &str, which: usize, pairs: u64, took: Duration) -> Duration {
        let cost = took.as_secs_f64() / pairs.max(1) as f64;
        self.costs.borrow_mut().entry(case.to_owned()).or_default()[which].push(cost);
        took
    }

    fn print_ratios(&self) {
        println!("\nours beside the raw scripts, medians of all samples of this run:");
        for (case, [ours, raw]) in &mut *self.costs.borrow_mut() {
            let (ours, raw) = (median(ours) * 1e6, median(raw) * 1e6);
            println!("  {case:<32} {ours:>8.1} µs / {raw:>8.1} µs = {:.2}", ours / raw);
        }
    }

    /// Measures ours and the raw pair one after the other.
    fn both(&self, group: &mut BenchmarkGroup<'_, WallTime>, case: &str, tasks: u64) {
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("leasehold", case), |b| {
            b.iter_custom(|pairs| {
                let run =
                    |task, pairs| our_pairs(self.client.clone(), format!("own-{task}"), pairs);
                self.note(case, 0, pairs, self.runtime.block_on(spread(tasks, pairs, run)))
            });
        });
        group.bench_function(BenchmarkId::new("raw EVALSHA", case), |b| {
            b.iter_custom(|pairs| {
                let run = |task, pairs| raw_pairs(self.raw.clone(), format!("raw-{task}"), pairs);
                self.note(case, 1, pairs, self.runtime.block_on(spread(tasks, pairs, run)))
            });
        });
    }
}

fn median(costs: &mut [f64]) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Acquire and release, every task its own name.
fn uncontended(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("uncontended pair");
    for tasks in [1, 16, 256] {
        bench.both(&mut group, &format!("uncontended, {tasks} tasks"), tasks);
    }
    group.finish();
}

/// Two tasks of one process hand one lock to and fro.
fn hand_over(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("hand-over");
    let case = "hand-over, 2 tasks, 1 name";
    group.bench_function("leasehold, 2 tasks", |b| {
        b.iter_custom(|pairs| {
            let run = |_, pairs| our_pairs(bench.client.clone(), "contended".into(), pairs);
            bench.note(case, 0, pairs, bench.runtime.block_on(spread(2, pairs, run)))
        });
    });
    group.bench_function("raw EVALSHA pair, 1 task", |b| {
        b.iter_custom(|pairs| {
            let run = |_, pairs| raw_pairs(bench.raw.clone(), "alone".into(), pairs);
            bench.note(case, 1, pairs, bench.runtime.block_on(spread(1, pairs, run)))
        });
    });
    group.finish();
}

/// A pair beside a keeper with many leases, which it renews each second.
fn keeper(c: &mut Criterion, bench: &Bench) {
    let busy = bench.runtime.block_on(Client::connect(&bench.redis.url())).unwrap();
    let held = bench.runtime.block_on(async {
        let mut held: Vec<LockGuard> = Vec::new();
        for number in 0..LEASES {
            let lock = busy.lock(format!("kept-{number}")).unwrap().ttl(Duration::from_secs(3));
            held.push(lock.acquire().await.unwrap());
        }
        held
    });
    let mut group = c.benchmark_group("pair beside 10 000 leases of 3 s");
    bench.both(&mut group, "beside 10 000 leases, 1 task", 1);
    group.finish();

    let stats = busy.stats();
    assert!(held.iter().all(LockGuard::is_held), "a lease was lost: {stats:?}");
    println!("renewals {}, greatest lag {:?}", stats.renewals, stats.renewal_lag_max);
    let shutdown = bench.runtime.block_on(busy.shutdown(Duration::from_secs(10)));
    println!("shut down: {shutdown:?}");
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    let bench = Bench::new();
    uncontended(&mut criterion, &bench);
    hand_over(&mut criterion, &bench);
    keeper(&mut criterion, &bench);
    criterion.final_summary();
    bench.print_ratios();
}
