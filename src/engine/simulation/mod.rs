//! Many clients, a simulated server, one seed.
//!
//! A seed decides everything: which client wants which lock when and for how long, which one
//! is cancelled or paused, what happens to the server and to the connections. Time is virtual,
//! so that a minute passes in milliseconds, and the same seed makes the same story again.
//!
//! What must always be true is in `served/judge.rs`, `served/records.rs` and
//! `served/objects.rs`. `make simulate SEEDS=n` tells many stories of each world,
//! `make simulate SEED=x WORLDS=run_served` tells one aloud, and `make defects` shows that
//! planted defects are found.
//!
//! ```text
//! served              clients on the store that they have in production, on a simulated server
//! gate · story        a client that stands still; what happened
//! ```

mod gate;
mod served;
mod story;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How many seeds every run of the tests tells.
const FEW: u64 = 100;
const FEW_DEPLOYED: u64 = 10;

/// Lives through the story of a seed.
type World = fn(u64, &Arc<story::Story>) -> Result<(), String>;

/// One story that broke a rule.
struct Broken {
    seed: u64,
    rule: String,
}

/// Tells the story of `seed`; what it says is printed if `aloud`.
fn tell(world: World, seed: u64, aloud: bool) -> Result<(), Broken> {
    let story = story::Story::new(aloud);
    let told = catch_unwind(AssertUnwindSafe(|| world(seed, &story)));
    let rule = match told {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(rule)) => rule,
        Err(panic) => format!("it panicked: {}", words_of(panic.as_ref())),
    };
    Err(Broken { seed, rule })
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Tells stories from `base` on, on every core, until one breaks a rule.
/// Returns how many were told, and the one that broke.
fn tell_many(world: World, base: u64, seeds: u64) -> (u64, Option<Broken>) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let tellers: Vec<AtomicU64> = (0..cores).map(|_| AtomicU64::new(0)).collect();

    let tell_some = |telling: &AtomicU64| {
        let mut broken = None;
        while broken.is_none() && !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                break;
            }
            telling.store(base.wrapping_add(number), Ordering::Relaxed);
            broken = tell(world, base.wrapping_add(number), false).err();
            stop.fetch_or(broken.is_some(), Ordering::Relaxed);
        }
        broken
    };
    let broken = thread::scope(|scope| {
        let telling = tellers.iter().map(|telling| scope.spawn(|| tell_some(telling)));
        let telling: Vec<_> = telling.collect();
        scope.spawn(|| end_what_hangs(&tellers, &stop));
        let broken = telling.into_iter().filter_map(|teller| teller.join().unwrap());
        let broken = broken.min_by_key(|broken| broken.seed);
        stop.store(true, Ordering::Relaxed);
        broken
    });
    (next.into_inner().min(seeds), broken)
}

/// Ends the process when a story does not end: time that does not pass is a
/// loop that never waits.
fn end_what_hangs(tellers: &[AtomicU64], stop: &AtomicBool) {
    const LOOK: Duration = Duration::from_millis(100);
    const LONGEST: u32 = 200;
    let read = || tellers.iter().map(|it| it.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (mut before, mut looks) = (read(), vec![0; tellers.len()]);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        for (teller, seed) in read().into_iter().enumerate() {
            looks[teller] = if before[teller] == seed { looks[teller] + 1 } else { 0 };
            before[teller] = seed;
            if looks[teller] == LONGEST {
                println!("seed {seed} broke a rule: time does not pass any more");
                std::process::exit(101);
            }
        }
    }
}

/// Locks. See the Makefile for how to tell more stories.
#[test]
fn run_served() {
    simulate(served::run, "run_served", FEW);
}

/// The objects that are no plain lock.
#[test]
fn run_objects() {
    simulate(served::run_objects, "run_objects", FEW);
}

/// A primary with replicas that sentinels watch.
#[test]
fn run_sentinel() {
    simulate(served::run_sentinel, "run_sentinel", FEW_DEPLOYED);
}

/// A cluster, whose slots move.
#[test]
fn run_cluster() {
    simulate(served::run_cluster, "run_cluster", FEW_DEPLOYED);
}

fn simulate(world: World, called: &str, few: u64) {
    if let Some(seed) = setting::<u64>("LEASEHOLD_SEED") {
        match tell(world, seed, true) {
            Ok(()) => println!("seed {seed}: every rule held"),
            Err(Broken { rule, .. }) => panic!("seed {seed} broke a rule: {rule}"),
        }
        return;
    }
    let seeds = setting("LEASEHOLD_SEEDS");
    let fresh = || if seeds.is_some() { fastrand::u64(..) >> 16 } else { 0 };
    let base = setting("LEASEHOLD_BASE").unwrap_or_else(fresh);
    let seeds = seeds.unwrap_or(few);
    println!("simulating {seeds} seeds from {base}");

    let (told, broken) = tell_many(world, base, seeds);
    if let Some(Broken { seed, rule }) = broken {
        // The story again, aloud this time.
        drop(tell(world, seed, true));
        panic!(
            "seed {seed} broke a rule after {told} seeds: {rule}\n\
             replay it with: make simulate SEED={seed} WORLDS={called}"
        );
    }
    println!("{told} seeds, every rule held");
}

/// The same seed makes the same story, word for word.
#[test]
fn a_story_of_a_server_can_be_told_again() {
    tell_twice(served::run, 20);
}

#[test]
fn a_story_of_objects_on_a_server_can_be_told_again() {
    tell_twice(served::run_objects, 20);
}

#[test]
fn a_story_of_sentinels_can_be_told_again() {
    tell_twice(served::run_sentinel, 3);
}

#[test]
fn a_story_of_a_cluster_can_be_told_again() {
    tell_twice(served::run_cluster, 3);
}

fn tell_twice(world: World, seeds: u64) {
    for seed in 0..seeds {
        let stories = [(); 2].map(|()| {
            let story = story::Story::new(false);
            drop(world(seed, &story));
            story.text()
        });
        assert!(!stories[0].is_empty());
        let [once, again] = stories.each_ref().map(|story| story.lines());
        let differs = once.zip(again).find(|(once, again)| once != again);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(stories[0].len(), stories[1].len(), "seed {seed}");
    }
}
