//! Sorted sets.

use super::{Call, GROWS, Keys, READ, SYNTAX, Spec, WRITE, syntax};
use crate::{
    core::Core,
    number,
    reply::{Answer, Reply},
    zset::{Range, Zset},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("zadd", -4, WRITE | GROWS, Keys::One, zadd),
    Spec::new("zcard", 2, READ, Keys::One, zcard),
    Spec::new("zcount", 4, READ, Keys::One, zcount),
    Spec::new("zpopmin", -2, WRITE, Keys::One, zpopmin),
    Spec::new("zrange", -4, READ, Keys::One, zrange),
    Spec::new("zrangebyscore", -4, READ, Keys::One, zrangebyscore),
    Spec::new("zrank", 3, READ, Keys::One, zrank),
    Spec::new("zrem", -3, WRITE, Keys::One, zrem),
    Spec::new("zremrangebyscore", 4, WRITE, Keys::One, zremrangebyscore),
    Spec::new("zscore", 3, READ, Keys::One, zscore),
];

/// The options of `ZADD`, which precede the first score.
#[derive(Debug, Default)]
struct Adding {
    only_new: bool,
    only_old: bool,
    /// Whether changed scores count in the reply.
    changed: bool,
}

fn zadd(core: &mut Core, call: &Call<'_>) -> Answer {
    let mut adding = Adding::default();
    let mut at = 2;
    loop {
        match () {
            () if call.is(at, "NX") => adding.only_new = true,
            () if call.is(at, "XX") => adding.only_old = true,
            () if call.is(at, "CH") => adding.changed = true,
            () => break,
        }
        at += 1;
    }
    let pairs = call.after(at);
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return syntax();
    }
    if adding.only_new && adding.only_old {
        return Err(Reply::error("ERR XX and NX options at the same time are not compatible"));
    }
    let scored = |pair: &[&'_ [u8]]| Some((number::double(pair[0])?, pair[1].to_vec()));
    let pairs: Option<Vec<_>> = pairs.chunks_exact(2).map(scored).collect();
    let pairs = pairs.ok_or_else(|| Reply::error("ERR value is not a valid float"))?;
    add(core, call, &adding, pairs)
}

fn add(core: &mut Core, call: &Call<'_>, how: &Adding, pairs: Vec<(f64, Vec<u8>)>) -> Answer {
    if how.only_old && core.find::<Zset>(call)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let set = core.make::<Zset>(call)?;
    let mut counted = 0;
    for (score, member) in pairs {
        match set.score(&member) {
            Some(_) if how.only_new => {}
            None if how.only_old => {}
            before => {
                set.set(&member, score);
                let changed = before.is_some_and(|before| before != score);
                counted += i64::from(before.is_none() || (how.changed && changed));
            }
        }
    }
    Ok(Reply::Int(counted))
}

fn zrem(core: &mut Core, call: &Call<'_>) -> Answer {
    let gone = core.change(call, |set: &mut Zset| {
        call.after(2).iter().filter(|member| set.remove(member)).count()
    });
    Ok(Reply::count(gone?.unwrap_or(0)))
}

fn zscore(core: &mut Core, call: &Call<'_>) -> Answer {
    let score = core.find::<Zset>(call)?.and_then(|set| set.score(call.word(2)));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

fn zrank(core: &mut Core, call: &Call<'_>) -> Answer {
    let rank = core.find::<Zset>(call)?.and_then(|set| set.rank(call.word(2)));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

fn zcard(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::count(core.find::<Zset>(call)?.map_or(0, |set| set.len())))
}

fn range(call: &Call<'_>) -> Result<Range, Reply> {
    let range = Range::read(call.word(2), call.word(3));
    range.ok_or_else(|| Reply::error("ERR min or max is not a float"))
}

fn zcount(core: &mut Core, call: &Call<'_>) -> Answer {
    let range = range(call)?;
    let Some(set) = core.find::<Zset>(call)? else { return Ok(Reply::Int(0)) };
    Ok(Reply::count(set.ranked().filter(|(_, score)| range.has(*score)).count()))
}

fn zremrangebyscore(core: &mut Core, call: &Call<'_>) -> Answer {
    let range = range(call)?;
    let gone = core.change(call, |set: &mut Zset| {
        let within = set.ranked().filter(|(_, score)| range.has(*score));
        let within: Vec<_> = within.map(|(member, _)| member.clone()).collect();
        within.iter().filter(|member| set.remove(member)).count()
    });
    Ok(Reply::count(gone?.unwrap_or(0)))
}

fn zpopmin(core: &mut Core, call: &Call<'_>) -> Answer {
    let single = call.words.len() == 2;
    let count = match call.words.len() {
        2 => 1,
        3 => {
            let count = call.integer(2).ok().and_then(|count| usize::try_from(count).ok());
            count.ok_or_else(|| Reply::error("ERR value is out of range, must be positive"))?
        }
        _ => return syntax(),
    };
    let popped = core.change(call, |set: &mut Zset| {
        std::iter::from_fn(|| set.pop_first()).take(count).collect::<Vec<_>>()
    })?;
    let popped = popped.unwrap_or_default();
    Ok(match (single, popped.as_slice()) {
        (true, [(member, score)]) => Reply::List(vec![Reply::bulk(member), Reply::Double(*score)]),
        _ => Reply::Scored(popped),
    })
}

/// Returns members, with their scores if the command requests them.
fn reported(members: Vec<(Vec<u8>, f64)>, with_scores: bool) -> Reply {
    match with_scores {
        true => Reply::Scored(members),
        false => Reply::bulks(members.into_iter().map(|(member, _)| member)),
    }
}

fn zrange(core: &mut Core, call: &Call<'_>) -> Answer {
    let with_scores = match call.after(4) {
        [] => false,
        [_] if call.is(4, "WITHSCORES") => true,
        _ => return syntax(),
    };
    let (from, to) = (call.integer(2)?, call.integer(3)?);
    let Some(set) = core.find::<Zset>(call)? else { return Ok(Reply::List(vec![])) };
    let (from, count) = window(from, to, set.len());
    let members = set.ranked().skip(from).take(count);
    Ok(reported(members.map(|(member, score)| (member.clone(), score)).collect(), with_scores))
}

/// Returns the start and the length of a range. Negative indices count from the end.
pub(super) fn window(from: i64, to: i64, length: usize) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (from, to) = (place(from).max(0), place(to).min(length - 1));
    let count = to.saturating_sub(from).saturating_add(1).max(0);
    (usize::try_from(from).unwrap_or(0), usize::try_from(count).unwrap_or(0))
}

fn zrangebyscore(core: &mut Core, call: &Call<'_>) -> Answer {
    let (mut with_scores, mut skip, mut count) = (false, 0, -1);
    let mut at = 4;
    while at < call.words.len() {
        if call.is(at, "WITHSCORES") {
            with_scores = true;
        } else if call.is(at, "LIMIT") && at + 2 < call.words.len() {
            (skip, count) = (call.integer(at + 1)?, call.integer(at + 2)?);
            at += 2;
        } else {
            return Err(Reply::error(SYNTAX));
        }
        at += 1;
    }
    let range = range(call)?;
    let Some(set) = core.find::<Zset>(call)? else { return Ok(Reply::List(vec![])) };
    let Ok(skip) = usize::try_from(skip) else { return Ok(Reply::List(vec![])) };
    let within = set.ranked().filter(|(_, score)| range.has(*score)).skip(skip);
    let within = within.take(usize::try_from(count).unwrap_or(usize::MAX));
    Ok(reported(within.map(|(member, score)| (member.clone(), score)).collect(), with_scores))
}
