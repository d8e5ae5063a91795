//! The map, for threads.

use std::{fmt, ops::ControlFlow, sync::Arc, time::Duration};

use super::{
    ExpirableSemaphore, FencedLock, Guard, Latch, Lock, ReadWriteLock, Semaphore,
    face::{makes, nexts, returns, sets, shares, streams, waits},
    waiting::Core,
};
use crate::{
    Name, RunOutcome, Write,
    codec::{Codec, Encode, Text},
    error::{Error, Result},
    primitives::{self, thread_example},
};

/// A [`Map`](crate::Map) for threads.
#[doc = thread_example!("let orders = client.map::<String, u32>(\"orders\")?;":
    "let guard = orders.lock(\"42\")?.acquire()?;",
    "guard.write([orders.insertion(\"42\", &7)?])?;",
    "assert_eq!(orders.get(\"42\")?, Some(7));")]
pub struct Map<K, V, KC = Text, VC = Text> {
    core: Arc<Core>,
    inner: primitives::Map<K, V, KC, VC>,
}

shares! { Map<K, V; KC, VC> }

impl<K, V, KC, VC> Map<K, V, KC, VC> {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Map<K, V, KC, VC>) -> Self {
        Self { core, inner }
    }

    sets! { Map, "let orders = client.map::<String, i64>(\"orders\")?;":
        fn codec<C: Clone>(codec: C) -> Map<K, V, C, C>;
            "let orders = orders.codec(leasehold::codec::Kryo5Text);"

        fn codecs<NK, NV>(keys: NK, values: NV) -> Map<K, V, NK, NV>;
            "use leasehold::codec::{Kryo5Text, Text};"
            "let orders = orders.codecs(Text, Kryo5Text);"
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

    makes! { Map, "let orders = client.map::<String, u32>(\"orders\")?;":
        fn lock(key: &(impl Encode<K, KC> + ?Sized)) -> Lock, new;
            "let guard = orders.lock(\"42\")?.acquire()?;"

        fn fair_lock(key: &(impl Encode<K, KC> + ?Sized)) -> Lock, new;
            "let guard = orders.fair_lock(\"42\")?.acquire()?;"

        fn fenced_lock(key: &(impl Encode<K, KC> + ?Sized)) -> FencedLock, new;
            "let guard = orders.fenced_lock(\"42\")?.acquire()?;"

        fn read_write_lock(key: &(impl Encode<K, KC> + ?Sized)) -> ReadWriteLock, new;
            "let guard = orders.read_write_lock(\"42\")?.read().acquire()?;"

        fn semaphore(key: &(impl Encode<K, KC> + ?Sized)) -> Semaphore, new;
            "orders.semaphore(\"42\")?.set_if_absent(3)?;"

        fn expirable_semaphore(key: &(impl Encode<K, KC> + ?Sized)) -> ExpirableSemaphore, new;
            "orders.expirable_semaphore(\"42\")?.set_if_absent(3)?;"

        fn latch(key: &(impl Encode<K, KC> + ?Sized)) -> Latch, new;
            "orders.latch(\"42\")?.set(1)?;"

        fn insertion(key: &(impl Encode<K, KC> + ?Sized), value: &V) -> Write;
            "orders.lock(\"42\")?.acquire()?.write([orders.insertion(\"42\", &7)?])?;"

        fn removal(key: &(impl Encode<K, KC> + ?Sized)) -> Write;
            "orders.lock(\"42\")?.acquire()?.write([orders.removal(\"42\")?])?;"
    }

    /// Does what [`Map::get_or_insert_with`](crate::Map::get_or_insert_with) does, but a
    /// loss does not stop `compute`.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`] if a task of an async runtime
    /// calls this method.
    #[doc = thread_example!("let orders = client.map::<u32, u32>(\"orders\")?;":
        "use leasehold::Error;",
        "let total = orders.get_or_insert_with(&42, Duration::from_secs(5), || Ok::<_, Error>(7))?;",
        "assert_eq!(total, 7);")]
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
        match computed {
            RunOutcome::CompletedAfterLoss { value, .. } => value,
            outcome => outcome.into_result()?,
        }
    }

    streams! { Map, "let orders = client.map::<u32, u32>(\"orders\")?;":
        fn stream() -> MapStream<K, V, KC, VC>;
            "let mut entries = orders.stream();"
            "while let Some((order, total)) = entries.next()? {"
            "    println!(\"{order}: {total}\");"
            "}"
    }
}

streams! { MapStream<K: KC, V: VC>, "let orders = client.map::<u32, u32>(\"orders\")?;";
    "assert_eq!(orders.stream().next()?, None);"
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> MapStream<K, V, KC, VC> {
    nexts! { MapStream, "let orders = client.map::<u32, u32>(\"orders\")?;":
        fn next() -> (K, V); "assert_eq!(orders.stream().next()?, None);"
    }
}
