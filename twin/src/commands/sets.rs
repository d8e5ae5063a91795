//! Sets.

use super::{Call, GROWS, Keys, READ, Spec, WRITE, hashes::scan};
use crate::{
    core::Core,
    hash::Set,
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("sadd", -3, WRITE | GROWS, Keys::One, sadd),
    Spec::new("scard", 2, READ, Keys::One, scard),
    Spec::new("sismember", 3, READ, Keys::One, sismember),
    Spec::new("srandmember", 2, READ, Keys::One, srandmember),
    Spec::new("srem", -3, WRITE, Keys::One, srem),
    Spec::new("sscan", -3, READ, Keys::One, sscan),
];

fn sadd(core: &mut Core, call: &Call<'_>) -> Answer {
    let set = core.make::<Set>(call)?;
    let new = call.after(2).iter().filter(|element| set.0.set(element, vec![]));
    Ok(Reply::count(new.count()))
}

fn srem(core: &mut Core, call: &Call<'_>) -> Answer {
    let gone = core.change(call, |set: &mut Set| {
        call.after(2).iter().filter(|element| set.0.remove(element)).count()
    });
    Ok(Reply::count(gone?.unwrap_or(0)))
}

fn sismember(core: &mut Core, call: &Call<'_>) -> Answer {
    let set = core.find::<Set>(call)?;
    Ok(Reply::flag(set.is_some_and(|set| set.0.value(call.word(2)).is_some())))
}

fn scard(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::count(core.find::<Set>(call)?.map_or(0, |set| set.0.len())))
}

/// Returns the oldest element. Redis returns a random element.
fn srandmember(core: &mut Core, call: &Call<'_>) -> Answer {
    let first = core.find::<Set>(call)?.and_then(|set| set.0.fields().next());
    Ok(Reply::or_nil(first.map(|field| &field.name)))
}

fn sscan(core: &mut Core, call: &Call<'_>) -> Answer {
    scan(
        call,
        |call| Ok(core.find::<Set>(call)?.map(|set| &set.0)),
        |field| vec![field.name.clone()],
    )
}
