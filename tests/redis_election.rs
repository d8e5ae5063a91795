//! The election on a real server: its keys and messages, the delay until a successor leads, and
//! faults.

use std::{thread, time::Duration};

use leasehold::{Client, Election, Error, Leadership, Result};
use testkit::{Cluster, Proxy, Redis, Sentinels, came_with};
use tokio::{
    runtime::Runtime,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::common::{
    Listener, SOON, channel, client, hash, hold_by_hand, keys, ms, pttl, release_by_hand, secs,
    until_subscribed, with_acl, within,
};

const RECORD: &str = "leasehold_election:{scheduler}";
const CHANNEL: &str = "leasehold_election__channel:{scheduler}";

async fn election(redis: &Redis) -> Election {
    client(redis).await.election("scheduler").unwrap()
}

fn campaigning(election: &Election, value: &str) -> JoinHandle<Result<Leadership>> {
    let (election, value) = (election.clone(), value.to_owned());
    tokio::spawn(async move { election.campaign(value).await })
}

async fn wins(candidate: JoinHandle<Result<Leadership>>) -> Leadership {
    within(SOON, "the candidate becomes the leader", candidate).await.unwrap().unwrap()
}

async fn steps_down(leadership: Leadership) {
    leadership.step_down().await.unwrap().into_result().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_is_stored_as_a_redisson_lock_and_a_record() {
    let redis = Redis::start();
    let election = election(&redis).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    let leadership = election.campaign("10.0.0.1:8080").await.unwrap();
    let owner = leadership.owner().as_str().to_owned();
    assert_eq!(hash(&redis, "scheduler"), [(owner.clone(), "1".to_owned())]);
    assert_eq!(redis.command(&["GET", "redisson_lock_token:{scheduler}"]).text(), "1");
    let record = hash(&redis, RECORD);
    let field = |name: &str| record.iter().find(|(it, _)| it == name).unwrap().1.clone();
    assert_eq!((field("owner"), field("term")), (owner, "1".to_owned()));
    assert_eq!((field("value"), record.len()), ("10.0.0.1:8080".to_owned(), 4));
    for key in ["scheduler", RECORD] {
        assert!((1..=30_000).contains(&pttl(&redis, key)), "{key}");
    }
    leadership.proclaim("ready").await.unwrap();
    assert_eq!(listener.received(), ["1", "1"]);
    steps_down(leadership).await;
    assert_eq!(keys(&redis), [RECORD, "redisson_lock_token:{scheduler}"]);
    assert!((1..=30_000).contains(&pttl(&redis, RECORD)));
    assert_eq!(election.leader().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_of_a_leader_extends_its_lock_and_its_record() {
    let redis = Redis::start();
    let election = election(&redis).await.ttl(ms(1_200));
    let leadership = election.campaign("one").await.unwrap();
    sleep(ms(3_000)).await;
    assert!(leadership.is_leader());
    assert_eq!(election.leader().await.unwrap().unwrap().value(), Some("one"));
    let (lock, record) = (pttl(&redis, "scheduler"), pttl(&redis, RECORD));
    assert!((lock - record).abs() < 100, "{lock} {record}");
    steps_down(leadership).await;
}

/// The test acts as a Java candidate that locks the `RFencedLock` of the election's name.
#[tokio::test(flavor = "multi_thread")]
async fn redisson_holder_leads_without_a_value() {
    let redis = Redis::start();
    let election = election(&redis).await;
    let mut observer = election.observe().unwrap();
    assert_eq!(observer.next().await.unwrap(), None);
    hold_by_hand(&redis, "scheduler", "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42", secs(30));
    let java =
        within(SOON, "the observer reports the holder", observer.next()).await.unwrap().unwrap();
    assert_eq!((java.value(), java.term(), java.since()), (None, None, None));
    assert!(java.owner().as_str().ends_with(":42") && java.remaining().is_some());

    let candidate = campaigning(&election, "rust");
    until_subscribed(&redis, &channel("scheduler"));
    release_by_hand(&redis, "scheduler");
    let leadership = wins(candidate).await;
    let mut leader = observer.next().await.unwrap();
    while leader.as_ref().is_none_or(|it| it.value().is_none()) {
        leader =
            within(SOON, "the observer reports the next leader", observer.next()).await.unwrap();
    }
    assert_eq!(leader.unwrap().owner(), leadership.owner());
}

/// Between the step-down of a leader and the grant to the waiting candidate, nobody leads.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_candidate_leads_as_soon_as_the_leader_steps_down() {
    const ROUNDS: u32 = 20;
    let redis = Redis::start();
    let [one, other] = [election(&redis).await, election(&redis).await];
    let (mut leader, mut times) = (one.campaign("0").await.unwrap(), vec![]);
    for round in 1..=ROUNDS {
        let standby = if round % 2 == 1 { &other } else { &one };
        let candidate = campaigning(standby, &round.to_string());
        sleep(ms(60)).await;
        let start = Instant::now();
        steps_down(leader).await;
        leader = wins(candidate).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("a standby leads after a step-down: median {median:?}, longest {longest:?}");
    assert!(median < ms(250), "{times:?}");
}

/// Leads on a runtime that ends without a release, as if the process were killed.
fn dies_as_leader(url: &str, ttl: Duration) {
    let url = url.to_owned();
    let process = thread::spawn(move || {
        let runtime = Runtime::new().unwrap();
        let leadership = runtime.block_on(async {
            let client = Client::connect(&url).await.unwrap();
            client.election("scheduler").unwrap().ttl(ttl).campaign("dead").await.unwrap()
        });
        std::mem::forget(leadership);
        runtime.shutdown_background();
    });
    process.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_candidate_leads_within_the_lease_after_a_crash() {
    const TTL: Duration = secs(3);
    let redis = Redis::start();
    let [one, other] = [election(&redis).await, election(&redis).await];
    let mut observer = other.observe().unwrap();
    assert_eq!(observer.next().await.unwrap(), None);
    dies_as_leader(&redis.url(), TTL);
    let start = Instant::now();
    let dead =
        within(SOON, "the observer reports the leader", observer.next()).await.unwrap().unwrap();
    assert_eq!(dead.value(), Some("dead"));
    let candidate = campaigning(&one, "standby");
    let leadership = wins(candidate).await;
    let taken_over = start.elapsed();
    println!("a standby leads after a crash: {taken_over:?}, lease {TTL:?}");
    assert!(taken_over < TTL + secs(1), "{taken_over:?}");
    assert!(leadership.term() > dead.term().unwrap());
    let mut seen = observer.next().await.unwrap();
    while seen.as_ref().is_none_or(|it| it.value() != Some("standby")) {
        seen = within(SOON, "the observer reports the standby", observer.next()).await.unwrap();
    }
}

/// If the record cannot be written, the client also releases the lock.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_cannot_write_its_record_does_not_lead() {
    let redis = Redis::start();
    let all_but_records =
        ["+@all", "&*", "~scheduler", "~leasehold_lock*", "~redisson_lock_token:*"];
    let limited = with_acl(&redis, "limited", &all_but_records).await;
    let refused = limited.election("scheduler").unwrap().campaign("one").await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
    let next = election(&redis).await.campaign_within("two", SOON).await.unwrap();
    assert_eq!(next.term(), 2);
}

/// The candidate acquires the lock, but its timeout leaves no time to publish its value.
#[tokio::test(flavor = "multi_thread")]
async fn candidate_that_wins_too_late_times_out() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let election = Client::connect(&proxy.url()).await.unwrap().election("scheduler").unwrap();
    steps_down(election.campaign("one").await.unwrap()).await;
    proxy.delay(ms(20));
    // A try works only if all replies are quick. On a busy machine, this may take several tries.
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(election.leader().await.unwrap(), None);
        let between = start.elapsed() * 3 / 2;
        let late = election.campaign_within("two", between).await;
        if matches!(late, Err(Error::TimedOut { holder: None, .. })) {
            return;
        }
        drop(late);
        sleep(ms(100)).await;
    }
    panic!("no candidate timed out");
}

#[tokio::test(flavor = "multi_thread")]
async fn proclamation_whose_reply_is_lost_is_repeated() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let election = Client::connect(&proxy.url()).await.unwrap().election("scheduler").unwrap();
    let leadership = election.campaign("one").await.unwrap();
    proxy.lose_reply_to("two");
    let proclaimed = tokio::spawn(async move {
        let done = leadership.proclaim("two").await;
        (done, leadership)
    });
    let (done, leadership) =
        within(SOON, "the client retries `proclaim`", proclaimed).await.unwrap();
    done.unwrap();
    assert_eq!(proxy.lost_replies(), 1);
    assert_eq!(election.leader().await.unwrap().unwrap().value(), Some("two"));
    steps_down(leadership).await;
}

/// Lets two clients of `url` lead one after the other, and checks that an observer sees both
/// leaders.
async fn leads_on(url: &str) {
    let [one, other] = [Client::connect(url).await.unwrap(), Client::connect(url).await.unwrap()];
    let [one, other] = [one, other].map(|it| it.election("app:scheduler").unwrap());
    let mut observer = other.observe().unwrap();
    assert_eq!(observer.next().await.unwrap(), None);
    let first = one.campaign("one").await.unwrap();
    let candidate = campaigning(&other, "other");
    let mut seen = observer.next().await.unwrap();
    while seen.as_ref().is_none_or(|it| it.value() != Some("one")) {
        seen =
            within(SOON, "the observer reports the first leader", observer.next()).await.unwrap();
    }
    let term = first.term();
    steps_down(first).await;
    let second = wins(candidate).await;
    assert!(second.term() > term);
    while seen.as_ref().is_none_or(|it| it.value() != Some("other")) {
        seen =
            within(SOON, "the observer reports the second leader", observer.next()).await.unwrap();
    }
    steps_down(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_follow_each_other_in_a_cluster() {
    came_with(7, "sharded channels");
    leads_on(&Cluster::options().replicas(0).start().url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn election_outlives_a_failover_of_sentinels() {
    let sentinels = Sentinels::options().replicas(1).start();
    let url = sentinels.url();
    leads_on(&url).await;
    sentinels.fail_over();
    leads_on(&url).await;
}
