//! What every store must do, as plain functions that each store's tests call.
//!
//! Two sessions of one store stand for two clients. Durations are short because
//! on a real server they pass in real time.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Sleepers, Store, TOLD_AFTER, Wake};
use crate::domain::{
    Claim, GivenBack, Identity, Name, Offer, Others, Outcome, Owner, Place, Queueing, Renewal,
    Verdict, Way,
};

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
    /// `other` is the store of the client called `id`.
    pub(crate) fn new(one: Arc<dyn Store>, other: Arc<dyn Store>, id: &str) -> Self {
        let told = Arc::new(Told::default());
        let sleepers: Arc<dyn Sleepers> = Arc::<Told>::clone(&told);
        other.wake(Arc::downgrade(&sleepers) as Weak<dyn Sleepers>);
        Self { one, other, told, identity: Identity::of(id) }
    }

    fn claim(&self, name: &str) -> Claim {
        self.claim_for(name, Duration::from_secs(10))
    }

    fn claim_for(&self, name: &str, ttl: Duration) -> Claim {
        let name = Name::new(name).unwrap();
        Claim { name, owner: self.identity.fresh_owner(), ttl, announced: true }
    }

    /// Has the other client ask for a busy lock, and take a place in its queue.
    async fn queue(&self, claim: &Claim, number: u64, before: Option<u64>) {
        let place = |number| Place { number, offer: claim.ttl };
        let queueing = Queueing { place: place(number), before: before.map(place) };
        while !self.other.attend() {
            sleep(Duration::from_millis(1)).await;
        }
        let verdict = self.other.acquire(claim, Some(queueing)).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy(_)), "{verdict:?}");
    }

    /// Gives `claim` back in turn, so often in a row.
    async fn pass_on(&self, claim: &Claim, passes: u32) {
        let way = Way::InTurn { passes, stood: None };
        assert_eq!(self.one.release(claim, way).await.unwrap(), GivenBack::Freed(Others::Nobody));
    }

    async fn owner_of(&self, claim: &Claim) -> Option<Owner> {
        self.one.holder(&claim.name).await.unwrap().map(|holder| holder.owner)
    }

    async fn grant(&self, claim: &Claim) {
        assert_eq!(self.one.acquire(claim, None).await.unwrap(), Verdict::Granted);
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
    a_release_knows_whether_others_listen(bench).await;
    an_unannounced_release_tells_nobody(bench).await;
    who_stops_listening_is_told_nothing(bench).await;
    names_that_differ_in_odd_characters_are_different_locks(bench).await;
    a_release_in_turn_grants_the_lock_to_the_first_in_its_queue(bench).await;
    a_place_is_kept_by_asking_again_and_lost_by_leaving(bench).await;
    a_release_in_turn_with_an_empty_queue_wakes_everybody(bench).await;
    a_grant_to_a_place_ends_with_its_offer(bench).await;
    who_enters_by_asking_leaves_the_queue(bench).await;
    who_has_waited_for_long_is_told_when_it_is_first(bench).await;
    a_release_to_nobody_tells_the_first_alone(bench).await;
}

async fn a_free_lock_is_granted_and_a_held_one_names_its_holder(t: &Bench) {
    let (mine, yours) = (t.claim("free"), t.claim("free"));
    assert_eq!(t.one.holder(&mine.name).await.unwrap(), None);
    t.grant(&mine).await;

    let Verdict::Busy(holder) = t.other.acquire(&yours, None).await.unwrap() else {
        panic!("granted")
    };
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
    assert_eq!(t.one.release(&claim, Way::Openly).await.unwrap(), GivenBack::Freed(Others::Nobody));
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn a_grant_ends_with_its_ttl(t: &Bench) {
    let claim = t.claim_for("short", Duration::from_millis(60));
    t.grant(&claim).await;
    sleep(Duration::from_millis(80)).await;
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
    assert_eq!(t.other.acquire(&t.claim("short"), None).await.unwrap(), Verdict::Granted);
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
    assert_eq!(t.one.release(&claim, Way::Openly).await.unwrap(), GivenBack::Freed(Others::Nobody));
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn a_release_of_nothing_says_who_holds(t: &Bench) {
    let (mine, yours) = (t.claim("not-held"), t.claim("not-held"));
    assert_eq!(
        t.one.release(&mine, Way::Openly).await.unwrap(),
        GivenBack::NotHeld { holder: None }
    );
    t.grant(&yours).await;
    let GivenBack::NotHeld { holder: Some(holder) } =
        t.one.release(&mine, Way::Openly).await.unwrap()
    else {
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
    t.one.release(&claim, Way::Openly).await.unwrap();
    t.told(&released, 1).await;

    t.grant(&claim).await;
    t.other.force_release(&claim.name).await.unwrap();
    t.told(&released, 2).await;
    t.other.unlisten(&claim.name);
}

async fn a_release_knows_whether_others_listen(t: &Bench) {
    let claim = t.claim("sought");
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;
    for (releases, sought) in
        [(&t.one, Others::Listeners), (&t.other, Others::Nobody), (&t.one, Others::Listeners)]
    {
        t.grant(&claim).await;
        let given = releases.release(&claim, Way::Openly).await.unwrap();
        assert_eq!(given, GivenBack::Freed(sought));
    }
    t.other.unlisten(&claim.name);
}

async fn an_unannounced_release_tells_nobody(t: &Bench) {
    let claim = Claim { announced: false, ..t.claim("quiet") };
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;
    t.grant(&claim).await;
    t.one.release(&claim, Way::Openly).await.unwrap();
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
    t.one.release(&claim, Way::Openly).await.unwrap();
    sleep(Duration::from_millis(30)).await;
    t.told(&Wake::Released(claim.name.clone()), 0).await;

    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 2).await;
    t.other.unlisten(&claim.name);
}

fn offer(claim: &Claim, number: u64, passes: u32) -> Wake {
    let (name, owner) = (claim.name.clone(), claim.owner.clone());
    Wake::Granted(Offer { name, owner, number, passes })
}

async fn a_release_in_turn_grants_the_lock_to_the_first_in_its_queue(t: &Bench) {
    let [held, first, second] = ["turns"; 3].map(|name| t.claim(name));
    t.grant(&held).await;
    t.queue(&first, 1, None).await;
    t.queue(&second, 1, None).await;

    t.pass_on(&held, 1).await;
    assert_eq!(t.owner_of(&held).await, Some(first.owner.clone()));
    assert_eq!(t.one.held_by(&held.name, &first.owner).await.unwrap(), 1);
    t.told(&offer(&first, 1, 1), 1).await;

    // asking again grants it again, as ever
    assert_eq!(t.other.acquire(&first, None).await.unwrap(), Verdict::Granted);

    t.pass_on(&first, 2).await;
    assert_eq!(t.owner_of(&held).await, Some(second.owner.clone()));
    t.told(&offer(&second, 1, 2), 1).await;
    t.told(&Wake::Released(held.name.clone()), 0).await;
    t.pass_on(&second, 3).await;
    assert_eq!(t.owner_of(&held).await, None);
}

async fn a_place_is_kept_by_asking_again_and_lost_by_leaving(t: &Bench) {
    let [held, first, second, third] = ["places"; 4].map(|name| t.claim(name));
    t.grant(&held).await;
    for claim in [&first, &second, &third] {
        t.queue(claim, 1, None).await;
    }
    t.queue(&second, 2, Some(1)).await;
    let place = Place { number: 1, offer: first.ttl };
    let stood = Some(Queueing { place, before: None });
    let left = t.other.release(&first, Way::InTurn { passes: 1, stood }).await.unwrap();
    assert!(matches!(left, GivenBack::NotHeld { holder: Some(_) }), "{left:?}");

    t.pass_on(&held, 1).await;
    t.told(&offer(&second, 2, 1), 1).await;
    t.pass_on(&second, 2).await;
    t.told(&offer(&third, 1, 2), 1).await;
    t.pass_on(&third, 3).await;
    assert_eq!(t.owner_of(&held).await, None);
}

async fn a_release_in_turn_with_an_empty_queue_wakes_everybody(t: &Bench) {
    let claim = t.claim("nobody-queues");
    t.other.listen(&claim.name);
    t.told(&Wake::Listening(claim.name.clone()), 1).await;
    t.grant(&claim).await;
    t.pass_on(&claim, 1).await;
    t.told(&Wake::Released(claim.name.clone()), 1).await;
    assert_eq!(t.owner_of(&claim).await, None);
    t.other.unlisten(&claim.name);
}

async fn a_grant_to_a_place_ends_with_its_offer(t: &Bench) {
    let (held, next) = (t.claim("offered"), t.claim_for("offered", Duration::from_millis(60)));
    t.grant(&held).await;
    t.queue(&next, 1, None).await;
    t.pass_on(&held, 1).await;
    assert_eq!(t.owner_of(&held).await, Some(next.owner));
    sleep(Duration::from_millis(80)).await;
    assert_eq!(t.owner_of(&held).await, None);
}

async fn who_enters_by_asking_leaves_the_queue(t: &Bench) {
    let (held, next) = (t.claim("asked-for"), t.claim("asked-for"));
    t.grant(&held).await;
    t.queue(&next, 1, None).await;
    t.one.release(&held, Way::Openly).await.unwrap();
    let place = |number| Place { number, offer: next.ttl };
    let queueing = Queueing { place: place(2), before: Some(place(1)) };
    assert_eq!(t.other.acquire(&next, Some(queueing)).await.unwrap(), Verdict::Granted);
    t.pass_on(&next, 1).await;
    assert_eq!(t.owner_of(&held).await, None);
}

async fn who_has_waited_for_long_is_told_when_it_is_first(t: &Bench) {
    let [held, first, second, third] = ["first"; 4].map(|name| t.claim(name));
    let told = Wake::Released(held.name.clone());
    t.grant(&held).await;
    for claim in [&first, &second, &third] {
        t.queue(claim, 1, None).await;
    }
    sleep(TOLD_AFTER).await;

    // by one that passes the lock on
    t.pass_on(&held, 1).await;
    t.told(&told, 1).await;

    // and by one that leaves
    let place = |number| Place { number, offer: second.ttl };
    let stood = Some(Queueing { place: place(2), before: Some(place(1)) });
    t.other.release(&second, Way::InTurn { passes: 1, stood }).await.unwrap();
    t.told(&told, 2).await;
    t.pass_on(&first, 2).await;
    t.pass_on(&third, 3).await;
}

async fn a_release_to_nobody_tells_the_first_alone(t: &Bench) {
    let [held, first, second] = ["to-nobody"; 3].map(|name| t.claim(name));
    t.grant(&held).await;
    t.queue(&first, 1, None).await;
    t.queue(&second, 1, None).await;
    t.pass_on(&held, 0).await;
    t.told(&Wake::Released(held.name.clone()), 1).await;
    assert_eq!(t.owner_of(&held).await, None);
}

async fn names_that_differ_in_odd_characters_are_different_locks(t: &Bench) {
    let names = ["odd", "odd ", "odd\n", "odd\0", "odd\r\n", "ödd", "{odd}", "{odd}\u{7f}", "🔒"];
    for name in names {
        t.grant(&t.claim(name)).await;
    }
    for name in names {
        let busy = t.other.acquire(&t.claim(name), None).await.unwrap();
        assert!(matches!(busy, Verdict::Busy(_)), "{name:?}");
    }
}
