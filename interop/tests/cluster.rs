//! Both clients on a Redis Cluster. Messages are published at the node that has the slot of the
//! name, and each client computes this slot itself.

mod everywhere;
mod kinds;
mod rows;
mod turmoil;
mod waited;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use interop::{AT_ONCE, Kind, Pair, Servers, Together, Way, measured, wake_up, woken};
use testkit::{Cluster, Failover, Redis};

const SECOND: Duration = Duration::from_secs(1);
const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

fn three_masters() -> Cluster {
    Cluster::options().replicas(0).start()
}

/// A node that does not have the slot of `name`.
fn other_than(cluster: &Cluster, name: &str) -> Arc<Redis> {
    let port = cluster.at(name).port();
    cluster.masters().into_iter().find(|node| node.port() != port).unwrap()
}

// The tests that also run on a single server, now with a cluster.

#[test]
fn java_and_rust_exclude_each_other_in_a_cluster() {
    let both = Together::on(three_masters());
    everywhere::one_holds_and_the_other_waits(&both);
}

#[test]
fn java_and_rust_leases_are_renewed_and_expire_in_a_cluster() {
    let both = Together::on_with(three_masters(), rows::hasty);
    everywhere::leases_are_kept_and_end(&both);
}

#[test]
fn lock_of_a_killed_peer_is_free_at_lease_end_in_a_cluster() {
    everywhere::either_side_may_be_killed(&three_masters());
}

#[test]
fn every_lock_kind_wakes_the_other_language_in_a_cluster() {
    let both = Together::on(three_masters());
    everywhere::every_kind_wakes_the_other(&both);
}

// Tests on every node, and with migrating slots.

#[test]
fn release_wakes_waiters_on_every_cluster_node() {
    let both = Together::on(three_masters());
    for way in WAYS {
        for kind in [Kind::Lock, Kind::Fenced, Kind::Write] {
            let Pair { holder, waiter, .. } = both.pair(way, kind);
            let mut slowest = Duration::ZERO;
            for node in both.redis.masters() {
                let name = both.redis.key_on(&node, &format!("{kind:?}"));
                assert!(holder.lock(&name).acquired());
                assert!(!waiter.try_lock(&name).acquired());
                let waiting = waiter.start_lock(&name);
                both.redis.until_asleep(kind, &name, 1);
                let left = holder.unlock(&name);
                slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
                assert!(slowest < AT_ONCE, "{kind}, {way}: woken after {slowest:?}");
                assert!(waiter.unlock(&name).is_true());
            }
            let what = format!("cluster, {kind}: a waiter is woken by the holder's message");
            woken(&what, way, slowest);
        }
    }
}

#[test]
fn permits_and_latches_wake_the_other_language_on_each_node() {
    let both = Together::on(three_masters());
    for way in WAYS {
        let mut slowest = Duration::ZERO;
        for node in both.redis.masters() {
            let Pair { holder, waiter, .. } = both.pair(way, Kind::Semaphore);
            let name = both.redis.key_on(&node, "pool");
            holder.set_permits(&name, 3);
            assert!(holder.acquire(&name, 3).acquired());
            let waiting = waiter.start_acquire(&name, 2);
            both.redis.until_asleep(Kind::Semaphore, &name, 1);
            let left = holder.release(&name, 3);
            slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
            assert!(waiter.delete(&name).is_true());

            let Pair { holder: opens, waiter: waits, .. } = both.pair(way, Kind::Latch);
            let name = both.redis.key_on(&node, "start");
            assert!(opens.set_count(&name, 1).is_true());
            let waiting = waits.start_await(&name);
            both.redis.until_asleep(Kind::Latch, &name, 1);
            assert!(!waiting.is_done());
            opens.count_down(&name);
            waiting.wait(SECOND * 5);
        }
        assert!(slowest < AT_ONCE, "{way}: woken after {slowest:?}");
        woken("cluster: permits and latches wake the other", way, slowest);
    }
}

/// Redisson reads the topology every five seconds. Until then, it sends requests for a moved slot
/// to the wrong node, and its call throws `RedisNodeNotFoundException` after some retries.
const LOOKED_AGAIN: Duration = Duration::from_secs(6);

#[test]
fn java_and_rust_notify_each_other_after_a_slot_move() {
    let both = Together::on(three_masters());
    for way in WAYS {
        let Pair { holder, waiter, .. } = both.pair(way, Kind::Lock);
        assert!(holder.lock("door").acquired());
        let to = other_than(&both.redis, "door");
        both.redis.move_slot(Cluster::slot_of("door"), &to);
        sleep(LOOKED_AGAIN);
        let waiting = waiter.start_lock("door");
        both.redis.until_asleep(Kind::Lock, "door", 1);
        let left = holder.unlock("door");
        let delay = wake_up(&left, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken("cluster: a waiter is woken where its slot has moved", way, delay);
    }
}

/// Redisson subscribes at the node that has the slot at that time. It stays subscribed at this node
/// as long as a thread of the Java process waits for the lock.
#[test]
fn slot_move_wakes_leasehold_waiters_but_no_redisson_waiters() {
    // given a holder and a waiter in both directions, a lease of 20 s, and a Java thread that waits
    // for a permit
    let both = Together::on_with(three_masters(), |setup| setup.watchdog(SECOND * 20));
    let [ours, theirs] = WAYS.map(|way| both.pair_of(&format!("{way:?}"), way, Kind::Lock));
    let pool = both.pair_of("pool", Way::RustToJava, Kind::Semaphore);
    assert!(pool.holder.set_permits("pool", 1).is_true());
    assert!(pool.holder.acquire("pool", 1).acquired());
    assert!(ours.holder.lock("door").acquired() && theirs.holder.lock("gate").acquired());
    let java = ours.waiter.start_lock("door");
    let rust = theirs.waiter.start_lock("gate");
    let permit = pool.waiter.start_acquire("pool", 1);
    let names = [(Kind::Lock, "door"), (Kind::Lock, "gate"), (Kind::Semaphore, "pool")];
    for (kind, name) in names {
        both.redis.until_asleep(kind, name, 1);
    }

    // when the slots of both locks and of the semaphore move, and Redisson has updated its topology
    for (_, name) in names {
        both.redis.move_slot(Cluster::slot_of(name), &other_than(&both.redis, name));
    }
    both.redis.until_asleep(Kind::Lock, "gate", 1);
    sleep(LOOKED_AGAIN);

    // then Java's release notifies the Leasehold waiter
    let delay = wake_up(&theirs.holder.unlock("gate"), &rust.wait(SECOND * 10));
    assert!(delay < AT_ONCE, "woken after {delay:?}");
    let row = both.redis.row(Kind::Lock, "a waiter whose slot moves");
    woken(&row, Way::JavaToRust, delay);

    // and nothing notifies the Java waiter, which acquires when the lease that it has read has
    // ended
    both.redis.until_asleep(Kind::Lock, "door", 0);
    let left = ours.holder.unlock("door");
    let delay = wake_up(&left, &java.wait(SECOND * 30));
    assert!((SECOND * 3..SECOND * 20).contains(&delay), "woken after {delay:?}");
    measured(&row, Way::RustToJava, "sleeps until the lease is over");

    // A permit has no lease, so the Java thread that waits for a permit continues to wait.
    assert!(pool.holder.release("pool", 1).is_true());
    sleep(SECOND * 5);
    assert!(!permit.is_done());
    assert_eq!(pool.holder.free_permits("pool"), 1);
    let row = both.redis.row(Kind::Semaphore, "a waiter whose slot moves");
    measured(&row, Way::RustToJava, "sleeps for ever");
}

// Failovers.

#[test]
fn release_wakes_java_and_rust_after_a_manual_failover() {
    let what = "a release after an agreed failover wakes";
    waited::all_go_on_at_the_new_master(Cluster::start(), what, |cluster| {
        for master in cluster.masters() {
            cluster.fail_over(&cluster.replicas_of(&master)[0], Failover::Agreed);
            cluster.wait_until_ok();
        }
    });
}

#[test]
fn release_wakes_java_and_rust_after_a_primary_crash() {
    let what = "a release after kill -9 of a master wakes";
    waited::all_go_on_at_the_new_master(Cluster::options().impatient().start(), what, |cluster| {
        let master = cluster.at("lock of RustToJava");
        master.stop();
        cluster.wait_until_ok();
    });
}

// Contention.

/// This test has only plain locks. In a test with fenced locks, four waiting Redisson threads never
/// continued.
#[test]
fn java_and_rust_lose_no_increment_while_a_slot_moves() {
    let what = "crowd while its slot moves four times";
    turmoil::counts_right(
        three_masters(),
        |rust| rust,
        (Kind::Lock, what),
        |cluster, goes_on| {
            for _ in 0..4 {
                cluster.move_slot(Cluster::slot_of("door"), &other_than(cluster, "door"));
                goes_on();
            }
        },
    );
}

/// In an agreed failover, the old master rejects writes until its replica has all data.
fn contend_through_failovers(kind: Kind) {
    let what = "crowd through two agreed failovers";
    turmoil::counts_right(
        Cluster::start(),
        |rust| rust,
        (kind, what),
        |cluster, goes_on| {
            for _ in 0..2 {
                let replica = cluster.replicas_of(&cluster.at("door")).remove(0);
                cluster.fail_over(&replica, Failover::Agreed);
                cluster.wait_until_ok();
                goes_on();
            }
        },
    );
}

#[test]
fn java_and_rust_lose_no_increment_in_manual_failovers() {
    contend_through_failovers(Kind::Lock);
}

#[test]
fn java_and_rust_tokens_grow_through_manual_failovers() {
    contend_through_failovers(Kind::Fenced);
}
