//! The contract of every store, as plain functions. The tests of each deployment call these
//! functions.
//!
//! Each of two connected stores represents a client. Durations are short, because on a real server
//! they pass in real time.

mod barrier;
mod claims;
mod election;
mod fair;
mod guarded;
mod latch;
mod map;
mod permits;
mod rate_limiter;
mod read_write;
pub(crate) mod semaphore;
mod set;
mod wait_queue;

use std::{
    num::NonZero,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{
    join,
    time::{Instant, sleep},
};

use super::{Event, RedisStore, Subscriber, SubscriptionLevel, lock};
use crate::domain::{
    Claim, Failure, Holder, Identity, Kind, MOST_TOKEN, Object, Outcome, Owner, Place, ReleaseMode,
    ReleaseReply, RemoteWaiters, Renewal, Share, Taken, Verdict, Work,
};

/// Two clients of one store, and the events that they received.
pub(crate) struct Bench {
    one: Arc<RedisStore>,
    other: Arc<RedisStore>,
    events: Arc<ReceivedEvents>,
    identity: Identity,
    /// The prefix of all names in the tests.
    prefix: &'static str,
}

#[derive(Default)]
struct ReceivedEvents(Mutex<Vec<Event>>);

impl Subscriber<Event> for ReceivedEvents {
    fn receive(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

fn listening(claim: &Claim) -> Event {
    Event::Subscribed(claim.object.clone(), SubscriptionLevel::Turns)
}

fn freed(claim: &Claim) -> Event {
    Event::Freed { object: claim.object.clone(), queue_notified: false }
}

fn ask_event(claim: &Claim, after: Duration) -> Event {
    Event::Ask { object: claim.object.clone(), after }
}

/// Returns the renewal of the hold of `claim`. Without a `ttl`, the renewal only checks the hold.
fn renewal(claim: &Claim, ttl: Option<Duration>) -> Renewal {
    let Claim { object, owner, share, .. } = claim.clone();
    Renewal { object, owner, share, ttl }
}

const NOW: Duration = Duration::ZERO;

impl Bench {
    /// Creates a bench of two clients. `other` is the store of the client called `id`. The bench
    /// records the events of `other`.
    pub(crate) fn new(one: Arc<RedisStore>, other: Arc<RedisStore>, id: &str) -> Self {
        let events = Arc::new(ReceivedEvents::default());
        let subscriber: Arc<dyn Subscriber<Event>> = Arc::<ReceivedEvents>::clone(&events);
        other.send_to(Arc::downgrade(&subscriber) as Weak<dyn Subscriber<Event>>);
        Self { one, other, events, identity: Identity::of(id), prefix: "" }
    }

    /// Sets the prefix of all names.
    #[cfg(test)]
    pub(crate) fn below(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }

    fn object(&self, kind: Kind, name: &str) -> Object {
        Object::of(kind, format!("{}{name}", self.prefix))
    }

    /// Adds the prefix to the name in the braces of `key`.
    fn key(&self, key: &str) -> String {
        key.replacen('{', &format!("{{{}", self.prefix), 1)
    }

    fn claim(&self, name: &str) -> Claim {
        self.claim_for(name, Duration::from_secs(10))
    }

    fn claim_for(&self, name: &str, ttl: Duration) -> Claim {
        Claim::plain(self.object(Kind::Lock, name), self.identity.fresh_owner(), ttl)
    }

    /// Returns claims to one lock. The first claim is granted, and the other client subscribes.
    async fn held<const N: usize>(&self, name: &str) -> [Claim; N] {
        let claims = [name; N].map(|name| self.claim(name));
        self.other.listen(&claims[0].object);
        self.received(&listening(&claims[0]), 1).await;
        self.grant(&claims[0]).await;
        claims
    }

    /// Requests a held lock as the other client, and so gets a queue entry.
    async fn queue_by(&self, claim: &Claim, place: Place) {
        let verdict = self.other.acquire(claim, Some(place)).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy(_)), "{verdict:?}");
    }

    async fn queue(&self, claim: &Claim) {
        self.queue_by(claim, Place::Listening).await;
    }

    /// Releases a lock by `HandOver`. Returns the holder after the release.
    async fn hand_over(&self, claim: &Claim) -> Option<Holder> {
        // A reservation is short, so the second request is sent at once, before the first reply.
        let given = self.one.release(claim, ReleaseMode::HandOver);
        let (given, holder) = join!(given, self.one.holder(&claim.object));
        assert_eq!(given.unwrap(), ReleaseReply::Freed(RemoteWaiters::Nobody));
        holder.unwrap()
    }

    /// Releases a lock. Checks that the lock is then reserved for `next`.
    async fn hand_over_to(&self, next: &Claim, claim: &Claim) {
        let has = self.hand_over(claim).await.map(|holder| holder.owner);
        assert_eq!(has.as_ref(), Some(&next.owner));
    }

    /// Releases a lock. Checks that the lock is then free.
    async fn release_without_successor(&self, claim: &Claim) {
        assert_eq!(self.hand_over(claim).await, None);
    }

    /// Releases a lock. Checks that this opens a yield window.
    async fn yields(&self, claim: &Claim) {
        let given = self.one.release(claim, ReleaseMode::HandOver).await.unwrap();
        assert!(matches!(given, ReleaseReply::Freed(RemoteWaiters::Next(_))), "{given:?}");
    }

    async fn broadcast(&self, claim: &Claim) -> ReleaseReply {
        self.one.release(claim, ReleaseMode::Broadcast).await.unwrap()
    }

    async fn owner_of(&self, claim: &Claim) -> Option<Owner> {
        self.one.holder(&claim.object).await.unwrap().map(|holder| holder.owner)
    }

    async fn grant(&self, claim: &Claim) {
        assert_eq!(self.one.acquire(claim, None).await.unwrap(), Verdict::GRANTED);
    }

    /// Waits until the other client has received `event` at least `times` times. Then checks that
    /// the client has not received `event` more often.
    async fn received(&self, event: &Event, times: usize) {
        self.until_received(times, |events| events == event).await;
        assert_eq!(self.count(event), times, "received {event:?} too often");
    }

    /// Waits until the other client has received at least `times` events for which `meant` returns
    /// true.
    async fn until_received(&self, times: usize, meant: impl Fn(&Event) -> bool) {
        let limit = Instant::now() + Duration::from_secs(5);
        while self.events.0.lock().unwrap().iter().filter(|events| meant(events)).count() < times {
            assert!(
                Instant::now() < limit,
                "not received {times} times: {:?}",
                self.events.0.lock()
            );
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn count(&self, event: &Event) -> usize {
        self.events.0.lock().unwrap().iter().filter(|events| *events == event).count()
    }
}

/// Runs every case on `bench`.
pub(crate) async fn all(bench: &Bench) {
    free_lock_is_granted_and_held_lock_names_its_holder(bench).await;
    repeated_request_is_granted_and_counts_once(bench).await;
    grant_ends_with_its_ttl(bench).await;
    renewal_extends_only_current_holds(bench).await;
    check_does_not_extend_the_lease(bench).await;
    only_the_holder_sets_the_hold_count(bench).await;
    release_ignores_the_hold_count(bench).await;
    release_by_a_non_holder_returns_the_holder(bench).await;
    forced_release_ends_any_hold_once(bench).await;
    subscriber_is_notified_of_each_release(bench).await;
    release_reports_other_subscribers(bench).await;
    unsubscribed_client_receives_nothing(bench).await;
    names_that_differ_in_odd_characters_are_different_locks(bench).await;
    tokens_grow_with_each_grant_and_blocks_do_not_overlap(bench).await;
    token_counter_is_raised_and_never_lowered(bench).await;
    object_kind_rejects_unsupported_requests(bench).await;
    fair::all(bench).await;
    wait_queue::all(bench).await;
    read_write::all(bench).await;
    guarded::all(bench).await;
    semaphore::all(bench).await;
    latch::all(bench).await;
    election::all(bench).await;
    barrier::all(bench).await;
    claims::all(bench).await;
    permits::all(bench).await;
    rate_limiter::all(bench).await;
    map::all(bench).await;
    set::all(bench).await;
}

async fn object_kind_rejects_unsupported_requests(t: &Bench) {
    let of = |kind| Claim { object: t.object(kind, "unasked"), ..t.claim("unasked") };
    let [read, semaphore, latch] = [Kind::Read, Kind::Semaphore, Kind::Latch].map(of);
    let store = &t.one;
    let counted = store.recount(&semaphore, 2, None).await.map(drop);
    let released = store.release(&latch, ReleaseMode::Broadcast).await.map(drop);
    let written = store.guarded(&read, &Work::Writes(vec![])).await.map(drop);
    let found = store.holder(&latch.object).await.map(drop);
    for unsupported in [counted, released, written, found] {
        let failure = unsupported.unwrap_err();
        assert!(matches!(failure, Failure::Unsupported(_)), "{failure:?}");
        assert!(!failure.is_temporary() && !failure.may_have_happened(), "{failure}");
    }
}

async fn tokens_grow_with_each_grant_and_blocks_do_not_overlap(t: &Bench) {
    let fenced = |tokens| Claim { share: Share::Whole { tokens }, ..t.claim("fenced") };
    let drawn = async |claim: &Claim| match t.one.acquire(claim, None).await.unwrap() {
        Verdict::Granted { token, .. } => token.map(NonZero::get),
        Verdict::Busy(taken) => panic!("{taken:?}"),
    };
    let (one, block, next) = (fenced(1), fenced(3), fenced(1));
    assert_eq!(drawn(&one).await, Some(1));
    // A rejected request takes no token.
    t.queue(&next).await;
    assert_eq!(t.broadcast(&one).await, ReleaseReply::Freed(RemoteWaiters::Nobody));
    assert_eq!(drawn(&block).await, Some(2));
    // A request that is repeated after a lost reply draws new tokens. The first three tokens stay
    // unused.
    assert_eq!(drawn(&block).await, Some(5));
    t.one.release(&block, ReleaseMode::Broadcast).await.unwrap();
    // A request without tokens leaves the counter as it is.
    t.grant(&t.claim("fenced")).await;
    t.one.force_release(&block.object).await.unwrap();
    assert_eq!(drawn(&next).await, Some(8));
    t.one.release(&next, ReleaseMode::HandOver).await.unwrap();
}

async fn token_counter_is_raised_and_never_lowered(t: &Bench) {
    let fenced = || Claim { share: Share::Whole { tokens: 2 }, ..t.claim("raised") };
    let (held, next) = (fenced(), fenced());
    let raise = async |least| lock::raise_token(&t.other, held.name(), least).await.unwrap();
    let first = async |claim: &Claim| match t.one.acquire(claim, None).await.unwrap() {
        Verdict::Granted { token, .. } => token.map(NonZero::get),
        Verdict::Busy(taken) => panic!("{taken:?}"),
    };
    // The lock is free, and at first it has no token counter.
    for (least, counter) in [(0, 0), (40, 40), (7, 40), (40, 40)] {
        assert_eq!(raise(least).await, counter, "{least}");
    }
    assert_eq!(first(&held).await, Some(41));
    // The lock is now held. `MOST_TOKEN` is the greatest number that the API accepts.
    for (least, counter) in [(42, 42), (43, 43), (MOST_TOKEN, MOST_TOKEN.cast_signed())] {
        assert_eq!(raise(least).await, counter, "{least}");
    }
    assert_eq!(t.owner_of(&held).await.as_ref(), Some(&held.owner));
    t.one.release(&held, ReleaseMode::Broadcast).await.unwrap();
    assert_eq!(first(&next).await, Some(MOST_TOKEN + 1));
    t.one.release(&next, ReleaseMode::Broadcast).await.unwrap();
}

async fn free_lock_is_granted_and_held_lock_names_its_holder(t: &Bench) {
    let (mine, yours) = (t.claim("free"), t.claim("free"));
    assert_eq!(t.one.holder(&mine.object).await.unwrap(), None);
    t.grant(&mine).await;

    let Verdict::Busy(Taken { holder: Some(holder), at_most: Some(remaining), .. }) =
        t.other.acquire(&yours, None).await.unwrap()
    else {
        panic!("the lock must be busy")
    };
    assert_eq!((holder.owner(), holder.count()), (&mine.owner, 1));
    assert_eq!(holder.remaining(), Some(remaining));
    assert!(remaining <= mine.ttl && remaining > mine.ttl / 2, "{remaining:?}");

    let seen = t.other.holder(&mine.object).await.unwrap().unwrap();
    assert_eq!(seen.owner(), &mine.owner);
    assert_eq!(t.other.held_by(&mine.object, &mine.owner).await.unwrap(), 1);
    assert_eq!(t.other.held_by(&mine.object, &yours.owner).await.unwrap(), 0);
}

async fn repeated_request_is_granted_and_counts_once(t: &Bench) {
    let claim = t.claim("again");
    t.grant(&claim).await;
    t.grant(&claim).await;
    assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), 1);
    assert_eq!(t.broadcast(&claim).await, ReleaseReply::Freed(RemoteWaiters::Nobody));
    assert_eq!(t.one.holder(&claim.object).await.unwrap(), None);
}

async fn grant_ends_with_its_ttl(t: &Bench) {
    let claim = t.claim_for("short", Duration::from_millis(60));
    t.grant(&claim).await;
    sleep(Duration::from_millis(80)).await;
    assert_eq!(t.one.holder(&claim.object).await.unwrap(), None);
    assert_eq!(t.other.acquire(&t.claim("short"), None).await.unwrap(), Verdict::GRANTED);
}

async fn renewal_extends_only_current_holds(t: &Bench) {
    let held = t.claim_for("renewed", Duration::from_secs(3));
    let gone = t.claim("renewed-gone");
    t.grant(&held).await;
    let [late, kept] = [&gone, &held].map(|claim| renewal(claim, Some(Duration::from_secs(10))));
    let foreign = Renewal { owner: gone.owner.clone(), ..kept.clone() };
    let outcomes = t.one.renew(&[late, kept, foreign]).await.unwrap();
    assert_eq!(outcomes, [Outcome::NotOwned, Outcome::Renewed, Outcome::NotOwned]);

    let remaining = t.one.holder(&held.object).await.unwrap().unwrap().remaining().unwrap();
    assert!(remaining > Duration::from_secs(5), "{remaining:?}");
    assert_eq!(t.one.holder(&gone.object).await.unwrap(), None, "a renewal must not create a lock");
    assert_eq!(t.one.renew(&[]).await.unwrap(), []);
}

async fn check_does_not_extend_the_lease(t: &Bench) {
    let claim = t.claim_for("looked-at", Duration::from_secs(5));
    t.grant(&claim).await;
    let checked = t.one.renew(&[renewal(&claim, None)]).await.unwrap();
    let left = Duration::from_secs(4)..=claim.ttl;
    assert!(matches!(checked[..], [Outcome::Held(it)] if left.contains(&it)), "{checked:?}");
    assert_eq!(t.one.recount(&claim, 2, None).await.unwrap(), Outcome::Renewed);
    let remaining = t.one.holder(&claim.object).await.unwrap().unwrap().remaining().unwrap();
    assert!(remaining <= claim.ttl, "{remaining:?}");
}

async fn only_the_holder_sets_the_hold_count(t: &Bench) {
    let claim = t.claim("counted");
    let ttl = Some(claim.ttl);
    assert_eq!(t.one.recount(&claim, 2, ttl).await.unwrap(), Outcome::NotOwned);
    assert_eq!(
        t.one.holder(&claim.object).await.unwrap(),
        None,
        "a new hold count must not create a lock"
    );

    t.grant(&claim).await;
    for count in [2, 2, 3, 1] {
        assert_eq!(t.one.recount(&claim, count, ttl).await.unwrap(), Outcome::Renewed);
        assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), count);
    }
    assert_eq!(t.one.recount(&t.claim("counted"), 5, ttl).await.unwrap(), Outcome::NotOwned);
    assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), 1);
}

async fn release_ignores_the_hold_count(t: &Bench) {
    let claim = t.claim("twice");
    t.grant(&claim).await;
    t.one.recount(&claim, 2, None).await.unwrap();
    assert_eq!(t.broadcast(&claim).await, ReleaseReply::Freed(RemoteWaiters::Nobody));
    assert_eq!(t.one.holder(&claim.object).await.unwrap(), None);
}

async fn release_by_a_non_holder_returns_the_holder(t: &Bench) {
    let (mine, yours) = (t.claim("not-held"), t.claim("not-held"));
    assert_eq!(t.broadcast(&mine).await, ReleaseReply::NotHeld { holder: None });
    t.grant(&yours).await;
    let ReleaseReply::NotHeld { holder: Some(holder) } = t.broadcast(&mine).await else {
        panic!("the reply must be `NotHeld` with the holder")
    };
    assert_eq!(holder.owner(), &yours.owner);
    assert_eq!(t.one.held_by(&yours.object, &yours.owner).await.unwrap(), 1);
}

async fn forced_release_ends_any_hold_once(t: &Bench) {
    let claim = t.claim("forced");
    t.grant(&claim).await;
    assert!(t.other.force_release(&claim.object).await.unwrap());
    assert!(!t.other.force_release(&claim.object).await.unwrap());
    assert_eq!(t.one.holder(&claim.object).await.unwrap(), None);
}

async fn subscriber_is_notified_of_each_release(t: &Bench) {
    let [claim] = t.held("received").await;
    t.broadcast(&claim).await;
    t.received(&freed(&claim), 1).await;

    t.grant(&claim).await;
    t.other.force_release(&claim.object).await.unwrap();
    t.received(&freed(&claim), 2).await;
    t.other.unlisten(&claim.object);
}

async fn release_reports_other_subscribers(t: &Bench) {
    let claim = t.claim("sought");
    t.other.listen(&claim.object);
    t.received(&listening(&claim), 1).await;
    for (releases, others) in [
        (&t.one, RemoteWaiters::Listeners),
        (&t.other, RemoteWaiters::Nobody),
        (&t.one, RemoteWaiters::Listeners),
    ] {
        t.grant(&claim).await;
        let given = releases.release(&claim, ReleaseMode::Broadcast).await.unwrap();
        assert_eq!(given, ReleaseReply::Freed(others));
    }
    t.other.unlisten(&claim.object);
}

async fn unsubscribed_client_receives_nothing(t: &Bench) {
    let [claim] = t.held("unheard").await;
    t.other.unlisten(&claim.object);
    // The server may execute some releases before the unsubscribe. The messages of these releases
    // still reach the client.
    let (limit, mut received) = (Instant::now() + Duration::from_secs(10), 0);
    while t.broadcast(&claim).await != ReleaseReply::Freed(RemoteWaiters::Nobody) {
        assert!(Instant::now() < limit, "the client is still subscribed");
        received += 1;
        sleep(Duration::from_millis(10)).await;
        t.grant(&claim).await;
    }
    sleep(Duration::from_millis(30)).await;
    assert!(t.count(&freed(&claim)) <= received, "{received}");

    t.other.listen(&claim.object);
    t.received(&listening(&claim), 2).await;
    t.other.unlisten(&claim.object);
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
