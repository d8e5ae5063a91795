//! The contract of every store for semaphores.

use super::*;
use crate::{
    domain::{Failure, Kind},
    store::semaphore::{self, Change},
};

pub(super) async fn all(t: &Bench) {
    permits_are_granted_while_enough_are_free(t).await;
    repeated_acquire_and_release_count_once(t).await;
    withdrawn_request_takes_no_permits(t).await;
    abandoned_permits_stay_acquired(t).await;
    change_with_the_same_idempotency_key_counts_once(t).await;
    drain_removes_free_permits_and_keeps_a_negative_number(t).await;
    lookup_returns_the_owners_of_permits(t).await;
    permits_of_a_deleted_semaphore_do_not_count_in_the_next(t).await;
    longest_waiter_gets_its_permits(t).await;
    leaving_longest_waiter_frees_its_permits_for_others(t).await;
    oversized_request_blocks_no_other_waiter(t).await;
    longest_waiter_blocks_no_waiter_beyond_a_thousand_holders(t).await;
    leaving_longest_waiter_notifies_blocked_waiters(t).await;
    semaphore_waiter_that_left_may_request_again(t).await;
    number_of_permits_is_limited_to_the_int_range_of_java(t).await;
    subscriber_is_notified_of_free_permits(t).await;
}

impl Bench {
    fn permits(&self, name: &str, units: u32) -> Claim {
        let object = self.object(Kind::Semaphore, name);
        Claim { share: Share::Units(units), object, ..self.claim(name) }
    }

    async fn changed(&self, claim: &Claim, change: Change) -> i64 {
        let receipt = self.identity.fresh_owner();
        semaphore::change(&self.one, claim.name(), change, &receipt).await.unwrap()
    }

    async fn semaphore(&self, name: &str, permits: u32) -> Claim {
        let claim = self.permits(name, 1);
        assert_eq!(self.changed(&claim, Change::SetIfAbsent(permits)).await, 1);
        claim
    }

    async fn free(&self, claim: &Claim) -> i64 {
        semaphore::available(&self.other, claim.name()).await.unwrap()
    }

    async fn busy(&self, claim: &Claim, place: Option<Place>) -> Option<Duration> {
        match self.other.acquire(claim, place).await.unwrap() {
            Verdict::Busy(Taken { holder: None, at_most, .. }) => at_most,
            verdict => panic!("{verdict:?}"),
        }
    }

    async fn back(&self, claim: &Claim) {
        assert_eq!(self.broadcast(claim).await, ReleaseReply::Freed(RemoteWaiters::Nobody));
    }
}

const GONE: ReleaseReply = ReleaseReply::NotHeld { holder: None };

async fn permits_are_granted_while_enough_are_free(t: &Bench) {
    let none = t.permits("none", 1);
    assert_eq!((t.busy(&none, None).await, t.free(&none).await), (None, 0));

    let three = t.semaphore("three", 3).await;
    let (one, two, more) = (t.permits("three", 1), t.permits("three", 2), t.permits("three", 1));
    t.grant(&two).await;
    assert_eq!(t.free(&three).await, 1);
    t.grant(&one).await;
    assert_eq!(t.busy(&more, None).await, None);
    assert_eq!(t.one.held_by(&three.object, &two.owner).await.unwrap(), 2);
    assert_eq!(t.one.held_by(&three.object, &more.owner).await.unwrap(), 0);
    t.back(&two).await;
    assert_eq!(t.free(&three).await, 2);
    assert_eq!(t.changed(&three, Change::SetIfAbsent(9)).await, 0);
    assert_eq!(t.free(&three).await, 2);
}

async fn repeated_acquire_and_release_count_once(t: &Bench) {
    let one = t.semaphore("repeated", 2).await;
    t.grant(&one).await;
    t.grant(&one).await;
    assert_eq!(t.free(&one).await, 1);
    t.back(&one).await;
    assert_eq!((t.broadcast(&one).await, t.free(&one).await), (GONE, 2));
}

async fn withdrawn_request_takes_no_permits(t: &Bench) {
    let late = t.semaphore("withdrawn", 1).await;
    assert_eq!(t.one.release(&late, ReleaseMode::HandOver).await.unwrap(), GONE);
    t.busy(&late, None).await;
    assert_eq!(t.free(&late).await, 1);
    // if a release is repeated, the store rejects later requests of the owner
    let unsure = t.permits("withdrawn", 1);
    t.grant(&unsure).await;
    t.back(&unsure).await;
    t.broadcast(&unsure).await;
    t.busy(&unsure, None).await;
    t.grant(&t.permits("withdrawn", 1)).await;
}

async fn abandoned_permits_stay_acquired(t: &Bench) {
    let kept = t.semaphore("kept", 2).await;
    t.grant(&kept).await;
    let forget = async || t.one.release(&kept, ReleaseMode::Forget).await.unwrap();
    assert_eq!(forget().await, ReleaseReply::Freed(RemoteWaiters::Nobody));
    assert_eq!(forget().await, GONE);
    assert_eq!(t.one.held_by(&kept.object, &kept.owner).await.unwrap(), 0);
    assert_eq!((t.broadcast(&kept).await, t.free(&kept).await), (GONE, 1));
    t.busy(&kept, None).await;
}

async fn change_with_the_same_idempotency_key_counts_once(t: &Bench) {
    let claim = t.permits("receipts", 1);
    let receipt = t.identity.fresh_owner();
    let twice = async |change: Change, receipt: &Owner| {
        let first = semaphore::change(&t.one, claim.name(), change, receipt).await.unwrap();
        let again = semaphore::change(&t.one, claim.name(), change, receipt).await.unwrap();
        assert_eq!(first, again, "{change:?}");
        first
    };
    assert_eq!(twice(Change::SetIfAbsent(3), &receipt).await, 1);
    assert_eq!(twice(Change::Add(4), &t.identity.fresh_owner()).await, 7);
    assert_eq!(twice(Change::Add(-9), &t.identity.fresh_owner()).await, -2);
    assert_eq!(twice(Change::Add(5), &t.identity.fresh_owner()).await, 3);
    let drained = t.identity.fresh_owner();
    assert_eq!(twice(Change::Drain, &drained).await, 3);
    t.changed(&claim, Change::Add(1)).await;
    assert_eq!((twice(Change::Drain, &drained).await, t.free(&claim).await), (3, 1));
}

async fn drain_removes_free_permits_and_keeps_a_negative_number(t: &Bench) {
    let claim = t.permits("drained", 1);
    assert_eq!(t.changed(&claim, Change::Drain).await, 0);
    assert_eq!(t.changed(&claim, Change::Add(-5)).await, -5);
    assert_eq!((t.changed(&claim, Change::Drain).await, t.free(&claim).await), (0, -5));
    assert_eq!(t.changed(&claim, Change::Add(15)).await, 10);
    assert_eq!((t.changed(&claim, Change::Drain).await, t.free(&claim).await), (10, 0));
    assert_eq!(
        t.changed(&claim, Change::SetIfAbsent(1)).await,
        0,
        "the semaphore exists and has no permits"
    );
}

async fn lookup_returns_the_owners_of_permits(t: &Bench) {
    let (has, none) = (t.semaphore("looked", 1).await, t.permits("looked", 1));
    t.grant(&has).await;
    let looks = [&none, &has].map(|claim| renewal(claim, None));
    let outcomes = t.one.renew(&looks).await.unwrap();
    assert_eq!(outcomes, [Outcome::NotOwned, Outcome::Renewed]);
}

async fn permits_of_a_deleted_semaphore_do_not_count_in_the_next(t: &Bench) {
    let first = t.permits("set-again", 1);
    t.changed(&first, Change::Add(1)).await;
    t.grant(&first).await;
    assert_eq!(t.changed(&first, Change::Delete).await, 1);
    assert_eq!(t.changed(&first, Change::Delete).await, 0);
    assert_eq!((t.broadcast(&first).await, t.free(&first).await), (GONE, 0));

    let second = t.semaphore("set-again", 1).await;
    t.grant(&second).await;
    t.changed(&second, Change::Delete).await;
    let third = t.semaphore("set-again", 1).await;
    assert_eq!((t.broadcast(&second).await, t.free(&third).await), (GONE, 1));
}

const LONG: Option<Place> = Some(Place::Waited(Duration::from_secs(2)));

async fn longest_waiter_gets_its_permits(t: &Bench) {
    let few = t.semaphore("longest", 8).await;
    t.grant(&t.permits("longest", 4)).await;
    let [many, other, longer] = [6, 5, 5].map(|units| t.permits("longest", units));
    assert_eq!(t.busy(&many, LONG).await, None);
    assert!(t.busy(&few, None).await.is_some_and(|rest| !rest.is_zero()));
    // a waiter that has waited for less time does not replace the longest waiter, but a waiter that
    // has waited for longer replaces it
    let less = Some(Place::Waited(Duration::from_secs(1)));
    assert_eq!(t.busy(&other, less).await, None);
    assert!(t.busy(&few, less).await.is_some());
    t.changed(&few, Change::Add(3)).await;
    assert!(t.busy(&other, less).await.is_some());
    let more = Some(Place::Waited(Duration::from_secs(3)));
    assert_eq!(t.other.acquire(&longer, more).await.unwrap(), Verdict::GRANTED);

    // other clients can acquire permits beyond the number that the longest waiter requests, and can
    // acquire all free permits after the grant of the longest waiter
    t.changed(&few, Change::Add(5)).await;
    t.grant(&few).await;
    t.busy(&t.permits("longest", 1), None).await;
    t.grant(&many).await;
    t.changed(&few, Change::Add(1)).await;
    t.grant(&t.permits("longest", 1)).await;
}

async fn leaving_longest_waiter_frees_its_permits_for_others(t: &Bench) {
    let few = t.semaphore("gone", 2).await;
    t.grant(&t.permits("gone", 1)).await;
    let many = t.permits("gone", 2);
    t.busy(&many, LONG).await;
    t.busy(&few, None).await;
    t.other.listen(&few.object);
    t.received(&level(&few), 1).await;
    assert_eq!(t.one.release(&many, ReleaseMode::HandOver).await.unwrap(), GONE);
    t.received(&freed(&few), 1).await;
    t.grant(&few).await;
    t.other.unlisten(&few.object);
}

async fn oversized_request_blocks_no_other_waiter(t: &Bench) {
    let few = t.semaphore("too-many", 3).await;
    let (all, too_many) = (t.permits("too-many", 3), t.permits("too-many", 4));
    assert_eq!(t.busy(&too_many, LONG).await, None);
    t.grant(&few).await;
    // if the number of permits becomes too low for a waiter, this waiter blocks no other clients
    t.busy(&all, LONG).await;
    t.busy(&t.permits("too-many", 1), None).await;
    t.changed(&few, Change::Add(-1)).await;
    assert_eq!(t.busy(&all, LONG).await, None);
    t.grant(&t.permits("too-many", 1)).await;
}

/// Two waiters request more permits than are ever free, because a holder keeps some permits. For
/// half of the time, other clients can acquire. This test needs virtual time.
pub(crate) async fn waiter_for_too_many_permits_blocks_others_half_the_time(t: &Bench) {
    let few = t.semaphore("turns", 10).await;
    t.grant(&t.permits("turns", 2)).await;
    let (many, start) = ([9, 10].map(|units| t.permits("turns", units)), Instant::now());
    let mut entered = Vec::new();
    for second in 0..400 {
        let waited = LONG.map(|_| Place::Waited(start.elapsed() + Duration::from_secs(2)));
        for claim in many.iter().filter(|claim| second > 9 || claim.units() == 9) {
            t.busy(claim, waited).await;
        }
        let claim = Claim { owner: t.identity.fresh_owner(), ..few.clone() };
        let granted = t.one.acquire(&claim, None).await.unwrap() == Verdict::GRANTED;
        entered.push(granted);
        if granted {
            t.back(&claim).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
    let turns: Vec<_> = entered.chunk_by(|one, next| one == next).collect();
    assert!(turns.len() >= 12, "{turns:?}");
    for turn in &turns[..turns.len() - 1] {
        assert!(if turn[0] { turn.len() >= 29 } else { turn.len() <= 31 }, "{turns:?}");
    }
}

/// The store counts the permits of at most a thousand holders. With more holders, the store cannot
/// find out whether a request can ever be granted.
async fn longest_waiter_blocks_no_waiter_beyond_a_thousand_holders(t: &Bench) {
    let few = t.semaphore("crowded", 1_010).await;
    for _ in 0..1_001 {
        t.grant(&t.permits("crowded", 1)).await;
    }
    assert_eq!(t.busy(&t.permits("crowded", 20), LONG).await, None);
    t.grant(&few).await;
}

async fn leaving_longest_waiter_notifies_blocked_waiters(t: &Bench) {
    let few = t.semaphore("former-longest", 3).await;
    let all = t.permits("former-longest", 3);
    t.grant(&t.permits("former-longest", 1)).await;
    t.busy(&all, LONG).await;
    t.changed(&few, Change::Add(-1)).await;
    t.other.listen(&few.object);
    t.received(&level(&few), 1).await;
    assert_eq!(t.busy(&few, None).await.map(|rest| rest.is_zero()), Some(false));
    assert_eq!(t.busy(&all, LONG).await, None);
    t.received(&freed(&few), 1).await;
    t.grant(&few).await;
    t.other.unlisten(&few.object);
}

/// `ReleaseMode::Leave` states that no request is in flight, so the store need not reject later
/// requests.
async fn semaphore_waiter_that_left_may_request_again(t: &Bench) {
    let few = t.semaphore("leaves", 2).await;
    t.grant(&t.permits("leaves", 1)).await;
    let many = t.permits("leaves", 2);
    t.busy(&many, LONG).await;
    t.busy(&few, None).await;
    assert_eq!(t.one.release(&many, ReleaseMode::Leave).await.unwrap(), GONE);
    t.grant(&few).await;
    t.changed(&few, Change::Add(2)).await;
    t.grant(&many).await;
}

async fn number_of_permits_is_limited_to_the_int_range_of_java(t: &Bench) {
    const MOST: i64 = i32::MAX as i64;
    let claim = t.semaphore("most", 7).await;
    let add = async |permits| {
        let receipt = t.identity.fresh_owner();
        semaphore::change(&t.one, claim.name(), Change::Add(permits), &receipt).await
    };
    for permits in [MOST - 6, MOST, i64::MAX, i64::MIN, -MOST - 9] {
        let refused = add(permits).await.unwrap_err();
        assert!(matches!(refused, Failure::Refused { .. }), "{refused:?}");
    }
    assert_eq!(t.free(&claim).await, 7);
    assert_eq!(add(MOST - 7).await.unwrap(), MOST);
    t.changed(&claim, Change::Drain).await;
    assert_eq!(add(-MOST).await.unwrap(), -MOST);
}

fn level(claim: &Claim) -> Event {
    Event::Subscribed(claim.object.clone(), SubscriptionLevel::Releases)
}

async fn subscriber_is_notified_of_free_permits(t: &Bench) {
    let claim = t.permits("published", 1);
    t.other.listen(&claim.object);
    t.received(&level(&claim), 1).await;
    t.changed(&claim, Change::SetIfAbsent(1)).await;
    t.grant(&claim).await;
    t.back(&claim).await;
    t.received(&freed(&claim), 2).await;
    // the store does not publish a negative number, because no waiter can acquire permits
    t.changed(&claim, Change::Add(-3)).await;
    t.changed(&claim, Change::Add(4)).await;
    t.received(&freed(&claim), 3).await;
    t.other.unlisten(&claim.object);
}
