//! Logs each hazard when it appears and when it is resolved.
//!
//! One mutex guards the hazards of the last health checks. No other lock is taken while this mutex
//! is held.

use std::{
    mem::discriminant,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    connection::dial::Dialer,
    hazard::{Finding, Hazard},
    health::About,
    mutex::Mutex,
};

/// A source of hazards. Each check of a source returns all of its hazards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// The server at this place.
    Server(String),
    /// The sentinels, and the other servers of the URL.
    Around(String),
    /// The kind of channels of the cluster.
    Channels,
    /// The slot map of the cluster.
    Slots,
}

impl Source {
    fn is_at(&self, place: &str) -> bool {
        matches!(self, Self::Server(at) | Self::Around(at) if at == place)
    }
}

/// The present hazards. Each of them was logged.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    active: Mutex<ActiveHazards>,
    /// The highest number of replicas that a lock has required.
    wanted: AtomicU32,
    /// Whether the servers are nodes of a cluster. If so, their role comes from the slot map, and a
    /// hazard of several nodes is logged once.
    of_nodes: bool,
}

impl Warnings {
    pub(super) fn of_nodes() -> Self {
        Self { of_nodes: true, ..Self::default() }
    }

    /// Records that a lock requires this number of replicas.
    pub(super) fn asked_for(&self, replicas: u32) {
        self.wanted.fetch_max(replicas, Ordering::Relaxed);
    }

    /// Returns the hazards of the server `about`. `has_successors` says whether another server can
    /// replace it.
    pub(super) fn findings(&self, about: &About, has_successors: bool) -> Vec<Finding> {
        let on_the_map = |it: &Hazard| matches!(it, Hazard::Replica | Hazard::ClusterNode);
        let hazards = about.hazards.iter().filter(|it| !(self.of_nodes && on_the_map(it)));
        let of_replicas = about.replicas.map(|there| self.of_replicas(there, has_successors));
        let all = hazards.cloned().chain(of_replicas.into_iter().flatten());
        all.map(|it| Finding::at(&about.server, it)).collect()
    }

    /// Returns the hazards of too few replicas: fewer than `replicated` locks require, or none.
    fn of_replicas(
        &self,
        there: usize,
        has_successors: bool,
    ) -> impl Iterator<Item = Hazard> + use<> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let fewer = there < wanted as usize;
        let fewer = fewer.then_some(Hazard::FewerReplicas { wanted, there });
        let none = (there == 0 && has_successors).then_some(Hazard::NoReplica);
        fewer.into_iter().chain(none)
    }

    /// Logs new hazards of a server, and of its deployment.
    pub(super) fn look(&self, about: &About, dialer: &Dialer) {
        let found = self.findings(about, dialer.may_change());
        // A primary that lost all replicas still accepts writes without them, so
        // `UnprotectedPrimary` stays.
        let is_left = about.replicas == Some(0) && about.unavailable_reason().is_none();
        let stays = |it: &Hazard| is_left && *it == Hazard::UnprotectedPrimary;
        self.log_except(Source::Server(dialer.place()), found, stays);
        self.log_sentinel_hazards(dialer);
    }

    /// Logs new hazards of the sentinels, and of the other servers of the URL.
    pub(super) fn log_sentinel_hazards(&self, dialer: &Dialer) {
        self.log(Source::Around(dialer.place()), dialer.findings());
    }

    /// Returns whether a hazard of the server at this place may have ended by itself.
    pub(super) fn may_be_over(&self, place: &str) -> bool {
        let active = self.active.lock();
        let own = active.0.iter().filter(|(source, _)| source.is_at(place));
        own.flat_map(|(_, found)| found).any(|it| it.hazard.is_temporary())
    }

    /// Drops the hazards of this server.
    pub(super) fn forget(&self, place: &str) {
        self.active.lock().forget(place);
    }

    /// Replaces the hazards of `source`. Warns of new hazards, and logs resolved hazards.
    pub(super) fn log(&self, source: Source, found: Vec<Finding>) {
        self.log_except(source, found, |_| false);
    }

    /// Like [`log`](Self::log), but keeps each earlier hazard for which `stays` returns true.
    fn log_except(&self, source: Source, found: Vec<Finding>, stays: impl Fn(&Hazard) -> bool) {
        let (new, over) = self.active.lock().replace(source, found, stays, self.of_nodes);
        // `Sentinels` itself logs that no sentinel names the primary.
        let is_logged_here = |it: &&Finding| it.hazard != Hazard::NoSentinel;
        over.iter().filter(is_logged_here).for_each(log_resolved);
        new.iter().filter(is_logged_here).for_each(log_detected);
    }
}

/// The present hazards, by their source.
#[derive(Debug, Default)]
struct ActiveHazards(Vec<(Source, Vec<Finding>)>);

impl ActiveHazards {
    /// Replaces the hazards of `source`. Returns the new hazards, and the former ones that no
    /// source has any more. If `of_any`, a hazard is not new if another server already has it.
    fn replace(
        &mut self,
        source: Source,
        mut found: Vec<Finding>,
        stays: impl Fn(&Hazard) -> bool,
        of_any: bool,
    ) -> (Vec<Finding>, Vec<Finding>) {
        let own = self.0.iter().position(|(it, _)| *it == source);
        let before = own.map(|at| self.0.swap_remove(at).1).unwrap_or_default();
        found.extend(unseen_now(&before, &found, stays));
        let others: Vec<_> = self.0.iter().flat_map(|(_, found)| found).collect();
        let is_logged =
            |it: &Finding, by: &Finding| is_like(it, by) && (of_any || it.server == by.server);
        let new = first_of_each(&found, is_logged, before.iter().chain(others.iter().copied()));
        let over = first_of_each(&before, is_like, found.iter().chain(others));
        self.0.push((source, found));
        (new, over)
    }

    fn forget(&mut self, place: &str) {
        self.0.retain(|(source, _)| !source.is_at(place));
    }
}

/// Returns the hazards of `before` to keep, although they are not in `found`. For these hazards,
/// `stays` returns true, or a hazard in `found` prevents their check.
fn unseen_now(
    before: &[Finding],
    found: &[Finding],
    stays: impl Fn(&Hazard) -> bool,
) -> Vec<Finding> {
    let is_hidden = |it: &&Finding| {
        (stays(&it.hazard) || found.iter().any(|by| by.hazard.hides(&it.hazard)))
            && !found.iter().any(|other| is_like(it, other))
    };
    before.iter().filter(is_hidden).cloned().collect()
}

/// Returns the hazards of `all` without repetitions, and without those in `others`.
fn first_of_each<'a>(
    all: &'a [Finding],
    is_same: impl Fn(&Finding, &Finding) -> bool,
    others: impl Iterator<Item = &'a Finding>,
) -> Vec<Finding> {
    let mut known: Vec<_> = others.collect();
    let mut is_first = |it: &'a Finding| {
        let is_first = !known.iter().any(|other| is_same(it, other));
        known.push(it);
        is_first
    };
    all.iter().filter(|it| is_first(it)).cloned().collect()
}

fn is_like(it: &Finding, other: &Finding) -> bool {
    discriminant(&it.hazard) == discriminant(&other.hazard)
}

pub(super) fn log_detected(Finding { server, hazard }: &Finding) {
    let remedy = hazard.remedy();
    match hazard {
        Hazard::ChecksDenied { .. } => tracing::debug!(target: "leasehold",
            server, %hazard, remedy, "server checks denied by the ACL"),
        _ => {
            tracing::warn!(target: "leasehold", server, %hazard, remedy, "deployment hazard detected");
        }
    }
}

pub(super) fn log_resolved(Finding { server, hazard }: &Finding) {
    tracing::info!(target: "leasehold", server, %hazard, "deployment hazard resolved");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(server: &str) -> Source {
        Source::Server(server.into())
    }

    /// Sets the hazards of a server. Returns how many are new and how many are resolved.
    fn replace(
        active: &mut ActiveHazards,
        server: &str,
        hazards: &[Hazard],
        of_any: bool,
    ) -> [usize; 2] {
        let found = hazards.iter().map(|it| Finding::at(server, it.clone())).collect();
        let (new, over) = active.replace(at(server), found, |_| false, of_any);
        [new.len(), over.len()]
    }

    #[test]
    fn hazard_is_reported_again_when_it_returns() {
        let mut active = ActiveHazards::default();
        let mut changes = |hazards: &[Hazard]| replace(&mut active, "one", hazards, false);
        assert_eq!(changes(&[Hazard::UnprotectedPrimary]), [1, 0]);
        assert_eq!(changes(&[Hazard::UnprotectedPrimary]), [0, 0]);
        assert_eq!(changes(&[Hazard::NoReplica]), [1, 1]);
        assert_eq!(changes(&[]), [0, 1]);
        assert_eq!(changes(&[Hazard::NoReplica]), [1, 0]);
    }

    #[test]
    fn hazard_stays_raised_while_it_cannot_be_checked() {
        let unseen = || Hazard::ChecksDenied { command: "INFO".into() };
        let quorum = || Hazard::NoQuorum { usable: 1, needed: 2 };
        for (before, blind) in [
            (&[Hazard::UnprotectedPrimary, Hazard::Replica][..], unseen()),
            (&[quorum(), Hazard::ServerMismatch], Hazard::NoSentinel),
        ] {
            let mut active = ActiveHazards::default();
            assert_eq!(replace(&mut active, "one", before, false), [2, 0]);
            let alone = std::slice::from_ref(&blind);
            assert_eq!(replace(&mut active, "one", alone, false), [1, 1], "{blind:?}");
            assert_eq!(replace(&mut active, "one", &before[..1], false), [0, 1], "{blind:?}");
            assert_eq!(replace(&mut active, "one", &[], false), [0, 1], "{blind:?}");
        }
    }

    #[test]
    fn only_the_first_hazard_of_a_kind_is_logged() {
        let behind = |replica: &str| Hazard::ReplicaBehind {
            replica: replica.into(),
            silent: std::time::Duration::ZERO,
            bytes: 1,
        };
        let mut active = ActiveHazards::default();
        let both = [behind("one"), behind("two")];
        assert_eq!(replace(&mut active, "one", &both, false), [1, 0]);
        assert_eq!(replace(&mut active, "one", &both[1..], false), [0, 0]);
        assert_eq!(replace(&mut active, "one", &[], false), [0, 1]);
    }

    #[test]
    fn hazard_of_several_nodes_is_logged_once() {
        for (of_any, expected) in
            [(true, [[0, 0], [0, 0], [0, 1]]), (false, [[1, 0], [0, 0], [0, 1]])]
        {
            let mut active = ActiveHazards::default();
            assert_eq!(replace(&mut active, "one", &[Hazard::UnprotectedPrimary], of_any), [1, 0]);
            let second = replace(&mut active, "two", &[Hazard::UnprotectedPrimary], of_any);
            let first_well = replace(&mut active, "one", &[], of_any);
            let both_well = replace(&mut active, "two", &[], of_any);
            assert_eq!([second, first_well, both_well], expected);
        }
    }

    #[test]
    fn server_without_replicas_raises_both_replica_hazards() {
        let warnings = Warnings::default();
        let about = About { server: "one".into(), replicas: Some(0), ..About::default() };
        let found = || -> Vec<_> {
            warnings.findings(&about, true).into_iter().map(|it| it.hazard).collect()
        };
        assert_eq!(found(), [Hazard::NoReplica]);
        warnings.asked_for(1);
        assert_eq!(found(), [Hazard::FewerReplicas { wanted: 1, there: 0 }, Hazard::NoReplica]);
    }

    #[test]
    fn removed_node_has_no_hazards_and_logs_none_as_resolved() {
        let mut active = ActiveHazards::default();
        replace(&mut active, "one", &[Hazard::UnprotectedPrimary], true);
        active.forget("one");
        assert_eq!(replace(&mut active, "two", &[Hazard::UnprotectedPrimary], true), [1, 0]);
    }
}
