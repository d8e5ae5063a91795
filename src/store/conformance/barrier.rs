//! The contract of every store for barriers.

use super::*;
use crate::store::barrier::{self, Arrival};

pub(super) async fn all(t: &Bench) {
    barrier_opens_for_the_last_member_and_all_before_it(t).await;
    repeated_arrival_counts_once(t).await;
    member_that_leaves_does_not_count(t).await;
    silent_member_does_not_count(t).await;
    opening_is_announced(t).await;
}

impl Bench {
    fn member(&self, name: &str) -> Claim {
        let object = self.object(Kind::Barrier, name);
        Claim { share: Share::Nothing, object, ..self.claim(name) }
    }

    /// How many members have arrived, or as which it has passed.
    async fn arrive(&self, claim: &Claim, parties: u32) -> Result<(u64, u32), u32> {
        match barrier::arrive(&self.one, claim, parties).await.unwrap() {
            Arrival::Passed { generation, index } => Ok((generation, index)),
            Arrival::Waits { count, members } => {
                assert!(members.contains(&claim.owner) && members.len() as u32 == count);
                Err(count)
            }
        }
    }
}

async fn barrier_opens_for_the_last_member_and_all_before_it(t: &Bench) {
    for generation in 1..=3 {
        let members = [(); 3].map(|()| t.member("b-opens"));
        assert_eq!(t.arrive(&members[0], 3).await, Err(1));
        assert_eq!(t.arrive(&members[1], 3).await, Err(2));
        assert_eq!(t.arrive(&members[2], 3).await, Ok((generation, 2)));
        let mut others = [t.arrive(&members[1], 3).await, t.arrive(&members[0], 3).await];
        others.sort_unstable();
        assert_eq!(others, [Ok((generation, 0)), Ok((generation, 1))]);
    }
    assert_eq!(t.arrive(&t.member("b-one"), 1).await, Ok((1, 0)));
}

async fn repeated_arrival_counts_once(t: &Bench) {
    let [one, other, third] = [(); 3].map(|()| t.member("b-repeated"));
    for _ in 0..3 {
        assert_eq!(t.arrive(&one, 2).await, Err(1));
    }
    for _ in 0..2 {
        assert_eq!(t.arrive(&other, 2).await, Ok((1, 1)));
        assert_eq!(t.arrive(&one, 2).await, Ok((1, 0)), "the reply was lost");
        assert_eq!(t.arrive(&third, 2).await, Err(1), "the others are not in this generation");
    }
    t.leaves(&third).await;
}

impl Bench {
    /// Withdraws a member that is there.
    async fn leaves(&self, claim: &Claim) {
        let left = self.one.release(claim, ReleaseMode::Leave).await.unwrap();
        assert_eq!(left, ReleaseReply::Freed(RemoteWaiters::Nobody));
        let again = self.one.release(claim, ReleaseMode::Leave).await.unwrap();
        assert_eq!(again, ReleaseReply::NotHeld { holder: None });
    }
}

async fn member_that_leaves_does_not_count(t: &Bench) {
    let [one, other, third] = [(); 3].map(|()| t.member("b-left"));
    assert_eq!(t.arrive(&one, 2).await, Err(1));
    t.leaves(&one).await;
    assert_eq!(t.arrive(&other, 2).await, Err(1));
    assert_eq!(t.arrive(&third, 2).await, Ok((1, 1)));
    assert_eq!(t.arrive(&one, 2).await, Err(1));
    t.leaves(&one).await;
}

async fn silent_member_does_not_count(t: &Bench) {
    let short = Duration::from_millis(60);
    let dead = Claim { ttl: short, ..t.member("b-dead") };
    let [one, other] = [(); 2].map(|()| t.member("b-dead"));
    assert_eq!(t.arrive(&one, 3).await, Err(1));
    assert_eq!(t.arrive(&dead, 3).await, Err(2));
    // The keys live as long as the last arrival says.
    assert_eq!(t.arrive(&one, 3).await, Err(2));
    sleep(2 * short).await;
    assert_eq!(t.arrive(&other, 3).await, Err(2));
    assert_eq!(t.arrive(&dead, 3).await, Ok((1, 2)), "it lives again");
}

async fn opening_is_announced(t: &Bench) {
    let [one, other] = [(); 2].map(|()| t.member("b-announced"));
    let level = Event::Subscribed(one.object.clone(), SubscriptionLevel::Releases);
    t.other.listen(&one.object);
    t.received(&level, 1).await;
    assert_eq!(t.arrive(&one, 2).await, Err(1));
    assert_eq!(t.count(&freed(&one)), 0);
    t.arrive(&other, 2).await.unwrap();
    t.received(&freed(&one), 1).await;
    t.other.unlisten(&one.object);
}
