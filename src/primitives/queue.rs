//! The queue: elements in order. One worker at a time can claim an element.

use std::{borrow::Borrow, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use super::{
    Guard, Lock, Release, coded, example, like,
    settings::{Settings, lasts, replicated, setting_example},
    views,
};
use crate::{
    codec::{Codec, Encode, Text},
    domain::{Ending, LostReason, Name, Object, Owner, Replicas, Share, WaitStrategy},
    engine::Engine,
    error::{Error, Result},
    store::queue,
};

/// How many elements one call may push. A longer request would delay the renewals of the client.
const MOST: u32 = 10_000;

/// A queue of elements. If a worker crashes, its element is not lost.
///
/// A `Queue` contains a name, a codec and settings. Creating a `Queue` sends no request. In
/// Redisson, a `Queue` is the `RQueue` or the `RBlockingQueue` of the same name. If Java uses the
/// queue, too, set the [codec](crate::codec) that Java uses. Both languages can push and take
/// elements.
///
/// A worker [claims](Self::claim) an element, works on it, and calls [`done`](Claim::done). Until
/// that call, the element belongs to the claim, which has a lease. If the worker dies, the element
/// goes back to the head of the queue when the lease ends. So **workers process each element at
/// least once**, and some elements twice. Make the work idempotent.
///
/// Java's `poll` and `take` have no claims. If a Java process takes an element and dies, the
/// element is lost.
#[doc = example!(jobs:
    "jobs.push(\"resize 1.png\").await?;",
    "",
    "let claim = jobs.claim().await?;",
    "println!(\"{}\", claim.value()); // … the work …",
    "claim.done().await?.into_result()?;",
    "assert_eq!(jobs.len().await?, 0);")]
pub struct Queue<T, C = Text> {
    lock: Lock<Claimed>,
    codec: C,
    of: PhantomData<fn() -> T>,
}

coded::traits! { Queue<T; codec: C>, lock }

impl<T> Queue<T> {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        let settings = Settings { share: Share::Element(Ending::Back), ..Settings::new(ttl) };
        let lock = Lock { engine, object, settings, kind: PhantomData };
        Self { lock, codec: Text, of: PhantomData }
    }
}

/// Settings. If Redis cannot store the duration of a setting, the first claim returns
/// [`Error::Duration`].
impl<T, C> Queue<T, C> {
    /// Sets the codec of the elements. Default: [`Text`].
    ///
    /// For structs, use `codec::Json`, which needs the feature `serde`.
    #[doc = example!(jobs:
        "use leasehold::codec::Bytes;",
        "let images = client.queue::<Vec<u8>>(\"images\")?.codec(Bytes);",
        "images.push(&vec![0xff, 0xd8]).await?;")]
    #[must_use]
    pub fn codec<D>(self, codec: D) -> Queue<T, D> {
        Queue { lock: self.lock, codec, of: PhantomData }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        Self { lock: self.lock.with(change), ..self }
    }

    lasts!("leasehold::Client", "queue::<String>", "claim", "worker");

    /// Sets how a waiting worker notices a new element. Default: by pub/sub messages, and by
    /// requests at intervals, as [`claim`](Self::claim) describes. With [`WaitStrategy::Polling`],
    /// you set the interval of the requests, and the client does not subscribe to messages.
    #[doc = setting_example!("leasehold::Client", "queue::<String>", ".wait_strategy(leasehold::WaitStrategy::PubSub)")]
    #[must_use]
    pub fn wait_strategy(self, wait_strategy: WaitStrategy) -> Self {
        self.with(|settings| settings.wait_strategy = wait_strategy)
    }

    replicated!("leasehold::Client", "queue::<String>", |this, replicas| {
        this.with(|settings| settings.replicas = replicas)
    });

    /// Returns the name of the queue, which is its key in Redis.
    #[doc = example!(jobs: "assert_eq!(jobs.name().as_str(), \"jobs\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.lock.name()
    }

    /// Returns the number of elements in the queue. Claimed elements do not count.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [request
    /// timeout](crate::ClientBuilder::request_timeout). [`Error::NotReady`], [`Error::Forbidden`],
    /// [`Error::Refused`] and [`Error::WrongType`] if the store rejects the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(jobs: "assert_eq!(jobs.len().await?, 0);")]
    pub async fn len(&self) -> Result<u64> {
        self.lock.engine.ask(self.name(), |store| queue::len(store, self.name())).await
    }

    /// Returns whether the queue is empty. Claimed elements do not count.
    #[doc = like!(read "len")]
    #[doc = example!(jobs: "assert!(jobs.is_empty().await?);")]
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the number of elements that workers of all clients have claimed. The element of a
    /// dead worker counts until it goes back to the queue.
    #[doc = like!(read "len")]
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "let claim = jobs.claim().await?;",
        "assert_eq!((jobs.len().await?, jobs.claimed().await?), (0, 1));")]
    pub async fn claimed(&self) -> Result<u64> {
        self.lock.engine.ask(self.name(), |store| queue::claimed(store, self.name())).await
    }
}

/// Methods that push, claim and remove elements.
impl<T, C: Codec<T>> Queue<T, C> {
    /// Appends an element, and returns the new number of elements in the queue.
    ///
    /// If the client retries the request after a lost reply, the store appends the element only
    /// once.
    #[doc = like!("len" and "[`Error::Codec`] if the codec cannot write the value. After \
        [`Error::Unavailable`], the element may be in the queue.",
        "If the future is dropped, the element may or may not be in the queue.")]
    #[doc = example!(jobs: "assert_eq!(jobs.push(\"resize 1.png\").await?, 1);")]
    pub async fn push(&self, value: &(impl Encode<T, C> + ?Sized)) -> Result<u64> {
        self.append(&[self.bytes(value)?]).await
    }

    /// Appends several elements in order by one request. Appends all of them, or none.
    ///
    /// While the server appends the elements, it executes no other command. A request of many
    /// megabytes also delays the renewals of this client, so pass fewer elements if they are long.
    #[doc = like!("push" and "[`Error::TooMany`] if there are more than 10,000 elements: push them \
        in several calls.", "As for [`push`](Self::push).")]
    #[doc = example!(jobs:
        "let more = [\"resize 1.png\", \"resize 2.png\"].map(str::to_owned);",
        "assert_eq!(jobs.push_all(more).await?, 2);")]
    pub async fn push_all(&self, values: impl IntoIterator<Item = impl Borrow<T>>) -> Result<u64> {
        let bytes = values.into_iter().map(|value| self.bytes(Borrow::<T>::borrow(&value)));
        match &bytes.collect::<Result<Vec<_>>>()?[..] {
            [] => self.len().await,
            elements if elements.len() > MOST as usize => {
                Err(Error::TooMany { name: self.name().clone(), most: MOST })
            }
            elements => self.append(elements).await,
        }
    }

    fn bytes(&self, value: &(impl Encode<T, C> + ?Sized)) -> Result<Vec<u8>> {
        coded::encode(self.name(), &self.codec, value, "element", None)
    }

    async fn append(&self, elements: &[Vec<u8>]) -> Result<u64> {
        let (name, engine) = (self.name(), &self.lock.engine);
        let receipt = engine.receipt();
        engine.change(name, |store| queue::push(store, name, elements, &receipt)).await
    }

    /// Claims the first element, waiting until there is one.
    ///
    /// Waiting tasks of one client claim in the order in which they came. Only one waiting task
    /// sends requests at a time. If a Leasehold client pushes an element, a waiting task claims it
    /// at once. **If Java pushes an element, a waiting task claims it after at most 0.32 s plus a
    /// round trip**, because Java sends no message. If the server is slow, the claim comes later.
    /// [`wait_strategy`](Self::wait_strategy) changes this limit.
    ///
    /// # Errors
    ///
    /// As for [`Lock::acquire`]. [`Error::Codec`] if the codec cannot read the element, and
    /// [`Error::ValueTooLong`] if the element has more than 100,000 bytes. Only Java can push such
    /// an element. In both cases, the call also moves the element to the list
    /// `leasehold_queue__aside:{NAME}`, so that it does not block the queue. If this request fails, a
    /// background task repeats it, unless the user lacks a permission. The worker may go on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: if the request of the future claims an element, a background
    /// task gives the element back. If this task fails, the element goes back when the lease ends.
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "let claim = jobs.claim().await?;",
        "assert_eq!(claim.value(), \"a\");")]
    pub async fn claim(&self) -> Result<Claim<T>> {
        self.open(self.lock.acquire().await?).await
    }

    /// Claims the first element, waiting for at most `timeout`.
    ///
    /// If the element is unreadable, the request that moves it to the other list may end later.
    #[doc = like!(acquire "claim" and "[`Error::TimedOut`] if there was no element until the \
        timeout. [`Error::Unavailable`] if the store did not reply. [`Error::Duration`] if the \
        timeout is zero.")]
    #[doc = example!(jobs:
        "let none = jobs.claim_within(Duration::from_secs(5)).await;",
        "assert!(none.is_err_and(|error| error.is_busy()));")]
    pub async fn claim_within(&self, timeout: Duration) -> Result<Claim<T>> {
        self.open(self.lock.acquire_within(timeout).await?).await
    }

    /// Claims the first element by one request. Returns `None` if the queue is empty now.
    #[doc = like!(acquire "claim" and "[`Error::Unavailable`] if the store did not reply within \
        the request timeout.")]
    #[doc = example!(jobs: "assert!(jobs.try_claim().await?.is_none());")]
    pub async fn try_claim(&self) -> Result<Option<Claim<T>>> {
        let Some(guard) = self.lock.try_acquire().await? else { return Ok(None) };
        self.open(guard).await.map(Some)
    }

    /// Removes and returns the first element. Returns `None` if the queue is empty. Workers process
    /// a popped element **at most once**.
    ///
    /// If the caller dies, the element is lost. To prevent such a loss, use [`claim`](Self::claim).
    /// A pop sends two requests: the first request claims the element, and the second request ends
    /// the claim as [`done`](Claim::done).
    #[doc = like!("try_claim" and "After [`Error::Unavailable`], an element may have been removed, \
        and is then lost. [`Error::Lost`] if the claim was lost between the two requests. The \
        element then goes back to the queue, unless Redis has lost it.",
        "If the future is dropped, an element may have been removed, and is then lost.")]
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "assert_eq!(jobs.pop().await?.as_deref(), Some(\"a\"));")]
    pub async fn pop(&self) -> Result<Option<T>> {
        let Some(Claim { guard, value }) = self.try_claim().await? else { return Ok(None) };
        end(guard, Ending::Done).await?.into_result()?;
        Ok(Some(value))
    }

    /// Decodes the claimed element. If the codec cannot read the element, or if the element is too
    /// long, it is set aside.
    async fn open(&self, guard: Guard<Lock<Claimed>>) -> Result<Claim<T>> {
        let name = self.name();
        let missing = "the reply has a claim without its element";
        let missing = || Error::silent(name.clone(), missing.to_owned());
        let element = guard.watch().element().ok_or_else(missing)?;
        let decoded = match element.length == element.bytes.len() as u64 {
            true => coded::decode(name, &self.codec, &element.bytes),
            false => Err(coded::too_long(name, format!("element of {} bytes", element.length))),
        };
        let error = match decoded {
            Ok(value) => return Ok(Claim { guard, value }),
            Err(error) => error,
        };
        let ended = end(guard, Ending::Aside).await;
        if matches!(ended, Ok(Release::Released)) {
            tracing::warn!(target: "leasehold", queue = %name, %error,
                "unreadable queue element set aside");
        } else {
            tracing::warn!(target: "leasehold", queue = %name, %error, ?ended,
                "unreadable queue element not set aside yet: a retry follows");
        }
        Err(error)
    }
}

/// A claimed element. If the claim is dropped, the element goes back to the head of the queue.
///
/// A background task renews the lease of the claim until the claim ends. After a drop, a background
/// task gives the element back **soon**. Before `main` returns, call
/// [`Client::shutdown`](crate::Client::shutdown), which completes pending releases.
///
/// Unlike a guard, a claim has no method `run`, because only the worker knows whether the job is
/// done. To stop the work after a loss, wait for the work and for [`lost`](Self::lost) at the same
/// time:
#[doc = example!(claim:
    "tokio::select! {",
    "    () = std::future::ready(()) => claim.done().await?.into_result()?, // the work",
    "    reason = claim.lost() => eprintln!(\"claim lost: {reason}\"),",
    "}")]
#[derive(Debug)]
#[must_use = "the element goes back to the queue as soon as the claim is dropped"]
pub struct Claim<T> {
    guard: Guard<Lock<Claimed>>,
    value: T,
}

/// The kind of lock whose hold is a claim.
#[derive(Clone, Debug)]
pub(crate) enum Claimed {}

impl<T> Claim<T> {
    /// Returns the element.
    #[doc = example!(claim: "assert_eq!(claim.value(), \"a\");")]
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Removes the element permanently, because the work is done.
    ///
    /// After [`Release::Released`], no other worker gets the element. [`Release::NotHeld`] means
    /// that the claim was lost before this call. The element then goes back to the queue, and another
    /// worker processes it again, unless Redis has lost it. The result is correct even if a reply is
    /// lost and the client retries the request.
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`]. After [`Error::Unavailable`], a background task continues to
    /// remove the element until the lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after its first poll, a background task continues to remove the
    /// element. If the future is dropped before its first poll, the element goes back to the queue.
    #[doc = example!(claim:
        "assert_eq!(claim.done().await?, leasehold::Release::Released);",
        "assert_eq!(jobs.claimed().await?, 0);")]
    pub async fn done(self) -> Result<Release> {
        end(self.guard, Ending::Done).await
    }

    /// Gives the element back to the head of the queue, for the next worker.
    ///
    /// Use this method if the worker stops before the job is done. Do not use this method for a job
    /// that failed, because the next worker would claim the element at once. A claim does not count
    /// attempts. So after a failure, push the element again with a count of attempts in its value,
    /// or push it to a queue of failures. Then call [`done`](Self::done).
    #[doc = like!("done",
        "If the future is dropped, a background task continues to give the element back.")]
    #[doc = example!(jobs:
        "jobs.push_all([\"a\", \"b\"].map(str::to_owned)).await?;",
        "jobs.claim().await?.give_back().await?.into_result()?;",
        "assert_eq!(jobs.claim().await?.value(), \"a\");")]
    pub async fn give_back(self) -> Result<Release> {
        self.guard.release().await
    }

    views! { example[claim:] of T:
        fn is_held() -> bool = |claim| claim.guard.is_held(); "assert!(claim.is_held());";
        fn lost() -> LostReason = |claim| claim.guard.lost(), "the reason.";
            "jobs.push(\"b\").await?;",
            "let claim = jobs.max_hold(Duration::from_secs(60)).claim().await?;",
            "assert_eq!(claim.lost().await, leasehold::LostReason::MaxHold);";
    }

    /// Returns the owner of the claim. No other claim has the same owner.
    #[doc = example!(claim: "assert!(claim.owner().as_str().starts_with(client.id()));")]
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.guard.owner()
    }

    /// Returns the name of the queue.
    #[doc = example!(claim: "assert_eq!(claim.name().as_str(), \"jobs\");")]
    #[must_use]
    pub fn name(&self) -> &Name {
        self.guard.name()
    }

    #[cfg(test)]
    pub(crate) fn watch(&self) -> &crate::engine::held::Watch {
        self.guard.watch()
    }
}

async fn end(guard: Guard<Lock<Claimed>>, ending: fn(u64) -> Ending) -> Result<Release> {
    guard.watch().note_ending(ending);
    guard.release().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use leasehold_twin::{Delay, Twin};
    use tokio::time::sleep;

    use super::*;
    use crate::{Client, store::RedisStore};

    /// The server loses the claim between the two requests of a pop.
    #[tokio::test(start_paused = true)]
    async fn pop_returns_an_error_if_its_claim_was_lost() {
        let (twin, ms) = (Twin::new(7), Duration::from_millis);
        let client = Client::asking(Arc::new(RedisStore::simulated(&twin, "one")));
        let jobs = client.queue::<String>("jobs").unwrap();
        jobs.push("a").await.unwrap();
        twin.delay(Delay::Fixed(ms(10)), Delay::None);
        let (popped, ()) = tokio::join!(jobs.pop(), async {
            sleep(ms(15)).await;
            twin.forget_everything();
        });
        assert!(matches!(popped, Err(Error::Lost { .. })), "{popped:?}");
    }

    /// Former bug: each waiter for an element sent four requests per second.
    #[tokio::test(start_paused = true)]
    async fn polling_worker_sends_requests_at_its_own_interval() {
        let (twin, sent) = (Twin::new(7), Arc::new(AtomicU32::new(0)));
        let seen = Arc::clone(&sent);
        twin.watch(move |it| {
            seen.fetch_add(u32::from(it.command().starts_with("LINDEX jobs")), Ordering::Relaxed);
        });
        let client = Client::asking(Arc::new(RedisStore::simulated(&twin, "one")));
        let rarely = Duration::from_secs(10);
        let polling = WaitStrategy::Polling { initial: rarely, max: rarely };
        let jobs = client.queue::<String>("jobs").unwrap().wait_strategy(polling);
        let none = jobs.claim_within(Duration::from_secs(95)).await;
        assert!(none.is_err_and(|error| error.is_busy()));
        let sent = sent.load(Ordering::Relaxed);
        assert!((8..=15).contains(&sent), "{sent}");
    }
}
