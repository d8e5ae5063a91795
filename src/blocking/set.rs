//! The set, for threads.

use std::{fmt, sync::Arc};

use super::{
    Lock,
    face::{makes, nexts, returns, sets, shares, streams, waits},
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

    sets! { Set, "let seen = client.set::<String>(\"seen\")?;":
        fn codec<N>(codec: N) -> Set<T, N>;
            "let seen = seen.codec(leasehold::codec::Kryo5Text);"
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

    makes! { Set, "let seen = client.set::<u32>(\"seen\")?;":
        fn lock(element: &(impl Encode<T, C> + ?Sized)) -> Lock, new;
            "let guard = seen.lock(&42)?.acquire()?;"
    }

    streams! { Set, "let seen = client.set::<u32>(\"seen\")?;":
        fn stream() -> SetStream<T, C>; "assert_eq!(seen.stream().next()?, None);"
    }
}

streams! { SetStream<T: C>, "let seen = client.set::<u32>(\"seen\")?;";
    "assert_eq!(seen.stream().next()?, None);"
}

impl<T, C: Codec<T>> SetStream<T, C> {
    nexts! { SetStream, "let seen = client.set::<u32>(\"seen\")?;":
        fn next() -> T; "assert_eq!(seen.stream().next()?, None);"
    }
}
