//! Waits for a rate limiter. There is no hold and no notification: the reply of the store says how
//! long to wait.
//!
//! The tasks of one client form a line for each name. The first task has the request slot. This
//! task sleeps for as long as the last reply says, and sends the next request. While the line is
//! empty, several tasks may send requests at the same time, and join the line only after a
//! rejection. If the first task is dropped, the next task gets the slot.
//!
//! A task holds the mutex `slot` across its requests. The mutexes of `asks_at` and of the map of
//! lines are held only for a few instructions.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::{Mutex as SlotMutex, MutexGuard},
    time::{Instant, sleep_until, timeout_at},
};

use super::{Deadline, SILENCE};
use crate::{
    domain::{Failure, Mutex, Name},
    engine::{Engine, tasks::OnDrop, timing::LONGEST_TIMEOUT},
    error::Error,
    store::RedisStore,
};

/// When enough permits become free, a waiter delays its next request by a sixteenth of its waiting
/// time. If its timeout is too short, there is no delay. Redisson clients send their requests some
/// milliseconds late. Without this delay, they would get no permits while a Leasehold client waits.
const DELAY_DIVISOR: u32 = 16;

/// The upper limit of the delay by [`DELAY_DIVISOR`].
const LONGEST_DELAY: Duration = Duration::from_millis(10);

/// A reply that either decides a request, or says when to repeat it.
#[derive(Debug)]
pub(crate) enum Paced<T> {
    /// The request is decided, with this result.
    Now(T),
    /// The next request may succeed after this time.
    After(Duration),
}

/// The tasks of a client that wait for one name.
#[derive(Debug, Default)]
pub(crate) struct Line {
    slot: SlotMutex<()>,
    /// While the owner of the slot sleeps: when it will send its next request.
    asks_at: Mutex<Option<Instant>>,
}

impl Line {
    /// Returns how long the first task in line will still sleep. Until then, no other task sends a
    /// request.
    fn sleeps(&self) -> Option<Duration> {
        let asks_at = (*self.asks_at.lock())?;
        asks_at.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero())
    }

    /// Sleeps until `asks_at`. The caller is the owner of the slot.
    async fn sleep(&self, asks_at: Instant) {
        *self.asks_at.lock() = Some(asks_at);
        let _wakes = OnDrop::new(|| *self.asks_at.lock() = None);
        sleep_until(asks_at).await;
    }

    fn is_taken(&self) -> bool {
        self.slot.try_lock().is_err()
    }

    /// Waits for the request slot until `until`. Returns `None` if the slot is not free by then. If
    /// the owner of the slot sleeps beyond `until`, returns `None` at once.
    async fn request_slot(&self, until: Option<Instant>) -> Option<MutexGuard<'_, ()>> {
        let Some(until) = until else { return Some(self.slot.lock().await) };
        let is_vain = self.sleeps().is_some_and(|rest| Instant::now() + rest > until);
        match is_vain {
            true => None,
            false => timeout_at(until, self.slot.lock()).await.ok(),
        }
    }
}

/// The lines of a client, by kind and name. A line exists as long as this client has an object of
/// that kind and name.
#[derive(Debug, Default)]
pub(in crate::engine) struct Lines {
    lines: Mutex<HashMap<(&'static str, Name), Weak<Line>>>,
}

impl Lines {
    fn of(&self, kind: &'static str, name: &Name) -> Arc<Line> {
        let mut lines = self.lines.lock();
        let key = (kind, name.clone());
        if let Some(line) = lines.get(&key).and_then(Weak::upgrade) {
            return line;
        }
        // Unused lines are removed only when the map would grow, so that an insertion is cheap on
        // average.
        if lines.len() == lines.capacity() {
            lines.retain(|_, line| line.strong_count() > 0);
            let live = lines.len();
            lines.reserve(live);
        }
        let line = Arc::new(Line::default());
        lines.insert(key, Arc::downgrade(&line));
        line
    }
}

impl Engine {
    pub(crate) fn line(&self, kind: &'static str, name: &Name) -> Arc<Line> {
        self.lines.of(kind, name)
    }

    /// Sends one request. But if the first task in `line` sleeps, sends no request, and returns an
    /// error with the rest of that sleep.
    pub(crate) async fn pace_once<'a, T, A>(
        &'a self,
        name: &Name,
        line: &Line,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<Paced<T>, Failure>>,
    {
        self.ready()?;
        let wait = match line.sleeps() {
            Some(rest) => rest,
            None => match self.ask(name, ask).await? {
                Paced::Now(answer) => return Ok(answer),
                Paced::After(wait) => wait,
            },
        };
        Err(limited(name, wait))
    }

    /// Sends requests until the store grants permits or the timeout ends. Fails at once if the wait
    /// would be longer than the timeout.
    pub(crate) async fn pace<'a, T, A>(
        &'a self,
        name: &Name,
        line: &Line,
        within: Option<Deadline>,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<Paced<T>, Failure>>,
    {
        self.ready()?;
        let until = within.map(|within| within.until);
        let rest = |at: Instant| at.saturating_duration_since(Instant::now());
        let ask = || {
            // The future is boxed, because `pace` calls this closure twice, and the future of a
            // waiter must be small.
            let asked = Box::pin(self.ask_for(until.map_or(LONGEST_TIMEOUT, rest), name, &ask));
            async { self.unless_closed(asked).await? }
        };
        let in_time = |free_at| match until {
            Some(until) if free_at >= until => Err(limited(name, rest(free_at))),
            _ => Ok(()),
        };
        let mut free_at = Instant::now();
        if !line.is_taken() {
            match ask().await? {
                Paced::Now(answer) => return Ok(answer),
                Paced::After(wait) => free_at = Instant::now() + wait,
            }
        }
        in_time(free_at)?;
        let Some(_slot) = self.unless_closed(line.request_slot(until)).await? else {
            return Err(limited(name, line.sleeps().unwrap_or_default()));
        };
        loop {
            in_time(free_at)?;
            let later = free_at + (rest(free_at) / DELAY_DIVISOR).min(LONGEST_DELAY);
            let asks_at = if in_time(later + LONGEST_DELAY).is_ok() { later } else { free_at };
            self.unless_closed(line.sleep(asks_at)).await?;
            let asked_at = Instant::now();
            match ask().await {
                Ok(Paced::Now(answer)) => return Ok(answer),
                Ok(Paced::After(wait)) => free_at = Instant::now() + wait,
                // The timeout ended so soon after the request that the missing reply does not prove
                // an unavailable store.
                Err(Error::Unavailable { .. })
                    if in_time(Instant::now()).is_err() && asked_at.elapsed() < SILENCE =>
                {
                    return Err(limited(name, Duration::ZERO));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn limited(name: &Name, retry_after: Duration) -> Error {
    Error::RateLimited { name: name.clone(), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_line_of_a_dropped_limiter_is_removed() {
        let lines = Lines::default();
        let kept = lines.of("limiter", &Name::new("kept").unwrap());
        for number in 0..10_000 {
            lines.of("limiter", &Name::new(format!("{number}")).unwrap());
        }
        assert!(lines.lines.lock().capacity() < 100);
        assert!(Arc::ptr_eq(&kept, &lines.of("limiter", &Name::new("kept").unwrap())));
        assert!(!Arc::ptr_eq(&kept, &lines.of("throttle", &Name::new("kept").unwrap())));
    }
}
