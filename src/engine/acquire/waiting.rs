//! Decides until when one acquisition waits before its next request.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    domain::{Backoff, Place, spread},
    engine::timing::{
        FIRST_LOOK, LATE_ANSWERS, LATE_REST, LONG_WAIT_AFTER, LONGEST_LATE_WAIT,
        LONGEST_SEATED_WAIT, LONGEST_WAIT, LONGEST_WAIT_UNNOTIFIED, VAIN_QUESTIONS, VAIN_REST,
    },
    store::SubscriptionLevel,
};

/// The waiting time and the requests of one acquisition so far. This type reads no clock: the
/// caller passes the time.
#[derive(Default)]
pub(super) struct Waiting {
    /// When the acquisition joined the line of its process. If it did not wait in line: when it
    /// sent the first request that the store rejected.
    since: Option<Instant>,
    /// Whether the store has rejected a request.
    refused: bool,
    /// When to send the first request after the request that added the queue entry.
    first_request: Option<Instant>,
    /// Whether a request has reported a long wait to the store.
    is_long: bool,
    /// How many notifications in a row led to a request without a grant.
    vain: u32,
    /// How long the last reply took.
    took: Duration,
    /// For how many names the client repeats requests.
    names: u32,
    polls: Backoff,
}

impl Waiting {
    /// Returns the state of an acquisition that has waited in line since `since`. `None` means that
    /// the acquisition has not waited.
    pub(super) fn since_when(since: Option<Instant>) -> Self {
        Self { since, ..Self::default() }
    }

    /// Returns how long the acquisition has waited at `now`.
    pub(super) fn for_so_long(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Whether the store has rejected a request.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }

    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Records that the store rejected the request sent at `asked_at`, and whether a notification
    /// caused this request.
    pub(super) fn in_vain(&mut self, asked_at: Instant, notified: bool) {
        self.since.get_or_insert(asked_at);
        self.refused = true;
        self.vain = if notified { self.vain.saturating_add(1) } else { 0 };
    }

    pub(super) fn answered_after(&mut self, took: Duration) {
        self.took = took;
    }

    /// Records for how many names the client repeats requests, including this name.
    pub(super) fn is_one_of(&mut self, names: u32) {
        self.names = names;
    }

    /// Returns `longest`, or a longer time if the last reply was late and the client waits for many
    /// names.
    pub(super) fn unhurried(&self, longest: Duration) -> Duration {
        let late = (self.took * LATE_ANSWERS).min(LATE_REST * self.names);
        longest.max(late.min(LONGEST_LATE_WAIT))
    }

    /// Returns the queue entry to request at `now`.
    pub(super) fn place(&mut self, level: SubscriptionLevel, now: Instant) -> Option<Place> {
        if level == SubscriptionLevel::Turns {
            self.first_request
                .get_or_insert_with(|| now + FIRST_LOOK.mul_f64(1.0 + fastrand::f64() / 4.0));
            return Some(Place::Listening);
        }
        self.may_have_place().then_some(Place::Kept)
    }

    /// Returns the [`Place`] of a waiter whose requests keep an entry in the store, with or without
    /// a subscription.
    pub(super) fn is_known(&mut self, now: Instant) -> Place {
        self.first_request.get_or_insert(now);
        Place::Kept
    }

    /// Returns the waiting time to report at `now`, for an object without a wait queue. Before
    /// `LONG_WAIT_AFTER`, returns `None`.
    pub(super) fn waited(&mut self, now: Instant) -> Option<Place> {
        let waited = now.saturating_duration_since(self.since?);
        self.is_long |= waited >= LONG_WAIT_AFTER;
        self.is_long.then_some(Place::Waited(waited))
    }

    /// Whether the store may have a queue entry or a long waiting time of this acquisition.
    pub(super) fn may_have_place(&self) -> bool {
        self.first_request.is_some() || self.is_long
    }

    /// Returns how long to wait for a message at `now`.
    pub(super) fn for_messages(&self, level: SubscriptionLevel, now: Instant) -> Duration {
        match (level, self.first_request) {
            (SubscriptionLevel::Nothing, _) => spread(self.unhurried(LONGEST_WAIT_UNNOTIFIED)),
            (SubscriptionLevel::Turns, Some(look)) if now < look => look - now,
            (SubscriptionLevel::Turns | SubscriptionLevel::Releases, _) => {
                spread(self.unhurried(LONGEST_WAIT))
            }
        }
    }

    /// Returns how long to wait at most, so that the next request comes before the store removes
    /// the waiter's entry.
    pub(super) fn to_stay_alive(&self) -> Duration {
        spread(self.unhurried(LONGEST_SEATED_WAIT).min(LONGEST_WAIT))
    }

    /// Returns how long to wait for a change that may come without a message.
    pub(super) fn for_the_unannounced(&self) -> Duration {
        spread(self.unhurried(LONGEST_WAIT_UNNOTIFIED))
    }

    /// Returns the next pause of a polling waiter, which grows from `first` to `longest`.
    pub(super) fn for_poll(&mut self, first: Duration, longest: Duration) -> Duration {
        self.polls.next((first.min(longest), longest))
    }

    /// Returns how long to ignore notifications, if many in a row led to requests without a grant.
    pub(super) fn pause_despite_notification(&self) -> Option<Duration> {
        (self.vain >= VAIN_QUESTIONS).then_some(VAIN_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_waiter_with_its_own_notifications_gets_a_queue_entry() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.in_vain(now, false);
        for level in [SubscriptionLevel::Nothing, SubscriptionLevel::Releases] {
            assert_eq!(waiting.place(level, now + Duration::from_secs(9)), None);
        }
        assert!(!waiting.may_have_place());
        assert_eq!(waiting.place(SubscriptionLevel::Turns, now), Some(Place::Listening));
        // Later requests still name the queue entry, so that a grant removes it.
        for level in [SubscriptionLevel::Nothing, SubscriptionLevel::Releases] {
            assert_eq!(waiting.place(level, now), Some(Place::Kept));
        }
    }

    #[test]
    fn queued_waiter_sends_a_request_soon_and_then_rarely() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.place(SubscriptionLevel::Turns, now);
        let look = waiting.for_messages(SubscriptionLevel::Turns, now);
        assert!(look >= FIRST_LOOK && look <= FIRST_LOOK.mul_f64(1.25));
        // but only once, because a waiter that has just sent a request needs no other request soon
        for _ in 0..100 {
            assert!(
                waiting.for_messages(SubscriptionLevel::Turns, now + look)
                    >= LONGEST_WAIT.mul_f64(0.75)
            );
        }
        assert!(
            waiting.for_messages(SubscriptionLevel::Nothing, now)
                <= LONGEST_WAIT_UNNOTIFIED.mul_f64(1.25)
        );
    }

    #[test]
    fn late_replies_slow_down_waiters_of_a_client_with_many_names() {
        let now = Instant::now();
        let (late, longest) = (LONGEST_LATE_WAIT / LATE_ANSWERS, LONGEST_LATE_WAIT);
        let waits = |names: u32, took: Duration, level: SubscriptionLevel| {
            let mut waiting = Waiting::default();
            waiting.is_one_of(names);
            waiting.answered_after(took);
            waiting.for_messages(level, now)
        };
        let cases = [
            (1, 3 * late, LONGEST_WAIT_UNNOTIFIED, LONGEST_WAIT),
            (600, 3 * late, LONGEST_WAIT_UNNOTIFIED, LONGEST_WAIT),
            (5_000, 3 * late, Duration::from_secs(2), LONGEST_WAIT),
            (100_000, Duration::ZERO, LONGEST_WAIT_UNNOTIFIED, LONGEST_WAIT),
            (100_000, late / 2, longest / 2, longest / 2),
            (u32::MAX, 3 * late, longest, longest),
        ];
        for (names, took, unsubscribed, last_reply) in cases {
            for (level, longest) in [
                (SubscriptionLevel::Nothing, unsubscribed),
                (SubscriptionLevel::Releases, last_reply),
            ] {
                let wait = waits(names, took, level);
                assert!(wait >= longest.mul_f64(0.75) && wait <= longest.mul_f64(1.25), "{names}");
            }
        }
    }

    #[test]
    fn waiter_reports_its_waiting_time_after_a_long_wait() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        assert_eq!(waiting.waited(now), None);
        waiting.in_vain(now, false);
        assert_eq!(waiting.waited(now + LONG_WAIT_AFTER - Duration::from_millis(1)), None);
        assert!(!waiting.may_have_place());
        let long = Some(Place::Waited(LONG_WAIT_AFTER));
        assert_eq!(waiting.waited(now + LONG_WAIT_AFTER), long);
        assert!(waiting.may_have_place());
    }

    #[test]
    fn waiting_time_includes_the_time_in_the_local_line() {
        let now = Instant::now();
        let mut waiting = Waiting::since_when(Some(now));
        let later = now + LONG_WAIT_AFTER;
        assert_eq!(waiting.for_so_long(later), LONG_WAIT_AFTER);
        assert_eq!(waiting.waited(later), Some(Place::Waited(LONG_WAIT_AFTER)));
        assert!(!waiting.was_refused());
        waiting.in_vain(later, false);
        assert_eq!((waiting.since(), waiting.was_refused()), (Some(now), true));
    }

    #[test]
    fn waiter_pauses_after_many_notifications_without_a_grant() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for _ in 0..VAIN_QUESTIONS {
            assert_eq!(waiting.pause_despite_notification(), None);
            waiting.in_vain(now, true);
        }
        assert_eq!(waiting.pause_despite_notification(), Some(VAIN_REST));
        waiting.in_vain(now, false);
        assert_eq!(waiting.pause_despite_notification(), None);
    }
}
