//! The map: a hash, as Redisson's `RMap`.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::{
    Reply,
    data::{Changed, Cursor, LONGEST_REPLY, Page, bytes, changed, count, flag, page},
};
use crate::{
    domain::{Failure, Name, Notice, Owner},
    store::{
        MAX_VALUE_BYTES, RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::Request,
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static CHANGE: LazyLock<Script> = script!("../once", "change");
static READ: LazyLock<Script> = script!("read");

pub(super) const SCRIPTS: Scripts = &[&CHANGE, &READ];

/// A change of an entry, or of several entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// A verb of `change.lua`, which describes the reply to each verb.
    pub(crate) verb: &'static str,
    /// The new value. For a sum, the decimal text of the number to add.
    pub(crate) value: &'a [u8],
    /// The value that the entry must have.
    pub(crate) old: &'a [u8],
    /// The time after which the new entry expires.
    pub(crate) ttl: Option<Duration>,
    /// Further entries to insert: each key is followed by its value.
    pub(crate) more: &'a [Vec<u8>],
}

impl Change<'_> {
    pub(crate) const INSERT: Self = Self::of("insert");
    pub(crate) const INSERT_IF_ABSENT: Self = Self::of("absent");
    pub(crate) const REPLACE: Self = Self::of("replace");
    pub(crate) const COMPARE_AND_SET: Self = Self::of("compare");
    pub(crate) const REMOVE: Self = Self::of("remove");
    pub(crate) const REMOVE_IF: Self = Self::of("matching");
    pub(crate) const ADD: Self = Self::of("add");
    pub(crate) const INSERT_MANY: Self = Self::of("many");

    const fn of(verb: &'static str) -> Self {
        Self { verb, value: &[], old: &[], ttl: None, more: &[] }
    }
}

/// Changes an entry. If something changes, publishes `notice`. A repeated request with the same
/// `receipt` changes nothing, and returns the same reply. If the server does not support TTLs of
/// entries, nothing changes, and the result is [`Failure::Unsupported`].
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    key: &[u8],
    change: Change<'_>,
    notice: Option<&Notice>,
    receipt: &Owner,
) -> Reply<Changed> {
    let Change { verb, value, old, ttl, more } = change;
    let receipt = keys::receipt("map", name, receipt);
    let words = notice.map(|it| (it.channel.as_bytes(), &it.message[..])).unwrap_or_default();
    let (kept_for, field_ttl) = (millis(RECEIPT_KEPT_FOR), ttl.map_or(0, millis));
    let arguments = (kept_for, MAX_VALUE_BYTES, verb, key, value, old, field_ttl, words, more);
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    let reply = store.ask(request.read(changed)).await;
    store.notify_again(name, notice.as_slice()).await;
    reply.map_err(|failure| match failure {
        // The error for an unknown command contains these words. Servers differ in its other words.
        Failure::Refused { message, .. }
            if ttl.is_some() && message.contains("command called from") =>
        {
            Failure::Unsupported(NO_TTLS)
        }
        other => other,
    })
}

const NO_TTLS: &str = "this server does not support a TTL of a map entry; use Redis 7.4, Valkey 9 \
                       or newer, or insert without a TTL";

/// Returns the values of the first of `keys`, as many as one reply may contain.
pub(crate) async fn read(
    store: &RedisStore,
    name: &Name,
    keys: &[Vec<u8>],
) -> Reply<Vec<Option<Vec<u8>>>> {
    let request = Request::of(name, &READ, &[], (LONGEST_REPLY, keys));
    let read = |reply: &Value| {
        let Value::Array(values) = reply else { return Err(replies::unreadable(reply)) };
        values.iter().map(|it| (*it != Value::Nil).then(|| bytes(it)).transpose()).collect()
    };
    store.ask(request.read(read)).await
}

pub(crate) async fn contains(store: &RedisStore, name: &Name, key: &[u8]) -> Reply<bool> {
    flag(store, name, "HEXISTS", key).await
}

pub(crate) async fn len(store: &RedisStore, name: &Name) -> Reply<u64> {
    count(store, name, "HLEN").await
}

pub(crate) async fn scan(store: &RedisStore, name: &Name, cursor: &Cursor) -> Reply<Page> {
    page(store, name, "HSCAN", cursor).await
}
