//! The queue and its claims, on the store in memory and in virtual time.

use std::time::Duration;

use futures_util::poll;
use leasehold::{Client, Error, LostReason, MemoryStore, Queue, Release, codec::Bytes};
use tokio::{
    task::yield_now,
    time::{Instant, sleep, timeout},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a poll or a timer. A worker that claims within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two handles of one queue, from two clients of one store.
fn two() -> [Queue<String>; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| Client::with_store(&store).queue("jobs").unwrap())
}

async fn push(jobs: &Queue<String>, elements: &[&str]) {
    jobs.push_all(elements.iter().map(|it| (*it).to_owned())).await.unwrap();
}

async fn counts(jobs: &Queue<String>) -> (u64, u64) {
    (jobs.len().await.unwrap(), jobs.claimed().await.unwrap())
}

/// Claims an element that is already in the queue, and reports it as done.
async fn takes(jobs: &Queue<String>) -> String {
    let claim = timeout(AT_ONCE, jobs.claim()).await.expect("at once").unwrap();
    let element = claim.value().clone();
    assert_eq!(claim.done().await.unwrap(), Release::Released);
    element
}

#[tokio::test(start_paused = true)]
async fn element_is_claimed_by_one_client_and_done_once() {
    let [one, other] = two();
    push(&one, &["a", "b"]).await;
    let claim = one.claim().await.unwrap();
    assert_eq!((claim.value().as_str(), counts(&other).await), ("a", (1, 1)));
    assert_eq!(takes(&other).await, "b");
    assert!(other.try_claim().await.unwrap().is_none());
    // The client renews the lease while the worker works.
    sleep(secs(600)).await;
    assert!(claim.is_held() && other.try_claim().await.unwrap().is_none());
    assert_eq!(claim.done().await.unwrap(), Release::Released);
    assert_eq!(counts(&other).await, (0, 0));
    let error = other.claim_within(secs(1)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dropped_claims_go_back_to_the_head() {
    let [one, other] = two();
    push(&one, &["a", "b", "c"]).await;
    drop(one.claim().await.unwrap());
    sleep(AT_ONCE).await;
    assert_eq!(counts(&other).await, (3, 0));
    let claims = [one.claim().await.unwrap(), one.claim().await.unwrap()];
    let [first, second] = claims;
    assert_eq!(second.give_back().await.unwrap(), Release::Released);
    assert_eq!(first.give_back().await.unwrap(), Release::Released);
    for element in ["a", "b", "c"] {
        assert_eq!(takes(&other).await, element);
    }
}

#[tokio::test(start_paused = true)]
async fn pushed_and_returned_elements_wake_a_waiter_at_once() {
    let [one, other] = two();
    let waiting = || {
        let jobs = one.clone();
        tokio::spawn(async move { jobs.claim().await.unwrap() })
    };
    let waiter = waiting();
    sleep(secs(60)).await;
    push(&other, &["a"]).await;
    let claim = timeout(AT_ONCE, waiter).await.expect("at once").unwrap();
    let waiter = waiting();
    sleep(secs(60)).await;
    drop(claim);
    drop(timeout(AT_ONCE, waiter).await.expect("at once").unwrap());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_client_claim_in_order() {
    let [one, other] = two();
    let mut waiters = vec![];
    for _ in 0..3 {
        let jobs = one.clone();
        waiters.push(tokio::spawn(async move { jobs.claim().await.unwrap() }));
        sleep(millis(1)).await;
    }
    push(&other, &["a", "b", "c"]).await;
    for (waiter, element) in waiters.into_iter().zip(["a", "b", "c"]) {
        assert_eq!(timeout(AT_ONCE, waiter).await.unwrap().unwrap().value(), element);
    }
}

/// The worker hangs, but its client lives and renews the lease.
#[tokio::test(start_paused = true)]
async fn claim_of_a_hanging_worker_ends_after_max_hold() {
    let [one, other] = two();
    push(&one, &["a"]).await;
    let claim = one.max_hold(secs(100)).ttl(secs(20)).claim().await.unwrap();
    let start = Instant::now();
    let next = tokio::spawn(async move { other.claim().await.unwrap() });
    assert_eq!(claim.lost().await, LostReason::MaxHold);
    assert_eq!(start.elapsed(), secs(100));
    let next = next.await.unwrap();
    assert!(start.elapsed() <= secs(121), "{:?}", start.elapsed());
    assert_eq!(next.value(), "a");

    // and `done` of the first worker reports that it no longer has the element
    let late = claim.done().await.unwrap();
    assert!(matches!(late, Release::NotHeld { reason: LostReason::MaxHold, .. }), "{late:?}");
    assert!(next.is_held());
    assert_eq!(next.done().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn claim_is_lost_when_the_store_loses_it() {
    let store = MemoryStore::new();
    let jobs = Client::with_store(&store).queue::<String>("jobs").unwrap();
    push(&jobs, &["a", "b", "c"]).await;
    let (first, second) = (jobs.claim().await.unwrap(), jobs.claim().await.unwrap());
    assert!(store.lose("jobs") && !store.lose("jobs"));
    assert_eq!(first.lost().await, LostReason::NotOwned);
    assert_eq!(second.lost().await, LostReason::NotOwned);
    assert_eq!((takes(&jobs).await.as_str(), takes(&jobs).await.as_str()), ("a", "b"));
    let third = jobs.claim().await.unwrap();
    store.lose_everything();
    assert_eq!(third.lost().await, LostReason::NotOwned);
    assert_eq!(counts(&jobs).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn done_after_a_loss_gives_the_element_back() {
    let [one, other] = two();
    push(&one, &["a"]).await;
    let claim = one.max_hold(secs(1)).claim().await.unwrap();
    claim.lost().await;
    assert!(claim.done().await.unwrap().into_result().is_err());
    sleep(AT_ONCE).await;
    assert_eq!(counts(&other).await, (1, 0));
}

/// Polls a future this often, drops it, and waits for the background. Returns whether the future was
/// ready.
async fn is_ready_after(polls: u32, future: impl Future) -> bool {
    let mut future = Box::pin(future);
    let mut ready = false;
    for _ in 0..polls {
        ready = ready || poll!(future.as_mut()).is_ready();
        yield_now().await;
    }
    drop(future);
    sleep(millis(100)).await;
    ready
}

#[tokio::test(start_paused = true)]
async fn claim_dropped_at_any_await_loses_no_element() {
    let [one, other] = two();
    push(&one, &["a"]).await;
    let mut finished = 0;
    for polls in 0..40 {
        finished += u32::from(is_ready_after(polls, one.claim()).await);
        assert_eq!(counts(&other).await, (1, 0), "after {polls} polls");
    }
    assert!((1..40).contains(&finished), "{finished}");
}

#[tokio::test(start_paused = true)]
async fn element_is_done_even_if_done_is_dropped_at_any_await() {
    let [one, other] = two();
    for polls in 1..10 {
        push(&one, &["a"]).await;
        is_ready_after(polls, one.claim().await.unwrap().done()).await;
        assert_eq!(counts(&other).await, (0, 0), "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn equal_elements_are_claimed_one_by_one() {
    let [one, other] = two();
    push(&one, &["a", "a"]).await;
    let claims = [one.claim().await.unwrap(), one.claim().await.unwrap()];
    assert_ne!(claims[0].owner(), claims[1].owner());
    let [first, second] = claims;
    assert_eq!(first.done().await.unwrap(), Release::Released);
    assert_eq!(counts(&other).await, (0, 1));
    drop(second);
    assert_eq!(takes(&other).await, "a");
}

#[tokio::test(start_paused = true)]
async fn shutdown_gives_claims_back() {
    let store = MemoryStore::new();
    let (client, other) = (Client::with_store(&store), Client::with_store(&store));
    let [jobs, others] = [&client, &other].map(|it| it.queue::<String>("jobs").unwrap());
    push(&jobs, &["a"]).await;
    let claim = jobs.claim().await.unwrap();
    let waiting = tokio::spawn(async move { jobs.claim().await });
    client.shutdown(secs(1)).await;
    assert_eq!(claim.lost().await, LostReason::ShutDown);
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown)));
    assert_eq!(takes(&others).await, "a");
}

#[tokio::test(start_paused = true)]
async fn pop_removes_elements_in_order() {
    let images = Client::in_memory().queue::<Vec<u8>>("images").unwrap().codec(Bytes);
    assert_eq!(images.push_all([vec![0xff, 0], vec![]]).await.unwrap(), 2);
    assert_eq!(images.push_all([] as [Vec<u8>; 0]).await.unwrap(), 2);
    assert_eq!(images.pop().await.unwrap(), Some(vec![0xff, 0]));
    assert_eq!(images.pop().await.unwrap(), Some(vec![]));
    assert_eq!(images.pop().await.unwrap(), None);
    assert!(images.is_empty().await.unwrap());
    let long = images.push(&vec![b'x'; 100_001]).await.unwrap_err().to_string();
    assert!(long.starts_with("element `xxx") && long.len() < 400, "{long}");
}
