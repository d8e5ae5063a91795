//! Reads the reply to INFO.

use std::time::{Duration, SystemTime};

use redis::Value;

use crate::{address::host_port::HostPort, replies, shown::shown};

/// A reply to INFO.
#[derive(Clone, Copy, Debug)]
pub(super) struct Info<'a> {
    pub(crate) text: &'a str,
    /// The times of day before the request and after the reply. The server read its clock between
    /// these two times.
    pub(crate) asked: (Duration, Duration),
}

/// A connected replica, as its primary reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Follower {
    pub(crate) replica: String,
    /// For how long the replica has sent no acknowledgement.
    pub(crate) silent: Duration,
    /// How many bytes the replica has not acknowledged.
    pub(crate) behind: u64,
}

impl<'a> Info<'a> {
    /// Returns the reply to INFO, the last of `replies`, unless it is a rejection. The client sent
    /// INFO at the time of day `asked`.
    pub(crate) fn among(replies: &'a [Value], asked: Duration) -> Option<Self> {
        let text = replies::text(replies.last()?)?;
        Some(Self { text, asked: (asked, time_of_day()) })
    }

    /// Returns the value of one field.
    pub(crate) fn fact(&self, name: &str) -> Option<&'a str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// Returns which keys the server evicts when its memory is full.
    pub(crate) fn eviction_policy(&self) -> Option<String> {
        self.fact("maxmemory_policy").map(shown)
    }

    /// Returns whether the server rejects writes because its memory is full.
    pub(crate) fn is_full(&self) -> bool {
        let number = |name| self.fact(name)?.parse::<u64>().ok();
        let most = number("maxmemory").filter(|most| *most > 0);
        let used = number("used_memory").unwrap_or_default();
        let counted = used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or_default());
        let keeps_all = self.fact("maxmemory_policy") == Some("noeviction");
        keeps_all && most.is_some_and(|most| counted > most)
    }

    /// Returns the run id, which the server keeps until it ends.
    pub(crate) fn run_id(&self) -> Option<String> {
        self.fact("run_id").map(shown)
    }

    /// Returns whether the server is a replica.
    pub(super) fn is_replica(&self) -> Option<bool> {
        self.fact("role").map(|role| role == "slave")
    }

    /// Returns the time of day at the server.
    pub(crate) fn clock(&self) -> Option<Duration> {
        let micros = self.fact("server_time_usec")?.parse().ok()?;
        Some(Duration::from_micros(micros))
    }

    /// Returns whether the server rejects writes with too few replicas (`min-replicas-to-write`).
    /// INFO reports the number of good replicas only with this setting.
    pub(super) fn refuses_alone(&self) -> bool {
        self.fact("min_slaves_good_slaves").is_some()
    }

    /// Returns whether the server rejects writes because no replica is good.
    pub(super) fn has_no_good_replica(&self) -> bool {
        self.fact("min_slaves_good_slaves").and_then(|it| it.parse().ok()) == Some(0)
    }

    /// Returns the replicas that copy this server. A replica in its first full synchronization does
    /// not count.
    pub(crate) fn replicas(&self) -> Vec<Follower> {
        let offset = self.fact("master_repl_offset").and_then(|it| it.parse().ok());
        let offset: u64 = offset.unwrap_or_default();
        let numbered = |line: &'a str| {
            let (number, facts) = line.strip_prefix("slave")?.split_once(':')?;
            number.parse::<u32>().ok().and_then(|_| follower(facts, offset))
        };
        self.text.lines().filter_map(numbered).collect()
    }
}

/// Parses `ip=10.0.0.8,port=6379,state=online,offset=90,lag=1`.
fn follower(facts: &str, offset: u64) -> Option<Follower> {
    let fact = |name: &str| {
        let mut facts = facts.split(',').filter_map(|fact| fact.split_once('='));
        facts.find_map(|(key, value)| (key == name).then_some(value))
    };
    if fact("state")? != "online" {
        return None;
    }
    let at = HostPort { host: fact("ip")?.to_owned(), port: fact("port")?.parse().ok()? };
    let replica = shown(&at.to_string());
    let silent = Duration::from_secs(fact("lag")?.parse().ok()?);
    let behind = offset.saturating_sub(fact("offset")?.parse().ok()?);
    Some(Follower { replica, silent, behind })
}

/// Returns this client's time of day, for a comparison with the clock of a server.
#[expect(clippy::disallowed_methods, reason = "two clocks are compared, and no lease is dated")]
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_full_only_with_noeviction_and_above_maxmemory() {
        let full = |text: &str| Info { text, asked: Default::default() }.is_full();
        let memory = |used: u32, not_counted: u32, most: u32, policy: &str| {
            full(&format!(
                "used_memory:{used}\r\nmaxmemory:{most}\r\nmaxmemory_policy:{policy}\r\n\
                 mem_not_counted_for_evict:{not_counted}\r\n"
            ))
        };
        assert!(memory(11, 0, 10, "noeviction"));
        assert!(!memory(11, 1, 10, "noeviction"));
        assert!(!memory(11, 0, 0, "noeviction"));
        assert!(!memory(11, 0, 10, "allkeys-lru"));
        assert!(!full(""));
    }

    #[test]
    fn info_reply_is_parsed_and_other_replies_are_ignored() {
        let text = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nrole:slave\r\n\
                    slave_repl_offset:9\r\nslave_priority:100\r\nslave0:odd\r\n";
        let replies = [Value::Okay, Value::BulkString(text.into())];
        let info = Info::among(&replies, Duration::ZERO).unwrap();
        assert_eq!(info.eviction_policy().as_deref(), Some("noeviction"));
        assert_eq!((info.is_replica(), info.clock(), info.run_id()), (Some(true), None, None));
        assert_eq!(info.replicas(), []);
        for odd in [&[Value::Nil][..], &[Value::Int(1)], &[]] {
            assert!(Info::among(odd, Duration::ZERO).is_none());
        }
    }
}
