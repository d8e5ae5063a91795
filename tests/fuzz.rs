//! Clients of a server that replies wrongly at random, with random settings.
//!
//! A seed decides how the server changes each of its replies. The server repeats, delays, omits,
//! splits or corrupts a reply, sends another reply instead, or sends bytes without an end. Despite
//! these faults, every call ends in time, nothing panics, and no error contains the password. When
//! the replies are correct again, the client works again.
//!
//! `make fuzz SEEDS=n` runs n seeds, and `make fuzz SEED=x` repeats the seed x.

mod common;

use std::{
    env,
    ops::Range,
    panic,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{ms, secs};
use fastrand::Rng;
use futures_util::{StreamExt, stream};
use leasehold::{Client, Error, Lock, LockGuard};
use testkit::{Redis, ServerMessage, Tampering, TamperingProxy};
use tokio::time::{Instant, timeout};

/// The number of seeds if `SEEDS` is not set.
const FEW: u64 = 24;

/// How many seeds run at the same time. Each run mostly waits.
const TOGETHER: usize = 24;

const COMMAND_TIMEOUT: Duration = Duration::from_millis(150);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How much later than promised a call may return on a busy machine.
const BUSY: Duration = Duration::from_secs(2);

const PASSWORD: &str = "hunter2";

/// The seeds to run. A test run may request one seed, or a number of seeds from a random start.
/// Without a request, these are the first `few` seeds.
fn seeds(few: u64) -> Range<u64> {
    let setting = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let asked_for = setting("LEASEHOLD_SEEDS");
    let fresh = asked_for.map_or(0, |_| fastrand::u64(..) >> 16);
    let base = setting("LEASEHOLD_BASE").unwrap_or(fresh);
    let seeds = match setting("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => base..base + asked_for.unwrap_or(few),
    };
    println!("seeds {seeds:?}");
    seeds
}

/// The number of panics in this process so far, in any task.
fn panics() -> usize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            print(info);
        }));
    });
    PANICS.load(Ordering::SeqCst)
}

/// A change to a reply of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Closed,
    Endless,
    Late,
    Long,
    Split,
    // With the following faults, a client may read a reply as the reply to another request, or may
    // misread a reply.
    Foreign,
    Missing,
    Spoilt,
    Twice,
    TwiceLate,
}

impl Fault {
    const HONEST: [Self; 5] = [Self::Closed, Self::Endless, Self::Late, Self::Long, Self::Split];
    const ALL: [Self; 10] = [
        Self::Closed,
        Self::Endless,
        Self::Late,
        Self::Long,
        Self::Split,
        Self::Foreign,
        Self::Missing,
        Self::Spoilt,
        Self::Twice,
        Self::TwiceLate,
    ];

    /// Returns the bytes to send instead of `output`, and when to send them.
    fn of(
        self,
        random: &mut Rng,
        ServerMessage { nth, bytes: output, .. }: ServerMessage<'_>,
    ) -> Tampering {
        let at_once = |word: Vec<u8>| (Duration::ZERO, word);
        let pause = ms(random.u64(..2 * COMMAND_TIMEOUT.as_millis() as u64));
        let output = output.to_vec();
        Tampering::Words(match self {
            Self::Closed => return Tampering::HangUp,
            Self::Endless => [flood(&endless(random)), vec![at_once(output)]].concat(),
            Self::Late => vec![(pause, output)],
            Self::Long => vec![at_once(too_long(random)), at_once(output)],
            Self::Split => output.chunks(random.usize(1..5)).map(|it| (ms(1), it.into())).collect(),
            // A server that does not know `HELLO` may repeat the text of the request in its error.
            Self::Foreign if nth == 0 && random.bool() => vec![at_once(echo())],
            Self::Foreign if random.u8(..8) == 0 => flood(&foreign(random)),
            Self::Foreign => vec![at_once(foreign(random))],
            Self::Missing => vec![],
            Self::Spoilt => vec![at_once(spoilt(random, output))],
            Self::Twice => vec![at_once(output.clone()), at_once(output)],
            Self::TwiceLate => vec![at_once(output.clone()), (pause, output)],
        })
    }
}

/// A valid reply to some other request.
fn foreign(random: &mut Rng) -> Vec<u8> {
    let words = [
        ":0\r\n",
        ":1\r\n",
        "+OK\r\n",
        "$-1\r\n",
        "*0\r\n",
        "%0\r\n",
        "*2\r\n:-1\r\n*2\r\n$1\r\nx\r\n$1\r\n1\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-NOAUTH Authentication required.\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$1000000000000\r\n",
        "*100000000\r\n",
        "\r",
        "x",
    ];
    random.choice(words).unwrap_or_default().into()
}

fn echo() -> Vec<u8> {
    let words = "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH'";
    format!("{words} 'default' '{PASSWORD}' \r\n").into()
}

/// 400 times 4 kB of replies, 2 ms apart. A faster flood would slow down other tests.
fn flood(word: &[u8]) -> Vec<(Duration, Vec<u8>)> {
    vec![(ms(2), word.repeat(4_096 / word.len())); 400]
}

/// Bytes that never complete a reply.
fn endless(random: &mut Rng) -> Vec<u8> {
    let push = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n";
    random.choice([push, "x", "+x", "+", "*1\r\n"]).unwrap_or_default().into()
}

fn too_long(random: &mut Rng) -> Vec<u8> {
    let length = random.usize(300_000..2_000_000);
    let kind = random.choice(["$", ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$", "*1\r\n$"]);
    format!("{}{length}\r\n{}\r\n", kind.unwrap_or("$"), "x".repeat(length)).into()
}

fn spoilt(random: &mut Rng, mut output: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..output.len());
        match random.u8(..3) {
            0 => output[at] = random.u8(..),
            1 => output.insert(at, random.u8(..)),
            _ => output.truncate(at + 1),
        }
    }
    output
}

/// One run of one seed.
struct Run {
    seed: u64,
    random: Rng,
    tampering: TamperingProxy,
    lies: Arc<AtomicBool>,
    /// Whether every reply that arrives belongs to its request and is correct.
    honest: bool,
}

impl Run {
    fn of(seed: u64, redis: &Redis) -> Self {
        let mut random = Rng::with_seed(seed);
        let honest = random.bool();
        let lies = Arc::new(AtomicBool::new(random.u8(..4) == 0));
        let (switch, dice) = (Arc::clone(&lies), Mutex::new(random.fork()));
        let tampering = TamperingProxy::before(redis.port(), move |message: ServerMessage<'_>| {
            let random = &mut *dice.lock().unwrap();
            // A login consists of many replies. With the fault rate of later replies, a login would
            // hardly ever succeed.
            let seldom = if message.nth < 10 { 60 } else { 6 };
            let lies = switch.load(Ordering::SeqCst) && random.u8(..seldom) == 0;
            let faults = if honest { &Fault::HONEST[..] } else { &Fault::ALL[..] };
            match random.choice(faults) {
                Some(fault) if lies => fault.of(random, message),
                _ => Tampering::Truth,
            }
        });
        Self { seed, random, tampering, lies, honest }
    }

    /// Runs the seed. Returns the number of calls.
    async fn reported(mut self, redis: &Redis) -> usize {
        let builder = Client::builder()
            .password(PASSWORD)
            .command_timeout(COMMAND_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT);
        let url = self.tampering.url();
        // Time for two connections and one request.
        let limit = 2 * CONNECT_TIMEOUT + COMMAND_TIMEOUT;
        let client = match self.within(limit, "`connect`", builder.connect(&url)).await {
            Ok(client) => client,
            Err(error) => {
                self.keeps_the_password(&error);
                return 1;
            }
        };
        self.lies.store(true, Ordering::SeqCst);
        let calls = self.random.usize(4..16);
        for _ in 0..calls {
            let name = format!("{}-{}", self.seed, self.random.u8(..3));
            let lock = client.lock(name).unwrap();
            self.calls(redis, &lock).await;
        }
        self.lies.store(false, Ordering::SeqCst);
        let lock = client.lock(format!("{}-after", self.seed)).unwrap();
        // A reply from the time of the faults may still be assigned to the wrong request. So the
        // first acquisitions may fail.
        let recovered = async { while lock.acquire().await.is_err() {} };
        self.within(secs(10), "the recovery of the client", recovered).await;
        calls + 2
    }

    async fn calls(&mut self, redis: &Redis, lock: &Lock) {
        let max_wait = ms(self.random.u64(1..400));
        match self.random.u8(..4) {
            0 => {
                let guard = self.within(secs(3), "`try_acquire`", lock.try_acquire()).await;
                let guard = guard.unwrap_or_else(|error| {
                    self.keeps_the_password(&error);
                    None
                });
                self.holds(redis, guard).await;
            }
            1 | 2 => {
                let acquired = lock.acquire_within(max_wait);
                let guard = self.within(max_wait, "`acquire_within`", acquired).await;
                let guard = guard.map_err(|error| self.keeps_the_password(&error)).ok();
                self.holds(redis, guard).await;
            }
            _ => {
                let looked = self.within(secs(3), "`holder`", lock.holder()).await;
                looked.map_err(|error| self.keeps_the_password(&error)).ok();
            }
        }
    }

    /// If there is a guard, checks that its lock is held, and releases or drops it.
    async fn holds(&mut self, redis: &Redis, guard: Option<LockGuard>) {
        let Some(guard) = guard else { return };
        if self.honest && guard.is_held() {
            let count = redis.command(&["HGET", guard.name().as_str(), guard.owner().as_str()]);
            assert!(!count.is_nil(), "seed {}: the lock was granted, but is not held", self.seed);
        }
        if self.random.bool() {
            let released = self.within(secs(5), "`release`", guard.release()).await;
            released.map_err(|error| self.keeps_the_password(&error)).ok();
        }
    }

    async fn within<T>(&self, limit: Duration, what: &str, call: impl Future<Output = T>) -> T {
        let done = timeout(limit + BUSY, call).await;
        done.unwrap_or_else(|_| panic!("seed {}: {what} takes longer than {limit:?}", self.seed))
    }

    fn keeps_the_password(&self, error: &Error) {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(PASSWORD), "seed {}: {shown}", self.seed);
        assert!(shown.len() < 2_000, "seed {}: {shown}", self.seed);
        let words = error.to_string();
        assert!(!words.contains(char::is_control), "seed {}: {words:?}", self.seed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_end_in_time_and_the_client_recovers_from_any_reply() {
    let redis = Redis::start();
    let (before, start) = (panics(), Instant::now());
    let tell = async |seed| Run::of(seed, &redis).reported(&redis).await;
    let reported = stream::iter(seeds(FEW)).map(tell).buffer_unordered(TOGETHER);
    let calls: Vec<usize> = reported.collect().await;
    println!("{} runs, {} calls, {:?}", calls.len(), calls.iter().sum::<usize>(), start.elapsed());
    assert_eq!(panics(), before, "a task panicked");
}

#[tokio::test(start_paused = true)]
async fn any_text_is_a_usable_name_or_is_refused() {
    let client = Client::in_memory();
    let odd: Vec<char> =
        "ab{}:%*?[]\\\r\n\0\t\u{1b}\u{7f}äключ🔒\u{202e}\u{feff}|'\"$ 0-1".chars().collect();
    let (mut locked, mut refused) = (0, 0);
    for seed in seeds(FEW).flat_map(|seed| 100 * seed..100 * (seed + 1)) {
        let mut random = Rng::with_seed(seed);
        let name: String =
            (0..random.usize(..30)).filter_map(|_| random.choice(&odd).copied()).collect();
        match client.lock(&name) {
            Ok(lock) => {
                let guard = lock.try_acquire().await.unwrap().unwrap_or_else(|| panic!("{name:?}"));
                assert!(client.lock(&name).unwrap().try_acquire().await.unwrap().is_none());
                assert!(!format!("{}", lock.name()).contains(char::is_control), "{name:?}");
                guard.release().await.unwrap().into_result().unwrap();
                locked += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::Name(_)), "{name:?}: {error}");
                refused += 1;
            }
        }
    }
    println!("{locked} names locked, {refused} refused");
    assert!(locked > 0 && refused > 0);
}

/// A duration near one of the limits, or zero.
fn duration(random: &mut Rng) -> Duration {
    let nanos = [0, 1, 999_999, 1_000_000, 1_000_001, 1_500_000, 30_000_000_000];
    let secs = [1, 3_153_600_000, 3_153_600_001, 1 << 40, u64::MAX];
    match random.u8(..3) {
        0 => Duration::from_nanos(random.choice(nanos).unwrap_or_default()),
        1 => Duration::from_secs(random.choice(secs).unwrap_or_default()),
        _ => Duration::from_millis(random.u64(..100_000)),
    }
}

#[tokio::test(start_paused = true)]
async fn any_duration_works_or_is_refused_without_a_panic() {
    let (mut granted, mut refused) = (0, 0);
    for seed in seeds(FEW).flat_map(|seed| 10 * seed..10 * (seed + 1)) {
        let client = Client::in_memory();
        let mut random = Rng::with_seed(seed);
        let [a, b, c] = [(); 3].map(|()| duration(&mut random));
        let lock = client.lock("door").unwrap();
        let lock = match random.u8(..4) {
            0 => lock.ttl(a).max_hold(b),
            1 => lock.lease(a).max_hold(b),
            2 => lock.ttl(a).lease(b),
            _ => lock.local_handoff(random.u32(..), a).max_hold(b),
        };
        match lock.acquire_within(c).await {
            Ok(guard) => {
                guard.release().await.unwrap().into_result().unwrap();
                granted += 1;
            }
            Err(Error::Duration(_)) => refused += 1,
            Err(Error::TimedOut { .. } | Error::Unavailable { .. }) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        client.shutdown(a.min(secs(60))).await;
    }
    println!("{granted} durations kept, {refused} refused");
    assert!(granted > 0 && refused > 0);
}
