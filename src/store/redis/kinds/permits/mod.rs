//! Permits that expire, each with an id and a lease: Redisson's expirable semaphore.

use std::{sync::LazyLock, time::Duration};

use redis::{ToRedisArgs, Value, cmd};

use super::{InRedis, Reply};
use crate::{
    domain::{
        Claim, Counts, Failure, Name, Outcome, Owner, PermitId, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Share, Verdict, permits_of,
    },
    store::{
        RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("prelude", "acquire");
static CHANGE: LazyLock<Script> = script!("../receipt", "prelude", "change");
static COUNT: LazyLock<Script> = script!("prelude", "count");
static LEASE: LazyLock<Script> = script!("prelude", "lease");
static RELEASE: LazyLock<Script> = script!("prelude", "release");
/// Renews permits, and the claims of a queue.
pub(super) static RENEW: LazyLock<Script> = script!("prelude", "renew");
static TOUCH: LazyLock<Script> = script!("touch");

pub(in crate::store::redis) struct Permits;

impl InRedis for Permits {
    const SCRIPTS: Scripts = &[&ACQUIRE, &CHANGE, &COUNT, &LEASE, &RELEASE, &RENEW];

    const WAKES: &'static str = "100";

    fn channel(name: &Name) -> String {
        keys::redissons("redisson_sc", name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        let (held, first) = (keys::leases(claim.name()), first_of(claim)?);
        let look = cmd("ZSCORE").arg(&held).arg(first.as_bytes()).clone();
        Some(Granted::new(&TOUCH, &[&held], first.as_bytes(), look))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, _: Option<Place>) -> Reply<Verdict> {
        let name = claim.name();
        let mut request = on(name, &ACQUIRE, (millis(claim.ttl), Self::channel(name)));
        name_each(&mut request, &claim.owner, claim.share);
        store.ask(request.read(|reply| verdict(store, reply, claim))).await
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let name = claim.name();
        let mut request = on(name, &RELEASE, Self::channel(name));
        name_each(&mut request, &claim.owner, claim.share);
        Ok(match store.ask(request.read(|reply| all_were_held(reply, name))).await? {
            true => ReleaseReply::Freed(RemoteWaiters::Nobody),
            false => ReleaseReply::NotHeld { holder: None },
        })
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let held: Vec<String> = renewals.iter().map(|it| keys::leases(&it.object.name)).collect();
        let mut request = Request::script(&RENEW, &held, NOTHING).reporting_split(held.len() > 1);
        for Renewal { owner, share, ttl, .. } in renewals {
            request.command.arg(share.units());
            name_each(&mut request, owner, *share);
            request.command.arg(ttl.map_or(0, millis));
        }
        store.ask(request.read(|reply| replies::outcomes(reply, held.len()))).await
    }
}

/// Returns how many permits are free and how many are held.
pub(crate) async fn count(store: &RedisStore, name: &Name) -> Reply<Counts> {
    store.ask(on(name, &COUNT, Permits::channel(name)).read(counts)).await
}

/// Returns for how long this permit is still held, or `None` if it is not held. With a `lease`,
/// first extends the lease of the permit to at least this time from now.
pub(crate) async fn lease(
    store: &RedisStore,
    name: &Name,
    id: PermitId,
    lease: Option<Duration>,
) -> Reply<Option<Duration>> {
    let arguments = (Permits::channel(name), id.as_bytes(), lease.map_or(0, millis));
    Ok(match store.ask(on(name, &LEASE, arguments).read(replies::number)).await? {
        0 => None,
        left => Some(u64::try_from(left).map_or(Duration::MAX, Duration::from_millis)),
    })
}

/// A change of permits, and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the total, which includes the held permits. Returns how many permits are free.
    Set(u32),
    /// Sets the total, unless a total is set. Returns 1 if the request set the total, else 0.
    SetIfAbsent(u32),
    /// Adds or removes permits. Returns how many permits are free.
    Add(i64),
    /// Releases this permit of any client. Returns 1 if the permit was held, else 0.
    Release(PermitId),
}

/// Changes permits. A repeated request with the same `receipt` within [`RECEIPT_KEPT_FOR`] changes
/// nothing, and returns the same reply.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    change: Change,
    receipt: &Owner,
) -> Reply<i64> {
    let (word, what) = match change {
        Change::Set(count) => ("set", count.to_string().into_bytes()),
        Change::SetIfAbsent(count) => ("set_if_absent", count.to_string().into_bytes()),
        Change::Add(count) => ("add", count.to_string().into_bytes()),
        Change::Release(id) => ("give_back", id.as_bytes().to_vec()),
    };
    let [held, receipt] = [keys::leases(name), keys::receipt("permits", name, receipt)];
    let arguments = (word, what, Permits::channel(name), millis(RECEIPT_KEPT_FOR));
    store.apply::<Permits>(name, &CHANGE, &[&held, &receipt], arguments).await
}

fn on<'a>(name: &'a Name, script: &'a Script, arguments: impl ToRedisArgs) -> Request<'a> {
    Request::of(name, script, &[&keys::leases(name)], arguments)
}

/// Adds the id of each permit to `request`.
fn name_each(request: &mut Request<'_>, owner: &Owner, share: Share) {
    permits_of(owner, share).for_each(|id| {
        request.command.arg(id.as_bytes());
    });
}

fn first_of(claim: &Claim) -> Option<PermitId> {
    permits_of(&claim.owner, claim.share).next()
}

/// Reads the reply to an acquisition: the first id if permits were granted, otherwise `{pttl}`.
fn verdict(store: &RedisStore, reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    match reply {
        Value::BulkString(id) if first_of(claim).is_some_and(|it| it.as_bytes()[..] == id[..]) => {
            Ok(Verdict::GRANTED)
        }
        busy => store.busy(busy, claim.name()),
    }
}

/// Reads the reply to a release. Returns whether all permits were held.
fn all_were_held(reply: &Value, name: &Name) -> Result<bool, Failure> {
    match replies::number(reply)? {
        all @ 0..=1 => Ok(all == 1),
        all @ -2..=-1 => {
            replies::warn_unannounced(name);
            Ok(all == -1)
        }
        _ => Err(replies::unreadable(reply)),
    }
}

/// Reads `{free, held, set}`.
fn counts(reply: &Value) -> Result<Counts, Failure> {
    match reply {
        Value::Array(parts) => match parts[..] {
            [Value::Int(free), Value::Int(held), Value::Int(set @ 0..=1)] => {
                Ok(Counts { free, held, set: set == 1 })
            }
            _ => Err(replies::unreadable(reply)),
        },
        other => Err(replies::unreadable(other)),
    }
}
