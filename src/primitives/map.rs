//! The map: entries of keys and values, with a lock for each key.

use std::{fmt, future::Future, iter, marker::PhantomData, ops::ControlFlow, time::Duration};

use super::{
    ExpirableSemaphore, FencedLock, Latch, Lock, LockContext, LockGuard, ReadWriteLock, RunOutcome,
    Semaphore,
    coded::{self, called, decode, encode, too_long},
    example,
    keyed::Keyed,
    like,
    local_caches::invalidation,
    pages::Pages,
    settings::checked_timeout,
};
use crate::{
    codec::{Codec, Encode, Text},
    domain::{Edit, Name, Notice, Write, checked},
    engine::Engine,
    error::{Error, Result},
    store::{
        data::{Changed, Cursor},
        map::{self, Change},
    },
};

/// The greatest number of entries that one request reads or sets.
const TOGETHER: usize = 100;

/// The words before the key in an error about a value.
const VALUE_OF: &str = "value of";

/// Entries of keys and values, which all clients share, with a lock for each key.
///
/// A `Map` is a name and two codecs, so creating one sends no request. In Redisson, it is the
/// `RMap` or the `RMapCacheNative` of the same name. If Java uses the map, too, set the
/// [codecs](crate::codec) that Java uses. The default is [`Text`] for keys and values. **With a
/// wrong codec, calls may return wrong values and no error**: see [the
/// guide](crate::docs::guide::collections#map).
///
/// Methods take a value as a `&V`, and a key as a `&K`. If `K` is `String`, methods for one entry
/// also take a key as a `&str`: see [`Encode`].
///
/// If the client retries a change after a lost reply, the store makes the change only once, and the
/// call returns the first reply. All reads go to the primary.
///
/// If work on an entry takes several steps, acquire the lock of its key. Then **write the entry
/// with the guard**, which checks the lock and writes in one step:
#[doc = example!(orders:
    "orders.insert(\"42\", &7).await?;",
    "",
    "let guard = orders.lock(\"42\")?.acquire().await?;",
    "let total = orders.get(\"42\").await?.unwrap_or(0);",
    "guard.write([orders.insertion(\"42\", &(total * 2))?]).await?;",
    "guard.release().await?;",
    "assert_eq!(orders.get(\"42\").await?, Some(14));")]
///
/// A key or a value has at most 100,000 bytes. A `Map` has no idle times, no size limit and no
/// events, and cannot share the data of an `RMapCache`.
pub struct Map<K, V, KC = Text, VC = Text> {
    keyed: Keyed,
    keys: KC,
    values: VC,
    notifies: bool,
    of: PhantomData<fn(K) -> V>,
}

coded::traits! { Map<K, V; keys: KC, values: VC>, keyed, notifies }

impl<K, V> Map<K, V> {
    pub(crate) fn new(keyed: Keyed) -> Self {
        Self { keyed, keys: Text, values: Text, notifies: false, of: PhantomData }
    }
}

/// Settings.
impl<K, V, KC, VC> Map<K, V, KC, VC> {
    /// Sets one codec for keys and values.
    #[doc = example!(orders:
        "use leasehold::codec::Kryo5Text;",
        "let orders = orders.codec(Kryo5Text);",
        "orders.insert(\"42\", &7).await?;")]
    #[must_use]
    pub fn codec<C: Clone>(self, codec: C) -> Map<K, V, C, C> {
        self.codecs(codec.clone(), codec)
    }

    /// Sets the codec of keys and the codec of values.
    #[doc = example!(orders:
        "use leasehold::codec::{Kryo5Text, Text};",
        "let orders = orders.codecs(Text, Kryo5Text);",
        "orders.insert(\"42\", &7).await?;")]
    #[must_use]
    pub fn codecs<NK, NV>(self, keys: NK, values: NV) -> Map<K, V, NK, NV> {
        Map { keyed: self.keyed, keys, values, notifies: self.notifies, of: PhantomData }
    }

    /// Sets whether each change notifies every `RLocalCachedMap` of the same name in Java, so that
    /// each of these maps drops the entry from its cache. Default: no.
    ///
    /// The guarded writes of [`insertion`](Self::insertion) and [`removal`](Self::removal) notify,
    /// too. [The guide](crate::docs::guide::collections#map) lists the cases in which Java keeps
    /// the old value nevertheless.
    #[doc = example!(orders:
        "let orders = orders.notify_local_caches(true);",
        "orders.insert(\"42\", &7).await?;")]
    #[must_use]
    pub fn notify_local_caches(self, notifies: bool) -> Self {
        Self { notifies, ..self }
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

/// Methods that read entries.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the value of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key or read the value, and
    /// [`Error::ValueTooLong`] if the key or the value is too long. [`Error::Unavailable`] if the
    /// store did not reply within the [request timeout](crate::ClientBuilder::request_timeout).
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] if
    /// the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(orders: "assert_eq!(orders.get(\"42\").await?, None);")]
    pub async fn get(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<Option<V>> {
        self.value(self.read(&[self.key(key)?]).await?.pop().flatten())
    }

    /// Returns the values of `keys`, in the order of `keys`. The call sends one request for every
    /// hundred keys, and more requests if the values are long.
    #[doc = like!(read "get")]
    #[doc = example!(orders:
        "let keys = [\"42\".to_owned(), \"43\".to_owned()];",
        "orders.insert(&keys[1], &7).await?;",
        "assert_eq!(orders.get_many(&keys).await?, [None, Some(7)]);")]
    pub async fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.iter().map(|key| self.key(key)).collect::<Result<_>>()?;
        self.read(&keys).await?.into_iter().map(|bytes| self.value(bytes)).collect()
    }

    /// Returns the encoded values of the encoded `keys`. Each request reads as many values as one
    /// reply may contain.
    async fn read(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let (name, mut values) = (self.name(), vec![]);
        while let rest @ [first, ..] = &keys[values.len()..] {
            let some = &rest[..rest.len().min(TOGETHER)];
            match self.engine().ask(name, |store| map::read(store, name, some)).await? {
                read if read.is_empty() => return Err(too_long(name, called(VALUE_OF, first))),
                read => values.extend(read),
            }
        }
        Ok(values)
    }

    /// Returns whether there is an entry with the key `key`.
    #[doc = like!(read "get")]
    #[doc = example!(orders: "assert!(!orders.contains(\"42\").await?);")]
    pub async fn contains(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<bool> {
        let (name, key) = (self.name(), &self.key(key)?[..]);
        self.engine().ask(name, |store| map::contains(store, name, key)).await
    }

    /// Returns the number of entries.
    ///
    /// An entry whose [TTL](Self::insert_for) has just ended may count until the server removes it.
    #[doc = like!(read "get")]
    #[doc = example!(orders: "assert_eq!(orders.len().await?, 0);")]
    pub async fn len(&self) -> Result<u64> {
        let name = self.name();
        self.engine().ask(name, |store| map::len(store, name)).await
    }

    /// Returns whether there are no entries.
    #[doc = like!(read "get")]
    #[doc = example!(orders: "assert!(orders.is_empty().await?);")]
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the entries one by one. Each request reads a page of entries.
    ///
    /// An entry that exists from the first request to the last one is returned at least once, and
    /// **may be returned twice**. An entry that is inserted or removed in between may or may not be
    /// returned. After a failover, a restart of the server or a slot migration in between, entries
    /// may be missing.
    #[doc = example!(orders:
        "orders.insert(\"42\", &7).await?;",
        "let mut entries = orders.stream();",
        "while let Some((order, total)) = entries.next().await? {",
        "    println!(\"{order}: {total}\");",
        "}")]
    pub fn stream(&self) -> MapStream<K, V, KC, VC> {
        MapStream { map: self.clone(), pages: Pages::new() }
    }
}

/// Methods that change entries.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Sets the value of `key`, and returns the previous value.
    #[doc = like!(change "get" and "[`Error::Codec`] also if the codec cannot write the new value, \
        and [`Error::ValueTooLong`] if the new value is too long. After these two errors, nothing \
        has changed, with one exception: if the codec cannot read the previous value, the change \
        has happened. After [`Error::Unavailable`], the change may have happened.")]
    #[doc = example!(orders:
        "assert_eq!(orders.insert(\"42\", &7).await?, None);",
        "assert_eq!(orders.insert(\"42\", &8).await?, Some(7));")]
    pub async fn insert(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        value: &V,
    ) -> Result<Option<V>> {
        self.value(self.change(key, None, Some(value), Change::INSERT).await?)
    }

    /// Sets the value of `key` for the time `ttl`, and returns the previous value.
    ///
    /// Redis removes the entry when `ttl` has passed. A later change of the value, such as
    /// [`insert`](Self::insert), removes the TTL, so the entry then stays. Only
    /// [`add`](Self::add) keeps the TTL.
    #[doc = like!(change "insert" and "[`Error::Unsupported`] if the server is older than Redis \
        7.4 or Valkey 9. [`Error::Duration`] if `ttl` is shorter than 1 ms or longer than 100 \
        years. After these two errors, nothing has changed.")]
    #[doc = example!(orders:
        "let ttl = Duration::from_secs(60);",
        "assert_eq!(orders.insert_for(\"42\", &7, ttl).await?, None);",
        "tokio::time::sleep(2 * ttl).await;",
        "assert_eq!(orders.get(\"42\").await?, None);")]
    pub async fn insert_for(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        value: &V,
        ttl: Duration,
    ) -> Result<Option<V>> {
        let change = Change { ttl: Some(checked("ttl", ttl)?), ..Change::INSERT };
        self.value(self.change(key, None, Some(value), change).await?)
    }

    /// Sets the value of `key` if it has none. Returns `None` if the value was set, and otherwise
    /// the existing value.
    #[doc = like!(change "insert")]
    #[doc = example!(orders:
        "assert_eq!(orders.insert_if_absent(\"42\", &7).await?, None);",
        "assert_eq!(orders.insert_if_absent(\"42\", &8).await?, Some(7));")]
    pub async fn insert_if_absent(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        value: &V,
    ) -> Result<Option<V>> {
        self.value(self.change(key, None, Some(value), Change::INSERT_IF_ABSENT).await?)
    }

    /// Sets the value of `key` if it already has one, and returns the previous value.
    #[doc = like!(change "insert")]
    #[doc = example!(orders: "assert_eq!(orders.replace(\"42\", &7).await?, None);")]
    pub async fn replace(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        value: &V,
    ) -> Result<Option<V>> {
        self.value(self.change(key, None, Some(value), Change::REPLACE).await?)
    }

    /// Sets the value of `key` to `new` if the value is `old`, and returns whether it did so.
    ///
    /// Redis compares the bytes of the values: see [`codec`](crate::codec). If another codec wrote
    /// the value, the bytes may differ, and the call then returns `false`.
    #[doc = like!(change "insert")]
    #[doc = example!(orders:
        "orders.insert(\"42\", &7).await?;",
        "assert!(!orders.compare_and_set(\"42\", &6, &8).await?);",
        "assert!(orders.compare_and_set(\"42\", &7, &8).await?);")]
    pub async fn compare_and_set(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        old: &V,
        new: &V,
    ) -> Result<bool> {
        let changed = self.change(key, Some(old), Some(new), Change::COMPARE_AND_SET).await?;
        Ok(changed.is_some())
    }

    /// Removes the entry of `key`, and returns its value.
    #[doc = like!(change "insert")]
    #[doc = example!(orders:
        "orders.insert(\"42\", &7).await?;",
        "assert_eq!(orders.remove(\"42\").await?, Some(7));",
        "assert_eq!(orders.remove(\"42\").await?, None);")]
    pub async fn remove(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<Option<V>> {
        self.value(self.change(key, None, None, Change::REMOVE).await?)
    }

    /// Removes the entry of `key` if its value is `value`, and returns whether it did so.
    #[doc = like!(change "insert")]
    #[doc = example!(orders:
        "orders.insert(\"42\", &7).await?;",
        "assert!(!orders.remove_if(\"42\", &8).await?);",
        "assert!(orders.remove_if(\"42\", &7).await?);")]
    pub async fn remove_if(&self, key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Result<bool> {
        Ok(self.change(key, Some(value), None, Change::REMOVE_IF).await?.is_some())
    }

    /// Adds `number` to the value of `key`, and returns the sum. If there is no entry, the old
    /// value counts as 0.
    ///
    /// The value has to be the decimal text of a whole number, as [`Text`] and `Json` write it, and
    /// `StringCodec` and `LongCodec` in Java. With [`Kryo5Text`](crate::codec::Kryo5Text), `get`
    /// cannot read the sum.
    #[doc = like!(change "insert" and "[`Error::Refused`] if the value is not such a text, or if \
        the sum does not fit into 64 bits.")]
    #[doc = example!(orders:
        "assert_eq!(orders.add(\"42\", 7).await?, 7);",
        "assert_eq!(orders.add(\"42\", -1).await?, 6);")]
    pub async fn add(&self, key: &(impl Encode<K, KC> + ?Sized), number: i64) -> Result<i64> {
        let change = Change { value: &number.to_string().into_bytes(), ..Change::ADD };
        let sum = self.send(&self.key(key)?, change).await?;
        decode(self.name(), &Text, &sum.unwrap_or_default())
    }

    /// Sets many entries. The call sends one request for every hundred entries.
    ///
    /// If the values are long, pass fewer entries to each call: a long request delays other
    /// requests on the shared connection.
    #[doc = like!("insert" and "After an error, some of the entries may be set.",
        "If the future is dropped, some of the entries may be set.")]
    #[doc = example!(orders:
        "orders.insert_many(&[(\"42\".to_owned(), 7), (\"43\".to_owned(), 8)]).await?;",
        "assert_eq!(orders.len().await?, 2);")]
    pub async fn insert_many(&self, entries: &[(K, V)]) -> Result<()> {
        let pair = |(key, value): &(K, V)| {
            let key = self.key(key)?;
            self.bytes(&key, value).map(|value| [key, value])
        };
        let pairs: Vec<_> = entries.iter().map(pair).collect::<Result<_>>()?;
        for some in pairs.chunks(TOGETHER) {
            if let [[key, value], more @ ..] = some {
                let more = more.as_flattened();
                self.send(key, Change { value, more, ..Change::INSERT_MANY }).await?;
            }
        }
        Ok(())
    }

    /// Returns the value of `key`. If there is no value, one task among all processes computes
    /// it, and the other tasks wait for the value.
    ///
    /// The computing task holds the [lock](Self::lock) of the key while `compute` runs. The task
    /// then inserts the value with a guarded write, which checks the lock and inserts in one step.
    /// If the lock is lost, `compute` is cancelled. If another client has inserted a value without
    /// the lock, the call returns that value. Java's `computeIfAbsent` uses the same lock.
    ///
    /// `timeout` limits only the wait for the lock, and not the time of `compute`. Each read, and
    /// the insertion, may take up to one [request timeout](crate::ClientBuilder::request_timeout)
    /// more.
    ///
    /// **The inserted entry has no TTL, so the map grows. If the computing process dies, the other
    /// tasks wait until its lease ends.** [The guide](crate::docs::guide::collections#map) says
    /// what to do in both cases.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if another task computed until the timeout. [`Error::Lost`] if the lock
    /// was lost; the value may have been inserted before. The error of `compute`, if it fails; then
    /// nothing is inserted. Other errors as for [`insert`](Self::insert) and
    /// [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `compute` is dropped, and the lock is released in the background.
    /// If `compute` had already returned, the value may or may not have been inserted.
    #[doc = example!(orders:
        "async fn load() -> Result<i64, leasehold::Error> { Ok(7) }",
        "let timeout = Duration::from_secs(5);",
        "assert_eq!(orders.get_or_insert_with(\"42\", timeout, load).await?, 7);",
        "assert_eq!(orders.get(\"42\").await?, Some(7));")]
    pub async fn get_or_insert_with<E, W, F>(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        timeout: Duration,
        compute: W,
    ) -> Result<V, E>
    where
        W: FnOnce() -> F,
        F: Future<Output = Result<V, E>>,
        E: From<Error>,
    {
        let guard = match self.value_or_guard(key, timeout).await? {
            ControlFlow::Break(value) => return Ok(value),
            ControlFlow::Continue(guard) => guard,
        };
        let computed = guard.run(async |held| {
            let value = compute().await?;
            Ok(self.insert_under(&held, key, value).await?)
        });
        match computed.await {
            // The guarded write has checked the lock, so a later loss does not matter.
            RunOutcome::CompletedAfterLoss { value, .. } => value,
            outcome => outcome.into_result()?,
        }
    }

    /// Returns the value of `key`, or, if there is no value, the guard of the lock of `key`.
    pub(crate) async fn value_or_guard(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        timeout: Duration,
    ) -> Result<ControlFlow<V, LockGuard>> {
        let timeout = checked_timeout(timeout)?;
        if let Some(value) = self.get(key).await? {
            return Ok(ControlFlow::Break(value));
        }
        let acquired = self.lock(key)?.acquire_in_time(timeout).await;
        // Another task may have inserted the value during the wait, and may have died before it
        // released the lock. So this task reads the value again, even if it did not acquire the
        // lock.
        let Some(value) = self.get(key).await? else { return acquired.map(ControlFlow::Continue) };
        if let Ok(guard) = acquired {
            // This task awaits the release, because the program may end before a background task
            // releases the lock. An error of the release does not matter, because this task wrote
            // nothing.
            guard.release().await.ok();
        }
        Ok(ControlFlow::Break(value))
    }

    /// Inserts `value` if the lock of `held` is still held and `key` has no value. Returns the
    /// value that `key` has after this.
    pub(crate) async fn insert_under(
        &self,
        held: &LockContext,
        key: &(impl Encode<K, KC> + ?Sized),
        value: V,
    ) -> Result<V> {
        let field = self.key(key)?;
        let (notice, bytes) = (self.notice([&field[..]]), self.bytes(&field, &value)?);
        let edit = Edit::SetAbsentField { field, value: bytes };
        held.write([Write::new(self.name().as_str(), edit).notifying(notice)]).await?;
        // If another client has removed the entry since the write, the caller still gets its own
        // value.
        Ok(self.get(key).await?.unwrap_or(value))
    }
}

/// Makes the methods that return a synchronizer of a key. The synchronizer has the name that the
/// method `$java` of `RMap` gives to its object.
macro_rules! synchronizers {
    ($(fn $name:ident() -> $object:ident, $java:literal; $example:literal)+) => {$(
        #[doc = concat!("Returns the [`", stringify!($name), "`](crate::", "Client::",
            stringify!($name), ") of `key`, with the name that `RMap.", $java,
            "` of Redisson uses. Sends no request.")]
        ///
        /// # Errors
        ///
        /// As for [`lock`](Self::lock).
        #[doc = example!(orders: $example)]
        pub fn $name(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<$object> {
            self.keyed.$name(&self.key(key)?)
        }
    )+};
}

/// The synchronizers of a key. They have the names that Redisson gives them.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the lock of `key`, which `RMap.getLock` of Redisson returns, too. Sends no request.
    ///
    /// Plain changes, such as [`insert`](Self::insert), do not acquire this lock, and do not check
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key, and [`Error::Name`] if the name of the
    /// map is so long that the name of the lock is invalid.
    #[doc = example!(orders: "let guard = orders.lock(\"42\")?.acquire().await?;")]
    pub fn lock(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<Lock> {
        self.keyed.lock(&self.key(key)?)
    }

    synchronizers! {
        fn fenced_lock() -> FencedLock, "getLock";
            "assert!(orders.fenced_lock(\"42\")?.try_acquire().await?.is_some());"

        fn fair_lock() -> Lock, "getFairLock";
            "assert!(orders.fair_lock(\"42\")?.try_acquire().await?.is_some());"

        fn read_write_lock() -> ReadWriteLock, "getReadWriteLock";
            "assert!(orders.read_write_lock(\"42\")?.read().try_acquire().await?.is_some());"

        fn semaphore() -> Semaphore, "getSemaphore";
            "orders.semaphore(\"42\")?.set_if_absent(3).await?;"

        fn expirable_semaphore() -> ExpirableSemaphore, "getPermitExpirableSemaphore";
            "orders.expirable_semaphore(\"42\")?.set_if_absent(3).await?;"

        fn latch() -> Latch, "getCountDownLatch";
            "orders.latch(\"42\")?.set(1).await?;"
    }
}

/// Methods that create writes of entries, which a guard executes.
impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    /// Returns the write that sets the value of `key`, for [`Guard::write`](crate::Guard::write).
    ///
    /// The guard's lock need not belong to this key. In a cluster, the lock has to be in the slot
    /// of the map, as the locks of all keys of the map are.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key or the value, and [`Error::ValueTooLong`]
    /// if one of them is too long.
    #[doc = example!(orders:
        "let guard = orders.lock(\"42\")?.acquire().await?;",
        "guard.write([orders.insertion(\"42\", &7)?]).await?;",
        "",
        "orders.lock(\"42\")?.force_release().await?; // or its lease ended",
        "assert!(guard.write([orders.insertion(\"42\", &8)?]).await.is_err());",
        "assert_eq!(orders.get(\"42\").await?, Some(7));")]
    pub fn insertion(&self, key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Result<Write> {
        let field = self.key(key)?;
        let (notice, value) = (self.notice([&field[..]]), self.bytes(&field, value)?);
        Ok(Write::hset(self.name().as_str(), field, value).notifying(notice))
    }

    /// Returns the write that removes the entry of `key`, for [`Guard::write`](crate::Guard::write).
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the key.
    #[doc = example!(orders:
        "orders.insert(\"42\", &7).await?;",
        "let guard = orders.lock(\"42\")?.acquire().await?;",
        "guard.write([orders.removal(\"42\")?]).await?;",
        "assert_eq!(orders.get(\"42\").await?, None);")]
    pub fn removal(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<Write> {
        let field = self.key(key)?;
        let notice = self.notice([&field[..]]);
        Ok(Write::hdel(self.name().as_str(), field).notifying(notice))
    }

    fn key(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<Vec<u8>> {
        encode(self.name(), &self.keys, key, "key", None)
    }

    /// Returns the bytes of `value`. If they are too long, the error names the encoded `key`.
    fn bytes(&self, key: &[u8], value: &V) -> Result<Vec<u8>> {
        encode(self.name(), &self.values, value, VALUE_OF, Some(key))
    }

    fn value(&self, bytes: Option<Vec<u8>>) -> Result<Option<V>> {
        bytes.map(|bytes| decode(self.name(), &self.values, &bytes)).transpose()
    }

    /// Returns the message that makes local caches in Java drop the entries of the encoded `keys`.
    fn notice<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Option<Notice> {
        self.notifies.then(|| invalidation(self.name(), keys))
    }

    /// Encodes `key` and the values `old` and `new`, if there are any, and sends the change.
    /// Returns the bytes of the previous value.
    async fn change(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        old: Option<&V>,
        new: Option<&V>,
        change: Change<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let key = &self.key(key)?[..];
        let bytes = |value: Option<&V>| value.map_or(Ok(vec![]), |value| self.bytes(key, value));
        let (old, value) = (&bytes(old)?[..], &bytes(new)?[..]);
        self.send(key, Change { old, value, ..change }).await
    }

    /// Sends a change of the entry of the encoded `key`. Returns the bytes of the previous value.
    async fn send(&self, key: &[u8], change: Change<'_>) -> Result<Option<Vec<u8>>> {
        let (name, receipt) = (self.name(), &self.engine().receipt());
        let others = change.more.iter().step_by(2).map(|key| &key[..]);
        let notice = self.notice(iter::once(key).chain(others));
        let ask = |store| map::change(store, name, key, change, notice.as_ref(), receipt);
        match self.engine().change(name, ask).await? {
            Changed::No => Ok(None),
            Changed::Yes(value) => Ok(Some(value)),
            Changed::TooLong => Err(too_long(name, called(VALUE_OF, key))),
        }
    }
}

/// The entries of a [`Map`], one by one: see [`Map::stream`].
///
/// A `MapStream` is not a `futures::Stream`. To read entries, call [`next`](Self::next).
#[doc = example!(orders: "assert_eq!(orders.stream().next().await?, None);")]
#[must_use = "a stream sends no request until `next` is called"]
pub struct MapStream<K, V, KC = Text, VC = Text> {
    map: Map<K, V, KC, VC>,
    pages: Pages,
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for MapStream<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapStream").field("map", &self.map).finish_non_exhaustive()
    }
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> MapStream<K, V, KC, VC> {
    /// Returns the next entry, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// As for [`Map::get`]. If an entry cannot be read, the next call continues after it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no entry.
    #[doc = example!(orders: "assert_eq!(orders.stream().next().await?, None);")]
    pub async fn next(&mut self) -> Result<Option<(K, V)>> {
        let Self { map, pages } = self;
        let (name, engine) = (map.name(), map.engine());
        let page = |cursor: Cursor| async move {
            engine.ask(name, |store| map::scan(store, name, &cursor)).await
        };
        let Some(key) = pages.next(name, page).await? else { return Ok(None) };
        // A page contains the value after its key, so this call sends no request.
        let Some(value) = pages.next(name, page).await? else { return Ok(None) };
        Ok(Some((decode(name, &map.keys, &key)?, decode(name, &map.values, &value)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use leasehold_twin::Twin;

    use super::*;
    use crate::{Client, MemoryStore, codec::Kryo5Text, store::redis::RedisStore};

    #[tokio::test(start_paused = true)]
    async fn lock_names_of_a_map_key_match_redisson() {
        let client = Client::with_store(&MemoryStore::new());
        let (orders, key) = (client.map::<String, u32>("orders").unwrap(), "test1");
        for (name, kind) in [
            (orders.lock(key).unwrap().name(), "lock"),
            (orders.fair_lock(key).unwrap().name(), "fairlock"),
            (orders.fenced_lock(key).unwrap().name(), "lock"),
            (orders.read_write_lock(key).unwrap().name(), "rw_lock"),
            (orders.semaphore(key).unwrap().name(), "semaphore"),
            (orders.expirable_semaphore(key).unwrap().name(), "permitexpirablesemaphore"),
            (orders.latch(key).unwrap().name(), "countdownlatch"),
        ] {
            assert_eq!(name.as_str(), format!("{{orders}}:sMUTHC2Ql4EaCGlDp3W/MQ:{kind}"));
        }
        let tagged = client.map::<String, u32>("a{b}c").unwrap().lock(key).unwrap();
        assert_eq!(tagged.name().as_str(), "a{b}c:sMUTHC2Ql4EaCGlDp3W/MQ:lock");
        let seen = client.set::<String>("seen").unwrap().codec(Kryo5Text).lock(key).unwrap();
        assert_eq!(seen.name().as_str(), "{seen}:1YYJvWKPQAOHqhq/jABzZA:lock");
    }

    #[tokio::test(start_paused = true)]
    async fn computed_value_survives_a_loss_after_the_insertion() {
        let twin = Twin::new(7);
        let client = Client::asking(Arc::new(RedisStore::simulated(&twin, "one")));
        let orders = client.map::<String, u32>("orders").unwrap();
        let (server, lock) = (twin.clone(), orders.lock("42").unwrap().name().to_string());
        twin.watch(move |it| {
            if it.command().starts_with("HSETNX") {
                let (server, lock) = (server.clone(), lock.clone());
                tokio::spawn(async move { server.delete(&lock) });
            }
        });
        let minute = Duration::from_secs(60);
        let computed = orders.get_or_insert_with("42", minute, async || Ok::<_, Error>(7)).await;
        assert_eq!((computed.unwrap(), orders.get("42").await.unwrap()), (7, Some(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn every_map_change_notifies_local_caches_if_configured() {
        let (twin, sent) = (Twin::new(7), Arc::new(Mutex::new(vec![])));
        let seen = Arc::clone(&sent);
        twin.watch(move |it| {
            if let Some(message) = it.command().strip_prefix("PUBLISH {numbers}:topic ") {
                seen.lock().unwrap().push(message.to_owned());
            }
        });
        let client = Client::asking(Arc::new(RedisStore::simulated(&twin, "one")));
        let silent = client.map::<u32, u32>("numbers").unwrap();
        let map = silent.clone().notify_local_caches(true);
        let published = || std::mem::take(&mut *sent.lock().unwrap());
        let message = |keys: &[&[u8]]| {
            let notice = map.notice(keys.iter().copied()).unwrap();
            String::from_utf8_lossy(&notice.message).into_owned()
        };
        let minute = Duration::from_secs(60);
        map.insert(&1, &7).await.unwrap();
        map.insert_for(&1, &8, minute).await.unwrap();
        map.replace(&1, &9).await.unwrap();
        assert!(map.compare_and_set(&1, &9, &10).await.unwrap());
        map.add(&1, 1).await.unwrap();
        map.remove(&1).await.unwrap();
        map.get_or_insert_with(&1, minute, async || Ok::<_, Error>(12)).await.unwrap();
        assert!(map.remove_if(&1, &12).await.unwrap());
        assert_eq!(map.insert_if_absent(&1, &13).await.unwrap(), None);
        let guard = map.lock(&1).unwrap().acquire().await.unwrap();
        guard.write([map.insertion(&1, &14).unwrap()]).await.unwrap();
        guard.write([map.removal(&1).unwrap()]).await.unwrap();
        assert_eq!(published(), vec![message(&[b"1"]); 11]);
        map.insert_many(&[(1, 15), (2, 16)]).await.unwrap();
        assert_eq!(published(), [message(&[b"1", b"2"])]);
        // A change without an effect sends no message. A map without the setting sends no message.
        assert!(!map.remove_if(&1, &7).await.unwrap());
        assert_eq!(map.insert_if_absent(&1, &7).await.unwrap(), Some(15));
        silent.insert(&1, &17).await.unwrap();
        guard.write([silent.insertion(&1, &18).unwrap()]).await.unwrap();
        assert_eq!(published(), [""; 0]);
    }
}
