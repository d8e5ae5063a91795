//! The table of the locks that a thread holds. If the thread acquires one of these locks again, it
//! re-enters the hold.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

use crate::{domain::Object, primitives::LockContext};

/// The id of the client and the object. Together they identify a lock in the table of a thread.
pub(super) type Key = (Arc<str>, Object);

/// An entry of the table: a hold of this thread. The entry exists as long as guards of this thread
/// refer to it. The hold in Redis may last longer, because other threads may share a read hold.
#[derive(Debug)]
pub(super) struct ThreadHold {
    key: Key,
    pub(super) holding: LockContext,
}

thread_local! {
    static ENTERED: RefCell<HashMap<Key, Weak<ThreadHold>>> = RefCell::default();
}

impl ThreadHold {
    /// Adds the entry for the lock `key`, which this thread has just acquired.
    pub(super) fn by(key: Key, holding: LockContext) -> Rc<Self> {
        let entered = Rc::new(Self { key: key.clone(), holding });
        ENTERED.with_borrow_mut(|held| held.insert(key, Rc::downgrade(&entered)));
        entered
    }

    /// Returns this thread's hold of the lock `key`, if the hold has not ended.
    pub(super) fn find(key: &Key) -> Option<Rc<Self>> {
        let entered = ENTERED.with_borrow(|held| held.get(key)?.upgrade());
        entered.filter(|entered| entered.holding.is_held())
    }
}

impl Drop for ThreadHold {
    /// Removes the entry from the table. If the hold was lost and the thread has acquired the lock
    /// again, the table has a newer entry, which stays.
    fn drop(&mut self) {
        let forget = |held: &RefCell<HashMap<Key, Weak<Self>>>| {
            let mut held = held.borrow_mut();
            if held.get(&self.key).is_some_and(|entered| entered.strong_count() == 0) {
                held.remove(&self.key);
            }
        };
        // When a thread ends, its table may be dropped before its guards. In this case, there is no
        // entry to remove.
        ENTERED.try_with(forget).unwrap_or_default();
    }
}
