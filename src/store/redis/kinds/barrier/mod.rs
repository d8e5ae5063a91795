//! The barrier, which exists only in Leasehold. Waiting members have deadlines. An opening writes
//! an idempotency key for each member, so that a repeated request gets the same reply. After the
//! opening of a double barrier, the members are inside, each with a lease, until they leave.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::{InRedis, Reply};
use crate::{
    domain::{
        Claim, Failure, Name, Outcome, Owner, ReleaseMode, ReleaseReply, RemoteWaiters, Renewal,
    },
    store::{
        GENERATION_KEPT_FOR, RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::Request,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ARRIVE: LazyLock<Script> = script!("arrive");
static LEAVE: LazyLock<Script> = script!("leave");
static LEFT: LazyLock<Script> = script!("left");
static RENEW: LazyLock<Script> = script!("renew");

/// A barrier has no holds. If a member gives up, the request `release` withdraws the member.
pub(in crate::store::redis) struct Barrier;

impl InRedis for Barrier {
    const SCRIPTS: Scripts = &[&ARRIVE, &LEAVE];

    const WAKES: &'static str = "0";

    fn channel(name: &Name) -> String {
        keys::openings(name)
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        leave(store, claim, &[keys::members(claim.name())]).await
    }
}

/// A barrier in which each member has a hold from the opening until the member leaves.
pub(in crate::store::redis) struct DoubleBarrier;

impl InRedis for DoubleBarrier {
    const SCRIPTS: Scripts = &[&LEFT, &RENEW];

    const WAKES: &'static str = Barrier::WAKES;

    fn channel(name: &Name) -> String {
        Barrier::channel(name)
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        leave(store, claim, &[keys::members(claim.name()), keys::inside(claim.name())]).await
    }

    async fn renew(store: &RedisStore, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let names = renewals.iter().map(|it| &it.object.name);
        let keys: Vec<String> =
            names.flat_map(|name| [keys::inside(name), keys::generation(name)]).collect();
        let request = Request::script(&RENEW, &keys, millis(GENERATION_KEPT_FOR));
        store.renew_by(request, renewals, Owner::as_str).await
    }
}

async fn leave(store: &RedisStore, claim: &Claim, keys: &[String]) -> Reply<ReleaseReply> {
    let arguments = (claim.owner.as_str(), Barrier::channel(claim.name()));
    let request = Request::script(&LEAVE, keys, arguments);
    Ok(match store.ask(request.read(replies::number)).await? {
        1 => ReleaseReply::Freed(RemoteWaiters::Nobody),
        _ => ReleaseReply::NotHeld { holder: None },
    })
}

/// The reply to the arrival of a member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Arrival {
    /// The barrier has opened for this member.
    Passed { generation: u64, index: u32 },
    /// The member waits for other members.
    Waits(Members),
    /// A double barrier has opened for this member, and the lease of the member is over.
    Late,
}

/// The number of members that have arrived or are inside, and the owners of some of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Members {
    pub(crate) count: u32,
    pub(crate) some: Vec<Owner>,
}

/// Counts the member of this `claim` as arrived, and opens the barrier if `parties` members have
/// arrived. The member counts for the ttl of the claim. With a `lease`, the barrier is a double
/// barrier, so all members are inside after the opening. A repeated request within
/// [`RECEIPT_KEPT_FOR`] counts once, and returns the same reply.
pub(crate) async fn arrive(
    store: &RedisStore,
    claim: &Claim,
    parties: u32,
    lease: Option<Duration>,
) -> Reply<Arrival> {
    let (name, member) = (claim.name(), claim.owner.as_str());
    let receipts = keys::passed(name);
    let mut keys = vec![keys::members(name), keys::generation(name), format!("{receipts}{member}")];
    keys.extend(lease.map(|_| keys::inside(name)));
    let times = [millis(RECEIPT_KEPT_FOR), millis(GENERATION_KEPT_FOR)];
    let arguments = (member, parties, millis(claim.ttl), keys::openings(name), receipts, &times);
    let mut request = Request::script(&ARRIVE, &keys, arguments);
    if let Some(lease) = lease {
        request.command.arg(millis(lease));
    }
    store.announced::<Barrier, _>(name, store.ask(request.read(arrival))).await
}

/// Returns the members that are inside a double barrier, or `None` if all members of this
/// `generation` have left.
pub(crate) async fn inside(
    store: &RedisStore,
    name: &Name,
    generation: u64,
) -> Reply<Option<Members>> {
    let keys = [keys::inside(name), keys::generation(name)];
    let read = |reply: &Value| match parts(reply)? {
        [Value::Int(1)] => Ok(None),
        [Value::Int(0), there @ ..] => members(there, reply).map(Some),
        _ => Err(replies::unreadable(reply)),
    };
    store.ask(Request::script(&LEFT, &keys, generation).read(read)).await
}

fn arrival(reply: &Value) -> Result<Arrival, Failure> {
    let unreadable = || replies::unreadable(reply);
    match parts(reply)? {
        [Value::Int(1), Value::Int(generation), Value::Int(index)] => Ok(Arrival::Passed {
            generation: generation.unsigned_abs(),
            index: u32::try_from(*index).map_err(|_| unreadable())?,
        }),
        [Value::Int(0), there @ ..] => members(there, reply).map(Arrival::Waits),
        [Value::Int(2)] => Ok(Arrival::Late),
        _ => Err(unreadable()),
    }
}

fn parts(reply: &Value) -> Result<&[Value], Failure> {
    match reply {
        Value::Array(parts) => Ok(parts),
        _ => Err(replies::unreadable(reply)),
    }
}

/// Reads a count, and the owners of some members.
fn members(parts: &[Value], reply: &Value) -> Result<Members, Failure> {
    let [Value::Int(count), some @ ..] = parts else { return Err(replies::unreadable(reply)) };
    Ok(Members {
        count: u32::try_from(*count).map_err(|_| replies::unreadable(reply))?,
        some: some.iter().map(|it| Owner::lossy(&replies::into_text(it))).collect(),
    })
}
