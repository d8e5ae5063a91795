//! The commands of scripts, which the server keeps by the hash of their text.

use std::sync::Arc;

use super::{Call, Keys, NO_SCRIPT, SCRIPTING, Spec};
use crate::{
    core::{Core, Script},
    reply::{Answer, Reply},
    script,
};

const TRAITS: u16 = NO_SCRIPT | SCRIPTING;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("eval", -3, TRAITS, Keys::Counted, eval),
    Spec::new("evalsha", -3, TRAITS, Keys::Counted, evalsha),
    Spec::new("script|exists", -3, TRAITS, Keys::None, exists),
    Spec::new("script|flush", -2, TRAITS, Keys::None, flush),
    Spec::new("script|kill", 2, TRAITS, Keys::None, kill),
    Spec::new("script|load", 3, TRAITS, Keys::None, load),
];

fn load(core: &mut Core, call: &Call<'_>) -> Answer {
    let script = Script::of(call.word(2));
    script::compile(&script)?;
    let hash = script.hash.clone();
    core.scripts.insert(hash.clone(), script);
    Ok(Reply::bulk(hash))
}

fn exists(core: &mut Core, call: &Call<'_>) -> Answer {
    let known = |at| core.scripts.contains_key(&call.text(at).to_ascii_lowercase());
    Ok(Reply::List((2..call.words.len()).map(|at| Reply::flag(known(at))).collect()))
}

fn flush(core: &mut Core, call: &Call<'_>) -> Answer {
    let plain = call.words.len() == 2;
    if plain || (call.words.len() == 3 && (call.is(2, "SYNC") || call.is(2, "ASYNC"))) {
        core.scripts.clear();
        return Ok(Reply::OK);
    }
    Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))
}

fn kill(_: &mut Core, _: &Call<'_>) -> Answer {
    Err(Reply::error("NOTBUSY No scripts in execution right now."))
}

fn eval(core: &mut Core, call: &Call<'_>) -> Answer {
    let keys = counted(call)?;
    let script = Script::of(call.word(1));
    let script = match core.scripts.get(&script.hash) {
        Some(known) => Arc::clone(known),
        None => {
            script::compile(&script)?;
            core.scripts.insert(script.hash.clone(), Arc::clone(&script));
            script
        }
    };
    run(core, call, &script, keys)
}

fn evalsha(core: &mut Core, call: &Call<'_>) -> Answer {
    let unknown = || Reply::error("NOSCRIPT No matching script. Please use EVAL.");
    let hash = call.text(1).to_ascii_lowercase();
    if hash.len() != 40 {
        return Err(unknown());
    }
    let keys = counted(call)?;
    let script = core.scripts.get(&hash).map(Arc::clone).ok_or_else(unknown)?;
    run(core, call, &script, keys)
}

fn counted(call: &Call<'_>) -> Result<usize, Reply> {
    let count = call.integer(2)?;
    let there = call.after(3).len();
    let odd = |words: &'static str| Err(Reply::error(words));
    match usize::try_from(count) {
        Ok(count) if count <= there => Ok(count),
        Ok(_) => odd("ERR Number of keys can't be greater than number of args"),
        Err(_) => odd("ERR Number of keys can't be negative"),
    }
}

fn run(core: &mut Core, call: &Call<'_>, script: &Script, keys: usize) -> Answer {
    let (keys, arguments) = call.after(3).split_at(keys);
    Ok(script::run(core, call, script, keys, arguments))
}
