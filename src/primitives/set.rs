//! The set: elements that all clients share, with a lock for each element.

use std::{fmt, marker::PhantomData, sync::Arc};

use super::{
    Lock,
    coded::{self, decode, encode, too_long},
    example,
    keyed::Keyed,
    like,
    pages::Pages,
};
use crate::{
    codec::{Codec, Encode, Text},
    domain::Name,
    engine::Engine,
    error::{Error, Result},
    store::{
        data::{Changed, Cursor},
        set::{self, Change},
    },
};

/// The maximum number of elements in one change.
const MOST: u32 = 4_000;

/// Distinct elements that all clients share, with a lock for each element.
///
/// A `Set` contains a name and a codec, so creating a `Set` sends no request. In Redisson, a `Set`
/// is the `RSet` of the same name. If Java uses the set, too, set the [codec](crate::codec) that
/// Java uses. The default is [`Text`].
///
/// If the client retries a change after a lost reply, the store makes the change only once, and
/// repeats its first reply. An element has at most 100,000 bytes. A `Set` cannot share the data of
/// an `RSetCache`.
#[doc = example!(seen:
    "let message = \"42\".to_owned();",
    "assert!(seen.insert(&message).await?);",
    "assert!(!seen.insert(&message).await?); // it was inserted before")]
pub struct Set<T, C = Text> {
    keyed: Keyed,
    codec: C,
    of: PhantomData<fn() -> T>,
}

coded::traits! { Set<T; codec: C>, keyed }

impl<T> Set<T> {
    pub(crate) fn new(keyed: Keyed) -> Self {
        Self { keyed, codec: Text, of: PhantomData }
    }
}

/// Settings.
impl<T, C> Set<T, C> {
    /// Sets the codec of the elements.
    #[doc = example!(seen:
        "let seen = seen.codec(leasehold::codec::Kryo5Text);",
        "seen.insert(\"42\").await?;")]
    #[must_use]
    pub fn codec<N>(self, codec: N) -> Set<T, N> {
        Set { keyed: self.keyed, codec, of: PhantomData }
    }

    /// Returns the name of the set.
    #[doc = example!(seen: "assert_eq!(seen.name().as_str(), \"seen\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.keyed.name
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.keyed.engine
    }
}

/// Methods that read elements.
impl<T, C: Codec<T>> Set<T, C> {
    /// Returns whether the set contains `element`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write `element`, or cannot read an element of the set.
    /// [`Error::ValueTooLong`] if an element is too long. [`Error::Unavailable`] if the store did
    /// not reply within the [request timeout](crate::ClientBuilder::request_timeout).
    /// [`Error::NotReady`], [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] if
    /// the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(seen: "assert!(!seen.contains(\"42\").await?);")]
    pub async fn contains(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<bool> {
        let (name, element) = (self.name(), &self.bytes(element)?[..]);
        self.engine().ask(name, |store| set::contains(store, name, element)).await
    }

    /// Returns the number of elements.
    #[doc = like!(read "contains")]
    #[doc = example!(seen: "assert_eq!(seen.len().await?, 0);")]
    pub async fn len(&self) -> Result<u64> {
        let name = self.name();
        self.engine().ask(name, |store| set::len(store, name)).await
    }

    /// Returns whether the set is empty.
    #[doc = like!(read "contains")]
    #[doc = example!(seen: "assert!(seen.is_empty().await?);")]
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the elements one by one. Each request reads a page of elements.
    ///
    /// An element that exists from the first request to the last one is returned at least once, and
    /// **may be returned twice**. An element that is inserted or removed in between may or may not
    /// be returned. After a failover, a restart of the server or a slot migration in between,
    /// elements may be missing.
    #[doc = example!(seen:
        "let mut elements = seen.stream();",
        "while let Some(element) = elements.next().await? {",
        "    println!(\"{element}\");",
        "}")]
    pub fn stream(&self) -> SetStream<T, C> {
        SetStream { set: self.clone(), pages: Pages::new() }
    }

    /// Returns all elements, each of them once, in any order. Reads them as [`stream`](Self::stream)
    /// does.
    #[doc = like!(read "contains")]
    #[doc = example!(seen:
        "seen.insert(\"42\").await?;",
        "assert_eq!(seen.members().await?, [\"42\"]);")]
    pub async fn members(&self) -> Result<Vec<T>> {
        let (mut stream, mut members) = (self.stream(), std::collections::BTreeSet::new());
        while let Some(bytes) = stream.next_bytes().await? {
            members.insert(bytes);
        }
        members.iter().map(|bytes| decode(self.name(), &self.codec, bytes)).collect()
    }
}

/// Methods that change elements.
impl<T, C: Codec<T>> Set<T, C> {
    /// Adds `element`, and returns whether it was new in the set.
    #[doc = like!(change "contains" and "After [`Error::Unavailable`], the change may have \
        happened.")]
    #[doc = example!(seen: "assert!(seen.insert(\"42\").await?);")]
    pub async fn insert(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<bool> {
        self.change(Change::Insert, &[self.bytes(element)?]).await
    }

    /// Adds all `elements` if the set contains none of them, like Redisson's `RSet.tryAdd`. Returns
    /// `true` if this call has added the elements.
    #[doc = like!(change "insert" and "[`Error::TooMany`] if there are more than 4,000 elements.")]
    #[doc = example!(seen:
        "let (one, other) = (\"1\".to_owned(), \"2\".to_owned());",
        "seen.insert(&one).await?;",
        "assert!(!seen.insert_all_if_none(&[other.clone(), one]).await?);",
        "assert!(!seen.contains(&other).await?);")]
    pub async fn insert_all_if_none(&self, elements: &[T]) -> Result<bool> {
        let elements: Vec<_> =
            elements.iter().map(|element| self.bytes(element)).collect::<Result<_>>()?;
        match elements.len() {
            0 => Ok(true),
            count if count > MOST as usize => {
                Err(Error::TooMany { name: self.name().clone(), most: MOST })
            }
            _ => self.change(Change::InsertAllIfNone, &elements).await,
        }
    }

    /// Removes `element`, and returns whether the set contained it.
    #[doc = like!(change "insert")]
    #[doc = example!(seen: "assert!(!seen.remove(\"42\").await?);")]
    pub async fn remove(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<bool> {
        self.change(Change::Remove, &[self.bytes(element)?]).await
    }

    /// Removes and returns any element of the set. Returns `None` if the set is empty.
    ///
    /// **If this process ends before it has used the element, the element is lost.**
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert). If the codec cannot read the element, the element is
    /// removed nevertheless. [`Error::ValueTooLong`] if the element has more than 100,000 bytes.
    /// Such an element stays in the set: remove it by `SREM`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, an element may be removed, and is then lost.
    #[doc = example!(seen:
        "seen.insert(\"42\").await?;",
        "assert_eq!(seen.pop().await?.as_deref(), Some(\"42\"));",
        "assert_eq!(seen.pop().await?, None);")]
    pub async fn pop(&self) -> Result<Option<T>> {
        let (name, receipt) = (self.name(), &self.engine().receipt());
        match self.engine().change(name, |store| set::pop(store, name, receipt)).await? {
            Changed::No => Ok(None),
            Changed::Yes(bytes) => decode(name, &self.codec, &bytes).map(Some),
            Changed::TooLong => Err(too_long(name, "element".to_owned())),
        }
    }

    /// Returns the lock of `element`, without a request. Redisson's `RSet.getLock` returns the same
    /// lock.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the element, and [`Error::Name`] if the name of
    /// the set is so long that the name of the lock is invalid.
    #[doc = example!(seen: "let guard = seen.lock(\"42\")?.acquire().await?;")]
    pub fn lock(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<Lock> {
        self.keyed.lock(&self.bytes(element)?)
    }

    fn bytes(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<Vec<u8>> {
        encode(self.name(), &self.codec, element, "element", None)
    }

    async fn change(&self, change: Change, elements: &[Vec<u8>]) -> Result<bool> {
        let (name, receipt) = (self.name(), &self.engine().receipt());
        let ask = |store| set::change(store, name, change, elements, receipt);
        self.engine().change(name, ask).await
    }
}

/// The elements of a [`Set`], one by one: see [`Set::stream`].
///
/// A `SetStream` is not a `futures::Stream`. To read elements, call [`next`](Self::next).
#[doc = example!(seen:
    "let mut elements = seen.stream();",
    "assert_eq!(elements.next().await?, None);")]
#[must_use = "a stream sends no request until `next` is called"]
pub struct SetStream<T, C = Text> {
    set: Set<T, C>,
    pages: Pages,
}

impl<T, C: fmt::Debug> fmt::Debug for SetStream<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetStream").field("set", &self.set).finish_non_exhaustive()
    }
}

impl<T, C: Codec<T>> SetStream<T, C> {
    /// Returns the next element, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// As for [`Set::contains`]. If an element cannot be read, the next call continues after this
    /// element.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no element.
    #[doc = example!(seen: "assert_eq!(seen.stream().next().await?, None);")]
    pub async fn next(&mut self) -> Result<Option<T>> {
        let Some(bytes) = self.next_bytes().await? else { return Ok(None) };
        decode(self.set.name(), &self.set.codec, &bytes).map(Some)
    }

    async fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        let Self { set, pages } = self;
        let (name, engine) = (set.name(), set.engine());
        let page = |cursor: Cursor| async move {
            engine.ask(name, |store| set::scan(store, name, &cursor)).await
        };
        pages.next(name, page).await
    }
}
