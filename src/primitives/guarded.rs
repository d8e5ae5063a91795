//! Guarded writes: writes that the store executes only while the lock is held. Guards, and the work
//! that runs under a guard, use guarded writes.

use crate::{
    domain::{Edit, Failure, Name, Script, Value, Work, Write, checked},
    engine::held::Watch,
    error::{Error, Result},
};

/// See [`LockGuard::write`](super::LockGuard::write).
pub(super) async fn write(watch: &Watch, writes: Vec<Write>) -> Result<()> {
    let name = watch.claim().name();
    writes.iter().try_for_each(|write| possible(write, name))?;
    watch.guarded(&Work::Writes(writes)).await.map(drop)
}

/// See [`LockGuard::eval`](super::LockGuard::eval).
pub(super) async fn eval(watch: &Watch, script: Script) -> Result<Value> {
    runnable(&script)?;
    watch.guarded(&Work::Script(script)).await
}

/// Rejects a write that would change the lock `name` or has an invalid time.
fn possible(write: &Write, name: &Name) -> Result<()> {
    if write.key == name.as_str().as_bytes() {
        let words = "a guarded write cannot change the key of its own lock; choose another key";
        return Err(Error::about(name, Failure::refused("ERR", words)));
    }
    match write.edit {
        Edit::Expire(after) => checked("expire", after).map(drop).map_err(Error::from),
        _ => Ok(()),
    }
}

/// Returns an error if the script cannot become the body of a Lua function.
fn runnable(script: &Script) -> Result<()> {
    let why = match &script.text {
        text if text.trim().is_empty() => "the text is empty; pass a script",
        text if text.starts_with("#!") => {
            "the text begins with `#!`, but flags do not work under a lock; remove that line"
        }
        _ => return Ok(()),
    };
    Err(Error::Script(why.to_owned()))
}
