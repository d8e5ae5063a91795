//! Everything that can happen in Redis: one file in `lua/` each.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

use super::connection::Preload;

/// A script, known to the server by the hash of its text.
#[derive(Debug)]
pub(super) struct Script<Text = &'static str> {
    hash: String,
    text: Text,
}

/// A script, behind those parts that it shares with others.
macro_rules! script {
    ($($file:literal),+) => {
        LazyLock::new(|| Script::new(concat!($(include_str!(concat!("lua/", $file, ".lua"))),+)))
    };
}

pub(super) static ACQUIRE: LazyLock<Script> = script!("holder", "lock/acquire");
pub(super) static FORCE_RELEASE: LazyLock<Script> = script!("lock/force_release");
pub(super) static HAND_OVER: LazyLock<Script> = script!("holder", "lock/hand_over");
pub(super) static INSPECT: LazyLock<Script> = script!("holder", "lock/inspect");
pub(super) static PERMITS_ACQUIRE: LazyLock<Script> = script!("permits", "permits/acquire");
pub(super) static PERMITS_CHANGE: LazyLock<Script> =
    script!("receipt", "permits", "permits/change");
pub(super) static PERMITS_COUNT: LazyLock<Script> = script!("permits", "permits/count");
pub(super) static PERMITS_LEASE: LazyLock<Script> = script!("permits", "permits/lease");
pub(super) static PERMITS_RELEASE: LazyLock<Script> = script!("permits", "permits/release");
pub(super) static PERMITS_RENEW: LazyLock<Script> = script!("permits", "permits/renew");
pub(super) static RECOUNT: LazyLock<Script> = script!("lock/recount");
pub(super) static RENEW: LazyLock<Script> = script!("lock/renew");
pub(super) static WRITE: LazyLock<Script> = script!("lock/write");

/// What stands behind a script of somebody else's.
const EVAL: &str = include_str!(concat!("lua/", "lock/eval", ".lua"));

/// A script of this text, behind a look at the lock. Its lines keep their numbers.
pub(super) fn eval(text: &str) -> Script<String> {
    Script::new(format!("local function work(KEYS, ARGV) {text}\nend\n{EVAL}"))
}

pub(super) static READ: LazyLock<Script> = script!("holder", "read_write/read");
pub(super) static WRITE_ALONE: LazyLock<Script> = script!("holder", "read_write/write");
pub(super) static LEAVE: LazyLock<Script> = script!("holder", "read_write/leave");
pub(super) static UNLOCK: LazyLock<Script> = script!("holder", "read_write/unlock");
pub(super) static RENEW_READERS: LazyLock<Script> = script!("read_write/renew");
pub(super) static INSPECT_MODE: LazyLock<Script> = script!("holder", "read_write/inspect");
pub(super) static FORCE_MODE: LazyLock<Script> = script!("read_write/force");

pub(super) static SEMAPHORE_ACQUIRE: LazyLock<Script> = script!("number", "semaphore/acquire");
pub(super) static SEMAPHORE_RELEASE: LazyLock<Script> = script!("semaphore/release");
pub(super) static SEMAPHORE_SET: LazyLock<Script> = script!("receipt", "semaphore/set_if_absent");
pub(super) static SEMAPHORE_ADD: LazyLock<Script> = script!("receipt", "number", "semaphore/add");
pub(super) static SEMAPHORE_DELETE: LazyLock<Script> = script!("receipt", "semaphore/delete");
pub(super) static SEMAPHORE_DRAIN: LazyLock<Script> =
    script!("receipt", "number", "semaphore/drain");

pub(super) static LATCH_SET: LazyLock<Script> = script!("receipt", "latch/set");
pub(super) static LATCH_COUNT_DOWN: LazyLock<Script> =
    script!("receipt", "number", "latch/count_down");
pub(super) static LATCH_DELETE: LazyLock<Script> = script!("receipt", "latch/delete");

/// All of them, to be loaded when a connection is made.
pub(super) fn preloads() -> Vec<Preload> {
    let locks = [&ACQUIRE, &FORCE_RELEASE, &HAND_OVER, &INSPECT, &RECOUNT, &RENEW, &WRITE];
    let semaphores = [
        &SEMAPHORE_ACQUIRE,
        &SEMAPHORE_RELEASE,
        &SEMAPHORE_SET,
        &SEMAPHORE_ADD,
        &SEMAPHORE_DRAIN,
        &SEMAPHORE_DELETE,
    ];
    let latches = [&LATCH_SET, &LATCH_COUNT_DOWN, &LATCH_DELETE];
    let read_write =
        [&READ, &WRITE_ALONE, &LEAVE, &UNLOCK, &RENEW_READERS, &INSPECT_MODE, &FORCE_MODE];
    let permits = [
        &PERMITS_ACQUIRE,
        &PERMITS_CHANGE,
        &PERMITS_COUNT,
        &PERMITS_LEASE,
        &PERMITS_RELEASE,
        &PERMITS_RENEW,
    ];
    let all = locks.into_iter().chain(semaphores).chain(latches);
    let all = all.chain(read_write).chain(permits);
    all.map(|script| Preload { hash: script.hash.clone(), text: script.text }).collect()
}

impl<Text: AsRef<str>> Script<Text> {
    fn new(text: Text) -> Self {
        Self { hash: redis::Script::new(text.as_ref()).get_hash().to_owned(), text }
    }

    /// The beginning of a call by hash: keys and arguments follow.
    pub(super) fn by_hash(&self, keys: usize) -> Cmd {
        let mut command = roomy("EVALSHA");
        command.arg(&self.hash).arg(keys);
        command
    }

    /// The same call by text, which also loads it.
    pub(super) fn by_text(&self, keys: usize) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.text.as_ref()).arg(keys);
        command
    }

    /// The command that the server names by its line: "…, on @user_script:8."
    pub(super) fn command_at(&self, words: &str) -> Option<&str> {
        let (_, line) = words.split_once("user_script:")?;
        let digits = line.split(|c: char| !c.is_ascii_digit()).next()?;
        let line = self.text.as_ref().lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split('\'').next()
    }
}

/// The beginning of a command, with room for most: what grows by and by is copied
/// again and again.
pub(super) fn roomy(name: &str) -> Cmd {
    let mut command = Cmd::with_capacity(8, 256);
    command.arg(name);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_line_is_the_one_that_it_calls() {
        let script = Script::new("-- a script\nlocal a = 1\nredis.pcall('HSET', KEYS[1])\n");
        let at =
            |line: &str| script.command_at(&format!("no: script: 0a, on @user_script:{line}."));
        assert_eq!(at("3"), Some("HSET"));
        for other in ["0", "2", "4", "x", "99999999999999999999999"] {
            assert_eq!(at(other), None, "{other}");
        }
        assert_eq!(script.command_at("no line at all"), None);
    }
}
