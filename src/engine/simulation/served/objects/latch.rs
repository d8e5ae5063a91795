//! Workers that wait for a latch, and one worker that closes the latch and counts it down.

use tokio::time::sleep;

use super::{LONGEST_RETRY, Worker};
use crate::engine::simulation::served::facts::until_known;

impl Worker {
    /// Waits for a latch repeatedly.
    pub(super) async fn wait_for_latch(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            let before = self.book.note(|known| (known.closed, known.may_be_open));
            let once = async { Ok((latch.count().await? == 0).then_some(())) };
            if self.acquire(once, latch.wait()).await.is_none() {
                continue;
            }
            let after = self.book.note(|known| (known.closed, known.may_be_open));
            if before == after && !after.1 {
                self.book.breaks(format!("{} passes a closed latch", self.label));
            }
        }
    }

    /// Closes the latch and counts it down, repeatedly.
    pub(super) async fn count_latch_down(mut self) {
        let latch = self.client().latch("start").unwrap();
        for _ in 0..self.scenario.rounds {
            until_known(LONGEST_RETRY, || latch.set(3)).await;
            self.book.note(|known| {
                (known.closed, known.may_be_open) = (known.closed + 1, false);
            });
            self.log(|| "closes".into());
            loop {
                self.pause(self.scenario.rest).await;
                let left = until_known(LONGEST_RETRY, || latch.count()).await;
                if left <= 1 {
                    self.book.note(|known| known.may_be_open = true);
                }
                let counted = latch.count_down().await;
                self.log(|| format!("counts down, of {left}: {counted:?}"));
                if counted.is_err() {
                    sleep(LONGEST_RETRY).await;
                }
                if until_known(LONGEST_RETRY, || latch.count()).await == 0 {
                    break;
                }
            }
        }
    }
}
