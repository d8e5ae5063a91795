//! The waiters and the holders of each name in this process, and the request slot of each name.
//!
//! For the store, a thousand tasks that want one lock are one waiter. Only the task with the
//! *request slot* sends requests. Tasks get the slot in the order in which they came. A task that
//! acquires the lock keeps the slot for as long as its hold lasts. When the hold ends, the next
//! task gets the slot. This task may also get the grant as a [`HandoffGrant`], without a request to
//! the store.
//!
//! If holds do not exclude each other, such as those of a semaphore, the next task gets the slot
//! after each grant. A latch has no hold: one reply is valid for all tasks that were in line when
//! its request was sent. Each task in line has a ticket, and the numbers of tickets grow. A task
//! whose ticket is newer than the request does not get this reply.
//!
//! A task that only follows the messages of a name has no ticket, and is not in the line. Such a
//! task sends its own requests: see [`Follower`].
//!
//! If the owner of the request slot is not polled for a while, the next task in line gets the slot.
//! The old owner keeps its ticket, and its grant if the store has granted its request. When the old
//! owner is polled again, it is the first in line.
//!
//! A name that had a waiter will probably soon have another waiter. So the state and the
//! subscription of a name stay for a while after its last waiter.
//!
//! # Locks
//!
//! | lock | guards | is taken before |
//! |---|---|---|
//! | `listening` | the order of subscribing and unsubscribing | `entries`, the locks of the store, and the watchdog's plan, because the store may deliver an event that locks this plan |
//! | `entries` | the state of each name | a hold's state, an inbox, the pending releases |
//!
//! No function of the store is called under `entries`, because the store may send an event at once.
//! `entries` and the watchdog's plan are never held together.

mod entry;
mod follower;
mod handoff;
mod inbox;
mod request_slot;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;

use self::entry::{Entry, HolderClient, SlotOwner};
pub(crate) use self::{
    follower::Follower,
    handoff::HandoffGrant,
    inbox::Inbox,
    request_slot::{Entrance, LinePosition, RequestSlot, WaiterSpec},
};
use super::{
    core::Core,
    grant::LeaseProfile,
    hold::Hold,
    timing::{HANDOFF_LIMIT, IDLE_LIFETIME},
};
use crate::{
    domain::{ClientInfo, Holder, LostReason, Map, Mutex, Object, Owner, RemoteWaiters},
    store::{Event, SubscriptionLevel},
};

/// How many names stay known after their last waiter.
const MOST_LINGERING: usize = 1_024;

/// How many names one call checks before they are due. Tasks usually still wait for most names, so
/// most of these checks find no name to remove. When each hand-off checked all of ten thousand
/// names, the checks took 20 ms.
const MOST_EARLY: usize = 32;

/// After this time, a waiting task reads the client info of the same holder again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long `object` stays known after its last waiter. An object that belongs to one task is
/// forgotten at once, because no other task will wait for it.
fn idle_lifetime(object: &Object) -> Duration {
    if object.task.is_some() { Duration::ZERO } else { IDLE_LIFETIME }
}

/// The names that one client holds or waits for.
pub(crate) struct NameRegistry {
    core: Arc<Core>,
    listening: Mutex<()>,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    of: Map<Object, Entry>,
    /// When to check a name. The check finds out whether a task still wants the name, and whether
    /// the woken waiter or the owner of the request slot still runs.
    agenda: BTreeSet<(Instant, Object)>,
    /// The last released name for which this client holds back, and until when it sends no request
    /// for this name. One record is enough for a client that always acquires the same name. A
    /// record for each name would cost 1.6 % of the instructions of a hold.
    left_alone: Option<(Object, Instant)>,
    /// The last ticket. All names share this counter, so that tickets stay unique even if a task
    /// sleeps while the entry of its name is removed.
    last_ticket: u64,
}

impl NameRegistry {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Self> {
        let (listening, entries) = (Mutex::default(), Mutex::default());
        Arc::new(Self { core: Arc::clone(core), listening, entries })
    }

    /// Wakes all waiters, by dropping their senders, because the client is shut down. Releases
    /// hand-off grants that no task has taken. After this call, no task gets such a grant.
    pub(crate) fn close(&self) {
        let (mut entries, now) = (self.entries.lock(), self.core.clock.now());
        for entry in entries.of.values_mut() {
            entry.wait_state.iter_mut().for_each(|wait_state| wait_state.waiting.clear());
            drop(entry.take_offered());
            if matches!(entry.slot, SlotOwner::Woken(_)) {
                entry.wake_next(None, || now);
            }
        }
    }

    /// Wakes all waiters, by dropping their senders, so that one waiter restarts the background
    /// task, which has ended.
    pub(super) fn wake_all_waiters(&self) {
        let mut entries = self.entries.lock();
        let all_waits = entries.of.values_mut().filter_map(|entry| entry.wait_state.as_mut());
        all_waits.for_each(|wait_state| wait_state.waiting.clear());
    }

    // Holds.

    /// Records that this client has `hold`. If the hold is exclusive, it keeps the request slot,
    /// and a hold of an earlier grant ends. Otherwise the next task in line gets the request slot.
    pub(crate) fn entered(&self, hold: &Arc<Hold>, slot: Option<RequestSlot>) {
        let traits = hold.object().traits();
        if traits.is_shared() {
            self.share_with_waiters(hold);
        }
        if !traits.is_exclusive() {
            return drop(slot);
        }
        let mut entries = self.entries.lock();
        let entry = entries.of.entry(hold.object().clone()).or_default();
        let before = std::mem::replace(&mut entry.held, Arc::downgrade(hold)).upgrade();
        if let Some(slot) = slot {
            if entry.is_asked_by(slot.ticket()) {
                entry.slot = SlotOwner::Hold(hold.grant.id);
            }
            slot.spend();
        }
        if let Some(wait_state) = &mut entry.wait_state {
            wait_state.seen = None;
            entries.remove_if_idle(hold.object(), &self.core);
        }
        drop(entries);
        if let Some(past) = before.filter(|past| past.was_known_at(hold.grant.leased_at)) {
            self.lost(&past);
        }
    }

    /// Lets current and later waiters of this client share `hold`, if it may be shared.
    fn share_with_waiters(&self, hold: &Arc<Hold>) {
        if !hold.may_be_shared(self.core.clock.now()) {
            return;
        }
        let mut entries = self.entries.lock();
        let entry = entries.of.entry(hold.object().clone()).or_default();
        entry.held = Arc::downgrade(hold);
        if entries.is_unopposed(hold.object())
            && let Some(entry) = entries.of.get_mut(hold.object())
        {
            entry.call_all();
        }
    }

    /// Takes a share in the current hold of `object`, if this hold may still be shared.
    pub(crate) fn share(&self, object: &Object, profile: LeaseProfile) -> Option<Arc<Hold>> {
        self.entries.lock().share(object, profile, self.core.clock.now())
    }

    /// Returns the current hold of `object`, if it may no longer be shared and will end soon.
    pub(super) fn about_to_leave(&self, object: &Object) -> Option<Arc<Hold>> {
        let held = self.entries.lock().held(object)?;
        held.is_ending(self.core.clock.now()).then_some(held)
    }

    /// Records the holder of `object`, from the reply to the request that was sent at `asked_at`.
    /// If this client relied on a hold of `object` before that request, but the reply names another
    /// holder, the hold is over.
    pub(super) fn note_holder(&self, object: &Object, holder: Option<&Holder>, asked_at: Instant) {
        let held = {
            let mut entries = self.entries.lock();
            let Some(entry) = entries.of.get_mut(object) else { return };
            entry.wait_state().seen = Some((holder.cloned(), asked_at));
            entry.held.upgrade()
        };
        let Some(holder) = holder else { return };
        // If the grant came after this request was sent, the reply may be older than the grant, and
        // proves nothing.
        let past = |hold: &Arc<Hold>| {
            let excluded = object.traits().is_exclusive() && hold.grant.claim.owner != holder.owner;
            excluded && hold.was_known_at(asked_at)
        };
        if let Some(past) = held.filter(past) {
            self.lost(&past);
        }
    }

    /// Records that the store reported the loss of the grant of `asked`. Neither `asked` nor the
    /// hold that has the grant now may rely on the grant.
    pub(super) fn disown(&self, asked: &Hold) {
        self.lost(asked);
        let held = {
            let mut entries = self.entries.lock();
            let Some(entry) = entries.of.get_mut(asked.object()) else { return };
            entry.disown(asked.grant.id);
            entry.hold_of(asked.grant.id)
        };
        if let Some(hold) = held {
            self.lost(&hold);
        }
    }

    /// Ends `hold`, because the store has replied that the hold is gone. If another task has
    /// already ended the hold without waking waiters, this function wakes the waiters.
    fn lost(&self, hold: &Hold) {
        hold.end(LostReason::NotOwned, self.core.clock.now()).ok();
        self.left(hold);
    }

    /// Records that `hold` is over, so that waiters of this process may send requests.
    pub(crate) fn left(&self, hold: &Hold) {
        if hold.object().traits().is_shared() {
            hold.is_released_in_store();
        }
        let mut entries = self.entries.lock();
        let Some(entry) = entries.of.get_mut(hold.object()) else { return };
        if let Some(current) = entry.hold_of(hold.grant.id) {
            if !std::ptr::eq(&*current, hold) {
                // Another hold has this grant now.
                return;
            }
            entry.held = Weak::new();
        }
        if entry.is_kept_by(hold.grant.id) {
            entry.wake_next(None, || self.core.clock.now());
        }
        // Most names never have a waiter. Their entries are removed here.
        if entry.is_of_no_use() {
            entries.of.remove(hold.object());
        } else {
            entries.plan_check(hold.object(), &self.core);
        }
    }

    /// Hands the grant of `hold` off to the next waiter of this process, if possible. The waiter
    /// must be able to use the grant, and the local budget must allow a hand-off. Returns whether
    /// the grant was handed off.
    pub(super) fn pass_on(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        if !hold.object().traits().is_exclusive() {
            return self.offer(hold, now);
        }
        let mut entries = self.entries.lock();
        let Some(entry) = entries.of.get_mut(hold.object()) else { return false };
        let of_use = entry.next_wants() == Some(hold.profile());
        if !of_use || !entry.is_kept_by(hold.grant.id) || !hold.pass_on(now) {
            return false;
        }
        entry.held = Weak::new();
        entry.wake_next(Some(HandoffGrant::new(hold, &self.core)), || now);
        if entry.is_woken_unchecked() {
            entries.plan_check(hold.object(), &self.core);
        }
        true
    }

    /// Hands off the grant of a `hold` that does not exclude other holds, such as permits. The
    /// owner of the request slot gets the grant, even while this owner waits for a reply or sleeps.
    fn offer(&self, hold: &Arc<Hold>, now: Instant) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.of.get_mut(hold.object()) else { return false };
        let profile = hold.profile();
        let of_use = hold.object().traits().is_passed_on() && entry.has_use_for(profile);
        if self.core.open.is_closed() || !of_use || !hold.pass_on(now) {
            return false;
        }
        entry.offer(HandoffGrant::new(hold, &self.core), now);
        entries.plan(hold.object(), now + HANDOFF_LIMIT, &self.core);
        true
    }

    /// Returns the number of this client's exclusive grant of `object`, also during a hand-off.
    pub(crate) fn grant(&self, object: &Object) -> Option<u64> {
        if !object.traits().is_exclusive() {
            return None;
        }
        let entries = self.entries.lock();
        let entry = entries.of.get(object)?;
        let in_transit = match &entry.slot {
            SlotOwner::Woken(called) => called.handoff.as_ref().and_then(HandoffGrant::id),
            _ => None,
        };
        in_transit.or_else(|| entry.held.upgrade().map(|hold| hold.grant.id))
    }

    /// Returns the holder of `object`, as far as this client knows. `Some(None)` means that the
    /// last reply did not name the holder.
    pub(crate) fn seen(&self, object: &Object, now: Instant) -> Option<Option<Holder>> {
        let (held, seen) = {
            let entries = self.entries.lock();
            let entry = entries.of.get(object)?;
            (
                entry.held.upgrade(),
                entry.wait_state.as_ref().and_then(|wait_state| wait_state.seen.clone()),
            )
        };
        let alone = held.filter(|_| object.traits().is_exclusive());
        let by_now = |(holder, at): (Option<Holder>, Instant)| {
            holder.map(|it| it.after(now.saturating_duration_since(at)))
        };
        alone.and_then(|hold| hold.as_holder(now)).map(Some).or_else(|| seen.map(by_now))
    }

    /// Returns the owner that holds `object` in another client, unless a task has read the client
    /// info of this owner lately. Notes that the caller reads the client info at `now`.
    pub(super) fn holder_to_ask_about(&self, object: &Object, now: Instant) -> Option<Owner> {
        let mut entries = self.entries.lock();
        let wait_state = entries.of.get_mut(object)?.wait_state.as_mut()?;
        let (holder, _) = wait_state.seen.as_ref()?;
        let owner = holder.as_ref()?.owner.clone();
        let known = wait_state.client.as_ref().filter(|client| client.owner == owner);
        let asked_at = known.map(|client| client.asked_at);
        if asked_at.is_some_and(|at| now.saturating_duration_since(at) < ASK_AGAIN) {
            return None;
        }
        let info = known.and_then(|client| client.info.clone());
        wait_state.client = Some(HolderClient { owner: owner.clone(), asked_at: now, info });
        Some(owner)
    }

    /// Records the client info of `owner`, a holder of `object`.
    pub(super) fn note_client(&self, object: &Object, owner: &Owner, info: Option<ClientInfo>) {
        let mut entries = self.entries.lock();
        let wait_state = entries.of.get_mut(object).and_then(|entry| entry.wait_state.as_mut());
        let client = wait_state.and_then(|wait_state| wait_state.client.as_mut());
        if let Some(client) = client.filter(|client| client.owner == *owner) {
            client.info = info.map(|info| Arc::new(info.only_of(object.name.as_str(), owner)));
        }
    }

    pub(crate) fn client_of(&self, object: &Object, owner: &Owner) -> Option<Arc<ClientInfo>> {
        let entries = self.entries.lock();
        let client = entries.of.get(object)?.wait_state.as_ref()?.client.as_ref()?;
        client.info.clone().filter(|_| client.owner == *owner)
    }

    /// Returns the hold of this client on the other side of a read-write lock, which blocks the
    /// client itself.
    pub(super) fn own_blocking_hold(&self, object: &Object, now: Instant) -> Option<Holder> {
        let other_side = object.other_side()?;
        let held = self.entries.lock().of.get(&other_side)?.held.upgrade();
        held?.as_holder(now)
    }

    // Other clients, events and subscriptions.

    /// Records the waiters of other clients that a release of `object` found. If too many names are
    /// known, this function adds no name.
    pub(crate) fn note(&self, object: &Object, others: RemoteWaiters) {
        if others == RemoteWaiters::Nobody {
            return;
        }
        let now = self.core.clock.now();
        let mut entries = self.entries.lock();
        if entries.agenda.len() < MOST_LINGERING || entries.of.contains_key(object) {
            entries.of.entry(object.clone()).or_default().note(others, now);
            entries.remove_if_idle(object, &self.core);
        }
    }

    /// Makes this client send no request for `object` before `until`.
    pub(super) fn hold_back(&self, object: &Object, until: Instant) {
        self.entries.lock().left_alone = Some((object.clone(), until));
    }

    /// Whether a task of this client waits for `object`, or for the other side of its lock.
    pub(super) fn is_waited_for(&self, object: &Object) -> bool {
        let (entries, other_side) = (self.entries.lock(), object.other_side());
        let in_line = |entry: &Entry| entry.next_wants().is_some();
        let waited_for =
            object.traits().is_exclusive() && entries.of.get(object).is_some_and(in_line);
        let wanted = |side| entries.of.get(&side).is_some_and(|entry| !entry.is_quiet());
        waited_for || other_side.is_some_and(wanted)
    }

    /// Whether other clients wait for `object`, according to recent releases.
    pub(super) fn is_contended(&self, object: &Object) -> bool {
        let entries = self.entries.lock();
        entries.of.get(object).is_some_and(|entry| entry.is_contended(&self.core.clock))
    }

    /// Handles an event of the store. An event only makes a task send a request.
    pub(crate) fn receive(&self, event: Event) {
        let entries = self.entries.lock();
        match event {
            Event::SubscriptionsLost => {
                entries.inboxes().for_each(|inbox| inbox.receive(SubscriptionLevel::Nothing));
            }
            // Only followers need these events. Waiters repeat their requests by themselves,
            // because their last requests failed.
            Event::Back | Event::Moved => entries.of.values().for_each(Entry::notify_followers),
            Event::Changed { object } => entries.notify_followers(&object),
            Event::Subscribed(object, level) => {
                entries.notify_followers(&object);
                if let Some(inbox) = entries.inbox(&object) {
                    inbox.receive(level);
                }
            }
            Event::Freed { object, queue_notified } => {
                entries.notify_followers(&object);
                let inbox = entries.inbox_of_requester(&object);
                let asks = inbox.is_some_and(|inbox| inbox.freed(queue_notified));
                if asks {
                    self.core.counters.woken();
                }
            }
            Event::Ask { object, after } => {
                if let Some(inbox) = entries.inbox_of_requester(&object) {
                    self.core.counters.woken();
                    inbox.ask_at(Instant::now() + after);
                }
            }
        }
    }

    /// Subscribes to `object` for the first waiting task (`is_first`), or unsubscribes if no task
    /// wants the messages now. Only one call runs at a time, so that the last call sees the final
    /// state and decides.
    fn update_subscription(&self, object: &Object, is_first: bool) {
        let _one_at_a_time = self.listening.lock();
        let listens =
            |entry: &Entry| entry.wait_state.as_ref().is_some_and(|wait_state| wait_state.listens);
        if !self.entries.lock().of.get(object).is_some_and(listens) {
            self.core.store.unlisten(object);
        } else if is_first {
            self.core.store.listen(object);
        }
    }

    // Checks by the watchdog, for names whose tasks are not polled.

    /// Takes request slots from tasks that are not polled, and removes names that no task has
    /// wanted for a while. Returns when to check again.
    pub(super) fn check_due_names(&self) -> Option<Instant> {
        let mut entries = self.entries.lock();
        entries.agenda.first()?;
        let ended = entries.check_due(self.core.clock.now(), &self.core);
        let again = entries.agenda.first().map(|(due, _)| *due);
        drop(entries);
        ended.iter().for_each(|object| self.update_subscription(object, false));
        again
    }

    /// Returns how many tasks are in line for `object`.
    pub(crate) fn in_line(&self, object: &Object) -> usize {
        let entries = self.entries.lock();
        let wait_state = entries.of.get(object).and_then(|entry| entry.wait_state.as_ref());
        wait_state.map_or(0, |wait_state| wait_state.waiting.len())
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.entries.lock().of.is_empty()
    }
}

impl Entries {
    /// Takes one more share in the hold of this client, unless a task of this client has or wants
    /// the write side.
    fn share(&self, object: &Object, profile: LeaseProfile, now: Instant) -> Option<Arc<Hold>> {
        let hold = self.held(object)?;
        let may = self.is_unopposed(object) && hold.profile() == profile;
        (may && hold.may_be_shared(now) && hold.one_more_share().is_some()).then_some(hold)
    }

    /// Returns the hold of `object` that this client relies on.
    fn held(&self, object: &Object) -> Option<Arc<Hold>> {
        self.of.get(object)?.held.upgrade()
    }

    /// Whether no task of this client has or wants the other side of a read-write lock.
    fn is_unopposed(&self, object: &Object) -> bool {
        let other_side = object.other_side().and_then(|side| self.of.get(&side));
        other_side.is_none_or(Entry::is_idle)
    }

    fn inbox(&self, object: &Object) -> Option<&Inbox> {
        let wait_state = self.of.get(object)?.wait_state.as_ref()?;
        Some(&wait_state.inbox)
    }

    /// Returns the inbox of `object`, if a task has the request slot and so may read the inbox.
    fn inbox_of_requester(&self, object: &Object) -> Option<&Inbox> {
        let asked = matches!(self.of.get(object)?.slot, SlotOwner::Requester(_));
        self.inbox(object).filter(|_| asked)
    }

    /// Makes the tasks that follow `object` send a request.
    fn notify_followers(&self, object: &Object) {
        self.of.get(object).into_iter().for_each(Entry::notify_followers);
    }

    /// Returns every inbox, in an order that does not depend on chance.
    fn inboxes(&self) -> impl Iterator<Item = &Inbox> {
        let mut names: Vec<&Object> = self.of.keys().collect();
        names.sort_unstable();
        names.into_iter().filter_map(|object| self.inbox(object))
    }

    /// Plans the next check of `object`, whose request slot has just got a new owner.
    fn plan_check(&mut self, object: &Object, core: &Core) {
        let Some(entry) = self.of.get(object) else { return };
        match &entry.slot {
            SlotOwner::Woken(called) => self.plan(object, called.at + HANDOFF_LIMIT, core),
            _ => self.remove_if_idle(object, core),
        }
    }

    /// Removes the entry of `object` if it has no state. If only its waiters are gone, plans its
    /// removal for later.
    fn remove_if_idle(&mut self, object: &Object, core: &Core) {
        let Some(entry) = self.of.get_mut(object) else { return };
        if entry.is_of_no_use() {
            self.of.remove(object);
        } else if entry.is_quiet()
            && let Some(wait_state) = &mut entry.wait_state
        {
            let since = *wait_state.quiet_since.get_or_insert_with(|| core.clock.now());
            if wait_state.due.is_none() {
                self.plan(object, since + idle_lifetime(object), core);
            }
        }
    }

    /// Plans a check of `object` at `due`, unless an earlier check is planned.
    fn plan(&mut self, object: &Object, due: Instant, core: &Core) {
        let Some(entry) = self.of.get_mut(object) else { return };
        let lingers = entry.is_quiet();
        let planned = &mut entry.wait_state().due;
        if planned.is_some_and(|planned| planned <= due) {
            return;
        }
        if let Some(later) = planned.replace(due) {
            self.agenda.remove(&(later, object.clone()));
        }
        self.agenda.insert((due, object.clone()));
        let first = self.agenda.first().is_some_and(|(first, _)| *first == due);
        if first || lingers && self.agenda.len() > MOST_LINGERING {
            core.notifier.notify_one();
        }
    }

    /// Checks the names that are due. If too many names are known, also checks some names that are
    /// not due yet. Returns the names to unsubscribe from, which no task has wanted for long.
    fn check_due(&mut self, now: Instant, core: &Core) -> Vec<Object> {
        let lingers =
            |(_, object): &&(Instant, Object)| self.of.get(object).is_some_and(Entry::is_quiet);
        let is_due = |(due, _): &&(Instant, Object)| *due <= now;
        let due = self.agenda.iter().take_while(is_due);
        let early = self.agenda.iter().skip_while(is_due).take(MOST_EARLY).filter(lingers);
        let excess = self.agenda.len().saturating_sub(MOST_LINGERING);
        let mut looked_at: Vec<_> = due.chain(early.take(excess)).cloned().collect();
        looked_at.retain(|(due, object)| self.end_if_past(*due, object, now, core));
        looked_at.into_iter().map(|(_, object)| object).collect()
    }

    /// Runs the check of a name that was planned for `due`. Returns whether to unsubscribe from the
    /// name.
    fn end_if_past(&mut self, due: Instant, object: &Object, now: Instant, core: &Core) -> bool {
        self.agenda.remove(&(due, object.clone()));
        let Some(entry) = self.of.get_mut(object) else { return false };
        entry.wait_state().due = None;
        let again = entry.check(now);
        let ended = entry.is_past(now, idle_lifetime(object)) || due > now && entry.is_quiet();
        if ended {
            entry.wait_state = None;
        }
        again.into_iter().for_each(|again| self.plan(object, again, core));
        self.remove_if_idle(object, core);
        ended
    }
}
