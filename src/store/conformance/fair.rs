//! The contract of every store for fair locks.

use super::*;

pub(super) async fn all(t: &Bench) {
    waiters_acquire_in_order_of_arrival(t).await;
    repeated_requests_of_a_waiter_keep_its_position(t).await;
    repeated_grant_counts_once(t).await;
    release_notifies_only_the_head_of_the_queue(t).await;
    withdrawn_head_passes_its_notification_on(t).await;
    withdrawal_keeps_the_order_of_the_other_waiters(t).await;
    try_acquire_never_queues_or_overtakes_a_waiter(t).await;
    forced_release_notifies_the_head(t).await;
    fair_lock_holder_works_like_a_plain_lock_holder(t).await;
    plain_lock_of_a_fair_name_excludes_and_overtakes_waiters(t).await;
}

const WAITS: Option<Place> = Some(Place::Kept);

fn listening(claim: &Claim) -> Event {
    Event::Subscribed(claim.object.clone(), SubscriptionLevel::Releases)
}

impl Bench {
    fn fair(&self, name: &str) -> Claim {
        let claim = self.claim(name);
        let object = self.object(Kind::Fair, name).for_task(claim.owner.clone());
        Claim { object, ..claim }
    }

    /// Returns claims to one fair lock. The first claim is granted, and the other claims wait in
    /// this order.
    async fn in_order<const N: usize>(&self, name: &str) -> [Claim; N] {
        let claims = [name; N].map(|name| self.fair(name));
        let [first, waiting @ ..] = claims.as_slice() else {
            panic!("at least one claim is needed")
        };
        self.grant(first).await;
        for (waiter, store) in waiting.iter().zip([&self.other, &self.one].into_iter().cycle()) {
            let busy = store.acquire(waiter, WAITS).await.unwrap();
            assert_eq!(named(&busy), Some((first.owner.clone(), 1)));
        }
        claims
    }

    async fn ask(&self, claim: &Claim) -> Verdict {
        self.other.acquire(claim, WAITS).await.unwrap()
    }

    /// Releases the hold of `claim`.
    async fn frees(&self, claim: &Claim) {
        let given = self.one.release(claim, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(given, ReleaseReply::Freed(RemoteWaiters::Nobody));
    }

    /// Lets each claim acquire and release the lock, in this order.
    async fn take_turns<const N: usize>(&self, claims: [&Claim; N]) {
        for claim in claims {
            assert_eq!(self.ask(claim).await, Verdict::GRANTED);
            self.frees(claim).await;
        }
    }

    async fn withdraws(&self, claim: &Claim) {
        let given = self.one.release(claim, ReleaseMode::Leave).await.unwrap();
        assert!(matches!(given, ReleaseReply::NotHeld { .. }), "{given:?}");
    }
}

/// Returns the owner and the hold count of the holder in a busy verdict.
fn named(verdict: &Verdict) -> Option<(Owner, u32)> {
    let Verdict::Busy(Taken { holder: Some(holder), .. }) = verdict else { return None };
    Some((holder.owner.clone(), holder.count))
}

async fn waiters_acquire_in_order_of_arrival(t: &Bench) {
    let claims: [Claim; 4] = t.in_order("ordered").await;
    for (before, pair) in claims.windows(2).enumerate() {
        t.frees(&pair[0]).await;
        let head = Some((pair[1].owner.clone(), 0));
        for later in claims.iter().skip(before + 2) {
            assert_eq!(named(&t.ask(later).await), head);
        }
        assert_eq!(t.ask(&pair[1]).await, Verdict::GRANTED);
    }
    t.frees(&claims[3]).await;
    assert_eq!(t.one.holder(&claims[0].object).await.unwrap(), None);
}

async fn repeated_requests_of_a_waiter_keep_its_position(t: &Bench) {
    let [held, first, second] = t.in_order("repeating").await;
    for _ in 0..3 {
        assert!(matches!(t.ask(&second).await, Verdict::Busy(_)));
        assert!(matches!(t.ask(&first).await, Verdict::Busy(_)));
    }
    t.frees(&held).await;
    assert_eq!(named(&t.ask(&second).await), Some((first.owner.clone(), 0)));
    t.take_turns([&first, &second]).await;
}

async fn repeated_grant_counts_once(t: &Bench) {
    let [held, next] = t.in_order("repeated").await;
    for _ in 0..2 {
        assert_eq!(t.ask(&held).await, Verdict::GRANTED);
        assert_eq!(t.one.held_by(&held.object, &held.owner).await.unwrap(), 1);
    }
    t.frees(&held).await;
    t.take_turns([&next]).await;
}

async fn release_notifies_only_the_head_of_the_queue(t: &Bench) {
    let [held, first, second] = t.in_order("notified").await;
    for waiter in [&first, &second] {
        t.other.listen(&waiter.object);
        t.received(&listening(waiter), 1).await;
    }
    t.frees(&held).await;
    t.received(&freed(&first), 1).await;
    t.take_turns([&first]).await;
    t.received(&freed(&second), 1).await;
    assert_eq!(t.count(&freed(&first)), 1);
    t.take_turns([&second]).await;
    [first, second].iter().for_each(|waiter| t.other.unlisten(&waiter.object));
}

async fn withdrawn_head_passes_its_notification_on(t: &Bench) {
    let [held, first, second] = t.in_order("passed").await;
    t.other.listen(&second.object);
    t.received(&listening(&second), 1).await;
    t.frees(&held).await;
    t.withdraws(&first).await;
    t.received(&freed(&second), 1).await;
    t.take_turns([&second]).await;
    t.other.unlisten(&second.object);
}

async fn withdrawal_keeps_the_order_of_the_other_waiters(t: &Bench) {
    let [held, first, second, third] = t.in_order("left").await;
    t.withdraws(&second).await;
    t.withdraws(&second).await;
    t.frees(&held).await;
    t.take_turns([&first, &third, &second]).await;
}

async fn try_acquire_never_queues_or_overtakes_a_waiter(t: &Bench) {
    let [held, waiter] = t.in_order("tried").await;
    let tries = t.fair("tried");
    let busy = t.one.acquire(&tries, None).await.unwrap();
    assert_eq!(named(&busy), Some((held.owner.clone(), 1)));
    t.frees(&held).await;
    let busy = t.one.acquire(&tries, None).await.unwrap();
    assert_eq!(named(&busy), Some((waiter.owner.clone(), 0)));
    t.take_turns([&waiter]).await;
    assert_eq!(t.one.acquire(&tries, None).await.unwrap(), Verdict::GRANTED);
    t.frees(&tries).await;
}

async fn forced_release_notifies_the_head(t: &Bench) {
    let [held, waiter] = t.in_order("forced-fair").await;
    t.other.listen(&waiter.object);
    t.received(&listening(&waiter), 1).await;
    assert!(t.one.force_release(&held.object).await.unwrap());
    t.received(&freed(&waiter), 1).await;
    assert!(!t.one.force_release(&held.object).await.unwrap());
    t.take_turns([&waiter]).await;
    t.other.unlisten(&waiter.object);
}

async fn fair_lock_holder_works_like_a_plain_lock_holder(t: &Bench) {
    let [held, waiter] = t.in_order("kept").await;
    assert_eq!(t.one.recount(&held, 2, None).await.unwrap(), Outcome::Renewed);
    assert_eq!(t.one.held_by(&held.object, &held.owner).await.unwrap(), 2);
    let renewals = [&held, &waiter].map(|claim| renewal(claim, Some(Duration::from_secs(20))));
    let renewed = t.one.renew(&renewals).await.unwrap();
    assert_eq!(renewed, [Outcome::Renewed, Outcome::NotOwned]);
    let holder = t.other.holder(&held.object).await.unwrap().unwrap();
    assert_eq!((holder.owner(), holder.count()), (&held.owner, 2));
    assert!(holder.remaining().is_some_and(|left| left > Duration::from_secs(15)));
    t.frees(&held).await;
    t.take_turns([&waiter]).await;
}

async fn plain_lock_of_a_fair_name_excludes_and_overtakes_waiters(t: &Bench) {
    let [held, waiter] = t.in_order("shared-name").await;
    let plain = t.claim("shared-name");
    assert!(matches!(t.one.acquire(&plain, None).await.unwrap(), Verdict::Busy(_)));
    t.frees(&held).await;
    t.grant(&plain).await;
    assert_eq!(named(&t.ask(&waiter).await), Some((plain.owner.clone(), 1)));
    t.broadcast(&plain).await;
    t.take_turns([&waiter]).await;
}
