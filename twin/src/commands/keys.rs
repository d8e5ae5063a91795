//! Commands for keys of any type: existence and TTL.

use super::{Call, DANGEROUS, Keys, READ, Spec, WRITE, syntax};
use crate::{
    core::Core,
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("del", -2, WRITE, Keys::All, del),
    Spec::new("exists", -2, READ, Keys::All, exists),
    Spec::new("expire", -3, WRITE, Keys::One, |core, call| expire(core, call, 1_000)),
    Spec::new("flushall", -1, WRITE | DANGEROUS, Keys::None, flushall),
    Spec::new("persist", 2, WRITE, Keys::One, persist),
    Spec::new("pexpire", -3, WRITE, Keys::One, |core, call| expire(core, call, 1)),
    Spec::new("pttl", 2, READ, Keys::One, |core, call| Ok(ttl(core, call, 1))),
    Spec::new("ttl", 2, READ, Keys::One, |core, call| Ok(ttl(core, call, 1_000))),
    Spec::new("type", 2, READ, Keys::One, kind),
    Spec::new("unlink", -2, WRITE, Keys::All, del),
];

fn del(core: &mut Core, call: &Call<'_>) -> Answer {
    let now = core.now();
    let keys = core.keys(call);
    Ok(Reply::count(call.after(1).iter().filter(|key| keys.delete(key, now)).count()))
}

fn exists(core: &mut Core, call: &Call<'_>) -> Answer {
    let now = core.now();
    let keys = core.keys(call);
    Ok(Reply::count(call.after(1).iter().filter(|key| keys.entry(key, now).is_some()).count()))
}

fn kind(core: &mut Core, call: &Call<'_>) -> Answer {
    let now = core.now();
    let entry = core.keys(call).entry(call.word(1), now);
    Ok(Reply::Status(entry.map_or("none", |entry| entry.value.kind()).into()))
}

fn flushall(core: &mut Core, call: &Call<'_>) -> Answer {
    match call.words {
        [_] => {}
        [_, _] if call.is(1, "SYNC") || call.is(1, "ASYNC") => {}
        _ => return syntax(),
    }
    core.clear();
    Ok(Reply::OK)
}

fn ttl(core: &mut Core, call: &Call<'_>, unit: i64) -> Reply {
    let now = core.now();
    let left = core.keys(call).entry(call.word(1), now).map(|entry| entry.ends);
    Reply::Int(match left {
        None => -2,
        Some(None) => -1,
        Some(Some(ends)) => (ends - now + unit / 2) / unit,
    })
}

fn persist(core: &mut Core, call: &Call<'_>) -> Answer {
    let now = core.now();
    let entry = core.keys(call).entry(call.word(1), now);
    Ok(Reply::flag(entry.is_some_and(|entry| entry.ends.take().is_some())))
}

fn expire(core: &mut Core, call: &Call<'_>, unit: i64) -> Answer {
    let invalid = || {
        let name = call.spec.name;
        Reply::error(format!("ERR invalid expire time in '{name}' command"))
    };
    let condition = conditions(call)?;
    let now = core.now();
    let lives = call.integer(2)?.checked_mul(unit).ok_or_else(invalid)?;
    let ends = now.checked_add(lives).ok_or_else(invalid)?;
    let keys = core.keys(call);
    let Some(entry) = keys.entry(call.word(1), now) else { return Ok(Reply::Int(0)) };
    if !condition.allows(entry.ends, ends) {
        return Ok(Reply::Int(0));
    }
    entry.ends = Some(ends);
    if ends <= now {
        keys.delete(call.word(1), now.min(ends));
    }
    Ok(Reply::Int(1))
}

/// The condition under which a new TTL is set.
#[derive(Debug, Default)]
struct Condition {
    none_yet: bool,
    some_already: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn allows(&self, before: Option<i64>, ends: i64) -> bool {
        (!self.none_yet || before.is_none())
            && (!self.some_already || before.is_some())
            && (!self.later || before.is_some_and(|before| ends > before))
            && (!self.earlier || before.is_none_or(|before| ends < before))
    }
}

fn conditions(call: &Call<'_>) -> Result<Condition, Reply> {
    let mut condition = Condition::default();
    for (at, word) in call.words.iter().enumerate().skip(3) {
        match () {
            () if call.is(at, "NX") => condition.none_yet = true,
            () if call.is(at, "XX") => condition.some_already = true,
            () if call.is(at, "GT") => condition.later = true,
            () if call.is(at, "LT") => condition.earlier = true,
            () => {
                let word = String::from_utf8_lossy(word);
                return Err(Reply::error(format!("ERR Unsupported option {word}")));
            }
        }
    }
    let Condition { none_yet, some_already, later, earlier } = condition;
    if none_yet && (some_already || later || earlier) {
        let words = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Reply::error(words));
    }
    if later && earlier {
        return Err(Reply::error("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(condition)
}
