//! Tests with real threads and thousands of rounds, for races that cannot happen in one thread.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::{sleep, timeout},
};

use super::Engine;
use crate::{Client, Lock, LockGuard, MemoryStore, error::Error};

fn threads(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

fn door(engine: &Arc<Engine>) -> Lock {
    Client::of(Arc::clone(engine)).lock("door").unwrap()
}

/// Waits until `what` is true, for example until a pending release is completed.
async fn becomes(what: impl Fn() -> bool) {
    let becomes = async {
        while !what() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), becomes).await.unwrap();
}

/// A worker that acquires the lock in every way.
struct Worker {
    lock: Lock,
    inside: Arc<AtomicU32>,
    chance: fastrand::Rng,
}

impl Worker {
    async fn enter(&mut self) -> Option<LockGuard> {
        let max_wait = Duration::from_micros(self.chance.u64(..300));
        let entered = match self.chance.u32(..4) {
            0 => self.lock.try_acquire().await.unwrap(),
            1 => self.lock.acquire_within(max_wait).await.ok(),
            2 => timeout(max_wait, self.lock.acquire()).await.ok().map(Result::unwrap),
            _ => Some(self.lock.acquire().await.unwrap()),
        };
        entered.filter(LockGuard::is_held)
    }

    async fn work(mut self, rounds: u32) {
        for _ in 0..rounds {
            let Some(guard) = self.enter().await else { continue };
            assert_eq!(
                self.inside.fetch_add(1, Ordering::SeqCst),
                0,
                "only one task relies on its hold"
            );
            if self.chance.u32(..4) == 0 {
                yield_now().await;
            }
            if self.chance.u32(..8) == 0 {
                drop(guard.reenter().await.unwrap());
            }
            assert!(guard.is_held());
            assert_eq!(
                self.inside.fetch_sub(1, Ordering::SeqCst),
                1,
                "only one task relies on its hold"
            );
            match self.chance.u32(..3) {
                0 => drop(guard),
                1 => drop(timeout(Duration::from_micros(20), guard.release()).await),
                _ => drop(guard.release().await.unwrap()),
            }
        }
    }
}

#[test]
fn contending_tasks_exclude_each_other_and_leave_no_key() {
    const ROUNDS: u32 = 400;
    let store = MemoryStore::new();
    let clients = ["one", "other", "third"].map(|name| Engine::on(&store, name));
    let inside = Arc::<AtomicU32>::default();
    threads(4).block_on(async {
        let workers = (0..9).map(|number| {
            let (lock, inside) = (door(&clients[number % 3]), Arc::clone(&inside));
            let chance = fastrand::Rng::with_seed(number as u64);
            tokio::spawn(Worker { lock, inside, chance }.work(ROUNDS))
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        becomes(|| clients.iter().all(|client| client.is_idle())).await;
    });
    assert!(store.keys().is_empty(), "{:?}", store.keys());
}

/// A shutdown from another thread must revoke a grant even while tasks hand this grant off.
#[test]
fn shut_down_client_has_no_holds() {
    const ROUNDS: u32 = 1_000;
    let (runtime, mut chance) = (threads(2), fastrand::Rng::with_seed(1));
    for _ in 0..ROUNDS {
        let store = MemoryStore::new();
        let (one, other) = (Engine::on(&store, "one"), Engine::on(&store, "other"));
        let guard = runtime.block_on(door(&one).acquire()).unwrap();
        let lock = door(&one);
        let waits = runtime.spawn(async move { lock.acquire().await });
        while one.stats().waiting < 1 {
            spin_loop();
        }
        (0..200).for_each(|_| spin_loop());
        drop(guard);
        (0..chance.u32(..3_000)).for_each(|_| spin_loop());

        one.shut_down(Duration::ZERO).now_or_never().unwrap();
        let entered = runtime.block_on(waits).unwrap();
        match &entered {
            Ok(guard) => assert!(!guard.is_held(), "the hold is lost after the shutdown"),
            Err(error) => assert!(matches!(error, Error::ShutDown), "{error}"),
        }
        let lock = door(&other);
        let released = runtime.block_on(lock.acquire_within(Duration::from_secs(5)));
        assert!(released.is_ok(), "the lock was released");
    }
}

/// After a shutdown, no hold of the client is left, and no task acquires.
#[test]
fn shutdown_while_tasks_wait_leaves_no_key() {
    const ROUNDS: u32 = 100;
    let runtime = threads(4);
    for round in 0..ROUNDS {
        let store = MemoryStore::new();
        let client = Engine::on(&store, "client");
        runtime.block_on(async {
            let works = |lock: Lock| async move {
                loop {
                    match lock.acquire().await {
                        Ok(guard) => {
                            yield_now().await;
                            drop(guard);
                        }
                        Err(error) => return assert!(matches!(error, Error::ShutDown)),
                    }
                }
            };
            let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(works(door(&client)))).collect();
            sleep(Duration::from_micros(u64::from(round % 10) * 50)).await;
            let max_wait = Duration::from_millis(u64::from(round % 2) * 50);
            client.shut_down(max_wait).await;
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(client.stats().held, 0);
            becomes(|| client.core.pending.queued() == 0 && client.watchdog.watched() == 0).await;
            becomes(|| !store.keys().contains(&"door".to_owned())).await;
        });
    }
}

/// Former bug: a waiter on a runtime that had ended started background tasks in an endless loop,
/// because each task ended at once.
#[test]
fn waiter_of_a_dead_runtime_gets_an_error() {
    let store = MemoryStore::new();
    let engine = Engine::on(&store, "one");
    let (lock, runtime) = (door(&engine), threads(1));
    let _guard = runtime.block_on(lock.acquire()).unwrap();
    let handle = runtime.handle().clone();
    let waiter = std::thread::spawn(move || handle.block_on(lock.acquire()).map(drop));
    testkit::eventually("the client waits", Duration::from_secs(5), || engine.stats().waiting == 1);
    runtime.shutdown_background();
    testkit::eventually("the waiter fails", Duration::from_secs(5), || waiter.is_finished());
    let result = waiter.join().unwrap();
    assert!(matches!(result, Err(Error::NoRuntime)), "{result:?}");
}

#[test]
fn shutdown_completes_pending_releases_on_another_runtime() {
    let store = MemoryStore::new();
    let engine = Engine::on(&store, "one");
    let runtime = threads(1);
    let guard = runtime.block_on(door(&engine).acquire()).unwrap();
    drop(runtime);
    drop(guard);
    let left = threads(1).block_on(engine.shut_down(Duration::from_secs(5)));
    assert_eq!((left, store.keys()), ((0, 0), vec![]));
}
