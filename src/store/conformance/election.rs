//! The contract of every store for elections.

use super::*;
use crate::store::election;

pub(super) async fn all(t: &Bench) {
    leader_is_known_by_its_record(t).await;
    record_of_a_former_leader_is_ignored(t).await;
    renewal_keeps_the_record(t).await;
    observers_are_notified_of_a_new_leader_record(t).await;
}

impl Bench {
    fn candidate(&self, name: &str, ttl: Duration) -> Claim {
        let object = self.object(Kind::Election, name);
        Claim { share: Share::FENCED, object, ..self.claim_for(name, ttl) }
    }

    /// Makes the owner of the claim the leader. Returns the number of the term.
    async fn lead(&self, claim: &Claim) -> u64 {
        match self.one.acquire(claim, None).await.unwrap() {
            Verdict::Granted { token: Some(term), .. } => term.get(),
            other => panic!("{other:?}"),
        }
    }

    async fn proclaim(&self, claim: &Claim, term: u64, value: &str) -> bool {
        election::proclaim(&self.one, claim, term, value).await.unwrap()
    }

    /// Returns the owner of the leader, and its value if it has written a record.
    async fn led_by(&self, claim: &Claim) -> Option<(Owner, Option<String>)> {
        let leader = election::leader(&self.other, claim.name()).await.unwrap()?;
        Some((leader.owner().clone(), leader.value().map(str::to_owned)))
    }
}

const TTL: Duration = Duration::from_secs(10);

async fn leader_is_known_by_its_record(t: &Bench) {
    let [one, other] = [(); 2].map(|()| t.candidate("e-led", TTL));
    assert_eq!(t.led_by(&one).await, None);
    assert!(!t.proclaim(&one, 1, "early").await, "no candidate leads");

    let term = t.lead(&one).await;
    assert_eq!(t.led_by(&one).await, Some((one.owner.clone(), None)));
    assert!(!t.proclaim(&other, term, "another").await);
    for value in ["one", "one", "ready \n🔒", ""] {
        assert!(t.proclaim(&one, term, value).await);
        assert_eq!(t.led_by(&one).await, Some((one.owner.clone(), Some(value.to_owned()))));
    }
    let leader = async || election::leader(&t.one, one.name()).await.unwrap().unwrap();
    let before = leader().await;
    assert!(before.term() == Some(term) && before.remaining().is_some_and(|left| left <= TTL));
    sleep(Duration::from_millis(5)).await;
    t.proclaim(&one, term, "again").await;
    assert_eq!(leader().await.since(), before.since());

    t.broadcast(&one).await;
    assert_eq!(t.led_by(&one).await, None);
    assert!(!t.proclaim(&one, term, "late").await);
}

async fn record_of_a_former_leader_is_ignored(t: &Bench) {
    let [one, other] = [(); 2].map(|()| t.candidate("e-followed", TTL));
    let term = t.lead(&one).await;
    t.proclaim(&one, term, "one").await;
    assert!(t.other.force_release(&one.object).await.unwrap());
    assert_eq!(t.led_by(&one).await, None);

    let next = t.lead(&other).await;
    assert!(next > term);
    assert_eq!(t.led_by(&one).await, Some((other.owner.clone(), None)));
    assert!(!t.proclaim(&one, term, "late").await);
    t.proclaim(&other, next, "other").await;
    assert_eq!(t.led_by(&one).await, Some((other.owner.clone(), Some("other".into()))));
    t.broadcast(&other).await;
}

async fn renewal_keeps_the_record(t: &Bench) {
    let short = Duration::from_millis(150);
    let leaders = ["e-renewed", "e-renewed-2"].map(|name| t.candidate(name, short));
    for claim in &leaders {
        let term = t.lead(claim).await;
        t.proclaim(claim, term, "here").await;
    }
    for claim in &leaders {
        let renewed = t.one.renew(&[renewal(claim, Some(TTL))]).await.unwrap();
        assert_eq!(renewed, [Outcome::Renewed]);
    }
    sleep(2 * short).await;
    for claim in &leaders {
        assert_eq!(t.led_by(claim).await, Some((claim.owner.clone(), Some("here".into()))));
        t.broadcast(claim).await;
        assert_eq!(t.one.renew(&[renewal(claim, None)]).await.unwrap(), [Outcome::NotOwned]);
    }
}

async fn observers_are_notified_of_a_new_leader_record(t: &Bench) {
    let claim = t.candidate("e-observed", TTL);
    t.other.listen(&claim.object);
    t.received(&listening(&claim), 1).await;
    let term = t.lead(&claim).await;
    t.proclaim(&claim, term, "one").await;
    let changed = Event::Changed { object: claim.object.clone() };
    t.received(&changed, 1).await;
    t.broadcast(&claim).await;
    t.received(&freed(&claim), 1).await;
    t.received(&changed, 1).await;
    t.other.unlisten(&claim.object);
}
