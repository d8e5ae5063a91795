//! `RLock`, `getSpinLock` and `RFencedLock` with Leasehold's `Lock`: one language holds, waits,
//! releases or dies, and the other language observes this. `fenced.rs` has the rest of fenced
//! locks. `rows/mod.rs` has the tests that also run with sentinels and in a cluster.

mod rows;

use std::thread::sleep;
use std::time::Duration;

use interop::{AT_ONCE, Kind, Pair, Together, Way, shown, since, wake_up, woken};
use testkit::{Redis, eventually};

// Waiting and acquiring.

#[test]
fn release_message_wakes_a_waiter_of_the_other_language() {
    rows::release_message_wakes_a_waiter_of_the_other_language(&Together::start());
}

#[test]
fn released_lock_is_free_for_the_other_language_at_once() {
    rows::released_lock_is_free_for_the_other_language_at_once(&Together::start());
}

#[test]
fn try_acquire_returns_at_once_if_the_other_language_holds_it() {
    rows::try_acquire_returns_at_once_if_the_other_language_holds_it(&Together::start());
}

#[test]
fn acquire_within_ends_by_timeout_or_notification() {
    rows::acquire_within_ends_by_timeout_or_notification(&Together::start());
}

#[test]
fn acquire_within_accepts_a_fixed_lease() {
    rows::acquire_within_accepts_a_fixed_lease(&Together::start());
}

// Leases.

#[test]
fn waiter_acquires_when_a_lease_ends() {
    rows::waiter_acquires_when_a_lease_ends(&Together::start());
}

#[test]
fn held_lock_is_renewed_beyond_its_ttl_in_both_languages() {
    rows::held_lock_is_renewed_beyond_its_ttl_in_both_languages(&Together::with(rows::hasty));
}

#[test]
fn lock_with_a_fixed_lease_is_not_renewed() {
    rows::lock_with_a_fixed_lease_is_not_renewed(&Together::with(rows::hasty));
}

// Reentry.

#[test]
fn lock_held_three_times_is_free_after_three_releases() {
    rows::lock_held_three_times_is_free_after_three_releases(&Together::start());
}

#[test]
fn rust_reads_the_owner_and_the_hold_count_of_a_java_holder() {
    let both = Together::start();
    let (runtime, client) = client(&both);
    let java = both.java.thread("T1");
    assert!(java.lock("door").acquired());
    assert!(java.lock("door").acquired());

    let holder = runtime.block_on(client.lock("door").unwrap().holder()).unwrap().unwrap();

    let owner = format!("{}:{}", both.java.id(), java.id());
    assert_eq!((holder.owner().as_str(), holder.count()), (owner.as_str(), 2));
    let owner = leasehold::Owner::new(owner).unwrap();
    let count = runtime.block_on(client.lock("door").unwrap().held_by(&owner)).unwrap();
    assert_eq!(count, 2);
}

// Spin locks.

#[test]
fn rust_waiter_polls_a_java_spin_lock() {
    rows::rust_waiter_polls_a_java_spin_lock(&Together::start());
}

#[test]
fn spin_lock_waiter_acquires_when_a_plain_lock_is_released() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in both.both_ways() {
        assert!(holder.lock("door").acquired());
        assert!(!waiter.spin().try_lock("door").acquired());
        let waiting = waiter.spin().start_lock("door");
        sleep(SECOND / 2);
        assert!(!waiting.is_done(), "{way}");

        let left = holder.unlock("door");

        let delay = wake_up(&left, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: the waiter acquired after {delay:?}");
        assert!(waiter.spin().unlock("door").is_true());
        woken("lock: spin lock after lock", way, delay);
    }
}

/// The release of a Redisson spin lock publishes no message, but the release of a Leasehold spin
/// lock does. So in Redisson, a name must not be used for a spin lock and for a plain lock.
#[test]
fn rust_spin_lock_release_notifies_and_java_release_does_not() {
    let both = Together::start();
    for Pair { way, holder, waiter, .. } in both.both_ways() {
        // given a spin lock with a lease of twelve seconds, and a subscribed waiter
        assert!(holder.spin().lock_for("door", SECOND * 12).acquired());
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);

        // when the spin lock is released long before its lease ends
        let left = holder.spin().unlock("door");

        // then Leasehold's release notifies the Redisson waiter, and a Leasehold waiter repeats its
        // request long before the lease would have ended
        let delay = wake_up(&left, &waiting.wait(SECOND * 10));
        let bound = match way {
            Way::RustToJava => AT_ONCE,
            Way::JavaToRust => SECOND * 6,
        };
        assert!(delay < bound, "{way}: {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken("lock: lock after spin lock, whose release Java does not publish", way, delay);
    }
}

/// Redisson's spin lock publishes no message. A Redisson waiter for the plain lock of the same name
/// therefore sleeps until the lease would have ended.
#[test]
fn java_spin_lock_release_wakes_no_waiter() {
    let both = Together::start();
    let (holder, waiter) = (both.java.thread("T1"), both.java.thread("T2"));
    let held = holder.spin().lock_for("door", SECOND * 4);
    let waiting = waiter.start_lock("door");
    both.until_asleep("door", 1);

    assert!(holder.spin().unlock("door").is_true());

    let entered = waiting.wait(SECOND * 10);
    let whole = since(held.began_at(), entered.acquired_at());
    assert!((SECOND * 4 - SECOND / 10..SECOND * 8).contains(&whole), "{whole:?}");
    assert!(waiter.unlock("door").is_true());
}

// Forced releases.

#[test]
fn forced_release_wakes_the_waiter_of_the_other_language() {
    rows::forced_release_wakes_the_waiter_of_the_other_language(&Together::start());
}

#[test]
fn rust_holder_notices_java_force_unlock_at_its_next_renewal() {
    // given a Leasehold lock that its client renews every two seconds
    let both = Together::with(|setup| setup.watchdog(SECOND * 6));
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));
    assert!(rust.lock("door").acquired());
    let lost = rust.start_lost("door");

    // when Java releases the lock by force and acquires it
    let forced = java.force_unlock("door");
    assert!(forced.is_true());
    assert!(java.lock("door").acquired());

    // then Leasehold reports the loss to the Rust holder, whose release does not end the new hold
    let reported = lost.wait(SECOND * 10);
    assert_eq!(reported.value(), "NotOwned");
    let delay = since(forced.began_at(), reported.at());
    assert!(delay < SECOND * 4, "notified after {delay:?}");
    let refused = rust.unlock("door");
    let java_is = format!("`{}:{}`", both.java.id(), java.id());
    assert!(refused.failed_with("NotHeld"), "{refused:?}");
    assert!(refused.failure().unwrap().message.contains(&java_is), "{refused:?}");
    assert!(java.is_held("door").is_true());
    woken("lock: a Rust holder notices a Java force unlock at renewal", Way::JavaToRust, delay);
}

#[test]
fn rust_holder_with_a_waiter_notices_force_unlock_at_once() {
    // given a lock whose next renewal is due in ten seconds, and a waiter of the same process
    let both = Together::start();
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));
    assert!(rust.lock("door").acquired());
    let lost = rust.start_lost("door");
    let waiting = both.rust.thread("T2").start_lock("door");
    both.until_asleep("door", 1);

    let forced = java.force_unlock("door");

    assert!(waiting.wait(SECOND * 5).acquired());
    let reported = lost.wait(SECOND * 5);
    assert_eq!(reported.value(), "NotOwned");
    let delay = since(forced.began_at(), reported.at());
    assert!(delay < AT_ONCE, "notified after {delay:?}");
    woken(
        "lock: a Rust holder notices a Java force unlock at once if others wait",
        Way::JavaToRust,
        delay,
    );
}

#[test]
fn java_holder_notices_a_forced_release_only_at_its_next_call() {
    // given a Java lock that is renewed every second
    let both = Together::with(|setup| setup.watchdog(SECOND * 3));
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));
    assert!(java.lock("door").acquired());

    // when Leasehold releases the lock by force and acquires it with a lease
    assert!(rust.force_unlock("door").is_true());
    assert!(rust.lock_for("door", SECOND * 12).acquired());

    // then the Java holder notices the loss only at its next call, and does not renew the new hold
    assert!(!java.is_held("door").is_true());
    sleep(SECOND * 2);
    let ttl = java.remain_time_to_live("door").number();
    // If Java had renewed the hold of Rust, the lease would be at most three seconds.
    assert!((3_001..=10_000).contains(&ttl), "Java does not renew the lease: {ttl}");
    assert!(java.unlock("door").failed_with("IllegalMonitorStateException"));
    assert!(rust.is_held("door").is_true());
    assert!(rust.unlock("door").is_true());
    shown("lock: a Java holder notices a forced release at its next call", Way::RustToJava);
}

#[test]
fn only_the_owner_can_unlock() {
    let both = Together::start();
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));

    // Rust holds. Java's release is rejected, and the hold stays.
    assert!(rust.lock("door").acquired());
    assert!(java.unlock("door").failed_with("IllegalMonitorStateException"));
    assert!(rust.is_held("door").is_true());
    assert!(rust.unlock("door").is_true());
    shown("lock: unlock by another owner is rejected", Way::RustToJava);

    // Java holds after Rust. The release of the old guard is rejected, and the hold stays.
    assert!(rust.lock_for("door", SECOND / 2).acquired());
    assert!(java.lock("door").acquired());
    assert!(rust.unlock("door").failed_with("NotHeld"));
    assert!(java.is_held("door").is_true());
    assert_eq!(java.hold_count("door").number(), 1);
    assert!(java.unlock("door").is_true());
    shown("lock: unlock by another owner is rejected", Way::JavaToRust);
}

// Killed processes.

#[test]
fn lock_of_a_killed_holder_is_free_when_its_lease_ends() {
    rows::lock_of_a_killed_holder_is_free_when_its_lease_ends(&Redis::start());
}

#[test]
fn killed_waiter_blocks_no_other_waiter() {
    for way in [Way::RustToJava, Way::JavaToRust] {
        let both = rows::killed_waiter_blocks_no_other_waiter(Redis::start(), way);
        // A killed Leasehold client leaves its queue entry for 15 s after its last request.
        let queue = "leasehold_lock__queue:{door}";
        let (rest, extra) = match way {
            Way::RustToJava => (SECOND * 10, vec![]),
            Way::JavaToRust => (SECOND * 25, vec![queue]),
        };
        eventually("no other key is left", SECOND * 10, || {
            both.redis.command(&["KEYS", "*"]).texts() == extra
        });
        if !extra.is_empty() {
            let ttl = both.redis.command(&["PTTL", queue]).number();
            assert!((1..=15_000).contains(&ttl), "{ttl}");
        }
        eventually("no key is left", rest, || both.redis.command(&["KEYS", "*"]).list().is_empty());
    }
}

#[test]
fn interrupted_java_waiter_blocks_no_other_waiter() {
    let both = Together::start();
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));
    assert!(rust.lock("door").acquired());
    let waiting = java.start_lock_interruptibly("door");
    both.until_asleep("door", 1);

    assert!(java.interrupt());

    assert!(waiting.wait(SECOND * 5).failed_with("InterruptedException"));
    both.until_asleep("door", 0);
    assert!(rust.unlock("door").is_true());
    assert!(rust.try_lock("door").acquired());
    shown("lock: an interrupted waiter leaves nothing", Way::RustToJava);
}

#[test]
fn dropped_rust_waiter_blocks_no_other_waiter() {
    let both = Together::start();
    let java = both.java.thread("T1");
    assert!(java.lock("door").acquired());
    let (runtime, client) = client(&both);
    let waiting = runtime.spawn(async move { client.lock("door")?.acquire().await });
    both.until_asleep("door", 1);

    waiting.abort();

    both.until_asleep("door", 0);
    assert!(java.unlock("door").is_true());
    sleep(SECOND / 2);
    assert!(both.java.thread("T2").try_lock("door").acquired());
    shown("lock: a dropped waiter leaves nothing", Way::JavaToRust);
}

// Inspection.

#[test]
fn java_and_rust_see_the_same_lock_state() {
    // The lease of the watchdog, and a lease of twelve seconds.
    const WATCHED: i64 = 30_000;
    const LEASED: i64 = 12_000;
    let both = Together::start();
    let (rust, java) = (both.rust.thread("T1"), both.java.thread("T1"));
    let witness = || {
        let seen = [&rust, &java].map(|side| {
            let ttl = match side.remain_time_to_live("door").number() {
                15_001..=30_000 => WATCHED,
                4_001..=12_000 => LEASED,
                ttl => ttl,
            };
            (side.is_locked("door").is_true(), ttl)
        });
        let own = [&rust, &java]
            .map(|side| (side.is_held("door").is_true(), side.hold_count("door").number()));
        (seen, own)
    };
    let free = ((false, -2), (false, 0));
    assert_eq!(witness(), ([free.0; 2], [free.1; 2]));

    for (holder, own) in [(&rust, [(true, 1), (false, 0)]), (&java, [(false, 0), (true, 1)])] {
        assert!(holder.lock("door").acquired());
        assert_eq!(witness(), ([(true, WATCHED); 2], own));
        assert!(holder.lock("door").acquired());
        let twice = own.map(|(held, count)| (held, count * 2));
        assert_eq!(witness(), ([(true, WATCHED); 2], twice));
        assert!(holder.unlock("door").is_true());
        assert!(holder.unlock("door").is_true());
        assert_eq!(witness(), ([free.0; 2], [free.1; 2]));

        // a lease without renewal
        assert!(holder.lock_for("door", SECOND * 12).acquired());
        assert_eq!(witness(), ([(true, LEASED); 2], own));
        assert!(holder.unlock("door").is_true());
    }
    shown("lock: isLocked, isHeld, getHoldCount, remainTimeToLive", Way::RustToJava);
    shown("lock: isLocked, isHeld, getHoldCount, remainTimeToLive", Way::JavaToRust);
}

#[test]
fn is_held_by_thread_distinguishes_holders() {
    let both = Together::start();
    let (one, other) = (both.java.thread("T1"), both.java.thread("T2"));
    let (runtime, client) = client(&both);
    let lock = client.lock("door").unwrap();
    let held_by = |id: i64| {
        let owner = leasehold::Owner::new(format!("{}:{id}", both.java.id())).unwrap();
        runtime.block_on(lock.held_by(&owner)).unwrap() > 0
    };
    assert!(one.lock("door").acquired());

    for asked in [one.id(), other.id()] {
        assert_eq!(other.is_held_by_thread("door", asked).is_true(), asked == one.id());
        assert_eq!(held_by(asked), asked == one.id());
    }

    // A Leasehold owner is not a Java thread, even if the owner has the number of a Java thread.
    assert!(one.unlock("door").is_true());
    let guard = runtime.block_on(lock.acquire()).unwrap();
    for number in [1, one.id(), other.id()] {
        assert!(!other.is_held_by_thread("door", number).is_true());
    }
    assert_eq!(runtime.block_on(guard.release()).unwrap(), leasehold::Release::Released);
}

/// `getNonReentrantLock` has the keys of the plain lock, and `getNonReentrantFairLock` has the keys
/// of the fair lock.
#[test]
fn non_reentrant_locks_of_both_languages_exclude_each_other() {
    let both = Together::start();
    for (theirs, ours) in [(Kind::NonReentrant, Kind::Lock), (Kind::NonReentrantFair, Kind::Fair)] {
        let (java, rust) = (both.java.thread("T1").of(theirs), both.rust.thread("T1").of(ours));

        // Java holds, and Rust waits.
        assert!(java.lock("door").acquired());
        assert!(java.lock("door").failed_with("IllegalMonitorStateException"));
        assert!(!rust.try_lock("door").acquired());
        let waiting = rust.start_lock("door");
        sleep(SECOND);
        assert!(!waiting.is_done());
        assert!(java.unlock("door").is_true());
        assert!(waiting.wait(SECOND * 10).acquired());
        shown("non-reentrant locks: exclude and follow", Way::JavaToRust);

        // Rust holds, and Java waits.
        assert!(!java.try_lock("door").acquired());
        let waiting = java.start_lock("door");
        sleep(SECOND);
        assert!(!waiting.is_done());
        assert!(rust.unlock("door").is_true());
        assert!(waiting.wait(SECOND * 10).acquired());
        assert!(java.unlock("door").is_true());
        shown("non-reentrant locks: exclude and follow", Way::RustToJava);
    }
}

/// A client in the process of the test, for calls for which `rust_peer` has no command.
fn client(both: &Together) -> (tokio::runtime::Runtime, leasehold::Client) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(leasehold::Client::connect(&both.redis.url())).unwrap();
    (runtime, client)
}

const SECOND: Duration = Duration::from_secs(1);
