//! The Lua scripts. Each script is a separate file next to the code that runs it.

use std::{borrow::Cow, collections::HashSet, sync::LazyLock};

pub(super) use leasehold_link::millis;
use leasehold_link::{Channels, Preload};
use redis::Cmd;

/// A script, known to the server by the hash of its text.
#[derive(Debug)]
pub(super) struct Script {
    /// The name of the file, without the folder.
    name: &'static str,
    plain: Hashed,
    /// The text for sharded channels, if the script publishes messages or counts subscribers.
    sharded: Option<Hashed>,
}

#[derive(Debug)]
struct Hashed {
    hash: String,
    text: Cow<'static, str>,
}

/// The scripts that a kind of objects uses.
pub(super) type Scripts = &'static [&'static LazyLock<Script>];

/// Creates a script from files. The last file is the script itself. The earlier files have
/// functions that several scripts share. Paths are relative to the folder of the caller.
macro_rules! script {
    ($($file:literal),+) => {
        LazyLock::new(|| Script::of_leasehold(
            [$($file),+].last().unwrap_or(&""),
            concat!($(include_str!(concat!($file, ".lua"))),+),
        ))
    };
}

pub(super) use script;

/// Returns the scripts in the form in which a new connection loads them. A script that several
/// kinds of objects use is loaded once.
pub(super) fn preloads(of: &[Scripts], channels: Channels) -> Vec<Preload> {
    let preload = |script: &'static Script| {
        let Hashed { hash, text } = script.on(channels);
        Preload { hash: hash.clone(), text }
    };
    let mut loaded = HashSet::new();
    let mut all: Vec<_> = of.iter().copied().flatten().map(|script| preload(script)).collect();
    all.retain(|it| loaded.insert(it.hash.clone()));
    all
}

impl Hashed {
    fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self { hash: redis::Script::new(&text).get_hash().to_owned(), text }
    }
}

impl Script {
    /// Creates a script of Leasehold, with a text for each kind of channels. The last part of the
    /// path `file` is the name of the script.
    pub(super) fn of_leasehold(file: &'static str, text: &'static str) -> Self {
        let sharded = Channels::Sharded.with_publish_command(text).map(Hashed::new);
        let name = file.rsplit('/').next().unwrap_or(file);
        Self { name, plain: Hashed::new(text), sharded }
    }

    /// Creates a script that contains the script of a user.
    pub(super) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { name: "eval", plain: Hashed::new(text), sharded: None }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn on(&self, channels: Channels) -> &Hashed {
        let sharded = self.sharded.as_ref().filter(|_| channels == Channels::Sharded);
        sharded.unwrap_or(&self.plain)
    }

    /// Returns the text for these channels.
    pub(super) fn text(&self, channels: Channels) -> &str {
        &self.on(channels).text
    }

    /// Returns the hash for these channels, if it differs from the hash for plain channels.
    pub(super) fn other_hash(&self, channels: Channels) -> Option<&str> {
        let sharded = self.sharded.as_ref().filter(|_| channels == Channels::Sharded);
        sharded.map(|it| &*it.hash)
    }

    /// Returns the beginning of a call by hash. The caller adds keys and arguments.
    pub(super) fn by_hash(&self, keys: usize) -> Cmd {
        let mut command = command_with_space("EVALSHA");
        command.arg(&self.plain.hash).arg(keys);
        command
    }

    pub(super) fn publishes(&self) -> bool {
        self.plain.text.contains("'PUBLISH'")
    }

    /// Returns the command in the line that an error of the server names. For the error "…, on
    /// @user_script:8.", this is the command in line 8.
    pub(super) fn command_at(&self, words: &str) -> Option<&str> {
        let (_, line) = words.split_once("user_script:")?;
        let digits = line.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        let line = self.plain.text.lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split('\'').next()
    }
}

/// Begins a command with a buffer that is large enough for most commands, because a buffer that
/// grows in steps would be copied several times.
pub(super) fn command_with_space(name: &str) -> Cmd {
    let mut command = Cmd::with_capacity(8, 256);
    command.arg(name);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_that_publishes_has_a_variant_for_sharded_channels() {
        let speaks =
            Script::of_leasehold("says", "redis.pcall('PUBLISH', ARGV[1])\nreturn 'NUMSUB'");
        assert_eq!(speaks.text(Channels::Plain), speaks.plain.text);
        let sharded = "redis.pcall('SPUBLISH', ARGV[1])\nreturn 'SHARDNUMSUB'";
        assert_eq!(speaks.text(Channels::Sharded), sharded);
        assert!(speaks.other_hash(Channels::Sharded).is_some());
        assert_eq!(speaks.other_hash(Channels::Plain), None);
        let silent = Script::of_leasehold("asks", "return redis.call('PTTL', KEYS[1])");
        assert_eq!(silent.text(Channels::Sharded), silent.text(Channels::Plain));
        assert_eq!(silent.other_hash(Channels::Sharded), None);
        assert!(speaks.publishes() && !silent.publishes());
    }

    #[test]
    fn failed_command_is_found_by_its_line_number_in_the_script() {
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
