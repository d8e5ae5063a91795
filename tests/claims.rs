//! The queue and its claims, on the store in memory and in virtual time.

use leasehold::{
    Claim, Client, Error, LostReason, MemoryStore, Queue, Release, Result, codec::Bytes,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    cancel::{AT_ONCE, at_every_await},
    common::{ms, secs},
};

/// Two handles of one queue, from two clients of one store.
fn two() -> [Queue<String>; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| Client::with_store(&store).queue("jobs").unwrap())
}

async fn push(jobs: &Queue<String>, elements: &[&str]) {
    jobs.push_all(elements.iter().map(|it| (*it).to_owned())).await.unwrap();
}

/// The numbers of waiting and of claimed elements.
pub(crate) async fn counts(jobs: &Queue<String>) -> (u64, u64) {
    (jobs.len().await.unwrap(), jobs.claimed().await.unwrap())
}

/// Starts a task that waits for an element.
pub(crate) fn claiming(jobs: &Queue<String>) -> JoinHandle<Result<Claim<String>>> {
    let jobs = jobs.clone();
    tokio::spawn(async move { jobs.claim().await })
}

/// Returns the claim of `waiter`, which must claim within `AT_ONCE`.
async fn at_once(waiter: JoinHandle<Result<Claim<String>>>) -> Claim<String> {
    timeout(AT_ONCE, waiter).await.expect("a worker claims at once").unwrap().unwrap()
}

/// Claims an element that is already in the queue, and reports it as done.
async fn takes(jobs: &Queue<String>) -> String {
    let claim = at_once(claiming(jobs)).await;
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
}

#[tokio::test(start_paused = true)]
async fn dropped_claims_go_back_to_the_head() {
    let store = MemoryStore::new();
    let clients = [(); 2].map(|()| Client::with_store(&store));
    let [one, other] = clients.each_ref().map(|it| it.queue::<String>("jobs").unwrap());
    push(&one, &["a", "b", "c"]).await;
    drop(one.claim().await.unwrap());
    sleep(AT_ONCE).await;
    assert_eq!(counts(&other).await, (3, 0));
    let [first, second] = [one.claim().await.unwrap(), one.claim().await.unwrap()];
    assert_eq!(second.give_back().await.unwrap(), Release::Released);
    assert_eq!(first.give_back().await.unwrap(), Release::Released);
    let claim = one.claim().await.unwrap();
    assert_eq!([claim.value(), &takes(&other).await, &takes(&other).await], ["a", "b", "c"]);
    let waiting = claiming(&one);
    clients[0].shutdown(secs(1)).await;
    assert_eq!(claim.lost().await, LostReason::ShutDown);
    assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown)));
    assert_eq!(takes(&other).await, "a");
}

#[tokio::test(start_paused = true)]
async fn pushed_and_returned_elements_wake_a_waiter_at_once() {
    let [one, other] = two();
    let mut waiters = vec![];
    for _ in 0..4 {
        waiters.push(claiming(&one));
        sleep(ms(1)).await;
    }
    sleep(secs(60)).await;
    push(&other, &["a", "b", "c"]).await;
    let last = waiters.pop().unwrap();
    let mut claims = vec![];
    for (waiter, element) in waiters.into_iter().zip(["a", "b", "c"]) {
        claims.push(at_once(waiter).await);
        assert_eq!(claims.last().unwrap().value(), element, "the tasks claim in order");
    }
    sleep(secs(60)).await;
    drop(claims.pop());
    assert_eq!(at_once(last).await.value(), "c");
}

/// The worker hangs, but its client lives and renews the leases.
#[tokio::test(start_paused = true)]
async fn claim_of_a_hanging_worker_ends_after_max_hold() {
    let [one, other] = two();
    push(&one, &["a", "b"]).await;
    let hangs = one.max_hold(secs(100)).ttl(secs(20));
    let (first, second) = (hangs.claim().await.unwrap(), hangs.claim().await.unwrap());
    let start = Instant::now();
    let next = claiming(&other);
    assert_eq!(second.lost().await, LostReason::MaxHold);
    assert_eq!(start.elapsed(), secs(100));
    let is_late = |it: &Release| matches!(it, Release::NotHeld { reason: LostReason::MaxHold, .. });
    // `done` reports the loss, and the element goes back at once.
    assert!(is_late(&second.done().await.unwrap()));
    let next = at_once(next).await;
    assert_eq!(next.value(), "b");
    // The other element goes back when its lease ends, and then belongs to another claim.
    let next = other.claim().await.unwrap();
    assert!(start.elapsed() <= secs(121), "{:?}", start.elapsed());
    assert_eq!(next.value(), "a");
    assert!(is_late(&first.done().await.unwrap()) && next.is_held());
    assert_eq!(next.done().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn claim_is_lost_when_the_store_loses_it() {
    let store = MemoryStore::new();
    let jobs = Client::with_store(&store).queue::<String>("jobs").unwrap();
    push(&jobs, &["a", "b", "c"]).await;
    let claims = [jobs.claim().await.unwrap(), jobs.claim().await.unwrap()];
    assert!(store.lose("jobs") && !store.lose("jobs"));
    for claim in claims {
        assert_eq!(claim.lost().await, LostReason::NotOwned);
    }
    assert_eq!([takes(&jobs).await, takes(&jobs).await], ["a", "b"]);
    let claim = jobs.claim().await.unwrap();
    store.lose_everything();
    assert_eq!(claim.lost().await, LostReason::NotOwned);
    assert_eq!(counts(&jobs).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn queue_call_dropped_at_any_await_loses_no_element() {
    let [one, other] = two();
    push(&one, &["a"]).await;
    let cuts = at_every_await(async |cut| {
        let is_claimed = cut.of(one.claim()).await.is_some();
        sleep(ms(100)).await;
        assert_eq!(counts(&other).await, (1, 0), "{cut:?}");
        is_claimed
    });
    assert!(cuts.await > 0);
    let cuts = at_every_await(async |cut| {
        let is_done = cut.of(one.claim().await.unwrap().done()).await.is_some();
        sleep(ms(100)).await;
        // If `done` was never polled, the drop of the claim returned the element to the queue.
        assert_eq!(counts(&other).await, (u64::from(cut.polls == 0), 0), "{cut:?}");
        if cut.polls > 0 {
            push(&one, &["a"]).await;
        }
        is_done
    });
    assert!(cuts.await > 0);
}

#[tokio::test(start_paused = true)]
async fn pop_removes_elements_in_order() {
    let images = Client::in_memory().queue::<Vec<u8>>("images").unwrap().codec(Bytes);
    assert_eq!(images.push_all([vec![0xff, 0], vec![]]).await.unwrap(), 2);
    assert_eq!(images.push_all([] as [Vec<u8>; 0]).await.unwrap(), 2);
    let error = images.push_all(vec![vec![]; 10_001]).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { most: 10_000, .. }), "{error}");
    assert_eq!(images.len().await.unwrap(), 2);
    assert_eq!(images.pop().await.unwrap(), Some(vec![0xff, 0]));
    assert_eq!(images.pop().await.unwrap(), Some(vec![]));
    assert_eq!(images.pop().await.unwrap(), None);
    assert!(images.is_empty().await.unwrap());
    let longest = vec![b'x'; 100_000];
    images.push(&longest).await.unwrap();
    assert_eq!(images.pop().await.unwrap(), Some(longest));
    let long = images.push(&vec![b'x'; 100_001]).await.unwrap_err().to_string();
    assert!(long.starts_with("element `xxx") && long.len() < 400, "{long}");
}
