//! How many replicas must acknowledge a grant.

use std::time::Duration;

/// The default time within which replicas must acknowledge a grant.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many replicas must acknowledge a grant, and within which time.
///
/// A call returns the grant only after these acknowledgements: see
/// [`Lock::replicated`](crate::Lock::replicated).
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
    /// Requires acknowledgements of at least this number of replicas, within one second.
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

    /// Sets the time within which the replicas must acknowledge. Default: 1 s.
    ///
    /// Later acknowledgements do not count. So allow several round trips between the servers.
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
