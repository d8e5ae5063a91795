//! The kinds of objects, each in a folder with its scripts. [`InRedis`] has the requests that the
//! engine sends for every kind. A request of only one kind is in the module of this kind.

pub(crate) mod barrier;
pub(crate) mod data;
pub(crate) mod election;
pub(super) mod fair;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod permits;
pub(crate) mod queue;
pub(crate) mod quorum;
pub(crate) mod rate_limiter;
pub(super) mod read_write;
pub(crate) mod semaphore;
pub(crate) mod set;

use std::{
    future::{Future, ready},
    sync::LazyLock,
    time::Duration,
};

use leasehold_link::{Channels, Preload};

use super::{
    RedisStore, Reply,
    granted::Granted,
    scripts::{self, Script, Scripts, script},
    slot_of_name,
};
use crate::domain::{
    self, Claim, Failure, Holder, Kind, Name, Object, Outcome, Owner, Place, ReleaseMode,
    ReleaseReply, Renewal, Replicas, Verdict, Work,
};

/// Deletes a latch or a semaphore.
static DELETE: LazyLock<Script> = script!("receipt", "number", "delete");

/// A kind of objects in Redis, with the requests of the engine. A kind implements only the requests
/// that it supports. The other requests fail.
pub(super) trait InRedis {
    /// The scripts of this kind. Each new connection loads them.
    const SCRIPTS: Scripts;

    /// A message that makes all waiters send a request, including waiters of Redisson. The message
    /// must not mislead a waiter while [`wakes_now`](Self::wakes_now) returns `true`.
    const WAKES: &'static str;

    /// Returns the channel on which releases of `name` are announced.
    fn channel(name: &Name) -> String;

    /// Returns the commands that check whether a replica has the grant of `claim`. Returns `None`
    /// if the kind has no holds.
    fn granted(_claim: &Claim) -> Option<Granted> {
        None
    }

    /// Returns whether the client may publish [`WAKES`](Self::WAKES) for `name` now.
    fn wakes_now(_: &RedisStore, _name: &Name) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    fn acquire(
        _: &RedisStore,
        _: &Claim,
        _place: Option<Place>,
    ) -> impl Future<Output = Reply<Verdict>> + Send {
        ready(unsupported())
    }

    fn acquire_read_under_write(
        _: &RedisStore,
        _: &Claim,
        _writer: &Owner,
    ) -> impl Future<Output = Reply<Verdict>> + Send {
        ready(unsupported())
    }

    fn recount(
        _: &RedisStore,
        _: &Claim,
        _count: u32,
        _ttl: Option<Duration>,
    ) -> impl Future<Output = Reply<Outcome>> + Send {
        ready(unsupported())
    }

    fn release(
        _: &RedisStore,
        _: &Claim,
        _: ReleaseMode,
    ) -> impl Future<Output = Reply<ReleaseReply>> + Send {
        ready(unsupported())
    }

    fn renew(
        _: &RedisStore,
        renewals: &[Renewal],
    ) -> impl Future<Output = Reply<Vec<Outcome>>> + Send {
        ready(Ok(vec![Outcome::NotOwned; renewals.len()]))
    }

    fn guarded(
        _: &RedisStore,
        _: &Claim,
        _: &Work,
    ) -> impl Future<Output = Reply<Option<domain::Value>>> + Send {
        ready(unsupported())
    }

    fn holder(_: &RedisStore, _: &Object) -> impl Future<Output = Reply<Option<Holder>>> + Send {
        ready(unsupported())
    }

    fn held_by(_: &RedisStore, _: &Object, _: &Owner) -> impl Future<Output = Reply<u32>> + Send {
        ready(unsupported())
    }

    fn force_release(_: &RedisStore, _: &Object) -> impl Future<Output = Reply<bool>> + Send {
        ready(unsupported())
    }
}

/// Rejects a request that this kind does not support.
fn unsupported<T>() -> Reply<T> {
    Err(Failure::Unsupported(
        "this primitive does not support this request; report a bug of Leasehold",
    ))
}

/// Evaluates `$result` with the type that implements `$kind`. Only this macro and [`held_as`]
/// distinguish kinds.
macro_rules! by_kind {
    ($kind:expr, $InRedis:ident => $result:expr) => {
        match $kind {
            Kind::Lock => {
                type $InRedis = $crate::store::redis::kinds::lock::Lock;
                $result
            }
            Kind::Fair => {
                type $InRedis = $crate::store::redis::kinds::fair::Fair;
                $result
            }
            Kind::Read => {
                type $InRedis = $crate::store::redis::kinds::read_write::Readers;
                $result
            }
            Kind::Write => {
                type $InRedis = $crate::store::redis::kinds::read_write::Writers;
                $result
            }
            Kind::Semaphore => {
                type $InRedis = $crate::store::redis::kinds::semaphore::Semaphore;
                $result
            }
            Kind::Latch => {
                type $InRedis = $crate::store::redis::kinds::latch::Latch;
                $result
            }
            Kind::Permits => {
                type $InRedis = $crate::store::redis::kinds::permits::Permits;
                $result
            }
            Kind::Election => {
                type $InRedis = $crate::store::redis::kinds::election::Election;
                $result
            }
            Kind::Barrier => {
                type $InRedis = $crate::store::redis::kinds::barrier::Barrier;
                $result
            }
            Kind::Queue => {
                type $InRedis = $crate::store::redis::kinds::queue::Queue;
                $result
            }
            Kind::DoubleBarrier => {
                type $InRedis = $crate::store::redis::kinds::barrier::DoubleBarrier;
                $result
            }
        }
    };
}

pub(super) use by_kind;

/// Returns the kind whose requests read and change a hold of this `kind`. A fair lock and an
/// election are held like a lock.
fn held_as(kind: Kind) -> Kind {
    match kind {
        Kind::Fair | Kind::Election => Kind::Lock,
        other => other,
    }
}

impl RedisStore {
    /// Grants `claim` if the lock is free, with a hold count of 1.
    ///
    /// If the owner repeats its request, the lock is granted again, with a fresh lease.
    ///
    /// With a `place`, the owner gets a queue entry while the lock is busy. A later release may
    /// reserve the lock for this owner. The client of the owner then receives
    /// [`Event::Ask`](crate::store::Event::Ask), and acquires the lock by its next request.
    pub(crate) async fn acquire(&self, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        by_kind!(claim.object.kind, K => Box::pin(K::acquire(self, claim, place)).await)
    }

    /// Grants a read lock to the owner of the claim, if `writer` holds the write lock.
    pub(crate) async fn acquire_read_under_write(
        &self,
        claim: &Claim,
        writer: &Owner,
    ) -> Reply<Verdict> {
        by_kind!(claim.object.kind, K => Box::pin(K::acquire_read_under_write(self, claim, writer)).await)
    }

    /// Sets the hold count of the claim's owner, if this owner still has the hold. With a `ttl`,
    /// also renews the lease.
    ///
    /// The request sets the count instead of adding to it, so a repeated request changes nothing.
    pub(crate) async fn recount(
        &self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Reply<Outcome> {
        by_kind!(held_as(claim.object.kind), K => Box::pin(K::recount(self, claim, count, ttl)).await)
    }

    /// Removes the hold of the claim's owner, whatever its count. Notifies waiters, or reserves the
    /// lock for the next client in the queue: see [`ReleaseMode`].
    ///
    /// Except for queues, a repeated request returns `NotHeld`, even if the first request ended the
    /// hold. So the caller must remember that it has sent a release.
    pub(crate) async fn release(&self, claim: &Claim, mode: ReleaseMode) -> Reply<ReleaseReply> {
        by_kind!(claim.object.kind, K => {
            let released = K::release(self, claim, mode);
            Box::pin(self.announced::<K, _>(claim.name(), released)).await
        })
    }

    /// Returns the group of `object`. One request can renew all holds of a group. Holds of a group
    /// have the same kind. In a cluster, the holds also have the same slot, because a script may
    /// not use two slots. So if a node hangs, only the holds on this node are in doubt.
    pub(crate) fn group(&self, object: &Object) -> u32 {
        const KINDS: u32 = Kind::ALL.len() as u32;
        let slot = if self.topology.moves_slots() { slot_of_name(&object.name) } else { 0 };
        object.kind as u32 + KINDS * u32::from(slot)
    }

    /// Renews each hold that its owner still has. Returns one outcome for each hold, in order:
    /// [`Outcome::Unknown`] if no reply shows whether the hold was renewed.
    ///
    /// All holds must be of one [`group`](Self::group). Each renewal is atomic, but all renewals
    /// together are not.
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        Box::pin(self.renew_or_halve(renewals)).await
    }

    /// Returns how many replicas have executed the grant of `claim`. Waits until enough replicas
    /// have executed the grant, or until the time of `replicas` is over. Returns 0 if the owner no
    /// longer has the hold.
    pub(crate) async fn replicated(&self, claim: &Claim, replicas: Replicas) -> Reply<u32> {
        match by_kind!(held_as(claim.object.kind), K => K::granted(claim)) {
            Some(Granted(evidence)) => {
                let (slot, Replicas { least, within }) = (slot_of_name(claim.name()), replicas);
                Box::pin(self.topology.replicated(slot, evidence, (least, within))).await
            }
            None => unsupported(),
        }
    }

    /// Executes `work` if the claim's owner has its hold now, and returns the result of `work`. If
    /// not, does nothing and returns `None`.
    ///
    /// **The caller must not repeat the request**, because the store might execute `work` twice.
    pub(crate) async fn guarded(&self, claim: &Claim, work: &Work) -> Reply<Option<domain::Value>> {
        by_kind!(held_as(claim.object.kind), K => Box::pin(K::guarded(self, claim, work)).await)
    }

    pub(crate) async fn holder(&self, object: &Object) -> Reply<Option<Holder>> {
        by_kind!(held_as(object.kind), K => Box::pin(K::holder(self, object)).await)
    }

    /// Returns how many times `owner` holds `object`.
    pub(crate) async fn held_by(&self, object: &Object, owner: &Owner) -> Reply<u32> {
        by_kind!(held_as(object.kind), K => Box::pin(K::held_by(self, object, owner)).await)
    }

    /// Ends the hold of any holder of `object`, and notifies waiters. Returns whether it was held.
    pub(crate) async fn force_release(&self, object: &Object) -> Reply<bool> {
        by_kind!(object.kind, K => {
            let released = K::force_release(self, object);
            Box::pin(self.announced::<K, _>(&object.name, released)).await
        })
    }
}

/// Returns the channel on which releases of `object` are announced. If the object has a task,
/// returns the channel of that task.
pub(super) fn channel_of(object: &Object) -> String {
    let channel = by_kind!(object.kind, K => K::channel(&object.name));
    match &object.task {
        Some(task) => [&channel, ":", task.as_str()].concat(),
        None => channel,
    }
}

/// Returns all scripts for these channels. Each new connection loads them.
pub(super) fn preloads(channels: Channels) -> Vec<Preload> {
    let kinds = Kind::ALL.map(|kind| by_kind!(kind, K => K::SCRIPTS));
    let others =
        [data::SCRIPTS, map::SCRIPTS, quorum::SCRIPTS, rate_limiter::SCRIPTS, set::SCRIPTS];
    scripts::preloads(&[&kinds[..], &others].concat(), channels)
}
