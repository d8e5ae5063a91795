//! Logs denied permissions, each kind of permission only once for each client.

use super::permissions::Denied;
use crate::domain::{Mutex, Object};

/// The permissions whose denial was logged.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Warned(Mutex<Vec<Denied>>);

impl Warned {
    /// Logs the denial of this permission, unless the client has already logged the denial. Without
    /// the permission, the client still acquires locks, but later.
    pub(super) fn warn_once(&self, what: Denied, object: &Object) {
        let mut warned = self.0.lock();
        if warned.contains(&what) {
            return;
        }
        warned.push(what);
        drop(warned);
        match what {
            Denied::Queue => tracing::warn!(target: "leasehold", lock = %object.name,
                "wait queue denied by the ACL: each release wakes all waiters"),
            Denied::OwnChannels => tracing::warn!(target: "leasehold", lock = %object.name,
                "channels of Leasehold denied by the ACL: waiters do not queue"),
            Denied::Releases => tracing::warn!(target: "leasehold", lock = %object.name,
                "subscriptions denied by the ACL: waiters poll more often"),
        }
    }
}
