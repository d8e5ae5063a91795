//! The queue, for threads.

use std::{borrow::Borrow, fmt, sync::Arc, time::Duration};

use super::{
    face::{ends, loses, returns, sets, shares, waits},
    waiting::Core,
};
use crate::{
    LostReason, Name, Owner, Release, Replicas, WaitStrategy,
    codec::{Codec, Encode, Text},
    error::Result,
    primitives::{self, thread_example},
};

/// A [`Queue`](crate::Queue) for threads.
#[doc = thread_example!("let jobs = client.queue::<String>(\"jobs\")?;":
    "jobs.push(\"resize 1.png\")?;",
    "let claim = jobs.claim()?;",
    "println!(\"{}\", claim.value()); // … the work …",
    "claim.done()?.into_result()?;")]
pub struct Queue<T, C = Text> {
    core: Arc<Core>,
    inner: primitives::Queue<T, C>,
}

shares! { Queue<T; C> }

impl<T> Queue<T> {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Queue<T>) -> Self {
        Self { core, inner }
    }
}

impl<T, C> Queue<T, C> {
    /// Does what [`Queue::codec`](crate::Queue::codec) does.
    #[doc = thread_example!("let images = client.queue::<Vec<u8>>(\"images\")?;":
        "let images = images.codec(leasehold::codec::Bytes);",
        "images.push(&vec![0xff, 0xd8])?;")]
    #[must_use]
    pub fn codec<D>(self, codec: D) -> Queue<T, D> {
        Queue { core: self.core, inner: self.inner.codec(codec) }
    }

    sets! { Queue, "let jobs = client.queue::<String>(\"jobs\")?;":
        fn ttl(ttl: Duration); "let jobs = jobs.ttl(Duration::from_secs(10));"

        fn max_hold(most: Duration); "let jobs = jobs.max_hold(Duration::from_secs(3600));"

        fn wait_strategy(wait_strategy: WaitStrategy);
            "let jobs = jobs.wait_strategy(leasehold::WaitStrategy::PubSub);"

        fn replicated(replicas: impl Into<Option<Replicas>>);
            "let jobs = jobs.replicated(leasehold::Replicas::at_least(1));"
    }

    returns! { Queue, "let jobs = client.queue::<String>(\"jobs\")?;":
        fn name() -> &Name; "assert_eq!(jobs.name().as_str(), \"jobs\");"
    }

    waits! { Queue, "let jobs = client.queue::<String>(\"jobs\")?;":
        fn len() -> u64; "assert_eq!(jobs.len()?, 0);"

        fn is_empty() -> bool; "assert!(jobs.is_empty()?);"

        fn claimed() -> u64; "assert_eq!(jobs.claimed()?, 0);"
    }
}

impl<T, C: Codec<T>> Queue<T, C> {
    fn guard(&self, inner: primitives::Claim<T>) -> Claim<T> {
        Claim { inner, core: Arc::clone(&self.core) }
    }

    waits! { Queue, "let jobs = client.queue::<String>(\"jobs\")?; jobs.push(\"a\")?;":
        fn push(value: &(impl Encode<T, C> + ?Sized)) -> u64; "assert_eq!(jobs.push(\"b\")?, 2);"

        fn push_all(values: impl IntoIterator<Item = impl Borrow<T>>) -> u64;
            "assert_eq!(jobs.push_all([\"b\", \"c\"].map(str::to_owned))?, 3);"

        fn claim() -> Claim<T>, guard; "assert_eq!(jobs.claim()?.value(), \"a\");"

        fn claim_within(timeout: Duration) -> Claim<T>, guard;
            "assert_eq!(jobs.claim_within(Duration::from_secs(5))?.value(), \"a\");"

        fn try_claim() -> Option<Claim<T>> => guard; "assert!(jobs.try_claim()?.is_some());"

        fn pop() -> Option<T>; "assert_eq!(jobs.pop()?.as_deref(), Some(\"a\"));"
    }
}

/// A [`Claim`](crate::Claim) for threads. It can move to another thread. During long work, check
/// [`is_held`](Self::is_held).
#[doc = thread_example!("let jobs = client.queue::<String>(\"jobs\")?;":
    "jobs.push(\"a\")?;",
    "jobs.claim()?.done()?.into_result()?;")]
#[derive(Debug)]
#[must_use = "the element goes back to the queue as soon as the claim is dropped"]
pub struct Claim<T> {
    // This field must come before `core`, so that Rust drops it first. Its drop starts the release,
    // which the runtime thread still completes after the drop of the last `core`.
    inner: primitives::Claim<T>,
    core: Arc<Core>,
}

impl<T> Claim<T> {
    ends! { Claim, "let jobs = client.queue::<String>(\"jobs\")?; jobs.push(\"a\")?;",
        "gives the element back":
        fn done(); "assert_eq!(jobs.claim()?.done()?, leasehold::Release::Released);"

        fn give_back(); "assert_eq!(jobs.claim()?.give_back()?, leasehold::Release::Released);"
    }

    loses! { Claim, "let jobs = client.queue::<String>(\"jobs\")?; jobs.push(\"a\")?;":
        fn lost() -> LostReason;
            "let claim = jobs.max_hold(Duration::from_millis(50)).claim()?;"
            "assert_eq!(claim.lost()?, leasehold::LostReason::MaxHold);"
    }

    returns! { Claim, "let jobs = client.queue::<String>(\"jobs\")?; jobs.push(\"a\")?;":
        fn value() -> &T; "assert_eq!(jobs.claim()?.value(), \"a\");"

        fn is_held() -> bool; "assert!(jobs.claim()?.is_held());"

        fn owner() -> &Owner; "println!(\"{}\", jobs.claim()?.owner());"

        fn name() -> &Name; "assert_eq!(jobs.claim()?.name().as_str(), \"jobs\");"
    }
}
