//! Which locks this thread holds: there a second acquire enters again.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use crate::{
    domain::Object,
    primitives::{Holding, LockGuard},
};

/// A lock as one thread knows it: the client's id, and what it is.
pub(super) type Key = (Arc<str>, Object);

thread_local! {
    static HELD: RefCell<HashMap<Key, Holding>> = RefCell::default();
}

/// What this thread holds of `key`.
pub(super) fn held(key: &Key) -> Option<Holding> {
    HELD.with_borrow(|held| held.get(key).filter(|holding| holding.is_held()).cloned())
}

/// Notes that this thread holds `key`.
pub(super) fn entered(key: Key, guard: &LockGuard) {
    HELD.with_borrow_mut(|held| held.insert(key, guard.holding()));
}

/// Forgets what is over.
pub(super) fn left() {
    let forget = |held: &RefCell<HashMap<Key, Holding>>| {
        held.borrow_mut().retain(|_, holding| holding.is_held());
    };
    // While a thread ends its guards may outlive this table; then it is forgotten anyway.
    HELD.try_with(forget).unwrap_or_default();
}
