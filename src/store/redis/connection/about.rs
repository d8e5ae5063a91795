//! Reads what a server says of itself: when it greets us, and when it is asked.

use redis::Value;

use super::{obstacle::Obstacle, shown::shown};
use crate::domain::{About, Role};

/// What the answer to HELLO says of the server.
pub(super) fn greeted(facts: &[(Value, Value)]) -> Result<About, Obstacle> {
    let fact = |name| greeting_says(facts, name);
    let role = match (fact("mode"), fact("role")) {
        (Some("sentinel"), _) => {
            return Err(Obstacle::lasting(
                "this is a Sentinel, and keeps no locks: name the Redis server that it watches, \
                 or write redis-sentinel://host:port/mymaster",
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

/// Whether the answer to HELLO is that of a sentinel.
pub(super) fn is_sentinel(facts: &[(Value, Value)]) -> bool {
    greeting_says(facts, "mode") == Some("sentinel")
}

fn greeting_says<'a>(facts: &'a [(Value, Value)], name: &str) -> Option<&'a str> {
    let known = facts.iter().find(|(key, _)| text(key) == Some(name));
    known.and_then(|(_, value)| text(value))
}

/// Refuses a server that is not the primary, where there may be another.
pub(super) fn must_be_primary(about: &About) -> Result<(), Obstacle> {
    match about.role {
        Some(Role::Primary) => Ok(()),
        Some(Role::Replica) => Err(Obstacle::passing("this server is a replica now")),
        Some(Role::ClusterNode) => Err(Obstacle::lasting("this server is a node of a cluster")),
        None => Err(Obstacle::passing("this server does not say whether it is the primary")),
    }
}

/// What the server throws away when its memory is full, from the answer to `INFO memory`.
pub(crate) fn eviction_policy(reply: &Value) -> Option<String> {
    fact(reply, "maxmemory_policy").map(shown)
}

/// Whether it copies another server, from the answer to `INFO replication`.
pub(crate) fn is_replica(reply: &Value) -> Option<bool> {
    fact(reply, "role").map(|role| role == "slave")
}

/// One line of an answer to INFO.
fn fact<'a>(reply: &'a Value, name: &str) -> Option<&'a str> {
    let mut lines = text(reply)?.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

pub(super) fn is_text(reply: &Value) -> bool {
    text(reply).is_some()
}

fn text(reply: &Value) -> Option<&str> {
    match reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(mode: &str, role: &str) -> Result<About, Obstacle> {
        let bulk = |text: &str| Value::BulkString(text.into());
        let facts = [("version", "7.0.15"), ("mode", mode), ("role", role)];
        greeted(&facts.map(|(name, value)| (bulk(name), bulk(value))))
    }

    #[test]
    fn a_greeting_says_what_the_server_is() {
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
    fn a_sentinel_is_no_server_for_locks() {
        assert!(hello("sentinel", "master").unwrap_err().to_string().contains("Sentinel"));
    }

    #[test]
    fn a_line_of_info_is_found_and_nothing_is_made_of_anything_else() {
        let text = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nrole:slave\r\n";
        let reply = Value::BulkString(text.into());
        assert_eq!(eviction_policy(&reply).as_deref(), Some("noeviction"));
        assert_eq!(is_replica(&reply), Some(true));
        assert_eq!((eviction_policy(&Value::Nil), is_replica(&Value::Int(1))), (None, None));
    }
}
