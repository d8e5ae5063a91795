//! Every command that the server supports: its name, its traits, and its function.

mod cluster;
mod connection;
mod hashes;
mod keys;
mod lists;
mod messages;
mod numbers;
mod replication;
mod scripts;
mod sentinel;
mod server;
mod sets;
mod strings;
mod zsets;

use std::sync::LazyLock;

use super::{
    core::{
        Core,
        spec::{Call, Keys, Spec, Table, wrong_arity},
    },
    data::{Keyspace, Kind},
    number,
    reply::Reply,
    traits::{
        ADMIN, BUSY, CONNECTION, DANGEROUS, DISK, GROWS, HEARING, LOADING, NO_AUTH, NO_SCRIPT,
        PUBSUB, READ, SCRIPTING, SHARDED, WRITE,
    },
};

impl<'a> Call<'a> {
    /// Returns an argument, which exists because the arity was checked.
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

    /// Returns the error for a wrong number of arguments.
    fn arity<T>(&self) -> Result<T, Reply> {
        Err(wrong_arity(self.spec.name))
    }
}

const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

fn syntax<T>() -> Result<T, Reply> {
    Err(Reply::error(SYNTAX))
}

/// Access to the keys, for commands about one type of values.
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

pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let all = [
        cluster::COMMANDS,
        connection::COMMANDS,
        hashes::COMMANDS,
        keys::COMMANDS,
        lists::COMMANDS,
        messages::COMMANDS,
        replication::COMMANDS,
        scripts::COMMANDS,
        server::COMMANDS,
        sets::COMMANDS,
        strings::COMMANDS,
        zsets::COMMANDS,
    ];
    all.into_iter().flatten().map(|spec| (spec.name, spec)).collect()
});

/// The commands of a sentinel.
pub(super) static SENTINEL_TABLE: LazyLock<Table> = LazyLock::new(|| {
    let common = sentinel::COMMON.iter().filter_map(|name| TABLE.get_key_value(name));
    let own = sentinel::COMMANDS.iter().map(|spec| (spec.name, spec));
    common.map(|(name, spec)| (*name, *spec)).chain(own).collect()
});
