//! What must be atomic, in our words.
//!
//! A store answers a handful of questions. It does not wait, retry or keep a
//! schedule: that is the engine's part. Every question may be asked again with the same
//! owner, so a lost answer is recovered by asking again; but for two, a guarded write and
//! a forced release, of which one does not know then.
//!
//! `questions.rs` has those that are asked about one kind of object: a store chooses the kind in
//! one place. `conformance/` says as plain functions what every store must do.

use std::{fmt, future::Future, pin::Pin, sync::Weak, time::Duration};

use crate::domain::{
    About, Change, Claim, Counts, Failure, Finding, GivenBack, Holder, Name, Object, Outcome,
    Owner, PermitId, Place, ReleaseMode, Renewal, Replicas, Value, Verdict, Work,
};

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod redis;

/// A store's answer, on its way.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Where locks live.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Grants `claim` if the lock is free, with a hold count of 1.
    ///
    /// Asking again with the same owner grants it again with a fresh lease.
    ///
    /// With a `place` it has one in the queue while the lock is busy. A release may
    /// then reserve the lock for it: [`Event::Ask`] says so, and asking makes it ours.
    fn acquire<'a>(&'a self, claim: &'a Claim, place: Option<Place>) -> Answer<'a, Verdict>;

    /// Lets the claim's owner read beside one who writes, and not otherwise.
    fn acquire_beside<'a>(&'a self, claim: &'a Claim, writer: &'a Owner) -> Answer<'a, Verdict>;

    /// Sets the hold count of the claim's owner, if it still holds, and renews
    /// its lease if `ttl` is given.
    ///
    /// It sets, and does not add: asking again changes nothing.
    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome>;

    /// Takes the hold from the claim's owner, whatever its count. Wakes those who
    /// listen, or reserves the lock for the next in the queue: see [`ReleaseMode`].
    ///
    /// Asked again it says `NotHeld`: the asker must know that it asked before.
    fn release<'a>(&'a self, claim: &'a Claim, mode: ReleaseMode) -> Answer<'a, GivenBack>;

    /// Holds of one group may be renewed by one question.
    fn group(&self, object: &Object) -> u32 {
        object.kind as u32
    }

    /// Renews each hold that is still its owner's; one outcome for each, in order.
    /// One that is not known is [`Outcome::Unknown`].
    ///
    /// All are of one [`group`](Self::group). Not atomic as a whole, only for each hold.
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>>;

    /// How many replicas have what was granted by `claim`: as soon as there are as many as are
    /// wanted, or when their time is over. 0 if it is not its owner's any more.
    fn replicated<'a>(&'a self, claim: &'a Claim, _: Replicas) -> Answer<'a, u32> {
        Box::pin(std::future::ready(Err(Failure::Unsupported(claim.object.kind.unsupported()))))
    }

    /// Does `work` if the claim's owner holds now, and says what it came to. `None` if it does
    /// not: then nothing is done.
    ///
    /// **Not to be asked twice**: it would be done twice.
    fn guarded<'a>(&'a self, claim: &'a Claim, work: &'a Work) -> Answer<'a, Option<Value>>;

    /// Who holds `object` now.
    fn holder<'a>(&'a self, object: &'a Object) -> Answer<'a, Option<Holder>>;

    /// How many times `owner` holds `object` now.
    fn held_by<'a>(&'a self, object: &'a Object, owner: &'a Owner) -> Answer<'a, u32>;

    /// Frees `object` whoever holds it and wakes those who listen; whether it was held.
    fn force_release<'a>(&'a self, object: &'a Object) -> Answer<'a, bool>;

    /// The number that `object` is: of free permits, or of what a latch waits for.
    fn number<'a>(&'a self, object: &'a Object) -> Answer<'a, i64>;

    /// Changes what nobody holds, or somebody else. The answer is that of the [`Change`].
    ///
    /// Asked again with the same `receipt` within [`RECEIPT_RESTS`] it changes nothing and
    /// answers as before.
    fn change<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64>;

    /// How many permits there are.
    fn count<'a>(&'a self, object: &'a Object) -> Answer<'a, Counts>;

    /// How long this permit is somebody's: with a `lease` for so long from now on at least.
    /// `None` if it is nobody's.
    fn lease<'a>(
        &'a self,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>>;

    /// Begins to listen for releases of `object`, in the background.
    ///
    /// [`Event::Hears`] says what is heard: from then on nothing of it is missed until
    /// that is said anew, or [`Event::SubscriptionsLost`].
    ///
    /// The subscriber may be told before it returns.
    fn listen(&self, object: &Object);

    /// Ends what [`listen`](Self::listen) began.
    fn unlisten(&self, object: &Object);

    /// Says whom to tell of events.
    fn tell(&self, subscriber: Weak<dyn Subscriber>);

    /// Sees to it that the store's own tasks run, on this runtime if theirs is gone.
    fn keep_up(&self) {}

    /// What the store says of itself, if it answers within [`HEALTH_CHECK`]: a connection that is
    /// away is not waited for.
    fn look(&self) -> Answer<'_, About>;

    /// What can hurt locks, as far as it was looked at.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Whether the connections for commands and for messages are up.
    fn are_up(&self) -> (bool, bool) {
        (true, true)
    }

    /// Whether questions reach the store now. What is asked meanwhile waits to be sent.
    fn is_up(&self) -> bool {
        true
    }

    /// How often the way for questions was lost.
    fn losses(&self) -> u64 {
        0
    }

    /// What keeps the store from answering about `name`, if it is known: of several servers the
    /// one that is asked. It may be a refusal that is waited out.
    fn in_the_way(&self, _name: &Name) -> Option<Failure> {
        None
    }

    /// Why no request about `name` reaches the store now, if none does.
    fn unreachable(&self, name: &Name) -> Option<Failure> {
        self.in_the_way(name).filter(|it| matches!(it, Failure::Unreachable(_)))
    }

    /// How often a connection was lost and made again.
    fn reconnects(&self) -> u64 {
        0
    }
}

/// A health check waits no longer than this for the answer of a server.
pub(crate) const HEALTH_CHECK: Duration = Duration::from_millis(200);

/// For so long a lock is reserved for one who was told that it is its turn: time to ask,
/// not to work. Who is dead or paused then keeps the others out for no longer.
pub(crate) const RESERVATION: Duration = Duration::from_millis(750);

/// Who is next in a queue and has waited for so long is told to look [`SOON`] after the
/// lock went to the one before it: that one may not come, or die.
pub(crate) const WARNED_AFTER: Duration = Duration::from_millis(200);
pub(crate) const SOON: Duration = Duration::from_millis(50);

/// When the one behind that one is told to look: both before it may be dead.
pub(crate) const LATER: Duration = Duration::from_secs(1);

/// For so long a lock is reserved for one who polls: it asks meanwhile. As long again
/// others have it in any case.
pub(crate) const POLLERS_TURN: Duration = Duration::from_millis(400);
/// How long a queue stays that nobody asks about.
pub(crate) const QUEUE_RESTS: Duration = Duration::from_secs(15);

/// For so long after it asked one counts as waiting of whom the store is only to know that.
pub(crate) const KNOWN_FOR: Duration = Duration::from_secs(5);

/// For so long after it was given up a question may still be executed: it lies in the
/// buffer of a server that hangs, or in that of a network that was cut.
pub(crate) const LATEST: Duration = Duration::from_secs(15 * 60);

/// For so long permits are left to who has waited longest, after it last asked.
pub(crate) const PATIENT_RESTS: Duration = Duration::from_secs(5);

/// For so long readers let those go first who came to write before them; then they enter for
/// as long, and so on. Who waits for a reader that waits for it would else wait for ever.
pub(crate) const COURTESY_TURN: Duration = Duration::from_secs(10);

/// For so long permits are left to those who have waited longest, one after the other; then
/// for as long to nobody. What they wait for may never come: its holders may be dead.
pub(crate) const PATIENT_TURN: Duration = Duration::from_secs(30);

/// For so long a change that is asked for again is known.
pub(crate) const RECEIPT_RESTS: Duration = Duration::from_secs(60);

/// What is heard of a name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Hears {
    /// Nothing: who waits polls.
    #[default]
    Nothing,
    /// That it was released: who waits asks then, and does not queue.
    Releases,
    /// Also when it is our turn: who waits may queue.
    Turns,
}

/// What a store tells without being asked. All of it is a hint: nothing is believed but
/// the answer to a question of one's own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Nothing is heard of any name, from now on.
    SubscriptionsLost,
    /// What is heard of this name from now on; a release may just have been missed.
    Hears(Object, Hears),
    /// The store is there again after it was away: it may have lost what it held.
    Back,
    /// Commands go to another server than before, which may not know what the one before was
    /// told last.
    Moved,
    /// This name was released. Who queues need not ask if the queue was told besides.
    Freed { object: Object, queue_told: bool },
    /// It is our turn to ask for this name, after so long.
    Ask { object: Object, after: Duration },
}

/// Who is told of events. Called from the store's own tasks: must not block.
pub(crate) trait Subscriber: Send + Sync {
    fn hear(&self, event: Event);
}
