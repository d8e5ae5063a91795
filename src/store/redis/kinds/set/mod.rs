//! The set: a Redis set, like Redisson's `RSet`.

use std::sync::LazyLock;

use redis::Value;

use super::{
    Reply,
    data::{self, Changed, Cursor, Page},
};
use crate::{
    domain::{Failure, Name, Owner},
    store::{
        MAX_VALUE_BYTES, RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::Request,
            keys,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static CHANGE: LazyLock<Script> = script!("../once", "change");
static POP: LazyLock<Script> = script!("../once", "pop");

pub(super) const SCRIPTS: Scripts = &[&CHANGE, &POP];

/// A change of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Insert,
    /// Adds the elements, unless the set has one of them.
    InsertAllIfNone,
    Remove,
}

/// Adds or removes `elements`, which must not be empty. Returns whether something changed. A
/// repeated request with the same `receipt` changes nothing, and returns the same reply.
pub(crate) async fn change(
    store: &RedisStore,
    name: &Name,
    change: Change,
    elements: &[Vec<u8>],
    receipt: &Owner,
) -> Reply<bool> {
    let verb = match change {
        Change::Insert => "SADD",
        Change::InsertAllIfNone => "NONE",
        Change::Remove => "SREM",
    };
    let receipt = keys::receipt("set", name, receipt);
    let arguments = (millis(RECEIPT_KEPT_FOR), verb, elements);
    let request = Request::of(name, &CHANGE, &[&receipt], arguments);
    let read = |reply: &Value| data::changed(reply).map(|it| it != Changed::No);
    store.ask(request.read(read)).await
}

/// Removes any element, and returns it.
pub(crate) async fn pop(store: &RedisStore, name: &Name, receipt: &Owner) -> Reply<Changed> {
    let receipt = keys::receipt("set", name, receipt);
    let arguments = (millis(RECEIPT_KEPT_FOR), MAX_VALUE_BYTES);
    let request = Request::of(name, &POP, &[&receipt], arguments);
    let read: fn(&Value) -> Result<Changed, Failure> = data::changed;
    store.ask(request.read(read)).await
}

pub(crate) async fn contains(store: &RedisStore, name: &Name, element: &[u8]) -> Reply<bool> {
    data::flag(store, name, "SISMEMBER", element).await
}

pub(crate) async fn len(store: &RedisStore, name: &Name) -> Reply<u64> {
    data::count(store, name, "SCARD").await
}

pub(crate) async fn scan(store: &RedisStore, name: &Name, cursor: &Cursor) -> Reply<Page> {
    data::page(store, name, "SSCAN", cursor).await
}
