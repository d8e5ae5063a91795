//! Tests of the test kit: a cluster really moves its slots and replaces its masters.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::{Cluster, Connection, Failover, Links, Redis, Reply, eventually};

#[test]
fn node_serves_its_slots_and_redirects_requests_for_others() {
    let cluster = Cluster::start();
    let masters = cluster.masters();
    assert_eq!((masters.len(), cluster.nodes().len()), (3, 6));
    for master in &masters {
        let key = cluster.key_on(master, "key");
        let slot = Cluster::slot_of(&key);
        assert_eq!(master.command(&["CLUSTER", "KEYSLOT", &key]).number(), i64::from(slot));
        assert_eq!(master.command(&["SET", &key, "1"]).text(), "OK");
        assert_eq!(cluster.owner_of(slot).port(), master.port());
        assert_eq!(cluster.replicas_of(master).len(), 1);

        let other = masters.iter().find(|other| other.port() != master.port()).unwrap();
        let moved = format!("MOVED {slot} 127.0.0.1:{}", master.port());
        assert_eq!(other.command(&["GET", &key]).error(), moved);
    }
}

#[test]
fn replica_replaces_its_primary_by_every_kind_of_failover() {
    let cluster = Cluster::start();
    let slot = Cluster::slot_of("key");
    let mut old = cluster.owner_of(slot);
    for how in [Failover::Agreed, Failover::Force, Failover::Takeover] {
        let new = cluster.replicas_of(&old).remove(0);
        cluster.fail_over(&new, how);
        assert_eq!(cluster.owner_of(slot).port(), new.port(), "{how:?}");
        assert_eq!(new.command(&["SET", "key", "1"]).text(), "OK");
        cluster.wait_until_ok();
        assert_eq!(cluster.replicas_of(&new)[0].port(), old.port());
        old = new;
    }
}

#[test]
fn stopped_primary_returns_as_a_replica_after_the_failover() {
    let cluster = Cluster::options().impatient().start();
    let slot = Cluster::slot_of("key");
    let old = cluster.owner_of(slot);
    let replica = cluster.replicas_of(&old).remove(0);

    old.stop();
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), replica.port());
    assert_eq!(replica.command(&["SET", "key", "1"]).text(), "OK");

    old.start_again();
    cluster.wait_until_ok();
    assert_eq!(cluster.replicas_of(&replica)[0].port(), old.port());
}

#[test]
fn paused_primary_is_replaced() {
    let cluster = Cluster::options().impatient().start();
    let slot = Cluster::slot_of("key");
    let old = cluster.owner_of(slot);
    let replica = cluster.replicas_of(&old).remove(0);

    old.pause();
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), replica.port());

    old.resume();
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), replica.port());
}

#[test]
fn slot_moves_with_its_keys_and_their_ttls() {
    let (cluster, from, to) = pair(Redis::options());
    for number in 0..250 {
        from.command(&["SET", &format!("{{key}}{number}"), "value", "PX", "600000"]);
    }

    cluster.move_slot(Cluster::slot_of("key"), &to);

    assert_eq!(from.command(&["DBSIZE"]).number(), 0);
    assert_eq!(to.command(&["DBSIZE"]).number(), 250);
    assert_eq!(to.command(&["GET", "{key}7"]).text(), "value");
    assert!(to.command(&["PTTL", "{key}7"]).number() > 300_000);
    cluster.wait_until_ok();
}

#[test]
fn migrating_slot_is_served_by_both_nodes() {
    // given a slot of which one key has moved
    let (cluster, from, to) = pair(Redis::options());
    from.command(&["MSET", "{key}1", "a", "{key}2", "b"]);
    let moving = cluster.moving(Cluster::slot_of("key"), &to);
    moving.open();
    assert_eq!(moving.carry(1), 1);

    // then each node replies to requests for the keys that it has
    let at = |key: &str| from.command(&["GET", key]);
    let (here, gone) =
        if at("{key}1").is_error() { ("{key}2", "{key}1") } else { ("{key}1", "{key}2") };
    assert!(!at(here).is_error());
    let ask = format!("ASK {} 127.0.0.1:{}", Cluster::slot_of("key"), to.port());
    assert_eq!(at(gone).error(), ask);
    let both = from.command(&["MGET", here, gone]);
    // Before Redis 7, the old node redirects a request for both keys to the new node. The new node
    // does not have both keys either.
    assert!(["TRYAGAIN", "ASK"].iter().any(|it| both.error().starts_with(it)), "{both:?}");
    assert!(to.command(&["GET", gone]).error().starts_with("MOVED"));
    let mut asking = Connection::open(to.port());
    assert_eq!(asking.command(&["ASKING"]).text(), "OK");
    assert!(!asking.command(&["GET", gone]).is_error());

    // After the migration, the new node has all keys.
    moving.carry_all();
    moving.close();
    assert_eq!(to.command(&["MGET", here, gone]).list().len(), 2);
    assert!(at(here).error().starts_with("MOVED"));
}

#[test]
fn cancelled_migration_keeps_the_slot_at_its_node() {
    let (cluster, from, to) = pair(Redis::options());
    let slot = Cluster::slot_of("key");
    from.command(&["SET", "key", "1"]);
    let moving = cluster.moving(slot, &to);
    moving.open();
    moving.call_off();
    assert_eq!(cluster.owner_of(slot).port(), from.port());
    assert_eq!(from.command(&["MGET", "key", "{key}2"]).list().len(), 2);
    cluster.wait_until_ok();
}

#[test]
fn slot_move_under_load_loses_no_increment() {
    // given a client that increments a counter, and follows redirections
    let (cluster, from, to) = pair(Redis::options());
    let done = Arc::new(AtomicBool::new(false));
    let counting = thread::spawn({
        let (done, ports) = (Arc::clone(&done), [from.port(), to.port()]);
        move || {
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                count += count_once(ports);
            }
            count
        }
    });
    eventually("the client has started to count", LONG, || !from.command(&["GET", "key"]).is_nil());

    // when the slot moves to the other node and back
    let slot = Cluster::slot_of("key");
    for _ in 0..3 {
        cluster.move_slot(slot, &to);
        cluster.move_slot(slot, &from);
    }
    done.store(true, Ordering::SeqCst);

    // then every increment counts exactly once
    let counted: usize = counting.join().unwrap();
    assert_eq!(from.command(&["GET", "key"]).text(), counted.to_string());
}

#[test]
fn slot_move_ends_when_the_old_node_knows_the_new_node() {
    // given an old owner that receives nothing from the new owner for a while
    let cluster = Cluster::options().replicas(0).links().start();
    let slot = Cluster::slot_of("key");
    let from = cluster.owner_of(slot);
    let to = cluster.masters().into_iter().find(|it| it.port() != from.port()).unwrap();
    cluster.links().black_hole(&cluster.name_of(&from), &cluster.name_of(&to));

    // when the slot moves, then `move_slot` waits until the old owner knows the new owner
    thread::scope(|scope| {
        let moves = scope.spawn(|| cluster.move_slot(slot, &to));
        thread::sleep(Duration::from_millis(300));
        assert!(!moves.is_finished());
        cluster.links().heal_all();
    });

    // and when the slot has moved back, no late message moves it again
    cluster.move_slot(slot, &from);
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), from.port());
}

#[test]
fn cluster_node_joins_and_leaves() {
    // given one more node and its replica
    let cluster = Cluster::options().replicas(0).start();
    let added = cluster.add_node();
    assert_eq!(cluster.name_of(&added), "node-3");
    assert_eq!(cluster.masters().len(), 3);
    let slot = Cluster::slot_of("key");
    let owner = cluster.owner_of(slot);
    cluster.move_slot(slot, &added);
    let replica = cluster.add_replica_of(&added);
    assert_eq!(cluster.replicas_of(&added)[0].port(), replica.port());

    // when these two nodes leave the cluster
    cluster.move_slot(slot, &owner);
    cluster.forget(&replica);
    cluster.forget(&added);

    // then the cluster does not know the two nodes, and they do not know the cluster
    cluster.wait_until_ok();
    assert_eq!(cluster.nodes().len(), 3);
    let known = owner.command(&["CLUSTER", "INFO"]);
    assert!(known.text().contains("cluster_known_nodes:3"), "{known:?}");
    assert!(added.command(&["CLUSTER", "INFO"]).text().contains("cluster_known_nodes:1"));
}

#[test]
fn cluster_without_full_coverage_serves_slots_of_living_nodes() {
    let options = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(options).impatient().start();
    let [lost, left] = [&cluster.nodes()[0], &cluster.nodes()[1]].map(Arc::clone);
    let key = cluster.key_on(&left, "key");
    lost.stop();
    eventually("the other node knows of the loss", LONG, || {
        let known = left.command(&["CLUSTER", "INFO"]);
        known.text().contains("cluster_slots_fail:5461")
    });
    assert_eq!(left.command(&["SET", &key, "1"]).text(), "OK");
}

#[test]
fn nodes_with_a_password_and_tls_trust_each_other() {
    let options = Redis::options().password("secret").tls_with_client_auth().persistent();
    let (cluster, from, to) = pair(options);
    from.command(&["SET", "key", "1"]);
    cluster.user("client", &["~*", "+get"]);

    // The slot moves over TLS, and clients are redirected to the TLS port.
    cluster.move_slot(Cluster::slot_of("key"), &to);
    let mut client = Connection::open(from.port());
    client.command(&["AUTH", "client", "secret"]);
    let moved = client.command(&["GET", "key"]);
    assert!(moved.error().starts_with("MOVED"), "{moved:?}");
    let url = cluster.url();
    assert!(url.starts_with("rediss-cluster://") && url.contains(&to.tls_port().to_string()));

    // The key still exists after a restart.
    to.restart();
    cluster.wait_until_ok();
    assert_eq!(to.command(&["GET", "key"]).text(), "1");
    assert_eq!(from.ca_pem(), to.ca_pem());
}

#[test]
fn replicas_of_a_cluster_log_in_as_a_user() {
    let options = Redis::options()
        .password("locked")
        .user("node", &["+psync", "+replconf", "+ping", "~*", "+restore-asking", "+select"])
        .replicates_as("node");
    let cluster = Cluster::options().node_options(options).start();
    let slot = Cluster::slot_of("key");
    let from = cluster.owner_of(slot);
    from.command(&["SET", "key", "1"]);
    let to = cluster.masters().into_iter().find(|it| it.port() != from.port()).unwrap();
    cluster.move_slot(slot, &to);
    assert_eq!(to.command(&["GET", "key"]).text(), "1");
}

#[test]
fn every_node_announces_the_same_links() {
    let cluster = Cluster::options().replicas(0).links().start();
    let mut announced: Vec<_> =
        cluster.nodes().iter().map(|node| i64::from(cluster.announced_port(node))).collect();
    announced.sort_unstable();
    for node in cluster.nodes() {
        let slots = node.command(&["CLUSTER", "SLOTS"]);
        let port = |range: &Reply| range.list()[2].list()[1].number();
        let mut ports: Vec<_> = slots.list().iter().map(port).collect();
        ports.sort_unstable();
        assert_eq!(ports, announced);
    }
}

#[test]
fn cluster_redirects_clients_to_links_that_can_be_cut() {
    // given a cluster whose nodes announce the ports of their links
    let cluster = Cluster::options().links().start();
    let slot = Cluster::slot_of("key");
    let (owner, other) = (cluster.owner_of(slot), cluster.nodes());
    let other = other.iter().find(|it| it.port() != owner.port()).unwrap();
    let announced = cluster.announced_port(&owner);
    assert_ne!(announced, owner.port());
    let moved = format!("MOVED {slot} 127.0.0.1:{announced}");
    assert_eq!(other.command(&["GET", "key"]).error(), moved);

    // when clients are cut off from one node, then the node stays healthy
    let mut client = Connection::open(announced);
    assert_eq!(client.command(&["SET", "key", "1"]).text(), "OK");
    cluster.links().cut(Links::CLIENTS, &cluster.name_of(&owner));
    assert!(client.try_command(&["GET", "key"]).is_err());
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), owner.port());

    // Clients reach the node again when its link is healed.
    cluster.links().heal(Links::CLIENTS, &cluster.name_of(&owner));
    assert_eq!(Connection::open(announced).command(&["GET", "key"]).text(), "1");

    // After a restart, the node announces the same port.
    cluster.fail_over(&cluster.replicas_of(&owner).remove(0), Failover::Agreed);
    owner.restart();
    cluster.wait_until_ok();
    cluster.fail_over(&owner, Failover::Agreed);
    assert_eq!(other.command(&["GET", "key"]).error(), moved);
}

#[test]
fn primary_that_only_clients_reach_is_replaced() {
    // given a master that is cut off from all other nodes
    let cluster = Cluster::options().links().impatient().start();
    let slot = Cluster::slot_of("key");
    let old = cluster.owner_of(slot);
    let replica = cluster.replicas_of(&old).remove(0);
    let (name, all) = (cluster.name_of(&old), cluster.links().names());
    let others: Vec<_> = all.iter().filter(|it| **it != name).map(String::as_str).collect();
    cluster.links().split(&[&name], &others);

    // then the replica of this master replaces it, and the old master stops accepting writes
    eventually("the replica accepts writes", LONG, || {
        !replica.command(&["SET", "key", "new"]).is_error()
    });
    eventually("the old primary rejects requests", LONG, || {
        let output = Connection::open(cluster.announced_port(&old)).command(&["GET", "key"]);
        output.is_error() && output.error().starts_with("CLUSTERDOWN")
    });

    assert_eq!(cluster.owner_seen_by(&old, slot).unwrap().port(), old.port());
    assert_eq!(cluster.owner_seen_by(&replica, slot).unwrap().port(), replica.port());

    // When all links are healed, all nodes agree on the new master.
    cluster.links().heal_all();
    cluster.wait_until_ok();
    assert_eq!(cluster.owner_of(slot).port(), replica.port());
}

#[test]
fn dropped_cluster_leaves_no_process() {
    let cluster = Cluster::options().links().start();
    let nodes = cluster.nodes();
    nodes[1].pause();
    let left: Vec<_> = nodes.iter().map(|it| (it.pid(), it.dir().to_owned())).collect();
    assert_eq!(left.len(), 6);

    drop(nodes);
    drop(cluster);

    for (pid, dir) in left {
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(!dir.exists());
    }
}

/// Starts primaries without replicas. Returns the owner of the slot of `key`, and another primary.
fn pair(options: testkit::Options) -> (Cluster, Arc<Redis>, Arc<Redis>) {
    let cluster = Cluster::options().replicas(0).node_options(options).start();
    let from = cluster.owner_of(Cluster::slot_of("key"));
    let to = cluster.masters().into_iter().find(|it| it.port() != from.port()).unwrap();
    (cluster, from, to)
}

/// Increments the key at the node that has it now. Returns the number of increments: 1, or 0 if no
/// node accepts the command.
fn count_once(ports: [u16; 2]) -> usize {
    for port in ports {
        let mut client = Connection::open(port);
        let output = client.command(&["INCR", "key"]);
        if !output.is_error() {
            return 1;
        }
        if output.error().starts_with("ASK") {
            let to = output.error().rsplit(':').next().unwrap().parse().unwrap();
            let mut other = Connection::open(to);
            other.command(&["ASKING"]);
            return usize::from(!other.command(&["INCR", "key"]).is_error());
        }
    }
    0
}

const LONG: Duration = Duration::from_secs(30);
