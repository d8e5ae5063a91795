//! The kinds of objects, each in a folder with its scripts. The engine asks the same of every
//! kind: see [`InRedis`]. A function that only one kind has stands in the module of that kind.

pub(in crate::store) mod latch;
pub(in crate::store) mod lock;
pub(in crate::store) mod permits;
pub(super) mod read_write;
pub(in crate::store) mod semaphore;

use std::{
    future::{Future, ready},
    time::Duration,
};

use super::{
    RedisStore, Reply,
    channels::Channels,
    connection::Preload,
    granted::Granted,
    scripts::{self, Scripts},
};
use crate::domain::{
    self, Claim, Failure, GivenBack, Holder, Kind, Name, Object, Outcome, Owner, Place,
    ReleaseMode, Renewal, Verdict, Work,
};

/// A kind of object in Redis: what the engine asks of every kind. A kind leaves out what its
/// objects are not asked.
pub(super) trait InRedis {
    /// Its scripts, which are loaded when a connection is made.
    const SCRIPTS: Scripts;

    /// A message that makes all waiters ask, those of Redisson as well, and is never wrong.
    const WAKES: &'static str;

    /// Where releases of `name` are announced.
    fn channel(name: &Name) -> String;

    /// How a replica is asked whether it has what was granted by `claim`. `None` if nothing is
    /// ever granted.
    fn granted(_claim: &Claim) -> Option<Granted> {
        None
    }

    /// Whether [`WAKES`](Self::WAKES) is true of `name` now.
    fn wakes_now(_: &RedisStore, _name: &Name) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    fn acquire(
        store: &RedisStore,
        claim: &Claim,
        place: Option<Place>,
    ) -> impl Future<Output = Reply<Verdict>> + Send;

    fn acquire_beside(
        _: &RedisStore,
        claim: &Claim,
        _writer: &Owner,
    ) -> impl Future<Output = Reply<Verdict>> + Send {
        ready(unsupported(&claim.object))
    }

    fn recount(
        _: &RedisStore,
        claim: &Claim,
        _count: u32,
        _ttl: Option<Duration>,
    ) -> impl Future<Output = Reply<Outcome>> + Send {
        ready(unsupported(&claim.object))
    }

    fn release(
        _: &RedisStore,
        claim: &Claim,
        _: ReleaseMode,
    ) -> impl Future<Output = Reply<GivenBack>> + Send {
        ready(unsupported(&claim.object))
    }

    fn renew(
        _: &RedisStore,
        renewals: &[Renewal],
    ) -> impl Future<Output = Reply<Vec<Outcome>>> + Send {
        ready(Ok(vec![Outcome::NotOurs; renewals.len()]))
    }

    fn guarded(
        _: &RedisStore,
        claim: &Claim,
        _: &Work,
    ) -> impl Future<Output = Reply<Option<domain::Value>>> + Send {
        ready(unsupported(&claim.object))
    }

    fn holder(
        _: &RedisStore,
        object: &Object,
    ) -> impl Future<Output = Reply<Option<Holder>>> + Send {
        ready(unsupported(object))
    }

    fn held_by(
        _: &RedisStore,
        object: &Object,
        _: &Owner,
    ) -> impl Future<Output = Reply<u32>> + Send {
        ready(unsupported(object))
    }

    fn force_release(_: &RedisStore, object: &Object) -> impl Future<Output = Reply<bool>> + Send {
        ready(unsupported(object))
    }
}

/// An object of this kind does not support the request.
pub(super) fn unsupported<T>(object: &Object) -> Reply<T> {
    Err(Failure::Unsupported(object.kind.unsupported()))
}

/// Evaluates `$answer` with the type that `$kind` has in Redis: the one place that tells kinds
/// apart.
macro_rules! by_kind {
    ($kind:expr, $InRedis:ident => $answer:expr) => {
        match $kind {
            Kind::Lock => {
                type $InRedis = $crate::store::redis::kinds::lock::Lock;
                $answer
            }
            Kind::Read => {
                type $InRedis = $crate::store::redis::kinds::read_write::Readers;
                $answer
            }
            Kind::Write => {
                type $InRedis = $crate::store::redis::kinds::read_write::Writers;
                $answer
            }
            Kind::Semaphore => {
                type $InRedis = $crate::store::redis::kinds::semaphore::Semaphore;
                $answer
            }
            Kind::Latch => {
                type $InRedis = $crate::store::redis::kinds::latch::Latch;
                $answer
            }
            Kind::Permits => {
                type $InRedis = $crate::store::redis::kinds::permits::Permits;
                $answer
            }
        }
    };
}

pub(super) use by_kind;

/// Where releases of `object` are announced.
pub(super) fn channel_of(object: &Object) -> String {
    by_kind!(object.kind, K => K::channel(&object.name))
}

/// How a replica is asked whether it has what was granted by `claim`.
pub(super) fn granted(claim: &Claim) -> Option<Granted> {
    by_kind!(claim.object.kind, K => K::granted(claim))
}

/// All scripts, to be loaded when a connection is made, for these channels.
pub(super) fn preloads(channels: Channels) -> Vec<Preload> {
    let scripts = Kind::ALL.map(|kind| by_kind!(kind, K => K::SCRIPTS));
    scripts::preloads(&scripts, channels)
}
