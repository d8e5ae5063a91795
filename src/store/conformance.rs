//! What every store must do, as plain functions that each store's tests call.
//!
//! Two sessions of one store stand for two clients. Durations are short because
//! on a real server they pass in real time.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{Event, Hears, POLLERS_TURN, RESERVATION, SOON, Store, Subscriber, WARNED_AFTER};
use crate::domain::{
    Claim, GivenBack, Identity, Name, Others, Outcome, Owner, Place, ReleaseMode, Renewal, Verdict,
};

/// Two clients of one store, and what they were told.
pub(crate) struct Bench {
    one: Arc<dyn Store>,
    other: Arc<dyn Store>,
    told: Arc<Told>,
    identity: Identity,
}

#[derive(Default)]
struct Told(Mutex<Vec<Event>>);

impl Subscriber for Told {
    fn hear(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

fn listening(claim: &Claim) -> Event {
    Event::Hears(claim.name.clone(), Hears::Turns)
}

fn freed(claim: &Claim) -> Event {
    Event::Freed { name: claim.name.clone(), queue_told: false }
}

fn told_to_ask(claim: &Claim, after: Duration) -> Event {
    Event::Ask { name: claim.name.clone(), after }
}

const NOW: Duration = Duration::ZERO;

impl Bench {
    /// `other` is the store of the client called `id`.
    pub(crate) fn new(one: Arc<dyn Store>, other: Arc<dyn Store>, id: &str) -> Self {
        let told = Arc::new(Told::default());
        let subscriber: Arc<dyn Subscriber> = Arc::<Told>::clone(&told);
        other.tell(Arc::downgrade(&subscriber) as Weak<dyn Subscriber>);
        Self { one, other, told, identity: Identity::of(id) }
    }

    fn claim(&self, name: &str) -> Claim {
        self.claim_for(name, Duration::from_secs(10))
    }

    fn claim_for(&self, name: &str, ttl: Duration) -> Claim {
        let name = Name::new(name).unwrap();
        Claim { name, owner: self.identity.fresh_owner(), ttl }
    }

    /// Claims to one lock, the first of which is granted. The other client listens.
    async fn held<const N: usize>(&self, name: &str) -> [Claim; N] {
        let claims = [name; N].map(|name| self.claim(name));
        self.other.listen(&claims[0].name);
        self.told(&listening(&claims[0]), 1).await;
        self.grant(&claims[0]).await;
        claims
    }

    /// Has the other client ask for a busy lock, and take a place in its queue.
    async fn queue_by(&self, claim: &Claim, place: Place) {
        let verdict = self.other.acquire(claim, Some(place)).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy(_)), "{verdict:?}");
    }

    async fn queue(&self, claim: &Claim) {
        self.queue_by(claim, Place::Listening).await;
    }

    async fn hand_over(&self, claim: &Claim) {
        let given = self.one.release(claim, ReleaseMode::HandOver).await.unwrap();
        assert_eq!(given, GivenBack::Freed(Others::Nobody));
    }

    async fn broadcast(&self, claim: &Claim) -> GivenBack {
        self.one.release(claim, ReleaseMode::Broadcast).await.unwrap()
    }

    async fn owner_of(&self, claim: &Claim) -> Option<Owner> {
        self.one.holder(&claim.name).await.unwrap().map(|holder| holder.owner)
    }

    async fn grant(&self, claim: &Claim) {
        assert_eq!(self.one.acquire(claim, None).await.unwrap(), Verdict::Granted);
    }

    /// Waits until the other client has been told `event` so many times.
    async fn told(&self, event: &Event, times: usize) {
        let limit = Instant::now() + Duration::from_secs(5);
        while self.count(event) < times {
            assert!(Instant::now() < limit, "never told {event:?}, but {:?}", self.told.0.lock());
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(self.count(event), times, "told {event:?} too often");
    }

    fn count(&self, event: &Event) -> usize {
        self.told.0.lock().unwrap().iter().filter(|told| *told == event).count()
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
    who_stops_listening_is_told_nothing(bench).await;
    names_that_differ_in_odd_characters_are_different_locks(bench).await;
    a_release_reserves_the_lock_for_the_first_in_its_queue(bench).await;
    a_reservation_is_short_and_its_place_is_gone(bench).await;
    a_place_is_kept_by_asking_again_and_lost_by_leaving(bench).await;
    a_release_with_an_empty_queue_tells_everybody(bench).await;
    who_enters_by_asking_leaves_the_queue(bench).await;
    who_is_told_and_leaves_lets_the_next_one_know(bench).await;
    who_has_waited_for_long_looks_when_the_lock_has_gone_to_another(bench).await;
    a_lock_that_goes_on_and_on_is_left_free_now_and_then(bench).await;
    who_polls_has_its_turn_without_being_told(bench).await;
    two_who_poll_leave_time_to_others_in_between(bench).await;
    who_polls_keeps_its_place_while_it_rests(bench).await;
    names_that_share_a_hash_tag_share_no_queue(bench).await;
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
    assert_eq!(t.broadcast(&claim).await, GivenBack::Freed(Others::Nobody));
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
    assert_eq!(t.broadcast(&claim).await, GivenBack::Freed(Others::Nobody));
    assert_eq!(t.one.holder(&claim.name).await.unwrap(), None);
}

async fn a_release_of_nothing_says_who_holds(t: &Bench) {
    let (mine, yours) = (t.claim("not-held"), t.claim("not-held"));
    assert_eq!(t.broadcast(&mine).await, GivenBack::NotHeld { holder: None });
    t.grant(&yours).await;
    let GivenBack::NotHeld { holder: Some(holder) } = t.broadcast(&mine).await else {
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
    let [claim] = t.held("heard").await;
    t.broadcast(&claim).await;
    t.told(&freed(&claim), 1).await;

    t.grant(&claim).await;
    t.other.force_release(&claim.name).await.unwrap();
    t.told(&freed(&claim), 2).await;
    t.other.unlisten(&claim.name);
}

async fn a_release_knows_whether_others_listen(t: &Bench) {
    let claim = t.claim("sought");
    t.other.listen(&claim.name);
    t.told(&listening(&claim), 1).await;
    for (releases, others) in
        [(&t.one, Others::Listeners), (&t.other, Others::Nobody), (&t.one, Others::Listeners)]
    {
        t.grant(&claim).await;
        let given = releases.release(&claim, ReleaseMode::Broadcast).await.unwrap();
        assert_eq!(given, GivenBack::Freed(others));
    }
    t.other.unlisten(&claim.name);
}

async fn who_stops_listening_is_told_nothing(t: &Bench) {
    let [claim] = t.held("unheard").await;
    t.other.unlisten(&claim.name);
    sleep(Duration::from_millis(30)).await;
    t.broadcast(&claim).await;
    sleep(Duration::from_millis(30)).await;
    t.told(&freed(&claim), 0).await;

    t.other.listen(&claim.name);
    t.told(&listening(&claim), 2).await;
    t.other.unlisten(&claim.name);
}

async fn a_release_reserves_the_lock_for_the_first_in_its_queue(t: &Bench) {
    let [held, first, second] = t.held("turns").await;
    t.queue(&first).await;
    t.queue(&second).await;

    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, Some(first.owner.clone()));
    t.told(&told_to_ask(&held, NOW), 1).await;
    assert!(matches!(t.other.acquire(&second, None).await.unwrap(), Verdict::Busy(_)));

    // who was told asks, and has it for its whole ttl
    assert_eq!(t.other.acquire(&first, Some(Place::Listening)).await.unwrap(), Verdict::Granted);
    assert_eq!(t.one.held_by(&held.name, &first.owner).await.unwrap(), 1);
    let left = t.one.holder(&held.name).await.unwrap().unwrap().remaining().unwrap();
    assert!(left > RESERVATION, "{left:?}");

    t.hand_over(&first).await;
    t.told(&told_to_ask(&held, NOW), 2).await;
    assert_eq!(t.other.acquire(&second, Some(Place::Listening)).await.unwrap(), Verdict::Granted);
    t.told(&freed(&held), 0).await;
    t.hand_over(&second).await;
    assert_eq!(t.owner_of(&held).await, None);
    t.told(&freed(&held), 1).await;
    t.other.unlisten(&held.name);
}

async fn a_reservation_is_short_and_its_place_is_gone(t: &Bench) {
    let [held, next] = t.held("reserved").await;
    t.queue(&next).await;
    t.hand_over(&held).await;
    let left = t.one.holder(&held.name).await.unwrap().unwrap().remaining().unwrap();
    assert!(left <= RESERVATION, "{left:?}");
    sleep(RESERVATION + Duration::from_millis(20)).await;
    assert_eq!(t.owner_of(&held).await, None);

    // who did not come does not keep the others out again
    t.grant(&held).await;
    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, None);
    t.other.unlisten(&held.name);
}

async fn a_place_is_kept_by_asking_again_and_lost_by_leaving(t: &Bench) {
    let [held, first, second, third] = t.held("places").await;
    for claim in [&first, &second, &third] {
        t.queue(claim).await;
    }
    t.queue(&second).await;
    t.queue_by(&second, Place::Kept).await;
    let left = t.other.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert!(matches!(left, GivenBack::NotHeld { holder: Some(_) }), "{left:?}");

    for (gives, next) in [(&held, &second), (&second, &third)] {
        t.hand_over(gives).await;
        assert_eq!(t.owner_of(&held).await, Some(next.owner.clone()));
        assert_eq!(t.other.acquire(next, Some(Place::Kept)).await.unwrap(), Verdict::Granted);
    }
    t.hand_over(&third).await;
    assert_eq!(t.owner_of(&held).await, None);
    t.other.unlisten(&held.name);
}

async fn a_release_with_an_empty_queue_tells_everybody(t: &Bench) {
    let [claim] = t.held("nobody-queues").await;
    t.hand_over(&claim).await;
    t.told(&freed(&claim), 1).await;
    assert_eq!(t.owner_of(&claim).await, None);
    t.other.unlisten(&claim.name);
}

async fn who_enters_by_asking_leaves_the_queue(t: &Bench) {
    for place in [Place::Listening, Place::Kept] {
        let [held, next] = t.held(&format!("asked-for-{place:?}")).await;
        t.queue(&next).await;
        t.broadcast(&held).await;
        assert_eq!(t.other.acquire(&next, Some(place)).await.unwrap(), Verdict::Granted);
        t.hand_over(&next).await;
        assert_eq!(t.owner_of(&held).await, None);
        t.other.unlisten(&held.name);
    }
}

async fn who_is_told_and_leaves_lets_the_next_one_know(t: &Bench) {
    let [held, first, second] = t.held("told-and-gone").await;
    t.queue(&first).await;
    t.queue(&second).await;
    t.hand_over(&held).await;
    t.told(&told_to_ask(&held, NOW), 1).await;
    // with the reservation
    t.hand_over(&first).await;
    t.told(&told_to_ask(&held, NOW), 2).await;
    assert_eq!(t.owner_of(&held).await, Some(second.owner.clone()));

    // and when nobody has it
    let [held, first, second] = t.held("free-and-gone").await;
    t.queue(&first).await;
    t.queue(&second).await;
    t.broadcast(&held).await;
    let left = t.other.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert_eq!(left, GivenBack::NotHeld { holder: None });
    t.told(&told_to_ask(&held, NOW), 1).await;
    t.other.unlisten(&held.name);
}

async fn who_has_waited_for_long_looks_when_the_lock_has_gone_to_another(t: &Bench) {
    let [held, first, second] = t.held("second").await;
    let look = told_to_ask(&held, SOON);
    t.queue(&first).await;
    sleep(WARNED_AFTER + Duration::from_millis(20)).await;
    t.queue(&second).await;
    // who came lately looks by itself
    t.hand_over(&held).await;
    t.told(&look, 0).await;
    t.grant(&first).await;
    t.queue(&held).await;
    sleep(WARNED_AFTER + Duration::from_millis(20)).await;
    let given = t.one.release(&first, ReleaseMode::HandOver).await.unwrap();
    assert!(matches!(given, GivenBack::Freed(_)), "{given:?}");
    t.told(&look, 1).await;
    t.other.unlisten(&held.name);
}

async fn a_lock_that_goes_on_and_on_is_left_free_now_and_then(t: &Bench) {
    let [mut held, mut next] = t.held("on-and-on").await;
    let began = Instant::now();
    let (mut gaps, mut reserved) = (0, 0);
    while began.elapsed() < Duration::from_millis(1_500) {
        t.queue(&next).await;
        match t.one.release(&held, ReleaseMode::HandOver).await.unwrap() {
            GivenBack::Freed(Others::Nobody) => reserved += 1,
            GivenBack::Freed(Others::Outsiders(gap)) => {
                assert!(gap >= Duration::from_millis(2) && gap <= Duration::from_millis(16));
                assert_eq!(t.owner_of(&held).await, None);
                gaps += 1;
                let told = t.count(&told_to_ask(&held, gap));
                t.told(&told_to_ask(&held, gap), told.max(1)).await;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(t.other.acquire(&next, Some(Place::Kept)).await.unwrap(), Verdict::Granted);
        sleep(Duration::from_millis(5)).await;
        std::mem::swap(&mut held, &mut next);
    }
    // A fiftieth of the time: 2 ms in 100, or 16 in 800.
    assert!((1..=15).contains(&gaps) && reserved > 2 * gaps, "{gaps} gaps, {reserved} reserved");
    t.broadcast(&held).await;
    t.other.unlisten(&held.name);
}

async fn who_polls_has_its_turn_without_being_told(t: &Bench) {
    let [held, first, polls] = t.held("polled").await;
    t.queue(&first).await;
    t.queue_by(&polls, Place::Polling).await;
    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, Some(polls.owner.clone()));
    t.told(&told_to_ask(&held, NOW), 0).await;
    let left = t.one.holder(&held.name).await.unwrap().unwrap().remaining().unwrap();
    assert!(left <= POLLERS_TURN && left > POLLERS_TURN / 2, "{left:?}");
    assert_eq!(t.other.acquire(&polls, Some(Place::Polling)).await.unwrap(), Verdict::Granted);
    t.hand_over(&polls).await;
    assert_eq!(t.owner_of(&held).await, Some(first.owner));
    t.other.unlisten(&held.name);
}

async fn two_who_poll_leave_time_to_others_in_between(t: &Bench) {
    let [held, one, other, listens] = t.held("polled-by-two").await;
    t.queue_by(&one, Place::Polling).await;
    t.queue_by(&other, Place::Polling).await;
    t.queue(&listens).await;
    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, Some(one.owner.clone()));
    t.hand_over(&one).await;
    assert_eq!(t.owner_of(&held).await, Some(listens.owner.clone()));
    t.queue(&held).await;
    sleep(2 * POLLERS_TURN + Duration::from_millis(20)).await;
    t.grant(&listens).await;
    t.hand_over(&listens).await;
    assert_eq!(t.owner_of(&held).await, Some(other.owner));
    t.other.unlisten(&held.name);
}

async fn who_polls_keeps_its_place_while_it_rests(t: &Bench) {
    let [held, one, other] = t.held("polled-by-two-alone").await;
    t.queue_by(&one, Place::Polling).await;
    t.queue_by(&other, Place::Polling).await;
    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, Some(one.owner.clone()));
    // now the lock is free for anybody, and again
    for claim in [&one, &held] {
        t.hand_over(claim).await;
        assert_eq!(t.owner_of(&held).await, None);
        t.grant(&held).await;
    }
    sleep(2 * POLLERS_TURN + Duration::from_millis(20)).await;
    t.hand_over(&held).await;
    assert_eq!(t.owner_of(&held).await, Some(other.owner));
    t.other.unlisten(&held.name);
}

async fn names_that_share_a_hash_tag_share_no_queue(t: &Bench) {
    let [plain] = t.held("tagged").await;
    let [braced, waits] = t.held("{tagged}").await;
    t.queue(&waits).await;
    t.hand_over(&plain).await;
    assert_eq!(t.owner_of(&plain).await, None);
    t.hand_over(&braced).await;
    assert_eq!(t.owner_of(&braced).await, Some(waits.owner));
    t.told(&told_to_ask(&plain, NOW), 0).await;
    t.told(&told_to_ask(&braced, NOW), 1).await;
    [&plain, &braced].iter().for_each(|claim| t.other.unlisten(&claim.name));
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
