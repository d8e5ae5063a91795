//! Hashes.

use super::{Call, GROWS, Keys, READ, Spec, WRITE, numbers, syntax};
use crate::{
    core::Core,
    glob::is_like,
    hash::{Field, Hash},
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("hdel", -3, WRITE, Keys::One, hdel),
    Spec::new("hexists", 3, READ, Keys::One, hexists),
    Spec::new("hget", 3, READ, Keys::One, hget),
    Spec::new("hgetall", 2, READ, Keys::One, hgetall),
    Spec::new("hincrby", 4, WRITE | GROWS, Keys::One, hincrby),
    Spec::new("hkeys", 2, READ, Keys::One, |core, call| listed(core, call, |it| &it.name)),
    Spec::new("hlen", 2, READ, Keys::One, hlen),
    Spec::new("hmget", -3, READ, Keys::One, hmget),
    // Redis has this command since 7.4, and Valkey since 9.
    Spec::new("hpexpire", -6, WRITE | GROWS, Keys::One, hpexpire),
    Spec::new("hscan", -3, READ, Keys::One, hscan),
    Spec::new("hset", -4, WRITE | GROWS, Keys::One, hset),
    Spec::new("hsetnx", 4, WRITE | GROWS, Keys::One, hsetnx),
    Spec::new("hvals", 2, READ, Keys::One, |core, call| listed(core, call, |it| &it.value)),
];

fn hset(core: &mut Core, call: &Call<'_>) -> Answer {
    let pairs = call.after(2);
    if pairs.len() % 2 == 1 {
        return call.arity();
    }
    let hash = core.make::<Hash>(call)?;
    let new = pairs.chunks_exact(2).filter(|pair| hash.set(pair[0], pair[1].to_vec()));
    Ok(Reply::count(new.count()))
}

fn hsetnx(core: &mut Core, call: &Call<'_>) -> Answer {
    let hash = core.make::<Hash>(call)?;
    let free = hash.value(call.word(2)).is_none();
    Ok(Reply::flag(free && hash.set(call.word(2), call.word(3).to_vec())))
}

fn hget(core: &mut Core, call: &Call<'_>) -> Answer {
    let hash = core.find::<Hash>(call)?;
    Ok(Reply::or_nil(hash.and_then(|hash| hash.value(call.word(2)))))
}

fn hmget(core: &mut Core, call: &Call<'_>) -> Answer {
    let hash = core.find::<Hash>(call)?.map(|hash| &*hash);
    let value = |field: &&[u8]| Reply::or_nil(hash.and_then(|hash| hash.value(field)));
    Ok(Reply::List(call.after(2).iter().map(value).collect()))
}

fn hexists(core: &mut Core, call: &Call<'_>) -> Answer {
    let hash = core.find::<Hash>(call)?;
    Ok(Reply::flag(hash.is_some_and(|hash| hash.value(call.word(2)).is_some())))
}

fn hlen(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::count(core.find::<Hash>(call)?.map_or(0, |hash| hash.len())))
}

fn hdel(core: &mut Core, call: &Call<'_>) -> Answer {
    let gone = core.change(call, |hash: &mut Hash| {
        call.after(2).iter().filter(|field| hash.remove(field)).count()
    });
    Ok(Reply::count(gone?.unwrap_or(0)))
}

fn hgetall(core: &mut Core, call: &Call<'_>) -> Answer {
    let Some(hash) = core.find::<Hash>(call)? else { return Ok(Reply::Map(vec![])) };
    let pair = |field: &Field| (Reply::bulk(&field.name), Reply::bulk(&field.value));
    Ok(Reply::Map(hash.fields().map(pair).collect()))
}

fn listed(core: &mut Core, call: &Call<'_>, part: fn(&Field) -> &Vec<u8>) -> Answer {
    let Some(hash) = core.find::<Hash>(call)? else { return Ok(Reply::List(vec![])) };
    Ok(Reply::bulks(hash.fields().map(part)))
}

fn hincrby(core: &mut Core, call: &Call<'_>) -> Answer {
    let by = call.integer(3)?;
    let value = core.find::<Hash>(call)?.and_then(|hash| hash.value(call.word(2)));
    let sum = numbers::added(value, by, "ERR hash value is not an integer")?;
    core.make::<Hash>(call)?.update(call.word(2), sum.to_string().into_bytes());
    Ok(Reply::Int(sum))
}

/// Executes `HPEXPIRE key milliseconds FIELDS number field …`. Conditions are not supported.
fn hpexpire(core: &mut Core, call: &Call<'_>) -> Answer {
    const MISSING: i64 = -2;
    let (millis, fields) = (call.integer(2)?, call.after(5));
    let counted = call.is(3, "FIELDS") && usize::try_from(call.integer(4)?) == Ok(fields.len());
    if !counted || millis < 1 {
        return syntax();
    }
    let ends = core.now() + millis;
    let mut hash = core.find::<Hash>(call)?;
    let set = |field: &&[u8]| {
        let is_there = hash.as_mut().is_some_and(|hash| hash.end_at(field, ends));
        Reply::Int(if is_there { 1 } else { MISSING })
    };
    Ok(Reply::List(fields.iter().map(set).collect()))
}

/// The largest hash that `HSCAN` returns in one page. Redis has such a limit, too.
const SMALL: usize = 128;

fn hscan(core: &mut Core, call: &Call<'_>) -> Answer {
    scan(
        call,
        |call| Ok(core.find::<Hash>(call)?.map(|hash| &*hash)),
        |field| vec![field.name.clone(), field.value.clone()],
    )
}

/// Returns one page of the hash that `find` returns. `parts` selects the parts of a field that the
/// page shows, such as its name.
pub(super) fn scan<'a, 'c>(
    call: &Call<'c>,
    find: impl FnOnce(&Call<'c>) -> Result<Option<&'a Hash>, Reply>,
    parts: fn(&Field) -> Vec<Vec<u8>>,
) -> Answer {
    let cursor = cursor(call.word(2)).ok_or_else(|| Reply::error("ERR invalid cursor"))?;
    let Some(hash) = find(call)? else { return Ok(page(0, vec![])) };
    let (pattern, count) = scan_options(call)?;
    let (cursor, count) = if hash.len() <= SMALL { (0, usize::MAX) } else { (cursor, count) };
    let mut rest = hash.fields().filter(|field| field.number > cursor).peekable();
    let (mut reported, mut last) = (vec![], 0);
    for field in rest.by_ref().take(count) {
        last = field.number;
        if pattern.is_none_or(|pattern| is_like(pattern, &field.name)) {
            reported.extend(parts(field).into_iter().map(Reply::bulk));
        }
    }
    Ok(page(if rest.peek().is_some() { last } else { 0 }, reported))
}

/// Parses a number as `strtoul` does.
fn cursor(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.parse().ok()
}

fn page(cursor: u64, reported: Vec<Reply>) -> Reply {
    Reply::List(vec![Reply::bulk(cursor.to_string()), Reply::List(reported)])
}

fn scan_options<'a>(call: &Call<'a>) -> Result<(Option<&'a [u8]>, usize), Reply> {
    let (mut pattern, mut count) = (None, 10);
    for (at, option) in call.after(3).chunks(2).enumerate() {
        match (option, 3 + 2 * at) {
            ([_, value], at) if call.is(at, "MATCH") => pattern = Some(*value),
            ([_, _], at) if call.is(at, "COUNT") => {
                let wanted = usize::try_from(call.integer(at + 1)?).ok();
                let Some(wanted) = wanted.filter(|count| *count > 0) else { return syntax() };
                count = wanted;
            }
            _ => return syntax(),
        }
    }
    Ok((pattern, count))
}
