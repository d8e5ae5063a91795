//! What Sentinels know, and what servers report about themselves.

use std::collections::BTreeMap;

use crate::server::Redis;
use crate::wire::Reply;

/// The servers and Sentinels that a Sentinel knows, and their states.
#[derive(Debug)]
pub(super) struct View {
    master: Facts,
    replicas: Vec<Facts>,
    sentinels: Vec<Facts>,
}

type Facts = BTreeMap<String, String>;

impl View {
    /// Returns what this Sentinel knows, if it replies.
    pub(super) fn of(sentinel: &Redis, name: &str) -> Option<Self> {
        let master = facts(&sentinel.ask(&["SENTINEL", "MASTER", name])?);
        let all = |what: &str| {
            let reply = sentinel.ask(&["SENTINEL", what, name])?;
            Some(reply.list().iter().map(facts).collect())
        };
        Some(Self { master, replicas: all("REPLICAS")?, sentinels: all("SENTINELS")? })
    }

    /// Returns whether the Sentinel knows this primary, this number of replicas and this number of
    /// other Sentinels, and considers all of them healthy.
    pub(super) fn is_complete(&self, master: u16, replicas: usize, sentinels: usize) -> bool {
        let port = master.to_string();
        let follows = |it: &&Facts| {
            is(it, "flags", "slave")
                && is(it, "master-link-status", "ok")
                && is(it, "master-port", &port)
        };
        is(&self.master, "flags", "master")
            && is(&self.master, "port", &port)
            && self.replicas.iter().filter(follows).count() == replicas
            && self.sentinels.iter().filter(|it| is_well(it)).count() == sentinels
    }
}

/// The port of the master, as this Sentinel sees it.
pub(super) fn master(sentinel: &Redis, name: &str) -> Option<u16> {
    let reply = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name])?;
    reply.list().get(1)?.text().parse().ok()
}

/// Returns whether a server reports that it is a primary.
pub(super) fn is_master(server: &Redis) -> bool {
    server.ask(&["ROLE"]).is_some_and(|role| role.list()[0].text() == "master")
}

/// Returns whether a server reports that it is connected to the primary at this port.
pub(super) fn follows(server: &Redis, master: u16) -> bool {
    let is_it = |role: &Reply| match role.list() {
        [_, _, Reply::Number(port), Reply::Text(state), _] => {
            *port == i64::from(master) && state == "connected"
        }
        _ => false,
    };
    server.ask(&["ROLE"]).as_ref().is_some_and(is_it)
}

/// Reads a list of names and values.
fn facts(reply: &Reply) -> Facts {
    let texts = reply.texts();
    texts.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

/// Returns whether another Sentinel is healthy. The flag `master_down` does not count, because it
/// is only the last vote of the other Sentinel about the master. Valkey 9 keeps this flag until the
/// next vote.
fn is_well(sentinel: &Facts) -> bool {
    ["sentinel", "sentinel,master_down"].iter().any(|flags| is(sentinel, "flags", flags))
}

fn is(facts: &Facts, name: &str, value: &str) -> bool {
    facts.get(name).is_some_and(|it| it == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinel_view_is_incomplete_while_a_sentinel_is_unreachable() {
        for (flags, complete) in [
            ("sentinel", true),
            ("sentinel,master_down", true),
            ("s_down,sentinel", false),
            ("sentinel,disconnected", false),
            ("s_down,sentinel,master_down", false),
        ] {
            let view = View {
                master: known(&[("flags", "master"), ("port", "7000")]),
                replicas: Vec::new(),
                sentinels: vec![known(&[("flags", flags)])],
            };
            assert_eq!(view.is_complete(7000, 0, 1), complete, "{flags}");
        }
    }

    fn known(facts: &[(&str, &str)]) -> Facts {
        facts.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
