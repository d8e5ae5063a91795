//! The state of one name while a task of this client holds it or waits for it.
//!
//! The mutex of [`NameRegistry`](super::NameRegistry) guards this state. A function that rarely
//! needs the time takes the clock as its parameter, because three readings of the clock cost 0.3
//! µs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::{follower::Messages, handoff::HandoffGrant, inbox::Inbox};
use crate::{
    domain::{ClientInfo, Holder, Owner, RemoteWaiters},
    engine::{
        clock::Clock,
        grant::LeaseProfile,
        hold::Hold,
        timing::{CONTENDED, HANDOFF_LIMIT, REPLY_IDLE_LIMIT, REQUESTER_IDLE_LIMIT},
    },
};

#[derive(Default)]
pub(super) struct Entry {
    pub(super) slot: SlotOwner,
    /// The exclusive or shared hold that this client relies on.
    pub(super) held: Weak<Hold>,
    /// `None` for a name without a waiter. Most names have no waiter, and the box saves 150 bytes
    /// for each such name.
    pub(super) wait_state: Option<Box<WaitState>>,
}

/// The owner of the request slot of a name.
#[derive(Default)]
pub(super) enum SlotOwner {
    #[default]
    Nobody,
    /// The task with this ticket, which sends requests to the store.
    Requester(u64),
    /// The hold of the grant with this number. While the hold lasts, no task sends requests.
    Hold(u64),
    /// A woken waiter that has not run yet.
    Woken(Box<PendingWakeup>),
}

/// A waiter that was woken to get the request slot.
pub(super) struct PendingWakeup {
    pub(super) ticket: u64,
    /// The lease profile that the waiter needs.
    pub(super) profile: LeaseProfile,
    /// The hand-off grant from the previous hold, if there is one.
    pub(super) handoff: Option<HandoffGrant>,
    /// When the waiter was woken.
    pub(super) at: Instant,
}

/// A hand-off grant for the owner of the request slot, and when it was offered. The owner may be
/// asleep.
pub(super) struct OfferedGrant {
    handoff: HandoffGrant,
    at: Instant,
}

/// The client info of a holder, as far as this client has read it.
pub(super) struct HolderClient {
    pub(super) owner: Owner,
    pub(super) asked_at: Instant,
    pub(super) info: Option<Arc<ClientInfo>>,
}

/// The waiters of a name in this process, and the known state of a holder in another client.
#[derive(Default)]
pub(super) struct WaitState {
    pub(super) waiting: BTreeMap<u64, Waiter>,
    pub(super) inbox: Arc<Inbox>,
    /// Whether the client is subscribed to the releases of the name.
    pub(super) listens: bool,
    /// If the owner of the slot reads the inbox: the lease profile that this owner needs.
    pub(super) requester: Option<LeaseProfile>,
    /// The hand-off grant for the owner of the slot.
    pub(super) offered: Option<OfferedGrant>,
    /// Until when the owner of the slot sleeps if no notification comes. `None` while the owner
    /// waits for a reply.
    pub(super) sleeps_until: Option<Instant>,
    /// When a check first found the owner of the slot idle: its request was due but not sent, or
    /// its reply had not been processed.
    pub(super) idle_since: Option<Instant>,
    /// The holder in the last reply, and when the request was sent. Some replies name no holder.
    pub(super) seen: Option<(Option<Holder>, Instant)>,
    /// The client info of the holder in `seen`.
    pub(super) client: Option<HolderClient>,
    /// When a release of this client last found waiters of other clients.
    pub(super) contended_at: Option<Instant>,
    /// The end of the current yield window, or of the last yield window.
    pub(super) yield_ends: Option<Instant>,
    /// Since when no task of this client waits for the name or follows it.
    pub(super) quiet_since: Option<Instant>,
    /// The messages for the tasks that follow the name. Each of these tasks has another reference
    /// to the messages.
    pub(super) messages: Option<Arc<Messages>>,
    /// When the watchdog will check this name.
    pub(super) due: Option<Instant>,
}

/// Why a waiter for the request slot is woken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wakeup {
    /// The waiter has the request slot.
    Slot,
    /// The reply to an earlier waiter is also valid for this waiter.
    Answered,
}

/// A waiter for the request slot.
pub(super) struct Waiter {
    pub(super) calls: oneshot::Sender<Wakeup>,
    pub(super) profile: LeaseProfile,
}

impl Entry {
    pub(super) fn wait_state(&mut self) -> &mut WaitState {
        self.wait_state.get_or_insert_default()
    }

    /// Whether no task sends requests for the name, and none waits for it or follows it.
    pub(super) fn is_quiet(&self) -> bool {
        let waited_for = self.wait_state.as_ref().is_some_and(|wait_state| {
            !wait_state.waiting.is_empty()
                || wait_state.messages.as_ref().is_some_and(|it| Arc::strong_count(it) > 1)
        });
        !waited_for && matches!(self.slot, SlotOwner::Nobody | SlotOwner::Hold(_))
    }

    /// Makes the tasks that follow the name send a request.
    pub(super) fn notify_followers(&self) {
        let messages = self.wait_state.as_ref().and_then(|it| it.messages.as_ref());
        messages.into_iter().for_each(|it| it.notify());
    }

    /// Whether no task of this client holds the name or waits for it.
    pub(super) fn is_idle(&self) -> bool {
        let held = self.held.strong_count() > 0;
        !held && matches!(self.slot, SlotOwner::Nobody) && self.next_wants().is_none()
    }

    /// Wakes every task in the line, because each task may take a share of the current hold. A task
    /// that gets no share keeps its position.
    pub(super) fn call_all(&mut self) {
        let Some(wait_state) = &mut self.wait_state else { return };
        for (_, waiter) in std::mem::take(&mut wait_state.waiting) {
            waiter.calls.send(Wakeup::Slot).ok();
        }
    }

    /// Whether this entry has no state and can be removed.
    pub(super) fn is_of_no_use(&self) -> bool {
        let nobodys = matches!(self.slot, SlotOwner::Nobody);
        nobodys && self.wait_state.is_none() && self.held.strong_count() == 0
    }

    /// Returns the hold that this client relies on, if its grant has this number.
    pub(super) fn hold_of(&self, grant: u64) -> Option<Arc<Hold>> {
        self.held.upgrade().filter(|hold| hold.grant.id == grant)
    }

    /// Whether the hold of this grant keeps the request slot.
    pub(super) fn is_kept_by(&self, grant: u64) -> bool {
        matches!(self.slot, SlotOwner::Hold(id) if id == grant)
    }

    /// Whether the task with this ticket has the request slot and sends requests.
    pub(super) fn is_asked_by(&self, ticket: u64) -> bool {
        matches!(self.slot, SlotOwner::Requester(requester) if requester == ticket)
    }

    /// Whether a waiter was woken, and the watchdog has not yet planned to check whether this
    /// waiter runs.
    pub(super) fn is_woken_unchecked(&self) -> bool {
        let SlotOwner::Woken(called) = &self.slot else { return false };
        let due = self.wait_state.as_ref().and_then(|wait_state| wait_state.due);
        due.is_none_or(|due| due > called.at + HANDOFF_LIMIT)
    }

    /// Whether the waiter with this ticket was woken for the request slot, and has not run yet.
    pub(super) fn has_woken(&self, ticket: u64) -> bool {
        matches!(&self.slot, SlotOwner::Woken(called) if called.ticket == ticket)
    }

    /// Returns the lease profile that the next waiter in line needs.
    pub(super) fn next_wants(&self) -> Option<LeaseProfile> {
        let (_, next) = self.wait_state.as_ref()?.waiting.first_key_value()?;
        Some(next.profile)
    }

    /// Whether the owner of the request slot can use a grant of this `profile`, and has no hand-off
    /// grant yet.
    pub(super) fn has_use_for(&self, profile: LeaseProfile) -> bool {
        match (&self.slot, &self.wait_state) {
            (SlotOwner::Woken(called), _) => called.handoff.is_none() && called.profile == profile,
            (SlotOwner::Requester(_), Some(wait_state)) => {
                wait_state.offered.is_none() && wait_state.requester == Some(profile)
            }
            _ => false,
        }
    }

    /// Offers `handoff` to the owner of the request slot, and wakes this task.
    pub(super) fn offer(&mut self, handoff: HandoffGrant, at: Instant) {
        if let SlotOwner::Woken(called) = &mut self.slot {
            called.handoff = Some(handoff);
        } else if let Some(wait_state) = &mut self.wait_state {
            wait_state.offered = Some(OfferedGrant { handoff, at });
            wait_state.inbox.ask_at(Instant::now());
        }
    }

    /// Takes the hand-off grant that was offered to the owner of the slot.
    pub(super) fn take_offered(&mut self) -> Option<HandoffGrant> {
        Some(self.wait_state.as_mut()?.offered.take()?.handoff)
    }

    /// Discards a hand-off of the grant with this number, because the store reported that this
    /// client lost the grant.
    pub(super) fn disown(&mut self, id: u64) {
        if let SlotOwner::Woken(called) = &mut self.slot {
            called.handoff.iter_mut().for_each(|handoff| handoff.disown(id));
        }
        let offered = self.wait_state.as_mut().and_then(|wait_state| wait_state.offered.as_mut());
        offered.into_iter().for_each(|offered| offered.handoff.disown(id));
    }

    /// If the task that was offered a hand-off grant has not taken it in time, releases the grant
    /// in the store. Otherwise returns when to check again.
    fn look_at_offer(&mut self, now: Instant) -> Option<Instant> {
        let offered = &mut self.wait_state.as_mut()?.offered;
        offered.take_if(|offered| now >= offered.at + HANDOFF_LIMIT);
        offered.as_ref().map(|offered| offered.at + HANDOFF_LIMIT)
    }

    /// Gives the request slot to the next task in line that still exists. If this task can use
    /// `handoff`, the task gets this grant, too. Otherwise the grant is released in the store.
    pub(super) fn wake_next(
        &mut self,
        mut handoff: Option<HandoffGrant>,
        now: impl FnOnce() -> Instant,
    ) {
        self.slot = SlotOwner::Nobody;
        let Some(wait_state) = &mut self.wait_state else { return };
        while let Some((ticket, next)) = wait_state.waiting.pop_first() {
            handoff = handoff.filter(|handoff| next.profile == handoff.profile());
            if next.calls.send(Wakeup::Slot).is_ok() {
                let (profile, at) = (next.profile, now());
                self.slot =
                    SlotOwner::Woken(Box::new(PendingWakeup { ticket, profile, handoff, at }));
                return;
            }
        }
    }

    /// Passes the reply to all waiters with this ticket or an earlier ticket.
    pub(super) fn share_reply_until(&mut self, ticket: u64) {
        let Some(wait_state) = &mut self.wait_state else { return };
        let after = wait_state.waiting.split_off(&(ticket + 1));
        for (_, waiter) in std::mem::replace(&mut wait_state.waiting, after) {
            // A dropped task needs no reply.
            waiter.calls.send(Wakeup::Answered).ok();
        }
    }

    /// Takes the request slot from a woken task that does not run, if another task waits or the
    /// woken task has a hand-off grant. Also takes the slot from a task that no longer sends
    /// requests, if another task waits. Returns when to check again.
    pub(super) fn check(&mut self, now: Instant) -> Option<Instant> {
        if let Some(again) = self.look_at_offer(now) {
            return Some(again);
        }
        if matches!(self.slot, SlotOwner::Requester(_)) {
            return self.look_at_requester(now);
        }
        let others = self.next_wants().is_some();
        let SlotOwner::Woken(called) = &mut self.slot else { return None };
        if !others && called.handoff.is_none() {
            return None;
        }
        if now >= called.at + HANDOFF_LIMIT {
            let handoff = called.handoff.take();
            self.wake_next(handoff, || now);
        }
        matches!(self.slot, SlotOwner::Woken(_)).then_some(now + HANDOFF_LIMIT)
    }

    /// Takes the request slot from a task that no longer sends requests, if another task waits.
    /// Returns when to check again.
    fn look_at_requester(&mut self, now: Instant) -> Option<Instant> {
        let wait_state =
            self.wait_state.as_mut().filter(|wait_state| !wait_state.waiting.is_empty())?;
        if let Some(again) = wait_state.is_to_wait_for_requester(now) {
            return Some(again);
        }
        // The old owner is woken to notice that it lost the slot. The next owner gets a new inbox,
        // so that the old owner receives none of the notifications of the next owner.
        let next = Arc::new(wait_state.inbox.another());
        std::mem::replace(&mut wait_state.inbox, next).ask_at(Instant::now());
        let offered = self.take_offered();
        self.wake_next(offered, || now);
        matches!(self.slot, SlotOwner::Woken(_)).then_some(now + HANDOFF_LIMIT)
    }

    /// Whether no task has wanted the name for `idle_lifetime`.
    pub(super) fn is_past(&self, now: Instant, idle_lifetime: Duration) -> bool {
        let since = self.wait_state.as_ref().and_then(|wait_state| wait_state.quiet_since);
        self.is_quiet() && since.is_some_and(|since| now >= since + idle_lifetime)
    }

    /// Records the waiters of other clients that a release found. `Outsiders`: this client yields
    /// to clients without a queue entry for one window. They may no longer want the lock, so this
    /// client yields for at most a quarter of the time. `Next`: after one window, the first client
    /// in the wait queue sends its request. This client waits for two windows, because after one
    /// window, both clients would send their requests at the same time.
    pub(super) fn note(&mut self, others: RemoteWaiters, now: Instant) {
        let wait_state = self.wait_state();
        wait_state.contended_at = Some(now);
        match others {
            RemoteWaiters::Outsiders(window)
                if wait_state.yield_ends.is_none_or(|it| now >= it + 3 * window) =>
            {
                wait_state.yield_ends = Some(now + window);
            }
            RemoteWaiters::Next(window) => wait_state.yield_ends = Some(now + 2 * window),
            RemoteWaiters::Outsiders(_) | RemoteWaiters::Listeners | RemoteWaiters::Nobody => {}
        }
    }

    /// Whether other clients wait for the name, according to recent releases.
    pub(super) fn is_contended(&self, clock: &Clock) -> bool {
        let at = self.wait_state.as_ref().and_then(|wait_state| wait_state.contended_at);
        at.is_some_and(|at| clock.now() < at + CONTENDED)
    }

    /// Returns for how long waiters without a queue entry may still send requests first.
    pub(super) fn head_start(&self, clock: &Clock) -> Option<Duration> {
        let ends = self.wait_state.as_ref()?.yield_ends?;
        Some(ends.saturating_duration_since(clock.now())).filter(|left| !left.is_zero())
    }
}

impl WaitState {
    /// Records until when the owner of the slot sleeps. `None`: the owner sends a request.
    pub(super) fn requester_sleeps(&mut self, until: Option<Instant>) {
        (self.sleeps_until, self.idle_since) = (until, None);
    }

    /// Returns when to check the owner of the slot again, if it may still be active.
    fn is_to_wait_for_requester(&mut self, now: Instant) -> Option<Instant> {
        let rests = match self.sleeps_until {
            Some(until) if now < until && !self.inbox.is_notified() => {
                self.idle_since = None;
                return Some(until.min(now + REQUESTER_IDLE_LIMIT));
            }
            Some(_) => REQUESTER_IDLE_LIMIT,
            None => REPLY_IDLE_LIMIT,
        };
        // The idle time counts from the first check that found the task idle. It does not count
        // from the time at which the request was due, because the whole process may have been
        // suspended.
        let late = *self.idle_since.get_or_insert(now) + rests;
        (now < late).then(|| late.min(now + REQUESTER_IDLE_LIMIT))
    }
}
