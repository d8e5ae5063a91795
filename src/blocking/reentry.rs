//! The locks that this thread holds: a second acquire reenters them.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

use crate::{domain::Object, primitives::LockContext};

/// The id of the client and the object, which identify a lock within a thread.
pub(super) type Key = (Arc<str>, Object);

/// A hold of this thread. Only the guards of the thread keep this entry. The hold itself may
/// continue without them, for other threads that read.
#[derive(Debug)]
pub(super) struct ThreadHold {
    key: Key,
    pub(super) holding: LockContext,
}

thread_local! {
    static ENTERED: RefCell<HashMap<Key, Weak<ThreadHold>>> = RefCell::default();
}

impl ThreadHold {
    /// Notes that this thread holds `key`.
    pub(super) fn by(key: Key, holding: LockContext) -> Rc<Self> {
        let entered = Rc::new(Self { key: key.clone(), holding });
        ENTERED.with_borrow_mut(|held| held.insert(key, Rc::downgrade(&entered)));
        entered
    }

    /// Returns the hold of this thread for `key`.
    pub(super) fn find(key: &Key) -> Option<Rc<Self>> {
        let entered = ENTERED.with_borrow(|held| held.get(key)?.upgrade());
        entered.filter(|entered| entered.holding.is_held())
    }
}

impl Drop for ThreadHold {
    /// Removes the entry, unless the thread has acquired the lock again after a loss.
    fn drop(&mut self) {
        let forget = |held: &RefCell<HashMap<Key, Weak<Self>>>| {
            let mut held = held.borrow_mut();
            if held.get(&self.key).is_some_and(|entered| entered.strong_count() == 0) {
                held.remove(&self.key);
            }
        };
        // When a thread ends, its guards may outlive this table. Then there is no entry to remove.
        ENTERED.try_with(forget).unwrap_or_default();
    }
}
