//! The latch: Redisson's counter and channel.

use std::sync::LazyLock;

use leasehold_link::{Channels, slot_of};

use super::{DELETE, InRedis, Reply};
use crate::{
    domain::{Claim, Failure, Name, Owner, Place, Taken, Verdict},
    store::{
        RECEIPT_KEPT_FOR,
        redis::{
            RedisStore, keys,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static SET: LazyLock<Script> = script!("../receipt", "set");
static COUNT_DOWN: LazyLock<Script> = script!("../receipt", "../number", "count_down");

pub(in crate::store::redis) struct Latch;

impl InRedis for Latch {
    const SCRIPTS: Scripts = &[&SET, &COUNT_DOWN, &DELETE];

    const WAKES: &'static str = "0";

    /// Returns the channel of the latch. Like Redisson, puts the name in braces even if the name
    /// contains braces.
    fn channel(name: &Name) -> String {
        format!("redisson_countdownlatch__channel__{{{name}}}")
    }

    /// Returns whether the latch is open. While it is closed, the message `WAKES` would mislead
    /// Redisson's waiters, because to them this message means that the latch has opened.
    async fn wakes_now(store: &RedisStore, name: &Name) -> bool {
        store.number_at(name).await.is_ok_and(|count| count <= 0)
    }

    async fn acquire(store: &RedisStore, claim: &Claim, _: Option<Place>) -> Reply<Verdict> {
        Ok(match count(store, claim.name()).await? {
            1.. => Verdict::Busy(Taken::UNKNOWN),
            _ => Verdict::GRANTED,
        })
    }
}

/// A change of a latch, and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the count if the latch is open. Returns 1 if the request set the count, else 0.
    SetIfAbsent(u32),
    /// Counts down by one, and deletes the latch at zero. Returns the new count.
    CountDown,
    /// Deletes the latch. Returns 1 if it existed, else 0.
    Delete,
}

pub(crate) async fn count(store: &RedisStore, name: &Name) -> Reply<i64> {
    is_whole(store, name).await?;
    store.number_at(name).await
}

/// Changes the count. A repeated request with the same `receipt` within [`RECEIPT_KEPT_FOR`]
/// changes nothing, and returns the same reply.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    change: Change,
    receipt: &Owner,
) -> Reply<i64> {
    is_whole(store, name).await?;
    let (script, count) = match change {
        Change::SetIfAbsent(count) => (&SET, Some(count)),
        Change::CountDown => (&COUNT_DOWN, None),
        Change::Delete => (&DELETE, None),
    };
    let receipt = keys::receipt("latch", name, receipt);
    let arguments = (count, Latch::channel(name), millis(RECEIPT_KEPT_FOR));
    store.apply::<Latch>(name, script, &[&receipt], arguments).await
}

/// Rejects a latch whose channel and counter are in different slots. Only sharded channels have
/// slots.
async fn is_whole(store: &RedisStore, name: &Name) -> Reply<()> {
    let slot = |key: &str| slot_of(key.as_bytes());
    let apart = || slot(name.as_str()) != slot(&Latch::channel(name));
    match store.topology.channels().await? == Channels::Sharded && apart() {
        true => Err(Failure::Unsupported(
            "in a cluster, the name of a latch must not contain braces, because its channel \
             would be in another slot; choose a name without braces",
        )),
        false => Ok(()),
    }
}
