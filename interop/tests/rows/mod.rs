//! The tests of the lock, for every deployment.
//!
//! Each test adds a row to the table of results. Each test uses both processes, and releases every
//! lock. A test that kills a process starts its own processes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{
    AT_ONCE, EACH_WAY, Kind, Pair, Pending, Servers, Setup, Together, Way, shown, since, wake_up,
    woken,
};

const SECOND: Duration = Duration::from_secs(1);

/// Sets a watchdog whose lease is short enough for a test to wait for its end.
pub(crate) fn hasty(setup: Setup) -> Setup {
    setup.watchdog(SECOND * 3)
}

// Waiting and acquiring.

#[track_caller]
pub(crate) fn release_message_wakes_a_waiter_of_the_other_language<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        let mut slowest = Duration::ZERO;
        for _ in 0..5 {
            // given a lock with a lease of half a minute, and a waiter
            assert!(holder.lock("door").acquired());
            let waiting = waiter.start_lock("door");
            both.until_asleep("door", 1);
            assert!(!waiting.is_done());

            // when the holder releases
            let left = holder.unlock("door");

            // then the waiter acquires at once
            let entered = waiting.wait(SECOND * 10);
            assert!(left.is_true());
            slowest = slowest.max(wake_up(&left, &entered));
            assert!(slowest < AT_ONCE, "{kind}, {way}: woken after {slowest:?}");
            assert!(waiter.unlock("door").is_true());
        }
        woken(
            &both.redis.row(kind, "a waiter is woken by the holder's message (slowest of 5)"),
            way,
            slowest,
        );
    }
}

#[track_caller]
pub(crate) fn released_lock_is_free_for_the_other_language_at_once<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        assert!(holder.lock("door").acquired());
        assert!(holder.unlock("door").is_true());

        let entered = waiter.lock("door");
        assert!(entered.waited() < AT_ONCE, "{kind}, {way}: {entered:?}");
        assert!(waiter.unlock("door").is_true());
        shown(&both.redis.row(kind, "a free lock is acquired at once"), way);
    }
}

#[track_caller]
pub(crate) fn try_acquire_returns_at_once_if_the_other_language_holds_it<S: Servers>(
    both: &Together<S>,
) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        assert!(holder.lock("door").acquired());

        let refused = waiter.try_lock("door");
        assert!(!refused.acquired(), "{kind}, {way}");
        assert!(refused.waited() < AT_ONCE, "{kind}, {way}: {refused:?}");

        assert!(holder.unlock("door").is_true());
        assert!(waiter.try_lock("door").acquired(), "{kind}, {way}");
        assert!(waiter.unlock("door").is_true());
        shown(&both.redis.row(kind, "tryLock() / try_acquire()"), way);
    }
}

#[track_caller]
pub(crate) fn acquire_within_ends_by_timeout_or_notification<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        assert!(holder.lock("door").acquired());

        // A short timeout: the waiter times out without the lock, and unsubscribes.
        let refused = waiter.try_lock_within("door", SECOND / 2);
        assert!(!refused.acquired(), "{kind}, {way}");
        let waited = refused.waited();
        // Java's timers may fire a moment too early.
        let enough = SECOND / 2 - Duration::from_millis(5);
        assert!((enough..SECOND * 5).contains(&waited), "{kind}, {way}: {waited:?}");
        both.until_asleep("door", 0);

        // A long timeout: the waiter is notified.
        let waiting = waiter.start_try_lock_within("door", SECOND * 20);
        both.until_asleep("door", 1);
        let left = holder.unlock("door");
        let delay = wake_up(&left, &waiting.wait(SECOND * 25));
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken(&both.redis.row(kind, "tryLock(wait) / acquire_within"), way, delay);
    }
}

#[track_caller]
pub(crate) fn acquire_within_accepts_a_fixed_lease<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        assert!(holder.lock("door").acquired());
        assert!(!waiter.try_lock_within_for("door", SECOND / 5, SECOND * 9).acquired());
        let waiting = waiter.start_try_lock_within_for("door", SECOND * 20, SECOND * 9);
        both.until_asleep("door", 1);

        let left = holder.unlock("door");

        let delay = wake_up(&left, &waiting.wait(SECOND * 25));
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        both.redis.in_step("door");
        let ttl = holder.remain_time_to_live("door").number();
        assert!((2_000..=9_000).contains(&ttl), "{kind}, {way}: {ttl}");
        assert!(waiter.unlock("door").is_true());
        woken(&both.redis.row(kind, "tryLock(wait, lease) / lease + acquire_within"), way, delay);
    }
}

// Leases.

#[track_caller]
pub(crate) fn waiter_acquires_when_a_lease_ends<S: Servers>(both: &Together<S>) {
    let pairs = EACH_WAY.map(|(way, kind)| (format!("{kind} {way}"), way, kind));
    let waiting = pairs.map(|(name, way, kind)| {
        // given a held lock with a lease, and a waiter that has read the remaining lease
        let Pair { holder, waiter, .. } = both.pair_of(&name, way, kind);
        let held = holder.lock_for(&name, SECOND * 4);
        both.redis.in_step(&name);
        let ttl = waiter.remain_time_to_live(&name).number();
        assert!((1..=4_000).contains(&ttl), "{name}: {ttl}");
        (waiter.start_lock(&name), held, name, Pair { way, kind, holder, waiter })
    });
    for (waiting, held, name, Pair { way, kind, holder, waiter }) in waiting {
        // when nobody releases the lock
        let entered = waiting.wait(SECOND * 20);

        // then the waiter acquires when the lease has ended, and no message wakes it
        let after = since(held.began_at(), entered.acquired_at());
        assert!((SECOND * 4..SECOND * 4 + AT_ONCE).contains(&after), "{name}: after {after:?}");
        assert!(holder.unlock(&name).failure().is_some(), "{name}");
        assert!(waiter.unlock(&name).is_true());
        woken(
            &both.redis.row(kind, "lock(4 s) ends by itself (ms after its end)"),
            way,
            after - SECOND * 4,
        );
    }
}

#[track_caller]
pub(crate) fn held_lock_is_renewed_beyond_its_ttl_in_both_languages<S: Servers>(
    both: &Together<S>,
) {
    // given locks that each side holds, with a ttl of 3 s
    let pairs = both.each_way();
    for Pair { way, kind, holder, .. } in &pairs {
        let name = format!("{kind} {way}");
        assert!(holder.lock(&name).acquired());
        both.redis.in_step(&name);
    }

    // when three ttls pass, then no client of the other language acquires
    let began = Instant::now();
    while began.elapsed() < SECOND * 9 {
        for Pair { way, kind, waiter, .. } in &pairs {
            let name = format!("{kind} {way}");
            let ttl = waiter.remain_time_to_live(&name).number();
            assert!((1..=3_000).contains(&ttl), "{kind}, {way}: {ttl} after {:?}", began.elapsed());
            assert!(
                !waiter.try_lock(&name).acquired(),
                "{kind}, {way}: after {:?}",
                began.elapsed()
            );
        }
        sleep(SECOND / 5);
    }

    // and at the end, a release notifies a waiter as usual
    for Pair { way, kind, holder, waiter } in pairs {
        let name = format!("{kind} {way}");
        let waiting = waiter.start_lock(&name);
        both.until_asleep(&name, 1);
        let delay = wake_up(&holder.unlock(&name), &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        assert!(waiter.unlock(&name).is_true());
        woken(&both.redis.row(kind, "the watchdog renews a lock for three ttls"), way, delay);
    }
}

#[track_caller]
pub(crate) fn lock_with_a_fixed_lease_is_not_renewed<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, .. } in both.each_way() {
        assert!(holder.lock_for(&format!("{kind} {way}"), SECOND * 4).acquired());
    }
    // Within this pause, both leases would have been renewed at least twice.
    sleep(SECOND * 5);
    for Pair { way, kind, waiter, .. } in both.each_way() {
        assert!(!waiter.is_locked(&format!("{kind} {way}")).is_true(), "{kind}, {way}");
        shown(&both.redis.row(kind, "a leased lock is not renewed"), way);
    }
}

// Reentry, spin locks and forced releases.

#[track_caller]
pub(crate) fn lock_held_three_times_is_free_after_three_releases<S: Servers>(both: &Together<S>) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        // given a lock that its holder acquired three times, and a waiter
        for count in 1..=3 {
            assert!(holder.lock("door").acquired());
            assert_eq!(holder.hold_count("door").number(), count, "{kind}, {way}");
        }
        assert_eq!(
            both.redis.at("door").command(&["HVALS", "door"]).texts(),
            ["3"],
            "{kind}, {way}"
        );
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);

        // when the holder releases twice, then the waiter does not acquire
        for left in ["2", "1"] {
            assert!(holder.unlock("door").is_true());
            assert_eq!(
                both.redis.at("door").command(&["HVALS", "door"]).texts(),
                [left],
                "{kind}, {way}"
            );
            sleep(SECOND / 3);
            assert!(
                !waiting.is_done(),
                "{kind}, {way}: the waiter waits while the lock is held {left} times"
            );
        }

        // and when the holder releases a third time, the waiter acquires
        let delay = wake_up(&holder.unlock("door"), &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        assert_eq!(holder.hold_count("door").number(), 0);
        assert!(waiter.unlock("door").is_true());
        woken(&both.redis.row(kind, "three holds, three releases"), way, delay);
    }
}

#[track_caller]
pub(crate) fn rust_waiter_polls_a_java_spin_lock<S: Servers>(both: &Together<S>) {
    for Pair { way, holder, waiter, .. } in both.both_ways() {
        let (holder, waiter) = (holder.spin(), waiter.spin());
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        sleep(SECOND);
        assert!(!waiting.is_done(), "{way}");

        let left = holder.unlock("door");

        let delay = wake_up(&left, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{way}: the waiter acquired after {delay:?}");
        assert!(waiter.unlock("door").is_true());
        woken(&both.redis.row(Kind::Spin, "spin lock after spin lock"), way, delay);
    }
}

#[track_caller]
pub(crate) fn forced_release_wakes_the_waiter_of_the_other_language<S: Servers>(
    both: &Together<S>,
) {
    for Pair { way, kind, holder, waiter } in both.each_way() {
        // given a holder, and a waiter of the other language
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);

        // when a third client, of the holder's language, releases the lock by force
        let third = match way {
            Way::RustToJava => both.rust.thread("third"),
            Way::JavaToRust => both.java.thread("third"),
        };
        let forced = third.force_unlock("door");

        // then the waiter acquires at once, and the former holder has lost the lock
        assert!(forced.is_true());
        let delay = wake_up(&forced, &waiting.wait(SECOND * 10));
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        assert!(holder.unlock("door").failure().is_some(), "{kind}, {way}");
        assert!(waiter.is_held("door").is_true(), "{kind}, {way}");
        assert!(waiter.force_unlock("door").is_true());
        assert!(
            !waiter.force_unlock("door").is_true(),
            "{kind}, {way}: a second forced release finds no hold"
        );
        assert!(waiter.unlock("door").failure().is_some(), "{kind}, {way}");
        woken(&both.redis.row(kind, "a forced release wakes the waiter"), way, delay);
    }
}

// Killed processes.

#[track_caller]
pub(crate) fn lock_of_a_killed_holder_is_free_when_its_lease_ends<S: Servers>(redis: &S) {
    for (way, kind) in EACH_WAY {
        // given a holder, and a waiter of the other language
        let mut both = Together::on_with(redis, hasty);
        let Pair { holder, waiter, .. } = both.pair(way, kind);
        assert!(holder.lock("door").acquired());
        let waiting = waiter.start_lock("door");
        both.until_asleep("door", 1);

        // when the holder's process is killed
        both.kill_holder(way);
        let killed = Instant::now();
        let left = redis.at("door").command(&["PTTL", "door"]).number();
        assert!((1..=3_000).contains(&left), "{kind}, {way}: {left}");
        let left = Duration::from_millis(left.unsigned_abs());

        // then the waiter acquires when the lease has ended, neither before nor much later
        assert!(waiting.wait(SECOND * 10).acquired(), "{kind}, {way}");
        let after = killed.elapsed();
        let late = after.saturating_sub(left);
        assert!(after + SECOND / 50 >= left, "{kind}, {way}: {after:?} of {left:?}");
        assert!(late < AT_ONCE, "{kind}, {way}: {late:?} after the end");
        woken(&redis.row(kind, "kill -9 of the holder (ms after its lease)"), way, late);
    }
}

/// Returns the servers and the processes, so that the caller can check the remaining keys.
#[track_caller]
pub(crate) fn killed_waiter_blocks_no_other_waiter<S: Servers>(redis: S, way: Way) -> Together<S> {
    // given a holder, a waiter of the other language, and another waiter of the holder's language
    let mut both = Together::on(redis);
    let Pair { holder, waiter, .. } = both.pair(way, Kind::Lock);
    assert!(holder.lock("door").acquired());
    let doomed = waiter.start_lock("door");
    both.until_asleep("door", 1);
    let own = match way {
        Way::RustToJava => both.rust.thread("own"),
        Way::JavaToRust => both.java.thread("own"),
    };
    let waiting = own.start_lock("door");
    both.until_asleep("door", 2);

    // when the process of the first waiter is killed
    drop::<Pending>(doomed);
    both.kill_waiter(way);

    // then the killed waiter is no longer subscribed, and the next notification wakes the other
    // waiter
    both.until_asleep("door", 1);
    assert!(!waiting.is_done());
    let delay = wake_up(&holder.unlock("door"), &waiting.wait(SECOND * 10));
    assert!(delay < AT_ONCE, "{way}: woken after {delay:?}");
    assert!(own.unlock("door").is_true());
    woken(&both.redis.row(Kind::Lock, "kill -9 of a waiter of two"), way, delay);
    both
}
