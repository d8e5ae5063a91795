//! The line of tasks that wait for a name, and the permission to send requests for it.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    Entries, NameRegistry,
    entry::{Entry, SlotOwner, Waiter, Wakeup},
    handoff::HandoffGrant,
    inbox::Inbox,
};
use crate::{
    domain::{Object, WaiterRecord},
    engine::{
        clock::Stamp, core::Core, grant::LeaseProfile, hold::Hold, tasks::OnDrop,
        timing::REQUESTER_IDLE_LIMIT,
    },
};

/// The permission of a task to send requests for one name. The permission ends when this value is
/// dropped, or when a hold takes over the request slot.
pub(crate) struct RequestSlot {
    contention: Arc<NameRegistry>,
    object: Object,
    pub(crate) position: LinePosition,
    /// The hand-off grant from the previous hold, if there is one.
    pub(crate) handoff: Option<HandoffGrant>,
    /// The inbox that wakes this task, if the client is already subscribed to the name. Then even
    /// the first request may add a queue entry, because the task misses no later message.
    pub(crate) inbox: Option<Arc<Inbox>>,
    /// For how long waiters without a queue entry may still send requests first.
    pub(crate) head_start: Option<Duration>,
    /// The highest ticket at the time of the last request. A task with this ticket or a lower
    /// ticket was in line at that time. The first ticket is 1, so 0 means that no request was sent.
    asked_after: u64,
    spent: bool,
}

impl NameRegistry {
    /// Waits for the request slot of `object`. Returns `None` if the client is shut down, or if no
    /// background task can run. The task can use a hand-off grant with the profile in `spec`. A
    /// polling waiter does not subscribe to releases, because its client may receive no messages.
    /// `revive` restarts the background task if it has ended, and returns whether the task runs.
    pub(crate) async fn slot(
        self: &Arc<Self>,
        object: &Object,
        spec: &WaiterSpec,
        revive: impl Fn() -> bool,
    ) -> Option<Entrance> {
        let mut line_entry = match self.take_or_wait(object, spec, spec.again)? {
            Ok(entrance) => return Some(entrance),
            Err(line_entry) => line_entry,
        };
        let ticket = line_entry.ticket;
        let since = spec.again.and_then(|position| position.since);
        // A waiter with a queue entry needs no arrival time in its position, because the queue
        // entry has this time.
        let counts = object.traits().waiter_record != WaiterRecord::QueueEntry;
        let now = || counts.then(|| self.core.clock.now().into());
        let position = LinePosition { ticket, since: since.or_else(now) };
        let leaves = OnDrop::new(|| self.leave_line(object, ticket));
        loop {
            if line_entry.listens_first {
                // This subscription also lets a holder in this process notice a forced release at
                // once.
                self.update_subscription(object, true);
            }
            // The background task may have ended before this task joined the line. If the
            // background task ends later, it wakes this task without the request slot, and this
            // loop checks again.
            if !revive() {
                return None;
            }
            if line_entry.called.await == Ok(Wakeup::Answered) {
                leaves.cancel();
                return Some(Entrance::Answered);
            }
            match self.take_or_wait(object, spec, Some(position))? {
                Ok(entrance) => {
                    leaves.cancel();
                    return Some(entrance);
                }
                Err(again) => line_entry = again,
            }
        }
    }

    /// Takes the request slot, or joins the line. The task gets the slot if the slot is free, or if
    /// the task was woken for the slot.
    fn take_or_wait(
        self: &Arc<Self>,
        object: &Object,
        &WaiterSpec { profile, listens, may_share, .. }: &WaiterSpec,
        position: Option<LinePosition>,
    ) -> Option<Result<Entrance, LineEntry>> {
        let mut entries = self.entries.lock();
        if self.core.open.is_closed() {
            return None;
        }
        let ticket = position.map(|position| position.ticket);
        if may_share {
            let now = self.core.clock.now();
            if let Some(hold) = entries.share(object, profile, now) {
                entries.pass_wakeup(object, ticket, &self.core);
                return Some(Ok(Entrance::Shared(hold)));
            }
        }
        entries.last_ticket += 1;
        let fresh = entries.last_ticket;
        let Entries { of, left_alone, .. } = &mut *entries;
        let entry = of.entry(object.clone()).or_default();
        let is_ours = ticket.is_some_and(|ticket| entry.has_woken(ticket));
        if is_ours || matches!(entry.slot, SlotOwner::Nobody) {
            let position = position.unwrap_or(LinePosition { ticket: fresh, since: None });
            let mut slot = self.begin(object, entry, position, listens.then_some(profile));
            if let Some((_, until)) = left_alone.take_if(|(left, _)| left == object) {
                let rest = until.checked_duration_since(self.core.clock.now());
                slot.head_start = slot.head_start.or(rest);
            }
            return Some(Ok(Entrance::Slot(slot)));
        }
        let wait_state = entry.wait_state();
        let listens_first = listens && !wait_state.listens;
        wait_state.listens |= listens;
        wait_state.quiet_since = None;
        let ticket = ticket.unwrap_or(fresh);
        let (calls, called) = oneshot::channel();
        wait_state.waiting.insert(ticket, Waiter { calls, profile });
        if entry.is_woken_unchecked() {
            // A task waits behind the woken waiter now, and the woken waiter may never run.
            entries.plan_check(object, &self.core);
        } else if matches!(entry.slot, SlotOwner::Requester(_)) {
            // The owner of the request slot may never be polled again.
            entries.plan(object, self.core.clock.now() + REQUESTER_IDLE_LIMIT, &self.core);
        }
        Some(Err(LineEntry { ticket, called, listens_first }))
    }

    /// Gives the request slot to the calling task.
    fn begin(
        self: &Arc<Self>,
        object: &Object,
        entry: &mut Entry,
        position: LinePosition,
        profile: Option<LeaseProfile>,
    ) -> RequestSlot {
        let handoff =
            match std::mem::replace(&mut entry.slot, SlotOwner::Requester(position.ticket)) {
                SlotOwner::Woken(called) => called.handoff,
                SlotOwner::Nobody | SlotOwner::Requester(_) | SlotOwner::Hold(_) => None,
            };
        let head_start = entry.head_start(&self.core.clock);
        let mut inbox = None;
        if let Some(wait_state) = &mut entry.wait_state {
            wait_state.quiet_since = None;
            wait_state.inbox.clear();
            wait_state.requester = profile;
            wait_state.requester_sleeps(None);
            inbox = wait_state.listens.then(|| Arc::clone(&wait_state.inbox));
        }
        RequestSlot {
            contention: Arc::clone(self),
            object: object.clone(),
            position,
            handoff,
            inbox,
            head_start,
            asked_after: 0,
            spent: false,
        }
    }

    /// Leaves the line. If the task got the request slot meanwhile, passes the slot on.
    fn leave_line(&self, object: &Object, ticket: u64) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.of.get_mut(object) else { return };
        if let Some(wait_state) = &mut entry.wait_state {
            wait_state.waiting.remove(&ticket);
        }
        entries.pass_wakeup(object, Some(ticket), &self.core);
    }
}

impl Entries {
    /// If the task with this ticket was woken, wakes the next task instead, because the woken task
    /// does not use the request slot.
    fn pass_wakeup(&mut self, object: &Object, ticket: Option<u64>, core: &Core) {
        let (Some(ticket), Some(entry)) = (ticket, self.of.get_mut(object)) else { return };
        if entry.has_woken(ticket)
            && let SlotOwner::Woken(called) = std::mem::take(&mut entry.slot)
        {
            entry.wake_next(called.handoff, || core.clock.now());
        }
        self.plan_check(object, core);
    }
}

impl RequestSlot {
    /// Subscribes to the name, and returns the inbox that wakes this task. The task can use a
    /// hand-off grant of this `profile`.
    pub(crate) fn listen(&self, profile: LeaseProfile) -> Arc<Inbox> {
        let (inbox, is_first) = {
            let mut entries = self.contention.entries.lock();
            let entry = entries.of.entry(self.object.clone()).or_default();
            let is_ours = entry.is_asked_by(self.ticket());
            let wait_state = entry.wait_state();
            if is_ours {
                wait_state.requester = Some(profile);
            }
            let is_first = !std::mem::replace(&mut wait_state.listens, true);
            (Arc::clone(&wait_state.inbox), is_first)
        };
        self.contention.update_subscription(&self.object, is_first);
        inbox
    }

    /// Records that a request is sent now. Its reply is also valid for all tasks that are already
    /// in line.
    pub(crate) fn asks(&mut self) {
        self.asked_after = self.contention.entries.lock().last_ticket;
    }

    /// Passes the reply to the last request on to all tasks that were in line before this request.
    pub(crate) fn answer_those_before(&self) {
        let mut entries = self.contention.entries.lock();
        if let Some(entry) = entries.of.get_mut(&self.object) {
            entry.share_reply_until(self.asked_after);
        }
    }

    pub(super) fn ticket(&self) -> u64 {
        self.position.ticket
    }

    /// Returns the hand-off grant that came while this task waited for a reply or slept.
    pub(crate) fn offered(&self) -> Option<HandoffGrant> {
        let mut entries = self.contention.entries.lock();
        let entry = entries.of.get_mut(&self.object)?;
        entry.is_asked_by(self.ticket()).then(|| entry.take_offered())?
    }

    /// Records that this task sleeps until `until`, or until a notification. Returns whether the
    /// task still has the request slot.
    pub(crate) fn note_sleep(&self, until: Instant) -> bool {
        let mut entries = self.contention.entries.lock();
        let entry = entries.of.get_mut(&self.object);
        let own = entry.filter(|entry| entry.is_asked_by(self.ticket()));
        own.map(|entry| entry.wait_state().requester_sleeps(Some(until))).is_some()
    }

    /// Records that this task sends its next request. Returns whether the task still has the
    /// request slot. A task that is not polled for long loses the slot to the next task in line.
    pub(crate) fn goes_on(&self) -> bool {
        let mut entries = self.contention.entries.lock();
        let entry = entries.of.get_mut(&self.object);
        let Some(entry) = entry.filter(|entry| entry.is_asked_by(self.ticket())) else {
            return false;
        };
        entry.wait_state.iter_mut().for_each(|wait_state| wait_state.requester_sleeps(None));
        true
    }

    /// Drops this value without waking the next task. The new hold keeps the request slot. While
    /// the hold lasts, no task sends requests.
    pub(super) fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for RequestSlot {
    /// Gives the request slot to the next task in line.
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let mut entries = self.contention.entries.lock();
        let Some(entry) = entries.of.get_mut(&self.object) else { return };
        if entry.is_asked_by(self.position.ticket) {
            let now = || self.contention.core.clock.now();
            let offered = entry.take_offered();
            entry.wake_next(self.handoff.take().or(offered), now);
        }
        entries.plan_check(&self.object, &self.contention.core);
    }
}

/// The needs of a task that joins the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaiterSpec {
    pub(crate) profile: LeaseProfile,
    /// Whether the task waits for messages.
    pub(crate) listens: bool,
    /// Whether a share in an existing hold suffices.
    pub(crate) may_share: bool,
    /// The earlier position of the task, if it lost the request slot.
    pub(crate) again: Option<LinePosition>,
}

/// The position of a task in line. A task keeps its position while it has the request slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinePosition {
    pub(super) ticket: u64,
    /// Since when the task has waited, if the task had to wait.
    pub(crate) since: Option<Stamp>,
}

impl LinePosition {
    /// Returns the same position, for a task that has waited since `since`.
    pub(crate) fn waits_since(self, since: Option<Instant>) -> Self {
        Self { since: since.map(Stamp::from), ..self }
    }
}

/// How a task leaves the line.
pub(crate) enum Entrance {
    Slot(RequestSlot),
    /// The task has a share in this hold.
    Shared(Arc<Hold>),
    /// The reply to an earlier waiter is also valid for this task, so it needs no request.
    Answered,
}

/// A position in the line, and the channel that wakes its task.
struct LineEntry {
    ticket: u64,
    called: oneshot::Receiver<Wakeup>,
    /// Whether this task must subscribe to the name, because no earlier task has subscribed.
    listens_first: bool,
}
