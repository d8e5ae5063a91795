//! Decides when to renew, which leases to renew together, and which have expired.
//!
//! The schedule does no I/O and reads no clock: the caller passes the time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Map, Outcome},
    engine::{
        clock::Stamp,
        hold::Hold,
        timing::{ECHO, LONGEST_DOUBT, SHORTEST_RETRY, TOGETHER},
    },
};

/// Every hold of a client, by the time of its next check.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    watched: Map<Id, Watched>,
    due: BTreeSet<(Stamp, Id)>,
}

/// The number of a hold's grant. If a grant is handed off, the next hold has the same number.
type Id = u64;

#[derive(Debug)]
struct Watched {
    hold: Arc<Hold>,
    due: Stamp,
    /// When the last renewal was sent. Before the first renewal: when the hold began.
    asked_at: Stamp,
    awaits: Awaits,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Awaits {
    Nothing,
    /// The reply to the last request.
    Answer,
    /// The reply to the last request. Another renewal follows, because a check became due after
    /// that request was sent.
    Another,
}

/// The work that is due by the schedule.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) renew: Vec<Arc<Hold>>,
    /// How long the first of these renewals has been due.
    pub(super) lag: Duration,
    pub(super) over: Vec<Arc<Hold>>,
}

impl Schedule {
    /// Plans the renewals of the grant of `hold` from now on. If `taken_over` is set, another hold
    /// had this grant before.
    pub(super) fn watch(&mut self, hold: &Arc<Hold>, taken_over: bool) {
        let id = hold.grant.id;
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.hold = Arc::clone(hold);
            // This hold takes over the lease of the earlier hold, but may have to end earlier
            // because of its own `max_hold`.
            if let Some(end) = hold.must_end_at.filter(|end| watched.due > *end) {
                self.put_off(id, end.into());
            }
            return;
        }
        // If an earlier hold had the grant, the grant is checked at once, because the store may
        // have rejected a renewal during the hand-off.
        let due = if taken_over { hold.entered_at.into() } else { hold.renew_at() };
        let due = due.min(hold.ends());
        let (hold, stamp) = (Arc::clone(hold), due.into());
        self.due.insert((stamp, id));
        let (asked_at, awaits) = (hold.entered_at, Awaits::Nothing);
        self.watched.insert(id, Watched { hold, due: stamp, asked_at, awaits });
    }

    pub(super) fn unwatch(&mut self, id: Id) {
        if let Some(watched) = self.watched.remove(&id) {
            self.due.remove(&(watched.due, id));
        }
    }

    /// Plans a renewal of this hold at `now`. If a renewal is in flight, another renewal follows.
    /// Messages cause these renewals. Renewals are at least [`ECHO`] apart, so that very many
    /// forged messages do not cause very many renewals.
    pub(super) fn ask_about(&mut self, id: Id, now: Instant) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        let due = now.max(Instant::from(watched.asked_at) + ECHO);
        if watched.awaits != Awaits::Nothing {
            watched.awaits = Awaits::Another;
        } else if watched.due > due.into() {
            self.put_off(id, due);
        }
    }

    /// Plans a renewal of every hold at `now`. If a renewal is in flight, another renewal follows.
    pub(super) fn ask_about_all(&mut self, now: Instant) {
        let all: Vec<Id> = self.due.iter().map(|(_, id)| *id).collect();
        all.into_iter().for_each(|id| self.ask_about(id, now));
    }

    /// Forgets the requests in flight, and plans to send them again at `now`.
    pub(super) fn forget_requests(&mut self, now: Instant) {
        let mut again = Vec::new();
        for (id, watched) in &mut self.watched {
            if std::mem::replace(&mut watched.awaits, Awaits::Nothing) != Awaits::Nothing {
                again.push(*id);
            }
        }
        again.into_iter().for_each(|id| self.put_off(id, now));
    }

    /// Returns when to check again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| (*due).into())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.watched.len()
    }

    pub(super) fn holds(&self) -> Vec<Arc<Hold>> {
        let watched = self.due.iter().filter_map(|(_, id)| self.watched.get(id));
        watched.map(|watched| Arc::clone(&watched.hold)).collect()
    }

    /// Ends the holds that are over. Returns these holds, and the holds to renew at `now`.
    pub(super) fn tick(&mut self, now: Instant) -> Due {
        let mut due = Due::default();
        if self.next().is_none_or(|first| first > now) {
            return due;
        }
        let soon = self.due.range(..=((now + TOGETHER).into(), Id::MAX)).copied();
        for (planned, id) in soon.collect::<Vec<_>>() {
            match self.check(id, now) {
                Some(hold) if hold.remaining(now).is_err() => due.over.push(hold),
                Some(hold) => {
                    due.renew.push(hold);
                    due.lag = due.lag.max(now.saturating_duration_since(planned.into()));
                }
                None => {}
            }
        }
        due
    }

    /// Checks one hold. Returns this hold if it needs a renewal, or is over.
    fn check(&mut self, id: Id, now: Instant) -> Option<Arc<Hold>> {
        let watched = self.watched.get_mut(&id)?;
        if watched.hold.remaining(now).is_err() {
            let over = Arc::clone(&watched.hold);
            self.unwatch(id);
            return Some(over);
        }
        let in_flight = watched.awaits != Awaits::Nothing;
        if !in_flight {
            (watched.asked_at, watched.awaits) = (now.into(), Awaits::Answer);
            watched.hold.asks(now);
        }
        let (hold, ends) = (Arc::clone(&watched.hold), watched.hold.ends());
        // If no reply comes, the next check is at the end of the lease. Each check reads this end
        // from the hold, because a reentry also renews the lease.
        self.put_off(id, ends);
        (!in_flight).then_some(hold)
    }

    fn put_off(&mut self, id: Id, due: Instant) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        self.due.remove(&(watched.due, id));
        watched.due = due.into();
        self.due.insert((watched.due, id));
    }

    /// Records the reply to the renewal that was sent at `asked_at`. If a later renewal has been
    /// sent, the reply is ignored. If the store no longer has the grant, returns the hold that must
    /// end, which is the last hold of this grant.
    pub(super) fn answered(
        &mut self,
        hold: &Arc<Hold>,
        outcome: Outcome,
        asked_at: Instant,
        now: Instant,
    ) -> Option<Arc<Hold>> {
        let id = hold.grant.id;
        let watched = self.watched.get_mut(&id)?;
        if watched.asked_at != asked_at.into() {
            return None;
        }
        let again = match std::mem::replace(&mut watched.awaits, Awaits::Nothing) {
            Awaits::Nothing => return None,
            Awaits::Answer => None,
            Awaits::Another => Some(now.max(asked_at + ECHO)),
        };
        // If the grant was handed off after the request, the reply is for the hold that has the
        // grant now.
        let hold = Arc::clone(&watched.hold);
        match outcome {
            Outcome::Renewed | Outcome::Held(_) => {
                if let Outcome::Held(left) = outcome {
                    hold.ends_in_store(asked_at + left);
                }
                hold.renewed(asked_at, now);
                let due = match hold.renew_at() {
                    renew_at if renew_at > now => renew_at,
                    // A fixed lease is checked again after another third of the lease.
                    _ => asked_at + hold.grant.claim.ttl / 3,
                };
                self.put_off(id, again.unwrap_or(due).min(due).min(hold.ends()));
            }
            Outcome::NotOwned => {
                self.unwatch(id);
                return Some(hold);
            }
            Outcome::Unknown => {
                hold.doubt();
                let left = hold.ends().saturating_duration_since(now);
                let pause = (left / 4).min(hold.grant.claim.ttl / 10).min(LONGEST_DOUBT);
                let due = now + pause.max(SHORTEST_RETRY);
                self.put_off(id, again.unwrap_or(due).min(due).min(hold.ends()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{CENTURY, Claim, Identity, Lease, LostReason, Object},
        engine::{
            counters::Counters,
            grant::{Grant, LocalHandoff, ReplicationStatus, Terms},
        },
    };

    const TTL: u64 = 3_000;
    /// A lease of three seconds has a margin of 32 ms.
    const END: u64 = 2_968;

    const LOCAL: LocalHandoff = LocalHandoff { most: 2, time: Duration::from_millis(500) };
    const RENEWED: Terms = Terms { renewed: true, max_hold: None, local: LOCAL };

    struct Setup {
        schedule: Schedule,
        start: Instant,
        identity: Identity,
        last_id: u64,
        counters: Arc<Counters>,
    }

    impl Setup {
        fn new() -> Self {
            Self {
                schedule: Schedule::default(),
                start: Instant::now(),
                identity: Identity::of("client"),
                last_id: 0,
                counters: Arc::default(),
            }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        fn add(&mut self, at: u64, terms: Terms) -> Arc<Hold> {
            self.add_for(Duration::from_millis(TTL), at, terms)
        }

        fn add_for(&mut self, ttl: Duration, at: u64, terms: Terms) -> Arc<Hold> {
            let owner = self.identity.fresh_owner();
            let claim = Claim::plain(Object::lock("door"), owner, ttl);
            let lease = Lease::new(self.at(at), ttl);
            self.last_id += 1;
            let grant = Grant {
                id: self.last_id,
                claim,
                leased_at: lease.asked_at,
                asked_at: lease.asked_at.into(),
                replication: ReplicationStatus::default(),
                unsure: false,
                contended: false,
                budget: terms.local.from(self.at(at)),
                token: None,
                element: None,
            };
            let hold = Arc::new(Hold::new(grant, terms, self.at(at), &self.counters));
            self.schedule.watch(&hold, false);
            hold
        }

        fn add_at(&mut self, at: u64) -> Arc<Hold> {
            self.add(at, RENEWED)
        }

        fn renewed_at(&mut self, at: u64) -> usize {
            let now = self.at(at);
            self.schedule.tick(now).renew.len()
        }

        fn answer(&mut self, hold: &Arc<Hold>, outcome: Outcome, at: u64) {
            let now = self.at(at);
            let asked = self.schedule.watched.get(&hold.grant.id);
            let asked = asked.filter(|it| it.awaits != Awaits::Nothing).map(|it| it.asked_at);
            self.schedule.answered(hold, outcome, asked.map_or(now, Instant::from), now);
        }

        fn over(&self, hold: &Arc<Hold>, at: u64) -> Option<LostReason> {
            hold.remaining(self.at(at)).err()
        }

        fn next(&self) -> u64 {
            let next = self.schedule.next().unwrap() - self.start;
            u64::try_from(next.as_nanos().div_ceil(1_000_000)).unwrap()
        }
    }

    #[test]
    fn hold_is_renewed_each_third_of_its_ttl() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        assert_eq!((t.next(), t.renewed_at(999)), (1_000, 0));
        assert_eq!(t.renewed_at(1_000), 1);
        t.answer(&hold, Outcome::Renewed, 1_010);
        assert_eq!(t.next(), 2_000);
    }

    #[test]
    fn renewed_lease_starts_when_the_request_was_sent() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.renewed_at(1_000);
        t.answer(&hold, Outcome::Renewed, 2_500);
        assert_eq!(t.over(&hold, 1_000 + END - 1), None);
        assert_eq!(t.over(&hold, 1_000 + END), Some(LostReason::Expired));
    }

    #[test]
    fn holds_that_are_due_soon_are_renewed_together() {
        let mut t = Setup::new();
        for at in [0, 100, 250, 251] {
            t.add_at(at);
        }
        assert_eq!(t.renewed_at(1_000), 3);
        assert_eq!(t.next(), 1_251);
    }

    #[test]
    fn reentry_during_a_renewal_causes_no_loop_of_renewals() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.renewed_at(1_000);
        hold.renewed(t.at(1_500), t.at(1_500));
        assert_eq!((t.next(), t.renewed_at(END)), (END, 0));
        assert_eq!(t.next(), 1_500 + END);
    }

    #[test]
    fn hold_expires_in_time_when_its_renewal_gets_no_reply() {
        // given a renewal that was sent and gets no reply
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.renewed_at(1_000);

        // then the next check is at the end of the lease
        assert_eq!(t.next(), END);
        assert_eq!(t.renewed_at(END), 0);
        assert_eq!(t.over(&hold, END), Some(LostReason::Expired));
        assert_eq!(t.schedule.len(), 0);

        // and a later reply changes nothing
        t.answer(&hold, Outcome::Renewed, END + 1);
        assert_eq!(t.over(&hold, END + 1), Some(LostReason::Expired));
    }

    #[test]
    fn failed_renewal_is_retried_until_the_lease_end() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        let (mut now, mut tries) = (1_000, 0);
        while now < END {
            tries += t.renewed_at(now);
            t.answer(&hold, Outcome::Unknown, now);
            assert_eq!(t.over(&hold, now), None, "a hold in doubt is not lost");
            now = t.next();
        }
        assert!(tries > 5, "{tries}");
        t.renewed_at(END);
        assert_eq!(t.over(&hold, END), Some(LostReason::Expired));
    }

    #[test]
    fn century_lease_is_checked_again_soon_after_a_failed_check() {
        let mut t = Setup::new();
        let hold = t.add_for(CENTURY, 0, Terms { renewed: false, ..RENEWED });
        t.schedule.ask_about_all(t.at(1_000));
        assert_eq!(t.renewed_at(1_000), 1);
        t.answer(&hold, Outcome::Unknown, 1_000);
        assert_eq!(t.over(&hold, 1_000), None);
        assert!(t.next() <= 11_000, "{}", t.next());
    }

    #[test]
    fn hold_is_lost_at_once_when_a_renewal_finds_it_missing() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.renewed_at(1_000);
        t.answer(&hold, Outcome::NotOwned, 1_001);
        assert_eq!(t.schedule.len(), 0);
        assert_eq!(t.schedule.len(), 0);
    }

    #[test]
    fn fixed_lease_is_checked_and_never_renewed() {
        let mut t = Setup::new();
        let hold = t.add(0, Terms { renewed: false, ..RENEWED });
        assert_eq!(hold.renewal().ttl, None);
        for at in [1_000, 2_000] {
            assert_eq!(t.next(), at);
            assert_eq!(t.renewed_at(at), 1);
            t.answer(&hold, Outcome::Renewed, at);
        }
        assert_eq!(t.next(), END);
        assert_eq!(t.over(&hold, END), Some(LostReason::Expired));
    }

    #[test]
    fn checked_hold_ends_before_its_lease_in_the_store() {
        for (left, end) in [(2_000, END), (1_970, END), (700, 1_700 - (TTL - END))] {
            let mut t = Setup::new();
            let hold = t.add(0, Terms { renewed: false, ..RENEWED });
            t.renewed_at(1_000);
            t.answer(&hold, Outcome::Held(Duration::from_millis(left)), 1_001);
            assert_eq!(t.over(&hold, end - 1), None, "{left}");
            assert_eq!(t.over(&hold, end), Some(LostReason::Expired), "{left}");
        }
    }

    #[test]
    fn hold_ends_at_max_hold() {
        let mut t = Setup::new();
        let most = Some(Duration::from_millis(1_500));
        let hold = t.add(0, Terms { max_hold: most, ..RENEWED });
        t.renewed_at(1_000);
        t.answer(&hold, Outcome::Renewed, 1_001);
        assert_eq!(t.next(), 1_500);
        assert_eq!(t.renewed_at(1_500), 0);
        assert_eq!(t.over(&hold, 1_500), Some(LostReason::MaxHold));
    }

    #[test]
    fn hold_removed_from_the_watchdog_is_not_renewed() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.schedule.unwatch(hold.grant.id);
        assert_eq!(t.renewed_at(1_000), 0);
        assert_eq!(t.schedule.next(), None);
        t.answer(&hold, Outcome::Renewed, 1_001);
        assert_eq!(t.schedule.len(), 0);
    }

    /// Former bug: a check was due again and again without an end (seed 5072).
    #[test]
    fn check_moves_to_the_new_lease_end_after_a_reentry() {
        // given a renewal in flight, and a reentry that renews the lease meanwhile
        let mut t = Setup::new();
        let hold = t.add_at(0);
        t.renewed_at(1_000);
        hold.renewed(t.at(2_000), t.at(2_010));

        // when the old end of the lease comes, then the next check is at the new end
        assert_eq!((t.next(), t.renewed_at(END)), (END, 0));
        assert_eq!(t.over(&hold, END), None);
        assert_eq!(t.next(), 2_000 + END);
    }

    /// The store may have executed a renewal whose reply was lost. Former bug: the client then gave
    /// up a release while the store still had the hold (seed 41061934094770).
    #[test]
    fn unanswered_renewal_may_extend_the_lease_in_the_store() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        assert_eq!(hold.store_ends(), t.at(TTL));
        t.renewed_at(1_000);
        t.answer(&hold, Outcome::Unknown, 1_500);
        assert_eq!(hold.store_ends(), t.at(1_000 + TTL));
        assert_eq!(t.over(&hold, END), Some(LostReason::Expired));
    }

    /// Returns the grant that `hold` hands off, if the grant may be handed off.
    fn left(hold: &Hold, now: Instant) -> Option<Grant> {
        hold.pass_on(now).then(|| hold.grant_for_next(now))?
    }

    impl Setup {
        /// Passes the grant of `hold` to a new hold, if the grant may be handed off.
        fn pass_on(&mut self, hold: &Arc<Hold>, at: u64) -> Option<Arc<Hold>> {
            let (now, grant) = (self.at(at), left(hold, self.at(at))?);
            let next = Arc::new(Hold::new(grant, RENEWED, now, &self.counters));
            self.schedule.watch(&next, true);
            Some(next)
        }
    }

    #[test]
    fn watchdog_renews_only_the_new_hold_of_a_handed_off_grant() {
        let mut t = Setup::new();
        let first = t.add_at(0);
        let second = t.pass_on(&first, 100).unwrap();
        assert_eq!(t.over(&first, 100), Some(LostReason::Released));
        assert_eq!(t.over(&second, 100), None);
        assert_eq!((t.schedule.len(), t.next(), t.renewed_at(1_000)), (1, 1_000, 1));
    }

    #[test]
    fn grant_in_a_hand_off_is_not_renewed() {
        let mut t = Setup::new();
        let first = t.add_at(0);
        let grant = left(&first, t.at(100)).unwrap();
        assert_eq!((t.renewed_at(1_000), t.schedule.len()), (0, 0));
        let next = Arc::new(Hold::new(grant, RENEWED, t.at(1_001), &t.counters));
        t.schedule.watch(&next, true);
        assert_eq!(t.renewed_at(1_001), 1);
    }

    #[test]
    fn ended_hold_stays_ended_after_late_replies() {
        // given two holds whose renewal is in flight
        let mut t = Setup::new();
        let (late, lost) = (t.add_at(0), t.add_at(0));
        assert_eq!(t.renewed_at(1_000), 2);

        // when the lease of one hold ends, and the other hold is lost
        assert_eq!(t.over(&late, END), Some(LostReason::Expired));
        lost.end(LostReason::NotOwned, t.at(0)).unwrap();

        // then a later reply does not make either hold valid again
        t.answer(&late, Outcome::Renewed, END + 1);
        t.answer(&lost, Outcome::Renewed, END + 1);
        assert_eq!(t.over(&late, END + 1), Some(LostReason::Expired));
        assert_eq!(t.over(&lost, END + 1), Some(LostReason::NotOwned));
    }

    #[test]
    fn late_reply_to_an_earlier_renewal_starts_no_lease() {
        // given a renewal that was sent, forgotten, and sent again
        let mut t = Setup::new();
        let hold = t.add_at(0);
        assert_eq!(t.renewed_at(1_000), 1);
        t.schedule.forget_requests(t.at(1_400));
        assert_eq!(t.renewed_at(1_400), 1);

        // when the reply to the first renewal comes, then it does not extend the lease
        t.schedule.answered(&hold, Outcome::Renewed, t.at(1_000), t.at(1_500));
        assert_eq!(t.over(&hold, END), Some(LostReason::Expired));
    }

    #[test]
    fn handed_off_grant_without_a_watchdog_is_renewed_at_once() {
        let mut t = Setup::new();
        let first = t.add_at(0);
        let grant = left(&first, t.at(100)).unwrap();
        t.schedule.unwatch(first.grant.id);
        let next = Arc::new(Hold::new(grant, RENEWED, t.at(101), &t.counters));
        t.schedule.watch(&next, true);
        assert_eq!((t.next(), t.renewed_at(101)), (101, 1));
    }

    /// Former bug: this renewal did not count, and the client gave up a failed release too early.
    #[test]
    fn renewal_sent_before_a_hand_off_extends_the_next_hold() {
        // given a grant that is handed off, while the previous hold sends a renewal
        let mut t = Setup::new();
        let first = t.add_at(0);
        let grant = left(&first, t.at(100)).unwrap();
        first.asks(t.at(1_000));

        // when the reply comes for the next hold
        let next = Hold::new(grant, RENEWED, t.at(101), &t.counters);
        next.renewed(t.at(1_000), t.at(1_010));
        assert_eq!(next.store_ends(), t.at(1_000 + TTL));
    }

    #[test]
    fn local_handoff_limits_the_number_and_the_time_of_hand_offs() {
        let mut t = Setup::new();
        let first = t.add_at(0);
        let second = t.pass_on(&first, 1).unwrap();
        let third = t.pass_on(&second, 2).unwrap();
        assert!(t.pass_on(&third, 3).is_none(), "the limit of two hand-offs is reached");
        assert_eq!(t.over(&third, 3), None);

        let first = t.add_at(0);
        assert!(t.pass_on(&first, 500).is_none(), "the time for hand-offs is over");
    }

    #[test]
    fn only_an_unchanged_grant_is_handed_off() {
        let mut t = Setup::new();
        let doubted = t.add_at(0);
        doubted.doubt();
        let recounted = t.add_at(0);
        recounted.one_more_share();
        recounted.one_share_less();
        let lost = t.add_at(0);
        lost.end(LostReason::NotOwned, t.at(0)).unwrap();
        let fixed = t.add(0, Terms { renewed: false, ..RENEWED });
        for hold in [doubted, recounted, lost, fixed] {
            assert!(t.pass_on(&hold, 1).is_none());
        }
        let local = LocalHandoff { most: 10, time: Duration::from_secs(10) };
        let due = t.add(0, Terms { local, ..RENEWED });
        assert!(t.pass_on(&due, 1_000).is_none(), "the renewal of the hold is due");
    }

    #[test]
    fn hold_is_renewed_at_once_when_a_check_is_requested() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        let now = t.at(40);
        t.schedule.ask_about(hold.grant.id, now);
        assert_eq!((t.next(), t.renewed_at(40)), (40, 1));

        // if a renewal is in flight, another renewal follows
        t.schedule.ask_about(hold.grant.id, now);
        assert_eq!(t.renewed_at(40), 0);
        t.answer(&hold, Outcome::Renewed, 41);
        assert_eq!((t.next(), t.renewed_at(65)), (65, 1));
        t.answer(&hold, Outcome::Renewed, 66);
        assert_eq!(t.next(), 1_065);
    }

    #[test]
    fn repeated_messages_about_a_hold_cause_few_checks() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        let asked: usize = (0..1_000)
            .map(|at| {
                let now = t.at(at);
                t.schedule.ask_about(hold.grant.id, now);
                let asked = t.renewed_at(at);
                t.answer(&hold, Outcome::Renewed, at);
                asked
            })
            .sum();
        assert_eq!(
            asked,
            1_000 / 25 - 1,
            "no renewal in the first 25 ms, in which an echo may arrive"
        );
    }

    #[test]
    fn message_during_a_failed_renewal_causes_an_early_check() {
        let mut t = Setup::new();
        let hold = t.add_at(0);
        let now = t.at(40);
        t.schedule.ask_about(hold.grant.id, now);
        assert_eq!(t.renewed_at(40), 1);
        t.schedule.ask_about(hold.grant.id, now);
        t.answer(&hold, Outcome::Unknown, 50);
        assert_eq!(t.next(), 65);
    }

    #[test]
    fn all_holds_are_checked_when_the_store_recovers() {
        let mut t = Setup::new();
        let holds = [t.add_at(0), t.add_at(0), t.add_at(0)];
        let now = t.at(40);
        t.schedule.ask_about_all(now);
        assert_eq!(t.renewed_at(40), holds.len());
    }

    #[test]
    fn renewal_lag_is_the_delay_after_the_due_time() {
        let mut t = Setup::new();
        t.add_at(0);
        let now = t.at(1_700);
        assert_eq!(t.schedule.tick(now).lag, Duration::from_millis(700));
    }
}
