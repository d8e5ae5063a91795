//! The watchdog renews leases. One task and one timer serve all leases of a client.
//!
//! [`Schedule`] decides when to renew, which leases to renew together, and which have expired. The
//! schedule does no I/O and reads no clock. This file sends the renewals that are due, and reports
//! the replies to the schedule. The watchdog also checks names whose waiting tasks may not be
//! polled.

mod schedule;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    task::coop::unconstrained,
    time::{Instant, sleep_until},
};

use self::schedule::Schedule;
use super::{
    contention::NameRegistry,
    core::Core,
    hold::Hold,
    pending::PendingRelease,
    timing::{LAG_SHOWN, LONGEST_SLEEP, OWN_HOLD_LOGGED},
};
use crate::{
    domain::{Failure, LogThrottle, Mutex, Outcome, ReleaseMode, Renewal},
    store::RedisStore,
};

/// How many leases one request renews. Such a request takes 183 µs of the server's time. A request
/// for 500 leases would block the server for 866 µs, and would hardly cost less per lease.
const BATCH: u32 = 100;

/// The watchdog of one client.
///
/// Its only mutex guards the plan, and is locked before the state of a hold. While the mutex is
/// locked, the watchdog notifies tasks that await a loss. The watchdog calls `contention` only
/// after it has unlocked the mutex.
pub(crate) struct Watchdog {
    core: Arc<Core>,
    contention: Arc<NameRegistry>,
    plan: Mutex<Plan>,
    failing: LogThrottle,
    waits_for_itself: LogThrottle,
}

struct Plan {
    schedule: Schedule,
    /// When the background task will check the schedule next.
    looks_at: Instant,
    /// Until when the delay of the last renewal is shown.
    lag_until: Option<Instant>,
}

/// The holds in one renewal request, when this request was sent, and its reply.
type Answered = (Vec<Arc<Hold>>, Instant, Result<Vec<Outcome>, Failure>);

impl Watchdog {
    pub(crate) fn new(core: &Arc<Core>, contention: &Arc<NameRegistry>) -> Arc<Self> {
        let looks_at = core.clock.now();
        Arc::new(Self {
            core: Arc::clone(core),
            contention: Arc::clone(contention),
            plan: Mutex::new(Plan { schedule: Schedule::default(), looks_at, lag_until: None }),
            failing: LogThrottle::default(),
            waits_for_itself: LogThrottle::default(),
        })
    }

    /// Renews the grant of `hold` until [`unwatch`](Self::unwatch). The grant is new, or is
    /// `taken_over` from an earlier hold.
    pub(crate) fn watch(&self, hold: &Arc<Hold>, taken_over: bool) {
        self.replan(|schedule| schedule.watch(hold, taken_over));
    }

    /// Makes the store check the grant with this number, at least `ECHO` after the last check.
    pub(super) fn ask_about(&self, id: u64) {
        self.replan(|schedule| schedule.ask_about(id, self.core.clock.now()));
    }

    /// Makes the store check all grants of this client.
    pub(super) fn ask_about_all(&self) {
        self.replan(|schedule| schedule.ask_about_all(self.core.clock.now()));
    }

    /// Changes the schedule. Wakes the background task only if a check is due before the next time
    /// at which the task wakes. So a lock that is acquired and released in a loop does not wake
    /// this task each time. In return, the task sometimes wakes when no check is due.
    fn replan(&self, change: impl FnOnce(&mut Schedule)) {
        let mut plan = self.plan.lock();
        change(&mut plan.schedule);
        if let Some(next) = plan.schedule.next().filter(|next| *next < plan.looks_at) {
            plan.looks_at = next;
            self.core.notifier.notify_one();
        }
    }

    /// Stops renewing the grant with this number.
    pub(super) fn unwatch(&self, id: u64) {
        self.plan.lock().schedule.unwatch(id);
    }

    /// Returns every hold that the watchdog renews or checks.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.plan.lock().schedule.holds()
    }

    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.plan.lock().schedule.len()
    }

    /// Renews the holds that are due, until the engine is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        // The requests of an earlier runtime may have been lost when that runtime ended.
        self.plan.lock().schedule.forget_requests(self.core.clock.now());
        let mut asked: FuturesUnordered<BoxFuture<'_, Answered>> = FuturesUnordered::new();
        loop {
            let looks_at = self.next_check(&asked);
            tokio::select! {
                biased;
                _ = self.core.used.acquire() => return,
                // `unconstrained`, so that one poll handles all replies that have come: on a busy
                // runtime, the next poll may be late.
                Some(answered) = unconstrained(asked.next()) => self.received(answered),
                () = self.core.notifier.notified() => {}
                () = sleep_until(looks_at) => {}
            }
        }
    }

    /// Sends the renewals that are due. Returns when to check again.
    fn next_check<'a>(&'a self, asked: &FuturesUnordered<BoxFuture<'a, Answered>>) -> Instant {
        let stirs_at = self.contention.check_due_names();
        let mut plan = self.plan.lock();
        let now = self.core.clock.now();
        let due = plan.schedule.tick(now);
        if !due.renew.is_empty() {
            self.core.counters.lagged(due.lag);
            plan.lag_until = Some(now + LAG_SHOWN);
        } else if plan.lag_until.take_if(|until| now >= *until).is_some() {
            self.core.counters.lagged(Duration::ZERO);
        }
        for batch in batches(&self.core.store, &due.renew) {
            asked.push(renew(&self.core.store, batch, now).boxed());
        }
        let longest = self.core.clock.now() + LONGEST_SLEEP;
        let planned = [plan.schedule.next(), stirs_at].into_iter().flatten().min();
        let looks_at = planned.map_or(longest, |next| next.min(longest));
        plan.looks_at = looks_at;
        drop(plan);
        due.over.iter().for_each(|hold| self.has_ended(hold, now));
        due.renew.iter().for_each(|hold| self.log_self_wait(hold, now));
        self.core.clock.timer(looks_at)
    }

    /// Lets waiters send requests after `hold` has ended. If the store may keep the hold for longer
    /// than its lease, queues its release.
    fn has_ended(&self, hold: &Arc<Hold>, now: Instant) {
        if hold.may_outlast_its_lease() {
            // Waiters may send requests when this release has a reply.
            self.core.pending.queue(PendingRelease::of(hold, ReleaseMode::HandOver, now));
        } else {
            self.contention.left(hold);
        }
    }

    /// Logs a warning if a task of this client waits for a lock that the same client holds. The
    /// client may be waiting for itself.
    fn log_self_wait(&self, hold: &Hold, now: Instant) {
        let held = hold.held_for(now);
        if held >= OWN_HOLD_LOGGED
            && self.contention.is_waited_for(hold.object())
            && let Some(times) = self.waits_for_itself.once_more(now)
        {
            tracing::warn!(target: "leasehold", lock = %hold.name(), owner = %hold.grant.claim.owner,
                ?held, times, "self-wait detected: this client waits for a lock that it holds");
        }
    }

    fn received(&self, (holds, asked_at, answer): Answered) {
        let outcomes = answer.unwrap_or_else(|failure| {
            if let Some(times) = self.failing.once_more(self.core.clock.now()) {
                let lock = holds.first().map(|hold| tracing::field::display(hold.name()));
                tracing::warn!(target: "leasehold", lock, holds = holds.len(), %failure, times,
                    "renewals failed: retrying until the leases end");
            }
            tracing::debug!(target: "leasehold", holds = holds.len(), %failure, "renewal batch failed");
            vec![Outcome::Unknown; holds.len()]
        });
        // Fixed leases are only checked, so they do not count as renewed.
        let of_kind = |which| {
            let both = holds.iter().zip(&outcomes);
            both.filter(|(hold, outcome)| hold.renewed && **outcome == which).count()
        };
        let (renewed, failed) = (of_kind(Outcome::Renewed), of_kind(Outcome::Unknown));
        self.core.counters.renewed(renewed, failed);
        tracing::debug!(target: "leasehold", holds = holds.len(), renewed, failed, "renewal batch completed");

        let now = self.core.clock.now();
        let mut plan = self.plan.lock();
        // After a hand-off, another hold has the grant. If the store has lost the grant, both holds
        // have lost this grant.
        let mut gone = Vec::new();
        for (hold, outcome) in holds.iter().zip(&outcomes) {
            gone.extend(plan.schedule.answered(hold, *outcome, asked_at, now));
            gone.extend((*outcome == Outcome::NotOwned).then(|| Arc::clone(hold)));
        }
        drop(plan);
        gone.iter().for_each(|hold| self.contention.disown(hold));
    }
}

/// Splits `holds` into parts for one request each. A hold of several permits counts as one lease
/// per permit.
fn batches(store: &RedisStore, holds: &[Arc<Hold>]) -> Vec<Vec<Arc<Hold>>> {
    let mut batches: Vec<Vec<Arc<Hold>>> = Vec::new();
    // The last batch of each group from `RedisStore::group`, and the number of its leases.
    let mut last: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
    for hold in holds {
        let leases = hold.grant.claim.units().max(1);
        let (at, full) = last.entry(store.group(hold.object())).or_insert((usize::MAX, BATCH));
        if *full > BATCH - leases.min(BATCH) {
            (*at, *full) = (batches.len(), 0);
            batches.push(Vec::new());
        }
        *full = full.saturating_add(leases);
        batches[*at].push(Arc::clone(hold));
    }
    batches
}

async fn renew(store: &RedisStore, holds: Vec<Arc<Hold>>, asked_at: Instant) -> Answered {
    let renewals: Vec<Renewal> = holds.iter().map(|hold| hold.renewal()).collect();
    let answer = store.renew(&renewals).await;
    (holds, asked_at, answer)
}

#[cfg(test)]
mod tests {
    use tokio::{
        task::yield_now,
        time::{advance, sleep},
    };

    use super::*;
    use crate::{Client, MemoryStore, engine::Engine};

    /// Former bug: tokio's budget limited how many replies the task processed in one poll. So holds
    /// that the store had renewed were lost.
    #[tokio::test(start_paused = true)]
    async fn watchdog_processes_all_received_replies_at_once() {
        // Each hold has as many leases as one request renews.
        let (number, memory) = (1_000, MemoryStore::new());
        let client = Client::with_store(&memory);
        let pool = client.expirable_semaphore("pool").unwrap();
        pool.set(number * BATCH).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..number {
            held.push(pool.acquire_many(BATCH).await.unwrap());
        }
        memory.stall();
        sleep(Duration::from_secs(11)).await;
        memory.resume();
        yield_now().await;
        assert_eq!(client.stats().renewals, u64::from(number));
    }

    /// Former bug: the delay of a late renewal was shown until the next renewal. If no renewal
    /// followed, the alert never ended.
    #[tokio::test(start_paused = true)]
    async fn renewal_lag_returns_to_zero_when_no_renewal_follows() {
        let client = Client::with_store(&MemoryStore::new());
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        advance(Duration::from_secs(15)).await;
        sleep(Duration::from_millis(1)).await;
        let late = client.stats().renewal_lag;
        guard.release().await.unwrap().into_result().unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(client.stats().renewal_lag, late);
        sleep(Duration::from_secs(120)).await;
        let stats = client.stats();
        assert_eq!(stats.renewal_lag, Duration::ZERO);
        assert!(stats.renewal_lag_max == late && late > Duration::from_secs(5), "{late:?}");
    }

    /// A read hold of the same owner keeps the lock in the store for longer than the lease of the
    /// write hold.
    #[tokio::test(start_paused = true)]
    async fn expired_write_hold_with_a_read_hold_is_released() {
        let memory = MemoryStore::new();
        let engine = Engine::on(&memory, "one");
        let prices = Client::of(Arc::clone(&engine)).read_write_lock("prices").unwrap();
        for read_under_write in [false, true] {
            let writes = prices.write().lease(Duration::from_secs(1)).acquire().await.unwrap();
            let reads = match read_under_write {
                true => Some(prices.acquire_read_with(&writes).await.unwrap()),
                false => None,
            };
            sleep(Duration::from_millis(900)).await;
            memory.fail("LOADING Redis is loading the dataset in memory");
            writes.lost().await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(engine.core.pending.queued(), usize::from(read_under_write));
            // The release stays queued after the lease of the write hold has ended in the store.
            sleep(Duration::from_secs(2)).await;
            assert_eq!(engine.core.pending.queued(), usize::from(read_under_write));
            memory.heal();
            sleep(Duration::from_secs(5)).await;
            assert_eq!(engine.core.pending.queued(), 0);
            drop((reads, writes));
        }
    }
}
