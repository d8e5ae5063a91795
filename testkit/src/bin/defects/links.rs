//! The defects of what lies between the client and its servers: connections, discovery,
//! subscriptions, and what replicas acknowledge.

use crate::{Defect, Edit, Finder};

/// What a deployment must not survive, by the world that finds it.
pub(crate) const LINKS: &[(Finder, Defect)] = &[
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "replies go to the requests in the wrong order",
            edits: &[Edit {
                file: "src/store/redis/connection/wire.rs",
                from: "let asked = self.asked.pop_front().ok_or(Ending::Surplus)?;",
                to: "let asked = self.asked.pop_back().ok_or(Ending::Surplus)?;",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the last of several replies is awaited twice",
            edits: &[Edit {
                file: "src/store/redis/connection/wire.rs",
                from: "&& *missing > 1\n",
                to: "&& *missing > 0\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "several replies are told in the wrong order",
            edits: &[Edit {
                file: "src/store/redis/connection/wire.rs",
                from: "                come.push(value);\n                Answered::Many(sender, come)",
                to: "                come.insert(0, value);\n                Answered::Many(sender, come)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection on which nothing is answered is kept",
            edits: &[Edit {
                file: "src/store/redis/connection/wire.rs",
                from: "if let Some(ending) = watch.look(now) {",
                to: "if let Some(ending) = watch.look(now).filter(|_| false) {",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection that is kept up is not made again when the first try fails",
            edits: &[Edit {
                file: "src/store/redis/connection/supervisor.rs",
                from: "                    self.still_lost();\n",
                to: "                    self.still_lost();\n                    pending::<()>().await;\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "nobody hears that a connection was lost",
            edits: &[Edit {
                file: "src/store/redis/connection/supervisor.rs",
                from: "            self.watcher.down();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "nobody hears that a connection is there again",
            edits: &[Edit {
                file: "src/store/redis/connection/supervisor.rs",
                from: "        self.watcher.up();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection to a primary that sentinels have replaced is kept",
            edits: &[Edit {
                file: "src/store/redis/connection/whereabouts.rs",
                from: "(Some(sentinels), [address]) => sentinels.another_than(address).await,",
                to: "(Some(_), [_]) => pending().await,",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the connection for messages stays with a primary that was replaced",
            edits: &[Edit {
                file: "src/store/redis/connection/supervisor.rs",
                from: "[gives_up.boxed(), is_gone.boxed(), strays.boxed()]",
                to: "[gives_up.boxed(), if self.watcher.leads() { is_gone.boxed() } else { pending().boxed() }, pending().boxed()]",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a sentinel that missed a failover is believed",
            edits: &[Edit {
                file: "src/store/redis/connection/views.rs",
                from: "it.epoch >= before.epoch ||",
                to: "it.epoch <= before.epoch || it.epoch >= before.epoch ||",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the epoch of a failover is not read",
            edits: &[Edit {
                file: "src/store/redis/connection/sentinels.rs",
                from: "fact(master, \"config-epoch\")",
                to: "fact(master, \"no-epoch\")",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the oldest failover that a sentinel knows is believed",
            edits: &[Edit {
                file: "src/store/redis/connection/views.rs",
                from: "fresh.iter().copied().max_by_key(rank)",
                to: "fresh.iter().copied().min_by_key(rank)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the first primary is believed for ever",
            edits: &[Edit {
                file: "src/store/redis/connection/views.rs",
                from: "before.filter(|it| !is_outdated(it)).or(newest)",
                to: "before.filter(|it| !is_outdated(it) || it.epoch < u64::MAX).or(newest)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "news of another primary reaches no connection",
            edits: &[Edit {
                file: "src/store/redis/connection/sentinels.rs",
                from: "            *known = believed;\n            changed\n",
                to: "            if known.is_none() {\n                *known = believed;\n            }\n            changed\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "what sentinels say changes nothing when it was said before",
            edits: &[Edit {
                file: "src/store/redis/connection/sentinels.rs",
                from: "            let changed = *known != believed;\n            *known = believed;\n            changed\n",
                to: "            let changed = known.is_none();\n            *known = believed;\n            changed\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a sentinel that was lost is not asked again",
            edits: &[Edit {
                file: "src/store/redis/connection/sentinels.rs",
                from: "            if began.elapsed() > PAUSES.1 {\n",
                to: "            std::future::pending::<()>().await;\n            if began.elapsed() > PAUSES.1 {\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "sentinels are asked once, and heard no more",
            edits: &[Edit {
                file: "src/store/redis/connection/sentinels.rs",
                from: "                () = hints.notified() => {}\n                _ = looked_for.changed() => {}\n                () = sleep_until(asked_at + EACH) => {}\n",
                to: "                () = sleep_until(asked_at + EACH * 60) => {}\n                _ = std::future::pending::<()>(), if { let _ = (&hints, &mut looked_for); true } => {}\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "subscriptions of a connection that was lost count as made",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        self.channels.clear();\n        match",
                to: "        match",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "who waits does not listen where its slot is now",
            edits: &[Edit {
                file: "src/store/redis/topology/atlas.rs",
                from: "            if let Some(owner) = &owner {\n                owner.subscriptions.listen(object);\n",
                to: "            if let Some(owner) = &owner {\n                owner.subscriptions.ask_anew();\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "who waits listens where its slot was",
            edits: &[Edit {
                file: "src/store/redis/topology/atlas.rs",
                from: "            if is_same(at.as_ref(), owner.as_ref()) {\n                continue;",
                to: "            if at.is_some() || is_same(at.as_ref(), owner.as_ref()) {\n                continue;",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "nobody listens anew when there is another map",
            edits: &[Edit {
                file: "src/store/redis/topology/atlas.rs",
                from: "self.retire(at, node));\n        self.settle();",
                to: "self.retire(at, node));",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a subscription that another node has is asked for again at the same node only",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/mod.rs",
                from: "\"MOVED\" => Refusal::Elsewhere,",
                to: "\"MOVED\" => Refusal::Forbidden,",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "that a turn has come is not heard",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "self.events.extend(names.map(|object| Event::Ask { object, after }));",
                to: "drop((names, after));",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a map with a higher epoch is not followed",
            edits: &[Edit {
                file: "src/store/redis/topology/chart.rs",
                from: "Ordering::Greater => false,",
                to: "Ordering::Greater => true,",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "the oldest of several maps is believed",
            edits: &[Edit {
                file: "src/store/redis/topology/scout.rs",
                from: "said.sort_by_cached_key(|(map, _)| (map.epoch, map.covered()));",
                to: "said.sort_by_cached_key(|(map, _)| std::cmp::Reverse((map.epoch, map.covered())));",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "nobody looks at the map when a node seems to be gone",
            edits: &[Edit {
                file: "src/store/redis/topology/scout.rs",
                from: "        self.atlas.common.hub.suspicion.notify_one();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a node that does not know a script is not told it",
            edits: &[Edit {
                file: "src/store/redis/topology/cluster.rs",
                from: "Some(by_text) if replies::is_no_script(&reply) =>",
                to: "Some(by_text) if replies::is_no_script(&reply) && asking =>",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a master of the map is taken for the one before it",
            edits: &[Edit {
                file: "src/store/redis/topology/map.rs",
                from: "        usize::from(owner).checked_sub(1)\n",
                to: "        usize::from(owner).checked_sub(2)\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "the nodes that a map names are left with the map",
            edits: &[Edit {
                file: "src/store/redis/topology/chart.rs",
                from: "match known.remove(at) {",
                to: "match known.remove(at).filter(|_| false) {",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "replicas of a node are taken for masters",
            edits: &[Edit {
                file: "src/store/redis/topology/map.rs",
                from: "            if at == 0 {\n",
                to: "            if at + 1 == nodes.len() {\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "replicas are counted that have less than was granted",
            edits: &[Edit {
                file: "src/store/redis/granted.rs",
                from: "command.arg(keys).arg(what);",
                to: "command.arg(keys).arg(\"\");",
            }],
        },
    ),
];
