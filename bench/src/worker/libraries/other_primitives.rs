//! The primitives of Leasehold other than locks, each used like a lock.

use std::{fmt, future::Future, marker::PhantomData, time::Duration};

use leasehold::{
    Claim, Client, ExpirablePermits, FencedGuard, Leadership, LockGuard, MultiGuard, RatePermits,
    Release, SemaphoreGuard,
};

use super::{Library, Outcome};

/// A kind of object that is used like a lock.
pub(crate) trait Kind: fmt::Debug + Send + Sync + 'static {
    /// A hold, which can be released.
    type Held: Send + 'static;

    fn acquire(client: &Client, name: &str) -> impl Future<Output = Outcome<Self::Held>> + Send;

    fn release(held: Self::Held) -> impl Future<Output = Outcome<Release>> + Send;

    /// Acquires an object that is renewed after each third of `ttl`.
    fn hold(
        _client: &Client,
        _name: &str,
        _ttl: Duration,
    ) -> impl Future<Output = Outcome<Self::Held>> + Send {
        async { Err("nobody measures that".into()) }
    }
}

/// A client that uses objects of only one kind.
#[derive(Debug)]
pub(crate) struct Only<K>(Client, PhantomData<K>);

impl<K> Clone for Only<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<K: Kind> Library for Only<K> {
    type Held = K::Held;

    async fn connect(url: &str) -> Outcome<Self> {
        Ok(Self(Client::connect(url).await?, PhantomData))
    }

    async fn acquire(&self, name: &str) -> Outcome<K::Held> {
        K::acquire(&self.0, name).await
    }

    async fn release(&self, held: K::Held) -> Outcome<()> {
        match K::release(held).await? {
            Release::Released => Ok(()),
            other => Err(format!("a release found {other:?}").into()),
        }
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<K::Held> {
        K::hold(&self.0, name, ttl).await
    }

    fn lag(&self) -> Option<Duration> {
        Some(self.0.stats().renewal_lag_max)
    }
}

#[derive(Debug)]
pub(crate) struct Reading;

impl Kind for Reading {
    type Held = LockGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<LockGuard> {
        Ok(client.read_write_lock(name)?.read().acquire().await?)
    }

    async fn release(held: LockGuard) -> Outcome<Release> {
        Ok(held.release().await?)
    }
}

#[derive(Debug)]
pub(crate) struct Fenced;

impl Kind for Fenced {
    type Held = FencedGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<FencedGuard> {
        Ok(client.fenced_lock(name)?.acquire().await?)
    }

    async fn release(held: FencedGuard) -> Outcome<Release> {
        Ok(held.release().await?)
    }
}

#[derive(Debug)]
pub(crate) struct OfSemaphore;

impl Kind for OfSemaphore {
    type Held = SemaphoreGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<SemaphoreGuard> {
        Ok(client.semaphore(name)?.acquire(1).await?)
    }

    async fn release(held: SemaphoreGuard) -> Outcome<Release> {
        Ok(held.release().await?)
    }
}

#[derive(Debug)]
pub(crate) struct OfPermits;

impl Kind for OfPermits {
    type Held = ExpirablePermits;

    async fn acquire(client: &Client, name: &str) -> Outcome<ExpirablePermits> {
        Ok(client.expirable_semaphore(name)?.acquire().await?)
    }

    async fn release(held: ExpirablePermits) -> Outcome<Release> {
        Ok(held.release().await?)
    }

    /// Names with the same prefix become one name, because this job renews many permits of one
    /// semaphore.
    async fn hold(client: &Client, name: &str, ttl: Duration) -> Outcome<ExpirablePermits> {
        let (prefix, _) = name.rsplit_once('-').ok_or("a name has a number")?;
        Ok(client.expirable_semaphore(prefix)?.ttl(ttl).acquire().await?)
    }
}

/// A rate limiter. There is nothing to release, because permits come back after the interval.
#[derive(Debug)]
pub(crate) struct OfLimiter;

impl Kind for OfLimiter {
    type Held = RatePermits;

    async fn acquire(client: &Client, name: &str) -> Outcome<RatePermits> {
        Ok(client.rate_limiter(name)?.acquire(1).await?)
    }

    async fn release(_: RatePermits) -> Outcome<Release> {
        Ok(Release::Released)
    }
}

#[derive(Debug)]
pub(crate) struct Fair;

impl Kind for Fair {
    type Held = LockGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<LockGuard> {
        Ok(client.fair_lock(name)?.acquire().await?)
    }

    async fn release(held: LockGuard) -> Outcome<Release> {
        Ok(held.release().await?)
    }
}

/// Two locks that are held together.
#[derive(Debug)]
pub(crate) struct Multi;

impl Kind for Multi {
    type Held = MultiGuard;

    async fn acquire(client: &Client, name: &str) -> Outcome<MultiGuard> {
        let members = ["a", "b"].map(|member| format!("{name}-{member}"));
        Ok(client.multi_lock(members)?.acquire().await?)
    }

    async fn release(held: MultiGuard) -> Outcome<Release> {
        held.release().await.into_result()?;
        Ok(Release::Released)
    }
}

#[derive(Debug)]
pub(crate) struct Candidate;

impl Kind for Candidate {
    type Held = Leadership;

    async fn acquire(client: &Client, name: &str) -> Outcome<Leadership> {
        Ok(client.election(name)?.campaign("10.0.0.1:8080").await?)
    }

    async fn release(held: Leadership) -> Outcome<Release> {
        Ok(held.step_down().await?)
    }

    async fn hold(client: &Client, name: &str, ttl: Duration) -> Outcome<Leadership> {
        Ok(client.election(name)?.ttl(ttl).campaign("10.0.0.1:8080").await?)
    }
}

/// A map. Acquiring inserts an entry, and releasing reads this entry.
#[derive(Debug)]
pub(crate) struct OfMap;

impl Kind for OfMap {
    type Held = leasehold::Map<String, String>;

    async fn acquire(client: &Client, name: &str) -> Outcome<Self::Held> {
        let map = client.map(name)?;
        map.insert(&"key".to_owned(), &"value".to_owned()).await?;
        Ok(map)
    }

    async fn release(map: Self::Held) -> Outcome<Release> {
        map.get(&"key".to_owned()).await?;
        Ok(Release::Released)
    }
}

/// A set. Acquiring inserts an element, and releasing removes this element.
#[derive(Debug)]
pub(crate) struct OfSet;

impl Kind for OfSet {
    type Held = leasehold::Set<String>;

    async fn acquire(client: &Client, name: &str) -> Outcome<Self::Held> {
        let set = client.set(name)?;
        set.insert(&"element".to_owned()).await?;
        Ok(set)
    }

    async fn release(set: Self::Held) -> Outcome<Release> {
        set.remove(&"element".to_owned()).await?;
        Ok(Release::Released)
    }
}

/// A queue. Acquiring pushes an element and claims one. Releasing reports the claimed element as
/// done.
#[derive(Debug)]
pub(crate) struct OfQueue;

impl Kind for OfQueue {
    type Held = Claim<String>;

    async fn acquire(client: &Client, name: &str) -> Outcome<Claim<String>> {
        let queue = client.queue(name)?;
        queue.push(&"element".to_owned()).await?;
        Ok(queue.claim().await?)
    }

    async fn release(held: Claim<String>) -> Outcome<Release> {
        Ok(held.done().await?)
    }
}
