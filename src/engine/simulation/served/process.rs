//! The process of a client, and its machine, which has its own clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::engine::{clock::Clock, simulation::gate::Tasks};

/// How much faster or slower the clocks of clients run, in millionths. The largest drift is 1 %,
/// which the margin of a lease covers.
const DRIFTS: [i32; 4] = [-10_000, 10_000, 0, -5_000];

/// The highest number of tokio runtimes that end while one client uses them. After each such end,
/// new tasks work for the client, so this number bounds the length of the run.
const RUNTIMES: u32 = 5;

#[derive(Default)]
pub(super) struct Process {
    /// How long the machine was suspended, in milliseconds.
    slept: Arc<AtomicU64>,
    /// The tasks of the client's engine.
    pub(super) engine: Tasks,
    is_shut: AtomicBool,
    /// How many tokio runtimes have ended while the client used them.
    runtimes: AtomicU32,
}

impl Process {
    /// Returns whether the shutdown of the client has begun.
    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    pub(super) fn shuts(&self) {
        self.is_shut.store(true, Ordering::Relaxed);
    }

    /// Records that the machine was suspended for `time`.
    pub(super) fn sleeps(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.slept.fetch_add(millis, Ordering::Relaxed);
    }

    /// Returns whether one more runtime of the client may end.
    pub(super) fn may_lose_its_runtime(&self) -> bool {
        !self.is_shut() && self.runtimes.load(Ordering::Relaxed) < RUNTIMES
    }

    /// Aborts the tasks of the client's engine.
    pub(super) fn loses_its_runtime(&self) {
        self.runtimes.fetch_add(1, Ordering::Relaxed);
        self.engine.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    /// Returns the clock of the client with this `number`.
    pub(super) fn clock(&self, number: u32) -> Clock {
        // The suspended time begins with this value, which is more than a slow clock loses in a
        // run. So the suspended time never becomes negative.
        const AHEAD: Duration = Duration::from_secs(1_000);
        let drift = DRIFTS[number as usize % DRIFTS.len()];
        let (begun, slept) = (Instant::now(), Arc::clone(&self.slept));
        let runs = Arc::<AtomicBool>::default();
        let is_running = Arc::clone(&runs);
        let clock = Clock::with(move || {
            if !is_running.load(Ordering::Relaxed) {
                return Duration::ZERO;
            }
            let drifted = begun.elapsed().mul_f64(f64::from(drift.unsigned_abs()) / 1e6);
            let ahead = AHEAD + Duration::from_millis(slept.load(Ordering::Relaxed));
            if drift < 0 { ahead - drifted } else { ahead + drifted }
        });
        runs.store(true, Ordering::Relaxed);
        clock
    }
}
