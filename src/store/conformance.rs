//! What every store must do, as plain functions that each store's tests call.
//!
//! Two sessions of one store stand for two clients. Durations are short because
//! on a real server they pass in real time.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Sleepers, Store, Wake};
use crate::domain::{Claim, GivenBack, Identity, Name, Outcome, Renewal, Verdict};

/// Two clients of one store, and what they were told.
pub(crate) struct Bench {
    one: Arc<dyn Store>,
    other: Arc<dyn Store>,
    told: Arc<Told>,
    identity: Identity,
}

#[derive(Default)]
struct Told(Mutex<Vec<Wake>>);

impl Sleepers for Told {
    fn wake(&self, wake: Wake) {
        self.0.lock().unwrap().push(wake);
    }
}

impl Bench {
    pub(crate) fn new(one: Arc<dyn Store>, other: Arc<dyn Store>) -> Self {
        let told = Arc::new(Told::default());
        let sleepers: Arc<dyn Sleepers> = Arc::<Told>::clone(&told);
        other.wake(Arc::downgrade(&sleepers) as Weak<dyn Sleepers>);
        Self { one, other, told, identity: Identity::random() }
    }

    fn claim(&self, name: &str) -> Claim {
        self.claim_for(name, Duration::from_secs(10))
    }

    fn claim_for(&self, name: &str, ttl: Duration) -> Claim {
        let name = Name::new(name).unwrap();
        Claim { name, owner: self.identity.fresh_owner(), ttl, announced: true }
    }

    async fn grant(&self, claim: &Claim) {
        assert_eq!(self.one.acquire(claim).await.unwrap(), Verdict::Granted);
    }

    /// Waits until the other client has been told `wake` so many times.
    async fn told(&self, wake: &Wake, times: usize) {
        let limit = Instant::now() + Duration::from_secs(5);
        while self.count(wake) < times {
            assert!(Instant::now() < limit, "never told {wake:?}, but {:?}", self.told.0.lock());
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(self.count(wake), times, "told {wake:?} too often");
    }

    fn count(&self, wake: &Wake) -> usize {
        self.told.0.lock().unwrap().iter().filter(|told| *told == wake).count()
    }
}

/// Runs every case on `bench`.
pub(crate) async fn all(bench: &Bench) {
    a_free_lock_is_granted_and_a_held_one_names_its_holder(bench).await;
    asking_again_grants_again_and_counts_once(bench).await;
    a_grant_ends_with_its_ttl(bench).await;
    a_renewal_prolongs_only_what_is_still_held(bench).await;
    a_look_does_not_prolong(bench).await;
    a_count_is_set_and_only_by_the_holder(bench).await;
    a_release_frees_whatever_the_count(bench).await;
    a_release_of_nothing_says_who_holds(bench).await;
    a_forced_release_frees_anybodys_hold_once(bench).await;
    who_listens_is_told_of_each_release(bench).await;
    an_unannounced_release_tells_nobody(bench).await;
    who_stops_listening_is_told_nothing(bench).await;
    names_that_differ_in_odd_characters_are_different_locks(bench).await;
}

async fn a_free_lock_is_granted_and_a_held_one_names_its_holder(t: &Bench) {
    let (mine, yours) = (t.claim("free"), t.claim("free"));
    assert_eq!(t.one.holder(&mine.name).await.unwrap(), None);
    t.grant(&mine).await;

    let Verdict::Busy(holder) = t.other.acquire(&yours).await.unwrap() else { panic!("granted") };
    assert_eq!((holder.owner(), holder.count()), (&mine.owner, 1));
    let remaining = holder.remaining().unwrap();
    assert!(remaining <= mine.ttl && remaining > mine.ttl / 2, "{remaining:?}");

    let seen = t.other.holder(&mine.name).await.unwrap().unwrap();
    assert_eq!(seen.owner(), &mine.owner);
    assert_eq!(t.other.held_by(&mine.name, &mine.owner).await.unwrap(), 1);
    assert_eq!(t.other.held_by(&mine.name, &yours.owner).await.unwrap(), 0);
}

async fn asking_again_grants_again_and_counts_once(t: &Bench) {
    let claim = t.claim("again");
    t.grant(&claim).await;
    t.grant(&claim).await;
    assert_eq!(t.one.held_by(&claim.name, &claim.owner).await.unwrap(), 1);
    assert_eq!(t.one.release(&claim).await.unwrap(), GivenBack::Freed);
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn a_grant_ends_with_its_ttl(t: &Bench) {
    let claim = t.claim_for("short", Duration::from_millis(60));
    t.grant(&claim).await;
    sleep(Duration::from_millis(80)).await;
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
    assert_eq!(t.other.acquire(&t.claim("short")).await.unwrap(), Verdict::Granted);
}

async fn a_renewal_prolongs_only_what_is_still_held(t: &Bench) {
    let held = t.claim_for("renewed", Duration::from_millis(300));
    let gone = t.claim("renewed-gone");
    t.grant(&held).await;
    let renewal = |claim: &Claim| Renewal {
        name: claim.name.clone(),
        owner: claim.owner.clone(),
        ttl: Some(Duration::from_secs(10)),
    };
    let foreign = Renewal { owner: gone.owner.clone(), ..renewal(&held) };
    let outcomes = t.one.renew(&[renewal(&gone), renewal(&held), foreign]).await.unwrap();
    assert_eq!(outcomes, [Outcome::NotOurs, Outcome::Renewed, Outcome::NotOurs]);

    let remaining = t.one.holder(&held.name).await.unwrap().unwrap().remaining().unwrap();
    assert!(remaining > Duration::from_secs(5), "{remaining:?}");
    assert_eq!(t.one.holder(&gone.name).await.unwrap(), None, "a renewal must not create");
    assert_eq!(t.one.renew(&[]).await.unwrap(), []);
}

async fn a_look_does_not_prolong(t: &Bench) {
    let claim = t.claim_for("looked-at", Duration::from_millis(500));
    t.grant(&claim).await;
    let look = Renewal { name: claim.name.clone(), owner: claim.owner.clone(), ttl: None };
    assert_eq!(t.one.renew(&[look]).await.unwrap(), [Outcome::Renewed]);
    assert_eq!(t.one.recount(&claim, 2, None).await.unwrap(), Outcome::Renewed);
    let remaining = t.one.holder(&claim.name).await.unwrap().unwrap().remaining().unwrap();
    assert!(remaining <= claim.ttl, "{remaining:?}");
}

async fn a_count_is_set_and_only_by_the_holder(t: &Bench) {
    let claim = t.claim("counted");
    let ttl = Some(claim.ttl);
    assert_eq!(t.one.recount(&claim, 2, ttl).await.unwrap(), Outcome::NotOurs);
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None, "a count must not create");

    t.grant(&claim).await;
    for count in [2, 2, 3, 1] {
        assert_eq!(t.one.recount(&claim, count, ttl).await.unwrap(), Outcome::Renewed);
        assert_eq!(t.one.held_by(&claim.name, &claim.owner).await.unwrap(), count);
    }
    assert_eq!(t.one.recount(&t.claim("counted"), 5, ttl).await.unwrap(), Outcome::NotOurs);
    assert_eq!(t.one.held_by(&claim.name, &claim.owner).await.unwrap(), 1);
}

async fn a_release_frees_whatever_the_count(t: &Bench) {
    let claim = t.claim("twice");
    t.grant(&claim).await;
    t.one.recount(&claim, 2, None).await.unwrap();
    assert_eq!(t.one.release(&claim).await.unwrap(), GivenBack::Freed);
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn a_release_of_nothing_says_who_holds(t: &Bench) {
    let (mine, yours) = (t.claim("not-held"), t.claim("not-held"));
    assert_eq!(t.one.release(&mine).await.unwrap(), GivenBack::NotHeld { holder: None });
    t.grant(&yours).await;
    let GivenBack::NotHeld { holder: Some(holder) } = t.one.release(&mine).await.unwrap() else {
        panic!("released what was not ours")
    };
    assert_eq!(holder.owner(), &yours.owner);
    assert_eq!(t.one.held_by(&yours.name, &yours.owner).await.unwrap(), 1);
}

async fn a_forced_release_frees_anybodys_hold_once(t: &Bench) {
    let claim = t.claim("forced");
    t.grant(&claim).await;
    assert!(t.other.force_release(&claim.name).await.unwrap());
    assert!(!t.other.force_release(&claim.name).await.unwrap());
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn who_listens_is_told_of_each_release(t: &Bench) {
    let claim = t.claim("heard");
    let released = Wake::Released(claim.name.clone());
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;

    t.grant(&claim).await;
    t.one.release(&claim).await.unwrap();
    t.told(&released, 1).await;
    t.one.release(&claim).await.unwrap();

    t.grant(&claim).await;
    t.other.force_release(&claim.name).await.unwrap();
    t.told(&released, 2).await;
    t.other.unlisten(&claim.name);
}

async fn an_unannounced_release_tells_nobody(t: &Bench) {
    let claim = Claim { announced: false, ..t.claim("quiet") };
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;
    t.grant(&claim).await;
    t.one.release(&claim).await.unwrap();
    sleep(Duration::from_millis(30)).await;
    t.told(&Wake::Released(claim.name.clone()), 0).await;
    t.other.unlisten(&claim.name);
}

async fn who_stops_listening_is_told_nothing(t: &Bench) {
    let claim = t.claim("unheard");
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;
    t.other.unlisten(&claim.name);
    sleep(Duration::from_millis(30)).await;
    t.grant(&claim).await;
    t.one.release(&claim).await.unwrap();
    sleep(Duration::from_millis(30)).await;
    t.told(&Wake::Released(claim.name.clone()), 0).await;

    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 2).await;
    t.other.unlisten(&claim.name);
}

async fn names_that_differ_in_odd_characters_are_different_locks(t: &Bench) {
    let names = ["odd", "odd ", "odd\n", "odd\0", "odd\r\n", "ödd", "{odd}", "{odd}\u{7f}", "🔒"];
    for name in names {
        t.grant(&t.claim(name)).await;
    }
    for name in names {
        let busy = t.other.acquire(&t.claim(name)).await.unwrap();
        assert!(matches!(busy, Verdict::Busy(_)), "{name:?}");
    }
}
