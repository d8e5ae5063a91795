//! How many replicas must have what was granted.

use std::time::Duration;

/// How long replicas may take unless somebody says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many replicas of the server must have a grant before its caller has it, and how long
/// they may take: see [`Lock::replicated`](crate::Lock::replicated).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::Replicas;
/// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
/// let replicas = Replicas::at_least(1).within(Duration::from_millis(200));
/// let lock = client.lock("orders:42")?.replicated(replicas);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Replicas {
    pub(crate) least: u32,
    pub(crate) within: Duration,
}

impl Replicas {
    /// So many of them, or more, within a second.
    ///
    /// # Examples
    ///
    /// ```
    /// let both = leasehold::Replicas::at_least(2);
    /// ```
    #[must_use]
    pub const fn at_least(number: u32) -> Self {
        Self { least: number, within: PATIENCE }
    }

    /// Sets how long they may take. Give them several round trips between the servers: who is
    /// slower does not count. Default: 1 s.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let soon = leasehold::Replicas::at_least(1).within(Duration::from_millis(200));
    /// ```
    #[must_use]
    pub const fn within(self, time: Duration) -> Self {
        Self { within: time, ..self }
    }
}
