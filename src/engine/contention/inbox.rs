//! Notifications for the owner of a request slot: one inbox for each name.
//!
//! The mutex of an inbox is a leaf: no other lock is taken under it. A notification only decides
//! *when* the task sends its next request. So a lost, late or forged message changes nothing else.

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{domain::Mutex, store::SubscriptionLevel};

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    notices: Mutex<Notices>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Notices {
    level: SubscriptionLevel,
    /// Whether the store may have a queue entry of the owner of the request slot.
    queued: bool,
    /// When the owner of the request slot must send a request because of a notification.
    ask_at: Option<Instant>,
}

impl Inbox {
    pub(crate) fn level(&self) -> SubscriptionLevel {
        self.notices.lock().level
    }

    /// Records whether the store may have a queue entry of the owner of the request slot.
    pub(crate) fn queues(&self, queued: bool) {
        self.notices.lock().queued = queued;
    }

    /// Returns a new inbox with the same subscription.
    pub(super) fn another(&self) -> Self {
        let notices = Notices { level: self.level(), ..Notices::default() };
        Self { notices: Mutex::new(notices), changed: Notify::new() }
    }

    /// Whether a notification says that a request is due.
    pub(super) fn is_notified(&self) -> bool {
        self.notices.lock().ask_at.is_some_and(|at| at <= Instant::now())
    }

    /// Clears the inbox for the next owner of the request slot.
    pub(super) fn clear(&self) {
        let mut notices = self.notices.lock();
        (notices.queued, notices.ask_at) = (false, None);
    }

    /// Sets the level of the subscription. Also makes a request due, because a message may have
    /// been missed before.
    pub(super) fn receive(&self, level: SubscriptionLevel) {
        self.notices.lock().level = level;
        self.ask_at(Instant::now());
    }

    /// Records a release, and returns whether this makes a request due. If the release notified the
    /// first client in the wait queue, a waiter with a queue entry need not send a request.
    pub(super) fn freed(&self, queue_notified: bool) -> bool {
        let asks = !(queue_notified && self.notices.lock().queued);
        if asks {
            self.ask_at(Instant::now());
        }
        asks
    }

    /// Makes the owner of the request slot send its request at `moment`, or at an earlier time that
    /// is already set.
    pub(super) fn ask_at(&self, moment: Instant) {
        let mut notices = self.notices.lock();
        notices.ask_at = Some(notices.ask_at.map_or(moment, |before| before.min(moment)));
        drop(notices);
        self.changed.notify_one();
    }

    /// Waits until a request is due, but not beyond `limit`. Returns whether a notification came.
    pub(crate) async fn until_notified(&self, limit: Instant) -> bool {
        loop {
            let now = Instant::now();
            let notices = self.notices.lock().ask_at.take_if(|at| *at <= now);
            if notices.is_some() || now >= limit {
                return notices.is_some();
            }
            let due = self.notices.lock().ask_at.map_or(limit, |at| at.min(limit));
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    const LONG: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn notification_before_a_wait_ends_the_wait_at_once() {
        let inbox = Inbox::default();
        inbox.freed(false);
        let limit = Instant::now() + LONG;
        assert_eq!(inbox.until_notified(limit).now_or_never(), Some(true));
        assert_eq!(
            inbox.until_notified(limit).now_or_never(),
            None,
            "one notification ends only one wait"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn inbox_keeps_the_earliest_time_of_the_next_request() {
        let (inbox, start) = (Inbox::default(), Instant::now());
        inbox.ask_at(start + LONG / 3);
        inbox.ask_at(start + LONG / 2);
        assert!(inbox.until_notified(start + LONG).await);
        assert_eq!(start.elapsed(), LONG / 3);

        inbox.ask_at(Instant::now() + LONG);
        inbox.freed(false);
        assert_eq!(inbox.until_notified(start + 9 * LONG).now_or_never(), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn queued_waiter_ignores_a_release_that_woke_the_queue_head() {
        let (inbox, start) = (Inbox::default(), Instant::now());
        inbox.queues(true);
        inbox.freed(true);
        assert!(!inbox.until_notified(start + LONG).await);
        assert_eq!(start.elapsed(), LONG);

        // but a waiter without a queue entry sends a request, and any other release makes every
        // waiter send a request
        inbox.freed(false);
        assert_eq!(inbox.until_notified(start + 2 * LONG).now_or_never(), Some(true));
        inbox.clear();
        inbox.freed(true);
        assert_eq!(inbox.until_notified(start + 2 * LONG).now_or_never(), Some(true));
    }
}
