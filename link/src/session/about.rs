//! Identifies a server by its replies to HELLO and INFO.

use std::time::Duration;

use redis::Value;

use crate::{
    connect_failure::ConnectFailure,
    health::{About, Role},
    replies,
    session::{hazards, info::Info},
    shown::shown,
};

/// Parses the reply to HELLO.
pub(crate) fn greeted(facts: &[(Value, Value)]) -> Result<About, ConnectFailure> {
    let fact = |name| replies::field(facts, name).and_then(replies::text);
    let role = match (fact("mode"), fact("role")) {
        (Some("sentinel"), _) => {
            return Err(ConnectFailure::lasting(
                "this server is a Sentinel and stores no locks; use the Redis server that it \
                 watches, or redis-sentinel://host:port/mymaster",
            ));
        }
        (_, Some("replica" | "slave")) => Some(Role::Replica),
        (Some("cluster"), _) => Some(Role::ClusterNode),
        (_, Some("master")) => Some(Role::Primary),
        _ => None,
    };
    let (version, clustered) = (fact("version").map(shown), fact("mode") == Some("cluster"));
    Ok(About { role, version, clustered, ..About::default() })
}

/// Returns whether the reply to HELLO is that of a sentinel.
pub(crate) fn is_sentinel(facts: &[(Value, Value)]) -> bool {
    replies::field(facts, "mode").and_then(replies::text) == Some("sentinel")
}

/// Fails if the server is not the primary.
pub(crate) fn must_be_primary(about: &About) -> Result<(), ConnectFailure> {
    match about.role {
        Some(Role::Primary) => Ok(()),
        Some(Role::Replica) => Err(ConnectFailure::passing("this server is a replica")),
        Some(Role::ClusterNode) => {
            Err(ConnectFailure::lasting("this server is a node of a cluster"))
        }
        None => Err(ConnectFailure::passing(
            "this server does not report its role; grant the user the command INFO",
        )),
    }
}

/// Adds the reply to INFO to the `known` facts about a server. This reply is the last of `replies`.
/// The client sent INFO at the time of day `asked`.
pub(crate) fn with_info(mut known: About, replies: &[Value], asked: Duration) -> About {
    let info = Info::among(replies, asked);
    if let Some(info) = &info {
        known.role = match info.is_replica() {
            Some(true) => Some(Role::Replica),
            Some(false) if known.role == Some(Role::Replica) => Some(role_of(&known)),
            _ => known.role,
        };
        known.eviction_policy = info.eviction_policy().or(known.eviction_policy);
        known.is_full = info.is_full();
        known.run_id = info.run_id().or(known.run_id);
        known.replicas = match known.role {
            Some(Role::Replica) => None,
            _ => Some(info.replicas().len()),
        };
    }
    known.hazards = hazards::of_server(&known, info.as_ref());
    known
}

/// Returns the role of a server that is not a replica.
fn role_of(known: &About) -> Role {
    match known.clustered {
        true => Role::ClusterNode,
        false => Role::Primary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::Hazard;

    fn hello(mode: &str, role: &str) -> Result<About, ConnectFailure> {
        let bulk = |text: &str| Value::BulkString(text.into());
        let facts = [("version", "7.0.15"), ("mode", mode), ("role", role)];
        greeted(&facts.map(|(name, value)| (bulk(name), bulk(value))))
    }

    #[test]
    fn hello_reply_identifies_the_server() {
        for (mode, role, expected) in [
            ("standalone", "master", Some(Role::Primary)),
            ("standalone", "replica", Some(Role::Replica)),
            ("cluster", "master", Some(Role::ClusterNode)),
            ("cluster", "replica", Some(Role::Replica)),
            ("odd", "odd", None),
        ] {
            let about = hello(mode, role).unwrap();
            assert_eq!((about.role, about.version.as_deref()), (expected, Some("7.0.15")));
            assert_eq!(about.clustered, mode == "cluster");
        }
        assert_eq!(greeted(&[]).unwrap(), About::default());
    }

    #[test]
    fn sentinel_is_rejected_as_a_lock_server() {
        assert!(hello("sentinel", "master").unwrap_err().to_string().contains("Sentinel"));
    }

    #[test]
    fn info_reply_overrides_the_hello_reply() {
        let info = |role: &str| [Value::BulkString(format!("role:{role}\r\nrun_id:a\r\n").into())];
        for (mode, expected) in [("standalone", Role::Primary), ("cluster", Role::ClusterNode)] {
            let greeted = hello(mode, "replica").unwrap();
            let promoted = with_info(greeted, &info("master"), Duration::ZERO);
            assert_eq!((promoted.role, promoted.run_id.as_deref()), (Some(expected), Some("a")));
            let demoted = with_info(promoted, &info("slave"), Duration::ZERO);
            assert_eq!(
                (demoted.role, &demoted.hazards[..]),
                (Some(Role::Replica), &[Hazard::Replica][..])
            );
        }
    }
}
