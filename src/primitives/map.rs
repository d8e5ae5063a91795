//! The map: entries of keys and values, with a lock for each key.

use std::{fmt, future::Future, marker::PhantomData, time::Duration};

use super::{
    ExpirableSemaphore, FencedLock, Latch, Lock, LockContext, ReadWriteLock, Semaphore,
    coded::{decode, encode, too_long},
    example,
    keyed::Keyed,
    settings::checked_timeout,
};
use crate::{
    codec::{Codec, Text},
    domain::{Name, Script, Value, Write},
    engine::Engine,
    error::{Error, Result},
    store::map::{self, Change, Changed},
};

/// How many entries one request reads or sets at most.
const TOGETHER: usize = 100;

/// Inserts a value, unless there is one, which it returns.
const INSERT: &str = include_str!("insert.lua");

/// How many entries a page has, about.
const PAGE: u32 = 10;

/// Entries of keys and values, which all clients share, with a lock for each key.
///
/// A `Map` is a name: creating one costs nothing and sends no request. Java's Redisson knows it as
/// the `RMap` of the same name, and as the `RMapCacheNative`. The [codecs](crate::codec) have to be
/// those of Java. The default is [`Text`] for keys and values.
///
/// A change that is retried after a lost reply takes effect once, and its reply is that of the
/// first request. Reads go to the primary.
///
/// If work on an entry takes several steps, acquire its lock. **Write the entry with the guard**:
/// it checks the lock and writes in one step:
#[doc = example!(orders:
    "let order = \"42\".to_owned();",
    "orders.insert(&order, &7).await?;",
    "",
    "let guard = orders.lock(&order)?.acquire().await?;",
    "let total = orders.get(&order).await?.unwrap_or(0);",
    "guard.write([orders.insertion(&order, &(total * 2))?]).await?;",
    "guard.release().await?;",
    "assert_eq!(orders.get(&order).await?, Some(14));")]
///
/// A key or a value has at most 100,000 bytes. There are no idle times, no size limits and no
/// events: `RMapCache` keeps its times in the values, so it cannot be shared.
pub struct Map<K, V, KC = Text, VC = Text> {
    keyed: Keyed,
    keys: KC,
    values: VC,
    of: PhantomData<fn(K) -> V>,
}

impl<K, V, KC: Clone, VC: Clone> Clone for Map<K, V, KC, VC> {
    fn clone(&self) -> Self {
        let (keys, values) = (self.keys.clone(), self.values.clone());
        Self { keyed: self.keyed.clone(), keys, values, of: PhantomData }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for Map<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Map");
        shown.field("name", &self.keyed.name).field("keys", &self.keys);
        shown.field("values", &self.values).finish_non_exhaustive()
    }
}

impl<K, V> Map<K, V> {
    pub(crate) fn new(keyed: Keyed) -> Self {
        Self { keyed, keys: Text, values: Text, of: PhantomData }
    }
}

/// Settings.
impl<K, V, KC, VC> Map<K, V, KC, VC> {
    /// Sets the codec of keys and of values.
    #[doc = example!(orders:
        "use leasehold::codec::Kryo5Text;",
        "let orders = orders.codec(Kryo5Text);",
        "orders.insert(&\"42\".to_owned(), &7).await?;")]
    #[must_use]
    pub fn codec<C: Clone>(self, codec: C) -> Map<K, V, C, C> {
        self.codecs(codec.clone(), codec)
    }

    /// Sets the codec of keys and the codec of values.
    #[doc = example!(orders:
        "use leasehold::codec::{Kryo5Text, Text};",
        "let orders = orders.codecs(Text, Kryo5Text);",
        "orders.insert(&\"42\".to_owned(), &7).await?;")]
    #[must_use]
    pub fn codecs<NK, NV>(self, keys: NK, values: NV) -> Map<K, V, NK, NV> {
        Map { keyed: self.keyed, keys, values, of: PhantomData }
    }

    /// Returns the name of the map.
    #[doc = example!(orders: "assert_eq!(orders.name().as_str(), \"orders\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.keyed.name
    }

    fn engine(&self) -> &Engine {
        &self.keyed.engine
    }
}

/// Reading.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the value of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if another codec wrote it, and [`Error::ValueTooLong`] if it is too long.
    /// [`Error::Unavailable`] if the store did not answer within the
    /// [request timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`],
    /// [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders: "assert_eq!(orders.get(&\"42\".to_owned()).await?, None);")]
    pub async fn get(&self, key: &K) -> Result<Option<V>> {
        let mut values = self.read(&[self.key(key)?]).await?;
        values.pop().flatten().map(|value| self.value(&value)).transpose()
    }

    /// Returns the values of `keys`, in their order, by one request for a hundred keys.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders:
        "let keys = [\"42\".to_owned(), \"43\".to_owned()];",
        "orders.insert(&keys[1], &7).await?;",
        "assert_eq!(orders.get_many(&keys).await?, [None, Some(7)]);")]
    pub async fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.iter().map(|key| self.key(key)).collect::<Result<_>>()?;
        let mut values = vec![];
        for keys in keys.chunks(TOGETHER) {
            values.append(&mut self.read(keys).await?);
        }
        let value = |bytes: Option<Vec<u8>>| bytes.map(|bytes| self.value(&bytes)).transpose();
        values.into_iter().map(value).collect()
    }

    /// Reads values, by more requests if they are too long for one reply.
    async fn read(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let (mut values, mut together) = (vec![], keys.len().max(1));
        while let Some(rest) = keys.get(values.len()..).filter(|rest| !rest.is_empty()) {
            let some = &rest[..together.min(rest.len())];
            match self
                .engine()
                .ask(self.name(), |store| map::read(store, self.name(), some))
                .await?
            {
                Some(mut read) => values.append(&mut read),
                None if some.len() == 1 => return Err(too_long(self.name())),
                None => together = some.len() / 2,
            }
        }
        Ok(values)
    }

    /// Returns whether there is an entry with this key.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders: "assert!(!orders.contains(&\"42\".to_owned()).await?);")]
    pub async fn contains(&self, key: &K) -> Result<bool> {
        let (name, key) = (self.name(), &self.key(key)?[..]);
        self.engine().ask(name, |store| map::contains(store, name, key)).await
    }

    /// Returns the number of entries.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders: "assert_eq!(orders.len().await?, 0);")]
    pub async fn len(&self) -> Result<u64> {
        let name = self.name();
        self.engine().ask(name, |store| map::len(store, name)).await
    }

    /// Returns whether there are no entries.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders: "assert!(orders.is_empty().await?);")]
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the entries one by one, a page for each request.
    ///
    /// Each entry that exists during the whole time is returned at least once. An entry **may be
    /// returned twice**, and one that is inserted or removed meanwhile may be returned or not.
    #[doc = example!(orders:
        "orders.insert(&\"42\".to_owned(), &7).await?;",
        "let mut entries = orders.stream();",
        "while let Some((order, total)) = entries.next().await? {",
        "    println!(\"{order}: {total}\");",
        "}")]
    pub fn stream(&self) -> MapStream<K, V, KC, VC> {
        MapStream { map: self.clone(), read: vec![].into_iter(), cursor: Some(0) }
    }
}

/// Changing.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Sets the value of `key`, and returns the value before.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key or the value. Then nothing happened. If it
    /// cannot read the value before, the new value is set. [`Error::ValueTooLong`] if the new value
    /// or the one before is too long; nothing happened. [`Error::Unavailable`] if the store did not
    /// answer within the [request timeout](crate::ClientBuilder::request_timeout); it may have
    /// happened. [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and
    /// [`Error::WrongType`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "assert_eq!(orders.insert(&order, &7).await?, None);",
        "assert_eq!(orders.insert(&order, &8).await?, Some(7));")]
    pub async fn insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        self.before(key, Change::Insert(&self.bytes(value)?)).await
    }

    /// Sets the value of `key` if there is none. Returns `None` if it did, and otherwise the value
    /// that is there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "assert_eq!(orders.insert_if_absent(&order, &7).await?, None);",
        "assert_eq!(orders.insert_if_absent(&order, &8).await?, Some(7));")]
    pub async fn insert_if_absent(&self, key: &K, value: &V) -> Result<Option<V>> {
        self.before(key, Change::InsertIfAbsent(&self.bytes(value)?)).await
    }

    /// Sets the value of `key` if there is one, and returns the value before.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders: "assert_eq!(orders.replace(&\"42\".to_owned(), &7).await?, None);")]
    pub async fn replace(&self, key: &K, value: &V) -> Result<Option<V>> {
        self.before(key, Change::Replace(&self.bytes(value)?)).await
    }

    /// Sets the value of `key` to `new` if it is `old`, and returns whether it did.
    ///
    /// Redis compares bytes: see [`codec`](crate::codec).
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "orders.insert(&order, &7).await?;",
        "assert!(!orders.compare_and_set(&order, &6, &8).await?);",
        "assert!(orders.compare_and_set(&order, &7, &8).await?);")]
    pub async fn compare_and_set(&self, key: &K, old: &V, new: &V) -> Result<bool> {
        let (old, new) = (self.bytes(old)?, self.bytes(new)?);
        let change = Change::CompareAndSet { old: &old, new: &new };
        Ok(self.change(key, change).await?.is_some())
    }

    /// Removes the entry, and returns its value.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "orders.insert(&order, &7).await?;",
        "assert_eq!(orders.remove(&order).await?, Some(7));",
        "assert_eq!(orders.remove(&order).await?, None);")]
    pub async fn remove(&self, key: &K) -> Result<Option<V>> {
        self.before(key, Change::Remove).await
    }

    /// Removes the entry if its value is `value`, and returns whether it did.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "orders.insert(&order, &7).await?;",
        "assert!(!orders.remove_if(&order, &8).await?);",
        "assert!(orders.remove_if(&order, &7).await?);")]
    pub async fn remove_if(&self, key: &K, value: &V) -> Result<bool> {
        Ok(self.change(key, Change::RemoveIf(&self.bytes(value)?)).await?.is_some())
    }

    /// Adds to the number that `key` has, 0 without an entry, and returns the sum.
    ///
    /// The value has to be a whole number as text, as [`Text`], `StringCodec`, `LongCodec` and JSON
    /// write it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the value is another text, or the sum is beyond 64 bits. Others as
    /// [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(orders:
        "assert_eq!(orders.add(&\"42\".to_owned(), 7).await?, 7);",
        "assert_eq!(orders.add(&\"42\".to_owned(), -1).await?, 6);")]
    pub async fn add(&self, key: &K, number: i64) -> Result<i64> {
        let (name, key, receipt) = (self.name(), &self.key(key)?[..], &self.engine().receipt());
        self.engine().change(name, |store| map::add(store, name, key, number, receipt)).await
    }

    /// Sets many entries, by one request for a hundred entries.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). After an error, the first entries may be set.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future, some entries may be set and others not.
    #[doc = example!(orders:
        "orders.insert_many(&[(\"42\".to_owned(), 7), (\"43\".to_owned(), 8)]).await?;",
        "assert_eq!(orders.len().await?, 2);")]
    pub async fn insert_many(&self, entries: &[(K, V)]) -> Result<()> {
        let pair = |(key, value): &(K, V)| Ok([self.key(key)?, self.bytes(value)?]);
        let pairs: Vec<_> = entries.iter().map(pair).collect::<Result<_>>()?;
        for some in pairs.as_flattened().chunks(2 * TOGETHER) {
            let (name, receipt) = (self.name(), &self.engine().receipt());
            self.engine()
                .change(name, |store| map::insert_many(store, name, some, receipt))
                .await?;
        }
        Ok(())
    }

    /// Returns the value of `key`. If there is none, one task of all processes computes it, and the
    /// others wait for it.
    ///
    /// The task holds the [lock](Self::lock) of the key while `compute` runs, and inserts the value
    /// in the step that checks the lock. If the lock is lost, `compute` is cancelled, and nothing is
    /// inserted. If another client has inserted a value without the lock, that one is returned.
    /// Java's `computeIfAbsent` uses the same lock.
    ///
    /// A caller waits for the lock at most `timeout`, and `compute` may take longer than that.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another task still computes, and [`Error::Lost`] if the lock was lost.
    /// The error of `compute`; then nothing is inserted. Others as [`insert`](Self::insert) and
    /// [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `compute`, and releases the lock in the background. If `compute`
    /// has returned, the value may be inserted or not.
    #[doc = example!(orders:
        "async fn load() -> Result<i64, leasehold::Error> { Ok(7) }",
        "let (order, timeout) = (\"42\".to_owned(), Duration::from_secs(5));",
        "assert_eq!(orders.get_or_insert_with(&order, timeout, load).await?, 7);",
        "assert_eq!(orders.get(&order).await?, Some(7));")]
    pub async fn get_or_insert_with<E, W, F>(
        &self,
        key: &K,
        timeout: Duration,
        compute: W,
    ) -> Result<V, E>
    where
        W: FnOnce() -> F,
        F: Future<Output = Result<V, E>>,
        E: From<Error>,
    {
        let timeout = checked_timeout(timeout).map_err(Error::from)?;
        if let Some(value) = self.get(key).await? {
            return Ok(value);
        }
        let guard = self.lock(key)?.acquire_in_time(timeout).await?;
        // Another task may have inserted it meanwhile.
        if let Some(value) = self.get(key).await? {
            return Ok(value);
        }
        let computed = guard.run(async |held| {
            let value = compute().await?;
            Ok(self.insert_under(&held, key, value).await?)
        });
        computed.await.into_result()?
    }

    /// Inserts the value while the lock is held, unless there is one, and returns the one that is
    /// there.
    pub(crate) async fn insert_under(&self, held: &LockContext, key: &K, value: V) -> Result<V> {
        let insert = Script::new(INSERT).key(self.name().as_str()).arg(self.key(key)?);
        match held.eval(insert.arg(self.bytes(&value)?)).await? {
            Value::Bytes(there) => self.value(&there),
            _ => Ok(value),
        }
    }
}

/// The synchronizers of a key, with the names of Redisson.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the lock of `key`: `RMap.getLock` of Redisson. Sends no request.
    ///
    /// Plain changes, such as [`insert`](Self::insert), do not take the lock.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key, and [`Error::Name`] if the name of the map
    /// is so long that the name of the lock is invalid.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "let guard = orders.lock(&order)?.acquire().await?;",
        "guard.write([orders.insertion(&order, &7)?]).await?;")]
    pub fn lock(&self, key: &K) -> Result<Lock> {
        self.keyed.lock(&self.key(key)?)
    }

    /// Returns the fair lock of `key`: `RMap.getFairLock` of Redisson. Sends no request.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders: "let guard = orders.fair_lock(&\"42\".to_owned())?.acquire().await?;")]
    pub fn fair_lock(&self, key: &K) -> Result<Lock> {
        self.keyed.fair_lock(&self.key(key)?)
    }

    /// Returns the lock of `key` whose holds have tokens. It excludes [`lock`](Self::lock).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders:
        "let guard = orders.fenced_lock(&\"42\".to_owned())?.acquire().await?;",
        "assert_eq!(guard.token(), 1);")]
    pub fn fenced_lock(&self, key: &K) -> Result<FencedLock> {
        self.keyed.fenced_lock(&self.key(key)?)
    }

    /// Returns the read-write lock of `key`: `RMap.getReadWriteLock` of Redisson.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders:
        "let reads = orders.read_write_lock(&\"42\".to_owned())?.read().acquire().await?;")]
    pub fn read_write_lock(&self, key: &K) -> Result<ReadWriteLock> {
        self.keyed.read_write_lock(&self.key(key)?)
    }

    /// Returns the semaphore of `key`: `RMap.getSemaphore` of Redisson.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders:
        "orders.semaphore(&\"42\".to_owned())?.set_if_absent(3).await?;")]
    pub fn semaphore(&self, key: &K) -> Result<Semaphore> {
        self.keyed.semaphore(&self.key(key)?)
    }

    /// Returns the expirable semaphore of `key`: `RMap.getPermitExpirableSemaphore` of Redisson.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders:
        "orders.expirable_semaphore(&\"42\".to_owned())?.set_if_absent(3).await?;")]
    pub fn expirable_semaphore(&self, key: &K) -> Result<ExpirableSemaphore> {
        self.keyed.expirable_semaphore(&self.key(key)?)
    }

    /// Returns the latch of `key`: `RMap.getCountDownLatch` of Redisson.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    #[doc = example!(orders: "orders.latch(&\"42\".to_owned())?.set(1).await?;")]
    pub fn latch(&self, key: &K) -> Result<Latch> {
        self.keyed.latch(&self.key(key)?)
    }
}

/// Writing with a guard.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the write that sets the value of `key`, for [`Guard::write`](crate::Guard::write).
    ///
    /// The guard writes it in the step that checks the hold, perhaps together with other writes. In a
    /// cluster the lock has to be in the slot of the map, as each lock of its keys is.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key or the value, and [`Error::ValueTooLong`].
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "let guard = orders.lock(&order)?.acquire().await?;",
        "guard.write([orders.insertion(&order, &7)?]).await?;",
        "",
        "orders.lock(&order)?.force_release().await?; // or its lease ended",
        "assert!(guard.write([orders.insertion(&order, &8)?]).await.is_err());",
        "assert_eq!(orders.get(&order).await?, Some(7));")]
    pub fn insertion(&self, key: &K, value: &V) -> Result<Write> {
        Ok(Write::hset(self.name().as_str(), self.key(key)?, self.bytes(value)?))
    }

    /// Returns the write that removes the entry of `key`, for [`Guard::write`](crate::Guard::write).
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key.
    #[doc = example!(orders:
        "let order = \"42\".to_owned();",
        "orders.insert(&order, &7).await?;",
        "let guard = orders.lock(&order)?.acquire().await?;",
        "guard.write([orders.removal(&order)?]).await?;",
        "assert_eq!(orders.get(&order).await?, None);")]
    pub fn removal(&self, key: &K) -> Result<Write> {
        Ok(Write::hdel(self.name().as_str(), self.key(key)?))
    }
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    fn key(&self, key: &K) -> Result<Vec<u8>> {
        encode(self.name(), &self.keys, key)
    }

    fn bytes(&self, value: &V) -> Result<Vec<u8>> {
        encode(self.name(), &self.values, value)
    }

    fn value(&self, bytes: &[u8]) -> Result<V> {
        decode(self.name(), &self.values, bytes)
    }

    /// Makes a change that returns the previous value.
    async fn before(&self, key: &K, change: Change<'_>) -> Result<Option<V>> {
        self.change(key, change).await?.map(|value| self.value(&value)).transpose()
    }

    async fn change(&self, key: &K, change: Change<'_>) -> Result<Option<Vec<u8>>> {
        let (name, key, receipt) = (self.name(), &self.key(key)?[..], &self.engine().receipt());
        let ask = |store| map::change(store, name, key, change, receipt);
        match self.engine().change(name, ask).await? {
            Changed::No => Ok(None),
            Changed::Yes(value) => Ok(Some(value)),
            Changed::TooLong => Err(too_long(name)),
        }
    }
}

/// The entries of a [`Map`], one by one: see [`Map::stream`].
#[doc = example!(orders:
    "let mut entries = orders.stream();",
    "assert_eq!(entries.next().await?, None);")]
#[must_use = "it reads nothing until its next entry is asked for"]
pub struct MapStream<K, V, KC = Text, VC = Text> {
    map: Map<K, V, KC, VC>,
    /// Keys and values by turns.
    read: std::vec::IntoIter<Vec<u8>>,
    /// Of the next page, unless this is the last one.
    cursor: Option<u64>,
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for MapStream<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapStream").field("map", &self.map).finish_non_exhaustive()
    }
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> MapStream<K, V, KC, VC> {
    /// Returns the next entry. `None` after the last one.
    ///
    /// # Errors
    ///
    /// As [`Map::get`]. The next call continues after an entry that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no entry.
    #[doc = example!(orders: "assert_eq!(orders.stream().next().await?, None);")]
    pub async fn next(&mut self) -> Result<Option<(K, V)>> {
        let name = self.map.name();
        loop {
            if let (Some(key), Some(value)) = (self.read.next(), self.read.next()) {
                let key = decode(name, &self.map.keys, &key)?;
                return Ok(Some((key, self.map.value(&value)?)));
            }
            let Some(cursor) = self.cursor else { return Ok(None) };
            let page = |count| {
                self.map.engine().ask(name, move |store| map::scan(store, name, cursor, count))
            };
            let page = match page(PAGE).await? {
                Some(page) => page,
                // The entries of one page are too long.
                None => page(1).await?.ok_or_else(|| too_long(name))?,
            };
            self.read = page.parts.into_iter();
            self.cursor = page.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use futures_util::future::{join, join_all};
    use leasehold_twin::{Cut, Delay, Twin};
    use tokio::time::sleep;

    use super::*;
    use crate::{
        Client, MemoryStore,
        store::redis::{Connector, RedisStore},
    };

    const MS: Duration = Duration::from_millis(1);

    /// How many stories each test tells.
    const SEEDS: u64 = 100;

    /// A map of a client of `twin`.
    fn numbers(twin: &Twin, client: &str) -> Map<u32, u32> {
        let server = twin.clone();
        let connector = Connector::by(move || {
            let server = server.clone();
            async move { server.connect().await }
        });
        let store = RedisStore::simulated(connector, client);
        Client::asking(Arc::new(store)).map("numbers").unwrap()
    }

    fn orders(store: &MemoryStore) -> Map<String, u32> {
        Client::with_store(store).map("orders").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn synchronizers_of_a_key_have_the_names_of_redisson() {
        let store = MemoryStore::new();
        let (orders, key) = (orders(&store), "test1".to_owned());
        let names = [
            orders.lock(&key).unwrap().name().clone(),
            orders.fair_lock(&key).unwrap().name().clone(),
            orders.fenced_lock(&key).unwrap().name().clone(),
            orders.read_write_lock(&key).unwrap().name().clone(),
            orders.semaphore(&key).unwrap().name().clone(),
            orders.expirable_semaphore(&key).unwrap().name().clone(),
            orders.latch(&key).unwrap().name().clone(),
        ];
        let kinds = [
            "lock",
            "fairlock",
            "lock",
            "rw_lock",
            "semaphore",
            "permitexpirablesemaphore",
            "countdownlatch",
        ];
        for (name, kind) in names.iter().zip(kinds) {
            assert_eq!(name.as_str(), format!("{{orders}}:sMUTHC2Ql4EaCGlDp3W/MQ:{kind}"));
        }
        let tagged = Client::with_store(&store).map::<String, u32>("a{b}c").unwrap();
        let lock = tagged.lock(&key).unwrap();
        assert_eq!(lock.name().as_str(), "a{b}c:sMUTHC2Ql4EaCGlDp3W/MQ:lock");
    }

    #[tokio::test(start_paused = true)]
    async fn page_of_long_values_is_read_in_parts() {
        let store = MemoryStore::new();
        let texts = Client::with_store(&store).map::<u32, String>("texts").unwrap();
        let long = "x".repeat(60_000);
        let keys: Vec<_> = (0..5).collect();
        for key in &keys {
            texts.insert(key, &long).await.unwrap();
        }
        let read = texts.get_many(&keys).await.unwrap();
        assert!(read.iter().all(|value| value.as_ref() == Some(&long)));
        let huge = texts.insert(&7, &"x".repeat(100_001)).await.unwrap_err();
        assert!(matches!(huge, Error::ValueTooLong { most: 100_000, .. }), "{huge}");
    }

    /// Each insertion returns the value of the previous one, so each value is returned once. If a
    /// repeated insertion returned its own value, this would not be so.
    #[tokio::test(start_paused = true)]
    async fn every_inserted_value_is_returned_once_from_any_seed() {
        for seed in 0..SEEDS {
            let mut random = fastrand::Rng::with_seed(seed);
            let twin = Twin::new(seed);
            twin.delay(Delay::UpTo(5 * MS), Delay::UpTo(5 * MS));
            let inserts = async |number: u32| {
                let (map, mut before) = (numbers(&twin, &format!("{number}")), vec![]);
                for turn in 0..20 {
                    before.push(map.insert(&7, &(100 * number + turn)).await.unwrap());
                }
                before
            };
            let cuts = async {
                for _ in 0..8 {
                    sleep(random.u32(0..60) * MS).await;
                    let cut = if random.bool() { Cut::Replies } else { Cut::Whole };
                    twin.cut(cut, |_| true);
                }
            };
            let (before, ()) = join(join_all((0..3).map(inserts)), cuts).await;
            let last = numbers(&twin, "last").get(&7).await.unwrap();
            let mut returned = BTreeMap::new();
            for value in before.into_iter().flatten().chain([last]) {
                *returned.entry(value).or_insert(0) += 1;
            }
            let all = (0..3).flat_map(|number| (0..20).map(move |turn| Some(100 * number + turn)));
            let expected: BTreeMap<_, _> = all.chain([None]).map(|value| (value, 1)).collect();
            assert_eq!(returned, expected, "seed {seed}");
        }
    }

    /// The server forgets locks, so two clients believe in one lock. Only the holder in Redis can
    /// write.
    #[tokio::test(start_paused = true)]
    async fn no_update_under_a_lock_is_lost_from_any_seed() {
        let mut late = 0;
        for seed in 0..SEEDS {
            let mut random = fastrand::Rng::with_seed(seed);
            let twin = Twin::new(seed);
            twin.delay(Delay::UpTo(5 * MS), Delay::UpTo(5 * MS));
            let adds = async |number: u32| {
                let mut random = fastrand::Rng::with_seed(100 * seed + u64::from(number));
                let (map, mut written, mut lost) = (numbers(&twin, &format!("{number}")), 0, 0);
                for _ in 0..10 {
                    let guard = map.lock(&7).unwrap().acquire().await.unwrap();
                    let sum = map.get(&7).await.unwrap().unwrap_or(0);
                    sleep(random.u32(0..100) * MS).await;
                    match guard.write([map.insertion(&7, &(sum + 1)).unwrap()]).await {
                        Ok(()) => written += 1,
                        Err(Error::Lost { .. }) => lost += 1,
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                (written, lost)
            };
            let name = numbers(&twin, "name").lock(&7).unwrap().name().clone();
            let forgets = async {
                for _ in 0..20 {
                    sleep(random.u32(0..80) * MS).await;
                    twin.delete(name.as_str());
                }
            };
            let (done, ()) = join(join_all((0..3).map(adds)), forgets).await;
            let written: u32 = done.iter().map(|(written, _)| written).sum();
            late += done.iter().map(|(_, lost)| lost).sum::<u32>();
            let sum = numbers(&twin, "last").get(&7).await.unwrap();
            assert_eq!(sum, Some(written), "seed {seed}");
        }
        assert!(late > 0, "no lock was lost");
    }
}
