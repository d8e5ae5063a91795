//! The two sides of a read-write lock. A reader has the field `<owner>` in the hash of the lock,
//! and a key that expires with the lease of this reader. A writer has the field `<owner>:write`.

use std::{sync::LazyLock, time::Duration};

use redis::{Value, cmd};

use super::{
    InRedis, Reply,
    lock::{count_of, guarded},
};
use crate::{
    domain::{
        self, Claim, Failure, Holder, Name, Object, Outcome, Owner, Place, ReleaseMode,
        ReleaseReply, Renewal, Share, Taken, Verdict, Work,
    },
    store::{
        COURTESY_TURN, KNOWN_FOR,
        redis::{
            RedisStore,
            ask::{Ask, NOTHING, Read, Request},
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static READ: LazyLock<Script> = script!("../holder", "prelude", "read");
static WRITE: LazyLock<Script> = script!("../holder", "prelude", "write");
static LEAVE: LazyLock<Script> = script!("../holder", "prelude", "leave");
static UNLOCK: LazyLock<Script> = script!("../holder", "prelude", "unlock");
static RENEW_READERS: LazyLock<Script> = script!("renew");
static RENEW_WRITERS: LazyLock<Script> = script!("prolong");
static RECOUNT_WRITER: LazyLock<Script> = script!("recount");
static INSPECT: LazyLock<Script> = script!("../holder", "prelude", "inspect");
static FORCE: LazyLock<Script> = script!("../holder", "prelude", "force");

/// The suffix of a writer's field.
const WRITER: &str = ":write";

pub(in crate::store::redis) struct Readers;

impl InRedis for Readers {
    const SCRIPTS: Scripts = &[&READ, &LEAVE, &RENEW_READERS, &INSPECT, &FORCE];

    /// Makes readers and writers send requests.
    const WAKES: &'static str = "1";

    fn channel(name: &Name) -> String {
        channel(name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        let lease = keys::reader(claim.name(), &claim.owner);
        let look = cmd("EXISTS").arg(&lease).clone();
        let field = Granted::field(&[claim.name().as_str(), &lease], claim.owner.as_str());
        Some(field.found_by(look))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, _: Option<Place>) -> Reply<Verdict> {
        let Share::ReadAfterWriters { waited } = claim.share else {
            return store.ask(read(claim, None, None)).await;
        };
        let ask = |knows: bool| store.ask(read(claim, knows.then_some(waited), None));
        store.with_waiters(&claim.object, ask).await
    }

    async fn acquire_read_under_write(
        store: &RedisStore,
        claim: &Claim,
        writer: &Owner,
    ) -> Reply<Verdict> {
        store.ask(read(claim, None, Some(writer))).await
    }

    /// Renews the lease, and ignores the count, because the tasks of a process that share a read
    /// lock are one reader in the store.
    async fn recount(
        store: &RedisStore,
        claim: &Claim,
        _: u32,
        ttl: Option<Duration>,
    ) -> Reply<Outcome> {
        let Claim { object, owner, share, .. } = claim.clone();
        let outcomes = Self::renew(store, &[Renewal { object, owner, share, ttl }]).await?;
        Ok(outcomes.first().copied().unwrap_or(Outcome::Unknown))
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let name = claim.name();
        let arguments = (claim.owner.as_str(), channel(name), keys::in_slot(name));
        let lease = keys::reader(name, &claim.owner);
        let request = Request::of(name, &LEAVE, &[&lease], arguments);
        store.ask(request.read(|reply| release_reply(reply, name))).await
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let leases = renewals.iter().map(|it| keys::reader(&it.object.name, &it.owner));
        let leases: Vec<String> = leases.collect();
        let names = renewals.iter().map(|it| it.object.name.as_str());
        let keys: Vec<&str> =
            names.zip(&leases).flat_map(|(name, lease)| [name, lease.as_str()]).collect();
        let mut request = Request::script(&RENEW_READERS, &keys, NOTHING).reporting_split(true);
        for Renewal { owner, ttl, .. } in renewals {
            request.command.arg(owner.as_str()).arg(ttl.map_or(0, millis));
        }
        let asked = store.ask(request.read(|it| replies::outcomes(it, renewals.len()))).await;
        match renewals {
            [one] if replies::is_split(&asked) => Ok(vec![renew_apart(store, one).await?]),
            _ => asked,
        }
    }

    async fn holder(store: &RedisStore, object: &Object) -> Reply<Option<Holder>> {
        holder_in(store, "read", object).await
    }

    async fn held_by(store: &RedisStore, object: &Object, owner: &Owner) -> Reply<u32> {
        count_of(store, &object.name, owner.as_str()).await
    }

    async fn force_release(store: &RedisStore, object: &Object) -> Reply<bool> {
        force_out_of(store, "read", "0", object).await
    }
}

pub(in crate::store::redis) struct Writers;

impl InRedis for Writers {
    const SCRIPTS: Scripts = &[&WRITE, &UNLOCK, &RENEW_WRITERS, &RECOUNT_WRITER];

    const WAKES: &'static str = Readers::WAKES;

    fn channel(name: &Name) -> String {
        channel(name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        Some(Granted::field(&[claim.name().as_str()], &writer(&claim.owner)))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        match place {
            Some(_) => {
                let ask = |waits: bool| store.ask(write(claim, waits));
                store.with_waiters(&claim.object, ask).await
            }
            None => store.ask(write(claim, false)).await,
        }
    }

    async fn recount(
        store: &RedisStore,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Reply<Outcome> {
        let arguments = (writer(&claim.owner), count, ttl.map_or(0, millis));
        let request = Request::of(claim.name(), &RECOUNT_WRITER, &[], arguments);
        store.ask(request.read(replies::outcome)).await
    }

    async fn release(store: &RedisStore, claim: &Claim, mode: ReleaseMode) -> Reply<ReleaseReply> {
        match mode {
            ReleaseMode::Broadcast => store.ask(unlock(store, claim, false)).await,
            _ => {
                let ask = |waited: bool| store.ask(unlock(store, claim, waited));
                store.with_waiters(&claim.object, ask).await
            }
        }
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let names: Vec<&str> = renewals.iter().map(|it| it.object.name.as_str()).collect();
        let request = Request::script(&RENEW_WRITERS, &names, NOTHING);
        store.renew_by(request, renewals, writer).await
    }

    async fn guarded(
        store: &RedisStore,
        claim: &Claim,
        work: &Work,
    ) -> Reply<Option<domain::Value>> {
        guarded::by_field(store, &writer(&claim.owner), claim, work).await
    }

    async fn holder(store: &RedisStore, object: &Object) -> Reply<Option<Holder>> {
        holder_in(store, "write", object).await
    }

    async fn held_by(store: &RedisStore, object: &Object, owner: &Owner) -> Reply<u32> {
        count_of(store, &object.name, &writer(owner)).await
    }

    async fn force_release(store: &RedisStore, object: &Object) -> Reply<bool> {
        force_out_of(store, "write", "1", object).await
    }
}

/// Returns the channel of both sides.
fn channel(name: &Name) -> String {
    keys::redissons("redisson_rwlock", name)
}

/// Requests a read lock. `waited` is the time for which the caller has waited. With `waited`,
/// earlier writers acquire first. `writing` is the writer that sends the request during its write
/// hold.
fn read<'a>(
    claim: &'a Claim,
    waited: Option<u32>,
    writing: Option<&Owner>,
) -> Ask<'a, impl Read<Verdict>> {
    let name = claim.name();
    let [lease, writers] = [keys::reader(name, &claim.owner), keys::writers(name)];
    let others = [&*lease, &*writers];
    let writing = writing.map(writer).unwrap_or_default();
    let arguments = (
        (claim.owner.as_str(), millis(claim.ttl)),
        (writing, waited.unwrap_or_default(), millis(COURTESY_TURN)),
    );
    let request = Request::of(name, &READ, &others[..1 + usize::from(waited.is_some())], arguments);
    request.reporting_split(waited.is_some()).read(|reply| verdict(reply, claim))
}

/// Requests the write lock. With `waits`, the request records this writer as waiting, and later
/// readers let this writer acquire first.
fn write(claim: &Claim, waits: bool) -> Ask<'_, impl Read<Verdict>> {
    let name = claim.name();
    let writers = keys::writers(name);
    let others = [&*writers];
    let asks = (claim.owner.as_str(), millis(claim.ttl));
    let arguments = (asks, writer(&claim.owner), millis(KNOWN_FOR));
    let request = Request::of(name, &WRITE, &others[..usize::from(waits)], arguments);
    request.reporting_split(waits).read(|reply| verdict(reply, claim))
}

/// Releases the write lock.
fn unlock<'a>(
    store: &RedisStore,
    claim: &'a Claim,
    waited: bool,
) -> Ask<'a, impl Read<ReleaseReply> + use<'a>> {
    let name = claim.name();
    let writers = keys::writers(name);
    let others = [&*writers];
    let level = u8::from(store.is_subscribed_to_releases(&claim.object));
    let channels = (channel(name), keys::in_slot(name));
    let arguments = (claim.owner.as_str(), writer(&claim.owner), channels, level);
    let request = Request::of(name, &UNLOCK, &others[..usize::from(waited)], arguments);
    request.reporting_split(waited).read(|reply| release_reply(reply, name))
}

/// Renews the lock and the lease of a reader by separate requests, because the keys are on two
/// nodes. The first request only checks that the reader holds the lock. If the reader leaves
/// between the requests, the key of its lease is left unused, and expires.
async fn renew_apart(store: &RedisStore, renewal: &Renewal) -> Reply<Outcome> {
    let Renewal { object, owner, ttl, .. } = renewal;
    let looked = prolong_lock(store, object, owner, 0).await?;
    if looked != Outcome::Renewed || !lease_lives_on(store, object, owner, *ttl).await? {
        return Ok(Outcome::NotOwned);
    }
    prolong_lock(store, object, owner, ttl.map_or(0, millis)).await
}

/// Renews the lock for a reader by the script for writers, which can check any field of the hash.
async fn prolong_lock(
    store: &RedisStore,
    object: &Object,
    owner: &Owner,
    ttl: u64,
) -> Reply<Outcome> {
    let request = Request::of(&object.name, &RENEW_WRITERS, &[], (owner.as_str(), ttl));
    let outcomes = store.ask(request.read(|reply| replies::outcomes(reply, 1))).await?;
    Ok(outcomes.into_iter().next().unwrap_or(Outcome::Unknown))
}

/// Renews the lease of a reader. Without a `ttl`, only checks the lease. Returns whether it exists.
async fn lease_lives_on(
    store: &RedisStore,
    object: &Object,
    owner: &Owner,
    ttl: Option<Duration>,
) -> Reply<bool> {
    let lease = keys::reader(&object.name, owner);
    let verb = if ttl.is_some() { "PEXPIRE" } else { "EXISTS" };
    let request = Request::command(verb, &lease, ttl.map(millis)).about(&object.name);
    Ok(store.send(&request).await? == Value::Int(1))
}

/// Returns one holder in this `mode`, which is `read` or `write`.
async fn holder_in(store: &RedisStore, mode: &str, object: &Object) -> Reply<Option<Holder>> {
    let request = Request::of(&object.name, &INSPECT, &[], mode);
    Ok(store.ask(request.read(replies::holder)).await?.map(as_owner))
}

/// Removes all holders in this `mode`, and publishes `message`.
async fn force_out_of(
    store: &RedisStore,
    mode: &str,
    message: &str,
    object: &Object,
) -> Reply<bool> {
    let name = &object.name;
    let arguments = (mode, channel(name), message, keys::in_slot(name));
    let request = Request::of(name, &FORCE, &[], arguments);
    store.ask(request.read(|reply| replies::freed(reply, name))).await
}

/// Returns the field of `owner` as a writer.
fn writer(owner: &Owner) -> String {
    format!("{}{WRITER}", owner.as_str())
}

/// Reads the reply to an acquisition: a grant, a holder or a waiting writer, or nothing.
fn verdict(reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    match reply {
        Value::Array(empty) if empty.is_empty() => Ok(Verdict::Busy(Taken::UNKNOWN)),
        reply => Ok(match replies::verdict(reply, claim)? {
            Verdict::Busy(taken) => {
                Verdict::Busy(Taken { holder: taken.holder.map(as_owner), ..taken })
            }
            granted => granted,
        }),
    }
}

/// Removes the suffix of a writer's field.
fn as_owner(holder: Holder) -> Holder {
    let owner = holder.owner.as_str().strip_suffix(WRITER).map(Owner::lossy);
    Holder { owner: owner.unwrap_or_else(|| holder.owner.clone()), ..holder }
}

fn release_reply(reply: &Value, name: &Name) -> Result<ReleaseReply, Failure> {
    Ok(match replies::release_reply(reply, name)? {
        ReleaseReply::NotHeld { holder } => ReleaseReply::NotHeld { holder: holder.map(as_owner) },
        freed @ ReleaseReply::Freed(_) => freed,
    })
}
