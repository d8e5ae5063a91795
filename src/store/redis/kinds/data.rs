//! Requests that maps, sets and queues share.
//!
//! A reply of more than 256 KiB would end the connection, which all callers share. So values are
//! read by scripts, which return only values that are short enough.

use std::sync::LazyLock;

use redis::Value;

use super::Reply;
use crate::{
    domain::{Failure, Name},
    store::{
        MAX_VALUE_BYTES,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            replies,
            scripts::{Script, Scripts, script},
        },
    },
};

static SCAN: LazyLock<Script> = script!("scan");

pub(super) const SCRIPTS: Scripts = &[&SCAN];

/// The largest number of bytes of one reply, which is enough for a key and its value.
pub(super) const LONGEST_REPLY: usize = 2 * MAX_VALUE_BYTES;

/// The reply to a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Changed {
    /// Nothing changed, or there was no previous value.
    No,
    /// Something changed, or there was a previous value. The field is the value that the script
    /// returns, or empty.
    Yes(Vec<u8>),
    /// The previous value is too long for a reply, so nothing changed.
    TooLong,
}

/// A page of a map or a set, or a part of a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Page {
    /// The elements of a set. For a map, the first key, its value, the second key, and so on.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Where the next request continues. `None` after the last page.
    pub(crate) next: Option<Cursor>,
    /// The beginning of the key of the entry after `parts`, if this entry is too long for a reply
    /// and was left out.
    pub(crate) skips: Option<Vec<u8>>,
}

/// Where reading continues. The default value is the beginning.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cursor {
    page: u64,
    /// Hashes of the entries of this page that earlier requests have read.
    read: Vec<Vec<u8>>,
}

/// Sends a command that returns 1 or 0 for the key or element `it`. Returns whether the reply is 1.
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
        // Without hashes, the cursor 0 means the end. With hashes, it means the rest of the first
        // page.
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

pub(super) fn bytes(reply: &Value) -> Result<Vec<u8>, Failure> {
    match reply {
        Value::BulkString(bytes) => Ok(bytes.clone()),
        other => Err(replies::unreadable(other)),
    }
}
