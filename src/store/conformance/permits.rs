//! The contract of every store for permits that expire.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Bench, freed, renewal};
use crate::{
    domain::{
        Claim, Counts, Failure, Kind, Object, Outcome, PermitId, ReleaseMode, ReleaseReply,
        RemoteWaiters, Share, Taken, Verdict, permits_of,
    },
    store::{
        Event, SubscriptionLevel,
        permits::{self, Change},
    },
};

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(10);

/// Runs every case on `bench`.
pub(super) async fn all(bench: &Bench) {
    permits_are_granted_while_enough_are_free(bench).await;
    repeated_request_gets_the_same_permits(bench).await;
    repeated_release_counts_once(bench).await;
    rejected_permit_request_returns_the_next_permit_expiry(bench).await;
    expired_permits_are_free_for_any_client(bench).await;
    expired_permit_is_not_held_and_not_renewable(bench).await;
    renewal_renews_each_hold_as_a_whole(bench).await;
    release_reports_one_lost_permit(bench).await;
    repeated_change_of_the_number_counts_once(bench).await;
    reduced_number_makes_free_permits_negative(bench).await;
    permit_is_found_by_its_id(bench).await;
    waiter_is_notified_when_permits_are_free(bench).await;
}

fn wants(t: &Bench, name: &str, count: u32, ttl: Duration) -> Claim {
    let (object, owner) = (t.object(Kind::Permits, name), t.identity.fresh_owner());
    Claim { object, owner, ttl, share: Share::Units(count) }
}

/// Sets the number of permits of a new name.
async fn set(t: &Bench, name: &str, count: u32) -> Object {
    let object = t.object(Kind::Permits, name);
    assert_eq!(change(t, &object, Change::SetIfAbsent(count)).await, 1);
    object
}

async fn change(t: &Bench, object: &Object, change: Change) -> i64 {
    permits::change(&t.one, &object.name, change, &t.identity.fresh_owner()).await.unwrap()
}

async fn counts(t: &Bench, object: &Object) -> (i64, i64) {
    let Counts { free, held, .. } = permits::count(&t.other, &object.name).await.unwrap();
    (free, held)
}

async fn busy(t: &Bench, claim: &Claim) -> Option<Duration> {
    match t.other.acquire(claim, None).await.unwrap() {
        Verdict::Busy(Taken { holder: None, at_most, .. }) => at_most,
        other => panic!("{other:?}"),
    }
}

async fn release(t: &Bench, claim: &Claim) -> bool {
    match t.one.release(claim, ReleaseMode::Broadcast).await.unwrap() {
        ReleaseReply::Freed(others) => others == RemoteWaiters::Nobody,
        ReleaseReply::NotHeld { holder } => holder.is_some(),
    }
}

fn first(claim: &Claim) -> PermitId {
    permits_of(&claim.owner, claim.share).next().unwrap()
}

async fn permits_are_granted_while_enough_are_free(t: &Bench) {
    let [one, three, two] = [1, 3, 2].map(|count| wants(t, "p-some", count, LONG));
    assert_eq!(busy(t, &one).await, None, "the number of permits is not set");
    let object = set(t, "p-some", 5).await;
    t.grant(&one).await;
    t.grant(&three).await;
    assert_eq!(counts(t, &object).await, (1, 4));
    assert!(busy(t, &two).await.is_some());
    assert_eq!(counts(t, &object).await, (1, 4), "a refused request takes no permits");
    assert!(release(t, &one).await);
    t.grant(&two).await;
    assert_eq!(counts(t, &object).await, (0, 5));
    assert!(release(t, &two).await && release(t, &three).await);
    assert_eq!(counts(t, &object).await, (5, 0));
}

async fn repeated_request_gets_the_same_permits(t: &Bench) {
    let object = set(t, "p-again", 3).await;
    let claim = wants(t, "p-again", 2, LONG);
    let short = Claim { ttl: SHORT, ..claim.clone() };
    t.grant(&short).await;
    t.grant(&claim).await;
    assert_eq!(counts(t, &object).await, (1, 2));
    sleep(2 * SHORT).await;
    assert_eq!(counts(t, &object).await, (1, 2), "the second request has renewed the lease");

    // If one permit was revoked, a repeated request acquires only this permit again.
    assert_eq!(change(t, &object, Change::Release(first(&claim))).await, 1);
    t.grant(&claim).await;
    assert_eq!(counts(t, &object).await, (1, 2));
    assert!(release(t, &claim).await);
}

async fn repeated_release_counts_once(t: &Bench) {
    let object = set(t, "p-twice", 2).await;
    let claim = wants(t, "p-twice", 2, LONG);
    assert!(!release(t, &claim).await);
    t.grant(&claim).await;
    assert!(release(t, &claim).await);
    assert!(!release(t, &claim).await);
    assert_eq!(counts(t, &object).await, (2, 0));
}

async fn rejected_permit_request_returns_the_next_permit_expiry(t: &Bench) {
    set(t, "p-next", 2).await;
    let (long, short) = (wants(t, "p-next", 1, LONG), wants(t, "p-next", 1, LONG / 2));
    t.grant(&long).await;
    t.grant(&short).await;
    let at_most = busy(t, &wants(t, "p-next", 1, LONG)).await.unwrap();
    assert!(at_most <= LONG / 2 && at_most > LONG / 4, "{at_most:?}");
    release(t, &short).await;
    release(t, &long).await;
}

async fn expired_permits_are_free_for_any_client(t: &Bench) {
    let object = set(t, "p-past", 2).await;
    t.grant(&wants(t, "p-past", 2, SHORT)).await;
    sleep(2 * SHORT).await;
    let next = wants(t, "p-past", 2, SHORT);
    t.grant(&next).await;
    sleep(2 * SHORT).await;
    assert_eq!(counts(t, &object).await, (2, 0));
    assert!(!release(t, &next).await, "the permits are already counted as free");
    assert_eq!(counts(t, &object).await, (2, 0));
}

async fn expired_permit_is_not_held_and_not_renewable(t: &Bench) {
    let object = set(t, "p-late", 1).await;
    let claim = wants(t, "p-late", 1, SHORT);
    t.grant(&claim).await;
    sleep(2 * SHORT).await;
    // Since the lease ended, no client has sent a request, so the store has not yet counted the
    // permit as free.
    for ttl in [None, Some(LONG)] {
        assert_eq!(t.one.renew(&[renewal(&claim, ttl)]).await.unwrap(), [Outcome::NotOwned]);
    }
    assert!(!release(t, &claim).await, "an expired permit is not released again");
    assert_eq!(counts(t, &object).await, (1, 0));
}

async fn renewal_renews_each_hold_as_a_whole(t: &Bench) {
    let (one, other) = (set(t, "p-renewed", 4).await, set(t, "p-renewed-2", 1).await);
    let claims = [
        wants(t, "p-renewed", 3, LONG),
        wants(t, "p-renewed-2", 1, LONG / 3),
        wants(t, "p-renewed", 1, LONG),
        wants(t, "p-renewed-gone", 1, LONG),
    ];
    for claim in &claims[..3] {
        t.grant(claim).await;
    }
    assert_eq!(change(t, &one, Change::Release(first(&claims[0]))).await, 1);
    let renewals = claims.each_ref().map(|claim| renewal(claim, Some(LONG)));
    let [not_ours, renewed] = [Outcome::NotOwned, Outcome::Renewed];
    let outcomes = t.one.renew(&renewals).await.unwrap();
    assert_eq!(outcomes, [not_ours, renewed, renewed, not_ours]);
    let left = permits::lease(&t.one, &other.name, first(&claims[1]), None).await.unwrap().unwrap();
    assert!(left > LONG / 2, "{left:?}");
    assert_eq!(counts(t, &t.object(Kind::Permits, "p-renewed-gone")).await, (0, 0));

    // A check does not prolong the lease.
    let look = renewal(&claims[1], None);
    assert_eq!(t.one.renew(&[look]).await.unwrap(), [renewed]);
    let less = permits::lease(&t.one, &other.name, first(&claims[1]), None).await.unwrap().unwrap();
    assert!(less <= left, "{less:?}");
    for claim in &claims[1..3] {
        assert!(release(t, claim).await);
    }
    assert!(!release(t, &claims[0]).await);
}

async fn release_reports_one_lost_permit(t: &Bench) {
    let object = set(t, "p-part", 3).await;
    let claim = wants(t, "p-part", 3, LONG);
    t.grant(&claim).await;
    assert_eq!(change(t, &object, Change::Release(first(&claim))).await, 1);
    assert!(!release(t, &claim).await);
    assert_eq!(counts(t, &object).await, (3, 0), "the other permits are released");
}

async fn repeated_change_of_the_number_counts_once(t: &Bench) {
    let object = t.object(Kind::Permits, "p-change");
    assert_eq!(permits::count(&t.one, &object.name).await.unwrap(), Counts::default());
    assert_eq!(change(t, &object, Change::SetIfAbsent(10)).await, 1);
    assert_eq!(change(t, &object, Change::SetIfAbsent(15)).await, 0);
    for change in [Change::Add(5), Change::Add(-1), Change::SetIfAbsent(3)] {
        let receipt = t.identity.fresh_owner();
        let first = permits::change(&t.one, &object.name, change, &receipt).await.unwrap();
        let again = permits::change(&t.other, &object.name, change, &receipt).await.unwrap();
        assert_eq!(first, again);
    }
    assert_eq!(
        permits::count(&t.one, &object.name).await.unwrap(),
        Counts { free: 14, held: 0, set: true }
    );
    for more in [i64::from(i32::MAX) - 13, i64::MAX, i64::MIN] {
        let refused =
            permits::change(&t.one, &object.name, Change::Add(more), &t.identity.fresh_owner())
                .await;
        assert!(matches!(refused, Err(Failure::Refused { .. })), "{refused:?}");
    }
    assert_eq!(counts(t, &object).await, (14, 0));
    // A repeated request gets the same reply, even though the number is now set.
    let (new, receipt) = (t.object(Kind::Permits, "p-change-2"), t.identity.fresh_owner());
    for _ in 0..2 {
        let set =
            permits::change(&t.one, &new.name, Change::SetIfAbsent(2), &receipt).await.unwrap();
        assert_eq!(set, 1);
    }
}

async fn reduced_number_makes_free_permits_negative(t: &Bench) {
    let object = set(t, "p-fewer", 5).await;
    let claim = wants(t, "p-fewer", 3, LONG);
    t.grant(&claim).await;
    change(t, &object, Change::Set(1)).await;
    assert_eq!(counts(t, &object).await, (-2, 3));
    assert!(busy(t, &wants(t, "p-fewer", 1, LONG)).await.is_some());
    assert!(release(t, &claim).await);
    assert_eq!(counts(t, &object).await, (1, 0));
    change(t, &object, Change::Set(4)).await;
    change(t, &object, Change::Set(4)).await;
    assert_eq!(counts(t, &object).await, (4, 0));
}

async fn permit_is_found_by_its_id(t: &Bench) {
    let object = set(t, "p-id", 1).await;
    let claim = wants(t, "p-id", 1, LONG / 2);
    let id = first(&claim);
    assert_eq!(permits::lease(&t.one, &object.name, id, None).await.unwrap(), None);
    assert_eq!(permits::lease(&t.one, &object.name, id, Some(LONG)).await.unwrap(), None);
    t.grant(&claim).await;
    let left = permits::lease(&t.other, &object.name, id, None).await.unwrap().unwrap();
    assert!(left <= LONG / 2 && left > LONG / 4, "{left:?}");
    let set = permits::lease(&t.other, &object.name, id, Some(LONG)).await.unwrap();
    assert_eq!(set, Some(LONG));
    let left = permits::lease(&t.other, &object.name, id, None).await.unwrap().unwrap();
    assert!(left > LONG / 2, "{left:?}");
    // The lease does not become shorter, because the holder relies on it.
    let left = permits::lease(&t.other, &object.name, id, Some(SHORT)).await.unwrap().unwrap();
    assert!(left > LONG / 2, "{left:?}");

    assert_eq!(change(t, &object, Change::Release(id)).await, 1);
    assert_eq!(change(t, &object, Change::Release(id)).await, 0);
    assert_eq!(counts(t, &object).await, (1, 0));

    // An expired permit is not held, even if the store has not yet counted it as free.
    t.grant(&Claim { ttl: SHORT, ..claim.clone() }).await;
    sleep(2 * SHORT).await;
    assert_eq!(permits::lease(&t.one, &object.name, id, Some(LONG)).await.unwrap(), None);
    assert_eq!(change(t, &object, Change::Release(id)).await, 0);
    assert_eq!(counts(t, &object).await, (1, 0));
}

async fn waiter_is_notified_when_permits_are_free(t: &Bench) {
    let claim = wants(t, "p-received", 1, LONG);
    t.other.listen(&claim.object);
    t.received(&Event::Subscribed(claim.object.clone(), SubscriptionLevel::Releases), 1).await;
    let object = set(t, "p-received", 1).await;
    t.received(&freed(&claim), 1).await;
    t.grant(&claim).await;
    assert!(release(t, &claim).await);
    t.received(&freed(&claim), 2).await;

    t.grant(&Claim { ttl: SHORT, ..claim.clone() }).await;
    let asked = Instant::now();
    while counts(t, &object).await.0 == 0 {
        assert!(asked.elapsed() < LONG, "the lease expires in time");
        sleep(SHORT / 4).await;
    }
    t.received(&freed(&claim), 3).await;
    t.grant(&claim).await;
    assert_eq!(change(t, &object, Change::Release(first(&claim))).await, 1);
    t.received(&freed(&claim), 4).await;
    change(t, &object, Change::Add(1)).await;
    t.received(&freed(&claim), 5).await;
    // If the number becomes lower, the store notifies no client.
    change(t, &object, Change::Add(-2)).await;
    change(t, &object, Change::Set(0)).await;
    sleep(SHORT).await;
    t.received(&freed(&claim), 5).await;
    t.other.unlisten(&claim.object);
}
