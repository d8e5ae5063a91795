//! A simulated cluster, alone and compared with a real cluster.

mod speaking;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold_twin::{Cluster, Delay, Net};
use speaking::{Speaker, packed, shown};
use testkit::Redis;
use tokio::time::sleep;

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Returns a RESP3 client of the node with this index.
async fn speaker(cluster: &Cluster, node: usize) -> Speaker {
    let mut speaker = Speaker::to(&cluster.nodes()[node]).await;
    speaker.ask("HELLO 3").await;
    speaker
}

fn cluster(replicas: usize, lag: Delay) -> (Cluster, u16) {
    (Cluster::start(&Net::new(7), 3, replicas, lag), Cluster::slot_of("k"))
}

#[tokio::test(start_paused = true)]
async fn promoted_replica_lacks_writes_in_flight() {
    let (cluster, slot) = cluster(1, Delay::Fixed(ms(20)));
    sleep(ms(100)).await;
    let old = cluster.owner(slot);
    let mut client = speaker(&cluster, old).await;
    client.ask("SET k v").await;
    sleep(ms(50)).await;
    client.ask("SET {k}2 v").await;
    cluster.gossip(Delay::Fixed(ms(30)));
    let new = cluster.fail_over(slot).unwrap();
    assert_eq!(
        client.ask("SET {k}3 v").await,
        "+OK ",
        "the old node does not know of the failover yet"
    );
    sleep(ms(31)).await;
    let moved = client.ask("GET k").await;
    assert_eq!(moved, format!("-MOVED {slot} {} ", cluster.addresses()[new]));
    sleep(ms(100)).await;
    assert_eq!(cluster.nodes()[new].keys(), ["k"]);
    assert_eq!(cluster.nodes()[old].keys(), ["k"]);
    assert!(cluster.nodes()[old].is_replica());
}

#[tokio::test(start_paused = true)]
async fn restarted_primary_knows_that_it_was_replaced() {
    let (cluster, slot) = cluster(1, Delay::None);
    let old = cluster.owner(slot);
    cluster.gossip(Delay::Fixed(ms(30)));
    cluster.nodes()[old].kill();
    let new = cluster.fail_over(slot).unwrap();
    sleep(ms(1)).await;
    cluster.nodes()[old].restart();
    let moved = speaker(&cluster, old).await.ask("GET k").await;
    assert_eq!(moved, format!("-MOVED {slot} {} ", cluster.addresses()[new]));
}

#[tokio::test(start_paused = true)]
async fn sharded_subscriber_is_unsubscribed_when_its_slot_moves() {
    let (cluster, slot) = cluster(0, Delay::None);
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    let mut client = speaker(&cluster, from).await;
    assert_eq!(client.ask("SSUBSCRIBE k").await, ">3 $10 ssubscribe $1 k :1 ");
    assert!(cluster.begin_move(slot, to));
    cluster.finish_move(slot);
    assert_eq!(client.received().await, ">3 $12 sunsubscribe $1 k :0 ");
    assert!(client.ask("SSUBSCRIBE k").await.starts_with("-MOVED"));
}

#[tokio::test(start_paused = true)]
async fn node_that_still_claims_a_slot_refuses_to_import_it() {
    let (cluster, slot) = cluster(0, Delay::None);
    cluster.gossip(Delay::Fixed(ms(30)));
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    assert!(cluster.begin_move(slot, to));
    cluster.finish_move(slot);
    assert!(!cluster.begin_move(slot, from));
    sleep(ms(31)).await;
    assert!(cluster.begin_move(slot, from));
}

#[tokio::test(start_paused = true)]
async fn only_a_plain_message_reaches_nodes_of_other_shards() {
    let (cluster, slot) = cluster(1, Delay::None);
    let (owner, other) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    let [mut at_owner, mut at_other] =
        [speaker(&cluster, owner).await, speaker(&cluster, other).await];
    let mut at_replica = speaker(&cluster, owner + 3).await;
    at_other.ask("SUBSCRIBE k").await;
    at_replica.ask("SSUBSCRIBE k").await;
    assert_eq!(at_owner.ask("PUBLISH k all").await, ":0 ");
    assert_eq!(at_owner.ask("SPUBLISH k shard").await, ":0 ");
    assert_eq!(at_other.within(ms(1)).await, ">3 $7 message $1 k $3 all ");
    assert_eq!(at_replica.within(ms(1)).await, ">3 $8 smessage $1 k $5 shard ");
}

// Comparison with a real cluster.

/// A real node, and the simulated node that has the same slots.
struct Both {
    real: TcpStream,
    twin: Speaker,
    names: Vec<(String, String)>,
}

impl Both {
    async fn to(redis: &Redis, cluster: &Cluster, node: usize, names: &[(String, String)]) -> Self {
        let real = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        real.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let twin = Speaker::to(&cluster.nodes()[node]).await;
        Self { real, twin, names: names.to_vec() }
    }

    /// Sends a request to the real node. Returns the reply with the addresses of the simulated
    /// nodes.
    fn real(&mut self, words: &[&str]) -> String {
        self.real.write_all(&packed(words)).unwrap();
        let mut bytes = vec![0; 4096];
        let length = self.real.read(&mut bytes).unwrap();
        let output = shown(&bytes[..length]);
        self.names.iter().fold(output, |output, (real, twin)| output.replace(real, twin))
    }

    /// Sends `ASKING` to both nodes. `ASKING` counts only for the next command.
    async fn asking(&mut self) {
        self.twin.send(&["ASKING"]).await;
        assert_eq!(self.twin.within(ms(1)).await, self.real(&["ASKING"]));
    }

    async fn same(&mut self, command: &str) {
        let words: Vec<_> = command.split(' ').map(|it| it.trim_matches('\'')).collect();
        let words: Vec<_> = words.iter().map(|it| it.replace('_', " ")).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let real = self.real(&words);
        let twin = self.twin.ask_words(&words).await;
        assert_eq!(twin, real, "replies of the twin and of Redis to {command}");
    }
}

const SCRIPT: &str = "return_redis.call('SET',ARGV[1],1)";
const FORGETS: &str = "redis.call('DEL',KEYS[1])return_redis.call('GET',KEYS[1])";

#[tokio::test(start_paused = true)]
async fn simulated_cluster_nodes_reply_like_redis_nodes() {
    let redis = testkit::Cluster::options().replicas(0).start();
    let (twin, slot) = cluster(0, Delay::None);
    let from = twin.owner(slot);
    let to = (from + 1) % 3;
    let first_slots: Vec<u16> = (0..3).map(|it| it * 5_500).collect();
    let reals: Vec<_> = first_slots.iter().map(|it| redis.owner_of(*it)).collect();
    let twins: Vec<_> = first_slots.iter().map(|it| twin.owner(*it)).collect();
    let real_of = |node| &reals[twins.iter().position(|it| *it == node).unwrap()];
    let names: Vec<_> = (0..3)
        .map(|it| (format!("127.0.0.1:{}", real_of(it).port()), twin.addresses()[it].clone()))
        .collect();
    let mut old = Both::to(real_of(from), &twin, from, &names).await;
    let mut new = Both::to(real_of(to), &twin, to, &names).await;
    for command in [
        "SET {k}1 v",
        "GET {k}1",
        "GET missing",
        "EXISTS a b",
        "DEL {k}1 {k}2",
        "DEL a b",
        "SET {k}1 v",
        "EVAL return_1 0",
        "EVAL return_1 1 {k}1",
        "EVAL return_1 2 a b",
        "CLUSTER KEYSLOT {a}b",
        "CLUSTER KEYSLOT k",
        "ASKING",
        "READONLY",
        "READWRITE",
        "SPUBLISH k m",
        "SSUBSCRIBE k z",
        "PUBSUB SHARDNUMSUB",
        "PUBSUB SHARDNUMSUB k",
        "PUBSUB SHARDCHANNELS",
        "CLUSTER ODD",
        &format!("EVAL {SCRIPT} 1 k a"),
        &format!("EVAL {SCRIPT} 1 k {{k}}5"),
        "DEL {k}5",
    ] {
        old.same(command).await;
        new.same(command).await;
    }
    let moving = redis.moving(slot, real_of(to));
    moving.open();
    assert!(twin.begin_move(slot, to));
    let between = [
        "GET {k}1",
        "GET {k}2",
        "DEL {k}1 {k}2",
        "SET {k}3 v",
        "EVAL return_1 2 {k}1 {k}3",
        "SPUBLISH k m",
    ];
    let asked = ["GET {k}1", "DEL {k}8 {k}9", "SET {k}3 v", "GET {k}3", "EXISTS {k}3 {k}4"];
    for command in between {
        old.same(command).await;
        new.same(command).await;
    }
    old.same(&format!("EVAL {FORGETS} 1 {{k}}1")).await;
    for command in asked {
        new.asking().await;
        new.same(command).await;
        new.same(command).await;
    }
    moving.carry_all();
    twin.move_keys(slot, usize::MAX);
    moving.close();
    twin.finish_move(slot);
    for command in between {
        old.same(command).await;
        new.same(command).await;
    }
}

/// Returns the role of each node that `nodes` lists.
fn roles(nodes: &str) -> Vec<String> {
    let role = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    let mut roles: Vec<_> = nodes.lines().map(role).collect();
    roles.sort();
    roles
}

#[tokio::test(start_paused = true)]
async fn simulated_cluster_describes_its_topology_like_redis() {
    let redis = testkit::Cluster::options().replicas(1).start();
    let (twin, _) = cluster(1, Delay::None);
    let real = redis.owner_of(0);
    let mut speaker = speaker(&twin, twin.owner(0)).await;
    let real_slots = real.command(&["CLUSTER", "SLOTS"]);
    assert_eq!(real_slots.list().len(), 3);
    let output = speaker.ask("CLUSTER SLOTS").await;
    assert!(output.starts_with("*3 *4 :0 :5461 *4 $8 10.0.1.1 :6379 $40 "), "{output}");
    assert_eq!(output.matches("%0").count(), 6, "{output}");
    let info = real.command(&["CLUSTER", "INFO"]).text().to_owned();
    let twin_info = speaker.ask("CLUSTER INFO").await;
    for fact in ["state", "slots_assigned", "slots_ok", "slots_fail", "known_nodes", "size"] {
        let line = info.lines().find(|it| it.starts_with(&format!("cluster_{fact}:"))).unwrap();
        assert!(twin_info.contains(line), "{line} in {twin_info}");
    }
    let nodes = real.command(&["CLUSTER", "NODES"]).text().to_owned();
    let twin_nodes = speaker.ask("CLUSTER NODES").await;
    let twin_nodes = twin_nodes.split_once("txt:").unwrap().1.trim_end();
    assert_eq!(roles(twin_nodes), roles(&nodes), "{twin_nodes}, {nodes}");
}
