//! `--once-per`: the record that a command has started in the present period.
//!
//! The record is a key next to the lock. The TTL of this key is the period. `run` writes the record
//! while it holds the lock, and before the command starts. So neither a crash nor a lost lock can
//! start the command twice. Nothing removes the record before the period ends, because nothing can
//! prove that a failed command has done no work.

use std::time::Duration;

use leasehold::{Guard, Lock, Script};

use crate::{
    args::Run,
    exit::{Exit, UNAVAILABLE, say},
};

const BEGIN: &str = "\
    if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return -1 end
    return redis.call('pttl', KEYS[1])";

/// Records the start of the command. If a command has already started in this period, returns the
/// rest of the period.
pub(super) async fn begin<K>(
    guard: &Guard<Lock<K>>,
    period: Duration,
) -> Result<Option<Duration>, Exit> {
    let name = guard.name().as_str();
    let script = Script::new(BEGIN).key(key(name)).arg(guard.owner().as_str());
    let reply = guard.eval(script.arg(period.as_millis().to_string())).await?;
    match reply.as_int() {
        Some(-1) => Ok(None),
        Some(left) => Ok(Some(Duration::from_millis(left.unsigned_abs()))),
        None => Err(Exit::new(
            UNAVAILABLE,
            format!("run `{name}`: unexpected reply {reply:?}; check the server"),
        )),
    }
}

/// Returns the key of the record. The key is in the cluster slot of the lock.
fn key(name: &str) -> String {
    match name.contains('{') {
        true => format!("leasehold_run__started::{name}"),
        false => format!("leasehold_run__started:{{{name}}}"),
    }
}

/// Reports that a command has already started in this period.
pub(super) fn is_over_in(run: &Run, left: Duration) -> u8 {
    if run.busy_ok {
        return 0;
    }
    let (name, left) = (&run.name, left.as_secs_f64());
    say(&format!(
        "run `{name}`: the command has already started in this period; retry in {left:.1} s"
    ));
    run.waiting.conflict_exit_code
}
