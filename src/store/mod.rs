//! What must be atomic, in our words.
//!
//! A store answers a handful of questions. It does not wait, retry or keep a
//! schedule: that is the engine's part. Every question may be asked again with
//! the same owner, so a lost answer is recovered by asking again.
//!
//! `conformance.rs` says as plain functions what every store must do.

use std::{fmt, future::Future, pin::Pin, sync::Weak, time::Duration};

use crate::domain::{
    Claim, Failure, GivenBack, Holder, Name, Offer, Outcome, Owner, Queueing, Renewal, Verdict, Way,
};

#[cfg(test)]
pub(crate) mod conformance;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

/// A store's answer, on its way.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Where locks live.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Grants `claim` if the lock is free, with a hold count of 1.
    ///
    /// Asking again with the same owner grants it again with a fresh lease.
    ///
    /// With a `queue` it takes its place there while the lock is busy, and a
    /// release may grant it later: [`Wake::Granted`] says so.
    fn acquire<'a>(&'a self, claim: &'a Claim, queue: Option<Queueing>) -> Answer<'a, Verdict>;

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
    /// listen if the claim is announced, or grants the lock to the next in the
    /// queue: see [`Way`].
    ///
    /// Asked again it says `NotHeld`: the asker must know that it asked before.
    fn release<'a>(&'a self, claim: &'a Claim, way: Way) -> Answer<'a, GivenBack>;

    /// Renews each hold that is still its owner's; one outcome for each, in order.
    /// One that is not known is [`Outcome::Unknown`].
    ///
    /// Not atomic as a whole, only for each hold.
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>>;

    /// Who holds `name` now.
    fn holder<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Holder>>;

    /// How many times `owner` holds `name` now.
    fn held_by<'a>(&'a self, name: &'a Name, owner: &'a Owner) -> Answer<'a, u32>;

    /// Frees `name` whoever holds it and wakes those who listen; whether it was held.
    fn force_release<'a>(&'a self, name: &'a Name) -> Answer<'a, bool>;

    /// Begins to listen for releases of `name`, in the background.
    ///
    /// [`Wake::Listening`] says when it is so: from then on no release is missed
    /// until [`Wake::Deaf`].
    fn listen(&self, name: &Name);

    /// Ends what [`listen`](Self::listen) began.
    fn unlisten(&self, name: &Name);

    /// Whether we would hear of what is granted to a place in a queue. It tries to,
    /// from the first time on that somebody wants to know.
    fn attend(&self) -> bool {
        true
    }

    /// Says whom to tell of wakes.
    fn wake(&self, sleepers: Weak<dyn Sleepers>);

    /// What is in the way, if the store cannot be reached and knows why.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// How often a connection was lost and made again.
    fn reconnects(&self) -> u64 {
        0
    }
}

/// Who has waited in a queue for so long is told when it is the first and the lock
/// goes to somebody else: it does not know how long that one has it.
pub(crate) const TOLD_AFTER: Duration = Duration::from_millis(200);

/// What a store tells without being asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wake {
    /// Messages are missed from now on, of every name, until it is listened to anew.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only messages can be missed"))]
    Deaf,
    /// Releases of this name are told from now on; one may just have been missed.
    Listening(Name),
    /// This name was released, or the one before us in its queue has gone: ask again.
    Released(Name),
    /// This name was granted to one of ours who queues for it.
    Granted(Offer),
}

/// Those who wait for wakes. Called from the store's own tasks: must not block.
pub(crate) trait Sleepers: Send + Sync {
    fn wake(&self, wake: Wake);
}
