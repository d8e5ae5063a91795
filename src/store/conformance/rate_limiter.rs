//! The contract of every store for rate limiters and throttles.

use super::*;
use crate::{
    domain::{Name, Pace, Rate, RatePermits},
    store::rate_limiter::{Change, Decision, Limiter, throttle},
};

pub(super) async fn all(t: &Bench) {
    limiter_without_a_rate_grants_nothing(t).await;
    limiter_grants_its_rate_and_then_returns_the_wait(t).await;
    repeated_request_counts_once(t).await;
    released_permits_are_free_once(t).await;
    each_client_has_its_own_permits(t).await;
    update_keeps_acquired_permits(t).await;
    throttle_grants_a_burst_and_then_its_pace(t).await;
}

const MS: Duration = Duration::from_millis(1);

/// An interval that is longer than every test.
const LONG: Duration = Duration::from_secs(20);

impl Bench {
    fn named(&self, name: &str) -> Name {
        Name::new(format!("{}{name}", self.prefix)).unwrap()
    }
}

async fn rate_is(t: &Bench, name: &Name, change: Change) -> bool {
    let receipt = t.identity.fresh_owner();
    one(name).change(&t.one, change, &receipt).await.unwrap()
}

/// Requests this number of permits as the first client.
async fn take(t: &Bench, name: &Name, permits: u32) -> Decision {
    one(name).acquire(&t.one, &RatePermits::wanted(permits)).await.unwrap()
}

async fn free(t: &Bench, name: &Name) -> Option<u64> {
    one(name).available(&t.one).await.unwrap()
}

/// Returns the limiter of the first client.
fn one(name: &Name) -> Limiter<'_> {
    Limiter { name, client: "one" }
}

async fn limiter_without_a_rate_grants_nothing(t: &Bench) {
    let name = t.named("rate-unset");
    assert_eq!(take(t, &name, 1).await, Decision::Unset);
    assert_eq!(free(t, &name).await, None);
    assert_eq!(one(&name).rate(&t.one).await.unwrap(), None);
    assert!(!rate_is(t, &name, Change::Update(Rate::per(3, LONG))).await);
    assert!(!rate_is(t, &name, Change::Delete).await);
    // An idempotency key recognizes a repeated change.
    let receipt = t.identity.fresh_owner();
    for _ in 0..2 {
        let set = Change::SetIfAbsent(Rate::per(3, LONG));
        assert!(one(&name).change(&t.one, set, &receipt).await.unwrap());
    }
    assert!(!rate_is(t, &name, Change::SetIfAbsent(Rate::per(5, LONG))).await);
    assert_eq!(one(&name).rate(&t.other).await.unwrap(), Some(Rate::per(3, LONG)));
    assert_eq!(take(t, &name, 4).await, Decision::Above(3));
    assert!(rate_is(t, &name, Change::Delete).await);
    assert_eq!(take(t, &name, 1).await, Decision::Unset);
}

async fn limiter_grants_its_rate_and_then_returns_the_wait(t: &Bench) {
    let (name, interval) = (t.named("rate-waits"), 400 * MS);
    assert!(rate_is(t, &name, Change::SetIfAbsent(Rate::per(4, interval))).await);
    assert_eq!(take(t, &name, 1).await, Decision::Granted);
    sleep(100 * MS).await;
    assert_eq!(take(t, &name, 2).await, Decision::Granted);
    assert_eq!((free(t, &name).await, take(t, &name, 1).await), (Some(1), Decision::Granted));
    // One permit was acquired first, and three permits later. So a request for two permits must
    // wait until the later permits leave the window.
    let [wait_for_one, wait_for_two] =
        [1, 2].map(async |permits| match take(t, &name, permits).await {
            Decision::Wait(wait) => wait,
            decision => panic!("{decision:?}"),
        });
    let (first, second) = (wait_for_one.await, wait_for_two.await);
    assert!(first < second && second <= interval, "{first:?} {second:?}");
    sleep(second).await;
    assert_eq!(take(t, &name, 2).await, Decision::Granted);
    rate_is(t, &name, Change::Delete).await;
}

async fn repeated_request_counts_once(t: &Bench) {
    let name = t.named("rate-once");
    rate_is(t, &name, Change::Set(Rate::per(3, LONG))).await;
    let it = RatePermits::wanted(2);
    for _ in 0..3 {
        assert_eq!(one(&name).acquire(&t.one, &it).await.unwrap(), Decision::Granted);
    }
    assert_eq!(free(t, &name).await, Some(1));
    rate_is(t, &name, Change::Delete).await;
}

async fn released_permits_are_free_once(t: &Bench) {
    let (name, interval) = (t.named("rate-unused"), 300 * MS);
    rate_is(t, &name, Change::Set(Rate::per(10, interval))).await;
    let it = RatePermits::wanted(5);
    one(&name).acquire(&t.one, &it).await.unwrap();
    for _ in 0..2 {
        one(&name).release(&t.one, &it, 3).await.unwrap();
        assert_eq!(free(t, &name).await, Some(8));
    }
    let all = RatePermits::wanted(8);
    assert_eq!(one(&name).acquire(&t.one, &all).await.unwrap(), Decision::Granted);
    one(&name).release(&t.one, &all, 8).await.unwrap();
    assert_eq!(free(t, &name).await, Some(8));
    sleep(interval).await;
    one(&name).release(&t.one, &it, 5).await.unwrap();
    assert_eq!(free(t, &name).await, Some(10));
    rate_is(t, &name, Change::Delete).await;
}

async fn each_client_has_its_own_permits(t: &Bench) {
    let name = t.named("rate-own-permits");
    rate_is(t, &name, Change::Set(Rate::per(3, LONG).per_client())).await;
    assert_eq!(take(t, &name, 3).await, Decision::Granted);
    assert!(matches!(take(t, &name, 1).await, Decision::Wait(_)));
    let other = Limiter { name: &name, client: "other" };
    assert_eq!(other.available(&t.other).await.unwrap(), Some(3));
    let granted = other.acquire(&t.other, &RatePermits::wanted(3)).await.unwrap();
    assert_eq!(granted, Decision::Granted);
    rate_is(t, &name, Change::Delete).await;
}

async fn update_keeps_acquired_permits(t: &Bench) {
    let name = t.named("rate-updated");
    rate_is(t, &name, Change::Set(Rate::per(10, LONG))).await;
    take(t, &name, 8).await;
    for (change, left) in [
        (Change::Update(Rate::per(20, LONG)), 12),
        (Change::Update(Rate::per(5, LONG)), 0),
        (Change::Update(Rate::per(5, LONG).per_client()), 5),
        (Change::Set(Rate::per(7, LONG).idle_ttl(LONG)), 7),
    ] {
        assert!(rate_is(t, &name, change).await);
        assert_eq!(free(t, &name).await, Some(left), "{change:?}");
    }
    rate_is(t, &name, Change::Delete).await;
}

async fn throttle_grants_a_burst_and_then_its_pace(t: &Bench) {
    let (name, spacing) = (t.named("rate-even"), 100 * MS);
    let pace = Pace { spacing, burst: 4 };
    let ask = async |it: &RatePermits| throttle(&t.one, &name, it, pace).await.unwrap();
    let burst = RatePermits::wanted(4);
    for _ in 0..2 {
        let (wait, full_in) = ask(&burst).await;
        assert!(wait.is_zero() && full_in <= 4 * spacing, "{wait:?} {full_in:?}");
    }
    let (wait, _) = ask(&RatePermits::wanted(2)).await;
    assert!(wait > spacing && wait <= 2 * spacing, "{wait:?}");
    // The simulated clock moves a little with each request, so `wait` alone may be too short.
    sleep(wait + MS).await;
    let (granted, _) = ask(&RatePermits::wanted(2)).await;
    assert!(granted.is_zero(), "{granted:?} after {wait:?}");
    assert!(!ask(&RatePermits::wanted(1)).await.0.is_zero());
}
