//! A request to Redis: the command, and how to read the reply. `runner.rs` sends the requests.

use std::borrow::Cow;

use leasehold_link::Channels;
use redis::{Arg, Cmd, ServerError, ToRedisArgs, Value, cmd};

use super::{
    replies,
    scripts::{Script, command_with_space},
};
use crate::domain::{Failure, Name};

/// The arguments of a script without arguments.
pub(super) const NOTHING: Option<&str> = None;

/// A request, and the function that reads its reply.
pub(super) struct Ask<'a, R> {
    pub(super) request: Request<'a>,
    pub(super) read: R,
}

pub(super) trait Read<T>: FnOnce(&Value) -> Result<T, Failure> + Send {}

impl<T, R: FnOnce(&Value) -> Result<T, Failure> + Send> Read<T> for R {}

/// A script or a plain command, with its keys and arguments. All keys are in one slot.
pub(super) struct Request<'a> {
    /// The plain command. For a script, `EVALSHA` with the hash of `Script::plain`.
    pub(super) command: Cmd,
    script: Option<&'a Script>,
    keys: usize,
    about: Option<&'a Name>,
    reports_split: bool,
}

impl<'a> Request<'a> {
    /// Returns a request that runs `script` on the key `name` and on the keys `others`. If a key
    /// has the wrong type, the failure shows the type of the key `name`.
    pub(super) fn of(
        name: &'a Name,
        script: &'a Script,
        others: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Self {
        let mut command = script.by_hash(1 + others.len());
        command.arg(name.as_str()).arg(others).arg(arguments);
        Self::new(command, Some(script), 1 + others.len()).about(name)
    }

    /// Returns a request that runs `script` on any keys.
    pub(super) fn script(
        script: &'a Script,
        keys: &[impl AsRef<[u8]>],
        arguments: impl ToRedisArgs,
    ) -> Self {
        let mut command = script.by_hash(keys.len());
        keys.iter().for_each(|key| {
            command.arg(key.as_ref());
        });
        command.arg(arguments);
        Self::new(command, Some(script), keys.len())
    }

    /// Returns a request for a plain command on `key`.
    pub(super) fn command(verb: &str, key: &str, arguments: impl ToRedisArgs) -> Self {
        let mut command = command_with_space(verb);
        command.arg(key).arg(arguments);
        Self::new(command, None, 1)
    }

    fn new(command: Cmd, script: Option<&'a Script>, keys: usize) -> Self {
        Self { command, script, keys, about: None, reports_split: false }
    }

    /// Makes the failure show the type of the key `name`, if a key has the wrong type.
    pub(super) fn about(self, name: &'a Name) -> Self {
        Self { about: Some(name), ..self }
    }

    /// Makes the request fail at once if its keys are on two nodes, because the caller then sends
    /// another request. Without this setting, the request is repeated until one node has all keys.
    pub(super) fn reporting_split(self, reports_split: bool) -> Self {
        Self { reports_split, ..self }
    }

    pub(super) fn read<T, R>(self, read: R) -> Ask<'a, R>
    where
        R: FnOnce(&Value) -> Result<T, Failure> + Send,
    {
        Ask { request: self, read }
    }

    /// Returns the name whose type a failure shows if a key has the wrong type.
    pub(super) fn subject(&self) -> Option<&'a Name> {
        self.about
    }

    /// Returns the name of the script for metrics, or `plain` for a plain command.
    pub(super) fn name(&self) -> &'static str {
        self.script.map_or("plain", Script::name)
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let before = if self.script.is_some() { 3 } else { 1 };
        words(&self.command).skip(before).take(self.keys)
    }

    fn calling(&self, verb: &str, script: &str) -> Cmd {
        let mut command = cmd(verb);
        command.arg(script);
        words(&self.command).skip(2).for_each(|word| {
            command.arg(word);
        });
        command
    }

    /// Returns the failure for a rejection of the server.
    pub(super) fn refused(&self, error: &ServerError) -> Failure {
        let details = || format!("{} {}", error.code(), error.details().unwrap_or_default());
        let command = match self.script {
            Some(script) => script.command_at(&details()),
            None => words(&self.command).next().and_then(|verb| str::from_utf8(verb).ok()),
        };
        let refused = replies::refusal(error).naming(command);
        replies::naming_keys(refused, &self.keys().collect::<Vec<_>>())
    }
}

impl leasehold_link::Request for Request<'_> {
    fn command(&self) -> &Cmd {
        &self.command
    }

    fn on(&self, channels: Channels) -> Cow<'_, Cmd> {
        match self.script.and_then(|script| script.other_hash(channels)) {
            Some(hash) => Cow::Owned(self.calling("EVALSHA", hash)),
            None => Cow::Borrowed(&self.command),
        }
    }

    fn by_text(&self, reply: &Value, channels: Channels) -> Option<Cmd> {
        let script = self.script.filter(|_| replies::is_no_script(reply))?;
        Some(self.calling("EVAL", script.text(channels)))
    }

    fn first_key(&self) -> &[u8] {
        self.keys().next().unwrap_or_default()
    }

    fn reports_split(&self) -> bool {
        self.reports_split
    }

    fn publishes(&self) -> bool {
        self.script.is_some_and(Script::publishes)
    }
}

fn words(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        // The argument is a cursor, which no request has.
        _ => b"0",
    })
}
