//! The map: a hash, as Redisson's `RMap`. Its script `scan` also reads the pages of a set.
//!
//! A reply of more than 256 KiB would end the connection, which all callers share. So scripts read,
//! and return no value that is too long.

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

static CHANGE: LazyLock<Script> = script!("../once", "prelude", "change");
static ADD: LazyLock<Script> = script!("../once", "prelude", "add");
static INSERT_MANY: LazyLock<Script> = script!("../once", "prelude", "insert_many");
static READ: LazyLock<Script> = script!("read");
static SCAN: LazyLock<Script> = script!("scan");

pub(super) const SCRIPTS: Scripts = &[&CHANGE, &ADD, &INSERT_MANY, &READ, &SCAN];

/// How many bytes one reply may have: enough for a key and its value.
const LONGEST_REPLY: usize = 2 * MAX_VALUE_BYTES;

/// A change of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Sets the value. Returns the previous value.
    Insert(&'a [u8]),
    /// Sets the value, and removes the entry after that time. Returns the value before.
    InsertFor(&'a [u8], Duration),
    /// Sets the value if there is none. Returns the existing value.
    InsertIfAbsent(&'a [u8]),
    /// Sets the value if there is one. Returns the previous value.
    Replace(&'a [u8]),
    /// Sets the value if it is `old`.
    CompareAndSet { old: &'a [u8], new: &'a [u8] },
    /// Removes the entry. Returns its value.
    Remove,
    /// Removes the entry if its value is this one.
    RemoveIf(&'a [u8]),
}

/// The reply to a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Changed {
    /// Nothing changed, or there is no value.
    No,
    /// It changed, or there is a value.
    Yes(Vec<u8>),
    /// The value is too long, and nothing changed.
    TooLong,
}

/// A page of a map or a set, or a part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Page {
    /// Keys and values by turns, or elements.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Unless this is the last page.
    pub(crate) next: Option<Cursor>,
    /// The next entry is too long. It is skipped.
    pub(crate) skips: bool,
}

/// Where reading continues. The default is the beginning.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cursor {
    page: u64,
    /// Hashes of the entries of this page that were read.
    read: Vec<Vec<u8>>,
}

/// Changes an entry, and publishes `notice` if it does. A repeated request with the same `receipt` changes nothing, and returns the
/// same reply. A server without TTLs of entries is a [`Failure::Unsupported`], and nothing changed.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    key: &[u8],
    change: Change<'_>,
    notice: Option<&Notice>,
    receipt: &Owner,
) -> Reply<Changed> {
    let nothing: &[u8] = &[];
    let (verb, value, old) = match change {
        Change::Insert(value) | Change::InsertFor(value, _) => ("insert", value, nothing),
        Change::InsertIfAbsent(value) => ("absent", value, nothing),
        Change::Replace(value) => ("replace", value, nothing),
        Change::CompareAndSet { old, new } => ("compare", new, old),
        Change::Remove => ("remove", nothing, nothing),
        Change::RemoveIf(old) => ("matching", nothing, old),
    };
    let ttl = match change {
        Change::InsertFor(_, ttl) => millis(ttl),
        _ => 0,
    };
    let receipt = keys::receipt("map", name, receipt);
    let arguments =
        (millis(RECEIPT_RESTS), MAX_VALUE_BYTES, verb, key, value, old, ttl, words(notice));
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    let reply = store.ask(request.read(changed)).await;
    store.notify_again(name, notice.as_slice()).await;
    reply.map_err(|failure| match failure {
        // The words before it differ between servers.
        Failure::Refused { message, .. } if ttl > 0 && message.contains("command called from") => {
            Failure::Unsupported(NO_TTLS)
        }
        other => other,
    })
}

/// The arguments that tell a script of `notice`.
fn words(notice: Option<&Notice>) -> (&[u8], &[u8]) {
    notice.map_or((&[], &[]), |it| (it.channel.as_bytes(), &it.message))
}

const NO_TTLS: &str = "this server does not support a TTL of a map entry; use Redis 7.4, Valkey 9 \
                       or newer, or insert without a TTL";

/// Adds to the number of an entry, and returns the sum.
pub(crate) async fn add(
    store: &RedisStore,
    name: &Name,
    key: &[u8],
    number: i64,
    notice: Option<&Notice>,
    receipt: &Owner,
) -> Reply<i64> {
    let receipt = keys::receipt("map", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), key, number, words(notice));
    let request = Request::of(name, &ADD, &[&receipt], arguments);
    let sum = store.ask(request.read(replies::number)).await;
    store.notify_again(name, notice.as_slice()).await;
    sum
}

/// Sets entries, each a key followed by its value. There is at least one.
pub(crate) async fn insert_many(
    store: &RedisStore,
    name: &Name,
    pairs: &[Vec<u8>],
    notice: Option<&Notice>,
    receipt: &Owner,
) -> Reply<()> {
    let receipt = keys::receipt("map", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), words(notice), pairs);
    let request = Request::of(name, &INSERT_MANY, &[&receipt], arguments);
    let reply = store.ask(request.read(|reply| changed(reply).map(drop))).await;
    store.notify_again(name, notice.as_slice()).await;
    reply
}

/// Returns the values of `keys`, of which there is at least one. `None` if they are too long.
pub(crate) async fn read(
    store: &RedisStore,
    name: &Name,
    keys: &[Vec<u8>],
) -> Reply<Option<Vec<Option<Vec<u8>>>>> {
    let request = Request::of(name, &READ, &[], (LONGEST_REPLY, keys));
    let value = |value: &Value| match value {
        Value::Nil => Ok(None),
        value => bytes(value).map(Some),
    };
    let read = |reply: &Value| match reply {
        Value::Int(0) => Ok(None),
        Value::Array(values) => values.iter().map(value).collect::<Result<_, _>>().map(Some),
        other => Err(replies::unreadable(other)),
    };
    store.ask(request.read(read)).await
}

/// Returns whether there is an entry with this key.
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

/// The reply of a command that returns 1 or 0 for an element.
pub(super) async fn flag(store: &RedisStore, name: &Name, verb: &str, it: &[u8]) -> Reply<bool> {
    let request = Request::command(verb, name.as_str(), it).about(name);
    store.ask(request.read(|reply| Ok(replies::number(reply)? == 1))).await
}

/// The reply of a command that counts.
pub(super) async fn count(store: &RedisStore, name: &Name, verb: &str) -> Reply<u64> {
    let request = Request::command(verb, name.as_str(), NOTHING).about(name);
    store.ask(request.read(|reply| replies::number(reply).map(i64::unsigned_abs))).await
}

/// Reads a page by this command.
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
            [page, Value::Array(parts), Value::Array(read)] => (page, parts, read, false),
            [page, Value::Array(parts), Value::Array(read), Value::Int(1)] => {
                (page, parts, read, true)
            }
            _ => return Err(replies::unreadable(reply)),
        };
        let texts = |values: &[Value]| values.iter().map(bytes).collect::<Result<Vec<_>, _>>();
        let next = Cursor { page: replies::number(page)?.unsigned_abs(), read: texts(read)? };
        // A part of the first page has the cursor 0, too.
        let next = Some(next).filter(|next| *next != Cursor::default());
        Ok(Page { parts: texts(parts)?, next, skips })
    };
    store.ask(Request::of(name, &SCAN, &[], arguments).read(read)).await
}

/// Reads the reply of a script that follows `once.lua`.
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
