//! `getMultiLock` and Leasehold's `MultiLock`: both are several plain locks.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use interop::{AT_ONCE, Kind, Thread, Together, Way, shown, woken};
use leasehold::{Client, MultiLock};
use tokio::runtime::Runtime;

const SECOND: Duration = Duration::from_secs(1);

/// A client in the process of the test.
fn client(both: &Together) -> (Runtime, Client) {
    let runtime = Runtime::new().unwrap();
    let client = runtime.block_on(Client::connect(&both.redis.url())).unwrap();
    (runtime, client)
}

fn java(both: &Together, name: &str) -> Thread {
    both.java.thread(name).of(Kind::Multi)
}

#[test]
fn multi_locks_of_both_languages_exclude_each_other() {
    let both = Together::start();
    let (runtime, client) = client(&both);
    let (java, single) = (java(&both, "T1"), both.java.thread("T2"));
    let ours = client.multi_lock(["door", "gate"]).unwrap();

    // Java holds, and Rust waits.
    assert!(java.lock("gate,door").acquired());
    assert!(runtime.block_on(ours.try_acquire()).unwrap().is_none());
    assert!(runtime.block_on(client.lock("gate").unwrap().try_acquire()).unwrap().is_none());
    let waiting = runtime.spawn({
        let ours = ours.clone();
        async move { (ours.acquire().await.unwrap(), Instant::now()) }
    });
    both.until_asleep("door", 1);
    let left = Instant::now();
    assert!(java.unlock("gate,door").is_true());
    let (guard, entered) = runtime.block_on(waiting).unwrap();
    let delay = entered - left;
    assert!(delay < AT_ONCE, "{delay:?}");
    woken("multi-lock: a waiter is woken by the release of the other", Way::JavaToRust, delay);

    // Rust holds, and Java waits.
    assert!(!java.try_lock("gate,door").acquired());
    assert!(!single.try_lock("gate").acquired());
    let waiting = java.start_lock("gate,door");
    both.until_asleep("gate", 1);
    let left = Instant::now();
    runtime.block_on(guard.release()).into_result().unwrap();
    assert!(waiting.wait(SECOND * 10).acquired());
    let delay = left.elapsed();
    assert!(delay < AT_ONCE, "{delay:?}");
    woken("multi-lock: a waiter is woken by the release of the other", Way::RustToJava, delay);
    assert!(java.unlock("gate,door").is_true());
    assert!(runtime.block_on(ours.try_acquire()).unwrap().is_some());
}

/// Whether a thread or a task now holds both members.
struct Inside(AtomicBool);

impl Inside {
    fn visit(&self) {
        assert!(!self.0.swap(true, SeqCst), "there is only one holder");
        sleep(Duration::from_millis(5));
        self.0.store(false, SeqCst);
    }
}

/// Each language has two threads that acquire. Java acquires the members in the given order.
#[test]
fn java_and_rust_multi_locks_in_opposite_orders_make_progress() {
    const ROUNDS: u32 = 20;
    let both = Together::start();
    let (runtime, client) = client(&both);
    let inside = Inside(AtomicBool::new(false));
    let ours = |lock: MultiLock| {
        for _ in 0..ROUNDS {
            let guard = runtime.block_on(lock.acquire_within(SECOND * 50)).unwrap();
            inside.visit();
            runtime.block_on(guard.release()).into_result().unwrap();
            sleep(Duration::from_millis(20));
        }
    };
    let theirs = |thread: Thread, names: &str| {
        for _ in 0..ROUNDS {
            assert!(thread.lock(names).acquired());
            inside.visit();
            assert!(thread.unlock(names).is_true());
            sleep(Duration::from_millis(20));
        }
    };
    scope(|scope| {
        for names in [["door", "gate"], ["gate", "door"]] {
            let lock = client.multi_lock(names).unwrap();
            scope.spawn(|| ours(lock));
        }
        for names in ["door,gate", "gate,door"] {
            let thread = java(&both, names);
            scope.spawn(move || theirs(thread, names));
        }
    });
    shown("multi-lock: opposite orders make progress", Way::RustToJava);
    shown("multi-lock: opposite orders make progress", Way::JavaToRust);
}
