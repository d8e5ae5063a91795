//! Finds hazards in the replies of servers and sentinels. The functions are pure.
//!
//! All facts are in replies that the client requests anyway. So the client sends no extra command
//! and needs no extra permission.

use std::time::Duration;

use crate::{
    hazard::Hazard,
    health::{About, Role},
    session::info::Info,
};

/// The oldest tested version.
const OLDEST: (u32, u32) = (6, 2);

/// The smallest difference of clocks that is reported.
const APART: Duration = Duration::from_secs(1);

/// A replica acknowledges its offset once a second. A replica that has sent no acknowledgement for
/// this time may hang.
const SILENT: Duration = Duration::from_secs(5);

/// A replica that the primary does not count for `min-replicas-to-write` may only be late. If its
/// last acknowledgement is at most this old, the primary will soon count the replica again.
const RECENT: Duration = Duration::from_secs(1);

/// A replica with this many unacknowledged bytes is behind.
const BEHIND: u64 = 32 * 1024 * 1024;

/// With fewer sentinels, the failure of one sentinel leaves no majority.
const SENTINELS: usize = 3;

/// Returns the hazards of the server `about`. `info` is the reply to INFO, or `None` if the ACL
/// denies INFO.
pub(super) fn of_server(about: &About, info: Option<&Info<'_>>) -> Vec<Hazard> {
    let evicts = |policy: &String| (policy != "noeviction").then(|| policy.clone());
    let mut all = Vec::new();
    all.extend(of_role(about.role));
    all.extend(about.version.as_deref().and_then(of_version));
    all.extend(
        about.eviction_policy.as_ref().and_then(evicts).map(|policy| Hazard::Evicts { policy }),
    );
    match info {
        None => all.push(Hazard::ChecksDenied { command: "INFO".into() }),
        Some(info) => {
            all.extend(of_clock(info));
            all.extend(of_replicas(info));
        }
    }
    all
}

fn of_role(role: Option<Role>) -> Option<Hazard> {
    match role? {
        Role::Primary => None,
        Role::Replica => Some(Hazard::Replica),
        Role::ClusterNode => Some(Hazard::ClusterNode),
    }
}

fn of_version(version: &str) -> Option<Hazard> {
    let mut numbers = version.split('.').map(|it| it.parse::<u32>().ok());
    let is_old = (numbers.next()??, numbers.next()??) < OLDEST;
    is_old.then(|| Hazard::OldVersion { version: version.to_owned() })
}

/// Returns a hazard if the server's clock and this client's clock differ by `APART`. The server
/// read its clock at an unknown time between the request and the reply, so the smallest possible
/// difference counts.
fn of_clock(info: &Info<'_>) -> Option<Hazard> {
    let there = info.clock()?;
    let (asked, answered) = info.asked;
    let (ahead, behind) = (there.saturating_sub(answered), asked.saturating_sub(there));
    let by = Duration::from_millis(u64::try_from(ahead.max(behind).as_millis()).ok()?);
    (by >= APART).then_some(Hazard::ClockApart { ahead: ahead > behind, by })
}

/// Returns the hazards of the replicas that a primary lists.
fn of_replicas(info: &Info<'_>) -> Vec<Hazard> {
    let replicas = info.replicas();
    let mut all = Vec::new();
    if !replicas.is_empty() && !info.refuses_alone() {
        all.push(Hazard::UnprotectedPrimary);
    }
    let is_recent = replicas.iter().any(|it| it.silent <= RECENT);
    all.extend((info.has_no_good_replica() && !is_recent).then_some(Hazard::TooFewReplicas));
    let late = replicas.into_iter().filter(|it| it.silent >= SILENT || it.behind >= BEHIND);
    all.extend(late.map(|it| Hazard::ReplicaBehind {
        replica: it.replica,
        silent: it.silent,
        bytes: it.behind,
    }));
    all
}

/// How many sentinels exist and reply, according to one sentinel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SentinelQuorum {
    /// How many sentinels the replying sentinel knows, including itself.
    pub(crate) known: usize,
    /// How many of these sentinels reply.
    pub(crate) usable: usize,
    /// How many sentinels must agree that the primary is down. `None` if the reply lacks this
    /// number.
    pub(crate) quorum: Option<usize>,
}

/// Returns the hazards of sentinels with these counts.
pub(crate) fn of_sentinels(counted: SentinelQuorum) -> Vec<Hazard> {
    let SentinelQuorum { known, usable, quorum } = counted;
    let needed = (known / 2 + 1).max(quorum.unwrap_or_default());
    let few = (known < SENTINELS).then_some(Hazard::FewSentinels { known });
    let lone = (usable < needed).then_some(Hazard::NoQuorum { usable, needed });
    few.into_iter().chain(lone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn known() -> About {
        let (role, version) = (Some(Role::Primary), Some("7.0.15".to_owned()));
        let eviction_policy = Some("noeviction".to_owned());
        About { role, version, eviction_policy, ..About::default() }
    }

    /// Returns the hazards of a server with this INFO, whose request took no time.
    fn of_info(text: &str) -> Vec<Hazard> {
        of_server(&known(), Some(&Info { text, asked: (NOW, NOW) }))
    }

    #[test]
    fn healthy_server_has_no_hazard() {
        assert_eq!(
            of_info("role:master\r\nconnected_slaves:0\r\nserver_time_usec:1700000000500000"),
            []
        );
        let two = "min_slaves_good_slaves:1\r\nmaster_repl_offset:100\r\n\
                   slave0:ip=h,port=1,state=online,offset=90,lag=1\r\n\
                   slave1:ip=h,port=2,state=wait_bgsave,offset=0,lag=9\r\n";
        assert_eq!(of_info(two), []);
        assert_eq!(of_info("min_slaves_good_slaves:0\r\n"), [Hazard::TooFewReplicas]);
        assert_eq!(of_info(&two.replace("slaves:1", "slaves:0")), []);
    }

    #[test]
    fn hazards_are_found_from_the_hello_reply_alone() {
        let unseen = Hazard::ChecksDenied { command: "INFO".into() };
        let replica = About { role: Some(Role::Replica), ..known() };
        assert_eq!(of_server(&replica, None), [Hazard::Replica, unseen]);
        for (version, is_old) in
            [("6.0.16", true), ("5.0", true), ("6.2.0", false), ("8.2", false), ("odd", false)]
        {
            assert_eq!(of_version(version).is_some(), is_old, "{version}");
        }
    }

    #[test]
    fn clock_skew_excludes_the_round_trip() {
        let at = |millis: u64| Duration::from_millis(millis);
        for (asked, there, answered, expected) in [
            (at(10_000), at(9_500), at(10_000), None),
            (at(10_000), at(12_000), at(10_200), Some((true, at(1_800)))),
            (at(10_000), at(7_000), at(10_200), Some((false, at(3_000)))),
            // The reply took 3.5 s, so the clock may be only 0.5 s ahead.
            (at(10_000), at(14_000), at(13_500), None),
        ] {
            let text = format!("server_time_usec:{}", there.as_micros());
            let found = of_clock(&Info { text: &text, asked: (asked, answered) });
            let expected = expected.map(|(ahead, by)| Hazard::ClockApart { ahead, by });
            assert_eq!(found, expected, "{there:?}");
        }
    }

    #[test]
    fn replica_lag_is_found_by_time_or_by_bytes() {
        let text = "master_repl_offset:100000000\r\n\
                    slave0:ip=h,port=1,state=online,offset=99999999,lag=6\r\n\
                    slave1:ip=::1,port=2,state=online,offset=1,lag=0\r\n";
        let behind = |replica: &str, silent, bytes| Hazard::ReplicaBehind {
            replica: replica.into(),
            silent: Duration::from_secs(silent),
            bytes,
        };
        let expected =
            [Hazard::UnprotectedPrimary, behind("h:1", 6, 1), behind("[::1]:2", 0, 99_999_999)];
        assert_eq!(of_info(text), expected);
    }

    #[test]
    fn few_sentinels_or_a_missing_quorum_is_a_hazard() {
        let of = |known, usable, quorum| of_sentinels(SentinelQuorum { known, usable, quorum });
        assert_eq!(of(3, 3, Some(2)), []);
        assert_eq!(of(5, 3, None), []);
        assert_eq!(of(2, 2, Some(2)), [Hazard::FewSentinels { known: 2 }]);
        assert_eq!(of(3, 1, Some(1)), [Hazard::NoQuorum { usable: 1, needed: 2 }]);
        assert_eq!(of(3, 3, Some(4)), [Hazard::NoQuorum { usable: 3, needed: 4 }]);
    }
}
