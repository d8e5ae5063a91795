//! Who waits for one lock, and whose turn it is. It decides as `lua/lock/hand_over.lua`
//! does, which says why.
//!
//! Pure: it is told the time, and who can be reached.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Owner, Place},
    store::{LATER, POLLERS_TURN, QUEUE_RESTS, RESERVATION, SOON, WARNED_AFTER},
};

/// The queue of one lock.
#[derive(Debug)]
pub(super) struct Queue {
    listening: VecDeque<Waiter>,
    polling: VecDeque<Waiter>,
    /// When it was left to those who do not queue, and whether none who listens had it since.
    gap_at: Option<(Instant, bool)>,
    /// When it was reserved for one who polls, and the same.
    turn_at: Option<(Instant, bool)>,
    began_at: Instant,
    asked_at: Instant,
}

/// One who has a place.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) session: u64,
    pub(super) owner: Owner,
    since: Instant,
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nobody queues.
    Nobodys,
    /// The lock is reserved for this one, for so long; it is told if it listens.
    Reserved { next: Waiter, time: Duration },
    /// The lock is left free for so long. Then this one asks.
    Gap { next: Waiter, time: Duration },
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            listening: VecDeque::new(),
            polling: VecDeque::new(),
            gap_at: None,
            turn_at: None,
            began_at: now,
            asked_at: now,
        }
    }

    /// Whether it has gone because nobody asked about it.
    pub(super) fn is_past(&self, now: Instant) -> bool {
        self.is_empty() || now >= self.asked_at + QUEUE_RESTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listening.is_empty() && self.polling.is_empty() && self.gap_at.is_none()
    }

    /// Gives `owner` a place at the end, unless it has one.
    pub(super) fn enter(&mut self, session: u64, owner: &Owner, place: Place, now: Instant) {
        let waiter = Waiter { session, owner: owner.clone(), since: now };
        let line = match place {
            Place::Kept | Place::Waited(_) => return,
            _ if self.has(owner) => None,
            Place::Listening => Some(&mut self.listening),
            Place::Polling => Some(&mut self.polling),
        };
        line.into_iter().for_each(|line| line.push_back(waiter.clone()));
        self.asked_at = now;
    }

    pub(super) fn has(&self, owner: &Owner) -> bool {
        self.owners().any(|it| it == owner)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.polling.iter().chain(&self.listening).map(|waiter| &waiter.owner)
    }

    /// Takes the place of `owner`. Returns whether it had one.
    pub(super) fn leave(&mut self, owner: &Owner) -> bool {
        let had = self.has(owner);
        self.listening.retain(|waiter| waiter.owner != *owner);
        self.polling.retain(|waiter| waiter.owner != *owner);
        had
    }

    /// The first one who listens and can be reached; who cannot be is gone.
    pub(super) fn first(&mut self, reached: impl Fn(u64) -> bool) -> Option<&Waiter> {
        while self.listening.front().is_some_and(|first| !reached(first.session)) {
            self.listening.pop_front();
        }
        self.listening.front()
    }

    /// Whose turn it is at `now`, when the lock is given back.
    pub(super) fn turn(
        &mut self,
        outsiders: bool,
        reached: impl Fn(u64) -> bool,
        now: Instant,
    ) -> Turn {
        let after_poller = !self.polling.is_empty() && is_first_since(&mut self.turn_at);
        if !after_poller && let Some(next) = self.poller(now) {
            return Turn::Reserved { next, time: POLLERS_TURN };
        }
        let Some(next) = self.first(reached).cloned() else {
            self.gap_at = None;
            self.turn_at.take_if(|_| self.polling.is_empty());
            return Turn::Nobodys;
        };
        let after_gap = is_first_since(&mut self.gap_at);
        if !after_poller
            && !after_gap
            && let Some(time) = self.gap(outsiders, now)
        {
            return Turn::Gap { next, time };
        }
        self.listening.pop_front();
        Turn::Reserved { next, time: RESERVATION }
    }

    fn poller(&mut self, now: Instant) -> Option<Waiter> {
        self.polling.front()?;
        if self.turn_at.is_some_and(|(at, _)| now < at + 2 * POLLERS_TURN) {
            return None;
        }
        self.turn_at = Some((now, true));
        self.polling.pop_front()
    }

    fn gap(&mut self, outsiders: bool, now: Instant) -> Option<Duration> {
        let seconds = now.saturating_duration_since(self.began_at).as_secs();
        let time = Duration::from_millis(2 << (seconds % 4));
        let rests = time * if outsiders { 5 } else { 50 };
        if self.gap_at.is_some_and(|(at, _)| now < at + rests) {
            return None;
        }
        let first = self.gap_at.replace((now, true)).is_none();
        (!first || outsiders).then_some(time)
    }

    /// Who looks who has the lock now, and when. Who came lately does so by itself.
    pub(super) fn warned(&self, behind: usize, now: Instant) -> Vec<(u64, Duration)> {
        let next = self.listening.iter().skip(behind).zip([SOON, LATER]);
        let next = next.filter(|(waiter, _)| waiter.since + WARNED_AFTER <= now);
        next.map(|(waiter, after)| (waiter.session, after)).collect()
    }
}

/// Whether this release is the first since `moment`. It goes to the first who listens.
fn is_first_since(moment: &mut Option<(Instant, bool)>) -> bool {
    moment.as_mut().is_some_and(|(_, first)| std::mem::take(first))
}
