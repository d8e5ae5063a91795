//! The map: a hash, as Redisson's `RMap`. Pages of a set are read in the same way.
//!
//! A reply of more than 256 KiB would end the connection, which all callers share. So scripts read,
//! and return no value that is too long.

use std::sync::LazyLock;

use redis::Value;

use super::Reply;
use crate::{
    domain::{Failure, Name, Owner},
    store::{
        RECEIPT_RESTS,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static CHANGE: LazyLock<Script> = script!("../once", "change");
static ADD: LazyLock<Script> = script!("../once", "add");
static INSERT_MANY: LazyLock<Script> = script!("../once", "insert_many");
static READ: LazyLock<Script> = script!("read");
static SCAN: LazyLock<Script> = script!("scan");

pub(super) const SCRIPTS: Scripts = &[&CHANGE, &ADD, &INSERT_MANY, &READ, &SCAN];

/// How many bytes a key, a value or an element may have.
pub(crate) const LONGEST: usize = 100_000;

/// How many bytes one reply may have: enough for a key and its value.
const LONGEST_REPLY: usize = 2 * LONGEST;

/// A change of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// Sets the value. Returns the previous value.
    Insert(&'a [u8]),
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

/// A page of a map or a set: each key followed by its value, and the cursor of the next page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Page {
    pub(crate) parts: Vec<Vec<u8>>,
    pub(crate) next: Option<u64>,
}

/// Changes an entry. A repeated request with the same `receipt` changes nothing, and returns the
/// same reply.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    key: &[u8],
    change: Change<'_>,
    receipt: &Owner,
) -> Reply<Changed> {
    let nothing: &[u8] = &[];
    let (verb, value, old) = match change {
        Change::Insert(value) => ("insert", value, nothing),
        Change::InsertIfAbsent(value) => ("absent", value, nothing),
        Change::Replace(value) => ("replace", value, nothing),
        Change::CompareAndSet { old, new } => ("compare", new, old),
        Change::Remove => ("remove", nothing, nothing),
        Change::RemoveIf(old) => ("matching", nothing, old),
    };
    let receipt = keys::receipt("map", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), LONGEST, verb, key, value, old);
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    store.ask(request.read(changed)).await
}

/// Adds to the number of an entry, and returns the sum.
pub(crate) async fn add(
    store: &RedisStore,
    name: &Name,
    key: &[u8],
    number: i64,
    receipt: &Owner,
) -> Reply<i64> {
    let receipt = keys::receipt("map", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), key, number);
    store.ask(Request::of(name, &ADD, &[&receipt], arguments).read(replies::number)).await
}

/// Sets entries, each a key followed by its value. There is at least one.
pub(crate) async fn insert_many(
    store: &RedisStore,
    name: &Name,
    pairs: &[Vec<u8>],
    receipt: &Owner,
) -> Reply<()> {
    let receipt = keys::receipt("map", name, receipt);
    let arguments = (millis(RECEIPT_RESTS), pairs);
    let request = Request::of(name, &INSERT_MANY, &[&receipt], arguments);
    store.ask(request.read(|reply| changed(reply).map(drop))).await
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

/// Returns a page of entries. `None` if they are too long.
pub(crate) async fn scan(
    store: &RedisStore,
    name: &Name,
    cursor: u64,
    count: u32,
) -> Reply<Option<Page>> {
    page(store, name, "HSCAN", cursor, count).await
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
    cursor: u64,
    count: u32,
) -> Reply<Option<Page>> {
    let request = Request::of(name, &SCAN, &[], (LONGEST_REPLY, verb, cursor, count));
    let read = |reply: &Value| match reply {
        Value::Int(0) => Ok(None),
        Value::Array(parts) => match &parts[..] {
            [cursor, Value::Array(parts)] => {
                let cursor = replies::number(cursor)?.unsigned_abs();
                let parts = parts.iter().map(bytes).collect::<Result<_, _>>()?;
                Ok(Some(Page { parts, next: Some(cursor).filter(|cursor| *cursor > 0) }))
            }
            _ => Err(replies::unreadable(reply)),
        },
        other => Err(replies::unreadable(other)),
    };
    store.ask(request.read(read)).await
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
