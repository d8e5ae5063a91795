//! Contention of both languages while the servers of the lock fail.
//!
//! The counter is on a server that does not fail, so no failure changes it. It contains each
//! increment once, unless two threads have held the lock at the same time.

use std::time::Duration;

use interop::{Contenders, Kind, Report, Servers, Setup, Together, Way, measured, woken};
use testkit::{Monitor, Redis, eventually};

/// Lets four threads of each language increment the counter under one lock of this kind, while
/// `turmoil` runs. `turmoil` gets the servers, and a function that waits until both languages have
/// made progress.
#[track_caller]
pub(crate) fn counts_right<S: Servers>(
    redis: S,
    rust: impl Fn(Setup) -> Setup,
    (kind, what): (Kind, &str),
    turmoil: impl FnOnce(&S, &dyn Fn()),
) {
    // given contenders of both languages
    let counter = Redis::start();
    let setup = |setup: Setup| setup.watchdog(TTL).counts_on(counter.url());
    let both = Together::on_differing(redis, setup, |it| rust(setup(it)));
    let monitor = counter.monitor();
    let contenders = Contenders::new("door", "counter", 4)
        .until_stopped()
        .stubborn()
        .hold(MILLI)
        .rest(MILLI * 150);
    let [ours, theirs] = [both.rust.thread("crowd"), both.java.thread("crowd")]
        .map(|thread| thread.of(kind).start_contenders(&contenders));
    let goes_on = || go_on(&counter);
    goes_on();

    // when the servers fail
    turmoil(&both.redis, &goes_on);

    // then both languages continue, and each increment counts once
    goes_on();
    counter.command(&["SET", "counter:over", "1"]);
    let [ours, theirs] = [ours, theirs].map(|it| Report::read(&it.wait(PATIENCE)));
    let counted = number(&counter, "counter");
    assert_eq!(counted, ours.total + theirs.total, "{ours:#?} {theirs:#?}");
    assert_one_by_one(monitor, counted);
    if kind == Kind::Fenced {
        assert_tokens_grow(&counter, counted);
    }
    tell(&both.redis.row(kind, what), &ours, &theirs);
}

/// Waits until each language has completed some more rounds.
#[track_caller]
fn go_on(counter: &Redis) {
    for made in ["counter:rust", "counter:java"] {
        let before = number(counter, made);
        eventually(made, PATIENCE, || number(counter, made) >= before + ROUNDS);
    }
}

fn number(redis: &Redis, key: &str) -> u64 {
    let reply = redis.command(&["GET", key]);
    if reply.is_nil() { 0 } else { reply.text().parse().unwrap() }
}

/// Asserts that each `SET` of the counter was one more than the previous one.
#[track_caller]
fn assert_one_by_one(monitor: Monitor, counted: u64) {
    let lines = monitor.stop();
    let set = lines.iter().filter_map(|line| line.split_once(r#""SET" "counter" ""#));
    let set: Vec<u64> = set.map(|(_, n)| n.trim_end_matches('"').parse().unwrap()).collect();
    assert_eq!(set, (1..=counted).collect::<Vec<_>>());
}

/// Asserts that each hold had a higher token than the hold before.
#[track_caller]
fn assert_tokens_grow(counter: &Redis, holds: u64) {
    let tokens = counter.command(&["LRANGE", "counter:tokens", "0", "-1"]);
    let tokens: Vec<u64> = tokens.texts().iter().map(|token| token.parse().unwrap()).collect();
    let fall = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!((fall, tokens.len() as u64), (None, holds));
}

fn tell(row: &str, ours: &Report, theirs: &Report) {
    for (way, report) in [(Way::JavaToRust, ours), (Way::RustToJava, theirs)] {
        println!("{row}, {way}: {} times, refused: {:#?}", report.total, report.refusals);
        let figure = format!("{}, refused {}", report.total, report.refusals.len());
        measured(&format!("{row}: additions"), way, &figure);
        woken(&format!("{row}: longest wait"), way, report.max_wait);
    }
}

const MILLI: Duration = Duration::from_millis(1);
/// The ttl. If a failover loses a release, the lock stays held for this long.
const TTL: Duration = Duration::from_secs(6);
/// The longest time of any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// The number of rounds that a language must complete to count as running.
const ROUNDS: u64 = 4;
