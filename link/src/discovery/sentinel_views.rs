//! Keeps the last reply of each sentinel, and decides where the primary is. Pure: the caller passes
//! the replies and the time.
//!
//! Sentinels number their failovers with epochs, and exchange the newest epoch. For this reason,
//! the client follows the report with the highest epoch, and remembers that epoch. A sentinel that
//! missed a failover cannot lead the client back to the old primary, even if no other sentinel
//! replies. If reports have the same epoch, the primary with the most votes wins.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    address::target::Address, connect_failure::ConnectFailure, session::hazards::SentinelQuorum,
};

/// An older reply than this has no vote, because its sentinel may be cut off.
const FRESH: Duration = Duration::from_secs(10);

/// The primary that a sentinel reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ReportedPrimary {
    pub(crate) master: Address,
    /// The number of the failover that promoted this primary.
    pub(crate) epoch: u64,
}

/// The last state of one sentinel.
#[derive(Debug)]
struct SentinelView {
    report: Option<(ReportedPrimary, Instant)>,
    failure: Option<ConnectFailure>,
    at: Instant,
    /// How many sentinels exist and reply, according to this sentinel.
    quorum: Option<SentinelQuorum>,
    /// The run id of the sentinel. Two addresses with the same run id lead to one sentinel.
    id: Option<String>,
}

/// The last state of each sentinel by address, and the report that the client follows.
#[derive(Debug, Default)]
pub(super) struct SentinelViews {
    all: BTreeMap<String, SentinelView>,
    followed: Option<ReportedPrimary>,
}

impl SentinelViews {
    pub(super) fn record_report(
        &mut self,
        sentinel: &Address,
        report: ReportedPrimary,
        now: Instant,
    ) {
        let view = SentinelView {
            report: Some((report, now)),
            failure: None,
            at: now,
            quorum: None,
            id: None,
        };
        self.all.insert(sentinel.to_string(), view);
    }

    /// Records that `sentinel` knows no primary. Returns whether this failure must be logged: see
    /// `is_news`.
    pub(super) fn record_unknown(
        &mut self,
        sentinel: &Address,
        why: ConnectFailure,
        now: Instant,
    ) -> bool {
        if let Some(view) = self.all.get_mut(&sentinel.to_string()) {
            (view.report, view.id) = (None, None);
        }
        self.record_failure(sentinel, why, now)
    }

    /// Records how many sentinels `sentinel` reports, and the run id of `sentinel`. The caller must
    /// call `record_report` first.
    pub(super) fn record_quorum(
        &mut self,
        sentinel: &Address,
        quorum: Option<SentinelQuorum>,
        id: Option<String>,
    ) {
        if let Some(view) = self.all.get_mut(&sentinel.to_string()) {
            (view.quorum, view.id) = (quorum, id);
        }
    }

    /// Returns the counts of the sentinel that reports the highest number of usable sentinels.
    /// Ignores sentinels that have not replied recently.
    pub(crate) fn quorum(&self, now: Instant) -> Option<SentinelQuorum> {
        let fresh = self.all.values().filter(|view| view.at + FRESH >= now);
        fresh.filter_map(|view| view.quorum).max_by_key(|quorum| (quorum.usable, quorum.known))
    }

    /// Records that `sentinel` does not reply. Its earlier report stays. Returns whether this
    /// failure must be logged: see `is_news`.
    pub(super) fn record_failure(
        &mut self,
        sentinel: &Address,
        why: ConnectFailure,
        now: Instant,
    ) -> bool {
        let known = self.all.remove(&sentinel.to_string());
        let news = known.as_ref().is_none_or(|it| is_news(&why, it.failure.as_ref()));
        let (report, id) = known.map_or((None, None), |it| (it.report, it.id));
        let view = SentinelView { report, failure: Some(why), at: now, quorum: None, id };
        self.all.insert(sentinel.to_string(), view);
        news
    }

    /// Forgets `sentinel`. A sentinel that is not in the URL stays known only as long as it
    /// replies.
    pub(crate) fn forget(&mut self, sentinel: &Address) {
        self.all.remove(&sentinel.to_string());
    }

    /// Returns the address of the primary if any sentinel reports one. `listed` is the number of
    /// sentinels in the URL.
    pub(crate) fn master(&mut self, listed: usize, now: Instant) -> Option<Address> {
        self.all.values().find(|view| view.report.is_some())?;
        let listed = listed.saturating_sub(self.doubles());
        let sentinels = self.quorum(now).map_or(listed, |quorum| quorum.known.max(listed));
        self.followed = decide(self.followed.as_ref(), &self.fresh(now), sentinels).cloned();
        self.followed.as_ref().map(|report| report.master.clone())
    }

    /// Returns how many addresses lead to a sentinel that is already known by another address.
    fn doubles(&self) -> usize {
        let ids = self.all.values().filter_map(|view| view.id.as_ref());
        ids.clone().count() - ids.collect::<BTreeSet<_>>().len()
    }

    /// Returns the fresh reports. A sentinel with two addresses has one vote.
    fn fresh(&self, now: Instant) -> Vec<&ReportedPrimary> {
        let reported_at = |view: &'_ SentinelView| view.report.as_ref().map(|(_, at)| *at);
        let mut views = Vec::from_iter(self.all.values());
        views.retain(|view| reported_at(view).is_some_and(|at| at + FRESH >= now));
        views.sort_by_key(|view| Reverse(reported_at(view)));
        let mut counted = BTreeSet::new();
        views.retain(|view| view.id.as_ref().is_none_or(|id| counted.insert(id)));
        views
            .into_iter()
            .filter_map(|view| view.report.as_ref().map(|(report, _)| report))
            .collect()
    }

    /// Returns whether each of `sentinels` has replied or failed after the time `since`.
    pub(super) fn have_all_answered(&self, sentinels: &[Address], since: Instant) -> bool {
        let answered =
            |it: &Address| self.all.get(&it.to_string()).is_some_and(|it| it.at >= since);
        sentinels.iter().all(answered)
    }

    /// Returns how many of `sentinels` have reported a primary after the time `since`.
    pub(super) fn reports_since(&self, sentinels: &[Address], since: Instant) -> usize {
        let views = sentinels.iter().filter_map(|it| self.all.get(&it.to_string()));
        views.filter(|view| view.report.as_ref().is_some_and(|(_, at)| *at >= since)).count()
    }

    /// Returns why no sentinel names the primary.
    pub(crate) fn failure(&self, sentinels: &[Address]) -> ConnectFailure {
        ConnectFailure::of_all(sentinels.iter().map(|sentinel| {
            let known = self.all.get(&sentinel.to_string()).and_then(|it| it.failure.clone());
            known.unwrap_or_else(|| no_reply(sentinel).of_sentinel()).at(sentinel)
        }))
    }

    /// Returns whether `sentinel` has reported a primary, and has not replied without one since.
    pub(super) fn has_reported(&self, sentinel: &Address) -> bool {
        self.all.get(&sentinel.to_string()).is_some_and(|view| view.report.is_some())
    }

    /// Returns whether the last request to `sentinel` returned a primary.
    pub(super) fn is_well(&self, sentinel: &Address) -> bool {
        self.all.get(&sentinel.to_string()).is_some_and(|view| view.failure.is_none())
    }

    /// Returns whether all of `sentinels` were asked and no sentinel names the primary.
    pub(super) fn name_no_primary(&self, sentinels: &[Address]) -> bool {
        let all_asked = sentinels.iter().all(|it| self.all.contains_key(&it.to_string()));
        all_asked && self.all.values().all(|view| view.failure.is_some())
    }
}

/// Decides which report to follow: `before`, which was followed so far, or one of `fresh`.
/// `sentinels` is the number of all sentinels.
///
/// The highest epoch wins. Among reports with the same epoch, the primary with the most votes wins.
/// Sentinels that were set up again begin at epoch 0. For this case, a lower epoch wins if most
/// sentinels report it and no fresh report has a higher epoch.
fn decide<'a>(
    before: Option<&'a ReportedPrimary>,
    fresh: &[&'a ReportedPrimary],
    sentinels: usize,
) -> Option<&'a ReportedPrimary> {
    let votes = |report: &ReportedPrimary| fresh.iter().filter(|it| **it == report).count();
    let rank = |it: &&ReportedPrimary| (it.epoch, votes(it), Reverse(it.master.to_string()));
    let newest = fresh.iter().copied().max_by_key(rank);
    let is_outdated = |before: &&ReportedPrimary| {
        newest.is_some_and(|it| it.epoch >= before.epoch || 2 * votes(it) > sentinels)
    };
    before.filter(|it| !is_outdated(it)).or(newest)
}

/// Returns whether the failure `why` must be logged after the failure `before`. Only a first
/// failure, and a lasting failure after a temporary one, must be logged.
fn is_news(why: &ConnectFailure, before: Option<&ConnectFailure>) -> bool {
    before.is_none_or(|before| why.is_lasting() && !before.is_lasting())
}

/// Returns the failure of a `sentinel` that has not replied yet.
fn no_reply(sentinel: &Address) -> ConnectFailure {
    match sentinel {
        Address::Tcp { tls: true, .. } => {
            ConnectFailure::passing("no reply; does this port use TLS?")
        }
        _ => ConnectFailure::passing("no reply"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".into(), port, tls: false }
    }

    /// Returns views of several sentinels. Each of `reports` has a primary's port and an epoch.
    fn views(reports: &[(u16, u64)], now: Instant) -> SentinelViews {
        let mut views = SentinelViews::default();
        for (sentinel, (master, epoch)) in (1..).zip(reports) {
            views.record_report(
                &at(sentinel),
                ReportedPrimary { master: at(*master), epoch: *epoch },
                now,
            );
        }
        views
    }

    /// Returns the port of the primary, according to three sentinels.
    fn master(views: &mut SentinelViews, now: Instant) -> Option<u16> {
        match views.master(3, now)? {
            Address::Tcp { port, .. } => Some(port),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn newest_epoch_wins_and_most_reports_decide_within_an_epoch() {
        let now = Instant::now();
        for (reports, expected) in [
            (&[][..], None),
            (&[(71, 3)], Some(71)),
            (&[(71, 3), (71, 3), (72, 4)], Some(72)),
            (&[(72, 4), (71, 3), (71, 3)], Some(72)),
            (&[(99, 0), (71, 0), (71, 0)], Some(71)),
            (&[(99, 0), (71, 7), (99, 0)], Some(71)),
        ] {
            assert_eq!(master(&mut views(reports, now), now), expected, "{reports:?}");
        }
    }

    #[test]
    fn report_of_a_silent_sentinel_counts_until_a_newer_epoch() {
        let start = Instant::now();
        let mut views = views(&[(71, 3), (72, 4)], start);
        let later = start + FRESH + Duration::from_secs(1);
        assert_eq!(master(&mut views, start), Some(72));
        assert!(views.record_failure(&at(2), ConnectFailure::passing("gone"), start));
        assert!(!views.record_failure(&at(2), ConnectFailure::passing("gone"), later));
        assert!(views.has_reported(&at(2)) && !views.has_reported(&at(3)));
        assert!(views.record_failure(&at(2), ConnectFailure::lasting("WRONGPASS"), later));
        assert!(!views.record_failure(&at(2), ConnectFailure::passing("gone"), later));
        assert_eq!(master(&mut views, later), Some(72));
        views.record_report(&at(1), ReportedPrimary { master: at(71), epoch: 3 }, later);
        assert_eq!(master(&mut views, later), Some(72));
        views.forget(&at(2));
        assert_eq!(
            master(&mut views, later),
            Some(72),
            "the primary stays when a sentinel is forgotten"
        );
        views.record_report(&at(1), ReportedPrimary { master: at(73), epoch: 5 }, later);
        assert_eq!(master(&mut views, later), Some(73));
    }

    #[test]
    fn lower_epoch_is_used_if_a_majority_reports_no_higher_epoch() {
        let report = |(port, epoch)| ReportedPrimary { master: at(port), epoch };
        for (fresh, sentinels, expected) in [
            (&[][..], 3, 72),
            (&[(71, 3)], 3, 72),
            (&[(71, 3), (71, 3)], 4, 72),
            (&[(71, 3), (70, 2)], 3, 72),
            (&[(71, 3), (71, 3), (72, 4)], 3, 72),
            (&[(71, 0), (71, 0)], 3, 71),
            (&[(71, 0)], 1, 71),
            (&[(71, 4)], 3, 71),
            (&[(71, 5)], 3, 71),
        ] {
            let all = Vec::from_iter(fresh.iter().copied().map(report));
            let (before, all) = (report((72, 4)), Vec::from_iter(&all));
            let decided = decide(Some(&before), &all, sentinels);
            assert_eq!(decided.map(|it| &it.master), Some(&at(expected)), "{fresh:?}");
        }
    }

    #[test]
    fn lone_sentinel_is_outvoted_if_it_knows_other_sentinels() {
        let now = Instant::now();
        let mut views = views(&[(72, 4)], now);
        assert_eq!(views.master(1, now), Some(at(72)));
        views.record_report(&at(1), ReportedPrimary { master: at(71), epoch: 3 }, now);
        views.record_quorum(
            &at(1),
            Some(SentinelQuorum { known: 3, usable: 1, quorum: None }),
            None,
        );
        assert_eq!(views.master(1, now), Some(at(72)));
        views.record_quorum(
            &at(1),
            Some(SentinelQuorum { known: 1, usable: 1, quorum: None }),
            None,
        );
        assert_eq!(views.master(1, now), Some(at(71)));
    }

    #[test]
    fn sentinel_with_two_addresses_has_one_vote() {
        let now = Instant::now();
        let mut views = views(&[(72, 4), (72, 4), (72, 4)], now);
        assert_eq!(master(&mut views, now), Some(72));
        let later = now + FRESH + Duration::from_secs(1);
        for (address, id, expected) in [(3, "a", 72), (4, "a", 72), (2, "b", 71)] {
            views.record_report(&at(address), ReportedPrimary { master: at(71), epoch: 3 }, later);
            views.record_quorum(&at(address), None, Some(id.into()));
            assert_eq!(master(&mut views, later), Some(expected), "{address}");
        }
    }

    /// Former bug: a sentinel with two addresses counted as two, so its vote was no majority.
    #[test]
    fn single_sentinel_with_two_addresses_is_a_majority() {
        let now = Instant::now();
        let mut views = views(&[(72, 4), (72, 4)], now);
        assert_eq!(views.master(2, now), Some(at(72)));
        for address in [1, 2] {
            views.record_report(&at(address), ReportedPrimary { master: at(71), epoch: 0 }, now);
            let quorum = Some(SentinelQuorum { known: 1, usable: 1, quorum: None });
            views.record_quorum(&at(address), quorum, Some("a".into()));
        }
        assert_eq!(views.master(2, now), Some(at(71)));
    }

    #[test]
    fn discovery_failure_names_each_sentinel() {
        let now = Instant::now();
        let (mut views, sentinels) = (SentinelViews::default(), [at(1), at(2)]);
        let none = || ConnectFailure::lasting("it knows no `main`");
        assert!(views.record_unknown(&at(1), none(), now));
        assert!(!views.record_unknown(&at(1), none(), now), "a repeated report changes nothing");
        assert!(!views.record_failure(&at(1), ConnectFailure::passing("gone"), now));
        assert!(views.record_unknown(&at(1), none(), now), "the report is new after a failure");
        assert!(!views.have_all_answered(&sentinels, now));
        assert_eq!(views.failure(&sentinels).to_string(), "h:1: it knows no `main`; h:2: no reply");
        views.record_failure(&at(2), ConnectFailure::passing("refused"), now);
        assert!(views.have_all_answered(&sentinels, now));
        assert_eq!(views.reports_since(&sentinels, now), 0);
        assert!(!views.have_all_answered(&sentinels, now + Duration::from_millis(1)));
        views.forget(&at(1));
        assert_eq!(master(&mut views, now), None);
        assert!(views.name_no_primary(&[at(2)]) && !views.name_no_primary(&sentinels));
        let tls = Address::Tcp { host: "h".into(), port: 1, tls: true };
        assert!(views.failure(&[tls]).to_string().contains("does this port use TLS?"));
    }
}
