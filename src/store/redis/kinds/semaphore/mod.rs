//! The semaphore: Redisson's counter and channel, and the owners of permits, which only Leasehold
//! stores.

use std::sync::LazyLock;

use redis::{Value, cmd};

use super::{DELETE, InRedis, Reply};
use crate::{
    domain::{
        Claim, Failure, Name, Object, Outcome, Owner, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Verdict,
    },
    store::{
        LATEST_EXECUTION, LONGEST_WAITER_TURN, PERMITS_KEPT_FOR, RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::Request,
            granted::Granted,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("../number", "acquire");
static RELEASE: LazyLock<Script> = script!("release");
static SET: LazyLock<Script> = script!("../receipt", "set_if_absent");
static ADD: LazyLock<Script> = script!("../receipt", "../number", "add");
static DRAIN: LazyLock<Script> = script!("../receipt", "../number", "drain");

pub(in crate::store::redis) struct Semaphore;

impl InRedis for Semaphore {
    const SCRIPTS: Scripts = &[&ACQUIRE, &RELEASE, &SET, &ADD, &DRAIN, &DELETE];

    const WAKES: &'static str = "100";

    fn channel(name: &Name) -> String {
        keys::redissons("redisson_sc", name)
    }

    fn granted(claim: &Claim) -> Option<Granted> {
        Some(Granted::field(&[&keys::holders(claim.name())], claim.owner.as_str()))
    }

    async fn acquire(store: &RedisStore, claim: &Claim, place: Option<Place>) -> Reply<Verdict> {
        let name = claim.name();
        let waited = match place {
            Some(Place::Waited(time)) => millis(time).to_string(),
            _ => String::new(),
        };
        let times = [PERMITS_KEPT_FOR, LONGEST_WAITER_TURN].map(millis);
        let asks = (claim.owner.as_str(), claim.units());
        let [holders, withdrawn, longest_waiter] = own_keys(name);
        let request = Request::of(
            name,
            &ACQUIRE,
            &[&holders, &withdrawn, &longest_waiter],
            (asks, waited, &times, Self::channel(name)),
        );
        store.ask(request.read(|reply| verdict(store, reply, claim))).await
    }

    async fn release(store: &RedisStore, claim: &Claim, mode: ReleaseMode) -> Reply<ReleaseReply> {
        let name = claim.name();
        let mode = match mode {
            ReleaseMode::Forget => "forget",
            ReleaseMode::Leave => "leave",
            ReleaseMode::Broadcast | ReleaseMode::HandOver => "back",
        };
        let arguments = (claim.owner.as_str(), Self::channel(name), millis(LATEST_EXECUTION), mode);
        let [holders, withdrawn, longest_waiter] = own_keys(name);
        let request =
            Request::of(name, &RELEASE, &[&holders, &withdrawn, &longest_waiter], arguments);
        let freed = store.ask(request.read(|reply| replies::freed(reply, name))).await?;
        Ok(match freed {
            true => ReleaseReply::Freed(RemoteWaiters::Nobody),
            false => ReleaseReply::NotHeld { holder: None },
        })
    }

    /// Checks whether each owner has its permits. Permits of a semaphore have no lease to renew.
    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let look = |renewal: &Renewal| {
            let holders = keys::holders(&renewal.object.name);
            cmd("HEXISTS").arg(holders).arg(renewal.owner.as_str()).clone()
        };
        let looks: Vec<_> = renewals.iter().map(look).collect();
        let Some(first) = renewals.first() else { return Ok(Vec::new()) };
        let key = first.object.name.as_str().as_bytes();
        let replies = store.topology.call_all(key, &looks).await?;
        let outcome = |reply: &Value| match reply {
            Value::ServerError(error) => Err(replies::refusal(error).naming(Some("HEXISTS"))),
            reply => replies::outcome(reply),
        };
        replies.iter().map(outcome).collect()
    }

    /// Returns how many permits `owner` has.
    async fn held_by(store: &RedisStore, object: &Object, owner: &Owner) -> Reply<u32> {
        let holders = keys::holders(&object.name);
        let request = Request::command("HGET", &holders, owner.as_str()).about(&object.name);
        store.ask(request.read(replies::count)).await
    }
}

/// Returns how many permits are free.
pub(crate) async fn available(store: &RedisStore, name: &Name) -> Reply<i64> {
    store.number_at(name).await
}

/// A change of the number of permits, and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the number, unless a number is set. Returns 1 if the request set the number, else 0.
    SetIfAbsent(u32),
    /// Adds or removes permits. Returns how many permits are free.
    Add(i64),
    /// Removes all free permits. Returns how many permits it removed.
    Drain,
    /// Deletes the semaphore. Returns 1 if it existed, else 0.
    Delete,
}

/// Changes the number of permits. A repeated request with the same `receipt` within
/// [`RECEIPT_KEPT_FOR`] changes nothing, and returns the same reply.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    change: Change,
    receipt: &Owner,
) -> Reply<i64> {
    let [receipt, holders] = [keys::receipt("semaphore", name, receipt), keys::holders(name)];
    let others = [&*receipt, &*holders];
    let channel = || Semaphore::channel(name);
    let (script, others, permits, channel) = match change {
        Change::SetIfAbsent(count) => (&SET, &others[..], Some(i64::from(count)), Some(channel())),
        Change::Add(count) => (&ADD, &others[..1], Some(count), Some(channel())),
        Change::Drain => (&DRAIN, &others[..1], None, None),
        // The deletion is not published, because it frees no permits.
        Change::Delete => (&DELETE, &others[..], None, Some(String::new())),
    };
    let arguments = (permits, channel, millis(RECEIPT_KEPT_FOR));
    store.apply::<Semaphore>(name, script, others, arguments).await
}

/// Reads the reply to an acquisition: the owner if permits were granted, otherwise `{pttl}`.
fn verdict(store: &RedisStore, reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    match reply {
        granted if replies::text(granted) == Some(claim.owner.as_str()) => Ok(Verdict::GRANTED),
        busy => store.busy(busy, claim.name()),
    }
}

/// Returns the keys that only Leasehold uses: owners of permits, withdrawn owners, the longest
/// waiter.
fn own_keys(name: &Name) -> [String; 3] {
    [keys::holders(name), keys::withdrawn(name), keys::longest_waiter(name)]
}
