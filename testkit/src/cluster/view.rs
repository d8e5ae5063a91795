//! The state of a cluster, as one node reports it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::server::Redis;

/// All nodes that a node knows, by id, as `CLUSTER NODES` returns them.
#[derive(Debug)]
pub(super) struct View {
    pub(super) own: String,
    pub(super) members: BTreeMap<String, Member>,
}

/// One node, as another node sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Member {
    /// Whether the node is healthy.
    pub(super) well: bool,
    pub(super) is_master: bool,
    /// The id of the node's master, or an empty text.
    pub(super) master: String,
    /// If two nodes claim a slot, the node with the higher epoch has the slot. A replica has the
    /// epoch of its master.
    pub(super) epoch: u64,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl View {
    /// Returns what this node reports, if it replies.
    pub(super) fn of(node: &Redis) -> Option<Self> {
        let reply = node.ask(&["CLUSTER", "NODES"])?;
        let lines = || reply.text().lines().filter_map(|line| line.split_once(' '));
        let (own, _) = lines().find(|(_, rest)| rest.contains(" myself"))?;
        let members = lines().map(|(id, rest)| (id.to_owned(), Member::read(rest))).collect();
        Some(Self { own: own.to_owned(), members })
    }

    /// The node that reported this view.
    pub(super) fn me(&self) -> &Member {
        &self.members[&self.own]
    }

    pub(super) fn well(&self) -> usize {
        self.members.values().filter(|member| member.well).count()
    }

    pub(super) fn owner_of(&self, slot: u16) -> Option<&str> {
        let owns = |member: &Member| member.slots.iter().any(|slots| slots.contains(&slot));
        self.members.iter().find(|(_, member)| owns(member)).map(|(id, _)| id.as_str())
    }
}

impl Member {
    /// Reads a line such as `127.0.0.1:7000@17000 master - 0 1426238317239 4 connected 5461-10922`.
    fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let [_, flags, master, _, _, epoch, link, slots @ ..] = &words[..] else {
            panic!("not a line of CLUSTER NODES: {line}")
        };
        let is = |flag: &str| flags.split(',').any(|it| it == flag);
        let wrong = ["fail", "fail?", "handshake", "noaddr"].into_iter().any(is);
        Self {
            well: !wrong && (*link == "connected" || is("myself")),
            is_master: is("master"),
            master: master.trim_matches('-').to_owned(),
            epoch: epoch.parse().expect("an epoch is a number"),
            slots: slots.iter().filter_map(|slots| range(slots)).collect(),
        }
    }
}

/// Reads `5461-10922` or `5461`. Ignores a migrating slot, such as `[93-<-…]`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_node_line_is_parsed_into_state_and_slots() {
        let line = ":30001@31001 myself,master - 0 0 7 connected 0-5460 7000 [93-<-292f8b]";
        let read = Member::read(line);
        assert!(read.well && read.is_master && read.master.is_empty());
        assert_eq!(read.epoch, 7);
        assert_eq!(read.slots, [0..=5460, 7000..=7000]);
        assert!(!Member::read("127.0.0.1:1@2 slave,fail? 292f8b 0 0 1 connected").well);
        assert!(!Member::read("127.0.0.1:1@2 master - 0 0 1 disconnected 1").well);
    }
}
