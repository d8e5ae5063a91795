//! What a script is. Each lies in a file of its own in `lua/`, and is named beside whoever has it
//! run.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, cmd};

use super::{channels::Channels, connection::Preload};

/// A script, known to the server by the hash of its text.
#[derive(Debug)]
pub(super) struct Script<Text = &'static str> {
    plain: Hashed<Text>,
    /// The same where messages travel in slots, if it sends or counts any.
    sharded: Option<Hashed<String>>,
}

#[derive(Debug)]
struct Hashed<Text> {
    hash: String,
    text: Text,
}

/// A script, behind those parts that it shares with others.
macro_rules! script {
    ($($file:literal),+) => {
        LazyLock::new(|| Script::of_ours(concat!($(include_str!(concat!("lua/", $file, ".lua"))),+)))
    };
}

pub(super) use script;

/// These scripts, to be loaded when a connection is made.
pub(super) fn preloads(
    of: &[&'static [&'static LazyLock<Script>]],
    channels: Channels,
) -> Vec<Preload> {
    let preload = |script: &'static Script| {
        let (hash, text) = script.said_on(channels);
        Preload { hash: hash.to_owned(), text }
    };
    of.iter().copied().flatten().map(|script| preload(script)).collect()
}

impl<Text: AsRef<str>> Hashed<Text> {
    fn new(text: Text) -> Self {
        Self { hash: redis::Script::new(text.as_ref()).get_hash().to_owned(), text }
    }
}

impl Script {
    /// A script of ours: the channels on which it speaks are those of the server.
    pub(super) fn of_ours(text: &'static str) -> Self {
        let sharded = Channels::Sharded.spoken(text).map(Hashed::new);
        Self { plain: Hashed::new(text), sharded }
    }
}

impl<Text: AsRef<str>> Script<Text> {
    pub(super) fn new(text: Text) -> Self {
        Self { plain: Hashed::new(text), sharded: None }
    }

    /// The hash and the text that speaks on these channels.
    fn said_on(&self, channels: Channels) -> (&str, &str) {
        match (&self.sharded, channels) {
            (Some(Hashed { hash, text }), Channels::Sharded) => (hash, text),
            _ => (&self.plain.hash, self.plain.text.as_ref()),
        }
    }

    /// The beginning of a call by hash: keys and arguments follow.
    pub(super) fn by_hash(&self, keys: usize, channels: Channels) -> Cmd {
        let mut command = roomy("EVALSHA");
        command.arg(self.said_on(channels).0).arg(keys);
        command
    }

    /// The same call by text, which also loads it.
    pub(super) fn by_text(&self, keys: usize, channels: Channels) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.said_on(channels).1).arg(keys);
        command
    }

    /// Whether it sends messages.
    pub(super) fn publishes(&self) -> bool {
        self.plain.text.as_ref().contains("'PUBLISH'")
    }

    /// The command that the server names by its line: "…, on @user_script:8."
    pub(super) fn command_at(&self, words: &str) -> Option<&str> {
        let (_, line) = words.split_once("user_script:")?;
        let digits = line.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        let line =
            self.plain.text.as_ref().lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split('\'').next()
    }
}

/// Whole milliseconds, rounded up: the server must not end a lease before us.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
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
    fn a_script_that_speaks_has_a_text_for_either_kind_of_channel() {
        let speaks = Script::of_ours("redis.pcall('PUBLISH', ARGV[1])\nreturn 'NUMSUB'");
        assert_eq!(speaks.said_on(Channels::Plain).1, speaks.plain.text);
        let sharded = "redis.pcall('SPUBLISH', ARGV[1])\nreturn 'SHARDNUMSUB'";
        assert_eq!(speaks.said_on(Channels::Sharded).1, sharded);
        let silent = Script::of_ours("return redis.call('PTTL', KEYS[1])");
        assert_eq!(silent.said_on(Channels::Sharded), silent.said_on(Channels::Plain));
        assert!(speaks.publishes() && !silent.publishes());
    }

    #[test]
    fn a_lease_is_rounded_up_to_what_redis_counts_in() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(30_000)), 30_000);
        assert_eq!(millis(Duration::from_micros(1_500)), 2);
    }

    #[test]
    fn the_command_of_a_line_is_the_one_that_it_calls() {
        let script = Script::new("-- a script\nlocal a = 1\nredis.pcall('HSET', KEYS[1])\n");
        let at =
            |line: &str| script.command_at(&format!("no: script: 0a, on @user_script:{line}."));
        assert_eq!(at("3"), Some("HSET"));
        assert_eq!(script.command_at("@user_script: 3: you may not"), Some("HSET"));
        for other in ["0", "2", "4", "x", "99999999999999999999999"] {
            assert_eq!(at(other), None, "{other}");
        }
        assert_eq!(script.command_at("no line at all"), None);
    }
}
