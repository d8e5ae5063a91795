//! Shares in a hold. Every guard contains one share.
//!
//! A reentry is another share of the same [`Hold`]. The last share releases the hold.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{runtime::Handle, time::sleep};

use super::{
    Engine,
    hold::Hold,
    limits::{nothing_came, within},
    pending::PendingRelease,
    release::{ReleaseResult, recount},
    tasks::pause,
    timing::END_IS_NEAR,
};
use crate::{
    domain::{Claim, Element, Ending, Failure, LostReason, Outcome, Token, Value, Work},
    error::Error,
    store::RedisStore,
};

/// One share in a hold. If the share is dropped without [`release`](Self::release), a background
/// task releases the share.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) watch: Watch,
    released: bool,
}

impl Held {
    pub(crate) fn new(hold: Arc<Hold>, engine: &Arc<Engine>) -> Self {
        Self { watch: Watch { hold, engine: Arc::clone(engine) }, released: false }
    }

    /// Returns the timeout of the release after work under the hold.
    pub(crate) fn release_after_run(&self) -> Duration {
        self.watch.engine.limits.release_after_run
    }

    /// Releases the share now.
    pub(crate) async fn release(mut self) -> Result<ReleaseResult, Error> {
        let Watch { hold, engine } = &self.watch;
        let look = || {
            let now = engine.core.clock.now();
            (now, hold.remaining(now))
        };
        let (mut now, mut believed) = look();
        let shared = hold.object().traits().is_shared();
        let among_many = if shared { hold.one_share_less_of_many() } else { None };
        if shared && among_many.is_none() && hold.may_be_shared(now) {
            // If a waiting task runs during this pause, it gets a share without a request. The
            // pause makes tasks that only acquire and release eight times as fast.
            pause().await;
            (now, believed) = look();
        }
        self.released = true;
        let left = among_many.unwrap_or_else(|| hold.one_share_less());
        if left == 0 {
            if engine.pass_on(hold, now) {
                return Ok(ReleaseResult::Released);
            }
            // The future is boxed, so that a release without a request copies a sixth of the bytes.
            return Box::pin(engine.free(hold, believed, now)).await;
        }
        if let Err(reason) = believed {
            return Ok(ReleaseResult::Lost { reason, holder: None });
        }
        if shared {
            return Ok(ReleaseResult::Released);
        }
        let sent = Box::pin(engine.send_count(hold)).await;
        Ok(match sent.map_err(|failure| engine.error(hold.name(), failure))? {
            Outcome::Renewed => ReleaseResult::StillShared(left),
            _ => ReleaseResult::Lost { reason: LostReason::NotOwned, holder: None },
        })
    }
}

impl Held {
    /// Ends the hold, but leaves its permits acquired. Any task or process can return the permits
    /// later.
    pub(crate) fn forget(mut self) {
        self.released = true;
        let Watch { hold, engine } = &self.watch;
        engine.forget(hold);
    }
}

impl Held {
    /// Ends the hold in this client without a release. In the store, the hold then ends with its
    /// lease. If other tasks share a read hold, this call ends only its own share, and the hold
    /// continues.
    pub(crate) fn abandon(mut self) {
        self.released = true;
        let Watch { hold, engine } = &self.watch;
        let shared = hold.object().traits().is_shared();
        if !shared || hold.one_share_less_of_many().is_none() {
            engine.abandon(hold);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let Watch { hold, engine } = &self.watch;
        let now = engine.core.clock.now();
        let believed = hold.remaining(now);
        if hold.one_share_less() == 0 {
            if !engine.pass_on(hold, now) {
                engine.free_in_background(hold, now);
            }
        } else if believed.is_ok() && !hold.object().traits().is_shared() {
            engine.core.pending.queue(PendingRelease::Recount { hold: Arc::clone(hold) });
        }
    }
}

/// A view of a hold, without a share in it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    hold: Arc<Hold>,
    engine: Arc<Engine>,
}

impl Watch {
    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.hold.grant.claim
    }

    /// Records that the grant must not be handed off, because the caller may use the owner of this
    /// hold in other requests.
    pub(crate) fn forbid_handoff(&self) {
        self.hold.forbid_handoff();
    }

    pub(crate) fn element(&self) -> Option<&Arc<Element>> {
        self.hold.grant.element.as_ref()
    }

    /// Records `ending`, which decides where the claimed element goes when the hold ends.
    pub(crate) fn note_ending(&self, ending: fn(u64) -> Ending) {
        self.hold.note_ending(ending);
    }

    /// Records that the owner of this write hold gets a read hold, too.
    pub(crate) fn note_read_under_write(&self) {
        self.hold.note_read_under_write();
    }

    pub(crate) fn is_of(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.hold.grant.token
    }

    pub(crate) fn count(&self) -> u32 {
        self.hold.shares()
    }

    /// Takes another share of the hold. The count of shares in the store then grows by one. The
    /// store does not count the shares of a read hold.
    pub(crate) async fn reenter(&self) -> Result<Held, Error> {
        let Self { hold, engine } = self;
        let ended = |reason| Error::Lost { name: hold.name().clone(), reason };
        self.remaining().map_err(ended)?;
        hold.one_more_share().ok_or_else(|| ended(LostReason::Released))?;

        // From here on, dropping `share` removes the share again.
        let share = Held::new(Arc::clone(hold), engine);
        if hold.object().traits().is_shared() {
            return Ok(share);
        }
        let asked_at = engine.core.clock.now();
        hold.asks(asked_at);
        let ttl = hold.profile().ttl;
        let (retry_if, until) = (Failure::is_temporary, hold.ends());
        match recount(&engine.core, &engine.contention, hold, ttl, retry_if, until).await {
            Ok(Outcome::Renewed) => {
                hold.renewed(asked_at, engine.core.clock.now());
                self.remaining().map_err(ended)?;
                Ok(share)
            }
            Ok(_) => Err(ended(self.remaining().err().unwrap_or(LostReason::NotOwned))),
            Err(failure) => Err(engine.error(hold.name(), failure)),
        }
    }

    /// Takes another share of the hold within the request timeout.
    pub(crate) async fn reenter_in_time(&self) -> Result<Held, Error> {
        let Self { hold, engine } = self;
        engine.reachable(hold.name())?;
        let limit = engine.limits.request;
        tokio::select! {
            biased;
            share = self.reenter() => share,
            // The timer is made in the block, so that an immediate reply needs no timer.
            () = async { sleep(limit).await } => {
                Err(engine.error(hold.name(), nothing_came(limit)))
            }
        }
    }

    /// Runs `work` in the store by one request, if the hold still exists in the store. If no reply
    /// comes, the store may have done the work, or may still do the work while the hold lasts.
    pub(crate) async fn guarded(&self, work: &Work) -> Result<Value, Error> {
        let Self { hold, engine } = self;
        let lost = |reason| Error::Lost { name: hold.name().clone(), reason };
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        if !hold.object().traits().is_exclusive() {
            return Err(Error::Unsupported {
                what: "a guarded write needs an exclusive lock, but other clients may share this \
                       hold; use a lock or a write lock",
            });
        }
        engine.reachable(hold.name())?;
        hold.writes(engine.core.clock.now()).map_err(lost)?;
        let done = engine.core.store.guarded(&hold.grant.claim, work);
        let done = within(engine.limits.request, done).await;
        // A write without a reply still counts as in flight. So the grant is not handed off, and
        // the write cannot run under the next hold of this owner.
        if !done.as_ref().is_err_and(Failure::may_have_happened) {
            hold.write_answered();
        }
        done.map_err(|failure| engine.error(hold.name(), failure))?.ok_or_else(|| {
            engine.contention.disown(hold);
            lost(self.remaining().err().unwrap_or(LostReason::NotOwned))
        })
    }

    /// Sends a change that the store makes only while this hold exists. The change may be repeated.
    /// `ask` sends one request, and returns whether the hold still existed.
    pub(crate) async fn change<'a, A>(
        &'a self,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<(), Error>
    where
        A: Future<Output = Result<bool, Failure>>,
    {
        let Self { hold, engine } = self;
        let lost = |reason| Error::Lost { name: hold.name().clone(), reason };
        self.remaining().map_err(lost)?;
        if !engine.ask(hold.name(), ask).await? {
            self.engine.contention.disown(hold);
        }
        self.remaining().map(drop).map_err(lost)
    }

    /// Returns for how long the holder may still rely on the hold.
    pub(crate) fn remaining(&self) -> Result<Duration, LostReason> {
        self.hold.remaining(self.engine.core.clock.now())
    }

    /// Waits until the hold is over. Each poll first reads the clock, because timers fire late
    /// after a pause of the process. Each caller has its own timer, because the runtime of the
    /// watchdog may be blocked.
    pub(crate) async fn over(self) -> LostReason {
        loop {
            let look = poll_fn(|_| self.remaining().err().map_or(Poll::Pending, Poll::Ready));
            tokio::select! {
                biased;
                reason = look => return reason,
                () = self.hold.ended() => {}
                // The runtime of the watchdog may have ended, while the runtime of this task still
                // runs.
                () = self.timer() => { self.engine.revive(); }
            }
        }
    }

    /// Waits for half of the remaining time of the hold. If at most `END_IS_NEAR` remains, waits
    /// for the whole remaining time. Without a runtime, there is no timer, so this function waits
    /// for ever.
    async fn timer(&self) {
        match self.remaining() {
            Ok(left) if Handle::try_current().is_ok() => {
                sleep(if left > END_IS_NEAR { left / 2 } else { left }).await;
            }
            Ok(_) => pending().await,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use crate::{Client, LostReason, MemoryStore, Release, Script, Write};

    use super::*;

    /// Former bug: the client sent a new number of shares, and the store replied that the hold was
    /// lost. The client treated this reply as a success.
    #[tokio::test(start_paused = true)]
    async fn release_of_a_lost_hold_reports_the_loss_to_all_its_guards() {
        for dropped in [true, false] {
            let store = MemoryStore::new();
            let [door, operator] =
                [(); 2].map(|()| Client::with_store(&store).lock("door").unwrap());
            let guard = door.acquire().await.unwrap();
            let again = guard.reenter().await.unwrap();
            assert!(operator.force_release().await.unwrap());
            match dropped {
                true => drop(again),
                false => {
                    let left = again.release().await.unwrap();
                    let gone = LostReason::NotOwned;
                    assert!(matches!(left, Release::NotHeld { reason, .. } if reason == gone));
                }
            }
            let lost = timeout(Duration::from_millis(10), guard.lost()).await;
            assert_eq!(lost, Ok(LostReason::NotOwned));
        }
    }

    /// Returns a guarded write of `value` to the key `data`. A test reads this key to know whether
    /// the store executed the write.
    fn write(value: &str) -> [Write; 1] {
        [Write::set("data", value)]
    }

    #[tokio::test(start_paused = true)]
    async fn guarded_write_reports_the_loss_of_its_hold_to_all_guards() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        guard.write(write("in time")).await.unwrap();
        store.lose("door");
        let late = again.write(write("late")).await;
        assert!(matches!(late, Err(Error::Lost { reason: LostReason::NotOwned, .. })), "{late:?}");
        let lost = timeout(Duration::from_millis(10), guard.lost()).await;
        assert_eq!(lost, Ok(LostReason::NotOwned));
        assert_eq!(store.value("data").unwrap(), b"in time");
    }

    #[tokio::test(start_paused = true)]
    async fn previous_hold_of_an_owner_cannot_write_after_a_hand_off() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let door = client.lock("door").unwrap();
        let guard = door.acquire().await.unwrap();
        let (before, owner) = (guard.holding(), guard.owner().clone());
        before.write(write("before")).await.unwrap();
        let (next, _) = tokio::join!(door.acquire(), guard.release());
        let next = next.unwrap();
        assert_eq!((next.owner(), client.stats().handed_off), (&owner, 1));

        let late = before.write(write("late")).await;
        assert!(matches!(late, Err(Error::Lost { reason: LostReason::Released, .. })), "{late:?}");
        assert_eq!(store.value("data").unwrap(), b"before");
        next.write(write("next")).await.unwrap();
        assert_eq!(store.value("data").unwrap(), b"next");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_with_a_pending_write_is_not_handed_off() {
        for cancelled in [true, false] {
            let store = MemoryStore::new();
            let client = Client::with_store(&store);
            let door = client.lock("door").unwrap().local_handoff(9, Duration::from_secs(60));
            let guard = door.acquire().await.unwrap();
            let owner = guard.owner().clone();
            store.stall();
            let max_wait = Duration::from_secs(if cancelled { 1 } else { 10 });
            let written = timeout(max_wait, guard.write(write("when?"))).await;
            match cancelled {
                true => assert!(written.is_err()),
                false => assert!(matches!(written, Ok(Err(Error::Unavailable { .. })))),
            }
            store.resume();
            assert!(guard.is_held());
            let (next, released) = tokio::join!(door.acquire(), guard.release());
            released.unwrap().into_result().unwrap();
            assert_ne!(next.unwrap().owner(), &owner);
            assert_eq!(client.stats().handed_off, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_guarded_write_keeps_the_hold() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let door = client.lock("door").unwrap();
        let guard = door.acquire().await.unwrap();
        store.fail("READONLY You can't write against a read only replica.");
        let refused = guard.write(write("never")).await.unwrap_err();
        assert!(refused.is_transient() && matches!(refused, Error::NotReady { .. }));
        store.heal();
        let failed = guard.eval(Script::new("return redis.call('NONE')")).await;
        assert!(matches!(failed, Err(Error::PartialWrite { .. })), "{failed:?}");
        assert!(guard.is_held() && store.value("data").is_none());

        // and neither request counts as in flight, so the lock can be handed off
        let (next, released) = tokio::join!(door.acquire(), guard.release());
        released.unwrap().into_result().unwrap();
        assert_eq!(client.stats().handed_off, 1);
        drop(next);
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_guarded_write_sends_nothing() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        store.fail("ERR asked");
        let own = guard.write([Write::set("data", "1"), Write::delete("door")]).await;
        assert!(
            matches!(own, Err(Error::Refused { message, .. }) if message.contains("key of its own lock"))
        );
        let never = guard.write([Write::expire("data", Duration::ZERO)]).await;
        assert!(matches!(never, Err(Error::Duration(_))), "{never:?}");
        for text in ["", " \n\t", "#!lua flags=no-writes\nreturn 1"] {
            let odd = guard.eval(Script::new(text)).await;
            assert!(matches!(odd, Err(Error::Script(_))), "{text:?}: {odd:?}");
        }
    }

    /// Former bug: if the server rejected the login, the client retried a reentry until the lease
    /// ended, as it retries a pending release.
    #[tokio::test(start_paused = true)]
    async fn reentry_returns_a_rejected_login_at_once() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        store.fail("WRONGPASS invalid username-password pair or user is disabled.");
        let refused = timeout(Duration::from_millis(10), guard.reenter()).await.unwrap();
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
        store.heal();
        assert_eq!((guard.is_held(), guard.count()), (true, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn hold_may_write_until_shutdown_revokes_it() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        let closing = tokio::spawn(async move { client.shutdown(Duration::from_secs(2)).await });
        sleep(Duration::from_millis(500)).await;
        guard.write(write("in time")).await.unwrap();
        closing.await.unwrap();
        let late = guard.write(write("late")).await;
        assert!(matches!(late, Err(Error::Lost { reason: LostReason::ShutDown, .. })), "{late:?}");
        assert_eq!(store.value("data").unwrap(), b"in time");
    }
}
