//! Every command that the server knows: what it is called, what it may do, and the
//! function that does it.

mod connection;
mod hashes;
mod keys;
mod lists;
mod messages;
mod numbers;
mod scripts;
mod server;
mod strings;
mod zsets;

use std::{cell::Cell, collections::BTreeMap, sync::LazyLock};

use super::{
    core::Core,
    data::{Keyspace, Kind},
    number,
    reply::{Answer, Reply},
};

/// What a command is, as a set of bits.
pub(super) type Traits = u16;

/// It may change data.
pub(super) const WRITE: Traits = 1;
/// It may take more memory.
pub(super) const GROWS: Traits = 1 << 1;
pub(super) const READ: Traits = 1 << 2;
/// Scripts must not call it.
pub(super) const NO_SCRIPT: Traits = 1 << 3;
/// It works while the server loads its data.
pub(super) const LOADING: Traits = 1 << 4;
/// It works before the client has said who it is.
pub(super) const NO_AUTH: Traits = 1 << 5;
/// It works while a script runs for too long.
pub(super) const BUSY: Traits = 1 << 6;
pub(super) const PUBSUB: Traits = 1 << 7;
pub(super) const SCRIPTING: Traits = 1 << 8;
pub(super) const CONNECTION: Traits = 1 << 9;
pub(super) const ADMIN: Traits = 1 << 10;
pub(super) const DANGEROUS: Traits = 1 << 11;
/// A subscriber that speaks RESP2 may send it.
pub(super) const HEARING: Traits = 1 << 12;
/// It fails while the server cannot write to its disk, though it changes nothing.
pub(super) const DISK: Traits = 1 << 13;

/// The names that rights have for some of these.
const CATEGORIES: [(&str, Traits); 7] = [
    ("admin", ADMIN),
    ("connection", CONNECTION),
    ("dangerous", DANGEROUS),
    ("pubsub", PUBSUB),
    ("read", READ),
    ("scripting", SCRIPTING),
    ("write", WRITE),
];

/// Which words of a command are keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    None,
    /// The first after the name.
    One,
    /// All after the name.
    All,
    /// As many as the second one says, from the third on.
    Counted,
}

/// What is known of a command before it runs.
#[derive(Debug)]
pub(super) struct Spec {
    /// In small letters; `container|command` if it is in a container.
    pub(super) name: &'static str,
    /// How many words it has, its name among them; if negative, at least so many.
    arity: i32,
    pub(super) traits: Traits,
    keys: Keys,
    /// From this word on there are channels.
    channels: Option<usize>,
    pub(super) run: fn(&mut Core, &Call<'_>) -> Answer,
}

impl Spec {
    const fn new(
        name: &'static str,
        arity: i32,
        traits: Traits,
        keys: Keys,
        run: fn(&mut Core, &Call<'_>) -> Answer,
    ) -> Self {
        Self { name, arity, traits, keys, channels: None, run }
    }

    const fn on_channels(mut self, from: usize) -> Self {
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

    /// The words that are keys.
    pub(super) fn keys<'a>(&self, words: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        let (from, count): (usize, usize) = match self.keys {
            Keys::None => (0, 0),
            Keys::One => (1, 1),
            Keys::All => (1, words.len()),
            Keys::Counted => {
                let count = words.get(2).map_or(0, |word| leading(word));
                // More than there are is refused by the command itself.
                (3, if count > words.len().saturating_sub(3) { 0 } else { count })
            }
        };
        let end = from.saturating_add(count).min(words.len());
        words.get(from..end).unwrap_or_default()
    }

    /// The words that are channels and need a right.
    pub(super) fn channels<'a>(&self, words: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
        let Some(from) = self.channels else { return &[] };
        let end = if self.name == "publish" { from + 1 } else { words.len() };
        words.get(from..end).unwrap_or_default()
    }
}

/// The digits that a word begins with: rights read it so, before the command does.
fn leading(word: &[u8]) -> usize {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&word[..digits]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A command on its way.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) words: &'a [&'a [u8]],
    pub(super) client: u64,
    pub(super) db: Cell<usize>,
    pub(super) spec: &'static Spec,
}

impl<'a> Call<'a> {
    /// A word that is there by the command's arity.
    fn word(&self, at: usize) -> &'a [u8] {
        self.words.get(at).copied().unwrap_or_default()
    }

    fn after(&self, at: usize) -> &'a [&'a [u8]] {
        self.words.get(at..).unwrap_or_default()
    }

    fn text(&self, at: usize) -> String {
        String::from_utf8_lossy(self.word(at)).into_owned()
    }

    fn integer(&self, at: usize) -> Result<i64, Reply> {
        number::integer(self.word(at)).ok_or_else(|| Reply::error(NO_INTEGER))
    }

    fn is(&self, at: usize, option: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(option.as_bytes())
    }

    /// Refuses the number of words.
    fn arity<T>(&self) -> Result<T, Reply> {
        Err(wrong_arity(self.spec.name))
    }
}

const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

fn syntax<T>() -> Result<T, Reply> {
    Err(Reply::error(SYNTAX))
}

pub(super) fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// What the commands of one type of values need of the server.
impl Core {
    fn keys(&mut self, call: &Call<'_>) -> &mut Keyspace {
        self.database(call.db.get())
    }

    fn find<K: Kind>(&mut self, call: &Call<'_>) -> Result<Option<&mut K>, Reply> {
        let now = self.now();
        self.keys(call).find(call.word(1), now)
    }

    fn make<K: Kind>(&mut self, call: &Call<'_>) -> Result<&mut K, Reply> {
        let now = self.now();
        self.keys(call).make(call.word(1), now)
    }

    fn change<K: Kind, T>(
        &mut self,
        call: &Call<'_>,
        work: impl FnOnce(&mut K) -> T,
    ) -> Result<Option<T>, Reply> {
        let now = self.now();
        self.keys(call).change(call.word(1), now, work)
    }
}

static TABLE: LazyLock<BTreeMap<&'static str, &'static Spec>> = LazyLock::new(|| {
    let all = [
        connection::COMMANDS,
        hashes::COMMANDS,
        keys::COMMANDS,
        lists::COMMANDS,
        messages::COMMANDS,
        scripts::COMMANDS,
        server::COMMANDS,
        strings::COMMANDS,
        zsets::COMMANDS,
    ];
    all.into_iter().flatten().map(|spec| (spec.name, spec)).collect()
});

const CONTAINERS: [&str; 4] = ["acl", "client", "pubsub", "script"];

/// The command that these words call, or why there is none.
pub(super) fn lookup(words: &[&[u8]]) -> Result<&'static Spec, Reply> {
    let name = lower(words.first().copied().unwrap_or_default());
    if let Some(spec) = TABLE.get(name.as_str()) {
        return Ok(spec);
    }
    if !CONTAINERS.contains(&name.as_str()) {
        return Err(unknown(words));
    }
    let Some(inner) = words.get(1) else { return Err(wrong_arity(&name)) };
    let full = format!("{name}|{}", lower(inner));
    TABLE.get(full.as_str()).copied().ok_or_else(|| {
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

/// Whether there is a command, or a container, of that name.
pub(super) fn exists(name: &str) -> bool {
    TABLE.contains_key(name) || CONTAINERS.contains(&name)
}

/// The trait that rights call so.
pub(super) fn category(name: &str) -> Option<Traits> {
    CATEGORIES.iter().find(|(category, _)| *category == name).map(|(_, traits)| *traits)
}
