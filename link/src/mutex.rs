//! A mutex that ignores poisoning. Its users keep the data consistent after each statement.

use std::sync::{self, MutexGuard, PoisonError};

/// A mutex that stays usable after a thread panicked while it held the mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a mutex around `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the mutex and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
