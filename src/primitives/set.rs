//! The set: elements that all clients share, with a lock for each.

use std::{fmt, marker::PhantomData, sync::Arc};

use super::{
    Lock,
    coded::{decode, encode, too_long},
    example,
    keyed::Keyed,
    pages::Pages,
};
use crate::{
    codec::{Codec, Text},
    domain::Name,
    engine::Engine,
    error::{Error, Result},
    store::{
        map::{Changed, Cursor},
        set::{self, Change},
    },
};

/// How many elements one change may have.
const MOST: u32 = 4_000;

/// Elements that all clients share, each at most once, with a lock for each.
///
/// A `Set` is a name: creating one costs nothing and sends no request. Java's Redisson knows it as
/// the `RSet` of the same name. The [codec](crate::codec) has to be that of Java. The default is
/// [`Text`].
///
/// A change that is retried after a lost reply takes effect once, and its reply is that of the
/// first request. An element has at most 100,000 bytes. An `RSetCache` cannot be shared.
#[doc = example!(seen:
    "let message = \"42\".to_owned();",
    "assert!(seen.insert(&message).await?);",
    "assert!(!seen.insert(&message).await?); // it was processed before")]
pub struct Set<T, C = Text> {
    keyed: Keyed,
    codec: C,
    of: PhantomData<fn() -> T>,
}

impl<T, C: Clone> Clone for Set<T, C> {
    fn clone(&self) -> Self {
        Self { keyed: self.keyed.clone(), codec: self.codec.clone(), of: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Set<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Set");
        shown.field("name", &self.keyed.name).field("codec", &self.codec).finish_non_exhaustive()
    }
}

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
        "seen.insert(&\"42\".to_owned()).await?;")]
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

/// Reading.
impl<T, C: Codec<T>> Set<T, C> {
    /// Returns whether the element is there.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the element, or cannot read one.
    /// [`Error::ValueTooLong`] if it is too long. [`Error::Unavailable`] if the store did not answer
    /// within the [request timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`],
    /// [`Error::Forbidden`], [`Error::Refused`] and [`Error::WrongType`] as the store says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(seen: "assert!(!seen.contains(&\"42\".to_owned()).await?);")]
    pub async fn contains(&self, element: &T) -> Result<bool> {
        let (name, element) = (self.name(), &self.bytes(element)?[..]);
        self.engine().ask(name, |store| set::contains(store, name, element)).await
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    ///
    /// As [`contains`](Self::contains).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(seen: "assert_eq!(seen.len().await?, 0);")]
    pub async fn len(&self) -> Result<u64> {
        let name = self.name();
        self.engine().ask(name, |store| set::len(store, name)).await
    }

    /// Returns whether there are no elements.
    ///
    /// # Errors
    ///
    /// As [`contains`](Self::contains).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(seen: "assert!(seen.is_empty().await?);")]
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the elements one by one, a page for each request.
    ///
    /// Each element that exists during the whole time is returned at least once. An element **may
    /// be returned twice**, and one that is inserted or removed meanwhile may be returned or not.
    #[doc = example!(seen:
        "let mut elements = seen.stream();",
        "while let Some(element) = elements.next().await? {",
        "    println!(\"{element}\");",
        "}")]
    pub fn stream(&self) -> SetStream<T, C> {
        SetStream { set: self.clone(), pages: Pages::new() }
    }

    /// Returns all elements, each once, in any order.
    ///
    /// # Errors
    ///
    /// As [`contains`](Self::contains).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(seen:
        "seen.insert(&\"42\".to_owned()).await?;",
        "assert_eq!(seen.members().await?, [\"42\"]);")]
    pub async fn members(&self) -> Result<Vec<T>> {
        let (mut stream, mut members) = (self.stream(), std::collections::BTreeSet::new());
        while let Some(bytes) = stream.next_bytes().await? {
            members.insert(bytes);
        }
        members.iter().map(|bytes| decode(self.name(), &self.codec, bytes)).collect()
    }
}

/// Changing.
impl<T, C: Codec<T>> Set<T, C> {
    /// Adds an element, and returns whether it is new.
    ///
    /// # Errors
    ///
    /// As [`contains`](Self::contains). After [`Error::Unavailable`] it may have happened.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(seen: "assert!(seen.insert(&\"42\".to_owned()).await?);")]
    pub async fn insert(&self, element: &T) -> Result<bool> {
        self.change(Change::Insert, &[self.bytes(element)?]).await
    }

    /// Adds all elements if none of them is there, and returns whether it did: `RSet.tryAdd` of
    /// Redisson.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), and [`Error::TooMany`] for more than 4,000 elements.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
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

    /// Removes an element, and returns whether it was there.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Cancel safety
    ///
    /// After dropping the future it may have happened or not.
    #[doc = example!(seen: "assert!(!seen.remove(&\"42\".to_owned()).await?);")]
    pub async fn remove(&self, element: &T) -> Result<bool> {
        self.change(Change::Remove, &[self.bytes(element)?]).await
    }

    /// Removes any element, and returns it. `None` if the set is empty.
    ///
    /// **If this process ends before it has used the element, the element is lost.**
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). An element that cannot be read is removed, too.
    ///
    /// # Cancel safety
    ///
    /// After dropping the future, an element may be removed and lost.
    #[doc = example!(seen:
        "seen.insert(&\"42\".to_owned()).await?;",
        "assert_eq!(seen.pop().await?.as_deref(), Some(\"42\"));",
        "assert_eq!(seen.pop().await?, None);")]
    pub async fn pop(&self) -> Result<Option<T>> {
        let (name, receipt) = (self.name(), &self.engine().receipt());
        match self.engine().change(name, |store| set::pop(store, name, receipt)).await? {
            Changed::No => Ok(None),
            Changed::Yes(bytes) => decode(name, &self.codec, &bytes).map(Some),
            Changed::TooLong => Err(too_long(name)),
        }
    }

    /// Returns the lock of an element: `RSet.getLock` of Redisson. Sends no request.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the element, and [`Error::Name`] if the name of the
    /// set is so long that the name of the lock is invalid.
    #[doc = example!(seen: "let guard = seen.lock(&\"42\".to_owned())?.acquire().await?;")]
    pub fn lock(&self, element: &T) -> Result<Lock> {
        self.keyed.lock(&self.bytes(element)?)
    }

    fn bytes(&self, element: &T) -> Result<Vec<u8>> {
        encode(self.name(), &self.codec, element)
    }

    async fn change(&self, change: Change, elements: &[Vec<u8>]) -> Result<bool> {
        let (name, receipt) = (self.name(), &self.engine().receipt());
        let ask = |store| set::change(store, name, change, elements, receipt);
        self.engine().change(name, ask).await
    }
}

/// The elements of a [`Set`], one by one: see [`Set::stream`]. It is not a `futures::Stream`: call
/// [`next`](Self::next).
#[doc = example!(seen:
    "let mut elements = seen.stream();",
    "assert_eq!(elements.next().await?, None);")]
#[must_use = "it reads nothing until its next element is asked for"]
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
    /// Returns the next element. `None` after the last one.
    ///
    /// # Errors
    ///
    /// As [`Set::contains`]. The next call continues after an element that cannot be read.
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
        let page =
            async |cursor: Cursor| engine.ask(name, |store| set::scan(store, name, &cursor)).await;
        pages.next(name, page).await
    }
}
