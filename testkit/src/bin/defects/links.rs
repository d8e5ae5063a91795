//! The defects between the client and its servers: connections, discovery, subscriptions, and
//! acknowledgements of replicas.

use crate::{Defect, Edit, Finder};

/// Defects of deployments, each with the world of the simulation that finds it.
pub(crate) const LINKS: &[(Finder, Defect)] = &[
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "replies go to the requests in the wrong order",
            edits: &[Edit {
                file: "link/src/pipe/wire.rs",
                from: "let request = self.pending.pop_front().ok_or(Ending::Surplus)?;",
                to: "let request = self.pending.pop_back().ok_or(Ending::Surplus)?;",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a request with several replies waits for one reply too many",
            edits: &[Edit {
                file: "link/src/pipe/wire.rs",
                from: "&& *missing > 1\n",
                to: "&& *missing > 0\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "the replies to one request with several replies come in the wrong order",
            edits: &[Edit {
                file: "link/src/pipe/wire.rs",
                from: "                come.push(value);\n                CompletedRequest::Many(sender, come)",
                to: "                come.insert(0, value);\n                CompletedRequest::Many(sender, come)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection without replies is kept",
            edits: &[Edit {
                file: "link/src/pipe/wire.rs",
                from: "if let Some(ending) = watch.look(now) {",
                to: "if let Some(ending) = watch.look(now).filter(|_| false) {",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client does not reconnect after the first failed attempt",
            edits: &[Edit {
                file: "link/src/connection/supervisor.rs",
                from: "                    self.still_lost();\n",
                to: "                    self.still_lost();\n                    pending::<()>().await;\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "no part of the client is notified of a lost connection",
            edits: &[Edit {
                file: "link/src/connection/supervisor.rs",
                from: "            self.watcher.down();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "no part of the client is notified of a restored connection",
            edits: &[Edit {
                file: "link/src/connection/supervisor.rs",
                from: "        self.watcher.up();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "requests that wait for a connection are not woken",
            edits: &[Edit {
                file: "link/src/connection/supervisor.rs",
                from: "        *self.state.live.lock() = Some(Arc::clone(&wire));\n        self.state.changed.notify_waiters();\n",
                to: "        *self.state.live.lock() = Some(Arc::clone(&wire));\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a node that was left keeps its connections",
            edits: &[Edit {
                file: "link/src/connection/link.rs",
                from: "drop(self.supervisor.lock().take());",
                to: "self.supervisor.lock().take().map(std::mem::forget);",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection to a primary that sentinels have replaced is kept",
            edits: &[Edit {
                file: "link/src/discovery/primary_discovery.rs",
                from: "(Some(sentinels), [address]) => sentinels.another_than(address).await,",
                to: "(Some(_), [_]) => pending().await,",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the connection for messages stays with a replaced primary",
            edits: &[Edit {
                file: "link/src/connection/supervisor.rs",
                from: "[gives_up.boxed(), is_gone.boxed(), until_moved.boxed()]",
                to: "[gives_up.boxed(), if self.watcher.leads() { is_gone.boxed() } else { pending().boxed() }, pending().boxed()]",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 40),
        Defect {
            says: "the client follows a sentinel that missed a failover",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "it.epoch >= before.epoch ||",
                to: "it.epoch <= before.epoch || it.epoch >= before.epoch ||",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 40),
        Defect {
            says: "one sentinel is a majority",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "2 * votes(it) > sentinels)",
                to: "votes(it) > 0)",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 40),
        Defect {
            says: "the epoch of a failover is not read",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "fact(master, \"config-epoch\")",
                to: "fact(master, \"no-epoch\")",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client follows the oldest epoch",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "fresh.iter().copied().max_by_key(rank)",
                to: "fresh.iter().copied().min_by_key(rank)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client keeps the first primary for ever",
            edits: &[Edit {
                file: "link/src/discovery/sentinel_views.rs",
                from: "before.filter(|it| !is_outdated(it)).or(newest)",
                to: "before.filter(|it| !is_outdated(it) || it.epoch < u64::MAX).or(newest)",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a change of the primary is not published",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "        self.master.set(followed);\n",
                to: "        if self.master.read(Option::is_none) {\n            self.master.set(followed);\n        }\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a connection is not notified of another primary",
            edits: &[Edit {
                file: "link/src/discovery/published.rs",
                from: "            self.changed.notify_waiters();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a sentinel that was lost is not asked again",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "            if began.elapsed() > PAUSES.1 {\n",
                to: "            std::future::pending::<()>().await;\n            if began.elapsed() > PAUSES.1 {\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "sentinels are asked once",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "                () = hints.notified() => {}\n                () = looked_for => {}\n                () = sleep_until(asked_at + EACH) => {}\n",
                to: "                () = sleep_until(asked_at + EACH * 600) => drop(looked_for),\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client waits without end for the reply of a sentinel",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "            match timeout(self.limit, wire.call_all(&self.requests())).await {\n",
                to: "            match timeout(self.limit * 600, wire.call_all(&self.requests())).await {\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client waits without end for a connection to a sentinel",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "        let Ok(opened) = timeout(self.limit, opened).await else {\n",
                to: "        let Ok(opened) = timeout(self.limit * 600, opened).await else {\n",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 88),
        Defect {
            says: "sentinels are not asked when the client looks for the primary",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "        self.looked_for.notify_waiters();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 40),
        Defect {
            says: "the client follows the primary of another name",
            edits: &[Edit {
                file: "link/src/discovery/sentinels.rs",
                from: "        [about(\"GET-MASTER-ADDR-BY-NAME\"), about(\"MASTER\"), about(\"SENTINELS\"), id]",
                to: "        [about(\"GET-MASTER-ADDR-BY-NAME\"), cmd(\"PING\"), about(\"SENTINELS\"), id]",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a topology with a higher epoch is not used",
            edits: &[Edit {
                file: "link/src/topology/snapshot.rs",
                from: "Ordering::Greater => false,",
                to: "Ordering::Greater => true,",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_cluster", 3_430),
        Defect {
            says: "a minority of the primaries decides the topology",
            edits: &[Edit {
                file: "link/src/topology/refresher.rs",
                from: "2 * nodes.len() < primaries",
                to: "2 * nodes.len() < primaries.min(1)",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_cluster", 524),
        Defect {
            says: "the topology is not requested when a node seems to have left",
            edits: &[Edit {
                file: "link/src/topology/refresher.rs",
                from: "        self.cluster_state.common.hub.suspicion.notify_one();\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a script is not sent to a node that does not know it",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "        Some(by_text) => send_as(node, &by_text, asking).await,\n        None => Ok(reply),",
                to: "        Some(by_text) if asking => send_as(node, &by_text, asking).await,\n        _ => Ok(reply),",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a slot is assigned to the previous master in the list",
            edits: &[Edit {
                file: "link/src/topology/slot_map.rs",
                from: "        usize::from(owner).checked_sub(1)\n",
                to: "        usize::from(owner).checked_sub(2)\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a new topology closes all nodes of the old one",
            edits: &[Edit {
                file: "link/src/topology/snapshot.rs",
                from: "match known.remove(at) {",
                to: "match known.remove(at).filter(|_| false) {",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "the last replica of a slot range counts as its primary",
            edits: &[Edit {
                file: "link/src/topology/slot_map.rs",
                from: "            if at == 0 {\n",
                to: "            if at + 1 == nodes.len() {\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::simulated::client_does_not_ask_a_node_again_that_replied_moved",
        ),
        Defect {
            says: "MOVED is not noted",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "                    self.cluster_state.moved(slot, &at);\n",
                to: "                    drop(at);\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "ASK counts as MOVED",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "            Redirect::Ask(Some(at)) => state.asks = Some(at),\n",
                to: "            Redirect::Ask(Some(at)) => self.cluster_state.moved(slot, &at),\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a node is asked for a migrating slot without ASKING",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "    if !asking {\n        return",
                to: "    if !asking || asking {\n        return",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "the node that imports a slot is not asked",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "            Some(at) => self.cluster_state.node_at(at),\n",
                to: "            Some(at) if at.port == 0 => self.cluster_state.node_at(at),\n            Some(_) => self.owner(slot, until).await,\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a redirect is not followed",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "        if state.redirects <= MOST_REDIRECTS {\n",
                to: "        if state.redirects < 1 {\n",
            }],
        },
    ),
    (
        Finder::Unit(
            "store::redis::simulated::subscription_follows_the_slot_soon_after_a_failover",
        ),
        Defect {
            says: "the end of a subscription by the server does not refresh the topology",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "if !is_as_wanted {",
                to: "if !is_as_wanted && channel.is_empty() {",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_cluster", 80),
        Defect {
            says: "an outdated ASK is followed",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "filter(|_| asked_at.elapsed() < limit)",
                to: "filter(|_| asked_at.elapsed() < limit * 600)",
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
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "no channel is subscribed to on the next connection",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "        objects.iter().for_each(|object| self.want(object));\n    }\n\n    fn end(",
                to: "        drop(objects);\n    }\n\n    fn end(",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a later waiter is not subscribed",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "                () = self.changed.notified() => {}\n                () = sleep_until(rests_until), if rests_until > now => {}\n",
                to: "                () = sleep_until(rests_until), if rests_until > now => {}\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "a silent connection for messages is kept",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "                    self.ping(wire).await;\n",
                to: "",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "the client forgets channels without UNSUBSCRIBE",
            edits: &[Edit {
                file: "src/store/redis/subscriptions/table.rs",
                from: "                (None, State::On) => {\n                    channel.state = State::Leaving;\n                    unsubscribe.entry(self.delivery.together(&name)).or_default().push(name);\n                }",
                to: "                (None, State::On) => {}",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a waiter is not subscribed at the node that has its slot now",
            edits: &[Edit {
                file: "link/src/topology/cluster_state.rs",
                from: "            if let Some(owner) = &owner {\n                owner.subscriptions.listen(topic);\n",
                to: "            if let Some(owner) = &owner {\n                owner.subscriptions.resubscribe();\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a waiter stays subscribed at the node that had its slot",
            edits: &[Edit {
                file: "link/src/topology/cluster_state.rs",
                from: "            if is_same(at.as_ref(), owner.as_ref()) {\n                continue;",
                to: "            if at.is_some() || is_same(at.as_ref(), owner.as_ref()) {\n                continue;",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_cluster", 774),
        Defect {
            says: "waiters are not subscribed again after a new topology",
            edits: &[Edit {
                file: "link/src/topology/cluster_state.rs",
                from: "self.retire(at, node));\n        self.place_all();",
                to: "self.retire(at, node));",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_cluster", 74),
        Defect {
            says: "a subscription is given up when the slot has moved",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "\"MOVED\" => Rejection::Elsewhere,",
                to: "\"MOVED\" => Rejection::Forbidden,",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a subscription that a node ended counts as made",
            edits: &[Edit {
                file: "link/src/pubsub/mod.rs",
                from: "PushKind::Unsubscribe | PushKind::SUnsubscribe => table.confirmed(channel, false),",
                to: "PushKind::Unsubscribe => table.confirmed(channel, false),\n            PushKind::SUnsubscribe => true,",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "a waiter is not woken by its own message",
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
            says: "a waiter that leaves stays subscribed",
            edits: &[Edit {
                file: "link/src/topology/cluster_state.rs",
                from: "            node.subscriptions.unlisten(topic);\n",
                to: "            drop(node);\n",
            }],
        },
    ),
    (
        Finder::Unit("store::redis::simulated::grant_is_written_again_before_replicas_are_counted"),
        Defect {
            says: "the grant is not written again before replicas are counted",
            edits: &[Edit {
                file: "src/store/redis/granted.rs",
                from: "Self(Evidence { touch, look })",
                to: "Self(Evidence { touch: look.clone(), look })",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "another field than the granted one is written again",
            edits: &[Edit {
                file: "src/store/redis/granted.rs",
                from: ".arg(keys).arg(what);",
                to: ".arg(keys).arg(\"\");",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "too few replicas are enough",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "            Ok(Ok(got)) if got < wanted => Error",
                to: "            Ok(Ok(got)) if got > wanted => Error",
            }],
        },
    ),
    (
        Finder::Simulation("run_sentinel"),
        Defect {
            says: "replicas are not asked",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "        if hold.replicas(moves) >= replicas.least {",
                to: "        if hold.replicas(moves) < replicas.least {",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "replicas that cannot be counted are enough",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "            Ok(Err(failure)) => not_requested(self.error(&name, failure)),\n",
                to: "            Ok(Err(_)) => return Ok(held),\n",
            }],
        },
    ),
    (
        Finder::SimulationFrom("run_sentinel", 218),
        Defect {
            says: "a hold that ended while replicas were counted is returned",
            edits: &[Edit {
                file: "src/engine/acquire/acknowledged.rs",
                from: "                    Err(reason) => Error::Lost { name, reason },\n",
                to: "                    Err(_) => return Ok(held),\n",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "replicas of a migrating slot are counted without ASKING",
            edits: &[
                Edit {
                    file: "link/src/replica_ack/round.rs",
                    from: "self.importing.then(|| cmd(\"ASKING\")).into_iter()",
                    to: "None.into_iter()",
                },
                Edit {
                    file: "link/src/replica_ack/round.rs",
                    from: "        let before = usize::from(self.importing);",
                    to: "        let before = 0;",
                },
            ],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "replicas of a moved slot are not counted at its new node",
            edits: &[Edit {
                file: "link/src/topology/cluster.rs",
                from: "            let Some(redirect) = Redirect::in_failure(failure, &self.address(asks, slot)) else {",
                to: "            let Some(redirect) = Redirect::in_failure(failure, &self.address(asks, slot)).filter(|_| false) else {",
            }],
        },
    ),
    (
        Finder::Simulation("run_cluster"),
        Defect {
            says: "MOVED is noted for another node",
            edits: &[Edit {
                file: "link/src/topology/slot_map.rs",
                from: "            *it = owner;\n",
                to: "            *it = 1;\n",
            }],
        },
    ),
];
