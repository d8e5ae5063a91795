//! The map: a hash, as Redisson's `RMap`. Its script `scan` also reads the pages of a set.
//!
//! A reply of more than 256 KiB would end the connection, which all callers share. So values are
//! read by scripts, which return only values that are short enough.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::Reply;
use crate::{
    domain::{Failure, Name, Notice, Owner},
    store::{
        MAX_VALUE_BYTES, RECEIPT_RESTS,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static CHANGE: LazyLock<Script> = script!("../once", "change");
static READ: LazyLock<Script> = script!("read");
static SCAN: LazyLock<Script> = script!("scan");

pub(super) const SCRIPTS: Scripts = &[&CHANGE, &READ, &SCAN];

/// The largest number of bytes of one reply: enough for a key and its value.
const LONGEST_REPLY: usize = 2 * MAX_VALUE_BYTES;

/// A change of an entry, or of several entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// As in `change.lua`, which describes the reply to each verb.
    pub(crate) verb: &'static str,
    /// The new value. For a sum, the decimal text of the number to add.
    pub(crate) value: &'a [u8],
    /// The value that the entry must have.
    pub(crate) old: &'a [u8],
    /// The time after which the new entry expires.
    pub(crate) ttl: Option<Duration>,
    /// Further entries to insert: keys and values by turns.
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

/// The reply to a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Changed {
    /// Nothing changed, or there was no previous value.
    No,
    /// Something changed, or there was a previous value. Contains the previous value, or no bytes.
    Yes(Vec<u8>),
    /// The previous value is too long for a reply, so nothing changed.
    TooLong,
}

/// A page of a map or a set, or a part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Page {
    /// Of a map, keys and values by turns; of a set, elements.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Where the next request continues. `None` after the last page.
    pub(crate) next: Option<Cursor>,
    /// If the entry after `parts` was left out, because it is too long for a reply: the beginning
    /// of its key.
    pub(crate) skips: Option<Vec<u8>>,
}

/// Where reading continues. The default is the beginning.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cursor {
    page: u64,
    /// Hashes of the entries of this page that earlier requests have read.
    read: Vec<Vec<u8>>,
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
    let (rest, field_ttl) = (millis(RECEIPT_RESTS), ttl.map_or(0, millis));
    let arguments = (rest, MAX_VALUE_BYTES, verb, key, value, old, field_ttl, words, more);
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    let reply = store.ask(request.read(changed)).await;
    store.notify_again(name, notice.as_slice()).await;
    reply.map_err(|failure| match failure {
        // Servers differ in the words before `command called from`.
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

/// Returns whether the map has an entry with this key.
pub(crate) async fn contains(store: &RedisStore, name: &Name, key: &[u8]) -> Reply<bool> {
    flag(store, name, "HEXISTS", key).await
}

/// Returns the number of entries.
pub(crate) async fn len(store: &RedisStore, name: &Name) -> Reply<u64> {
    count(store, name, "HLEN").await
}

/// Returns a page of entries.
pub(crate) async fn scan(store: &RedisStore, name: &Name, cursor: &Cursor) -> Reply<Page> {
    page(store, name, "HSCAN", cursor).await
}

/// Sends a command that returns 1 or 0 for `it`, and returns whether the reply is 1.
pub(super) async fn flag(store: &RedisStore, name: &Name, verb: &str, it: &[u8]) -> Reply<bool> {
    let request = Request::command(verb, name.as_str(), it).about(name);
    store.ask(request.read(|reply| Ok(replies::number(reply)? == 1))).await
}

/// Sends a command that counts, and returns the number.
pub(super) async fn count(store: &RedisStore, name: &Name, verb: &str) -> Reply<u64> {
    let request = Request::command(verb, name.as_str(), NOTHING).about(name);
    store.ask(request.read(|reply| replies::number(reply).map(i64::unsigned_abs))).await
}

/// Reads a page by the command `verb`: `HSCAN` or `SSCAN`.
pub(super) async fn page(
    store: &RedisStore,
    name: &Name,
    verb: &str,
    cursor: &Cursor,
) -> Reply<Page> {
    let arguments = (LONGEST_REPLY, verb, cursor.page, &cursor.read);
    let read = |reply: &Value| {
        let Some([page, Value::Array(parts), Value::Array(read), skips @ ..]) = reply.as_sequence()
        else {
            return Err(replies::unreadable(reply));
        };
        let texts = |values: &[Value]| values.iter().map(bytes).collect::<Result<Vec<_>, _>>();
        let next = Cursor { page: replies::number(page)?.unsigned_abs(), read: texts(read)? };
        // The cursor 0 means the end, or a part of the first page. Only a part has hashes.
        let next = Some(next).filter(|next| *next != Cursor::default());
        Ok(Page { parts: texts(parts)?, next, skips: skips.first().map(bytes).transpose()? })
    };
    store.ask(Request::of(name, &SCAN, &[], arguments).read(read)).await
}

/// Reads the reply of a script that uses `once.lua`.
pub(super) fn changed(reply: &Value) -> Result<Changed, Failure> {
    match reply {
        Value::Array(parts) if parts[..] == [Value::Int(1)] => Ok(Changed::TooLong),
        Value::BulkString(text) if text == b"0" => Ok(Changed::No),
        Value::BulkString(text) if text.starts_with(b"1") => Ok(Changed::Yes(text[1..].to_vec())),
        other => Err(replies::unreadable(other)),
    }
}

fn bytes(reply: &Value) -> Result<Vec<u8>, Failure> {
    match reply {
        Value::BulkString(bytes) => Ok(bytes.clone()),
        other => Err(replies::unreadable(other)),
    }
}
