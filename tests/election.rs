//! The election, on the store in memory and in virtual time.

use std::time::Duration;

use leasehold::{
    Client, Election, Error, Leader, Leadership, LostReason, MemoryStore, Observer, Release,
    Result, RunOutcome,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a poll or a timer. A candidate that continues within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two handles of one election, from two clients of one store.
fn two() -> (MemoryStore, [Election; 2]) {
    let store = MemoryStore::new();
    let elections = [(); 2].map(|()| Client::with_store(&store).election("scheduler").unwrap());
    (store, elections)
}

/// Starts a candidate, and returns when the candidate has sent its request and waits.
async fn campaigning(election: &Election, value: &str) -> JoinHandle<Result<Leadership>> {
    let (election, value) = (election.clone(), value.to_owned());
    let candidate = tokio::spawn(async move { election.campaign(value).await });
    sleep(millis(1)).await;
    assert!(!candidate.is_finished());
    candidate
}

async fn wins(candidate: JoinHandle<Result<Leadership>>) -> Leadership {
    timeout(AT_ONCE, candidate).await.expect("the candidate wins at once").unwrap().unwrap()
}

async fn value(election: &Election) -> Option<String> {
    let leader = election.leader().await.unwrap()?;
    Some(leader.value().expect("the leader has a record").to_owned())
}

fn value_of(leader: Option<&Leader>) -> Option<&str> {
    leader.and_then(Leader::value)
}

/// Returns the next leader that `observer` reports. The report must come at once.
async fn sees(observer: &mut Observer) -> Option<Leader> {
    timeout(AT_ONCE, observer.next()).await.expect("the observer reports at once").unwrap()
}

async fn sees_nothing(observer: &mut Observer) {
    assert!(timeout(secs(60), observer.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn candidate_leads_when_the_leader_steps_down() {
    let (_, [one, other]) = two();
    let first = one.campaign("one").await.unwrap();
    assert!(first.is_leader() && other.try_campaign("other").await.unwrap().is_none());
    let candidate = campaigning(&other, "other").await;
    sleep(secs(120)).await;
    assert_eq!(value(&other).await.as_deref(), Some("one"));

    let lost = first.lost();
    let term = first.term();
    assert_eq!(first.step_down().await.unwrap(), Release::Released);
    assert_eq!(lost.await, LostReason::Released);
    let second = wins(candidate).await;
    assert!(second.term() > term);
    assert_eq!(value(&one).await.as_deref(), Some("other"));
    let leader = one.leader().await.unwrap().unwrap();
    assert_eq!((leader.owner(), leader.term()), (second.owner(), Some(second.term())));
}

/// Both candidates are in one process. A hand-off between them would keep the owner. Then the
/// record of the first leader would count for the second leader.
#[tokio::test(start_paused = true)]
async fn each_leader_of_a_process_has_its_own_term_and_owner() {
    let (_, [one, _]) = two();
    let first = one.campaign("first").await.unwrap();
    let candidate = campaigning(&one, "second").await;
    let (term, owner) = (first.term(), first.owner().clone());
    first.step_down().await.unwrap().into_result().unwrap();
    let second = wins(candidate).await;
    assert!(second.term() > term && *second.owner() != owner);
    assert_eq!(value(&one).await.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn dropped_candidate_leaves_the_election() {
    let (_, [one, other]) = two();
    let leader = one.campaign("one").await.unwrap();
    let candidate = campaigning(&other, "other").await;
    candidate.abort();
    sleep(millis(1)).await;
    leader.step_down().await.unwrap().into_result().unwrap();
    sleep(secs(1)).await;
    assert_eq!(one.leader().await.unwrap(), None);

    let late = other.campaign_within("other", secs(1)).await.unwrap();
    let error = one.campaign_within("one", secs(1)).await.unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { holder: Some(it), .. } if it.owner() == late.owner())
    );
    drop(late);
    sleep(millis(1)).await;
    assert_eq!(one.leader().await.unwrap(), None);
}

/// The acquisition and the record are two requests. A candidate may be dropped between the two
/// requests.
#[tokio::test(start_paused = true)]
async fn candidate_dropped_between_lock_and_record_does_not_lead() {
    let (store, [one, _]) = two();
    for _ in 0..50 {
        let election = one.clone();
        let candidate = tokio::spawn(async move { election.campaign("one").await });
        for _ in 0..fastrand::u32(0..12) {
            tokio::task::yield_now().await;
        }
        candidate.abort();
        drop(candidate.await.map(drop));
        sleep(secs(4)).await;
        assert_eq!(one.leader().await.unwrap(), None);
        sleep(secs(30)).await;
        assert_eq!(store.field("leasehold_election:{scheduler}", "owner"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn leader_stops_before_its_lease_ends_in_the_store() {
    let (store, [one, other]) = two();
    let leader = one.clone().ttl(secs(9)).campaign("one").await.unwrap();
    let start = Instant::now();
    let candidate = campaigning(&other, "other").await;
    store.stall();
    assert_eq!(leader.lost().await, LostReason::Expired);
    let stopped = start.elapsed();
    assert!(stopped < secs(9), "{stopped:?}");
    store.resume();
    // In the store, the lease has not ended, so no other candidate leads.
    assert!(other.leader().await.unwrap().is_some_and(|it| it.owner() == leader.owner()));
    let next = timeout(secs(20), candidate).await.unwrap().unwrap().unwrap();
    assert!(next.term() > leader.term());
}

#[tokio::test(start_paused = true)]
async fn lost_leadership_cancels_the_work() {
    let (store, [one, other]) = two();
    let work = tokio::spawn(async move {
        one.lead("one", async |held| {
            assert_eq!(held.token(), Some(1));
            std::future::pending::<()>().await;
        })
        .await
    });
    sleep(millis(1)).await;
    let candidate = campaigning(&other, "other").await;
    store.lose("scheduler");
    let error = timeout(secs(11), work).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::NotOwned, .. }), "{error}");
    let second = timeout(secs(4), candidate).await.unwrap().unwrap().unwrap();
    let outcome = second.run(async |held| held.token()).await;
    assert!(matches!(outcome, RunOutcome::Completed(Some(_))), "{outcome:?}");
    assert_eq!(other.leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn former_leader_cannot_proclaim() {
    let (store, [one, other]) = two();
    let first = one.campaign("one").await.unwrap();
    store.lose("scheduler");
    let second = other.campaign("other").await.unwrap();
    let late = first.proclaim("late").await;
    assert!(matches!(late, Err(Error::Lost { reason: LostReason::NotOwned, .. })), "{late:?}");
    assert!(!first.is_leader());
    assert!(matches!(first.step_down().await.unwrap(), Release::NotHeld { .. }));
    assert_eq!(value(&one).await.as_deref(), Some("other"));
    second.proclaim("ready").await.unwrap();
    assert_eq!(value(&one).await.as_deref(), Some("ready"));
}

#[tokio::test(start_paused = true)]
async fn observer_starts_with_the_present_leader() {
    let (_, [one, other]) = two();
    let mut early = other.observe().unwrap();
    assert_eq!(sees(&mut early).await, None);
    let leader = one.campaign("one").await.unwrap();
    let mut late = other.observe().unwrap();
    for observer in [&mut early, &mut late] {
        assert_eq!(value_of(sees(observer).await.as_ref()), Some("one"));
        sees_nothing(observer).await;
    }
    leader.proclaim("ready").await.unwrap();
    for observer in [&mut early, &mut late] {
        assert_eq!(value_of(sees(observer).await.as_ref()), Some("ready"));
    }
    leader.step_down().await.unwrap().into_result().unwrap();
    for observer in [&mut early, &mut late] {
        assert_eq!(sees(observer).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_observer_sees_the_newest_leader_last() {
    let (_, [one, other]) = two();
    let mut observer = other.observe().unwrap();
    sees(&mut observer).await;
    for round in 0..20 {
        let leadership = one.campaign(format!("{round}")).await.unwrap();
        leadership.proclaim(format!("{round} ready")).await.unwrap();
        leadership.step_down().await.unwrap().into_result().unwrap();
    }
    let last = one.campaign("last").await.unwrap();
    let newest = sees(&mut observer).await.unwrap();
    assert_eq!((newest.value(), newest.owner()), (Some("last"), last.owner()));
    sees_nothing(&mut observer).await;
}

#[tokio::test(start_paused = true)]
async fn observer_of_a_candidate_sees_each_change() {
    let (_, [one, _]) = two();
    let mut observer = one.observe().unwrap();
    assert_eq!(sees(&mut observer).await, None);
    let leader = one.campaign("one").await.unwrap();
    assert_eq!(value_of(sees(&mut observer).await.as_ref()), Some("one"));
    drop(leader);
    assert_eq!(sees(&mut observer).await, None);
    sleep(secs(60)).await;
    let leader = one.campaign("again").await.unwrap();
    assert_eq!(value_of(sees(&mut observer).await.as_ref()), Some("again"));
    drop(leader);
}

#[tokio::test(start_paused = true)]
async fn observer_notices_a_loss_without_a_message() {
    let (store, [one, other]) = two();
    let mut observer = other.observe().unwrap();
    sees(&mut observer).await;
    let leader = one.campaign("one").await.unwrap();
    sees(&mut observer).await.unwrap();
    store.lose("scheduler");
    let seen =
        timeout(secs(4), observer.next()).await.expect("the observer reports within 4 seconds");
    assert_eq!(seen.unwrap(), None);
    drop(leader);
}

#[tokio::test(start_paused = true)]
async fn observer_continues_after_an_outage_of_the_store() {
    let (store, [one, other]) = two();
    let mut observer = other.observe().unwrap();
    sees(&mut observer).await;
    store.stall();
    let watching = tokio::spawn(async move { (observer.next().await, observer) });
    sleep(secs(60)).await;
    assert!(!watching.is_finished());
    store.resume();
    let leader = one.campaign("one").await.unwrap();
    let (seen, _) = timeout(secs(5), watching).await.unwrap().unwrap();
    assert_eq!(seen.unwrap().unwrap().owner(), leader.owner());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_observers_and_the_leadership() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let election = client.election("scheduler").unwrap();
    let mut observer = election.observe().unwrap();
    let leader = election.campaign("one").await.unwrap();
    sees(&mut observer).await;
    let watching = tokio::spawn(async move { observer.next().await });
    let shutdown = client.shutdown(secs(2)).await;
    assert_eq!((shutdown.revoked, shutdown.pending), (1, 0));
    assert!(!leader.is_leader());
    let ended = timeout(AT_ONCE, watching).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::ShutDown)), "{ended:?}");
    assert!(matches!(election.observe().map(drop), Err(Error::ShutDown)));
    assert!(matches!(election.campaign("late").await.map(drop), Err(Error::ShutDown)));
}

#[tokio::test(start_paused = true)]
async fn leader_value_that_is_too_long_is_refused() {
    let election = Client::in_memory().election("office").unwrap();
    let error = election.campaign("x".repeat(64 * 1024 + 1)).await.unwrap_err();
    assert!(matches!(error, Error::ValueTooLong { most: 65_536, .. }), "{error}");
    let leadership = election.campaign("x".repeat(64 * 1024)).await.unwrap();
    assert_eq!(election.leader().await.unwrap().unwrap().value().map(str::len), Some(65_536));
    // A candidate gets the error before it waits.
    let error = election.campaign("x".repeat(64 * 1024 + 1)).await.unwrap_err();
    assert!(matches!(error, Error::ValueTooLong { .. }), "{error}");
    drop(leadership);
}
