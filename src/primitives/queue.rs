//! The queue: elements in order. One worker at a time can claim an element.

use std::{borrow::Borrow, fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use super::{
    Guard, OnLoss, Release, coded, example, like,
    settings::{Settings, checked_timeout, replicated, setting_example},
};
use crate::{
    codec::{Codec, Encode, Text},
    domain::{Ending, LostReason, Name, Object, Owner, Replicas, Share, WaitStrategy},
    engine::{Engine, acquire::AcquireRequest, held::Held},
    error::{Error, Result},
    store::queue,
};

/// A queue of elements. If a worker crashes, its element is not lost.
///
/// A `Queue` is a name, a codec and settings, so creating one sends no request. In Redisson, it is
/// the `RQueue` or the `RBlockingQueue` of the same name. If Java uses the queue, too, set the
/// [codec](crate::codec) that Java uses. Both languages can push and take elements.
///
/// A worker [claims](Self::claim) an element, works on it, and calls [`done`](Claim::done). Until
/// that call, the element belongs to the claim, which has a lease. If the worker dies, the element
/// goes back to the head of the queue when the lease ends. So **workers process each element at
/// least once**, and some elements twice: make the work idempotent.
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
    engine: Arc<Engine>,
    object: Object,
    settings: Settings,
    codec: C,
    of: PhantomData<fn() -> T>,
}

impl<T, C: Clone> Clone for Queue<T, C> {
    fn clone(&self) -> Self {
        let Self { engine, object, settings, codec, of } = self;
        let (engine, object, codec) = (Arc::clone(engine), object.clone(), codec.clone());
        Self { engine, object, settings: settings.clone(), codec, of: *of }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Queue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.object.name)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl<T> Queue<T> {
    pub(crate) fn new(engine: Arc<Engine>, object: Object, ttl: Duration) -> Self {
        Self { engine, object, settings: Settings::new(ttl), codec: Text, of: PhantomData }
    }
}

/// Settings. The first claim checks them, and returns [`Error::Duration`] for a duration that Redis
/// cannot store.
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
        let Self { engine, object, settings, of, .. } = self;
        Queue { engine, object, settings, codec, of }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets how long a claim lasts after its worker died. Default: 30 s.
    ///
    /// While the worker lives, a background task renews the claim every third of this time. So the
    /// setting limits how late the element of a dead worker goes back to the queue. It does not
    /// limit how long the work may take.
    #[doc = setting_example!("leasehold::Client", "queue::<String>", ".ttl(Duration::from_secs(10))")]
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|settings| settings.ttl = ttl)
    }

    /// Sets the longest time that a claim may last. Default: no limit.
    ///
    /// Without a limit, the client renews the claim of a worker that hangs for ever. With a limit,
    /// the client stops the renewals after this time, and the claim is lost with
    /// [`LostReason::MaxHold`]. Its element goes back to the queue at the latest one ttl after the
    /// limit.
    #[doc = setting_example!("leasehold::Client", "queue::<String>", ".max_hold(Duration::from_secs(3600))")]
    #[must_use]
    pub fn max_hold(self, most: Duration) -> Self {
        self.with(|settings| settings.max_hold = Some(most))
    }

    /// Sets how a waiting worker notices a new element. Default: by pub/sub messages, and by a
    /// request every 250 ms, because a push by Java sends no message.
    ///
    /// With [`WaitStrategy::Polling`], you set the interval of the requests, and the client does
    /// not subscribe to messages.
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
        &self.object.name
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
        self.engine.ask(self.name(), |store| queue::len(store, self.name())).await
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
        self.engine.ask(self.name(), |store| queue::claimed(store, self.name())).await
    }

    fn request(&self) -> Result<AcquireRequest> {
        self.settings.request_share(&self.object, Share::Element(Ending::Back))
    }
}

/// Methods that push, claim and remove elements.
impl<T, C: Codec<T>> Queue<T, C> {
    /// Appends an element, and returns how many elements the queue then has.
    ///
    /// If the client retries the request after a lost reply, the store appends the element only
    /// once.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if the codec cannot write the value. Other errors as for
    /// [`len`](Self::len). After [`Error::Unavailable`], the element may be in the queue.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the element may or may not be in the queue.
    #[doc = example!(jobs: "assert_eq!(jobs.push(\"resize 1.png\").await?, 1);")]
    pub async fn push(&self, value: &(impl Encode<T, C> + ?Sized)) -> Result<u64> {
        self.append(&[self.bytes(value)?]).await
    }

    /// Appends several elements in order, by one request: all of them, or none.
    ///
    /// While the server appends them, it executes no other command. So push a million elements in
    /// several calls.
    #[doc = like!("push", "As for [`push`](Self::push).")]
    #[doc = example!(jobs:
        "let more = [\"resize 1.png\", \"resize 2.png\"].map(str::to_owned);",
        "assert_eq!(jobs.push_all(more).await?, 2);")]
    pub async fn push_all(&self, values: impl IntoIterator<Item = impl Borrow<T>>) -> Result<u64> {
        let bytes = values.into_iter().map(|value| self.bytes(Borrow::<T>::borrow(&value)));
        let elements: Result<Vec<_>> = bytes.collect();
        match elements?.as_slice() {
            [] => self.len().await,
            elements => self.append(elements).await,
        }
    }

    fn bytes(&self, value: &(impl Encode<T, C> + ?Sized)) -> Result<Vec<u8>> {
        coded::encode(self.name(), &self.codec, value, "element", None)
    }

    async fn append(&self, elements: &[Vec<u8>]) -> Result<u64> {
        let (name, receipt) = (self.name(), self.engine.receipt());
        self.engine.change(name, |store| queue::push(store, name, elements, &receipt)).await
    }

    /// Claims the first element, waiting until there is one.
    ///
    /// Waiting tasks of one client claim in the order in which they came. Only one of them sends
    /// requests at a time. If a Leasehold client pushes an element, a waiting task claims it at
    /// once. **If Java pushes an element, a waiting task claims it up to 250 ms later**, because
    /// Java sends no message. [`wait_strategy`](Self::wait_strategy) changes this time.
    ///
    /// # Errors
    ///
    /// - [`Error::Codec`] if the codec cannot read the element. The element then moves to the list
    ///   `leasehold_queue__aside:{NAME}`, so that it is not lost and does not block the queue.
    /// - [`Error::Duration`] if a setting is invalid.
    /// - [`Error::Forbidden`], [`Error::Refused`] or [`Error::WrongType`] if the store rejects the
    ///   request and a retry cannot help.
    /// - [`Error::NotReady`] if the server's memory is full.
    /// - [`Error::ShutDown`] if the client was shut down, and [`Error::NoRuntime`] outside of
    ///   tokio.
    /// - If claims are [`replicated`](Self::replicated), also the errors of a replicated
    ///   [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: if its request has claimed an element, or claims one later, a
    /// background task gives the element back. If that task fails, the element goes back when the
    /// lease ends.
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "let claim = jobs.claim().await?;",
        "assert_eq!(claim.value(), \"a\");")]
    pub async fn claim(&self) -> Result<Claim<T>> {
        self.open(self.engine.acquire(&self.request()?).await?).await
    }

    /// Claims the first element, waiting for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim). [`Error::TimedOut`] if there was no element until the
    /// timeout. [`Error::Unavailable`] if the store did not reply. [`Error::Duration`] if the
    /// timeout is zero.
    ///
    /// # Cancel safety
    ///
    /// As for [`claim`](Self::claim).
    #[doc = example!(jobs:
        "let none = jobs.claim_within(Duration::from_secs(5)).await;",
        "assert!(none.is_err_and(|error| error.is_busy()));")]
    pub async fn claim_within(&self, timeout: Duration) -> Result<Claim<T>> {
        let (request, timeout) = (self.request()?, checked_timeout(timeout)?);
        self.open(self.engine.acquire_within(&request, timeout).await?).await
    }

    /// Claims the first element by one request, or returns `None` if the queue is empty now.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim). [`Error::Unavailable`] if the store did not reply within the
    /// [request timeout](crate::ClientBuilder::request_timeout).
    ///
    /// # Cancel safety
    ///
    /// As for [`claim`](Self::claim).
    #[doc = example!(jobs: "assert!(jobs.try_claim().await?.is_none());")]
    pub async fn try_claim(&self) -> Result<Option<Claim<T>>> {
        let held = self.engine.try_acquire(&self.request()?, None).await?;
        match held {
            Some(held) => self.open(held).await.map(Some),
            None => Ok(None),
        }
    }

    /// Removes the first element and returns it, or `None` if the queue is empty. Workers process
    /// such an element **at most once**.
    ///
    /// If the caller dies, the element is lost. To prevent such a loss, use [`claim`](Self::claim).
    /// A pop sends two requests: it claims the element, and calls [`done`](Claim::done) at once.
    ///
    /// # Errors
    ///
    /// As for [`try_claim`](Self::try_claim). After [`Error::Unavailable`], an element may have
    /// been removed, and is then lost. [`Error::Lost`] if the claim was lost between the two
    /// requests. Then the element is back in the queue.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, an element may have been removed, and is then lost.
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "assert_eq!(jobs.pop().await?.as_deref(), Some(\"a\"));")]
    pub async fn pop(&self) -> Result<Option<T>> {
        let Some(Claim { guard, value, taken_at }) = self.try_claim().await? else {
            return Ok(None);
        };
        end(guard, Ending::Done { taken_at }).await?.into_result()?;
        Ok(Some(value))
    }

    /// Decodes the element of `held`. If the codec cannot read it, the element is set aside.
    async fn open(&self, held: Held) -> Result<Claim<T>> {
        let name = self.name();
        let Some(element) = held.watch.element().cloned() else {
            return Err(Error::silent(
                name.clone(),
                "the reply has a claim without its element".to_owned(),
            ));
        };
        let taken_at = element.taken_at;
        let guard = Guard::new(held, OnLoss::default());
        let error = match coded::decode(name, &self.codec, &element.bytes) {
            Ok(value) => return Ok(Claim { guard, value, taken_at }),
            Err(error) => error,
        };
        match end(guard, Ending::Aside { taken_at }).await {
            Ok(Release::Released) => {
                tracing::warn!(target: "leasehold", queue = %name, %error, "unreadable queue \
                                                                            element set aside");
            }
            ended => {
                tracing::warn!(target: "leasehold", queue = %name, %error, ?ended,
                    "unreadable queue element not set aside: a later claim gets it");
            }
        }
        Err(error)
    }
}

/// A claimed element. If the claim is dropped, the element goes back to the head of the queue.
///
/// A background task renews the claim until it ends. After a drop, a background task gives the
/// element back **soon**. Before `main` returns, call
/// [`Client::shutdown`](crate::Client::shutdown), which completes pending releases.
///
/// Unlike a guard, a claim has no method `run`, because only the worker knows whether the job is
/// done. To stop the work after a loss, wait for [`lost`](Self::lost), too:
#[doc = example!(claim:
    "tokio::select! {",
    "    () = std::future::ready(()) => claim.done().await?.into_result()?, // the work",
    "    reason = claim.lost() => eprintln!(\"another worker has it: {reason}\"),",
    "}")]
#[must_use = "the element goes back to the queue as soon as the claim is dropped"]
pub struct Claim<T> {
    guard: Guard<Claimed>,
    value: T,
    taken_at: u64,
}

/// Marks the guard of a claimed element.
pub(crate) enum Claimed {}

impl<T> Claim<T> {
    /// Returns the element.
    #[doc = example!(claim: "assert_eq!(claim.value(), \"a\");")]
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Removes the element for good, because the work is done.
    ///
    /// After [`Release::Released`], no other worker gets the element. After [`Release::NotHeld`],
    /// the claim had been lost before: the element has gone back to the queue, and another worker
    /// processes it again. If a reply is lost and the client retries the request, the result is
    /// correct nevertheless.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store did not reply within the [release
    /// timeout](crate::ClientBuilder::release_timeout). A background task then continues to remove
    /// the element. [`Error::NotReady`], [`Error::Forbidden`] and [`Error::Refused`] if the store
    /// rejected the request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a background task continues to remove the element.
    #[doc = example!(claim:
        "assert_eq!(claim.done().await?, leasehold::Release::Released);",
        "assert_eq!(jobs.claimed().await?, 0);")]
    pub async fn done(self) -> Result<Release> {
        end(self.guard, Ending::Done { taken_at: self.taken_at }).await
    }

    /// Gives the element back to the head of the queue, for the next worker.
    ///
    /// Use this method if the worker stops before the job is done. Do not use it for a job that
    /// failed, because the next worker would claim the element at once. A claim does not count
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

    /// Waits until the claim is over, and returns the reason.
    ///
    /// The future borrows nothing. After [`done`](Self::done) or [`give_back`](Self::give_back), it
    /// returns [`LostReason::Released`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    #[doc = example!(jobs:
        "jobs.push(\"a\").await?;",
        "let claim = jobs.max_hold(Duration::from_secs(60)).claim().await?;",
        "assert_eq!(claim.lost().await, leasehold::LostReason::MaxHold);")]
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<T> {
        self.guard.lost()
    }

    /// Returns whether this client may still rely on the claim. The call sends no request.
    #[doc = example!(claim: "assert!(claim.is_held());")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
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

impl<T: fmt::Debug> fmt::Debug for Claim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("name", self.name())
            .field("owner", self.owner())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

async fn end(guard: Guard<Claimed>, ending: Ending) -> Result<Release> {
    guard.watch().note_ending(ending);
    guard.release().await
}
