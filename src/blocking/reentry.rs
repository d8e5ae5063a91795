//! Which locks this thread holds: there a second acquire enters again.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

use crate::{domain::Object, primitives::LockContext};

/// A lock as one thread knows it: the client's id, and what it is.
pub(super) type Key = (Arc<str>, Object);

/// A hold that this thread has entered. The guards of the thread keep it, and nobody else: the
/// hold may go on when the last of them is gone, for other threads that read.
#[derive(Debug)]
pub(super) struct Entered {
    key: Key,
    pub(super) holding: LockContext,
}

thread_local! {
    static ENTERED: RefCell<HashMap<Key, Weak<Entered>>> = RefCell::default();
}

impl Entered {
    /// Notes that this thread holds `key`.
    pub(super) fn by(key: Key, holding: LockContext) -> Rc<Self> {
        let entered = Rc::new(Self { key: key.clone(), holding });
        ENTERED.with_borrow_mut(|held| held.insert(key, Rc::downgrade(&entered)));
        entered
    }

    /// What this thread holds of `key`.
    pub(super) fn find(key: &Key) -> Option<Rc<Self>> {
        let entered = ENTERED.with_borrow(|held| held.get(key)?.upgrade());
        entered.filter(|entered| entered.holding.is_held())
    }
}

impl Drop for Entered {
    /// Forgets it, unless the thread has acquired the lock anew since this was lost.
    fn drop(&mut self) {
        let forget = |held: &RefCell<HashMap<Key, Weak<Self>>>| {
            let mut held = held.borrow_mut();
            if held.get(&self.key).is_some_and(|entered| entered.strong_count() == 0) {
                held.remove(&self.key);
            }
        };
        // While a thread ends its guards may outlive this table; then it is forgotten anyway.
        ENTERED.try_with(forget).unwrap_or_default();
    }
}
