//! The values of the keys, and their expiry times.

use std::collections::{BTreeMap, VecDeque};

use super::{
    hash::{Hash, Set},
    reply::Reply,
    zset::Zset,
};

/// A value of any type that the server supports.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Vec<u8>),
    Hash(Hash),
    Set(Set),
    Zset(Zset),
    List(VecDeque<Vec<u8>>),
}

/// A value, and its expiry time in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) ends: Option<i64>,
}

impl Entry {
    /// Returns whether the value has expired by `now`. A hash also expires when all of its fields
    /// have expired.
    fn is_over(&self, now: i64) -> bool {
        let fields = |value: &Value| matches!(value, Value::Hash(hash) if hash.is_over(now));
        self.ends.is_some_and(|ends| now > ends) || fields(&self.value)
    }
}

/// One database. An expired key is invisible, so no task has to delete it in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyspace(BTreeMap<Vec<u8>, Entry>);

/// A type of values in a database.
pub(super) trait Kind: Default + Sized {
    fn of(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

macro_rules! kind {
    ($kind:ty, $variant:ident) => {
        impl Kind for $kind {
            fn of(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(found) => Some(found),
                    _ => None,
                }
            }
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
            fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

kind!(Hash, Hash);
kind!(Set, Set);
kind!(Zset, Zset);
kind!(VecDeque<Vec<u8>>, List);

impl Kind for Vec<u8> {
    fn of(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    fn into_value(self) -> Value {
        Value::Text(self)
    }
    /// An empty text is still a value.
    fn is_empty(&self) -> bool {
        false
    }
}

impl Value {
    /// Returns the name of the type, as `TYPE` returns it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::Zset(_) => "zset",
            Self::List(_) => "list",
        }
    }
}

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

impl Keyspace {
    /// Returns the entry of `key` without expired fields, unless the entry has expired by `now`.
    pub(super) fn entry(&mut self, key: &[u8], now: i64) -> Option<&mut Entry> {
        if self.0.get(key).is_some_and(|entry| entry.is_over(now)) {
            self.0.remove(key);
        }
        let entry = self.0.get_mut(key)?;
        if let Value::Hash(hash) = &mut entry.value {
            hash.remove_ended(now);
        }
        Some(entry)
    }

    /// Returns the value under `key`, if there is one. Fails if the value has another type than
    /// `K`.
    pub(super) fn find<K: Kind>(&mut self, key: &[u8], now: i64) -> Result<Option<&mut K>, Reply> {
        let Some(entry) = self.entry(key, now) else { return Ok(None) };
        K::of(&mut entry.value).map(Some).ok_or_else(|| Reply::error(WRONG_TYPE))
    }

    /// Returns the value under `key`, or creates it. Fails if the value has another type than `K`.
    pub(super) fn make<K: Kind>(&mut self, key: &[u8], now: i64) -> Result<&mut K, Reply> {
        if self.entry(key, now).is_none() {
            self.put(key, Entry { value: K::default().into_value(), ends: None });
        }
        self.find(key, now)?.ok_or_else(|| Reply::error("ERR no such key"))
    }

    /// Changes the value of this type under `key`. If the value becomes empty, deletes the key.
    pub(super) fn change<K: Kind, T>(
        &mut self,
        key: &[u8],
        now: i64,
        work: impl FnOnce(&mut K) -> T,
    ) -> Result<Option<T>, Reply> {
        let Some(value) = self.find::<K>(key, now)? else { return Ok(None) };
        let done = work(value);
        if value.is_empty() {
            self.0.remove(key);
        }
        Ok(Some(done))
    }

    pub(super) fn put(&mut self, key: &[u8], entry: Entry) {
        self.0.insert(key.to_vec(), entry);
    }

    /// Deletes a key. Returns whether the key existed and had not expired.
    pub(super) fn delete(&mut self, key: &[u8], now: i64) -> bool {
        self.entry(key, now).is_some() && self.0.remove(key).is_some()
    }

    /// Returns the keys that have not expired by `now`, in order.
    pub(super) fn live(&self, now: i64) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.0.iter().filter(move |(_, entry)| !entry.is_over(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_exists_up_to_its_last_millisecond() {
        let mut keys = Keyspace::default();
        keys.put(b"k", Entry { value: Value::Text(vec![]), ends: Some(5) });
        assert!(keys.entry(b"k", 5).is_some());
        assert!(keys.entry(b"k", 6).is_none());
        assert!(keys.entry(b"k", 5).is_none(), "the expired entry stays deleted");
    }

    #[test]
    fn hash_is_deleted_with_its_last_field() {
        let mut keys = Keyspace::default();
        let hash = keys.make::<Hash>(b"h", 0).unwrap();
        for (field, ends) in [(b"f", 5), (b"g", 7)] {
            hash.set(field, vec![]);
            assert!(hash.end_at(field, ends));
        }
        let mut left = |now| keys.find::<Hash>(b"h", now).unwrap().map(|hash| hash.len());
        assert_eq!([left(5), left(6), left(7)], [Some(2), Some(1), Some(1)]);
        assert_eq!(keys.live(8).count(), 0);
        assert!(keys.entry(b"h", 8).is_none());
    }

    #[test]
    fn empty_hash_is_deleted_and_an_empty_string_stays() {
        let mut keys = Keyspace::default();
        keys.make::<Hash>(b"h", 0).unwrap().set(b"f", b"v".to_vec());
        keys.make::<Vec<u8>>(b"t", 0).unwrap();
        keys.change(b"h", 0, |hash: &mut Hash| hash.remove(b"f")).unwrap();
        keys.change(b"t", 0, |_: &mut Vec<u8>| ()).unwrap();
        assert_eq!(keys.live(0).map(|(key, _)| key.as_slice()).collect::<Vec<_>>(), [b"t"]);
        assert!(keys.find::<Hash>(b"t", 0).is_err());
    }
}
