//! The variables that describe the lock to the command.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::process::Command;

use super::{Job, hold::Hold};

/// Sets the variables, and replaces those of an outer `leasehold run`.
pub(super) fn set(command: &mut Command, job: &Job, hold: &Hold) {
    let left = hold.remaining().unwrap_or_default();
    command.env("LOCK_HELD", "1");
    command.env("LOCK_NAME", &job.name);
    command.env("LOCK_OWNER", hold.owner().as_str());
    command.env("LOCK_TTL_MS", job.ttl.as_millis().to_string());
    command.env("LOCK_DEADLINE", (since_1970() + left).as_millis().to_string());
    match hold.token() {
        Some(token) => command.env("LOCK_FENCE", token.to_string()),
        None => command.env_remove("LOCK_FENCE"),
    };
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command reads a date; nothing is measured by it"
)]
fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
