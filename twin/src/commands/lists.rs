//! Lists.

use std::collections::VecDeque;

use super::{Call, GROWS, Keys, READ, Spec, WRITE, zsets::window};
use crate::{
    core::Core,
    reply::{Answer, Reply},
};

type List = VecDeque<Vec<u8>>;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("lindex", 3, READ, Keys::One, lindex),
    Spec::new("llen", 2, READ, Keys::One, llen),
    Spec::new("lpop", 2, WRITE, Keys::One, |core, call| {
        let first = core.change(call, |list: &mut List| list.pop_front())?;
        Ok(first.flatten().map_or(Reply::Nil, Reply::bulk))
    }),
    Spec::new("lpush", -3, WRITE | GROWS, Keys::One, |core, call| {
        push(core, call, List::push_front)
    }),
    Spec::new("lrange", 4, READ, Keys::One, lrange),
    Spec::new("lrem", 4, WRITE, Keys::One, lrem),
    Spec::new("rpush", -3, WRITE | GROWS, Keys::One, |core, call| {
        push(core, call, List::push_back)
    }),
];

fn push(core: &mut Core, call: &Call<'_>, push: fn(&mut List, Vec<u8>)) -> Answer {
    let list = core.make::<List>(call)?;
    call.after(2).iter().for_each(|item| push(list, item.to_vec()));
    Ok(Reply::count(list.len()))
}

fn lindex(core: &mut Core, call: &Call<'_>) -> Answer {
    let Some(list) = core.find::<List>(call)? else { return Ok(Reply::Nil) };
    let index = call.integer(2)?;
    let (from, count) = window(index, index, list.len());
    Ok(list.iter().skip(from).take(count).next().map_or(Reply::Nil, Reply::bulk))
}

fn llen(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::count(core.find::<List>(call)?.map_or(0, |list| list.len())))
}

fn lrange(core: &mut Core, call: &Call<'_>) -> Answer {
    let (from, to) = (call.integer(2)?, call.integer(3)?);
    let Some(list) = core.find::<List>(call)? else { return Ok(Reply::List(vec![])) };
    let (from, count) = window(from, to, list.len());
    Ok(Reply::bulks(list.iter().skip(from).take(count)))
}

fn lrem(core: &mut Core, call: &Call<'_>) -> Answer {
    let (count, item) = (call.integer(2)?, call.word(3));
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let gone = core.change(call, |list: &mut List| {
        let places = list.iter().enumerate().filter(|(_, it)| it.as_slice() == item);
        let mut places: Vec<_> = places.map(|(place, _)| place).collect();
        if count < 0 {
            places.reverse();
        }
        places.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        places.sort_unstable_by(|one, other| other.cmp(one));
        places.iter().filter_map(|place| list.remove(*place)).count()
    });
    Ok(Reply::count(gone?.unwrap_or(0)))
}
