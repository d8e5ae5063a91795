//! Strings.

use super::{Call, GROWS, Keys, READ, Spec, WRITE, numbers, syntax};
use crate::{
    core::Core,
    data::{Entry, Value},
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("decr", 2, WRITE | GROWS, Keys::One, |core, call| count(core, call, -1)),
    Spec::new("decrby", 3, WRITE | GROWS, Keys::One, |core, call| {
        count(core, call, numbers::negated(call.integer(2)?)?)
    }),
    Spec::new("get", 2, READ, Keys::One, get),
    Spec::new("getrange", 4, READ, Keys::One, getrange),
    Spec::new("incr", 2, WRITE | GROWS, Keys::One, |core, call| count(core, call, 1)),
    Spec::new("incrby", 3, WRITE | GROWS, Keys::One, |core, call| {
        count(core, call, call.integer(2)?)
    }),
    Spec::new("set", -3, WRITE | GROWS, Keys::One, set),
];

fn get(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::or_nil(core.find::<Vec<u8>>(call)?))
}

fn getrange(core: &mut Core, call: &Call<'_>) -> Answer {
    let (from, to) = (call.integer(2)?, call.integer(3)?);
    let text = core.find::<Vec<u8>>(call)?.map(|text| text.clone()).unwrap_or_default();
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    // A negative index counts from the end. An index before the start counts as the start.
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let is_empty = from < 0 && to < 0 && from > to;
    let (from, to) = (place(from), place(to).min(length - 1));
    let place = |at: i64| usize::try_from(at).unwrap_or(usize::MAX);
    let part = if is_empty || to < 0 { None } else { text.get(place(from)..=place(to)) };
    Ok(Reply::bulk(part.unwrap_or_default()))
}

fn count(core: &mut Core, call: &Call<'_>, by: i64) -> Answer {
    let sum = numbers::added_to_text(core.find::<Vec<u8>>(call)?.as_deref(), by)?;
    *core.make::<Vec<u8>>(call)? = sum.to_string().into_bytes();
    Ok(Reply::Int(sum))
}

/// The options of `SET`.
#[derive(Debug, Default)]
struct Options {
    only_new: bool,
    only_old: bool,
    keep: bool,
    /// The position of the TTL, and its unit in milliseconds.
    lives: Option<(usize, i64)>,
}

fn set(core: &mut Core, call: &Call<'_>) -> Answer {
    let options = options(call)?;
    let now = core.now();
    let ends = options.lives.map(|(at, unit)| ends(now, call.integer(at)?, unit)).transpose()?;
    let keys = core.keys(call);
    let before = keys.entry(call.word(1), now).map(|entry| entry.ends);
    if (options.only_new && before.is_some()) || (options.only_old && before.is_none()) {
        return Ok(Reply::Nil);
    }
    let ends = if options.keep { before.flatten() } else { ends };
    keys.put(call.word(1), Entry { value: Value::Text(call.word(2).to_vec()), ends });
    Ok(Reply::OK)
}

fn options(call: &Call<'_>) -> Result<Options, Reply> {
    let mut options = Options::default();
    let mut at = 3;
    while at < call.words.len() {
        if call.is(at, "NX") && !options.only_old {
            options.only_new = true;
        } else if call.is(at, "XX") && !options.only_new {
            options.only_old = true;
        } else if call.is(at, "KEEPTTL") && options.lives.is_none() {
            options.keep = true;
        } else if let Some(unit) = unit(call, at)
            && !options.keep
            && options.lives.is_none()
            && at + 1 < call.words.len()
        {
            at += 1;
            options.lives = Some((at, unit));
        } else {
            return syntax();
        }
        at += 1;
    }
    Ok(options)
}

/// Returns the number of milliseconds in the unit of the option.
fn unit(call: &Call<'_>, at: usize) -> Option<i64> {
    let units = [("EX", 1_000), ("PX", 1)];
    units.into_iter().find(|(option, _)| call.is(at, option)).map(|(_, unit)| unit)
}

fn ends(now: i64, time: i64, unit: i64) -> Result<i64, Reply> {
    let lives = time.checked_mul(unit).filter(|lives| *lives > 0);
    let ends = lives.and_then(|lives| now.checked_add(lives));
    ends.ok_or_else(|| Reply::error(INVALID))
}

const INVALID: &str = "ERR invalid expire time in 'set' command";
