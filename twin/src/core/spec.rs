//! The static properties of commands, and the lookup of a command by its name.

use std::{cell::Cell, collections::BTreeMap};

use super::Core;
use crate::{
    reply::{Answer, Reply},
    traits::{SHARDED, Traits},
};

/// Which words of a command are keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    None,
    /// The first word after the name.
    One,
    /// All words after the name.
    All,
    /// The second argument is the number of keys. The keys begin with the third argument.
    Counted,
}

/// The static properties of a command, and the function that runs it.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The name in lower case, or `container|command` for a command in a container.
    pub(crate) name: &'static str,
    /// The number of words of the command, with its name. A negative number means a minimum.
    arity: i32,
    pub(super) traits: Traits,
    keys: Keys,
    /// The position of the first channel. The words after it are channels, too.
    channels: Option<usize>,
    pub(super) run: fn(&mut Core, &Call<'_>) -> Answer,
}

impl Spec {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        traits: Traits,
        keys: Keys,
        run: fn(&mut Core, &Call<'_>) -> Answer,
    ) -> Self {
        Self { name, arity, traits, keys, channels: None, run }
    }

    pub(crate) const fn on_channels(mut self, from: usize) -> Self {
        self.channels = Some(from);
        self
    }

    pub(super) const fn is(&self, traits: Traits) -> bool {
        self.traits & traits != 0
    }

    pub(super) fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= wanted } else { words == wanted }
    }

    /// Returns the words that are keys.
    pub(super) fn keys<'a>(&self, words: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        let (from, count): (usize, usize) = match self.keys {
            Keys::None => (0, 0),
            Keys::One => (1, 1),
            Keys::All => (1, words.len()),
            Keys::Counted => {
                let count = words.get(2).map_or(0, |word| leading(word));
                // If the number is too high, the command itself rejects it.
                (3, if count > words.len().saturating_sub(3) { 0 } else { count })
            }
        };
        let end = from.saturating_add(count).min(words.len());
        words.get(from..end).unwrap_or_default()
    }

    /// Returns the words that decide the slot: keys, or channels that belong to slots.
    pub(super) fn slotted<'a>(&self, words: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        match self.is(SHARDED) {
            true if self.name == "spublish" => words.get(1..2).unwrap_or_default(),
            true => words.get(1..).unwrap_or_default(),
            false => self.keys(words),
        }
    }

    /// Returns the channels for which the user needs a permission.
    pub(super) fn channels<'a>(&self, words: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        let Some(from) = self.channels else { return &[] };
        let end = if matches!(self.name, "publish" | "spublish") { from + 1 } else { words.len() };
        words.get(from..end).unwrap_or_default()
    }
}

/// Returns the number at the beginning of a word. To check permissions, Redis reads the number of
/// keys of a command in this way, before the command itself parses the word.
fn leading(word: &[u8]) -> usize {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&word[..digits]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A command before its execution.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) words: &'a [&'a [u8]],
    pub(crate) client: u64,
    pub(crate) db: Cell<usize>,
    pub(crate) spec: &'static Spec,
}

/// All commands that a server knows, by their names.
pub(crate) type Table = BTreeMap<&'static str, &'static Spec>;

const CONTAINERS: [&str; 6] = ["acl", "client", "cluster", "pubsub", "script", "sentinel"];

/// Returns the command that the first one or two `words` name, or the error reply.
pub(super) fn lookup(table: &Table, words: &[&[u8]]) -> Result<&'static Spec, Reply> {
    let name = lower(words.first().copied().unwrap_or_default());
    if let Some(spec) = table.get(name.as_str()) {
        return Ok(spec);
    }
    if !CONTAINERS.contains(&name.as_str()) {
        return Err(unknown(words));
    }
    let Some(inner) = words.get(1) else { return Err(wrong_arity(&name)) };
    let full = format!("{name}|{}", lower(inner));
    table.get(full.as_str()).copied().ok_or_else(|| {
        let (inner, container) = (String::from_utf8_lossy(inner), name.to_uppercase());
        Reply::error(format!("ERR unknown subcommand '{inner}'. Try {container} HELP."))
    })
}

fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

fn unknown(words: &[&[u8]]) -> Reply {
    let shown = |word: &&[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut words = words.iter().map(shown);
    let name = words.next().unwrap_or_default();
    let mut rest = String::new();
    for word in words {
        if rest.len() >= 128 {
            break;
        }
        rest += &format!("'{}' ", word.chars().take(128 - rest.len()).collect::<String>());
    }
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {rest}"))
}

/// Returns whether a command or a container of that name exists.
pub(super) fn exists(table: &Table, name: &str) -> bool {
    table.contains_key(name) || CONTAINERS.contains(&name)
}

pub(crate) fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}
