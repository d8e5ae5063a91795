//! A value that one task sets, while other tasks wait for its changes.
//!
//! Tokio's `watch` wakes its receivers in random order, so a simulation could not be repeated. This
//! type wakes waiters in the order in which they began to wait. No other lock is taken while the
//! mutex is held.

use tokio::sync::Notify;

use crate::mutex::Mutex;

#[derive(Debug, Default)]
pub(super) struct Published<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: PartialEq> Published<T> {
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.lock())
    }

    /// Sets the value. If the value has changed, wakes all waiters.
    pub(crate) fn set(&self, value: T) {
        let mut known = self.value.lock();
        let changed = *known != value;
        *known = value;
        drop(known);
        if changed {
            self.changed.notify_waiters();
        }
    }

    /// Waits until `found` returns `Some` for the value.
    pub(crate) async fn until<R>(&self, found: impl Fn(&T) -> Option<R>) -> R {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = self.read(&found) {
                return found;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn waiters_for_a_published_value_wake_in_order() {
        let (value, woken) =
            (Arc::new(Published::<u32>::default()), Arc::<Mutex<Vec<u32>>>::default());
        for number in 0..20 {
            let (value, woken) = (Arc::clone(&value), Arc::clone(&woken));
            tokio::spawn(async move {
                value.until(|it| (*it == 7).then_some(())).await;
                woken.lock().push(number);
            });
        }
        for set in [3, 7] {
            yield_now().await;
            assert!(woken.lock().is_empty());
            value.set(set);
        }
        yield_now().await;
        assert_eq!(*woken.lock(), Vec::from_iter(0..20));
        assert_eq!(value.read(|it| *it), 7);
    }
}
