//! The map, for threads.

use std::{fmt, ops::ControlFlow, sync::Arc, time::Duration};

use super::{
    ExpirableSemaphore, FencedLock, Guard, Latch, Lock, ReadWriteLock, Semaphore,
    face::{returns, sets, shares, shows, waits},
    waiting::Core,
};
use crate::{
    Name, Write,
    codec::{Codec, Encode, Text},
    error::{Error, Result},
    primitives::{self, thread_example},
};

/// A [`Map`](crate::Map) for threads.
///
/// # Examples
///
/// ```
/// let orders = leasehold::blocking::Client::in_memory()?.map::<String, u32>("orders")?;
/// let guard = orders.lock("42")?.acquire()?;
/// guard.write([orders.insertion("42", &7)?])?;
/// assert_eq!(orders.get("42")?, Some(7));
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct Map<K, V, KC = Text, VC = Text> {
    core: Arc<Core>,
    inner: primitives::Map<K, V, KC, VC>,
}

shares! { Map<K, V; KC, VC> }

/// Makes the methods of a map that return a synchronizer of a key.
macro_rules! makes {
    ($(fn $name:ident() -> $object:ident;)+) => {$(
        #[doc = concat!("Does what [`Map::", stringify!($name), "`](crate::Map::",
            stringify!($name), ") does.")]
        ///
        /// # Errors
        ///
        /// Those of the async method.
        #[doc = thread_example!("let orders = client.map::<String, u32>(\"orders\")?;":
            concat!("let it = orders.", stringify!($name), "(\"42\")?;"))]
        pub fn $name(&self, key: &(impl Encode<K, KC> + ?Sized)) -> Result<$object> {
            Ok($object::new(Arc::clone(&self.core), self.inner.$name(key)?))
        }
    )+};
}

/// Makes the methods of a map that return a write for a guard.
macro_rules! plans {
    ($(fn $name:ident($($value:ident: $type:ty)?); $example:literal)+) => {$(
        #[doc = concat!("Does what [`Map::", stringify!($name), "`](crate::Map::",
            stringify!($name), ") does.")]
        ///
        /// # Errors
        ///
        /// Those of the async method.
        #[doc = thread_example!("let orders = client.map::<u32, u32>(\"orders\")?;": $example)]
        pub fn $name(&self, key: &(impl Encode<K, KC> + ?Sized) $(, $value: $type)?) -> Result<Write> {
            self.inner.$name(key $(, $value)?)
        }
    )+};
}

impl<K, V, KC, VC> Map<K, V, KC, VC> {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Map<K, V, KC, VC>) -> Self {
        Self { core, inner }
    }

    /// Does what [`Map::codec`](crate::Map::codec) does.
    ///
    /// # Examples
    ///
    /// ```
    /// let orders = leasehold::blocking::Client::in_memory()?.map::<String, i64>("orders")?;
    /// let orders = orders.codec(leasehold::codec::Kryo5Text);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn codec<C: Clone>(self, codec: C) -> Map<K, V, C, C> {
        Map { core: self.core, inner: self.inner.codec(codec) }
    }

    /// Does what [`Map::codecs`](crate::Map::codecs) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::codec::{Kryo5Text, Text};
    /// let orders = leasehold::blocking::Client::in_memory()?.map::<String, i64>("orders")?;
    /// let orders = orders.codecs(Text, Kryo5Text);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn codecs<NK, NV>(self, keys: NK, values: NV) -> Map<K, V, NK, NV> {
        Map { core: self.core, inner: self.inner.codecs(keys, values) }
    }

    sets! { Map, "let orders = client.map::<String, i64>(\"orders\")?;":
        fn notify_local_caches(notifies: bool);
            "let orders = orders.notify_local_caches(true);"
    }

    returns! { Map, "let orders = client.map::<String, u32>(\"orders\")?;":
        fn name() -> &Name; "assert_eq!(orders.name().as_str(), \"orders\");"
    }
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> Map<K, V, KC, VC> {
    waits! { Map, "let orders = client.map::<String, u32>(\"orders\")?;":
        fn get(key: &(impl Encode<K, KC> + ?Sized)) -> Option<V>;
            "assert_eq!(orders.get(\"42\")?, None);"

        fn get_many(keys: &[K]) -> Vec<Option<V>>;
            "assert_eq!(orders.get_many(&[\"42\".to_owned()])?, [None]);"

        fn contains(key: &(impl Encode<K, KC> + ?Sized)) -> bool;
            "assert!(!orders.contains(\"42\")?);"

        fn len() -> u64; "assert_eq!(orders.len()?, 0);"

        fn is_empty() -> bool; "assert!(orders.is_empty()?);"

        fn insert(key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Option<V>;
            "assert_eq!(orders.insert(\"42\", &7)?, None);"

        fn insert_for(key: &(impl Encode<K, KC> + ?Sized), value: &V, ttl: Duration) -> Option<V>;
            "assert_eq!(orders.insert_for(\"42\", &7, Duration::from_secs(60))?, None);"

        fn insert_if_absent(key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Option<V>;
            "assert_eq!(orders.insert_if_absent(\"42\", &7)?, None);"

        fn replace(key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Option<V>;
            "assert_eq!(orders.replace(\"42\", &7)?, None);"

        fn compare_and_set(key: &(impl Encode<K, KC> + ?Sized), old: &V, new: &V) -> bool;
            "assert!(!orders.compare_and_set(\"42\", &7, &8)?);"

        fn remove(key: &(impl Encode<K, KC> + ?Sized)) -> Option<V>;
            "assert_eq!(orders.remove(\"42\")?, None);"

        fn remove_if(key: &(impl Encode<K, KC> + ?Sized), value: &V) -> bool;
            "assert!(!orders.remove_if(\"42\", &7)?);"

        fn add(key: &(impl Encode<K, KC> + ?Sized), number: i64) -> i64;
            "assert_eq!(orders.add(\"42\", 7)?, 7);"

        fn insert_many(entries: &[(K, V)]) -> ();
            "orders.insert_many(&[(\"42\".to_owned(), 7)])?;"
    }

    makes! {
        fn lock() -> Lock;
        fn fair_lock() -> Lock;
        fn fenced_lock() -> FencedLock;
        fn read_write_lock() -> ReadWriteLock;
        fn semaphore() -> Semaphore;
        fn expirable_semaphore() -> ExpirableSemaphore;
        fn latch() -> Latch;
    }

    plans! {
        fn insertion(value: &V); "orders.lock(&42)?.acquire()?.write([orders.insertion(&42, &7)?])?;"

        fn removal(); "orders.lock(&42)?.acquire()?.write([orders.removal(&42)?])?;"
    }

    /// Does what [`Map::get_or_insert_with`](crate::Map::get_or_insert_with) does, but cannot stop
    /// `compute`.
    ///
    /// # Errors
    ///
    /// Those of the async method, and [`Error::InsideAsync`] if a task of an async runtime calls
    /// this method.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Error;
    /// let orders = leasehold::blocking::Client::in_memory()?.map::<u32, u32>("orders")?;
    /// let total = orders.get_or_insert_with(&42, Duration::from_secs(5), || Ok::<_, Error>(7))?;
    /// assert_eq!(total, 7);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn get_or_insert_with<E: From<Error>>(
        &self,
        key: &(impl Encode<K, KC> + ?Sized),
        timeout: Duration,
        compute: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let guard = match self.core.wait(self.inner.value_or_guard(key, timeout))?? {
            ControlFlow::Break(value) => return Ok(value),
            ControlFlow::Continue(guard) => Guard::new(guard, &self.core, ()),
        };
        let computed = guard.run(|held| {
            let value = compute()?;
            Ok(self.core.wait(self.inner.insert_under(held, key, value))??)
        });
        computed.into_result()?
    }

    /// Does what [`Map::stream`](crate::Map::stream) does.
    ///
    /// # Examples
    ///
    /// ```
    /// let orders = leasehold::blocking::Client::in_memory()?.map::<u32, u32>("orders")?;
    /// let mut entries = orders.stream();
    /// while let Some((order, total)) = entries.next()? {
    ///     println!("{order}: {total}");
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn stream(&self) -> MapStream<K, V, KC, VC> {
        MapStream { core: Arc::clone(&self.core), inner: self.inner.stream() }
    }
}

/// A [`MapStream`](crate::MapStream) for threads.
///
/// # Examples
///
/// ```
/// let orders = leasehold::blocking::Client::in_memory()?.map::<u32, u32>("orders")?;
/// assert_eq!(orders.stream().next()?, None);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "it reads nothing until its next entry is asked for"]
pub struct MapStream<K, V, KC = Text, VC = Text> {
    core: Arc<Core>,
    inner: primitives::MapStream<K, V, KC, VC>,
}

shows! { MapStream<K, V; KC, VC> }

impl<K, V, KC: Codec<K>, VC: Codec<V>> MapStream<K, V, KC, VC> {
    /// Blocks until [`MapStream::next`](crate::MapStream::next) returns, and returns its result.
    ///
    /// # Errors
    ///
    /// Those of the async method, and [`Error::InsideAsync`] if a task of an async runtime calls
    /// this method.
    ///
    /// # Examples
    ///
    /// ```
    /// let orders = leasehold::blocking::Client::in_memory()?.map::<u32, u32>("orders")?;
    /// assert_eq!(orders.stream().next()?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[expect(clippy::should_implement_trait, reason = "it fails, and goes on after a failure")]
    pub fn next(&mut self) -> Result<Option<(K, V)>> {
        self.core.wait(self.inner.next())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::Client;

    #[test]
    fn blocking_map_returns_the_async_error_for_a_zero_timeout() {
        let client = Client::in_memory().unwrap();
        let orders = client.map::<u32, u32>("orders").unwrap();
        orders.insert(&42, &7).unwrap();
        let task = orders.inner.get_or_insert_with(&42, Duration::ZERO, || async { Ok(8) });
        let task: Error = orders.core.wait(task).unwrap().unwrap_err();
        let thread: Error = orders.get_or_insert_with(&42, Duration::ZERO, || Ok(8)).unwrap_err();
        assert_eq!(thread.to_string(), task.to_string());
    }
}
