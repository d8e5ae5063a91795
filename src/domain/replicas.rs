//! How many replicas must acknowledge a grant.

use std::time::Duration;

/// How long replicas may take by default.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many replicas must acknowledge a grant before the call returns it, and within which time:
/// see [`Lock::replicated`](crate::Lock::replicated).
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
    /// Requires at least this number of replicas, within one second.
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

    /// Sets how long replicas may take. Default: 1 s.
    ///
    /// Replicas that take longer do not count. So allow several round trips between the servers.
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
