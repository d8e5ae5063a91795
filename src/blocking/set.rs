//! The set, for threads.

use std::{fmt, sync::Arc};

use super::{
    Lock,
    face::{returns, shares, shows, waits},
    waiting::Core,
};
use crate::{
    Name,
    codec::{Codec, Encode, Text},
    error::Result,
    primitives,
};

/// A [`Set`](crate::Set) for threads.
///
/// # Examples
///
/// ```
/// let seen = leasehold::blocking::Client::in_memory()?.set::<u32>("seen")?;
/// assert!(seen.insert(&42)?);
/// assert!(!seen.insert(&42)?);
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct Set<T, C = Text> {
    core: Arc<Core>,
    inner: primitives::Set<T, C>,
}

shares! { Set<T; C> }

impl<T, C> Set<T, C> {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Set<T, C>) -> Self {
        Self { core, inner }
    }

    /// Does what [`Set::codec`](crate::Set::codec) does.
    ///
    /// # Examples
    ///
    /// ```
    /// let seen = leasehold::blocking::Client::in_memory()?.set::<String>("seen")?;
    /// let seen = seen.codec(leasehold::codec::Kryo5Text);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn codec<N>(self, codec: N) -> Set<T, N> {
        Set { core: self.core, inner: self.inner.codec(codec) }
    }

    returns! { Set, "let seen = client.set::<String>(\"seen\")?;":
        fn name() -> &Name; "assert_eq!(seen.name().as_str(), \"seen\");"
    }
}

impl<T, C: Codec<T>> Set<T, C> {
    waits! { Set, "let seen = client.set::<u32>(\"seen\")?;":
        fn contains(element: &(impl Encode<T, C> + ?Sized)) -> bool;
            "assert!(!seen.contains(&42)?);"

        fn len() -> u64; "assert_eq!(seen.len()?, 0);"

        fn is_empty() -> bool; "assert!(seen.is_empty()?);"

        fn members() -> Vec<T>; "assert!(seen.members()?.is_empty());"

        fn insert(element: &(impl Encode<T, C> + ?Sized)) -> bool;
            "assert!(seen.insert(&42)?);"

        fn insert_all_if_none(elements: &[T]) -> bool;
            "assert!(seen.insert_all_if_none(&[42, 43])?);"

        fn remove(element: &(impl Encode<T, C> + ?Sized)) -> bool;
            "assert!(!seen.remove(&42)?);"

        fn pop() -> Option<T>; "assert_eq!(seen.pop()?, None);"
    }

    /// Does what [`Set::lock`](crate::Set::lock) does.
    ///
    /// # Errors
    ///
    /// Those of the async method.
    ///
    /// # Examples
    ///
    /// ```
    /// let seen = leasehold::blocking::Client::in_memory()?.set::<u32>("seen")?;
    /// let guard = seen.lock(&42)?.acquire()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lock(&self, element: &(impl Encode<T, C> + ?Sized)) -> Result<Lock> {
        Ok(Lock::new(Arc::clone(&self.core), self.inner.lock(element)?))
    }

    /// Does what [`Set::stream`](crate::Set::stream) does.
    ///
    /// # Examples
    ///
    /// ```
    /// let seen = leasehold::blocking::Client::in_memory()?.set::<u32>("seen")?;
    /// assert_eq!(seen.stream().next()?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn stream(&self) -> SetStream<T, C> {
        SetStream { core: Arc::clone(&self.core), inner: self.inner.stream() }
    }
}

/// A [`SetStream`](crate::SetStream) for threads.
///
/// # Examples
///
/// ```
/// let seen = leasehold::blocking::Client::in_memory()?.set::<u32>("seen")?;
/// assert_eq!(seen.stream().next()?, None);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "it reads nothing until its next element is asked for"]
pub struct SetStream<T, C = Text> {
    core: Arc<Core>,
    inner: primitives::SetStream<T, C>,
}

shows! { SetStream<T; C> }

impl<T, C: Codec<T>> SetStream<T, C> {
    /// Blocks until [`SetStream::next`](crate::SetStream::next) returns, and returns its result.
    ///
    /// # Errors
    ///
    /// Those of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if a task
    /// of an async runtime calls this method.
    ///
    /// # Examples
    ///
    /// ```
    /// let seen = leasehold::blocking::Client::in_memory()?.set::<u32>("seen")?;
    /// assert_eq!(seen.stream().next()?, None);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[expect(clippy::should_implement_trait, reason = "it fails, and goes on after a failure")]
    pub fn next(&mut self) -> Result<Option<T>> {
        self.core.wait(self.inner.next())?
    }
}
