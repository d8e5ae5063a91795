//! Both on a Redis Cluster: messages travel in slots there, by the decision of each of them.

use std::thread::sleep;
use std::time::Duration;

use interop::{Java, Kind, Rust, Setup, Thread, Way, wake_up, woken};
use testkit::{Cluster, Redis, eventually};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster, and a process of each language that uses it.
struct Both {
    cluster: Cluster,
    java: Java,
    rust: Rust,
}

impl Both {
    fn start() -> Self {
        let cluster = Cluster::options().replicas(0).start();
        let at: Vec<_> =
            cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let setup = Setup::new(format!("redis-cluster://{}", at.join(",")));
        Self { cluster, java: Java::start(&setup), rust: Rust::start(&setup) }
    }

    /// Who holds and who waits.
    fn pair(&self, way: Way, kind: Kind) -> (Thread, Thread) {
        let java = self.java.thread("pair").of(kind);
        let rust = self.rust.thread("pair").of(kind);
        match way {
            Way::RustToJava => (rust, java),
            Way::JavaToRust => (java, rust),
        }
    }
}

const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

/// Waits until somebody listens to `channel` at this node, has asked once more, and sleeps.
#[track_caller]
fn until_asleep(node: &Redis, channel: &str) {
    eventually("a waiter listens", SECOND * 10, || {
        node.command(&["PUBSUB", "SHARDNUMSUB", channel]).list()[1].number() == 1
    });
    sleep(SECOND / 5);
}

#[test]
fn a_waiter_is_woken_by_the_holders_message_on_each_node_of_a_cluster() {
    let both = Both::start();
    for way in WAYS {
        for kind in [Kind::Lock, Kind::Fenced, Kind::Write] {
            let (holder, waiter) = both.pair(way, kind);
            let mut slowest = Duration::ZERO;
            for node in both.cluster.masters() {
                let name = both.cluster.key_on(&node, &format!("{kind:?}"));
                assert!(holder.lock(&name).acquired());
                assert!(!waiter.try_lock(&name).acquired());
                let waiting = waiter.start_lock(&name);
                until_asleep(&node, &kind.channel(&name));
                let left = holder.unlock(&name);
                slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
                assert!(slowest < SECOND, "{kind}, {way}: woken after {slowest:?}");
                assert!(waiter.unlock(&name).is_true());
            }
            let what = format!("cluster, {kind}: a waiter is woken by the holder's message");
            woken(&what, way, slowest);
        }
    }
}

#[test]
fn permits_and_latches_wake_the_other_on_each_node_of_a_cluster() {
    let both = Both::start();
    for way in WAYS {
        let mut slowest = Duration::ZERO;
        for node in both.cluster.masters() {
            let (holder, waiter) = both.pair(way, Kind::Semaphore);
            let name = both.cluster.key_on(&node, "pool");
            holder.set_permits(&name, 3);
            assert!(holder.acquire(&name, 3).acquired());
            let waiting = waiter.start_acquire(&name, 2);
            until_asleep(&node, &Kind::Semaphore.channel(&name));
            let left = holder.release(&name, 3);
            slowest = slowest.max(wake_up(&left, &waiting.wait(SECOND * 10)));
            assert!(waiter.delete(&name).is_true());

            let (opens, waits) = both.pair(way, Kind::Latch);
            let name = both.cluster.key_on(&node, "start");
            assert!(opens.set_count(&name, 1).is_true());
            let waiting = waits.start_await(&name);
            until_asleep(&node, &Kind::Latch.channel(&name));
            assert!(!waiting.is_done());
            opens.count_down(&name);
            waiting.wait(SECOND * 5);
        }
        assert!(slowest < SECOND, "{way}: woken after {slowest:?}");
        woken("cluster: permits and latches wake the other", way, slowest);
    }
}

/// Redisson looks for slots that have moved every five seconds.
#[test]
fn a_slot_that_has_moved_is_where_both_hear_each_other() {
    let both = Both::start();
    for way in WAYS {
        let (holder, waiter) = both.pair(way, Kind::Lock);
        let slot = Cluster::slot_of("door");
        let from = both.cluster.owner_of(slot);
        let others = both.cluster.masters();
        let to = others.iter().find(|node| node.port() != from.port()).unwrap();
        assert!(holder.lock("door").acquired());
        both.cluster.move_slot(slot, to);
        let waiting = waiter.start_lock("door");
        eventually("a waiter listens", SECOND * 30, || {
            let count = ["PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{door}"];
            to.command(&count).list()[1].number() == 1
        });
        sleep(SECOND / 5);
        let left = holder.unlock("door");
        let entered = waiting.wait(SECOND * 10);
        let whole = wake_up(&left, &entered);
        // Redisson may ask the wrong node until it has looked again: then the call takes long.
        let delay = entered.acquired_at().duration_since(left.at()).unwrap_or_default();
        assert!(delay < SECOND, "{way}: woken after {delay:?}, {whole:?} after the call began");
        assert!(waiter.unlock("door").is_true());
        woken("cluster: a waiter is woken where its slot has moved", way, delay);
    }
}
