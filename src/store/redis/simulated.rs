//! Runs the conformance tests on simulated servers of each deployment, in virtual time. Further
//! tests let a server fail while a lock is held.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_twin::{Cluster, Delay, Net, Sentinels};
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    Client, Error,
    domain::{Claim, Object, Owner, Replicas},
    store::conformance::{self, Bench},
};

/// Returns the settings of a client on a host of `net`.
fn settings(net: &Net, host: &str) -> Settings {
    let host = net.host(host);
    let connector = Connector::by_address(move |address| {
        let host = host.clone();
        async move { host.dial(&address).await }
    });
    Settings { connector: Some(connector), ..Settings::default() }
}

async fn store(net: &Net, url: &str, id: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(url, &settings(net, id), id).await.unwrap())
}

async fn conforms(net: &Net, url: &str) {
    let (one, other) = (store(net, url, "one").await, store(net, url, "other").await);
    conformance::all(&Bench::new(one, other, "other").below("app:")).await;
}

fn url_of_sentinels(watched: &Sentinels) -> String {
    format!("redis-sentinel://{}/{}", watched.addresses().join(","), Sentinels::NAME)
}

fn url_of_cluster(cluster: &Cluster) -> String {
    format!("redis-cluster://{}", cluster.addresses().join(","))
}

const LAG: Delay = Delay::Fixed(Duration::from_millis(5));

#[tokio::test(start_paused = true)]
async fn simulated_server_passes_the_conformance_tests() {
    let net = Net::new(7);
    let _server = net.start("10.0.0.1:6379");
    conforms(&net, "redis://10.0.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn simulated_address_list_passes_the_conformance_tests() {
    let net = Net::new(7);
    let (primary, replica) = (net.start("10.0.0.1:6379"), net.start("10.0.0.2:6379"));
    replica.follow(&primary, LAG);
    conforms(&net, "redis://10.0.0.2,10.0.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn simulated_sentinels_pass_the_conformance_tests() {
    let net = Net::new(7);
    let watched = Sentinels::start(&net, 3, 1, LAG);
    conforms(&net, &url_of_sentinels(&watched)).await;
}

#[tokio::test(start_paused = true)]
async fn simulated_cluster_passes_the_conformance_tests() {
    let net = Net::new(7);
    let cluster = Cluster::start(&net, 3, 1, LAG);
    conforms(&net, &url_of_cluster(&cluster)).await;
}

// Tests in which servers fail.

fn claim() -> Claim {
    let owner = Owner::new("one:1").unwrap();
    Claim::plain(Object::lock("app:door"), owner, Duration::from_secs(30))
}

/// Repeats a request until it succeeds, which must happen within 10 s.
async fn acquired(store: &RedisStore) {
    let start = Instant::now();
    while store.acquire(&claim(), None).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "the request succeeds in time");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_grant_outlives_a_simulated_failover() {
    let net = Net::new(7);
    let watched = Sentinels::start(&net, 3, 1, LAG);
    let store = store(&net, &url_of_sentinels(&watched), "one").await;
    acquired(&store).await;
    let one = Replicas::at_least(1).within(Duration::from_secs(5));
    assert_eq!(store.replicated(&claim(), one).await.unwrap(), 1);
    watched.primary().kill();
    let new = watched.fail_over().unwrap();
    assert!(new.hash("app:door").is_some());
    acquired(&store).await;
}

/// The simulated server counts replicas as Redis 7.0 does. On newer servers, `WAIT` does not cover
/// the grant unless its own connection has written the grant again.
#[tokio::test(start_paused = true)]
async fn grant_is_written_again_before_replicas_are_counted() {
    let net = Net::new(7);
    let watched = Sentinels::start(&net, 3, 1, LAG);
    let store = store(&net, &url_of_sentinels(&watched), "one").await;
    acquired(&store).await;
    let writes = Arc::new(Mutex::new(0));
    let count = Arc::clone(&writes);
    watched.primary().watch(move |it| {
        *count.lock().unwrap() += u32::from(it.in_script && format!("{it:?}").contains("HSET"));
    });
    let one = Replicas::at_least(1).within(Duration::from_secs(5));
    assert_eq!(store.replicated(&claim(), one).await.unwrap(), 1);
    assert_eq!(*writes.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn store_follows_a_moved_slot_and_a_failover_of_its_node() {
    let net = Net::new(7);
    let cluster = Cluster::start(&net, 3, 1, LAG);
    let store = store(&net, &url_of_cluster(&cluster), "one").await;
    let slot = Cluster::slot_of("app:door");
    let to = (cluster.owner(slot) + 1) % 3;
    assert!(cluster.begin_move(slot, to));
    acquired(&store).await;
    cluster.move_keys(slot, usize::MAX);
    acquired(&store).await;
    cluster.finish_move(slot);
    acquired(&store).await;
    assert!(cluster.nodes()[to].hash("app:door").is_some());
    cluster.nodes()[to].kill();
    let new = cluster.fail_over(slot).unwrap();
    acquired(&store).await;
    assert!(cluster.nodes()[new].hash("app:door").is_some());
}

#[tokio::test(start_paused = true)]
async fn client_does_not_ask_a_node_again_that_replied_moved() {
    let net = Net::new(7);
    let cluster = Cluster::start(&net, 3, 0, LAG);
    let store = store(&net, &url_of_cluster(&cluster), "one").await;
    let slot = Cluster::slot_of("app:door");
    let old = cluster.owner(slot);
    // The client has refreshed the topology, and rests.
    sleep(Duration::from_secs(2)).await;
    assert!(cluster.begin_move(slot, (old + 1) % 3));
    cluster.finish_move(slot);
    // The next request comes before the replies about the new topology.
    cluster.nodes().iter().for_each(|node| node.delay(LAG, LAG));
    let moved = Arc::new(Mutex::new(0));
    let count = Arc::clone(&moved);
    cluster.nodes()[old].watch(move |it| {
        *count.lock().unwrap() += u32::from(it.command().starts_with("EVAL"));
    });
    for _ in 0..2 {
        acquired(&store).await;
    }
    assert_eq!(*moved.lock().unwrap(), 1);
}

/// The old primary runs on as a replica, where the client could subscribe again. But scripts on the
/// new primary count only the subscribers of the new primary.
#[tokio::test(start_paused = true)]
async fn subscription_follows_the_slot_soon_after_a_failover() {
    let net = Net::new(7);
    let cluster = Cluster::start(&net, 3, 1, LAG);
    let store = store(&net, &url_of_cluster(&cluster), "one").await;
    let slot = Cluster::slot_of("app:door");
    let channel = "redisson_lock__channel:{app:door}";
    let subscribers = |node: usize| cluster.nodes()[node].subscribers(channel);
    store.listen(&Object::lock("app:door"));
    sleep(Duration::from_millis(500)).await;
    let old = cluster.owner(slot);
    assert_eq!(subscribers(old), 1);
    let new = cluster.fail_over(slot).unwrap();
    sleep(Duration::from_millis(500)).await;
    assert_eq!((subscribers(old), subscribers(new)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn timeout_at_a_read_only_server_returns_its_readonly_error() {
    let net = Net::new(7);
    let (server, other) = (net.start("10.0.0.1:6379"), net.start("10.0.0.2:6379"));
    let client = Client::asking(store(&net, "redis://10.0.0.1", "one").await);
    let lock = client.lock("app:door").unwrap();
    server.follow(&other, LAG);
    for max_wait in (0..400).map(|n| Duration::from_millis(500 + 7 * n)) {
        let refused = lock.acquire_within(max_wait).await.unwrap_err();
        let words = matches!(&refused, Error::NotReady { code, .. } if code == "READONLY");
        assert!(words, "after {max_wait:?}: {refused:?}");
    }
}
