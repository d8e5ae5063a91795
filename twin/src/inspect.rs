//! Inspection of a server by a test, without a client.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Twin,
    core::clients::{Connection, Scope},
    data::{Kind, Value},
    hash::Hash,
    zset::Zset,
};

impl Twin {
    /// Returns the fields and values of a hash, or `None` if the hash is missing.
    pub fn hash(&self, key: &str) -> Option<BTreeMap<String, String>> {
        self.value(key, |hash: &mut Hash| {
            hash.fields().map(|field| (text(&field.name), text(&field.value))).collect()
        })
    }

    /// Returns the members of a sorted set with their scores, in order. Returns `None` if the set
    /// is missing.
    pub fn zset(&self, key: &str) -> Option<Vec<(String, f64)>> {
        self.value(key, |set: &mut Zset| {
            set.ranked().map(|(member, score)| (text(member), score)).collect()
        })
    }

    /// Returns the elements of a list in order, or `None` if the list is missing.
    pub fn list(&self, key: &str) -> Option<Vec<String>> {
        self.value(key, |list: &mut VecDeque<Vec<u8>>| list.iter().map(|it| text(it)).collect())
    }

    /// Returns the text under a key, or `None` if the text is missing.
    pub fn text(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.value(key, |text: &mut Vec<u8>| text.clone())
    }

    /// Returns one field of a hash, or `None` if the field is missing.
    pub fn field(&self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.value(key, |hash: &mut Hash| hash.value(field.as_ref()).cloned()).flatten()
    }

    /// Returns the result of `PTTL`. The result is -1 for a key without a TTL, and -2 for a missing
    /// key.
    pub fn pttl(&self, key: &str) -> i64 {
        let mut core = self.core();
        core.tick();
        let now = core.now();
        match core.database(0).entry(key.as_bytes(), now) {
            None => -2,
            Some(entry) => entry.ends.map_or(-1, |ends| ends - now),
        }
    }

    /// Returns the time that decides about TTLs, in milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        let mut core = self.core();
        core.tick();
        core.now()
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> Vec<String> {
        self.keys_by(|_| true)
    }

    /// Returns all keys without a TTL.
    pub fn keys_without_ttl(&self) -> Vec<String> {
        self.keys_by(|ends| ends.is_none())
    }

    /// Returns the type of the value under a key, as `TYPE` returns it.
    pub fn kind(&self, key: &str) -> Option<&'static str> {
        let mut core = self.core();
        core.tick();
        let now = core.now();
        core.database(0).entry(key.as_bytes(), now).map(|entry| Value::kind(&entry.value))
    }

    /// Returns how many clients are subscribed to a channel.
    pub fn subscribers(&self, channel: &str) -> usize {
        let core = self.core();
        let listeners = |kind| core.listeners(kind, channel.as_bytes()).count();
        listeners(Scope::Plain) + listeners(Scope::Sharded)
    }

    /// Returns all connections, the oldest first.
    pub fn connections(&self) -> Vec<Connection> {
        self.core().connections()
    }

    /// Returns the address of the server in a [`Net`](crate::Net), as other servers announce it.
    pub fn address(&self) -> String {
        self.core().address.to_string()
    }

    /// Returns whether the server is a replica.
    pub fn is_replica(&self) -> bool {
        self.core().is_replica()
    }

    /// Returns whether this replica is connected to `primary`, and has all of its writes.
    pub fn has_all_of(&self, primary: &Self) -> bool {
        let (up, has) = {
            let core = self.shared.core();
            (core.leader().is_some_and(|(_, is_up)| is_up), core.offset())
        };
        up && has == primary.shared.core().offset()
    }

    /// Returns how often each command ran, including calls by scripts. Names are in lower case,
    /// such as `script|load`.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.core().calls.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    /// Returns how many scripts ran.
    pub fn evals(&self) -> u64 {
        let core = self.core();
        ["eval", "evalsha"].iter().filter_map(|name| core.calls.get(name)).sum()
    }

    fn value<K: Kind, T>(
        &self,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&mut K) -> T,
    ) -> Option<T> {
        let mut core = self.core();
        core.tick();
        let now = core.now();
        core.database(0).find(key.as_ref(), now).ok().flatten().map(read)
    }

    fn keys_by(&self, wanted: impl Fn(Option<i64>) -> bool) -> Vec<String> {
        let mut core = self.core();
        core.tick();
        let now = core.now();
        let live = core.database(0).live(now);
        live.filter(|(_, entry)| wanted(entry.ends)).map(|(key, _)| text(key)).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
