//! Tasks that use a barrier, or a double barrier.

use tokio::time::timeout;

use super::{super::book::TrustedHold, Worker};

impl Worker {
    /// Arrives at a barrier repeatedly.
    pub(super) async fn use_barrier(mut self) {
        let barrier = self.client().barrier("phase", self.book.count).unwrap();
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            self.book.note(|known| known.arrivals += 1);
            let arrived = match self.chance.u32(..3) {
                0 => timeout(self.up_to(500), barrier.arrive_and_wait()).await.ok(),
                _ => Some(barrier.arrive_and_wait_within(self.up_to(20_000)).await),
            };
            self.log(|| format!("{arrived:?}"));
            if let Some(Ok(arrived)) = arrived {
                self.book.passed(arrived);
            }
        }
    }

    /// Enters a double barrier and leaves it, repeatedly.
    pub(super) async fn use_double_barrier(mut self) {
        let barrier = self.client().double_barrier("phase", self.book.count).unwrap();
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            self.book.note(|known| known.arrivals += 1);
            let entered = match self.chance.u32(..3) {
                0 => timeout(self.up_to(500), barrier.enter()).await.ok(),
                _ => Some(barrier.enter_within(self.up_to(20_000)).await),
            };
            self.log(|| format!("{entered:?}"));
            let Some(Ok(guard)) = entered else { continue };
            self.book.passed(guard.arrived());
            let generation = guard.arrived().generation;
            let trusted_hold = TrustedHold { generation, ..self.trusted_hold(guard.watch()) };
            let believes = self.book.entered(trusted_hold);
            self.pause(self.scenario.hold).await;
            drop(believes);
            let left = match self.chance.u32(..4) {
                0 => {
                    drop(guard);
                    continue;
                }
                1 => guard.leave_within(self.up_to(500)).await,
                _ => guard.leave().await,
            };
            self.log(|| format!("left: {left:?}"));
            if left.is_ok() {
                self.book.left(generation);
            }
        }
    }
}
