//! If a lock is configured with `replicated`, waits until enough replicas have acknowledged the
//! grant.
//!
//! During the wait, the grant is already a hold: the watchdog renews it, a shutdown revokes it, and
//! a dropped future releases it. A hand-off needs no new acknowledgement, because the replicas have
//! the grant, with the tokens of all holds to which it may be handed off. After a failover, earlier
//! acknowledgements no longer count: the replicas of the new server must acknowledge the grant.
//! Renewals are not acknowledged, because a lost renewal only shortens the lease.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    domain::{Failure, Replicas},
    engine::{Engine, held::Held, hold::Hold, retry::retry_until, timing::LATE_COUNT},
    error::Error,
};

impl Engine {
    /// Returns `held` if enough replicas have the grant, and otherwise releases it. The call ends
    /// at the latest at `until`, which is the end of the caller's timeout. The future is boxed, so
    /// that the future of a caller that needs no replicas stays small.
    pub(super) fn acknowledged<'a>(
        self: &'a Arc<Self>,
        replicas: Replicas,
        held: Held,
        until: Option<Instant>,
    ) -> Pin<Box<impl Future<Output = Result<Held, Error>> + 'a>> {
        Box::pin(self.await_replicas(replicas, held, until))
    }

    async fn await_replicas(
        self: &Arc<Self>,
        replicas: Replicas,
        held: Held,
        until: Option<Instant>,
    ) -> Result<Held, Error> {
        let hold = held.watch.hold();
        let moves = self.core.moves();
        if hold.replicas(moves) >= replicas.least {
            return Ok(held);
        }
        let counted = self.unless_closed(self.count_replicas(replicas, hold, until)).await;
        let (name, wanted) = (hold.name().clone(), replicas.least);
        let error = match counted {
            Err(error) => error,
            Ok(Err(failure)) => not_requested(self.error(&name, failure)),
            Ok(Ok(got)) if got < wanted => Error::NotReplicated { name, wanted, got },
            Ok(Ok(got)) => {
                hold.is_replicated(got, moves);
                match held.watch.remaining() {
                    Ok(_) => return Ok(held),
                    Err(reason) => Error::Lost { name, reason },
                }
            }
        };
        self.log_failure(hold, &error);
        take_back(held, until).await;
        Err(error)
    }

    fn log_failure(&self, hold: &Hold, error: &Error) {
        let (lock, owner) = (hold.name(), &hold.grant.claim.owner);
        let due = match error {
            // The code that ended the hold has already logged the reason.
            Error::Lost { .. } | Error::ShutDown => None,
            _ => self.not_replicated.once_more(self.core.clock.now()),
        };
        match due {
            Some(times) => tracing::warn!(target: "leasehold", %lock, %owner, %error, times,
                "acquisition undone: too few replicas sent an acknowledgement in time"),
            None => tracing::debug!(target: "leasehold", %lock, %owner, %error,
                "acquisition undone: too few replicas sent an acknowledgement in time"),
        }
    }

    /// Returns how many replicas have acknowledged `hold`, or 0 if the store does not reply in
    /// time.
    async fn count_replicas(
        &self,
        replicas: Replicas,
        hold: &Hold,
        until: Option<Instant>,
    ) -> Result<u32, Failure> {
        let clock = &self.core.clock;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let within = left.map_or(replicas.within, |left| left.min(replicas.within));
        let end = clock.now() + within;
        let ask = || {
            let within = end.saturating_duration_since(clock.now());
            self.core.store.replicated(&hold.grant.claim, replicas.within(within))
        };
        let longest = left.map_or(within + LATE_COUNT, |left| left.min(within + LATE_COUNT));
        let counted = timeout(longest, retry_until(clock, end, ask)).await;
        // Without a reply in time, no acknowledgement is known.
        counted.map_or(Ok(0), |counted| counted.map(|counted| counted.answer))
    }
}

/// Adds to an `Unavailable` error that the grant was released.
fn not_requested(mut error: Error) -> Error {
    if let Error::Unavailable { reason, .. } = &mut error {
        *reason = format!(
            "the acquisition was undone, because the server did not report how many replicas \
             acknowledged it: {reason}"
        );
    }
    error
}

/// Releases `held`. If no reply comes before `until`, the background task continues the release.
async fn take_back(held: Held, until: Option<Instant>) {
    let release = held.release();
    match until {
        Some(until) => drop(timeout_at(until, release).await),
        None => drop(release.await),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;
    use crate::{
        Client, Lock, MemoryStore,
        engine::Engine,
        store::{Event, Subscriber},
    };

    /// Creates a server with this number of `replicas`, a client, and a lock that needs two
    /// acknowledgements.
    fn door(replicas: u32) -> (MemoryStore, Client, Lock) {
        let store = MemoryStore::new();
        store.set_replicas(replicas);
        let client = Client::with_store(&store);
        let lock = door_of(&client);
        (store, client, lock)
    }

    fn door_of(client: &Client) -> Lock {
        let lock = client.lock("door").unwrap().local_handoff(9, Duration::from_secs(60));
        lock.replicated(Replicas::at_least(2))
    }

    #[tokio::test(start_paused = true)]
    async fn unacknowledged_grant_is_released_and_leaves_no_state() {
        let (store, client, lock) = door(1);
        let refused = lock.acquire().await;
        let notified = |got, wanted| (got, wanted) == (1, 2);
        assert!(
            matches!(refused, Err(Error::NotReplicated { wanted, got, .. }) if notified(got, wanted))
        );
        assert!(!lock.is_locked().await.unwrap() && client.stats().held == 0);
        store.set_replicas(2);
        assert!(lock.try_acquire().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_acquire_releases_its_grant() {
        let (_store, client, lock) = door(1);
        let left = timeout(Duration::from_millis(500), lock.acquire()).await;
        assert!(left.is_err());
        sleep(Duration::from_millis(10)).await;
        assert!(!lock.is_locked().await.unwrap() && client.stats().held == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn handed_off_grant_keeps_its_acknowledgements() {
        // given a holder whose grant two replicas have acknowledged, and a waiter that also needs
        // two replicas
        let (store, client, lock) = door(2);
        let first = lock.acquire().await.unwrap();
        store.set_replicas(0);
        let (next, released) = tokio::join!(lock.acquire(), first.release());
        released.unwrap().into_result().unwrap();
        let next = next.unwrap();
        assert_eq!(client.stats().handed_off, 1);

        // then a waiter that needs three replicas gets the grant, but sends a request for
        // acknowledgements
        let more = lock.clone().replicated(Replicas::at_least(3));
        let (refused, released) = tokio::join!(more.acquire(), next.release());
        released.unwrap().into_result().unwrap();
        assert!(matches!(refused, Err(Error::NotReplicated { got: 0, .. })));
        assert_eq!(client.stats().handed_off, 2);
    }

    /// Former bug: acknowledgements by replicas of the old server still counted after a failover.
    /// No replica of the new server had the grant.
    #[tokio::test(start_paused = true)]
    async fn handed_off_grant_needs_acknowledgements_of_the_new_server() {
        let memory = MemoryStore::new();
        memory.set_replicas(2);
        let engine = Engine::on(&memory, "one");
        let client = Client::of(Arc::clone(&engine));
        let lock = door_of(&client);
        let first = lock.acquire().await.unwrap();
        engine.receive(Event::Moved);
        memory.set_replicas(0);
        let (refused, released) = tokio::join!(lock.acquire(), first.release());
        released.unwrap().into_result().unwrap();
        assert_eq!(client.stats().handed_off, 1);
        assert!(matches!(refused, Err(Error::NotReplicated { got: 0, .. })));
    }
}
