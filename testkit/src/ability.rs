//! Abilities that some servers lack.

use crate::program;

/// Fails the test if the server is older than the version `major`, which introduced `what`.
///
/// `make matrix` counts such a test as not supported, and shows its message.
///
/// # Panics
///
/// If the server is older.
///
/// # Examples
///
/// ```
/// testkit::came_with(6, "access control lists");
/// ```
#[track_caller]
pub fn came_with(major: u32, what: &str) {
    if program::redis_major() < major {
        lacks(&format!("{what} came with version {major}"));
    }
}

/// Fails a test that needs an ability which this server lacks.
#[track_caller]
pub(crate) fn lacks(what: &str) -> ! {
    panic!("{NOT_SUPPORTED} `{}`: {what}", program::redis_version())
}

/// The beginning of such a failure, which `make matrix` searches for.
const NOT_SUPPORTED: &str = "not supported by";
