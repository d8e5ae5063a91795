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
        MAX_VALUE_BYTES, RECEIPT_KEPT_FOR,
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
pub(crate) enum Change<'a> {
    /// Sets the value. Returns the previous value.
    Insert(&'a [u8]),
    /// Sets the value of an entry that expires after this time. Returns the previous value.
    InsertFor(&'a [u8], Duration),
    /// Sets the value if the map lacks the key. Otherwise returns the existing value.
    InsertIfAbsent(&'a [u8]),
    /// Sets the value if the map has the key. Returns the previous value.
    Replace(&'a [u8]),
    /// Sets the value to `new` if it is `old`.
    CompareAndSet { old: &'a [u8], new: &'a [u8] },
    /// Removes the entry. Returns its value.
    Remove,
    /// Removes the entry if it has this value.
    RemoveIf(&'a [u8]),
    /// Adds this number, as a decimal text. Returns the sum as a text.
    Add(&'a [u8]),
    /// Sets the value, and further entries: keys and values by turns.
    InsertMany(&'a [u8], &'a [Vec<u8>]),
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
    let (nothing, mut ttl, mut more): (&[u8], _, &[Vec<u8>]) = (&[], 0, &[]);
    let (verb, value, old) = match change {
        Change::Insert(value) => ("insert", value, nothing),
        Change::InsertFor(value, time) => {
            ttl = millis(time);
            ("insert", value, nothing)
        }
        Change::InsertIfAbsent(value) => ("absent", value, nothing),
        Change::Replace(value) => ("replace", value, nothing),
        Change::CompareAndSet { old, new } => ("compare", new, old),
        Change::Remove => ("remove", nothing, nothing),
        Change::RemoveIf(old) => ("matching", nothing, old),
        Change::Add(number) => ("add", number, nothing),
        Change::InsertMany(value, others) => {
            more = others;
            ("many", value, nothing)
        }
    };
    let receipt = keys::receipt("map", name, receipt);
    let words = notice.map_or((nothing, nothing), |it| (it.channel.as_bytes(), &it.message));
    let arguments =
        (millis(RECEIPT_KEPT_FOR), MAX_VALUE_BYTES, verb, key, value, old, ttl, words, more);
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    let reply = store.ask(request.read(changed)).await;
    store.notify_again(name, notice.as_slice()).await;
    reply.map_err(|failure| match failure {
        // Servers differ in the words before `command called from`.
        Failure::Refused { message, .. } if ttl > 0 && message.contains("command called from") => {
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
        let Value::Array(parts) = reply else { return Err(replies::unreadable(reply)) };
        let (page, parts, read, skips) = match &parts[..] {
            [page, Value::Array(parts), Value::Array(read)] => (page, parts, read, None),
            [page, Value::Array(parts), Value::Array(read), key] => {
                (page, parts, read, Some(bytes(key)?))
            }
            _ => return Err(replies::unreadable(reply)),
        };
        let texts = |values: &[Value]| values.iter().map(bytes).collect::<Result<Vec<_>, _>>();
        let next = Cursor { page: replies::number(page)?.unsigned_abs(), read: texts(read)? };
        // The cursor 0 means the end, or a part of the first page. Only a part has hashes.
        let next = Some(next).filter(|next| *next != Cursor::default());
        Ok(Page { parts: texts(parts)?, next, skips })
    };
    store.ask(Request::of(name, &SCAN, &[], arguments).read(read)).await
}

/// Reads the reply of a script that uses `once.lua`.
pub(super) fn changed(reply: &Value) -> Result<Changed, Failure> {
    match reply {
        Value::Array(parts) if parts[..] == [Value::Int(1)] => Ok(Changed::TooLong),
        Value::BulkString(bytes) => match bytes.split_first() {
            Some((b'0', [])) => Ok(Changed::No),
            Some((b'1', value)) => Ok(Changed::Yes(value.to_vec())),
            _ => Err(replies::unreadable(reply)),
        },
        other => Err(replies::unreadable(other)),
    }
}

fn bytes(reply: &Value) -> Result<Vec<u8>, Failure> {
    match reply {
        Value::BulkString(bytes) => Ok(bytes.clone()),
        other => Err(replies::unreadable(other)),
    }
}
