//! What a script is. Each lies in a file of its own in `lua/`, and is named beside whoever has it
//! run.

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

pub(super) use script;

/// These scripts, to be loaded when a connection is made.
pub(super) fn preloads(of: &[&[&LazyLock<Script>]]) -> Vec<Preload> {
    let preload = |script: &Script| Preload { hash: script.hash.clone(), text: script.text };
    of.iter().copied().flatten().map(|script| preload(script)).collect()
}

impl<Text: AsRef<str>> Script<Text> {
    pub(super) fn new(text: Text) -> Self {
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
