//! Completes pending releases. One task retries all pending releases. The task retries each release
//! until the lease of its hold would have ended.

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};

use super::{recount, release};
use crate::{
    domain::{Claim, Failure, ReleaseMode, ReleaseReply},
    engine::{
        contention::NameRegistry,
        core::Core,
        pending::{PendingRelease, Withdrawal},
        retry::{RetryIf, retry_while},
        timing::{LOOK_AGAIN, REJECTED_RELEASE_PAUSE},
        watchdog::Watchdog,
    },
    store::LATEST_EXECUTION,
};

/// Completes pending releases until the engine is dropped. If a runtime ends during a release, the
/// release stays pending, and the next runtime completes it.
pub(crate) async fn complete_all(
    core: Arc<Core>,
    contention: Arc<NameRegistry>,
    watchdog: Arc<Watchdog>,
) {
    let (mut running, mut last) = (FuturesUnordered::new(), 0);
    loop {
        while let Some((number, pending)) = core.pending.after(last) {
            if let PendingRelease::Release(Withdrawal { grant: Some(grant), .. }) = pending {
                watchdog.unwatch(grant);
            }
            let completed = complete(&core, &contention, pending);
            running.push(async move { (number, completed.await) });
            last = number;
        }
        let dropped = core.used.is_closed();
        if running.is_empty() && dropped {
            return;
        }
        tokio::select! {
            biased;
            Some((number, more)) = running.next() => core.pending.is_completed(number, more),
            () = core.pending.changed() => {}
            _ = core.used.acquire(), if !dropped => {}
        }
    }
}

/// Runs `pending`. Returns the part that is still to do, if any.
async fn complete(
    core: &Core,
    contention: &NameRegistry,
    pending: PendingRelease,
) -> Option<PendingRelease> {
    let completed = match &pending {
        PendingRelease::Recount { hold } => {
            let (retry_if, until) = (Failure::is_temporary_for_release, hold.store_ends());
            recount(core, contention, hold, None, retry_if, until).await.map(|_| None)
        }
        PendingRelease::Repeat { claim, until } => {
            tokio::select! {
                () = repeat(core, contention, claim, *until) => {}
                _ = long_unused(core) => {}
            }
            return None;
        }
        PendingRelease::Release(withdrawal) => {
            let released = async {
                match withdrawal.claim.is_endless() {
                    false => withdraw(core, contention, withdrawal).await,
                    true => Ok(withdraw_at_last(core, contention, withdrawal).await),
                }
            };
            let more = tokio::select! {
                more = released => more,
                unused = long_unused(core) => Err(unused),
            };
            withdrawal.hold.iter().for_each(|hold| contention.left(hold));
            more
        }
    };
    completed.unwrap_or_else(|failure| {
        let claim = pending.claim();
        core.counters.release_abandoned(claim);
        if let Some(releases) = core.pending.given_up.once_more(core.clock.now()) {
            tracing::warn!(target: "leasehold", lock = %claim.name(), owner = %claim.owner,
                %failure, releases,
                    "release abandoned: the hold ends with its lease");
        }
        None
    })
}

/// Waits until `LATEST_EXECUTION` after the drop of the client. Returns the failure to report for
/// each release that is still pending then.
async fn long_unused(core: &Core) -> Failure {
    drop(core.used.acquire().await);
    sleep(LATEST_EXECUTION).await;
    Failure::unanswered("the client was dropped before Redis replied")
}

/// Retries a release of permits without a lease for as long as the client is in use.
async fn withdraw_at_last(
    core: &Core,
    contention: &NameRegistry,
    withdrawal: &Withdrawal,
) -> Option<PendingRelease> {
    let mut logged = false;
    loop {
        let failure = match withdraw(core, contention, withdrawal).await {
            Ok(more) => return more,
            Err(failure) => failure,
        };
        let first = !std::mem::replace(&mut logged, true);
        if first && let Some(releases) = core.pending.refused.once_more(core.clock.now()) {
            let claim = &withdrawal.claim;
            tracing::warn!(target: "leasehold", lock = %claim.name(), owner = %claim.owner,
                %failure, releases, "release of permits rejected: retrying every minute");
        }
        tokio::select! {
            () = sleep(REJECTED_RELEASE_PAUSE) => {}
            () = core.store_recovered.notified() => {}
            _ = core.used.acquire() => return None,
        }
    }
}

/// Repeats a release that a replaced server has executed. The script checks first whether the owner
/// still holds the lock, because the new server usually has received the release. If the repeated
/// release fails, the lease ends the hold.
async fn repeat(core: &Core, contention: &NameRegistry, claim: &Claim, until: Instant) {
    let (retry_if, mode) = (Failure::is_temporary_for_release, ReleaseMode::HandOver);
    let release = || core.store.release(claim, mode);
    let Ok(given) = retry_while(retry_if, &core.clock, until, release).await else { return };
    if let ReleaseReply::Freed(others) = given.answer {
        tracing::debug!(target: "leasehold", lock = %claim.name(), owner = %claim.owner,
            "lock released again after a failover");
        contention.note(&claim.object, others);
    }
}

/// Releases the hold that exists now. If this release is a repetition, first pauses. If a late
/// grant may follow, returns the release that must run later.
async fn withdraw(
    core: &Core,
    contention: &NameRegistry,
    withdrawal: &Withdrawal,
) -> Result<Option<PendingRelease>, Failure> {
    let Withdrawal { claim, grant, mode, until, looks, more, .. } = withdrawal;
    if let Some(looks @ 1..) = *looks {
        sleep(LOOK_AGAIN[looks - 1]).await;
    }
    // For permits without a lease, a rejection is returned to `withdraw_at_last`, which logs the
    // rejection, and retries less often.
    let retry_if: RetryIf = match claim.is_endless() {
        false => Failure::is_temporary_for_release,
        true => Failure::is_temporary,
    };
    let given = match release(core, claim, *mode, retry_if, (core.clock.now(), *until)).await {
        // If the key has another type, the store has not granted the request, and cannot grant it.
        Err(Failure::WrongType { .. }) if grant.is_none() => return Ok(None),
        given => given?.answer,
    };
    if let ReleaseReply::Freed(others) = given {
        contention.note(&claim.object, others);
    }
    let may_come = *more || matches!(given, ReleaseReply::NotHeld { .. });
    let pause = looks.and_then(|looks| LOOK_AGAIN.get(looks)).filter(|_| may_come);
    let again = pause.is_some_and(|pause| core.clock.now() + *pause < *until);
    let looks = looks.map(|looks| looks + 1);
    Ok(again.then(|| PendingRelease::Release(Withdrawal { looks, ..withdrawal.clone() })))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Client, MemoryStore, SemaphoreGuard,
        domain::{CENTURY, LostReason, Object},
        engine::{
            Engine,
            grant::{Grant, LocalHandoff, ReplicationStatus, Terms},
            hold::Hold,
            timing::IDLE_LIFETIME,
        },
        store::{Event, Subscriber},
    };

    const REFUSALS: [&str; 2] = [
        "NOPERM this user has no permissions to run the 'incrby' command",
        "WRONGPASS invalid username-password pair or user is disabled.",
    ];

    /// Returns a store, and a client with its engine.
    fn one() -> (MemoryStore, Arc<Engine>, Client) {
        let memory = MemoryStore::new();
        let engine = Engine::on(&memory, "one");
        let client = Client::of(Arc::clone(&engine));
        (memory, engine, client)
    }

    /// Creates a semaphore of three permits, and acquires one of them.
    async fn three() -> (MemoryStore, Client, SemaphoreGuard) {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let pool = client.semaphore("pool").unwrap();
        pool.set_if_absent(3).await.unwrap();
        let guard = pool.acquire(1).await.unwrap();
        (store, client, guard)
    }

    async fn free(client: &Client) -> i64 {
        client.semaphore("pool").unwrap().available().await.unwrap()
    }

    /// A hold without a lease ends only by its release.
    #[tokio::test(start_paused = true)]
    async fn rejected_permit_release_is_retried_until_the_store_allows_it() {
        for refusal in REFUSALS {
            let (store, client, guard) = three().await;
            store.fail(refusal);
            drop(guard);
            sleep(5 * REJECTED_RELEASE_PAUSE / 2).await;
            store.heal();
            // The next retry is not due yet.
            sleep(REJECTED_RELEASE_PAUSE / 4).await;
            assert_eq!(free(&client).await, 2, "{refusal}");
            sleep(REJECTED_RELEASE_PAUSE).await;
            assert_eq!(free(&client).await, 3, "{refusal}");
            assert_eq!(client.stats().releases_abandoned, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_release_is_retried_when_the_store_recovers() {
        let (memory, engine, client) = one();
        let pool = client.semaphore("pool").unwrap();
        pool.set_if_absent(3).await.unwrap();
        let guard = pool.acquire(1).await.unwrap();
        memory.fail("NOPERM this user has no permissions to run the 'incrby' command");
        assert!(guard.release().await.is_err());
        sleep(REJECTED_RELEASE_PAUSE / 2).await;
        memory.heal();
        engine.receive(Event::Back);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&client).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_release_of_a_hold_with_a_lease_is_given_up() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        store.fail("NOPERM this user has no permissions to run the 'hdel' command");
        drop(guard);
        sleep(REJECTED_RELEASE_PAUSE).await;
        assert_eq!(client.stats().releases_abandoned, 1);
        assert_eq!(client.shutdown(Duration::from_secs(1)).await.pending, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_of_a_rejected_release_end_when_the_client_is_dropped() {
        for refusal in REFUSALS {
            let (store, client, guard) = three().await;
            store.fail(refusal);
            drop(guard);
            sleep(REJECTED_RELEASE_PAUSE / 2).await;
            assert_eq!(client.shutdown(Duration::from_secs(1)).await.pending, 1);
            drop(client);
            let tasks = tokio::runtime::Handle::current().metrics();
            sleep(Duration::from_secs(1)).await;
            assert_eq!(tasks.num_alive_tasks(), 0, "{refusal}");
        }
    }

    /// Former bug: the background task of a dropped client retried the release until a lease of a
    /// day would have ended.
    #[tokio::test(start_paused = true)]
    async fn dropped_client_soon_ends_its_retries_of_a_failing_release() {
        let (memory, engine, client) = one();
        let lock = client.lock("door").unwrap().lease(Duration::from_secs(86_400));
        let guard = lock.acquire().await.unwrap();
        memory.fail(REFUSALS[1]);
        drop(guard);
        sleep(Duration::from_secs(1)).await;
        let stats = client.stats();
        drop((lock, client, engine));
        sleep(Duration::from_secs(1)).await;
        let tasks = tokio::runtime::Handle::current().metrics();
        assert_eq!(stats.releases_abandoned, 0);
        assert_ne!(tasks.num_alive_tasks(), 0);
        sleep(LATEST_EXECUTION + Duration::from_secs(5)).await;
        assert_eq!(tasks.num_alive_tasks(), 0);
    }

    /// Former bug: the background task of a dropped client retried the release until a lease of a
    /// day would have ended.
    #[tokio::test(start_paused = true)]
    async fn dropped_client_soon_ends_its_retries_of_a_repeated_release() {
        let (memory, engine, client) = one();
        let lock = client.lock("door").unwrap().lease(Duration::from_secs(86_400));
        lock.acquire().await.unwrap().release().await.unwrap().into_result().unwrap();
        memory.fail("LOADING Redis is loading the dataset in memory");
        engine.receive(Event::Moved);
        sleep(Duration::from_secs(1)).await;
        drop((lock, client, engine));
        sleep(Duration::from_secs(1)).await;
        let tasks = tokio::runtime::Handle::current().metrics();
        assert_ne!(tasks.num_alive_tasks(), 0);
        sleep(LATEST_EXECUTION + Duration::from_secs(5)).await;
        assert_eq!(tasks.num_alive_tasks(), 0);
    }

    /// Former bug: the name of a dropped read hold with a lease of a century stayed known for ever.
    /// The next waiter waited for the end of this hold.
    #[tokio::test(start_paused = true)]
    async fn dropped_reader_with_a_century_lease_leaves_no_state() {
        let (_memory, engine, client) = one();
        let read = client.read_write_lock("prices").unwrap().read().ttl(CENTURY);
        drop(read.acquire().await.unwrap());
        sleep(IDLE_LIFETIME + Duration::from_secs(5)).await;
        assert!(engine.is_idle(), "{engine:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_release_of_a_reader_leaves_no_state() {
        let (memory, engine, client) = one();
        let guard = client.read_write_lock("prices").unwrap().read().acquire().await.unwrap();
        memory.fail("NOPERM this user has no permissions to run the 'hdel' command");
        drop(guard);
        sleep(IDLE_LIFETIME + Duration::from_secs(5)).await;
        assert_eq!(client.stats().releases_abandoned, 1);
        assert!(engine.is_idle(), "{engine:?}");
    }

    /// Former bug: a guard was dropped in an outage, and its release was executed twice. The
    /// release counted as sent at the time of its first request.
    #[tokio::test(start_paused = true)]
    async fn release_sent_before_a_failover_is_repeated_once_afterwards() {
        for (asked_before, repeated) in [(true, 1), (false, 0)] {
            assert_eq!(repeated_after_a_move(asked_before).await, repeated, "{asked_before}");
        }
    }

    /// Returns how many releases are queued again, if a release gets its reply after the client has
    /// moved to another server.
    async fn repeated_after_a_move(asked_before: bool) -> usize {
        let (memory, engine, _client) = one();
        let (core, contention) = (&engine.core, &engine.contention);
        let ttl = Duration::from_secs(30);
        let claim = Claim::plain(Object::lock("door"), engine.identity.fresh_owner(), ttl);
        core.store.acquire(&claim, None).await.unwrap();
        let withdrawal = Withdrawal {
            claim,
            grant: None,
            mode: ReleaseMode::HandOver,
            until: core.clock.now() + ttl,
            looks: None,
            hold: None,
            more: false,
        };
        match asked_before {
            true => memory.stall(),
            false => memory.fail("LOADING Redis is loading the dataset in memory"),
        }
        let mut withdraws = Box::pin(withdraw(core, contention, &withdrawal));
        let soon = Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, &mut withdraws).await.is_err());
        engine.receive(Event::Moved);
        assert_eq!(core.pending.listed(), 0);
        memory.resume();
        memory.heal();
        assert!(withdraws.await.unwrap().is_none());
        core.pending.listed()
    }

    /// Former bug: the client kept sending the number of shares of a released hold, until a lease
    /// of a day would have ended.
    #[tokio::test(start_paused = true)]
    async fn failed_hold_count_request_is_not_retried_after_the_release() {
        const LOADING: &str = "LOADING Redis is loading the dataset in memory";
        for (refusal, lease) in [(REFUSALS[1], 86_400), (LOADING, 30)] {
            let (memory, engine, client) = one();
            let lock = client.lock("door").unwrap().lease(Duration::from_secs(lease));
            let guard = lock.acquire().await.unwrap();
            let again = guard.reenter().await.unwrap();
            memory.fail(refusal);
            drop(again);
            sleep(Duration::from_secs(1)).await;
            assert_eq!(engine.core.pending.queued(), 1);
            drop(guard);
            sleep(Duration::from_secs(10)).await;
            assert_eq!(engine.core.pending.queued(), 1, "{refusal}");
            // and if the lease is 30 s, the client has given up one release: that of the hold
            sleep(Duration::from_secs(60)).await;
            assert_eq!(client.stats().releases_abandoned, u64::from(lease == 30), "{refusal}");
        }
    }

    /// Former bug: each failed reentry queued its own request with the number of shares, and all
    /// were sent at the same time.
    #[tokio::test(start_paused = true)]
    async fn hundred_failed_reentries_queue_one_hold_count_request() {
        let (memory, engine, client) = one();
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        memory.fail(REFUSALS[1]);
        for _ in 0..100 {
            assert!(guard.reenter().await.is_err());
        }
        assert_eq!(engine.core.pending.listed(), 1);
        memory.heal();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(engine.core.pending.listed(), 0);
        assert_eq!(
            engine.core.store.holder(&Object::lock("door")).await.unwrap().unwrap().count,
            1
        );
    }

    #[tokio::test(start_paused = true)]
    async fn retried_request_that_is_executed_late_is_withdrawn() {
        // given a grant by the second request, while the first request is still in flight
        let (_memory, engine, _client) = one();
        let store = Arc::clone(&engine.core.store);
        engine.ready().unwrap();
        let (ttl, now) = (Duration::from_secs(30), Instant::now());
        let name = Object::lock("door");
        let claim = Claim::plain(name.clone(), engine.identity.fresh_owner(), ttl);
        store.acquire(&claim, None).await.unwrap();
        let grant = Grant {
            id: engine.next_grant(),
            claim: claim.clone(),
            leased_at: now,
            asked_at: now.into(),
            replication: ReplicationStatus::default(),
            unsure: true,
            contended: false,
            budget: LocalHandoff::default().from(now),
            token: None,
            element: None,
        };

        // when the grant is released, and then the store executes the first request
        let local = LocalHandoff::default();
        let terms = Terms { renewed: true, max_hold: None, local };
        let hold = Arc::new(Hold::new(grant, terms, now, &engine.core.counters));
        assert!(
            hold.grant_for_next(now).is_some_and(|next| next.unsure),
            "the grant for the next hold is unsure, too"
        );
        hold.end(LostReason::Released, now).unwrap();
        engine.core.pending.queue(PendingRelease::of(&hold, ReleaseMode::HandOver, now));
        sleep(Duration::from_millis(100)).await;
        assert_eq!(store.holder(&name).await.unwrap(), None);
        store.acquire(&claim, None).await.unwrap();

        // then the grant of the first request is released as well
        sleep(LOOK_AGAIN.iter().sum()).await;
        assert_eq!(store.holder(&name).await.unwrap(), None);
    }
}
