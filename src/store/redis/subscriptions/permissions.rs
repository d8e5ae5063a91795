//! The ACL permissions that the server has denied to this client, for each name.
//!
//! The code for subscriptions and the code for queues use this module. A denial counts only for one
//! name, because an ACL grants permissions by patterns of names. A denial counts for 30 s, because
//! an administrator may change the ACL.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::{Map, Object};

/// How long a denial counts.
const BELIEVED: Duration = Duration::from_secs(30);

/// The largest number of names with denials. Beyond this number, the client forgets the oldest
/// denial, and tries to use the denied permission again.
const MOST: usize = 1_024;

/// The permissions for one name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::store::redis) struct Permissions {
    /// Permission to write the queue of the name.
    pub(in crate::store::redis) queue: bool,
    /// Permission to subscribe to the channels that only Leasehold uses.
    pub(super) own_channels: bool,
    /// Permission to subscribe to the releases of the name.
    pub(super) releases: bool,
}

impl Permissions {
    pub(in crate::store::redis) const ALL: Self =
        Self { queue: true, own_channels: true, releases: true };
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::store::redis) enum Denied {
    Queue,
    OwnChannels,
    Releases,
}

/// All denials that count now.
#[derive(Debug, Default)]
pub(super) struct Denials(Map<Object, (Permissions, Instant)>);

impl Denials {
    pub(super) fn permissions(&self, object: &Object) -> Permissions {
        self.0.get(object).map_or(Permissions::ALL, |(permissions, _)| *permissions)
    }

    /// Records that the server denied `what` at `now`.
    pub(super) fn note(&mut self, object: &Object, what: Denied, now: Instant) {
        if self.0.len() >= MOST && !self.0.contains_key(object) {
            self.forget_oldest();
        }
        let (permissions, until) = self.0.entry(object.clone()).or_insert((Permissions::ALL, now));
        *until = now + BELIEVED;
        match what {
            Denied::Queue => permissions.queue = false,
            Denied::OwnChannels => permissions.own_channels = false,
            Denied::Releases => permissions.releases = false,
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.0.iter().min_by_key(|(_, (_, until))| *until);
        if let Some(object) = oldest.map(|(object, _)| object.clone()) {
            self.0.remove(&object);
        }
    }

    /// Forgets expired denials. Returns their objects, so that the client tries again.
    pub(super) fn forget(&mut self, now: Instant) -> Vec<Object> {
        let old = self.0.iter().filter(|(_, (_, until))| *until <= now);
        let old: Vec<Object> = old.map(|(object, _)| object.clone()).collect();
        self.0.retain(|object, _| !old.contains(object));
        old
    }

    /// Forgets all denials, because a new connection may belong to another user.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Object {
        Object::lock("door")
    }

    #[test]
    fn denial_removes_only_the_denied_permission() {
        let (mut refusals, now) = (Denials::default(), Instant::now());
        assert_eq!(refusals.permissions(&door()), Permissions::ALL);
        refusals.note(&door(), Denied::OwnChannels, now);
        let left = refusals.permissions(&door());
        assert_eq!(left, Permissions { own_channels: false, ..Permissions::ALL });
        refusals.note(&door(), Denied::Queue, now);
        assert!(refusals.permissions(&door()).releases && !refusals.permissions(&door()).queue);
        refusals.note(&door(), Denied::Releases, now);
        assert!(!refusals.permissions(&door()).releases);
    }

    #[test]
    fn denial_affects_one_name_and_is_forgotten_after_a_while() {
        let (mut refusals, now) = (Denials::default(), Instant::now());
        refusals.note(&door(), Denied::Queue, now);
        assert_eq!(refusals.permissions(&Object::lock("window")), Permissions::ALL);
        assert!(refusals.forget(now).is_empty());
        assert_eq!(refusals.forget(now + BELIEVED), [door()]);
        assert_eq!(refusals.permissions(&door()), Permissions::ALL);
    }

    #[test]
    fn permission_table_is_bounded() {
        let (mut refusals, now) = (Denials::default(), Instant::now());
        for n in 0..2 * MOST {
            refusals.note(&Object::lock(format!("door-{n}")), Denied::Queue, now);
        }
        assert_eq!(refusals.0.len(), MOST);
    }
}
