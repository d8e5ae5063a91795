//! The barrier and the double barrier on a real server: keys and messages, faults, and deployments.

use futures_util::future::join_all;
use leasehold::{Arrived, Barrier, Client, DoubleBarrierGuard, Error, Release, Result};
use testkit::{Cluster, Proxy, Redis, Sentinels, came_with};
use tokio::{runtime::Runtime, task::JoinHandle, time::sleep};

use crate::common::{
    Listener, SOON, client, keys, ms, pttl, secs, until_subscribed, with_acl, within,
};

const MEMBERS: &str = "leasehold_barrier__members:{phase}";
const INSIDE: &str = "leasehold_barrier__inside:{phase}";
const CHANNEL: &str = "leasehold_barrier__channel:{phase}";

async fn barrier(redis: &Redis, parties: u32) -> Barrier {
    client(redis).await.barrier("phase", parties).unwrap()
}

fn waiting(barrier: &Barrier) -> JoinHandle<Result<Arrived>> {
    let barrier = barrier.clone();
    tokio::spawn(async move { barrier.arrive_and_wait().await })
}

async fn passes(member: JoinHandle<Result<Arrived>>) -> Arrived {
    within(SOON, "the member passes the barrier", member).await.unwrap().unwrap()
}

fn present(redis: &Redis) -> i64 {
    redis.command(&["ZCARD", MEMBERS]).number()
}

async fn until_present(redis: &Redis, members: i64) {
    crate::common::comes_true("all expected members have arrived", || present(redis) == members)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn barrier_members_are_a_sorted_set_until_the_opening() {
    let redis = Redis::start();
    let barrier = barrier(&redis, 2).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    let member = waiting(&barrier);
    until_present(&redis, 1).await;
    assert!((1..=10_000).contains(&pttl(&redis, MEMBERS)));
    assert_eq!(keys(&redis), [MEMBERS]);
    barrier.arrive_and_wait().await.unwrap();
    passes(member).await;
    assert_eq!(listener.received(), ["0"]);
    let left = keys(&redis);
    let (generation, receipts) = left.split_first().unwrap();
    assert_eq!(generation, "leasehold_barrier__generation:{phase}");
    assert!((1..=86_400_000).contains(&pttl(&redis, generation)));
    assert_eq!(receipts.len(), 2);
    for receipt in receipts {
        assert!(receipt.starts_with("leasehold_barrier__receipt:{phase}:"), "{receipt}");
        assert!((1..=60_000).contains(&pttl(&redis, receipt)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrival_whose_reply_is_lost_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client_by_proxy = Client::connect(&proxy.url()).await.unwrap();
    let [by_proxy, direct] =
        [client_by_proxy.barrier("phase", 3).unwrap(), barrier(&redis, 3).await];
    // First the reply to an arrival is lost, and then the reply to the arrival that opens the
    // barrier.
    for lost in 1..=2 {
        let others = if lost == 1 { 0 } else { 2 };
        let waiters: Vec<_> = (0..others).map(|_| waiting(&direct)).collect();
        until_present(&redis, others).await;
        proxy.lose_reply_to("leasehold_barrier__receipt");
        let member = waiting(&by_proxy);
        within(SOON, "the proxy drops the reply", async {
            while proxy.lost_replies() < lost {
                sleep(ms(5)).await;
            }
        })
        .await;
        if lost == 1 {
            sleep(ms(300)).await;
            assert_eq!(present(&redis), 1);
            let rest = [waiting(&direct), waiting(&direct)];
            join_all(rest.map(passes)).await;
        }
        assert_eq!(passes(member).await.generation, lost as u64);
        join_all(waiters.into_iter().map(passes)).await;
        assert_eq!(present(&redis), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_message_only_delays_a_member() {
    let redis = Redis::start();
    let rights = ["+@all", "-subscribe", "&*", "~leasehold_barrier*"];
    let without_messages = with_acl(&redis, "limited", &rights).await;
    let member = waiting(&without_messages.barrier("phase", 2).unwrap());
    until_present(&redis, 1).await;
    barrier(&redis, 2).await.arrive_and_wait().await.unwrap();
    within(secs(5), "the member passes the barrier without a notification", member)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_barrier_request_is_an_error_and_leaves_no_member() {
    let redis = Redis::start();
    let rights = ["+@all", "-pexpire", "&*", "~leasehold_barrier*"];
    let limited = with_acl(&redis, "limited", &rights).await;
    let refused = limited.barrier("phase", 2).unwrap().arrive_and_wait().await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused}");
    assert_eq!(present(&redis), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_arrive_again_after_a_restart_without_data() {
    let redis = Redis::start();
    let barrier = barrier(&redis, 3).await;
    let members = [waiting(&barrier), waiting(&barrier)];
    until_present(&redis, 2).await;
    until_subscribed(&redis, CHANNEL);
    redis.restart();
    until_present(&redis, 2).await;
    barrier.arrive_and_wait().await.unwrap();
    join_all(members.map(passes)).await;
}

/// Lets four members of two clients of `url` pass the barrier several times.
async fn passes_on(url: &str) {
    let [one, other] = [Client::connect(url).await.unwrap(), Client::connect(url).await.unwrap()];
    let barriers = [one, other].map(|it| it.barrier("app:phase", 4).unwrap());
    for _ in 0..5 {
        let members = [0, 0, 1, 1].map(|at| waiting(&barriers[at]));
        let arrived = join_all(members.map(passes)).await;
        assert!(arrived.iter().all(|it| it.generation == arrived[0].generation));
        let mut indexes: Vec<_> = arrived.iter().map(|it| it.index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, [0, 1, 2, 3]);
    }
}

/// The other member opens the double barrier with a lease of 1 s. The waiting client has no
/// permission to subscribe, so it polls, and notices the opening only after this time.
#[tokio::test(flavor = "multi_thread")]
async fn member_that_notices_the_opening_late_stays_inside() {
    let redis = Redis::start();
    let limited = with_acl(&redis, "limited", &["+@all", "-subscribe", "&*", "~*"]).await;
    let waits = limited.double_barrier("phase", 2).unwrap();
    let waits = tokio::spawn(async move { waits.enter().await });
    until_present(&redis, 1).await;
    let opens = Client::builder().ttl(secs(1)).connect(&redis.url()).await.unwrap();
    let opens = opens.double_barrier("phase", 2).unwrap();
    let opener = opens.enter().await.unwrap();
    let waited = within(secs(8), "the waiting member enters the double barrier", waits)
        .await
        .unwrap()
        .unwrap();
    assert!(opener.is_inside() && waited.is_inside());
}

/// Lets one member of each client enter the double barrier, and returns both guards.
async fn inside(clients: &[Client; 2], name: &str) -> [DoubleBarrierGuard; 2] {
    let [one, other] = clients.each_ref().map(|it| it.double_barrier(name, 2).unwrap());
    let (one, other) = within(SOON, "both members enter the double barrier", async {
        tokio::join!(one.enter(), other.enter())
    })
    .await;
    [one.unwrap(), other.unwrap()]
}

/// Lets two members of two clients of `url` enter and leave several times.
async fn enters_on(url: &str) {
    let clients = [Client::connect(url).await.unwrap(), Client::connect(url).await.unwrap()];
    for _ in 0..5 {
        let [one, other] = inside(&clients, "app:inner").await;
        assert_eq!(one.arrived().generation, other.arrived().generation);
        let left = within(SOON, "both members leave the double barrier", async {
            tokio::join!(one.leave(), other.leave())
        });
        assert!(matches!(left.await, (Ok(Release::Released), Ok(Release::Released))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_inside_are_a_sorted_set_until_the_last_member_leaves() {
    let redis = Redis::start();
    let clients = [client(&redis).await, client(&redis).await];
    let mut listener = Listener::to(&redis, CHANNEL);
    let [one, other] = inside(&clients, "phase").await;
    assert_eq!(listener.received(), ["0"]);
    assert!((1..=30_000).contains(&pttl(&redis, INSIDE)));
    assert_eq!(redis.command(&["ZCARD", INSIDE]).number(), 2);
    assert_eq!(present(&redis), 0);
    let one = tokio::spawn(one.leave());
    sleep(ms(200)).await;
    assert_eq!(redis.command(&["ZCARD", INSIDE]).number(), 1);
    assert_eq!(other.leave().await.unwrap(), Release::Released);
    assert_eq!(
        within(SOON, "the first member leaves the double barrier", one).await.unwrap().unwrap(),
        Release::Released
    );
    assert_eq!(listener.received(), ["0"]);
    assert!(!keys(&redis).contains(&INSIDE.to_owned()));
}

/// The process of a member dies, so nothing renews the lease of the member.
#[tokio::test(flavor = "multi_thread")]
async fn member_that_died_inside_leaves_when_its_lease_ends() {
    let redis = Redis::start();
    let (url, living) = (redis.url(), client(&redis).await);
    let dies = std::thread::spawn(move || {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let client = Client::builder().ttl(secs(2)).connect(&url).await.unwrap();
            std::mem::forget(client.double_barrier("phase", 2).unwrap().enter().await.unwrap());
        });
        runtime.shutdown_background();
    });
    let guard = living.double_barrier("phase", 2).unwrap().enter().await.unwrap();
    dies.join().unwrap();
    let left = within(
        secs(8),
        "the living member leaves after the lease of the dead member",
        guard.leave(),
    )
    .await
    .unwrap();
    assert_eq!(left, Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_with_a_lost_reply_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let clients = [Client::connect(&proxy.url()).await.unwrap(), client(&redis).await];
    proxy.lose_reply_to("leasehold_barrier__receipt");
    let guards = inside(&clients, "phase").await;
    assert_eq!((proxy.lost_replies(), redis.command(&["ZCARD", INSIDE]).number()), (1, 2));
    let leaving = join_all(guards.map(|guard| tokio::spawn(guard.leave())));
    let left = within(SOON, "both members leave the double barrier", leaving).await;
    assert!(left.into_iter().all(|left| left.unwrap().unwrap() == Release::Released));
}

#[tokio::test(flavor = "multi_thread")]
async fn barrier_opens_for_its_members_in_a_cluster() {
    came_with(7, "sharded channels");
    let cluster = Cluster::options().replicas(0).start();
    passes_on(&cluster.url()).await;
    enters_on(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn barrier_outlives_a_failover_of_sentinels() {
    let sentinels = Sentinels::options().replicas(1).start();
    let url = sentinels.url();
    passes_on(&url).await;
    enters_on(&url).await;
    sentinels.fail_over();
    passes_on(&url).await;
    enters_on(&url).await;
}
