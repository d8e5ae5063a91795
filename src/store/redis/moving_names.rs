//! Tests of DNS names whose addresses change. In every deployment, each new connection resolves its
//! name again.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_link::Resolver;
use testkit::{Cluster, Proxy, Redis, Sentinels, eventually};
use tokio::time::{Instant, sleep};

use super::*;
use crate::domain::{Claim, Object, Owner, Verdict};

/// How long a test waits at most. A busy machine may need this time.
const LIMIT: Duration = Duration::from_secs(30);

/// A table of DNS names: the ports of this machine to which each name currently leads, and how
/// often clients have resolved the name.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<String, Entry>>>);

/// The ports to which a name leads, and how often clients have resolved the name.
type Entry = (Vec<u16>, usize);

impl Book {
    fn lead(&self, name: &str, ports: &[u16]) {
        self.0.lock().unwrap().entry(name.to_owned()).or_default().0 = ports.to_vec();
    }

    fn asked(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, |(_, asked)| *asked)
    }

    fn addresses(&self, name: &str) -> Vec<SocketAddr> {
        let mut book = self.0.lock().unwrap();
        let (ports, asked) = book.entry(name.to_owned()).or_default();
        *asked += 1;
        ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect()
    }

    /// Returns the settings of a client that resolves names by this table.
    fn settings(&self) -> Settings {
        let book = self.clone();
        let command_timeout = Duration::from_secs(1);
        let resolver = Resolver::by(move |name| book.addresses(name));
        Settings { resolver, command_timeout, ..Settings::default() }
    }
}

async fn connected(url: &str, settings: &Settings) -> RedisStore {
    RedisStore::connect(url, settings, "one").await.unwrap()
}

/// Requests a lock again and again, until it is granted.
async fn acquires(store: &RedisStore, name: &str) {
    let owner = Owner::new("one:1").unwrap();
    let claim = Claim::plain(Object::lock(name), owner, Duration::from_secs(60));
    let until = Instant::now() + LIMIT;
    loop {
        match store.acquire(&claim, None).await {
            Ok(verdict) => return assert_eq!(verdict, Verdict::GRANTED),
            Err(failure) => assert!(failure.is_temporary() && Instant::now() < until, "{failure}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn holds(redis: &Redis, name: &str) -> bool {
    redis.command(&["EXISTS", name]).number() == 1
}

/// Returns how many connections of this client the server has.
fn connections(redis: &Redis) -> usize {
    let all = redis.command(&["CLIENT", "LIST"]);
    all.text().lines().filter(|line| line.contains(" name=leasehold:")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_connection_resolves_the_host_name_again() {
    let (redis, book) = (Redis::start(), Book::default());
    book.lead("redis.example", &[redis.port()]);
    let store = connected("redis://redis.example/", &book.settings()).await;
    for reconnects in 1..=3 {
        let before = book.asked("redis.example");
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        eventually("the name is resolved again", LIMIT, || book.asked("redis.example") > before);
        eventually("the client is connected again", LIMIT, || store.reconnects() >= reconnects);
        acquires(&store, "door").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_server_is_found_at_its_new_address() {
    let ([old, new], book) = ([Redis::start(), Redis::start()], Book::default());
    book.lead("redis.example", &[old.port()]);
    let store = connected("redis://redis.example/", &book.settings()).await;
    acquires(&store, "door").await;
    assert!(holds(&old, "door"));

    old.stop();
    book.lead("redis.example", &[new.port()]);
    acquires(&store, "door").await;
    assert!(holds(&new, "door"));
    old.start_again();
    eventually("the new server has both connections", LIMIT, || connections(&new) == 2);
    assert_eq!(connections(&old), 0);
}

/// The DNS name of a managed endpoint moves to the new primary, like the name in this test. The old
/// primary stays up, but accepts no writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_follows_a_host_name_to_the_new_primary() {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    let book = Book::default();
    book.lead("redis.example", &[primary.port()]);
    let store = connected("redis://redis.example/", &book.settings()).await;
    acquires(&store, "door").await;
    replica.catch_up_with(&primary);
    replica.promote();
    primary.follow(&replica);

    book.lead("redis.example", &[replica.port()]);
    acquires(&store, "window").await;
    assert!(holds(&replica, "window"));
    eventually("the client has left the old primary", LIMIT, || connections(&primary) == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_addresses_of_a_host_name_are_tried() {
    let ([gone, redis], book) = ([Redis::start(), Redis::start()], Book::default());
    gone.stop();
    book.lead("redis.example", &[gone.port(), redis.port()]);
    let store = connected("redis://redis.example/", &book.settings()).await;
    acquires(&store, "door").await;
    book.lead("redis.example", &[]);
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("the error names the cause", LIMIT, || {
        let unavailability = store.unavailability(&Object::lock("door").name);
        unavailability.is_some_and(|it| it.cause().contains("the host name has no address"))
    });
    book.lead("redis.example", &[redis.port(), gone.port()]);
    acquires(&store, "door").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_host_names_are_resolved_again() {
    // given one sentinel, and names for the sentinel and for both servers
    let redis = Sentinels::options().replicas(1).sentinels(1).start();
    let (book, sentinel) = (Book::default(), redis.sentinels()[0].port());
    let way = |port: u16| Proxy::before(port);
    let before = [way(sentinel), way(redis.servers()[0].port()), way(redis.servers()[1].port())];
    let names = ["eye.example", "redis-0.example", "redis-1.example"];
    let lead = |ways: &[Proxy; 3]| {
        names.iter().zip(ways).for_each(|(name, way)| book.lead(name, &[way.port()]));
    };
    lead(&before);
    let announced = [sentinel, redis.announced_port(0), redis.announced_port(1)];
    let announced = announced.map(|port| format!("127.0.0.1:{port}"));
    let translation = Translation::by(move |it| {
        let known = announced.iter().zip(names).find(|(announced, _)| *announced == it);
        known.map(|(_, name)| format!("{name}:6379"))
    });
    let settings = Settings { translation, ..book.settings() };
    let url = format!("redis-sentinel://eye.example/{}", redis.name());
    let store = connected(&url, &settings).await;
    acquires(&store, "door").await;

    // when the sentinel and both servers move, and the replica replaces the primary
    let after = [way(sentinel), way(redis.servers()[0].port()), way(redis.servers()[1].port())];
    lead(&after);
    drop(before);
    acquires(&store, "door").await;
    let are_taken = || after[0].connections() > 0 && after[1].connections() > 0;
    eventually("the client uses the new addresses", LIMIT, are_taken);
    redis.servers()[1].catch_up_with(&redis.servers()[0]);
    redis.fail_over();
    eventually("the client has left the old primary", LIMIT, || {
        connections(&redis.servers()[0]) == 0
    });

    // then the client finds the new primary by its name
    acquires(&store, "window").await;
    assert!(holds(&redis.servers()[1], "window"));
    assert!(after[2].connections() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_nodes_are_found_at_new_addresses_of_their_names() {
    let cluster = Cluster::options().replicas(0).start();
    let (book, nodes) = (Book::default(), cluster.nodes());
    let name_of = |number: usize| format!("node-{number}.example");
    let ways = || nodes.iter().map(|node| Proxy::before(node.port())).collect::<Vec<_>>();
    let lead = |ways: &[Proxy]| {
        let ways = ways.iter().enumerate();
        ways.for_each(|(number, way)| book.lead(&name_of(number), &[way.port()]));
    };
    let before = ways();
    lead(&before);
    let announced: Vec<_> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let translation = Translation::by(move |it| {
        let known = announced.iter().position(|announced| announced == it);
        known.map(|number| format!("{}:6379", name_of(number)))
    });
    let settings = Settings { translation, ..book.settings() };
    let store = connected("redis-cluster://node-0.example", &settings).await;
    let names: Vec<_> = nodes.iter().map(|node| cluster.key_on(node, "door")).collect();
    for name in &names {
        acquires(&store, name).await;
    }

    // when all nodes move
    let after = ways();
    lead(&after);
    drop(before);

    // then the client finds each node again
    for (name, way) in names.iter().zip(&after) {
        acquires(&store, name).await;
        assert!(way.connections() > 0, "{name}");
    }
}
