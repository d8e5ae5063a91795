//! The barrier, which only Leasehold has: members with deadlines, and a receipt for each that has
//! passed.

use std::sync::LazyLock;

use redis::Value;

use super::{InRedis, Reply};
use crate::{
    domain::{Claim, Failure, Name, Owner, ReleaseMode, ReleaseReply, RemoteWaiters},
    store::{
        GENERATION_RESTS, RECEIPT_RESTS,
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

/// It has no holds. A member that gives up is withdrawn by a release.
pub(in crate::store::redis) struct Barrier;

impl InRedis for Barrier {
    const SCRIPTS: Scripts = &[&ARRIVE, &LEAVE];

    const WAKES: &'static str = "0";

    fn channel(name: &Name) -> String {
        keys::openings(name)
    }

    async fn release(store: &RedisStore, claim: &Claim, _: ReleaseMode) -> Reply<ReleaseReply> {
        let keys = [keys::members(claim.name())];
        let request = Request::script(&LEAVE, &keys, claim.owner.as_str());
        let removed = store.ask(request.read(replies::number)).await?;
        Ok(match removed {
            1 => ReleaseReply::Freed(RemoteWaiters::Nobody),
            _ => ReleaseReply::NotHeld { holder: None },
        })
    }
}

/// The reply to the arrival of a member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Arrival {
    /// The barrier has opened for this member.
    Passed { generation: u64, index: u32 },
    /// This number of members has arrived. Some of them are named.
    Waits { count: u32, members: Vec<Owner> },
}

/// Counts the member of this `claim`, whose ttl is its deadline, until `parties` have arrived. A
/// repeated request within [`RECEIPT_RESTS`] counts once, and returns the same.
pub(crate) async fn arrive(store: &RedisStore, claim: &Claim, parties: u32) -> Reply<Arrival> {
    let (name, member) = (claim.name(), claim.owner.as_str());
    let receipts = keys::passed(name);
    let keys = [keys::members(name), keys::generation(name), format!("{receipts}{member}")];
    let times = [millis(RECEIPT_RESTS), millis(GENERATION_RESTS)];
    let arguments = (member, parties, millis(claim.ttl), keys::openings(name), receipts, &times);
    let arrived = store.ask(Request::script(&ARRIVE, &keys, arguments).read(arrival));
    store.announced::<Barrier, _>(name, arrived).await
}

fn arrival(reply: &Value) -> Result<Arrival, Failure> {
    let unreadable = || replies::unreadable(reply);
    let Value::Array(parts) = reply else { return Err(unreadable()) };
    match &parts[..] {
        [Value::Int(1), Value::Int(generation), Value::Int(index)] => Ok(Arrival::Passed {
            generation: generation.unsigned_abs(),
            index: u32::try_from(*index).map_err(|_| unreadable())?,
        }),
        [Value::Int(0), Value::Int(count), members @ ..] => Ok(Arrival::Waits {
            count: u32::try_from(*count).map_err(|_| unreadable())?,
            members: members.iter().map(|it| Owner::lossy(&replies::into_text(it))).collect(),
        }),
        _ => Err(unreadable()),
    }
}
