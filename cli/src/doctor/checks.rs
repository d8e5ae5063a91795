//! Pure functions that judge what the servers report.

use std::{collections::BTreeMap, time::Duration};

use leasehold::{Hazard, Health, ServerReport};

use super::{
    Finding,
    Severity::{Error, Note, Warning},
};

/// Clients never close an idle connection. If the server closes idle connections after fewer than
/// this many seconds, clients must reconnect often.
const SHORT_TIMEOUT: u64 = 60;

pub(super) fn of_report(report: &ServerReport) -> Vec<Finding> {
    let mut all = vec![identity(report)];
    all.extend(
        report.failures.iter().filter_map(|(command, failure)| denied(report, command, failure)),
    );
    if !report.info.is_empty() {
        all.extend(coverage(report));
        all.push(persistence(report));
        all.extend(failed_writes(report));
    }
    all.extend(connections(report));
    all
}

fn identity(report: &ServerReport) -> Finding {
    let fact = |name| report.info.get(name).map_or("unknown", String::as_str);
    let text = format!(
        "Redis {}, {}, {}, {} replicas, maxmemory-policy {}",
        fact("redis_version"),
        fact("redis_mode"),
        fact("role"),
        fact("connected_slaves"),
        fact("maxmemory_policy")
    );
    Finding::new(Note, "server", &report.server, text)
}

/// Returns a finding about a rejected command. `CLUSTER INFO` always fails on a server outside a
/// cluster, so that failure is ignored.
fn denied(report: &ServerReport, command: &str, failure: &str) -> Option<Finding> {
    let is_expected = command == "CLUSTER INFO" && !is_cluster(report);
    let text = format!("{command} cannot be checked: {failure}");
    let remedy = "run doctor as an administrator";
    (!is_expected).then(|| Finding::new(Note, "server", &report.server, text).remedy(remedy))
}

pub(super) fn is_cluster(report: &ServerReport) -> bool {
    report.info.get("cluster_enabled").is_some_and(|is_on| is_on == "1")
}

/// Returns a finding about how many slots of a cluster have a working node.
fn coverage(report: &ServerReport) -> Option<Finding> {
    let ok = report.info.get("cluster_slots_ok").filter(|_| is_cluster(report))?;
    let text = format!("{ok} of 16384 slots have a node that works");
    Some(match ok == "16384" {
        true => Finding::new(Note, "cluster", &report.server, text),
        false => Finding::new(Error, "cluster", &report.server, text)
            .remedy("repair the cluster: redis-cli --cluster check"),
    })
}

/// Returns a finding about the effect of a server restart on locks.
fn persistence(report: &ServerReport) -> Finding {
    let is = |name: &str, value: &str| report.info.get(name).is_some_and(|it| it == value);
    let has_aof = is("aof_enabled", "1");
    let always = report.settings.get("appendfsync").is_some_and(|it| it == "always");
    let has_replicas = !is("connected_slaves", "0");
    let snapshots = report.settings.get("save").map(|save| !save.is_empty());
    let finding =
        |severity, text: &str| Finding::new(severity, "persistence", &report.server, text);
    let remedy = "set appendonly yes and appendfsync always";
    match (has_aof, snapshots) {
        (true, _) if always => finding(Note, "every write is on disk: a restart keeps all locks"),
        (true, _) => finding(Note, "a crash of the machine may lose the grants of the last second")
            .remedy("set appendfsync always if that matters"),
        (false, None) => finding(Note, "no append-only file; snapshots cannot be checked"),
        (false, Some(true)) => {
            finding(Warning, "a crash loses the locks since the last snapshot").remedy(remedy)
        }
        (false, Some(false)) if has_replicas => finding(
            Error,
            "nothing is on disk: if this primary restarts before a failover, it empties its \
             replicas, and all locks and all data of queues, maps and sets are lost",
        )
        .remedy(remedy),
        (false, Some(false)) => finding(
            Warning,
            "nothing is on disk: a restart loses all locks and all data of queues, maps and sets",
        )
        .remedy(remedy),
    }
}

fn failed_writes(report: &ServerReport) -> Option<Finding> {
    let names = ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"];
    let failed =
        names.into_iter().find(|name| report.info.get(*name).is_some_and(|it| it != "ok"))?;
    let text = format!("the server reports a failure in {failed}, and may reject writes");
    let finding = Finding::new(Error, "persistence", &report.server, text);
    Some(finding.remedy("check the disk and the log of the server"))
}

fn connections(report: &ServerReport) -> Vec<Finding> {
    let number = |name: &str| report.settings.get(name).and_then(|it| it.parse::<u64>().ok());
    let finding = |text: String| Finding::new(Warning, "settings", &report.server, text);
    let timeout = number("timeout").filter(|seconds| (1..SHORT_TIMEOUT).contains(seconds));
    let keepalive = number("tcp-keepalive").filter(|seconds| *seconds == 0);
    let timeout = timeout.map(|seconds| {
        finding(format!("timeout {seconds}: idle clients lose their connections"))
            .remedy("set timeout 0")
    });
    let keepalive = keepalive.map(|_| {
        finding("tcp-keepalive 0: the server keeps the connections of dead clients".into())
            .remedy("set tcp-keepalive 300")
    });
    timeout.into_iter().chain(keepalive).collect()
}

/// Returns findings from the health report, such as why no lock can be acquired.
pub(super) fn of_health(health: &Health, reports: &[ServerReport]) -> Vec<Finding> {
    let has_limit = reports.iter().any(|it| it.info.get("maxmemory").is_some_and(|it| it != "0"));
    let hazards = health.findings.iter().map(|finding| {
        let severity = severity(&finding.hazard, has_limit);
        Finding::new(severity, "hazard", &finding.server, finding.hazard.to_string())
            .remedy(finding.hazard.remedy())
    });
    let reason = health.unavailable_reason.iter();
    let reason = reason.map(|it| Finding::new(Error, "health", "no lock can be acquired", it));
    let silent = (!health.messages_up).then(|| {
        Finding::new(Error, "health", "messages", "pub/sub is not connected; waiters poll")
            .remedy("check the permission for SUBSCRIBE, and any proxy")
    });
    reason.chain(silent).chain(hazards).collect()
}

fn severity(hazard: &Hazard, has_limit: bool) -> super::Severity {
    match hazard {
        // Without `maxmemory`, the server evicts nothing.
        Hazard::Evicts { .. } if !has_limit => Warning,
        Hazard::Evicts { .. }
        | Hazard::Replica
        | Hazard::ClusterNode
        | Hazard::NoSentinel
        | Hazard::NoQuorum { .. }
        | Hazard::TooFewReplicas
        | Hazard::NodeUnreachable { .. }
        | Hazard::SlotsWithoutNode { .. }
        | Hazard::ServerMismatch
        | Hazard::OtherPrimary { .. } => Error,
        _ => Warning,
    }
}

/// Compares sorted round trips with the lease. A renewal is due after a third of the lease. Two
/// round trips must fit into the rest, so that a failed renewal can be retried.
pub(super) fn of_latency(round_trips: &[Duration], ttl: Duration) -> Option<Finding> {
    let (median, slowest) = (round_trips.get(round_trips.len() / 2)?, round_trips.last()?);
    let text = format!("round trip {median:.1?}, slowest {slowest:.1?}, for leases of {ttl:?}");
    let severity = match () {
        () if *slowest > ttl / 3 => Error,
        () if *slowest > ttl / 10 => Warning,
        () => return Some(Finding::new(Note, "latency", "health check", text)),
    };
    Some(Finding::new(severity, "latency", "health check", text).remedy("use a longer ttl"))
}

/// Returns a finding that lists the libraries of all clients. Servers before Redis 7.2 do not know
/// the library of a client. If clients use several versions of Redisson, the finding is a warning.
pub(super) fn of_clients(reports: &[ServerReport]) -> Option<Finding> {
    let mut counts = BTreeMap::new();
    for client in reports.iter().flat_map(|report| &report.clients) {
        let fact = |name| client.get(name).filter(|it| !it.is_empty());
        if let (Some(name), Some(version)) = (fact("lib-name"), fact("lib-ver")) {
            *counts.entry((name.to_lowercase(), version)).or_insert(0) += 1;
        }
    }
    let seen = counts.iter().map(|((name, version), count)| format!("{name} {version} ×{count}"));
    let text = seen.collect::<Vec<_>>().join(", ");
    let redissons = counts.keys().filter(|(name, _)| name.contains("redisson")).count();
    match (text.is_empty(), redissons) {
        (true, _) => None,
        (false, 0 | 1) => Some(Finding::new(Note, "clients", "connections", text)),
        (false, _) => Some(
            Finding::new(
                Warning,
                "clients",
                "connections",
                format!("several versions of Redisson: {text}"),
            )
            .remedy("run one version of Redisson, because the fair locks of its versions differ"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn report(info: &[(&str, &str)], settings: &[(&str, &str)]) -> ServerReport {
        let mut report = ServerReport::default();
        (report.info, report.settings) = (map(info), map(settings));
        report
    }

    #[test]
    fn restart_hazard_depends_on_persistence_and_replicas() {
        let of = |aof, save, fsync, replicas| {
            let info = [("aof_enabled", aof), ("connected_slaves", replicas)];
            persistence(&report(&info, &[("save", save), ("appendfsync", fsync)])).severity
        };
        assert_eq!(of("1", "", "always", "2"), Note);
        assert_eq!(of("1", "", "everysec", "0"), Note);
        assert_eq!(of("0", "3600 1", "everysec", "0"), Warning);
        assert_eq!(of("0", "", "everysec", "0"), Warning);
        assert_eq!(of("0", "", "everysec", "1"), Error);
    }

    #[test]
    fn doctor_reports_an_error_when_persistence_failed_to_write() {
        let failed = report(&[("aof_last_write_status", "err")], &[]);
        assert_eq!(failed_writes(&failed).unwrap().severity, Error);
        assert!(failed_writes(&report(&[("aof_last_write_status", "ok")], &[])).is_none());
    }

    #[test]
    fn doctor_reports_an_error_for_a_slot_without_a_node() {
        let of = |ok| coverage(&report(&[("cluster_enabled", "1"), ("cluster_slots_ok", ok)], &[]));
        assert_eq!(of("16384").unwrap().severity, Note);
        assert_eq!(of("16000").unwrap().severity, Error);
        assert!(coverage(&report(&[("cluster_enabled", "0")], &[])).is_none());
    }

    #[test]
    fn doctor_compares_the_latency_with_the_lease() {
        let of = |millis| of_latency(&[Duration::from_millis(millis)], Duration::from_secs(3));
        for (millis, severity) in [(1, Note), (301, Warning), (1_001, Error)] {
            assert_eq!(of(millis).unwrap().severity, severity, "{millis}");
        }
        assert!(of_latency(&[], Duration::from_secs(3)).is_none());
    }

    #[test]
    fn doctor_warns_of_several_redisson_versions() {
        let client = |name, version| map(&[("lib-name", name), ("lib-ver", version)]);
        let of = |clients: &[BTreeMap<String, String>]| {
            let mut report = ServerReport::default();
            report.clients = clients.to_vec();
            of_clients(&[report])
        };
        let (old, new) = (client("Redisson", "3.20.0"), client("redisson", "3.50.0"));
        let one = of(&[new.clone(), new.clone(), client("leasehold", "0.1.0"), map(&[])]).unwrap();
        assert_eq!(one.severity, Note);
        assert_eq!(one.text, "leasehold 0.1.0 ×1, redisson 3.50.0 ×2");
        assert_eq!(of(&[old, new]).unwrap().severity, Warning);
        assert!(of(&[map(&[("lib-name", ""), ("lib-ver", "")])]).is_none());
    }
}
