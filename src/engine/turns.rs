//! Waiters of this process for one name queue here; one of them speaks to Redis.
//!
//! A thousand tasks that want one lock cost Redis one waiter. They take turns in
//! the order in which they came.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    hold::Hold,
    wakeups::{Hub, Listener},
};
use crate::domain::{Holder, Name};

/// The queues of one client.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queues: Mutex<HashMap<Name, Queue>>,
}

/// One name: who waits for it here, and what is known of it.
#[derive(Debug, Default)]
struct Queue {
    /// Whether somebody has the turn.
    taken: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Turn>>,
    last_ticket: u64,
    /// Who had the lock when somebody last asked.
    seen: Option<Holder>,
    /// The hold that this client believes in.
    held: Weak<Hold>,
}

impl Queue {
    fn is_of_use(&self) -> bool {
        self.taken || self.held.strong_count() > 0
    }
}

impl Turns {
    /// Waits until it is our turn to ask for `name`.
    pub(crate) async fn wait(self: &Arc<Self>, name: &Name) -> Turn {
        let (place, turn) = match self.take_or_queue(name) {
            Ok(turn) => return turn,
            Err(queued) => queued,
        };
        let _place = place;
        // The sender is only dropped unused when its place is given up.
        turn.await.unwrap_or_else(|_| unreachable!("BUG: a waiter lost its place in the queue"))
    }

    /// The turn if nobody has it, else a place in the queue.
    fn take_or_queue(
        self: &Arc<Self>,
        name: &Name,
    ) -> Result<Turn, (Place<'_>, oneshot::Receiver<Turn>)> {
        let mut queues = self.queues();
        let queue = queues.entry(name.clone()).or_default();
        if !queue.taken {
            queue.taken = true;
            drop(queues);
            let (turns, name) = (Arc::clone(self), name.clone());
            return Ok(Turn(Some(Right { turns, name, listener: None })));
        }
        let (sender, receiver) = oneshot::channel();
        queue.last_ticket += 1;
        let ticket = queue.last_ticket;
        queue.waiting.insert(ticket, sender);
        Err((Place { turns: self, name: name.clone(), ticket }, receiver))
    }

    /// The next waiter in the queue of `name`; if there is none, the turn is free.
    fn next_waiter(&self, name: &Name) -> Option<oneshot::Sender<Turn>> {
        let mut queues = self.queues();
        let queue = queues.get_mut(name)?;
        let next = queue.waiting.pop_first();
        if next.is_none() {
            queue.taken = false;
            if !queue.is_of_use() {
                queues.remove(name);
            }
        }
        next.map(|(_, sender)| sender)
    }

    /// Who had `name` when this client last asked.
    pub(crate) fn seen(&self, name: &Name) -> Option<Holder> {
        self.queues().get(name)?.seen.clone()
    }

    /// Notes that this client was granted `hold` when it asked at `asked_at`.
    /// Returns the hold that this makes a thing of the past.
    pub(crate) fn entered(&self, hold: &Arc<Hold>, asked_at: Instant) -> Option<Arc<Hold>> {
        let mut queues = self.queues();
        let queue = queues.entry(hold.name().clone()).or_default();
        queue.seen = None;
        let before = std::mem::replace(&mut queue.held, Arc::downgrade(hold)).upgrade();
        before.filter(|hold| hold.was_known_at(asked_at))
    }

    /// Notes who had `name` when we asked at `asked_at`. Returns the hold that
    /// this makes a thing of the past.
    pub(crate) fn saw(&self, name: &Name, holder: &Holder, asked_at: Instant) -> Option<Arc<Hold>> {
        let mut queues = self.queues();
        let queue = queues.get_mut(name)?;
        queue.seen = Some(holder.clone());
        let held = queue.held.upgrade()?;
        // An answer that was on its way while we were granted says nothing.
        (held.was_known_at(asked_at) && held.claim().owner != holder.owner).then_some(held)
    }

    /// Notes that `hold` is over.
    pub(crate) fn left(&self, hold: &Arc<Hold>) {
        let mut queues = self.queues();
        let Some(queue) = queues.get_mut(hold.name()) else { return };
        if std::ptr::eq(queue.held.as_ptr(), Arc::as_ptr(hold)) {
            queue.held = Weak::new();
        }
        if !queue.is_of_use() {
            queues.remove(hold.name());
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Name, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.queues().is_empty()
    }
}

/// The right to ask for one name, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Right>);

#[derive(Debug)]
struct Right {
    turns: Arc<Turns>,
    name: Name,
    /// Goes from turn to turn, so that a name with waiters stays subscribed.
    listener: Option<Listener>,
}

impl Turn {
    /// The way to hear of releases; it listens from the first call on.
    pub(crate) fn listener(&mut self, hub: &Arc<Hub>) -> &Listener {
        let Some(right) = &mut self.0 else { unreachable!("BUG: a turn without its right") };
        right.listener.get_or_insert_with(|| hub.listen(&right.name))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(right) = self.0.take() {
            right.pass_on();
        }
    }
}

impl Right {
    /// Gives the right to the next waiter that is still there, if there is one.
    fn pass_on(mut self) {
        while let Some(next) = self.turns.next_waiter(&self.name) {
            let Err(mut refused) = next.send(Turn(Some(self))) else { return };
            let Some(right) = refused.0.take() else { return };
            self = right;
        }
    }
}

/// A place in a queue, given up when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    name: Name,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.turns.queues().get_mut(&self.name) {
            queue.waiting.remove(&self.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn door() -> (Arc<Turns>, Name) {
        (Arc::new(Turns::default()), Name::new("door").unwrap())
    }

    #[tokio::test]
    async fn turns_are_taken_in_the_order_of_coming() {
        // given one who has the turn and two who wait
        let (turns, name) = door();
        let turn = turns.wait(&name).await;
        let (mut first, mut second) = (Box::pin(turns.wait(&name)), Box::pin(turns.wait(&name)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());

        // when the turn is over, the first has it and the second still waits
        drop(turn);
        assert!((&mut second).now_or_never().is_none());
        let turn = (&mut first).now_or_never().unwrap();
        drop(turn);
        assert!((&mut second).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_waiter_who_leaves_is_passed_over_and_leaves_nothing_behind() {
        let (turns, name) = door();
        let turn = turns.wait(&name).await;
        let (mut first, mut second) = (Box::pin(turns.wait(&name)), Box::pin(turns.wait(&name)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());

        // one leaves while waiting
        drop(first);
        assert_eq!(turns.queues().get(&name).unwrap().waiting.len(), 1);

        // the other one after it was given the turn, before it knew
        drop(turn);
        drop(second);
        assert!(turns.is_idle());
    }

    #[tokio::test]
    async fn different_names_do_not_wait_for_each_other() {
        let (turns, name) = door();
        let _turn = turns.wait(&name).await;
        let other = Name::new("window").unwrap();
        assert!(turns.wait(&other).now_or_never().is_some());
    }
}
