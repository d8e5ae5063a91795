//! The fair lock on a real server: the cost of passing it to the next waiter, and the order of the
//! waiters of two clients.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Client;
use testkit::{Redis, eventually};
use tokio::time::sleep;

use crate::common::{SOON, client, keys, ms, release_guard, within};

const QUEUE: &str = "redisson_lock_queue:{door}";

/// Starts waiters of two clients, and returns them in the order in which they came.
async fn waiters(
    redis: &Redis,
    clients: &[Client; 2],
    number: usize,
    hold: Duration,
) -> Vec<tokio::task::JoinHandle<usize>> {
    let mut tasks = vec![];
    for place in 0..number {
        let lock = clients[place % 2].fair_lock("door").unwrap();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            sleep(hold).await;
            release_guard(guard).await;
            place
        }));
        let queued = || redis.command(&["LLEN", QUEUE]).number();
        eventually("the waiter is in the queue", SOON, || {
            usize::try_from(queued()) == Ok(place + 1)
        });
    }
    tasks
}

/// Returns the average number of commands that passing the lock to the next of `number` waiters
/// costs.
async fn cost_of_a_hand_over(number: usize) -> f64 {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    let guard = clients[0].fair_lock("door").unwrap().acquire().await.unwrap();
    let tasks = waiters(&redis, &clients, number, ms(1)).await;
    // After this pause, each waiter is subscribed and has repeated its request.
    sleep(ms(300)).await;
    let monitor = redis.monitor();
    release_guard(guard).await;
    within(SOON, "all waiters acquire", join_all(tasks)).await;
    let lines = monitor.stop();
    let sent = lines.iter().filter(|line| !line.contains(" lua] ")).count();
    assert!(keys(&redis).is_empty(), "{:?}", keys(&redis));
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let each = sent as f64 / number as f64;
    println!("{number} waiters: {each:.1} commands for each hand-over");
    each
}

#[tokio::test(flavor = "multi_thread")]
async fn fair_hand_over_costs_the_same_for_2_8_and_64_waiters() {
    for number in [2, 8, 64] {
        // Passing the lock on costs a release, a request of the waiter at the head, and the end of
        // its subscription. In addition, each waiter repeats its request every 1.5 s.
        let each = cost_of_a_hand_over(number).await;
        assert!((2.0..5.0).contains(&each), "{number}: {each}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fair_waiters_of_two_clients_keep_their_order() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    let guard = clients[0].fair_lock("door").unwrap().acquire().await.unwrap();
    let tasks = waiters(&redis, &clients, 10, ms(20)).await;
    let queue = redis.command(&["LRANGE", QUEUE, "0", "-1"]);
    let owners: Vec<_> = queue.list().iter().map(|it| it.text().to_owned()).collect();
    release_guard(guard).await;
    for owner in &owners {
        let has = || !redis.command(&["HGET", "door", owner]).is_nil();
        eventually("the owners acquire in the order of the queue", SOON, has);
    }
    join_all(tasks).await;
}
