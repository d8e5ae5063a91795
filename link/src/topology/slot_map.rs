//! The primary of each slot of a cluster, as one node reports it. The functions are pure.

use std::collections::BTreeSet;

use redis::Value;

use crate::{address::host_port::HostPort, failure::Failure, replies, shown::shown, slots::SLOTS};

/// The highest number of slot ranges in a text.
const SHOWN: usize = 3;

/// The primary of each slot.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SlotMap {
    /// The highest epoch that the replying node knows. Each failover and each migrated slot raises
    /// it.
    pub(super) epoch: u64,
    /// For each slot: the index of its primary plus one, or 0 if it has no primary.
    owners: Vec<u16>,
    masters: Vec<HostPort>,
    /// All nodes in the reply, with replicas.
    members: BTreeSet<HostPort>,
}

impl SlotMap {
    /// Parses the replies of the node at `sender` to `CLUSTER SLOTS` and `CLUSTER NODES`.
    pub(super) fn read(slots: &Value, nodes: &Value, sender: &HostPort) -> Result<Self, Failure> {
        let ranges = match slots {
            Value::Array(ranges) => ranges,
            Value::ServerError(error) => return Err(replies::refusal(error)),
            other => return Err(replies::unreadable(other)),
        };
        let mut map = Self {
            epoch: epoch(nodes),
            owners: vec![0; usize::from(SLOTS)],
            masters: Vec::new(),
            members: BTreeSet::new(),
        };
        for range in ranges {
            map.take(range, sender).ok_or_else(|| replies::unreadable(range))?;
        }
        Ok(map)
    }

    /// Parses one range: its ends, its primary, and its replicas.
    fn take(&mut self, range: &Value, sender: &HostPort) -> Option<()> {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else {
            return None;
        };
        let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
        let slots = self.owners.get(first..=last).map(|_| first..=last)?;
        for (at, node) in nodes.iter().enumerate() {
            let Some(node) = node_in(node, sender)? else { continue };
            self.members.insert(node.clone());
            if at == 0 {
                let owner = self.index_of(node);
                self.owners[slots.clone()].fill(owner);
            }
        }
        Some(())
    }

    /// Returns the index of `master` plus one. Adds `master` if it is new.
    fn index_of(&mut self, master: HostPort) -> u16 {
        let known = self.masters.iter().position(|it| *it == master);
        let at = known.unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        // There are no more masters than slots.
        u16::try_from(at + 1).unwrap_or_default()
    }

    /// Records that the previous owner of `slot` replied that `master` has the slot. Returns the
    /// index of `master`.
    pub(super) fn note(&mut self, slot: u16, master: HostPort) -> usize {
        self.members.insert(master.clone());
        let owner = self.index_of(master);
        if let Some(it) = self.owners.get_mut(usize::from(slot)) {
            *it = owner;
        }
        usize::from(owner).saturating_sub(1)
    }

    /// Returns the index of the primary of `slot`.
    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.owners.get(usize::from(slot)).copied().unwrap_or_default();
        usize::from(owner).checked_sub(1)
    }

    pub(super) fn masters(&self) -> &[HostPort] {
        &self.masters
    }

    pub(super) fn members(&self) -> &BTreeSet<HostPort> {
        &self.members
    }

    /// Returns the slot ranges of a primary as text.
    pub(super) fn slots_of(&self, master: usize) -> String {
        let all = (0..self.owners.len()).filter(|slot| self.owners[*slot] as usize == master + 1);
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for slot in all {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        let named: Vec<_> = ranges.iter().take(SHOWN).map(|it| slots_in_words(*it)).collect();
        let more = if ranges.len() > SHOWN { " and others" } else { "" };
        format!("{}{more}", named.join(", "))
    }

    /// Counts the slots that have a primary.
    pub(super) fn covered(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != 0).count()
    }

    /// Returns the first range of slots that no node has.
    pub(super) fn gap(&self) -> Option<(usize, usize)> {
        let first = self.owners.iter().position(|owner| *owner == 0)?;
        let length = self.owners[first..].iter().take_while(|owner| **owner == 0).count();
        Some((first, first + length - 1))
    }
}

/// Parses one node of a range: host, port, and fields that are not used. The inner `None` means a
/// node without an address.
fn node_in(node: &Value, sender: &HostPort) -> Option<Option<HostPort>> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let Ok(port @ 1..) = u16::try_from(*port) else { return Some(None) };
    let host = match host {
        Value::Nil => "",
        host => replies::text(host)?,
    };
    Some(at(host, port, sender))
}

/// Returns the address of a node. An empty `host` means the host of the replying node, and `?`
/// means that the host is unknown.
fn at(host: &str, port: u16, sender: &HostPort) -> Option<HostPort> {
    let host = match host {
        "" => &sender.host,
        "?" => return None,
        host => host,
    };
    Some(HostPort { host: host.to_owned(), port })
}

/// Returns the highest epoch in a reply to `CLUSTER NODES`, or 0 if it has none. The epoch is the
/// seventh word of each line.
fn epoch(nodes: &Value) -> u64 {
    let lines = replies::text(nodes).unwrap_or_default().lines();
    let epochs = lines.filter_map(|line| line.split(' ').nth(6)?.parse().ok());
    epochs.max().unwrap_or_default()
}

/// The redirect of a node that did not execute a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Redirect {
    /// The slot has a new owner.
    Moved(u16, Option<HostPort>),
    /// The slot is migrating: send this one request to the importing node.
    Ask(Option<HostPort>),
    /// The slot is migrating, and the two nodes each have a part of the keys.
    Split,
    /// The node is not ready now.
    Later,
}

impl Redirect {
    /// Returns the redirect in a reply of the node at `sender`, or `None` if it executed the
    /// request.
    pub(super) fn of(answer: &Value, sender: &HostPort) -> Option<Self> {
        let Value::ServerError(error) = answer else { return None };
        Self::read_error(error.code(), error.details().unwrap_or_default(), sender)
    }

    /// Returns the redirect in a rejection that was converted to a failure.
    pub(super) fn in_failure(failure: &Failure, sender: &HostPort) -> Option<Self> {
        let Failure::Refused { code, message, .. } = failure else { return None };
        Self::read_error(code, message, sender)
    }

    fn read_error(code: &str, words: &str, sender: &HostPort) -> Option<Self> {
        match code {
            "MOVED" => {
                let (slot, to) = target(words, sender)?;
                Some(Self::Moved(slot, to))
            }
            "ASK" => Some(Self::Ask(target(words, sender)?.1)),
            "TRYAGAIN" => Some(Self::Split),
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => Some(Self::Later),
            _ => None,
        }
    }
}

/// Parses `3999 127.0.0.1:6381`.
fn target(words: &str, sender: &HostPort) -> Option<(u16, Option<HostPort>)> {
    let (slot, address) = words.trim().split_once(' ')?;
    let HostPort { host, port } = HostPort::read(address)?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    Some((slot, at(&host, port, sender)))
}

/// Returns a text if the reply is that of a node without cluster support.
pub(super) fn no_cluster(failure: &Failure) -> Option<&'static str> {
    let Failure::Refused { message, .. } = failure else { return None };
    message.contains("cluster support disabled").then_some(NO_CLUSTER)
}

pub(super) const NO_CLUSTER: &str = "this server is not a node of a cluster; use redis:// or \
                                     rediss://, or set cluster-enabled yes";

/// Returns a range of slots as text.
pub(super) fn slots_in_words((first, last): (usize, usize)) -> String {
    match first == last {
        true => format!("slot {first}"),
        false => format!("slots {first} to {last}"),
    }
}

/// Explains why a node reports that the cluster is down. `lost` are the slots without a reachable
/// node.
pub(super) fn why_down(lost: &[String]) -> String {
    match lost.is_empty() {
        true => "the node that sent this reply reaches too few other nodes".into(),
        false => format!(
            "no node of {} is reachable; meanwhile, the cluster rejects all names if \
             cluster-require-full-coverage is yes, or if most primaries are unreachable",
            lost.join(", ")
        ),
    }
}

/// Returns an address for a log, sanitized, because an announced address may contain anything.
pub(super) fn address_shown(at: &HostPort) -> String {
    shown(&at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_port(port: u16) -> HostPort {
        HostPort { host: "10.0.0.1".into(), port }
    }

    fn read(reply: &str) -> Result<SlotMap, Failure> {
        let slots = redis::parse_redis_value(reply.as_bytes()).unwrap();
        let nodes = "a 10.0.0.7:7000@1 myself,master - 0 0 3 connected 0-5460\n\
                     b 10.0.0.8:7001@1,host slave a 0 0 3 connected\n\
                     c :7002@1 master - 0 0 7 connected 5461-16382\nodd\n";
        let format = redis::VerbatimFormat::Text;
        let nodes = Value::VerbatimString { format, text: nodes.into() };
        SlotMap::read(&slots, &nodes, &at_port(1))
    }

    fn error(words: &str) -> Value {
        redis::parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn each_slot_belongs_to_the_first_node_of_its_range() {
        let map = read(
            "*2\r\n*4\r\n:0\r\n:5460\r\n*3\r\n$8\r\n10.0.0.7\r\n:7000\r\n$1\r\na\r\n\
             *3\r\n$8\r\n10.0.0.8\r\n:7001\r\n$1\r\nb\r\n\
             *3\r\n:5461\r\n:16382\r\n*4\r\n$-1\r\n:7002\r\n$1\r\nc\r\n*0\r\n",
        )
        .unwrap();
        assert_eq!(map.epoch, 7);
        let owner = |slot| map.owner(slot).map(|at| map.masters()[at].to_string());
        assert_eq!(owner(0).as_deref(), Some("10.0.0.7:7000"));
        assert_eq!(owner(5_460).as_deref(), Some("10.0.0.7:7000"));
        // An empty host means the host of the replying node.
        assert_eq!(owner(5_461).as_deref(), Some("10.0.0.1:7002"));
        assert_eq!(owner(16_383), None);
        assert_eq!(map.gap(), Some((16_383, 16_383)));
        assert_eq!((map.members().len(), map.covered()), (3, 16_383));
    }

    #[test]
    fn migrating_slot_is_recorded_at_its_node() {
        let mut map = read("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n").unwrap();
        assert_eq!(map.note(7, at_port(2)), 1);
        assert_eq!((map.owner(7), map.owner(8)), (Some(1), Some(0)));
        assert_eq!(map.note(99, HostPort { host: "a".into(), port: 1 }), 0);
        assert_eq!(map.gap(), None);
    }

    #[test]
    fn invalid_slot_map_is_a_failure() {
        for odd in [
            ":1\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n$1\r\nx\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n*3\r\n:9\r\n:-1\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
        // A range that ends before its start has no slots, and port 0 is not an address.
        assert_eq!(read("*1\r\n*2\r\n:9\r\n:8\r\n").unwrap().covered(), 0);
        let nowhere = read("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n").unwrap();
        assert_eq!((nowhere.masters(), nowhere.covered()), (&[][..], 0));
    }

    #[test]
    fn redirect_is_parsed_into_its_target() {
        let of = |words: &str| Redirect::of(&error(words), &at_port(1));
        let moved = |slot, to| Some(Redirect::Moved(slot, to));
        assert_eq!(of("MOVED 3999 10.0.0.1:2"), moved(3_999, Some(at_port(2))));
        assert_eq!(of("MOVED 3999 :2"), moved(3_999, Some(at_port(2))));
        assert_eq!(of("MOVED 3999 ?:2"), moved(3_999, None));
        let v6 = HostPort { host: "::1".into(), port: 2 };
        assert_eq!(of("ASK 3999 ::1:2"), Some(Redirect::Ask(Some(v6))));
        assert_eq!(of("TRYAGAIN Multiple keys request"), Some(Redirect::Split));
        assert_eq!(of("CLUSTERDOWN Hash slot not served"), Some(Redirect::Later));
        for odd in ["MOVED", "MOVED 1", "MOVED 16384 a:1", "MOVED 1 a:0", "ASK x a:1", "ERR no"] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert_eq!(Redirect::of(&Value::Int(1), &at_port(1)), None);
    }
}
