//! Both clients with sentinels: a lock behaves as on a single server, even when the master is
//! replaced.

mod everywhere;
mod kinds;
mod rows;
mod turmoil;
mod waited;

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use interop::{Answer, Kind, Servers, Together, Way, measured, shown, since, woken};
use testkit::{Redis, Sentinels, eventually};

const SECOND: Duration = Duration::from_secs(1);
const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

fn one_replica() -> Sentinels {
    Sentinels::options().replicas(1).start()
}

// The tests that also run on a single server, now with sentinels.

#[test]
fn java_and_rust_exclude_each_other_behind_sentinels() {
    let both = Together::on(one_replica());
    everywhere::one_holds_and_the_other_waits(&both);
}

#[test]
fn java_and_rust_leases_are_renewed_and_expire_with_sentinels() {
    let both = Together::on_with(one_replica(), rows::hasty);
    everywhere::leases_are_kept_and_end(&both);
}

#[test]
fn lock_of_a_killed_peer_is_free_at_lease_end_with_sentinels() {
    everywhere::either_side_may_be_killed(&one_replica());
}

#[test]
fn every_lock_kind_wakes_the_other_language_with_sentinels() {
    let both = Together::on(one_replica());
    everywhere::every_kind_wakes_the_other(&both);
}

// Failovers.

#[test]
fn release_wakes_java_and_rust_after_a_failover() {
    let what = "a release after a failover wakes";
    waited::all_go_on_at_the_new_master(Sentinels::start(), what, |redis| {
        redis.fail_over();
    });
}

#[test]
fn release_wakes_java_and_rust_after_the_primary_died() {
    let what = "a release after kill -9 of the master wakes";
    waited::all_go_on_at_the_new_master(Sentinels::options().impatient().start(), what, |redis| {
        redis.master().stop();
        redis.wait_for_master_other_than(0);
    });
}

#[test]
fn rust_hold_with_a_short_ttl_outlives_a_hanging_primary() {
    // given a lock with a watchdog of fifteen seconds
    let redis = Sentinels::options().replicas(1).impatient().start();
    let both = Together::on_with(redis, |setup| setup.watchdog(SECOND * 15));
    let ours = both.rust.thread("T1");
    assert!(ours.lock("ours").acquired());
    both.redis.in_step("");

    // when the master hangs half a second before a renewal is due, and is replaced
    sleep(SECOND * 9 / 2);
    both.redis.master().pause();
    let new = both.redis.wait_for_master_other_than(0);

    // then the client renews at the new master before the hold would end, and again after that
    let left = || new.command(&["PTTL", "ours"]).number();
    eventually("the hold of `ours` is renewed", SECOND * 4, || left() > 12_000);
    for _ in 0..2 {
        eventually("the lease gets shorter", SECOND * 10, || left() <= 12_000);
        eventually("the hold is renewed again", SECOND * 10, || left() > 12_000);
    }
    assert!(ours.is_held("ours").is_true());
    let row = both.redis.row(Kind::Lock, "a watchdog of 15 s and a master that hangs");
    measured(&row, Way::RustToJava, "Rust holds on");
}

/// A failover may lose a lock that no replica has, as the guarantees page says. Leasehold notices
/// the loss, and Redisson does not.
#[test]
fn loss_by_a_failover_is_reported_only_to_the_rust_holder() {
    // given locks of both clients that no replica has, and a waiter of the other language for each
    // lock
    let redis = Sentinels::options().links().impatient().start();
    let both = Together::on_with(&redis, |setup| setup.watchdog(SECOND * 9));
    let pairs = WAYS.map(|way| both.pair_of(&format!("{way:?}"), way, Kind::Lock));
    ["redis-1", "redis-2"].iter().for_each(|replica| redis.links().cut("redis-0", replica));
    let name = |way: Way| format!("{way:?}");
    let held = pairs.each_ref().map(|it| it.holder.lock(&name(it.way)));
    assert!(held.iter().all(Answer::acquired));
    let lost = pairs[0].holder.start_lost(&name(Way::RustToJava));
    let waiting = pairs.each_ref().map(|it| it.waiter.start_lock(&name(it.way)));
    for way in WAYS {
        redis.until_asleep(Kind::Lock, &name(way), 1);
    }

    // when the master dies, and a replica replaces it
    let killed = SystemTime::now();
    redis.master().stop();
    redis.wait_for_master_other_than(0);

    // then the waiters acquire
    for (it, waiting) in pairs.iter().zip(waiting) {
        let entered = waiting.wait(SECOND * 30);
        let delay = since(killed, entered.acquired_at());
        woken(&redis.row(it.kind, "a failover loses the lock: a waiter acquires"), it.way, delay);
    }

    // and both holders have lost their locks: Leasehold reports the loss, and Java notices the loss
    // at its next call
    assert_eq!(lost.wait(SECOND * 10).value(), "NotOwned");
    assert!(pairs[0].holder.unlock(&name(Way::RustToJava)).failed_with("NotHeld"));
    let java = &pairs[1].holder;
    assert!(!java.is_held(&name(Way::JavaToRust)).is_true());
    let refused = java.unlock(&name(Way::JavaToRust));
    assert!(refused.failed_with("IllegalMonitorStateException"), "{refused:?}");
    for it in &pairs {
        assert!(it.waiter.is_held(&name(it.way)).is_true());
        assert!(it.waiter.unlock(&name(it.way)).is_true());
        shown(&redis.row(it.kind, "a failover loses the lock: its holder loses it"), it.way);
    }
}

// Contention.

/// No lock may be held at two masters. A master accepts writes only while it has a replica, and
/// both languages wait until the replica has a grant.
fn contend_through_failovers(kind: Kind) {
    let demanding = Redis::options().arg("--min-replicas-to-write", "1");
    let demanding = demanding.arg("--min-replicas-max-lag", "10");
    let redis = Sentinels::options().replicas(1).server_options(demanding).start();
    let what = "crowd through two failovers";
    turmoil::counts_right(
        redis,
        |rust| rust.replicas(1),
        (kind, what),
        |redis, goes_on| {
            for _ in 0..2 {
                redis.fail_over();
                redis.wait_until_agreed();
                goes_on();
            }
        },
    );
}

#[test]
fn java_and_rust_lose_no_increment_in_failovers() {
    contend_through_failovers(Kind::Lock);
}

#[test]
fn java_and_rust_tokens_grow_through_failovers() {
    contend_through_failovers(Kind::Fenced);
}

/// If the connection of Java is closed while Redisson waits for the replica, Redisson repeats the
/// acquisition, and its script counts both. Former bug of this suite: the thread in Java acquired
/// the lock again and again, and Rust waited for ever.
#[test]
fn java_and_rust_lose_no_increment_when_connections_are_closed() {
    turmoil::counts_right(
        one_replica(),
        |rust| rust,
        (Kind::Lock, "crowd whose connections are closed three times"),
        |redis, goes_on| {
            for _ in 0..3 {
                let [primary, replica] = redis.servers() else { panic!("there is one replica") };
                replica.pause();
                sleep(SECOND / 2);
                primary.command(&["CLIENT", "KILL", "TYPE", "normal"]);
                replica.resume();
                goes_on();
            }
        },
    );
}
