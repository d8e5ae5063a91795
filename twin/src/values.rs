//! Conversion of replies to Lua, and back.

use mlua::{BorrowedBytes, Error, Lua, Table, Value};

use super::{number, reply::Reply};

/// A word of a command that a script calls.
#[derive(Debug)]
pub(super) enum Word {
    Text(BorrowedBytes),
    Number(String),
}

impl Word {
    /// Converts a text or a number. Other values cannot be words.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.as_bytes())),
            Value::Integer(number) => Some(Self::Number(number::written(as_double(*number)))),
            Value::Number(number) => Some(Self::Number(number::written(*number))),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.as_bytes(),
        }
    }
}

/// Returns the Lua value of a reply.
pub(super) fn value(lua: &Lua, reply: &Reply) -> Result<Value, Error> {
    Ok(match reply {
        Reply::Int(number) => Value::Number(as_double(*number)),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Verbatim(text) => Value::String(lua.create_string(text)?),
        Reply::Double(number) => Value::String(lua.create_string(number::written(*number))?),
        Reply::Nil | Reply::NilList | Reply::Said => Value::Boolean(false),
        Reply::Status(text) => tagged(lua, "ok", text)?,
        Reply::Error(text) => tagged(lua, "err", text)?,
        Reply::List(items) | Reply::Push(items) => listed(lua, items.iter())?,
        Reply::Map(pairs) => listed(lua, pairs.iter().flat_map(|(key, value)| [key, value]))?,
        Reply::Scored(pairs) => {
            let flat =
                |(member, score): &(Vec<u8>, f64)| [Reply::bulk(member), Reply::Double(*score)];
            let flat: Vec<_> = pairs.iter().flat_map(flat).collect();
            listed(lua, flat.iter())?
        }
    })
}

/// Lua 5.1 has only doubles.
#[allow(clippy::cast_precision_loss)]
fn as_double(number: i64) -> f64 {
    number as f64
}

fn tagged(lua: &Lua, tag: &str, text: &str) -> Result<Value, Error> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(tag, text)?;
    Ok(Value::Table(table))
}

fn listed<'a>(lua: &Lua, items: impl Iterator<Item = &'a Reply>) -> Result<Value, Error> {
    let table = lua.create_table()?;
    for (place, item) in items.enumerate() {
        table.raw_set(place + 1, value(lua, item)?)?;
    }
    Ok(Value::Table(table))
}

/// Returns the reply for the value that a script returned.
pub(super) fn reply(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(&*text.as_bytes()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(number::truncated(*number)),
        Value::Table(table) => from_table(table),
        _ => Reply::Nil,
    }
}

fn from_table(table: &Table) -> Reply {
    let tag = |name: &str| match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    };
    if let Some(error) = tag("err") {
        return Reply::error(error);
    }
    if let Some(status) = tag("ok") {
        return Reply::Status(status.replace(['\r', '\n'], " ").into());
    }
    let item = |place: usize| table.raw_get(place).unwrap_or(Value::Nil);
    let items = (1..).map(item).take_while(|item| !item.is_nil());
    Reply::List(items.map(|item| reply(&item)).collect())
}

/// Returns the text of a value for an error.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Error(error) => error.to_string(),
        other => other.to_string().unwrap_or_default(),
    }
}
