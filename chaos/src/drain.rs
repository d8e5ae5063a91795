//! The end of a run: all remaining elements of queues are claimed and reported as done, and dead
//! waiters leave the wait queues of fair locks.

use std::thread::sleep;
use std::time::Duration;

use leasehold::blocking::{Client, Queue};
use leasehold::{Error, Release};

use crate::clock::{Nanos, nanos, now};
use crate::orders::{Kind, Mode, Object};
use crate::worker::{Shared, look};
use crate::worker_event::WorkerEvent;

/// Claims elements until all queues are empty, and records the claims. The claims of dead workers
/// end within a lease. Returns what failed.
#[must_use]
pub fn drain(client: &Client, objects: &[Object], record: &Shared, ttl: Duration) -> Vec<String> {
    let queues = objects.iter().filter(|it| it.kind == Kind::Queue);
    let limit = now() + nanos(ttl + GRACE);
    let mut drain = Drain { record, next_hold: 1, limit };
    let drained = queues.map(|it| drain.empty(&client.queue(&it.name)?));
    let failed = drained.filter_map(|result: Result<(), Error>| result.err());
    failed.map(|error| format!("the drain failed: {error}")).collect()
}

/// Acquires and releases each fair lock once. A grant proves that the dead waiters of the lock have
/// left its wait queue. Returns what failed.
#[must_use]
pub fn clear_fair_queues(client: &Client, objects: &[Object]) -> Vec<String> {
    let fair = objects.iter().filter(|it| it.kind == Kind::Fair);
    let cleared =
        fair.map(|it| client.fair_lock(&it.name)?.acquire_within(FAIR)?.release()?.into_result());
    let failed = cleared.filter_map(|result: Result<(), Error>| result.err());
    failed.map(|error| format!("a queue is not clear: {error}")).collect()
}

struct Drain<'a> {
    record: &'a Shared,
    next_hold: u64,
    limit: Nanos,
}

impl Drain<'_> {
    fn empty(&mut self, queue: &Queue<String>) -> Result<(), Error> {
        while now() < self.limit {
            while self.claim(queue)? {}
            if queue.claimed()? == 0 {
                break;
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Claims one element, and reports it as done. Returns whether the queue had an element.
    fn claim(&mut self, queue: &Queue<String>) -> Result<bool, Error> {
        let (hold, call) = (self.next_hold, now());
        let Some(claim) = queue.try_claim()? else { return Ok(false) };
        self.next_hold += 1;
        let (name, mode) = (queue.name().to_string(), Mode::Claim);
        self.note(WorkerEvent::Ask { hold, name, mode, call });
        let (at, element) = (now(), Some(claim.value().clone()));
        self.note(WorkerEvent::Enter { hold, at, token: None, element });
        self.note(WorkerEvent::Leaving { hold, at: now() });
        let released = claim.done()?;
        let at = now();
        self.note(match released {
            Release::NotHeld { .. } => WorkerEvent::Lost { hold, at },
            _ => WorkerEvent::Done { hold, at },
        });
        Ok(true)
    }

    fn note(&self, event: WorkerEvent) {
        look(self.record).note("drain", event);
    }
}

/// The longest time from the end of a claim's lease until its element is back in the queue.
const GRACE: Duration = Duration::from_secs(2);
/// After this time, the timeouts of dead Redisson waiters have ended.
const FAIR: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
