//! The contract of every store for latches.

use super::*;
use crate::{
    domain::Kind,
    store::latch::{self, Change},
};

pub(super) async fn all(t: &Bench) {
    latch_is_closed_until_it_is_counted_down(t).await;
    repeated_change_of_a_latch_counts_once(t).await;
    deleted_latch_is_open(t).await;
    unset_latch_is_open_and_can_be_set(t).await;
    subscriber_is_notified_when_the_latch_opens(t).await;
}

impl Bench {
    fn latch(&self, name: &str) -> Claim {
        let object = self.object(Kind::Latch, name);
        Claim { share: Share::Nothing, object, ..self.claim(name) }
    }

    async fn count_to(&self, claim: &Claim, change: Change) -> i64 {
        let receipt = self.identity.fresh_owner();
        latch::change(&self.one, claim.name(), change, &receipt).await.unwrap()
    }

    async fn is_open(&self, claim: &Claim) -> bool {
        let open = self.other.acquire(claim, None).await.unwrap() == Verdict::GRANTED;
        assert_eq!(latch::count(&self.one, claim.name()).await.unwrap() == 0, open);
        open
    }
}

async fn latch_is_closed_until_it_is_counted_down(t: &Bench) {
    let latch = t.latch("start");
    assert!(t.is_open(&latch).await);
    assert_eq!(t.count_to(&latch, Change::CountDown).await, 0);
    for _ in 0..2 {
        assert_eq!(t.count_to(&latch, Change::SetIfAbsent(2)).await, 1);
        assert_eq!(t.count_to(&latch, Change::SetIfAbsent(5)).await, 0);
        assert!(!t.is_open(&latch).await);
        assert_eq!(t.count_to(&latch, Change::CountDown).await, 1);
        assert!(!t.is_open(&latch).await);
        assert_eq!(t.count_to(&latch, Change::CountDown).await, 0);
        assert!(t.is_open(&latch).await);
        assert_eq!(t.count_to(&latch, Change::CountDown).await, 0);
    }
}

async fn repeated_change_of_a_latch_counts_once(t: &Bench) {
    let latch = t.latch("once");
    let [set, down, deleted] = [(); 3].map(|()| t.identity.fresh_owner());
    for _ in 0..3 {
        let change = async |change, receipt: &Owner| {
            latch::change(&t.one, latch.name(), change, receipt).await
        };
        assert_eq!(change(Change::SetIfAbsent(3), &set).await.unwrap(), 1);
        assert_eq!(change(Change::CountDown, &down).await.unwrap(), 2);
    }
    assert_eq!(latch::count(&t.one, latch.name()).await.unwrap(), 2);
    for _ in 0..2 {
        let gone = latch::change(&t.one, latch.name(), Change::Delete, &deleted).await.unwrap();
        assert_eq!(gone, 1);
        t.count_to(&latch, Change::SetIfAbsent(1)).await;
    }
    assert!(!t.is_open(&latch).await);
}

async fn deleted_latch_is_open(t: &Bench) {
    let latch = t.latch("deleted");
    assert_eq!(t.count_to(&latch, Change::Delete).await, 0);
    t.count_to(&latch, Change::SetIfAbsent(2)).await;
    assert_eq!(t.count_to(&latch, Change::Delete).await, 1);
    assert!(t.is_open(&latch).await);
}

/// This test sets a count of zero, as another program may do. Leasehold itself never sets it.
async fn unset_latch_is_open_and_can_be_set(t: &Bench) {
    let latch = t.latch("none");
    for _ in 0..2 {
        assert_eq!(t.count_to(&latch, Change::SetIfAbsent(0)).await, 1);
        assert!(t.is_open(&latch).await);
    }
    assert_eq!(t.count_to(&latch, Change::CountDown).await, 0);
    assert_eq!(t.count_to(&latch, Change::Delete).await, 0, "the latch no longer exists");
    t.count_to(&latch, Change::SetIfAbsent(0)).await;
    assert_eq!(t.count_to(&latch, Change::SetIfAbsent(2)).await, 1);
    assert!(!t.is_open(&latch).await);
    t.count_to(&latch, Change::Delete).await;
}

async fn subscriber_is_notified_when_the_latch_opens(t: &Bench) {
    let latch = t.latch("opens");
    let level = Event::Subscribed(latch.object.clone(), SubscriptionLevel::Releases);
    t.other.listen(&latch.object);
    t.received(&level, 1).await;
    // the store also publishes that the latch closes, and waiters then send a request
    t.count_to(&latch, Change::SetIfAbsent(2)).await;
    t.received(&freed(&latch), 1).await;
    t.count_to(&latch, Change::CountDown).await;
    t.count_to(&latch, Change::CountDown).await;
    t.received(&freed(&latch), 2).await;
    t.count_to(&latch, Change::SetIfAbsent(1)).await;
    t.count_to(&latch, Change::Delete).await;
    t.received(&freed(&latch), 4).await;
    t.other.unlisten(&latch.object);
}
