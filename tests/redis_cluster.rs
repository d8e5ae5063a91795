//! A Redis Cluster: locks on every node, failovers, migrating slots, and sharded channels.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::sleep as sleep_for,
    time::Duration,
};

use crate::common::{
    GUIDE, Log, SOON, channel,
    cluster::{Ways, built, client, other_than, owner},
    connections, entered, ms, release_guard, secs, waiter, within,
};
use futures_util::future::join_all;
use leasehold::{Client, Error, Hazard, Lock, LockGuard, LostReason, Release, Role, Write};
use testkit::{Cluster, Failover, Links, Proxy, Redis, Reply, acl_rules_in, came_with, eventually};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

/// The limit on a busy machine for a step that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

const NAME: &str = "door";

fn three_masters() -> Cluster {
    Cluster::options().replicas(0).start()
}

/// A client that waits for a reply for at most half a second.
async fn hasty(cluster: &Cluster, ttl: Duration) -> Client {
    let builder = Client::builder().command_timeout(ms(500)).ttl(ttl);
    builder.connect(&cluster.url()).await.expect("the cluster is up")
}

/// A client that logs in as an existing user.
async fn as_user(cluster: &Cluster, user: &str) -> Client {
    let builder = Client::builder().credentials(user, "secret");
    builder.connect(&cluster.url()).await.expect("the user may connect")
}

/// The number of connections to `node` that are subscribed to the releases of `name`.
fn listeners(node: &Redis, name: &str) -> i64 {
    match node.command(&["PUBSUB", "SHARDNUMSUB", &channel(name)]) {
        // Before Redis 7, there are no sharded channels.
        Reply::Error(_) => crate::common::subscribers(node, &channel(name)),
        received => received.list()[1].number(),
    }
}

fn until_received(node: &Redis, name: &str) {
    eventually("the channel has a subscriber", PATIENCE, || listeners(node, name) == 1);
}

fn until_left_alone(node: &Redis) {
    eventually("no client is connected any more", PATIENCE, || connections(node) == 0);
}

/// Waits until the waiter for `name` is subscribed at `node` and sleeps.
async fn until_asleep(node: &Redis, name: &str) {
    until_received(node, name);
    // The waiter repeats its request when it is subscribed, and a quarter of a second after it has
    // its queue entry. After that, it sleeps for three seconds.
    sleep(ms(700)).await;
}

// Locks on every node.

#[tokio::test(flavor = "multi_thread")]
async fn clients_exclude_and_wake_each_other_on_every_node() {
    let cluster = three_masters();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    for master in cluster.masters() {
        let name = cluster.key_on(&master, NAME);
        let held = one.lock(&name).unwrap().acquire().await.unwrap();
        assert!(other.lock(&name).unwrap().try_acquire().await.unwrap().is_none());
        let woken = other.stats().wake_ups;
        let waits = waiter(other.lock(&name).unwrap());
        until_asleep(&master, &name).await;
        release_guard(held).await;
        release_guard(entered(waits).await).await;
        assert!(other.stats().wake_ups > woken, "a message woke the waiter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_connects_by_the_only_reachable_node_of_its_url() {
    let cluster = three_masters();
    let nodes = cluster.nodes();
    let url = format!("redis-cluster://127.0.0.1:1,127.0.0.1:{}", nodes[2].port());
    let client = Client::connect(&url).await.unwrap();
    for node in &nodes {
        let name = cluster.key_on(node, NAME);
        let held = client.lock(&name).unwrap().acquire().await.unwrap();
        assert_eq!(node.command(&["EXISTS", &name]).number(), 1);
        release_guard(held).await;
    }
    let health = client.health().await;
    assert_eq!((health.is_ready(), health.role), (true, Some(Role::ClusterNode)));
}

#[tokio::test(flavor = "multi_thread")]
async fn lazy_client_finds_a_cluster_that_starts_later() {
    let cluster = three_masters();
    let nodes = cluster.nodes();
    nodes.iter().for_each(|node| node.pause());
    let client = Client::connect_lazy(&cluster.url()).unwrap();
    assert!(!client.health().await.is_ready());
    let waits = waiter(client.lock(NAME).unwrap());
    sleep(ms(300)).await;
    nodes.iter().for_each(|node| node.resume());
    let held = within(PATIENCE, "the waiter acquires", waits).await.unwrap().unwrap();
    release_guard(held).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_object_works_in_a_cluster() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    for master in cluster.masters() {
        let name = |prefix: &str| cluster.key_on(&master, prefix);
        let fenced = client.fenced_lock(name("fenced")).unwrap();
        let first = fenced.acquire().await.unwrap();
        let token = first.token();
        assert_eq!(first.release().await.unwrap(), Release::Released);
        assert!(fenced.acquire().await.unwrap().token() > token);

        let prices = client.read_write_lock(name("prices")).unwrap();
        let reads = prices.read().acquire().await.unwrap();
        assert!(prices.write().try_acquire().await.unwrap().is_none());
        release_guard(reads).await;
        release_guard(prices.write().acquire().await.unwrap()).await;

        let pool = client.semaphore(name("pool")).unwrap();
        assert!(pool.set_if_absent(2).await.unwrap());
        let taken = pool.acquire(2).await.unwrap();
        assert!(pool.try_acquire(1).await.unwrap().is_none());
        assert_eq!(taken.release().await.unwrap(), Release::Released);

        let latch = client.latch(name("latch")).unwrap();
        assert!(latch.set(1).await.unwrap());
        let waits = tokio::spawn({
            let latch = latch.clone();
            async move { latch.wait().await }
        });
        assert_eq!(latch.count_down().await.unwrap(), 0);
        within(SOON, "the waiter passes the latch", waits).await.unwrap().unwrap();

        let permits = client.expirable_semaphore(name("permits")).unwrap();
        assert!(permits.set_if_absent(1).await.unwrap());
        let taken = permits.acquire().await.unwrap();
        assert_eq!(taken.release().await.unwrap(), Release::Released);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_tag_selects_the_slot_and_is_refused_in_latch_names() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let held = client.lock("{tenant}:orders").unwrap().acquire().await.unwrap();
    let node = owner(&cluster, "tenant");
    assert_eq!(node.command(&["EXISTS", "{tenant}:orders"]).number(), 1);
    release_guard(held).await;

    came_with(7, "sharded channels");
    let refused = client.latch("{tenant}:ready").unwrap().set(1).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unsupported { what } if what.contains("braces")),
        "{refused}"
    );
    let refused = client.latch("{tenant}:ready").unwrap().wait().await.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guarded_write_to_another_slot_is_refused_with_a_remedy() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let held = client.lock("orders:42").unwrap().acquire().await.unwrap();
    held.write([Write::set("{orders:42}:total", "7")]).await.unwrap();
    let refused = held.write([Write::set("total", "7")]).await.unwrap_err();
    assert!(refused.to_string().contains("{orders:42}:total"), "{refused}");
    release_guard(held).await;
}

// Addresses.

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_or_a_standalone_server_fails_at_once() {
    let password = Redis::options().password("right");
    let cluster = Cluster::options().replicas(0).node_options(password).start();
    let good = Client::builder().password("right").connect(&cluster.url()).await.unwrap();
    release_guard(good.lock(NAME).unwrap().acquire().await.unwrap()).await;
    let wrong = Client::builder().password("wrong").connect(&cluster.url()).await.unwrap_err();
    assert!(matches!(&wrong, Error::Connect { permanent: true, .. }), "{wrong}");
    assert!(wrong.to_string().contains("WRONGPASS"), "{wrong}");

    let alone = Redis::start();
    let url = format!("redis-cluster://127.0.0.1:{}", alone.port());
    let wrong = Client::connect(&url).await.unwrap_err();
    assert!(matches!(&wrong, Error::Connect { permanent: true, .. }), "{wrong}");
    assert!(wrong.to_string().contains("redis://"), "{wrong}");

    // and the error is the same if the user may not read the topology. Former bug: the error was
    // only `NOPERM`
    alone.user("narrow", &["~*", "&*", "+@all", "-cluster"]);
    let narrow = Client::builder().credentials("narrow", "secret");
    let wrong = narrow.connect(&url).await.unwrap_err();
    assert!(matches!(&wrong, Error::Connect { permanent: true, .. }), "{wrong}");
    assert!(wrong.to_string().contains("not a node of a cluster; use redis://"), "{wrong}");
}

/// Former bug: a client whose URL had a dead and a live node did not report the dead node.
#[tokio::test]
async fn unreachable_node_of_the_url_is_logged() {
    let cluster = three_masters();
    let (log, _logged) = Log::begin();
    let well = cluster.addresses().join(",");
    let url = format!("redis-cluster://127.0.0.1:1,{well}");
    let client = Client::connect(&url).await.unwrap();
    release_guard(client.lock(NAME).unwrap().acquire().await.unwrap()).await;
    let text = log.text();
    assert_eq!(text.matches("node in the URL returned no topology").count(), 1, "{text}");
    assert!(
        text.contains(
            "connect to 127.0.0.1:1: no server listens at the address (connection refused)"
        ),
        "{text}"
    );
}

/// Creates a user with all permissions on every node.
fn with_user(cluster: &Cluster) {
    cluster.user("door", ALL);
}

const ALL: &[&str] = &["~*", "&*", "+@all"];

/// Deletes the user at `node`, and closes its connections.
fn without_user(node: &Redis) {
    node.command(&["ACL", "DELUSER", "door"]);
}

/// Asserts that the error names `node`, which rejects the login.
#[track_caller]
fn not_let_in(error: &Error, node: &Redis) {
    let address = format!("127.0.0.1:{}", node.port());
    assert!(matches!(error, Error::Forbidden { code, .. } if code == "WRONGPASS"), "{error:?}");
    assert!(error.to_string().contains(&address) && !error.is_transient(), "{error}");
    assert!(error.to_string().contains("create the user on every server"), "{error}");
}

/// Former bug: the error was `Unavailable`, and acquisitions waited for ever.
#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_rejecting_node_and_other_nodes_keep_working() {
    let cluster = three_masters();
    with_user(&cluster);
    let nodes = cluster.nodes();
    let (missing, other_password, well) = (&nodes[0], &nodes[1], &nodes[2]);
    without_user(missing);
    other_password.command(&["ACL", "SETUSER", "door", "resetpass", ">other"]);
    let client = as_user(&cluster, "door").await;
    for node in [missing, other_password] {
        let lock = client.lock(cluster.key_on(node, NAME)).unwrap();
        not_let_in(&lock.try_acquire().await.unwrap_err(), node);
        not_let_in(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), node);
        not_let_in(&lock.acquire_within(PATIENCE).await.unwrap_err(), node);
        not_let_in(&lock.holder().await.unwrap_err(), node);
    }
    // Former bug: a client with `fail_fast` reported the rejected login as an outage, which is
    // temporary.
    let hasty = Client::builder().credentials("door", "secret").fail_fast(true);
    let hasty = hasty.connect(&cluster.url()).await.unwrap();
    for node in [missing, other_password] {
        let lock = hasty.lock(cluster.key_on(node, NAME)).unwrap();
        not_let_in(&lock.try_acquire().await.unwrap_err(), node);
        not_let_in(&lock.try_acquire().await.unwrap_err(), node);
    }
    let name = cluster.key_on(well, NAME);
    release_guard(client.lock(name).unwrap().acquire().await.unwrap()).await;
    let findings = client.health().await.findings;
    let away = findings.iter().filter(|it| matches!(it.hazard, Hazard::NodeUnreachable { .. }));
    let remedies: Vec<_> = away.map(|it| it.hazard.remedy()).collect();
    assert_eq!(
        remedies, ["create the user on that node, as on the other nodes"; 2],
        "{findings:?}"
    );

    // when the nodes accept the login again, the client acquires
    with_user(&cluster);
    for node in [missing, other_password] {
        let lock = client.lock(cluster.key_on(node, NAME)).unwrap();
        release_guard(when_login_is_accepted(&lock).await).await;
    }
}

/// Acquires `lock` as soon as its node accepts the login.
async fn when_login_is_accepted(lock: &Lock) -> LockGuard {
    let until = Instant::now() + PATIENCE;
    loop {
        match lock.acquire_within(PATIENCE).await {
            Ok(guard) => return guard,
            Err(Error::Forbidden { .. }) if Instant::now() < until => sleep(ms(50)).await,
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_rejects_logins_is_named_and_gets_releases_later() {
    let cluster = three_masters();
    with_user(&cluster);
    let client = as_user(&cluster, "door").await;
    let node = &cluster.nodes()[0];
    let (held, wanted) = (cluster.key_on(node, NAME), cluster.key_on(node, "gate"));
    let guard = client.lock(&held).unwrap().acquire().await.unwrap();
    let kept = client.lock(cluster.key_on(node, "kept")).unwrap().acquire().await.unwrap();
    without_user(node);
    until_left_alone(node);
    let lock = client.lock(&wanted).unwrap();
    not_let_in(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), node);
    for other in &cluster.nodes()[1..] {
        let name = cluster.key_on(other, NAME);
        release_guard(client.lock(name).unwrap().acquire().await.unwrap()).await;
    }
    drop(guard);
    with_user(&cluster);
    release_guard(when_login_is_accepted(&lock).await).await;
    // The client releases the lock long before its lease would have ended.
    eventually("the lock is released", SOON, || node.command(&["EXISTS", &held]).number() == 0);
    assert_eq!(client.stats().releases_abandoned, 0);
    release_guard(kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn error_names_a_joining_node_that_rejects_the_client() {
    let cluster = three_masters();
    with_user(&cluster);
    let client = as_user(&cluster, "door").await;
    let (lock, from) = (client.lock(NAME).unwrap(), owner(&cluster, NAME));
    let other = client.lock(cluster.key_on(&from, "gate")).unwrap();
    release_guard(lock.acquire().await.unwrap()).await;

    // The error names the new node during and after the migration of the slot.
    let joined = cluster.add_node();
    let moving = cluster.moving(Cluster::slot_of(NAME), &joined);
    moving.open();
    not_let_in(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), &joined);
    moving.carry_all();
    moving.close();
    not_let_in(&within(SOON, "`acquire` fails", lock.acquire()).await.unwrap_err(), &joined);
    release_guard(other.acquire().await.unwrap()).await;
    with_user(&cluster);
    release_guard(when_login_is_accepted(&lock).await).await;
}

/// The permissions that the guide lists for a user with locks below `app:` in a cluster.
fn guide_permissions() -> Vec<&'static str> {
    let commands = acl_rules_in(GUIDE, "leasehold");
    let of_clusters = commands.iter().find(|rights| rights.contains(&"+asking")).unwrap();
    [&commands[0][..], of_clusters].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_permissions_suffice_in_a_cluster() {
    came_with(7, "permissions for sharded channels");
    let cluster = three_masters();
    cluster.user("narrow", &guide_permissions());
    let (one, other) = (as_user(&cluster, "narrow").await, as_user(&cluster, "narrow").await);
    let held = one.lock("app:door").unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock("app:door").unwrap());
    let node = owner(&cluster, "app:door");
    until_received(&node, "app:door");
    eventually("the waiter is in the queue", PATIENCE, || {
        crate::common::places(&node, "app:door") == 1
    });
    release_guard(held).await;
    release_guard(entered(waits).await).await;
    assert!(other.stats().wake_ups > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_a_missing_permission_for_the_topology() {
    came_with(7, "denied subcommands");
    let cluster = three_masters();
    cluster.user("narrow", &["~*", "&*", "+@all", "-cluster|slots"]);
    let builder = Client::builder().credentials("narrow", "secret");
    let refused = builder.connect(&cluster.url()).await.unwrap_err();
    assert!(matches!(&refused, Error::Connect { permanent: true, .. }), "{refused:?}");
    assert!(refused.to_string().contains("NOPERM"), "{refused}");

    // without permission for `CLUSTER NODES`, which returns the epoch of the topology, the client
    // works
    cluster.user("narrow", &["~*", "&*", "+@all", "-cluster|nodes"]);
    let client = as_user(&cluster, "narrow").await;
    release_guard(client.lock(NAME).unwrap().acquire().await.unwrap()).await;
}

/// Former bug: the two nodes redirected the request to each other until it failed. The error then
/// reported that the nodes disagree.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn denied_asking_command_is_an_error_until_the_slot_has_moved() {
    let cluster = three_masters();
    cluster.user("narrow", &["~*", "&*", "+@all", "-asking"]);
    let client = as_user(&cluster, "narrow").await;
    let to = other_than(&cluster, NAME);
    let moving = cluster.moving(Cluster::slot_of(NAME), &to);
    moving.open();
    let refused = client.lock(NAME).unwrap().acquire_within(PATIENCE).await.unwrap_err();
    assert!(matches!(&refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("asking"), "{refused}");
    moving.carry_all();
    moving.close();
    release_guard(client.lock(NAME).unwrap().acquire_within(PATIENCE).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_without_subscribe_polls_until_the_permission_is_granted() {
    let cluster = three_masters();
    cluster.user("deaf", &["~*", "+@all", "resetchannels"]);
    let (one, other) = (as_user(&cluster, "deaf").await, as_user(&cluster, "deaf").await);
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    sleep(ms(300)).await;
    release_guard(held).await;
    release_guard(entered(waits).await).await;
    assert_eq!(other.stats().wake_ups, 0);

    // with its next connection, the client subscribes
    cluster.user("deaf", &["~*", "+@all", "&*"]);
    let node = owner(&cluster, NAME);
    node.command(&["CLIENT", "KILL", "USER", "deaf"]);
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    until_received(&node, NAME);
    release_guard(held).await;
    release_guard(entered(waits).await).await;
}

/// Clusters before Redis 7 have no sharded channels. In this test, the clients have no permission
/// for `PUBSUB SHARDNUMSUB`, and so also use plain channels.
#[tokio::test(flavor = "multi_thread")]
async fn plain_channels_wake_waiters_that_have_no_queue_entry() {
    let cluster = three_masters();
    came_with(7, "denied subcommands");
    cluster.user("plain", &["~*", "&*", "+@all", "-pubsub|shardnumsub"]);
    let (one, other) = (as_user(&cluster, "plain").await, as_user(&cluster, "plain").await);
    let node = owner(&cluster, NAME);
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    eventually("the waiter is subscribed", PATIENCE, || {
        crate::common::subscribers(&node, &channel(NAME)) == 1
    });
    sleep(ms(700)).await;
    assert_eq!((crate::common::places(&node, NAME), listeners(&node, NAME)), (0, 0));
    let woken = other.stats().wake_ups;
    release_guard(held).await;
    release_guard(entered(waits).await).await;
    assert!(other.stats().wake_ups > woken, "a message woke the waiter");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn cluster_with_tls_works() {
    let cluster = Cluster::options().replicas(0).node_options(Redis::options().tls()).start();
    let url = cluster.url();
    let client = Client::builder().ca_certificates(cluster.ca_pem()).connect(&url).await.unwrap();
    for master in cluster.masters() {
        let name = cluster.key_on(&master, NAME);
        release_guard(client.lock(&name).unwrap().acquire().await.unwrap()).await;
    }
    let stranger = Client::connect(&url).await.unwrap_err();
    assert!(stranger.to_string().contains("certificate"), "{stranger}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn node_with_a_wrong_certificate_is_refused() {
    let tls = || Redis::options().tls();
    let cluster = Cluster::options().replicas(0).node_options(tls()).start();
    let other = tls().start();
    let trusting = || Client::builder().ca_certificates(cluster.ca_pem()).connect_timeout(secs(2));

    // the client refuses a node of the URL
    let nodes = cluster.nodes();
    let strange = crate::common::by_another_name(nodes[0].tls_port()).await;
    let refused = trusting().connect(&format!("rediss-cluster://{strange}")).await.unwrap_err();
    assert!(refused.to_string().contains("not valid for name"), "{refused}");

    // and a node that other nodes announce
    let url = format!("rediss-cluster://127.0.0.1:{}", nodes[0].tls_port());
    let results = format!("127.0.0.1:{}", nodes[1].tls_port());
    let name = cluster.key_on(&nodes[1], NAME);
    let strange = crate::common::by_another_name(nodes[1].tls_port()).await;
    for (leads_to, part) in [
        (strange, "not valid for name"),
        (format!("localhost:{}", other.tls_port()), "invalid peer certificate"),
    ] {
        let results = results.clone();
        let leads = move |it: &str| (it == results).then(|| leads_to.clone());
        let refused = match trusting().translate_addresses(leads).connect(&url).await {
            Ok(client) => client.lock(&name).unwrap().acquire_within(secs(2)).await.unwrap_err(),
            Err(refused) => refused,
        };
        assert!(refused.to_string().contains(part), "{part}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_debug_show_no_password() {
    const SECRET: &str = "hunter2";
    let password = Redis::options().password(SECRET);
    let cluster = Cluster::options().replicas(0).node_options(password).start();
    let url = cluster.url().replace("://", &format!("://:{SECRET}@"));
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock(NAME).unwrap().acquire().await.unwrap();
    let wrong = url.replace(SECRET, "hunter2-no");
    let refused = Client::connect(&wrong).await.unwrap_err();
    let shown = format!("{client:?} {guard:?} {:?} {refused} {refused:?}", client.health().await);
    assert!(!shown.contains(SECRET), "{shown}");
    release_guard(guard).await;
}

/// Nodes in containers announce addresses that are not reachable from outside.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_reached_by_translated_addresses() {
    // given nodes that are reachable only at other addresses than they announce
    let cluster = Cluster::options().replicas(0).links().start();
    let doors = cluster.links().client("outside");
    for node in cluster.links().names().iter().filter(|name| *name != "outside") {
        cluster.links().cut(Links::CLIENTS, node);
    }
    let way = move |results: &str| {
        let (host, port) = results.rsplit_once(':')?;
        doors.get(&port.parse().ok()?).map(|own| format!("{host}:{own}"))
    };
    let url = cluster.url();

    // when a client translates the announced addresses
    let shut = Client::builder().connect_timeout(secs(1)).connect(&url).await;
    assert!(matches!(shut, Err(Error::Connect { .. })), "{shut:?}");
    let client = Client::builder().translate_addresses(way).connect(&url).await.unwrap();

    // then the client can acquire locks on every node
    for node in cluster.nodes() {
        let name = cluster.key_on(&node, "door");
        release_guard(client.lock(name).unwrap().acquire().await.unwrap()).await;
    }
}

/// Former bug: the client translated the address of each node only once. If a node moved, and
/// announced the same address as before, the node stayed unreachable for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn address_of_a_moved_node_is_translated_again() {
    let cluster = three_masters();
    let node = owner(&cluster, NAME);
    let ways = Ways::to(&node);
    let client = Client::builder().translate_addresses(ways.translation());
    let client = client.connect(&cluster.url()).await.unwrap();
    let lock = client.lock(NAME).unwrap();
    release_guard(lock.acquire().await.unwrap()).await;

    let after = ways.lead_elsewhere();
    let found = async {
        loop {
            match lock.acquire().await {
                Err(error) if error.is_transient() => {}
                answer => return answer,
            }
        }
    };
    release_guard(within(PATIENCE, "the client acquires at the new address", found).await.unwrap())
        .await;
    assert!(after.connections() > 0);
}

/// Former bug: the client called the translation function while it had locked an internal mutex. A
/// request from within the function needs this mutex, so the request waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn address_translation_may_call_its_own_client() {
    let cluster = three_masters();
    let asked: Arc<OnceLock<Client>> = Arc::default();
    let asks = Arc::clone(&asked);
    let ask = move |_: &str| {
        assert!(asks.get().is_none_or(|it| it.stats().held < 2));
        None
    };
    let url = cluster.url();
    let client = Client::builder().translate_addresses(ask).connect(&url).await.unwrap();
    asked.set(client.clone()).unwrap();
    let node = cluster.add_node();
    cluster.move_slot(Cluster::slot_of(NAME), &node);
    let acquired =
        within(PATIENCE, "the client acquires", client.lock(NAME).unwrap().acquire()).await;
    release_guard(acquired.unwrap()).await;
}

// Failovers.

/// A failover to a replica that has all data loses neither the hold nor the waiter.
#[tokio::test(flavor = "multi_thread")]
async fn manual_failover_loses_no_hold_and_no_waiter() {
    let cluster = Cluster::start();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let old = owner(&cluster, NAME);
    let replica = cluster.replicas_of(&old).remove(0);
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    until_received(&old, NAME);

    cluster.fail_over(&replica, Failover::Agreed);
    // then the waiter is subscribed at the new primary, and no client is connected to the old
    // primary
    until_received(&replica, NAME);
    until_left_alone(&old);
    assert!(held.is_held() && !waits.is_finished());
    until_asleep(&replica, NAME).await;
    release_guard(held).await;
    release_guard(
        within(PATIENCE, "the waiter acquires at the new primary", waits).await.unwrap().unwrap(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_stay_exclusive_and_available_in_lossless_failovers() {
    let cluster = Arc::new(Cluster::options().impatient().start());
    // In a failover, the old primary waits until the other nodes agree. So a release may need a
    // second request, and a long timeout.
    let url = cluster.url();
    let client = || Client::builder().release_timeout(PATIENCE).connect(&url);
    let clients = [client().await.unwrap(), client().await.unwrap()];
    let load = Load::on(&clients, NAME);
    load.goes_on();
    for _ in 0..3 {
        let cluster = Arc::clone(&cluster);
        let failed_over = spawn_blocking(move || {
            let replica = cluster.replicas_of(&owner(&cluster, NAME)).remove(0);
            cluster.fail_over(&replica, Failover::Agreed);
            cluster.wait_until_ok();
        });
        failed_over.await.unwrap();
        load.goes_on();
    }
    assert!(load.ends().await < PATIENCE);
}

/// Returns the time from the moment when the new primary reports its role to the first grant.
async fn first_grant_after(lock: Lock, promoted: Arc<Redis>) -> Duration {
    let begun = Instant::now();
    let watched = spawn_blocking(move || {
        let is_master = || promoted.command(&["ROLE"]).list()[0].text() == "master";
        eventually("the replica is promoted", PATIENCE, is_master);
        Instant::now()
    });
    let held = within(2 * PATIENCE, "the client acquires after the failover", lock.acquire())
        .await
        .unwrap();
    let granted = Instant::now();
    release_guard(held).await;
    let promoted = watched.await.unwrap();
    println!(
        "promoted after {:?}, granted {:?} later",
        promoted - begun,
        granted.saturating_duration_since(promoted)
    );
    granted.saturating_duration_since(promoted)
}

/// The limit on a busy machine. On an idle machine, the first grant takes a tenth of a second.
const FIRST_GRANT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_granted_soon_after_a_primary_is_killed() {
    let cluster = Cluster::options().impatient().start();
    let client = client(&cluster).await;
    let (old, elsewhere) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let replica = cluster.replicas_of(&old).remove(0);
    release_guard(client.lock(NAME).unwrap().acquire().await.unwrap()).await;
    let kept = client.lock(cluster.key_on(&elsewhere, "kept")).unwrap().acquire().await.unwrap();

    old.stop();
    let took = first_grant_after(client.lock(NAME).unwrap(), replica).await;
    assert!(took < FIRST_GRANT, "{took:?}");
    // the hold at another node is not affected
    release_guard(kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_primary_grants_soon_after_each_of_ten_failovers() {
    let cluster = Cluster::options().impatient().start();
    let client = client(&cluster).await;
    let mut took = Vec::new();
    for round in 0..10 {
        let name = format!("{{{NAME}}}-{round}");
        let old = owner(&cluster, &name);
        let replica = cluster.replicas_of(&old).remove(0);
        old.stop();
        took.push(first_grant_after(client.lock(name).unwrap(), replica).await);
        old.start_again();
        cluster.wait_until_ok();
    }
    took.sort();
    println!("from the promotion to the first grant: {took:?}");
    // On an idle machine, the median and the maximum are a quarter of these limits.
    assert!(took[5] <= secs(1), "median of {took:?}");
    assert!(took[9] <= FIRST_GRANT, "worst of {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_old_primary_is_ignored() {
    let cluster = Cluster::options().impatient().start();
    let client = client(&cluster).await;
    let old = owner(&cluster, NAME);
    let replica = cluster.replicas_of(&old).remove(0);
    release_guard(client.lock(NAME).unwrap().acquire().await.unwrap()).await;

    old.pause();
    let took = first_grant_after(client.lock(NAME).unwrap(), Arc::clone(&replica)).await;
    assert!(took < FIRST_GRANT, "{took:?}");
    let held = client.lock(NAME).unwrap().acquire().await.unwrap();
    old.resume();
    until_left_alone(&old);
    cluster.wait_until_ok();
    assert_eq!(replica.command(&["EXISTS", NAME]).number(), 1);
    release_guard(held).await;
}

// Requests for the topology.

/// Starts a proxy for each node of `cluster`, and a client that uses these proxies. Each proxy
/// delays each reply by `rtt`.
async fn far_client(cluster: &Cluster, rtt: Duration) -> (Vec<Proxy>, Client) {
    let nodes = cluster.nodes();
    let ways: Vec<_> = nodes.iter().map(|node| Proxy::before(node.port())).collect();
    ways.iter().for_each(|way| way.delay(rtt));
    let ports = nodes.iter().map(|node| node.port().to_string());
    let ports: Vec<_> = ports.zip(ways.iter().map(Proxy::port)).collect();
    let translation = move |results: &str| {
        let (host, port) = results.rsplit_once(':')?;
        let (_, way) = ports.iter().find(|(node, _)| node == port)?;
        Some(format!("{host}:{way}"))
    };
    let builder = Client::builder().translate_addresses(translation);
    (ways, built(cluster, builder).await)
}

/// The number of requests for the topology that all `nodes` together have received.
fn topology_requests(nodes: &[Arc<Redis>]) -> u64 {
    // A request has two commands, `CLUSTER SLOTS` and `CLUSTER NODES`. Redis 6.2 counts all
    // `CLUSTER` commands together.
    nodes.iter().map(|node| node.calls().of("cluster")).sum::<u64>() / 2
}

/// The number of connections that all `nodes` together have accepted.
fn connections_accepted(nodes: &[Arc<Redis>]) -> u64 {
    let of = |node: &Arc<Redis>| {
        let info = node.command(&["INFO", "stats"]);
        let line =
            info.text().lines().find_map(|it| it.strip_prefix("total_connections_received:"));
        line.expect("the server counts its connections").parse::<u64>().unwrap()
    };
    nodes.iter().map(of).sum()
}

/// Former bug: the client waited only 250 ms for the replies of all nodes, and then connected to
/// nodes for a second. With a delay of 400 ms, no reply came in time.
#[tokio::test(flavor = "multi_thread")]
async fn client_follows_a_failover_when_replies_take_400_ms() {
    let cluster = Cluster::options().impatient().start();
    let (_ways, client) = far_client(&cluster, ms(400)).await;
    let lock = client.lock(NAME).unwrap();
    release_guard(lock.acquire().await.unwrap()).await;
    let old = owner(&cluster, NAME);
    let replica = cluster.replicas_of(&old).remove(0);

    old.stop();
    let took = first_grant_after(lock, replica).await;
    assert!(took < secs(6), "{took:?}");
}

/// Former bug: the client connected again and again to nodes whose replies took more than 250 ms.
#[tokio::test(flavor = "multi_thread")]
async fn client_opens_no_connections_when_nodes_reply_late() {
    let cluster = three_masters();
    let (_ways, client) = far_client(&cluster, ms(400)).await;
    let lock = client.lock(NAME).unwrap();
    release_guard(lock.acquire().await.unwrap()).await;
    let nodes = cluster.nodes();
    let (asked, opened) = (topology_requests(&nodes), connections_accepted(&nodes));

    // when the client is busy for four seconds
    for _ in 0..5 {
        release_guard(lock.acquire().await.unwrap()).await;
    }
    // then each node has accepted one connection, which the test itself uses to read these counts
    assert_eq!(connections_accepted(&nodes) - opened, nodes.len() as u64);
    let asked = topology_requests(&nodes) - asked;
    assert!(asked <= 30, "{asked}");
}

/// Former bug: as long as a task waited, each client sent five requests a second to all surviving
/// nodes.
#[tokio::test(flavor = "multi_thread")]
async fn client_asks_rarely_for_the_topology_in_an_outage() {
    let options = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().masters(6).replicas(0).node_options(options).start();
    let client = client(&cluster).await;
    let away = owner(&cluster, NAME);
    let others: Vec<_> =
        cluster.nodes().into_iter().filter(|node| node.port() != away.port()).collect();
    away.stop();
    let waits = waiter(client.lock(NAME).unwrap());

    sleep(secs(4)).await;
    let before = topology_requests(&others);
    sleep(secs(3)).await;
    let asked = topology_requests(&others) - before;
    assert!(asked <= 20, "{asked}");
    waits.abort();
}

// Migrating slots.

/// Tasks of two clients that acquire one name repeatedly, and check that no other task holds the
/// lock at the same time.
struct Load {
    stop: Arc<AtomicBool>,
    entered: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Duration>>,
}

impl Load {
    fn on(clients: &[Client], name: &str) -> Self {
        let (stop, entered, inside) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicU64>::default(),
            Arc::<AtomicBool>::default(),
        );
        let task = |client: &Client| {
            let lock = client.lock(name).unwrap();
            let (stop, entered) = (Arc::clone(&stop), Arc::clone(&entered));
            let inside = Arc::clone(&inside);
            tokio::spawn(async move {
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::SeqCst) {
                    let begun = Instant::now();
                    let held = lock.acquire().await.unwrap();
                    longest = longest.max(begun.elapsed());
                    assert!(!inside.swap(true, Ordering::SeqCst), "only one task holds the lock");
                    sleep(ms(1)).await;
                    assert!(held.is_held());
                    inside.store(false, Ordering::SeqCst);
                    entered.fetch_add(1, Ordering::SeqCst);
                    release_guard(held).await;
                }
                longest
            })
        };
        let tasks = clients.iter().flat_map(|client| [task(client), task(client)]).collect();
        Self { stop, entered, tasks }
    }

    fn entered(&self) -> u64 {
        self.entered.load(Ordering::SeqCst)
    }

    /// Waits until the tasks have had 20 more holds.
    fn goes_on(&self) {
        let before = self.entered();
        eventually("the tasks have 20 more holds", PATIENCE, || self.entered() >= before + 20);
    }

    /// Stops the tasks. Returns the longest wait of any task.
    async fn ends(self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        let all = within(PATIENCE, "all tasks end", join_all(self.tasks)).await;
        all.into_iter().map(|longest| longest.unwrap()).max().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_stay_exclusive_and_available_during_a_slot_move() {
    let cluster = Arc::new(three_masters());
    let clients = [client(&cluster).await, client(&cluster).await];
    let load = Load::on(&clients, NAME);
    load.goes_on();
    for _ in 0..6 {
        let to = other_than(&cluster, NAME);
        let cluster = Arc::clone(&cluster);
        spawn_blocking(move || cluster.move_slot(Cluster::slot_of(NAME), &to)).await.unwrap();
        load.goes_on();
    }
    let longest = load.ends().await;
    assert!(longest < PATIENCE, "{longest:?}");
}

/// The new node gets requests with `ASKING` before it has any slot. At that time, it is not yet in
/// the topology.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slot_move_to_a_new_node_keeps_its_locks() {
    let cluster = Arc::new(three_masters());
    let clients = [client(&cluster).await, client(&cluster).await];
    let load = Load::on(&clients, NAME);
    load.goes_on();
    let moved = Arc::clone(&cluster);
    let added = spawn_blocking(move || {
        let added = moved.add_node();
        let moving = moved.moving(Cluster::slot_of(NAME), &added);
        moving.open();
        sleep_for(ms(300));
        moving.carry_all();
        moving.close();
        added
    });
    let added = added.await.unwrap();
    load.goes_on();
    assert!(load.ends().await < PATIENCE);
    assert!(connections(&added) >= 2);

    // When the new node has no slot any more, the clients close their connections to it.
    let back = other_than(&cluster, NAME);
    spawn_blocking(move || cluster.move_slot(Cluster::slot_of(NAME), &back)).await.unwrap();
    until_left_alone(&added);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_in_a_migrating_slot_are_granted_and_released() {
    let cluster = three_masters();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let to = other_than(&cluster, NAME);
    let moving = cluster.moving(Cluster::slot_of(NAME), &to);
    moving.open();
    // The new owner has none of the keys. For this slot, it serves only requests after `ASKING`.
    let load = Load::on(&[one.clone(), other.clone()], NAME);
    load.goes_on();
    moving.carry_all();
    load.goes_on();
    assert!(load.ends().await < PATIENCE);
    moving.carry_all();
    moving.close();
    release_guard(one.lock(NAME).unwrap().acquire().await.unwrap()).await;
}

/// The client renews holds together, but a script must not use keys on two nodes. Former bug: a
/// reader lost its hold if its lease was on one node and the lock on another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn holds_are_renewed_and_kept_while_their_slot_migrates() {
    let cluster = three_masters();
    let client = hasty(&cluster, secs(3)).await;
    let mut guards = Vec::new();
    for number in 0..4 {
        let lock = client.lock(format!("{{{NAME}}}:{number}")).unwrap();
        guards.push(lock.acquire().await.unwrap());
        let reads = client.read_write_lock(format!("{{{NAME}}}:read:{number}")).unwrap().read();
        guards.push(reads.acquire().await.unwrap());
    }
    let moving = cluster.moving(Cluster::slot_of(NAME), &other_than(&cluster, NAME));
    moving.open();
    for _ in 0..4 {
        moving.carry(1);
        sleep(secs(4)).await;
    }
    let lost: Vec<_> = guards.iter().filter(|guard| !guard.is_held()).collect();
    assert!(lost.is_empty(), "{lost:?}");
    moving.carry_all();
    moving.close();
    for guard in guards {
        release_guard(guard).await;
    }
}

/// The script runs on the new node, and publishes the release on the new node. The waiter is
/// subscribed only at the old node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiters_at_the_old_node_are_woken_when_their_key_moves() {
    let cluster = three_masters();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    until_asleep(&from, NAME).await;
    let woken = other.stats().wake_ups;
    let moving = cluster.moving(Cluster::slot_of(NAME), &to);
    moving.open();
    moving.carry_all();
    release_guard(held).await;
    let held = entered(waits).await;
    assert!(other.stats().wake_ups > woken, "a message woke the waiter");
    release_guard(held).await;
    moving.carry_all();
    moving.close();
}

/// A request with several keys waits until all of these keys are on the new node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn request_waits_until_its_keys_are_on_one_node() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let pool = client.semaphore("pool").unwrap();
    assert!(pool.set_if_absent(2).await.unwrap());
    let taken = pool.acquire(1).await.unwrap();
    let to = other_than(&cluster, "pool");
    let moving = cluster.moving(Cluster::slot_of("pool"), &to);
    moving.open();
    assert_eq!(moving.carry(1), 1);
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move { pool.acquire(1).await }
    });
    sleep(ms(200)).await;
    assert!(!waits.is_finished());
    moving.carry_all();
    moving.close();
    let second = within(PATIENCE, "the waiter acquires the permit", waits).await.unwrap().unwrap();
    assert_eq!(second.release().await.unwrap(), Release::Released);
    assert_eq!(taken.release().await.unwrap(), Release::Released);
    assert_eq!(pool.available().await.unwrap(), 2);
}

/// Former bug: the script removed the last expired member, and so Redis deleted the key. The old
/// owner of a migrating slot rejects reads of a key that it does not have, so a new waiter received
/// an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn expired_permits_are_free_after_a_slot_move() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let permits = client.expirable_semaphore(NAME).unwrap();
    permits.set(1).await.unwrap();
    std::mem::forget(permits.clone().lease(ms(300)).acquire().await.unwrap());
    let moving = cluster.moving(Cluster::slot_of(NAME), &other_than(&cluster, NAME));
    moving.open();
    sleep(ms(500)).await;
    let waits = tokio::spawn({
        let permits = permits.clone();
        async move { permits.acquire().await }
    });
    sleep(ms(500)).await;
    moving.carry_all();
    moving.close();
    let guard = within(PATIENCE, "the waiter acquires the permit", waits).await.unwrap().unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert_eq!(permits.available().await.unwrap(), 1);
}

/// Former bug: the script deleted the key before it wrote the key again. The old owner of a
/// migrating slot rejects writes of a key that it does not have, so the data was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn guarded_replace_follows_a_migrating_slot() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let guard = Arc::new(client.lock(NAME).unwrap().acquire().await.unwrap());
    let key = format!("{{{NAME}}}:data");
    let fields = || owner(&cluster, NAME).command(&["HGETALL", &key]).texts().join(" ");
    guard.write([Write::hset(&*key, "old", "1")]).await.unwrap();
    let moving = cluster.moving(Cluster::slot_of(NAME), &other_than(&cluster, NAME));
    moving.open();
    let replaces = || {
        let (guard, key) = (Arc::clone(&guard), key.clone());
        tokio::spawn(async move {
            guard.write([Write::delete(&*key), Write::hset(&*key, "new", "2")]).await
        })
    };
    let refused = replaces().await.unwrap().unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    assert_eq!(fields(), "old 1");
    let waits = replaces();
    moving.carry_all();
    moving.close();
    within(PATIENCE, "the guarded write returns", waits).await.unwrap().unwrap();
    assert_eq!(fields(), "new 2");
    release_guard(Arc::into_inner(guard).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiter_is_woken_by_the_new_node_of_a_moved_slot() {
    let cluster = three_masters();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let held = one.lock(NAME).unwrap().acquire().await.unwrap();
    let waits = waiter(other.lock(NAME).unwrap());
    until_received(&from, NAME);
    cluster.move_slot(Cluster::slot_of(NAME), &to);
    until_received(&to, NAME);
    eventually("no client is subscribed at the old node", PATIENCE, || listeners(&from, NAME) == 0);
    until_asleep(&to, NAME).await;
    let woken = other.stats().wake_ups;
    release_guard(held).await;
    release_guard(entered(waits).await).await;
    assert!(other.stats().wake_ups > woken, "a message woke the waiter");
}

#[tokio::test(flavor = "multi_thread")]
async fn circular_redirects_end_with_an_error() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let (from, to) = (owner(&cluster, NAME), other_than(&cluster, NAME));
    let slot = Cluster::slot_of(NAME).to_string();
    let [from_id, to_id] =
        [&from, &to].map(|it| it.command(&["CLUSTER", "MYID"]).text().to_owned());
    // each of the two nodes redirects to the other node
    from.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
    to.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &from_id]);
    let before = from.calls();
    let lock = client.lock(NAME).unwrap();
    let failure = within(PATIENCE, "`try_acquire` fails", lock.try_acquire()).await.unwrap_err();
    assert!(failure.is_transient() && failure.to_string().contains("agree"), "{failure}");
    let asked = from.calls().since(&before).of("evalsha");
    assert_eq!(asked, 0, "the old node executed no request");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_an_unassigned_slot_and_other_slots_keep_working() {
    let (log, _guard) = Log::begin();
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let slot = Cluster::slot_of(NAME).to_string();
    let elsewhere = cluster.key_on(&other_than(&cluster, NAME), "kept");
    // A late message of the former owner may assign the slot to the former owner again.
    let nodes = cluster.nodes();
    eventually("no node has the slot", PATIENCE, || {
        let leave = |node: &Arc<Redis>| node.command(&["CLUSTER", "DELSLOTS", &slot]).is_error();
        nodes.iter().filter(|node| leave(node)).count() == nodes.len()
    });
    let client = client(&cluster).await;
    let lock = client.lock(NAME).unwrap();
    let failure = within(PATIENCE, "`try_acquire` fails", lock.try_acquire()).await.unwrap_err();
    assert!(failure.to_string().contains(&format!("slot {slot}")), "{failure}");
    release_guard(client.lock(&elsewhere).unwrap().acquire().await.unwrap()).await;
    let health = client.health().await;
    let missed = Hazard::SlotsWithoutNode { slots: format!("slot {slot}") };
    assert!(health.findings.iter().any(|it| it.hazard == missed), "{health:?}");
    assert!(health.is_ready(), "the locks of all other slots can be acquired: {health:?}");
    let words = format!(
        "no node of the cluster serves slot {slot}, so names in these slots cannot be locked"
    );
    assert_eq!(log.text().matches(&words).count(), 1, "{}", log.text());
}

/// Former bug: the error named the unreachable node as the cause, and did not name the setting.
#[tokio::test(flavor = "multi_thread")]
async fn clusterdown_error_names_the_full_coverage_setting() {
    let cluster = Cluster::options().replicas(0).impatient().start();
    let lost = owner(&cluster, NAME);
    let living = other_than(&cluster, NAME);
    let elsewhere = cluster.key_on(&living, "kept");
    let client = hasty(&cluster, secs(30)).await;
    lost.stop();
    let is_down = || living.command(&["GET", &elsewhere]).is_error();
    eventually("the cluster rejects commands", PATIENCE, is_down);
    let lock = client.lock(&elsewhere).unwrap();
    let slots = ["slots 0 to 5460", "slots 5461 to 10921", "slots 10922 to 16383"];
    for asked in [lock.try_acquire().await.map(drop), lock.acquire_within(secs(1)).await.map(drop)]
    {
        let error = asked.unwrap_err();
        let output = error.to_string();
        assert!(
            matches!(&error, Error::NotReady { code, .. } if code == "CLUSTERDOWN"),
            "{output}"
        );
        assert!(output.contains("if cluster-require-full-coverage is yes"), "{output}");
        assert!(slots.iter().any(|slots| output.contains(slots)), "{output}");
    }
    let health = client.health().await;
    assert!(health.unavailable_reason.unwrap().contains("cluster-require-full-coverage"));
}

/// Former bug: the error reported that the lock is held, although this was only the result of an
/// earlier reply.
#[tokio::test(flavor = "multi_thread")]
async fn timeout_error_says_clusterdown_instead_of_an_old_holder() {
    let cluster = Cluster::options().replicas(0).impatient().start();
    let lost = owner(&cluster, NAME);
    let living = other_than(&cluster, NAME);
    let elsewhere = cluster.key_on(&living, "kept");
    let (one, client) = (client(&cluster).await, client(&cluster).await);
    let held = one.lock(&elsewhere).unwrap().acquire().await.unwrap();
    let lock = client.lock(&elsewhere).unwrap();
    let asks = async || lock.acquire_within(secs(2)).await.unwrap_err();
    assert!(asks().await.is_busy());

    // when another node dies, and the client repeats its request
    lost.stop();
    let is_down = || living.command(&["EXISTS", &elsewhere]).is_error();
    let asks_on = async {
        while !is_down() {
            asks().await;
        }
    };
    within(PATIENCE, "the cluster is down", asks_on).await;

    // then the error names the current cause
    for _ in 0..3 {
        let error = asks().await;
        assert!(matches!(&error, Error::NotReady { code, .. } if code == "CLUSTERDOWN"), "{error}");
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_server_url_of_a_node_is_refused_with_a_remedy() {
    let cluster = three_masters();
    let elsewhere = cluster.key_on(&other_than(&cluster, NAME), "kept");
    let client = Client::connect(&owner(&cluster, NAME).url()).await.unwrap();
    let error = client.lock(&elsewhere).unwrap().try_acquire().await.unwrap_err();
    let output = error.to_string();
    assert!(output.contains("MOVED") && output.contains("redis-cluster://"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_each_unreachable_node_of_the_url() {
    let error = Client::connect("redis-cluster://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    let output = error.to_string();
    assert!(output.contains("127.0.0.1:1: ") && output.contains("127.0.0.1:2: "), "{output}");
}

// Many names.

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_client_waits_for_ten_thousand_names() {
    const NAMES: usize = 10_000;
    let cluster = three_masters();
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let name = |number: usize| format!("door:{number}");
    let holds = (0..NAMES).map(|number| one.lock(name(number)).unwrap());
    let holds = join_all(holds.map(|lock| async move { lock.acquire().await.unwrap() })).await;
    let waits: Vec<_> =
        (0..NAMES).map(|number| waiter(other.lock(name(number)).unwrap())).collect();
    let received = |node: &Arc<Redis>| {
        let info = node.command(&["INFO", "stats"]);
        let count = |line: &str| line.split_once("_channels:")?.1.parse::<usize>().ok();
        info.text().lines().filter(|it| it.starts_with("pubsub")).filter_map(count).sum::<usize>()
    };
    let nodes = cluster.nodes();
    // Without a queue, there is one channel for each name.
    let queues = !nodes[0].command(&["PUBSUB", "SHARDCHANNELS"]).is_error();
    let channels = if queues { 3 * NAMES } else { NAMES };
    let all_received = || nodes.iter().map(received).sum::<usize>() >= channels;
    eventually("the client is subscribed to all channels", 4 * PATIENCE, all_received);
    for held in holds {
        tokio::spawn(held.release());
    }
    let all = within(4 * PATIENCE, "all waiters acquire", join_all(waits)).await;
    assert!(all.iter().all(|entered| entered.as_ref().unwrap().is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hanging_node_causes_the_loss_of_only_its_own_holds() {
    const HOLDS: usize = 1_200;
    let patient = Cluster::options().replicas(0).node_timeout(secs(60));
    let cluster = patient.start();
    let client = hasty(&cluster, secs(6)).await;
    let lock = |number: usize| client.lock(format!("orders:{number}")).unwrap();
    let holds = join_all((0..HOLDS).map(|number| {
        let lock = lock(number);
        async move { lock.acquire().await.unwrap() }
    }))
    .await;
    let hung = owner(&cluster, NAME);
    let is_its = |number: &usize| owner_in(&cluster, &format!("orders:{number}")) == hung.port();
    let (its, others): (Vec<usize>, Vec<usize>) = (0..HOLDS).partition(is_its);
    assert!(its.len() > 300 && others.len() > 600);
    hung.pause();
    let ends = join_all(its.iter().map(|at| holds[*at].lost()));
    let ends =
        within(PATIENCE, "the client reports the loss of all holds at the hanging node", ends)
            .await;
    assert!(ends.iter().all(|reason| *reason == LostReason::Expired), "{ends:?}");
    assert!(its.iter().all(|at| !holds[*at].is_held()));
    assert!(others.iter().all(|at| holds[*at].is_held()), "the holds at other nodes continue");
    assert!(client.stats().renewals > 600);
    hung.resume();
    let free = client.lock("another").unwrap();
    release_guard(free.acquire().await.unwrap()).await;
}

/// Former bug: one request renewed all holds of a node, and its reply waited for every slot. If the
/// new node of a migrating slot hung, no hold of the old node was renewed.
#[tokio::test(flavor = "multi_thread")]
async fn only_holds_of_a_slot_migrating_to_a_hanging_node_are_lost() {
    // given holds at one node, and a hold whose slot migrates to another node
    let cluster = Cluster::options().replicas(0).node_timeout(secs(60)).start();
    let client = Client::builder().ttl(secs(3)).connect(&cluster.url()).await.unwrap();
    let from = owner(&cluster, NAME);
    let to = cluster.masters().into_iter().find(|it| it.port() != from.port()).unwrap();
    let mut others = Vec::new();
    for number in 0..20 {
        let name = cluster.key_on(&from, &format!("other-{number}"));
        assert_ne!(Cluster::slot_of(&name), Cluster::slot_of(NAME));
        others.push(client.lock(&name).unwrap().acquire().await.unwrap());
    }
    let migrated = client.lock(NAME).unwrap().acquire().await.unwrap();
    let moving = cluster.moving(Cluster::slot_of(NAME), &to);
    moving.open();
    moving.carry_all();

    // when the other node hangs
    to.pause();
    let reason = within(
        PATIENCE,
        "the client reports the loss of the hold in the migrating slot",
        migrated.lost(),
    )
    .await;

    // then only the hold in the migrating slot is lost
    assert_eq!(reason, LostReason::Expired);
    sleep(secs(1)).await;
    assert!(others.iter().all(LockGuard::is_held));
    to.resume();
}

/// Returns the port of the owner of `name`. No slot must have moved since the cluster started.
fn owner_in(cluster: &Cluster, name: &str) -> u16 {
    let slot = Cluster::slot_of(name);
    let at = usize::from(slot) * 3 / 16_384;
    cluster.nodes()[at].port()
}

#[test]
fn cluster_client_continues_on_its_next_runtime() {
    let cluster = Cluster::start();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let client = first.block_on(client(&cluster));
    let name = cluster.key_on(&owner(&cluster, NAME), "other");
    first.block_on(async {
        release_guard(client.lock(&name).unwrap().acquire().await.unwrap()).await;
    });
    drop(first);
    // Without a runtime, the client does not refresh its topology, and misses this failover.
    let replica = cluster.replicas_of(&owner(&cluster, NAME)).remove(0);
    cluster.fail_over(&replica, Failover::Agreed);
    let next = runtime();
    next.block_on(async {
        let lock = client.lock(&name).unwrap();
        release_guard(
            within(PATIENCE, "the client acquires on its next runtime", lock.acquire())
                .await
                .unwrap(),
        )
        .await;
    });
}

/// Former bug: waiters at other nodes received an error that one node had returned earlier.
#[test]
fn denied_subscription_is_retried_on_the_next_runtime() {
    let cluster = three_masters();
    with_user(&cluster);
    let node = &cluster.nodes()[0];
    let name = cluster.key_on(node, NAME);
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let client = first.block_on(as_user(&cluster, "door"));
    without_user(node);
    until_left_alone(node);
    let refused = first.block_on(async { client.lock(&name).unwrap().acquire().await });
    not_let_in(&refused.unwrap_err(), node);
    drop(first);
    with_user(&cluster);
    runtime().block_on(async {
        release_guard(client.lock(&name).unwrap().acquire().await.unwrap()).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_client_leaves_no_connection_or_task() {
    let cluster = three_masters();
    let client = client(&cluster).await;
    let mut waits = Vec::new();
    let mut held = Vec::new();
    for master in cluster.masters() {
        let name = cluster.key_on(&master, NAME);
        held.push(client.lock(&name).unwrap().acquire().await.unwrap());
        let lock = client.lock(&name).unwrap();
        waits.push(tokio::spawn(async move { lock.acquire_within(secs(1)).await }));
        until_received(&master, &name);
        assert_eq!(connections(&master), 2);
    }
    join_all(waits).await;
    for held in held {
        release_guard(held).await;
    }
    client.shutdown(secs(5)).await;
    drop(client);
    for node in cluster.nodes() {
        until_left_alone(&node);
        for channels in ["CHANNELS", "SHARDCHANNELS"].map(|them| node.command(&["PUBSUB", them])) {
            // Before Redis 7, there are no sharded channels.
            assert!(channels.is_error() || channels.list().is_empty(), "{channels:?}");
        }
    }
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually("no task is left", SOON, || tasks.num_alive_tasks() == 0);
}
