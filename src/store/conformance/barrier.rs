//! The contract of every store for barriers and double barriers.

use super::*;
use crate::store::barrier::{self, Arrival, Members};

pub(super) async fn all(t: &Bench) {
    barrier_opens_for_the_last_member_and_all_before_it(t).await;
    repeated_arrival_counts_once(t).await;
    member_that_leaves_does_not_count(t).await;
    member_with_an_expired_lease_does_not_count(t).await;
    opening_of_a_barrier_is_announced(t).await;
    members_are_inside_until_they_leave(t).await;
    next_generation_enters_when_all_have_left(t).await;
    member_inside_is_renewed_until_its_lease_ends(t).await;
    end_of_a_generation_is_announced(t).await;
}

impl Bench {
    fn member(&self, name: &str) -> Claim {
        let object = self.object(Kind::Barrier, name);
        Claim { share: Share::Nothing, object, ..self.claim(name) }
    }

    /// Sends the arrival of a member. If the barrier has opened for this member, returns the
    /// generation and the index of the member. Otherwise returns the number of arrived members as
    /// an error.
    async fn arrive(&self, claim: &Claim, parties: u32) -> Result<(u64, u32), u32> {
        self.arrive_with(claim, parties, None).await
    }

    async fn arrive_with(
        &self,
        claim: &Claim,
        parties: u32,
        lease: Option<Duration>,
    ) -> Result<(u64, u32), u32> {
        match barrier::arrive(&self.one, claim, parties, lease).await.unwrap() {
            Arrival::Passed { generation, index } => Ok((generation, index)),
            Arrival::Waits(Members { count, some }) => {
                assert!(some.contains(&claim.owner) && some.len() as u32 == count);
                Err(count)
            }
            Arrival::Late => Err(0),
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
        assert_eq!(t.arrive(&one, 2).await, Ok((1, 0)), "a repeated request gets the same reply");
        assert_eq!(t.arrive(&third, 2).await, Err(1), "the others are not in this generation");
    }
    t.leaves(&third).await;
}

impl Bench {
    /// Withdraws a member that waits or is inside. Checks that a repeated withdrawal does nothing.
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

async fn member_with_an_expired_lease_does_not_count(t: &Bench) {
    let short = Duration::from_millis(60);
    let dead = Claim { ttl: short, ..t.member("b-dead") };
    let [one, other] = [(); 2].map(|()| t.member("b-dead"));
    assert_eq!(t.arrive(&one, 3).await, Err(1));
    assert_eq!(t.arrive(&dead, 3).await, Err(2));
    // Each request sets the TTL of the keys. With the short TTL of `dead`, the keys would expire
    // too early, so `one` repeats its request.
    assert_eq!(t.arrive(&one, 3).await, Err(2));
    sleep(2 * short).await;
    assert_eq!(t.arrive(&other, 3).await, Err(2));
    assert_eq!(t.arrive(&dead, 3).await, Ok((1, 2)), "the member arrives again");
}

async fn opening_of_a_barrier_is_announced(t: &Bench) {
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

const LONG: Duration = Duration::from_secs(20);

impl Bench {
    /// Returns a member of a double barrier.
    fn inner(&self, name: &str) -> Claim {
        Claim { object: self.object(Kind::DoubleBarrier, name), ..self.member(name) }
    }

    async fn enter(&self, claim: &Claim, lease: Duration) -> Result<(u64, u32), u32> {
        self.arrive_with(claim, 2, Some(lease)).await
    }

    /// Returns two members that are inside.
    async fn pair(&self, name: &str, lease: Duration) -> [Claim; 2] {
        let [one, other] = [(); 2].map(|()| self.inner(name));
        assert_eq!(self.enter(&one, lease).await, Err(1));
        self.enter(&other, lease).await.unwrap();
        self.enter(&one, lease).await.unwrap();
        [one, other]
    }

    /// Returns how many members are inside, or `None` if all members of `generation` have left.
    async fn inside(&self, name: &str, generation: u64) -> Option<u32> {
        let name = self.object(Kind::DoubleBarrier, name).name;
        let members = barrier::inside(&self.one, &name, generation).await.unwrap()?;
        assert_eq!(members.some.len() as u32, members.count);
        Some(members.count)
    }

    async fn renews(&self, claim: &Claim, ttl: Option<Duration>) -> Outcome {
        let (object, owner) = (claim.object.clone(), claim.owner.clone());
        let renewal = Renewal { object, owner, share: Share::Nothing, ttl };
        self.one.renew(&[renewal]).await.unwrap()[0]
    }
}

async fn members_are_inside_until_they_leave(t: &Bench) {
    let name = "b-inside";
    assert_eq!(t.inside(name, 1).await, None);
    let [one, other] = t.pair(name, LONG).await;
    assert_eq!(t.inside(name, 1).await, Some(2));
    assert_eq!(t.enter(&one, LONG).await, Ok((1, 0)), "a repeated request changes nothing");
    t.leaves(&one).await;
    assert_eq!(t.inside(name, 1).await, Some(1));
    assert_eq!(t.enter(&one, LONG).await, Err(0), "the member has left");
    t.leaves(&other).await;
    assert_eq!(t.inside(name, 1).await, None);
}

async fn next_generation_enters_when_all_have_left(t: &Bench) {
    let name = "b-next";
    let [one, other] = t.pair(name, LONG).await;
    let next = [(); 3].map(|()| t.inner(name));
    for (at, member) in next.iter().enumerate() {
        assert_eq!(t.enter(member, LONG).await, Err(at as u32 + 1));
    }
    t.leaves(&one).await;
    assert_eq!(t.enter(&next[2], LONG).await, Err(3));
    t.leaves(&other).await;
    // Three members wait, but the barrier lets only two of them in.
    assert_eq!(t.enter(&next[2], LONG).await, Ok((2, 1)));
    assert_eq!(t.inside(name, 2).await, Some(2));
    assert_eq!(t.inside(name, 1).await, None, "all of that generation have left");
    let mut entered = 0;
    for member in &next {
        match t.enter(member, LONG).await {
            Ok(_) => entered += 1,
            Err(waiting) => assert_eq!(waiting, 1),
        }
        t.leaves(member).await;
    }
    assert_eq!(entered, 2);
}

async fn member_inside_is_renewed_until_its_lease_ends(t: &Bench) {
    let (name, short) = ("b-lease", Duration::from_millis(100));
    let [one, dead] = t.pair(name, short).await;
    assert_eq!(t.renews(&one, Some(LONG)).await, Outcome::Renewed);
    assert_eq!(t.renews(&dead, None).await, Outcome::Renewed);
    sleep(2 * short).await;
    assert_eq!(t.inside(name, 1).await, Some(1));
    assert_eq!(t.renews(&one, None).await, Outcome::Renewed);
    assert_eq!(t.renews(&dead, Some(LONG)).await, Outcome::NotOwned);
    assert_eq!(t.enter(&dead, LONG).await, Err(0), "the lease of the member has expired");
    t.leaves(&one).await;
    assert_eq!(t.renews(&one, Some(LONG)).await, Outcome::NotOwned);
    assert_eq!(t.inside(name, 1).await, None);
}

async fn end_of_a_generation_is_announced(t: &Bench) {
    let name = "b-end";
    let [one, other] = t.pair(name, LONG).await;
    let level = Event::Subscribed(one.object.clone(), SubscriptionLevel::Releases);
    t.other.listen(&one.object);
    t.received(&level, 1).await;
    let before = t.count(&freed(&one));
    t.leaves(&one).await;
    assert_eq!(t.count(&freed(&one)), before);
    t.leaves(&other).await;
    t.received(&freed(&one), before + 1).await;
    t.other.unlisten(&one.object);
}
