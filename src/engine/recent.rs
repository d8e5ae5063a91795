//! Recent releases. If a server is replaced, the client repeats them at the new server, which may
//! not have received them.
//!
//! A repeated release cannot end another hold. After the release of an owner was sent, no hold uses
//! this owner again. A hand-off sends no release.
//!
//! The list has a bounded length. Only releases up to a certain age are repeated. The age counts
//! back from the last release, so that no release is forgotten while the store is unreachable. One
//! mutex guards the list. The mutex is a leaf: no other lock is taken under it.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::timing::RELEASES_KEPT;
use crate::domain::{Claim, Mutex, ReleaseMode};

/// The highest number of remembered releases. If there are more, the oldest releases are forgotten.
/// The number is limited, because a new primary must execute all remembered releases again.
const MOST: usize = 4096;

/// The recent releases of this client, the oldest first.
#[derive(Default)]
pub(crate) struct RecentReleases(Mutex<VecDeque<RecentRelease>>);

/// A released claim, and when the client sent the request that got the reply.
struct RecentRelease {
    claim: Claim,
    at: Instant,
}

impl RecentReleases {
    /// Records that the store has replied to a release of `claim` that was sent at `asked_at`.
    /// Returns whether the release is remembered. The list does not remember releases of permits
    /// without a lease, removals of queue entries (`Leave`), or releases that leave their permits
    /// acquired (`Forget`).
    pub(crate) fn note(&self, claim: &Claim, mode: ReleaseMode, asked_at: Instant) -> bool {
        let released = matches!(mode, ReleaseMode::Broadcast | ReleaseMode::HandOver);
        if !released || claim.is_number() {
            return false;
        }
        let mut list = self.0.lock();
        if list.len() == MOST {
            list.pop_front();
        }
        list.push_back(RecentRelease { claim: claim.clone(), at: asked_at });
        true
    }

    /// Returns the released holds that a new server may still have at `now`, and until when. The
    /// new server may not have received the releases.
    pub(super) fn may_be_held(&self, now: Instant) -> Vec<(Claim, Instant)> {
        let list = self.0.lock();
        let Some(newest) = list.back().map(|given| given.at) else { return Vec::new() };
        let lately = list.iter().filter(|given| given.at + RELEASES_KEPT >= newest);
        // The hold may outlast the lease of the claim, if the owner also has a read hold, or if the
        // hold got a new lease.
        let until = |given: &RecentRelease| given.at + given.claim.ttl.max(RELEASES_KEPT);
        let all = lately.map(|given| (given.claim.clone(), until(given)));
        all.filter(|(_, until)| *until > now).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{CENTURY, Object, Owner, Share};

    const TTL: Duration = Duration::from_secs(30);

    fn claim(number: usize, ttl: Duration) -> Claim {
        Claim::plain(Object::lock("door"), Owner::new(format!("one:{number}")).unwrap(), ttl)
    }

    fn owners(recent: &RecentReleases, now: Instant) -> Vec<String> {
        let all = recent.may_be_held(now).into_iter();
        all.map(|(claim, _)| claim.owner.to_string()).collect()
    }

    #[test]
    fn release_is_forgotten_when_its_hold_must_have_expired() {
        let (recent, start) = (RecentReleases::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for seconds in [0, 4, 32] {
            let claim = claim(usize::try_from(seconds).unwrap(), 2 * TTL);
            recent.note(&claim, ReleaseMode::Broadcast, at(seconds));
        }
        // while no release completes, because the store is unreachable, releases are kept
        assert_eq!(owners(&recent, at(63)), ["one:4", "one:32"]);
        // but the releases of holds that have expired by now are dropped
        assert_eq!(owners(&recent, at(65)), ["one:32"]);
        assert_eq!(recent.may_be_held(at(65))[0].1, at(92));
    }

    /// Former bug: a new primary kept a released write hold for as long as a read hold of the same
    /// owner lasted.
    #[test]
    fn recent_release_is_kept_for_the_longest_possible_lease() {
        let (recent, now) = (RecentReleases::default(), Instant::now());
        recent.note(&claim(1, TTL / 6), ReleaseMode::HandOver, now);
        assert_eq!(owners(&recent, now + TTL / 3), ["one:1"]);
        assert!(recent.may_be_held(now + RELEASES_KEPT).is_empty());
    }

    #[test]
    fn recent_releases_fit_into_one_request() {
        let (recent, now) = (RecentReleases::default(), Instant::now());
        for number in 0..MOST + 3 {
            recent.note(&claim(number, TTL), ReleaseMode::HandOver, now);
        }
        let owners = owners(&recent, now);
        assert_eq!((owners.len(), &*owners[0]), (MOST, "one:3"));
    }

    #[test]
    fn only_released_holds_are_remembered() {
        let (recent, now) = (RecentReleases::default(), Instant::now());
        recent.note(&claim(1, TTL), ReleaseMode::Forget, now);
        recent.note(&claim(2, TTL), ReleaseMode::Leave, now);
        let number = Claim { share: Share::Units(1), ..claim(3, CENTURY) };
        recent.note(&number, ReleaseMode::HandOver, now);
        assert!(recent.may_be_held(now).is_empty());

        // but the release of a lock is remembered, however long its lease is
        recent.note(&claim(4, CENTURY), ReleaseMode::HandOver, now);
        assert_eq!(owners(&recent, now), ["one:4"]);
    }
}
