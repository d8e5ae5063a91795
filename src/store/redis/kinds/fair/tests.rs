//! Tests in virtual time: the queue and its deadlines as Redisson computes them, dead waiters, and
//! damaged queues.

use std::{sync::Arc, time::Duration};

use leasehold_twin::Twin;
use redis::{Value, cmd};
use tokio::time::sleep;

use super::*;
use crate::domain::{Failure, Identity, Kind, Mutex};

const QUEUE: &str = "redisson_lock_queue:{door}";
const DEADLINES: &str = "redisson_lock_timeout:{door}";
const ALIVE: &str = "leasehold_fair__alive:{door}";

const LEASE: i64 = 30_000;
const WAIT: i64 = 300_000;
const WAITS: Option<Place> = Some(Place::Kept);

/// A simulated server, and a client of this server.
struct Bench {
    twin: Twin,
    store: RedisStore,
    identity: Identity,
}

impl Bench {
    fn new() -> Self {
        let twin = Twin::new(7);
        let store = RedisStore::simulated(&twin, "one");
        Self { twin, store, identity: Identity::of("one") }
    }

    fn claim(&self) -> Claim {
        let owner = self.identity.fresh_owner();
        let object = Object::of(Kind::Fair, "door").for_task(owner.clone());
        Claim::plain(object, owner, Duration::from_millis(LEASE.unsigned_abs()))
    }

    async fn ask(&self, claim: &Claim) -> Verdict {
        self.store.acquire(claim, WAITS).await.unwrap()
    }

    async fn is_granted(&self, claim: &Claim) -> bool {
        self.ask(claim).await == Verdict::GRANTED
    }

    /// Returns a granted claim, then the claims of waiters in the order of the queue.
    async fn in_order<const N: usize>(&self) -> [Claim; N] {
        let claims = [(); N].map(|()| self.claim());
        for (place, claim) in claims.iter().enumerate() {
            assert_eq!(self.is_granted(claim).await, place == 0);
        }
        claims
    }

    async fn frees(&self, claim: &Claim) {
        let freed = self.store.release(claim, ReleaseMode::HandOver).await.unwrap();
        assert!(matches!(freed, ReleaseReply::Freed(_)), "{freed:?}");
    }

    async fn withdraws(&self, claim: &Claim) {
        self.store.release(claim, ReleaseMode::Leave).await.unwrap();
    }

    async fn raw(&self, words: &[&str]) -> Value {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        self.store.topology.call(b"door", &command).await.unwrap()
    }

    async fn now(&self) -> i64 {
        let Value::Array(parts) = self.raw(&["TIME"]).await else {
            panic!("the reply to `TIME` is not a list")
        };
        let [seconds, micros] = [0, 1].map(|at| replies::number(&parts[at]).unwrap());
        seconds * 1_000 + micros / 1_000
    }

    /// Returns the owners in the queue.
    async fn queue(&self) -> Vec<String> {
        let Value::Array(owners) = self.raw(&["LRANGE", QUEUE, "0", "-1"]).await else {
            panic!("the reply to `LRANGE` is not a list")
        };
        owners.iter().map(replies::into_text).collect()
    }

    /// Returns the milliseconds until the deadline of `owner`.
    async fn ahead(&self, owner: &str) -> Option<i64> {
        let Value::Double(millis) = self.raw(&["ZSCORE", DEADLINES, owner]).await else {
            return None;
        };
        #[allow(clippy::cast_possible_truncation, reason = "a time in milliseconds")]
        Some(millis as i64 - self.now().await)
    }

    /// Returns the milliseconds until the deadline of each claim, rounded.
    async fn all_ahead(&self, claims: &[&Claim]) -> Vec<i64> {
        let mut all = vec![];
        for claim in claims {
            let ahead = self.ahead(claim.owner.as_str()).await.expect("the claim is in the queue");
            all.push((ahead + 500) / 1_000 * 1_000);
        }
        all
    }

    /// Adds a waiter of Redisson, whose deadline is in `millis` milliseconds.
    async fn redisson(&self, owner: &str, millis: i64) {
        let deadline = (self.now().await + millis).to_string();
        self.raw(&["RPUSH", QUEUE, owner]).await;
        self.raw(&["ZADD", DEADLINES, &deadline, owner]).await;
    }

    /// For this time, sends a request for each claim every second, in the order of `claims`.
    async fn ask_for(&self, time: Duration, claims: &[&Claim]) {
        for _ in 0..time.as_secs() {
            sleep(Duration::from_secs(1)).await;
            for claim in claims {
                assert!(!self.is_granted(claim).await);
            }
        }
    }
}

/// The same case as Redisson's `testAcquireFailedTimeoutDrift_Descrete` and
/// `testLockAcquiredTimeoutDrift_Descrete`.
#[tokio::test(start_paused = true)]
async fn later_waiters_get_earlier_deadlines_when_a_waiter_leaves() {
    let t = Bench::new();
    let [held, one, two, three, four] = t.in_order().await;
    let ahead = t.all_ahead(&[&one, &two, &three, &four]).await;
    assert_eq!(ahead, [1, 2, 3, 4].map(|place| LEASE + place * WAIT));
    t.withdraws(&two).await;
    let ahead = t.all_ahead(&[&one, &three, &four]).await;
    assert_eq!(ahead, [1, 2, 3].map(|place| LEASE + place * WAIT));
    t.frees(&held).await;
    assert!(t.is_granted(&one).await);
    let ahead = t.all_ahead(&[&three, &four]).await;
    assert_eq!(ahead, [1, 2].map(|place| LEASE + place * WAIT));
    // The deadline of a new waiter is one wait time after the deadline of the last waiter.
    let five = t.claim();
    t.ask(&five).await;
    assert_eq!(t.all_ahead(&[&five]).await, [LEASE + 3 * WAIT]);
}

/// The same case as Redisson's `testLockAcquiredBooleanTimeoutDrift_Descrete`.
#[tokio::test(start_paused = true)]
async fn try_acquire_leaves_no_entry_and_succeeds_after_the_lease() {
    let t = Bench::new();
    let [held] = t.in_order().await;
    let tries = t.claim();
    let acquire = || t.store.acquire(&tries, None);
    assert!(matches!(acquire().await.unwrap(), Verdict::Busy(_)));
    assert_eq!(t.twin.keys(), ["door"]);
    t.frees(&held).await;
    t.in_order::<1>().await;
    sleep(Duration::from_millis(LEASE.unsigned_abs() + 1)).await;
    assert_eq!(acquire().await.unwrap(), Verdict::GRANTED);
}

#[tokio::test(start_paused = true)]
async fn dead_waiter_gives_up_its_position_within_seconds() {
    let t = Bench::new();
    let [held, dead, next, last] = t.in_order().await;
    t.frees(&held).await;
    t.ask_for(KNOWN_FOR - Duration::from_secs(1), &[&last, &next]).await;
    sleep(Duration::from_secs(1)).await;
    assert!(!t.is_granted(&last).await, "the order of the other waiters stays");
    assert!(t.is_granted(&next).await);
    // `last` now has the deadline of the first waiter in the queue.
    assert_eq!(t.all_ahead(&[&last]).await, [LEASE + WAIT - 5_000]);
    assert!(!t.queue().await.contains(&dead.owner.as_str().to_owned()));
}

/// The release notifies only the dead waiter. Without another notification, the Redisson client
/// behind it would sleep for the length of the lease.
#[tokio::test(start_paused = true)]
async fn redisson_waiter_behind_a_dead_waiter_is_notified() {
    let t = Bench::new();
    let [held, dead] = t.in_order().await;
    t.redisson("java:1", 2 * WAIT).await;
    let last = t.claim();
    t.ask(&last).await;
    let output = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&output);
    t.twin.watch(move |it| {
        if it.command().starts_with("PUBLISH") {
            log.lock().push(it.command());
        }
    });
    t.frees(&held).await;
    t.ask_for(KNOWN_FOR + Duration::from_secs(2), &[&last]).await;
    let to = |owner: &str| format!("PUBLISH redisson_lock__channel:{{door}}:{owner} 0");
    assert_eq!(*output.lock(), [to(dead.owner.as_str()), to("java:1")]);
}

/// If the deadline of the dead waiter stayed in the past, Redisson's clients behind it would wait
/// for ever.
#[tokio::test(start_paused = true)]
async fn dead_waiter_behind_a_living_waiter_is_dropped() {
    let t = Bench::new();
    let [held, first, dead, last] = t.in_order().await;
    for _ in 0..2 {
        t.ask_for(Duration::from_secs(18), &[&first, &last]).await;
        assert!(t.is_granted(&held).await, "a repeated request extends the lease");
    }
    let waiting = [&first, &last].map(|it| it.owner.as_str().to_owned());
    assert_eq!(t.queue().await, waiting);
    assert_eq!(t.ahead(dead.owner.as_str()).await, None);
    assert_eq!(t.twin.zset(ALIVE).unwrap().len(), 2);
    // `last` now has the deadline of the second waiter in the queue.
    assert_eq!(t.all_ahead(&[&last]).await, [LEASE + 2 * WAIT - 36_000]);
    t.frees(&held).await;
    assert!(!t.is_granted(&last).await);
    assert!(t.is_granted(&first).await);
}

/// In an outage of some seconds, no client can send a request. After the outage, the head sends the
/// first request.
#[tokio::test(start_paused = true)]
async fn waiters_keep_their_order_after_an_outage() {
    let t = Bench::new();
    let [held, first, second, third] = t.in_order().await;
    sleep(Duration::from_secs(20)).await;
    for waiter in [&first, &third, &second] {
        assert!(!t.is_granted(waiter).await);
    }
    t.frees(&held).await;
    for (next, others) in [(&first, vec![&second, &third]), (&second, vec![&third])] {
        for other in others {
            assert!(!t.is_granted(other).await);
        }
        assert!(t.is_granted(next).await);
        t.frees(next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn grant_of_a_waiter_that_redisson_dropped_leaves_no_key() {
    let t = Bench::new();
    let [held, waiter] = t.in_order().await;
    t.raw(&["LREM", QUEUE, "0", waiter.owner.as_str()]).await;
    t.raw(&["ZREM", DEADLINES, waiter.owner.as_str()]).await;
    t.frees(&held).await;
    assert!(t.is_granted(&waiter).await);
    assert_eq!(t.twin.keys(), ["door"]);
}

#[tokio::test(start_paused = true)]
async fn dead_redisson_waiter_is_dropped_after_its_deadline() {
    let t = Bench::new();
    let [held] = t.in_order().await;
    t.redisson("java:1", 20_000).await;
    let next = t.claim();
    t.ask(&next).await;
    t.frees(&held).await;
    t.ask_for(Duration::from_secs(19), &[&next]).await;
    sleep(Duration::from_secs(1)).await;
    assert!(t.is_granted(&next).await);
    assert_eq!(t.twin.keys(), ["door"]);
}

/// A Redisson client makes all deadlines earlier by its own wait time, so the deadline of a living
/// waiter of Leasehold may be in the past.
#[tokio::test(start_paused = true)]
async fn living_waiter_keeps_its_position_after_its_deadline() {
    let t = Bench::new();
    let [held, first, second] = t.in_order().await;
    let past = (t.now().await - 1).to_string();
    for waiter in [&first, &second] {
        t.raw(&["ZADD", DEADLINES, &past, waiter.owner.as_str()]).await;
    }
    for waiter in [&second, &first] {
        assert!(!t.is_granted(waiter).await);
        assert!(t.ahead(waiter.owner.as_str()).await.unwrap() > WAIT);
    }
    t.frees(&held).await;
    assert!(!t.is_granted(&second).await);
    assert!(t.is_granted(&first).await);
}

/// If a deadline is in the past, a living waiter of Redisson is dropped, or sleeps without end.
#[tokio::test(start_paused = true)]
async fn no_deadline_is_moved_into_the_past() {
    let t = Bench::new();
    let [held, first] = t.in_order().await;
    t.redisson("java:1", LEASE + 2_000).await;
    t.frees(&held).await;
    assert!(t.is_granted(&first).await);
    // The waiter sleeps for the lease, so its deadline is later than the end of the lease.
    assert_eq!(t.ahead("java:1").await, Some(LEASE + 1_000));
}

#[tokio::test(start_paused = true)]
async fn damaged_queue_is_repaired_and_keeps_its_order() {
    let t = Bench::new();
    let [held, first, second] = t.in_order().await;
    let (one, two) = (first.owner.as_str(), second.owner.as_str());
    // given an entry without a deadline, a deadline without an entry, and two entries of one owner
    t.raw(&["ZREM", DEADLINES, two]).await;
    t.raw(&["ZADD", DEADLINES, "9000000000000", "java:gone"]).await;
    t.raw(&["RPUSH", QUEUE, one, two]).await;
    t.raw(&["ZADD", DEADLINES, "9000000000000", "java:1", "9000000000000", "java:2"]).await;
    t.raw(&["RPUSH", QUEUE, "java:3"]).await;

    // when a waiter sends a request
    assert!(!t.is_granted(&second).await);

    // then each entry has one deadline
    assert_eq!(t.queue().await, [one, two, "java:3"]);
    let deadlines = t.twin.zset(DEADLINES).unwrap();
    assert_eq!(deadlines.len(), 3);
    assert_eq!(t.all_ahead(&[&first, &second]).await, [LEASE + WAIT, LEASE + 2 * WAIT]);
    t.frees(&held).await;
    assert!(!t.is_granted(&second).await);
    assert!(t.is_granted(&first).await);
}

#[tokio::test(start_paused = true)]
async fn queue_head_without_a_deadline_gets_a_deadline() {
    let t = Bench::new();
    let [held] = t.in_order().await;
    // The number of deadlines equals the number of entries, so the numbers do not show the damage.
    t.raw(&["RPUSH", QUEUE, "java:1"]).await;
    t.raw(&["ZADD", DEADLINES, "9000000000000", "java:2"]).await;
    t.frees(&held).await;
    let next = t.claim();
    assert!(!t.is_granted(&next).await);
    assert_eq!(t.ahead("java:1").await, Some(LEASE + WAIT));
    assert_eq!(t.ahead("java:2").await, None);
}

#[tokio::test(start_paused = true)]
async fn denied_queue_command_leaves_no_queue_entry_and_no_deadline() {
    let t = Bench::new();
    let [held] = t.in_order().await;
    t.twin.user("default", "-rpush");
    let refused = t.store.acquire(&t.claim(), WAITS).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { .. }), "{refused:?}");
    assert_eq!(t.twin.zset(DEADLINES), None);
    t.frees(&held).await;
}

#[tokio::test(start_paused = true)]
async fn waiter_behind_a_silent_head_waits_at_least_50_ms() {
    let t = Bench::new();
    let [held, dead, next] = t.in_order().await;
    t.frees(&held).await;
    t.ask_for(KNOWN_FOR - Duration::from_secs(1), &[&next]).await;
    sleep(Duration::from_millis(999)).await;
    let Verdict::Busy(taken) = t.ask(&next).await else {
        panic!("the next waiter must wait for the head of the queue")
    };
    assert_eq!(taken.holder.map(|head| head.owner), Some(dead.owner));
    assert_eq!(taken.at_most, Some(Duration::from_millis(50)));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_expire_by_themselves_and_queues_leave_no_key() {
    let t = Bench::new();
    let [held, first, second] = t.in_order().await;
    // The key outlives each deadline. Otherwise a dead waiter of Leasehold would count as a waiter
    // of Redisson.
    assert!(t.twin.pttl(ALIVE) > LEASE + 2 * WAIT);
    t.withdraws(&first).await;
    t.withdraws(&second).await;
    t.frees(&held).await;
    assert!(t.twin.keys().is_empty(), "{:?}", t.twin.keys());
}

/// Former bug: the key with the last requests of waiters expired before the last deadline. After
/// that, a dead waiter of Leasehold counted as a waiter of Redisson.
#[tokio::test(start_paused = true)]
async fn waiter_that_dies_after_a_long_wait_is_dropped_at_once() {
    let t = Bench::new();
    let [held, waiter] = t.in_order().await;
    t.raw(&["PERSIST", "door"]).await;
    t.ask_for(Duration::from_secs(700), &[&waiter]).await;
    let next = t.claim();
    t.ask(&next).await;
    t.ask_for(KNOWN_FOR + Duration::from_secs(1), &[&next]).await;
    t.frees(&held).await;
    assert!(t.is_granted(&next).await);
}

/// Thousands of waiters die together when a process with very many waiters crashes.
#[tokio::test(start_paused = true)]
async fn thousands_of_dead_waiters_are_dropped_by_one_request() {
    let t = Bench::new();
    let [held] = t.in_order().await;
    for _ in 0..3_000 {
        t.ask(&t.claim()).await;
    }
    sleep(2 * KNOWN_FOR).await;
    let next = t.claim();
    t.frees(&held).await;
    assert!(t.is_granted(&next).await);
    assert_eq!(t.twin.keys(), ["door"]);
}

#[tokio::test(start_paused = true)]
async fn deadlines_of_thousands_of_waiters_move_together() {
    let t = Bench::new();
    let [held, first] = t.in_order().await;
    for place in 0..3_000_i64 {
        t.redisson(&format!("java:{place}"), LEASE + (place + 2) * WAIT).await;
    }
    t.frees(&held).await;
    assert!(t.is_granted(&first).await);
    let late = |place: i64| (LEASE + (place + 1) * WAIT) / 1_000;
    for place in [0, 999, 1_000, 2_999] {
        let ahead = t.ahead(&format!("java:{place}")).await.unwrap();
        assert_eq!((ahead + 500) / 1_000, late(place), "{place}");
    }
}
