//! The commands by which a node reports its cluster.

use super::{CONNECTION, Call, Keys, LOADING, NO_SCRIPT, Spec};
use crate::{
    core::{
        Core,
        cluster::{Map, Member, NodeState},
    },
    reply::{Answer, Reply},
    slots::{SLOTS, slot_of},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("asking", 1, CONNECTION, Keys::None, |core, call| set(core, call, None)),
    Spec::new("cluster|info", 2, LOADING, Keys::None, info),
    Spec::new("cluster|keyslot", 3, LOADING, Keys::None, keyslot),
    Spec::new("cluster|myid", 2, LOADING, Keys::None, myid),
    Spec::new("cluster|nodes", 2, LOADING, Keys::None, nodes),
    Spec::new("cluster|slots", 2, LOADING, Keys::None, slots),
    Spec::new("readonly", 1, CONNECTION | LOADING, Keys::None, |core, call| {
        set(core, call, Some(true))
    }),
    Spec::new("readwrite", 1, CONNECTION | LOADING | NO_SCRIPT, Keys::None, |core, call| {
        set(core, call, Some(false))
    }),
];

const DISABLED: &str = "ERR This instance has cluster support disabled";

fn node_state(core: &Core) -> Result<&NodeState, Reply> {
    core.cluster.as_ref().ok_or_else(|| Reply::error(DISABLED))
}

/// Executes `ASKING`, `READONLY` or `READWRITE`. For `ASKING`, `reads_replicas` is `None`, and
/// `Core` sets `is_asking` after this function.
fn set(core: &mut Core, call: &Call<'_>, reads_replicas: Option<bool>) -> Answer {
    node_state(core)?;
    if let (Some(client), Some(reads)) = (core.client(call.client), reads_replicas) {
        client.reads_replicas = reads;
    }
    Ok(Reply::OK)
}

fn myid(core: &mut Core, _: &Call<'_>) -> Answer {
    let NodeState { map, me, .. } = node_state(core)?;
    Ok(Reply::or_nil(map.nodes.get(*me).map(|node| &node.id)))
}

fn keyslot(core: &mut Core, call: &Call<'_>) -> Answer {
    node_state(core)?;
    Ok(Reply::Int(slot_of(call.word(2)).into()))
}

fn slots(core: &mut Core, _: &Call<'_>) -> Answer {
    let map = &node_state(core)?.map;
    Ok(Reply::List(map.owners.ranges().into_iter().map(|it| range(map, it)).collect()))
}

fn range(map: &Map, ((first, last), owner): ((u16, u16), usize)) -> Reply {
    let replicas = map.shard_of(owner).into_iter().filter(|node| *node != owner);
    let alive = replicas.filter(|node| map.nodes.get(*node).is_some_and(|it| !it.has_failed));
    let nodes = std::iter::once(owner).chain(alive).filter_map(|node| map.nodes.get(node));
    let ends = [first, last].map(|slot| Reply::Int(slot.into()));
    Reply::List(ends.into_iter().chain(nodes.map(node)).collect())
}

fn node(node: &Member) -> Reply {
    let (host, port) = (Reply::bulk(&node.address.host), Reply::Int(node.address.port.into()));
    Reply::List(vec![host, port, Reply::bulk(&node.id), Reply::Map(vec![])])
}

fn nodes(core: &mut Core, _: &Call<'_>) -> Answer {
    let node_state = node_state(core)?;
    let lines = (0..node_state.map.nodes.len()).filter_map(|node| line(node_state, node));
    Ok(Reply::Verbatim(lines.collect()))
}

fn line(node_state: &NodeState, at: usize) -> Option<String> {
    let NodeState { map, me, .. } = node_state;
    let node = map.nodes.get(at)?;
    let master = node.master.and_then(|it| map.nodes.get(it)).map(|it| it.id.as_str());
    let role = if node.master.is_some() { "slave" } else { "master" };
    let myself = if at == *me { "myself," } else { "" };
    let failed = if node.has_failed { ",fail" } else { "" };
    let (id, at_port, bus) = (&node.id, &node.address, u32::from(node.address.port) + 10_000);
    let (master, epoch) = (master.unwrap_or("-"), node.epoch);
    let link = if node.has_failed { "disconnected" } else { "connected" };
    let mut line =
        format!("{id} {at_port}@{bus} {myself}{role}{failed} {master} 0 0 {epoch} {link}");
    for (first, last) in map.ranges_of(at) {
        line += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
    }
    let id = |node: &usize| map.nodes.get(*node).map_or("", |it| it.id.as_str());
    if at == *me {
        for (slot, to) in &node_state.migrating {
            line += &format!(" [{slot}->-{}]", id(to));
        }
        for (slot, from) in &node_state.importing {
            line += &format!(" [{slot}-<-{}]", id(from));
        }
    }
    Some(line + "\n")
}

fn info(core: &mut Core, _: &Call<'_>) -> Answer {
    let NodeState { map, me, is_down, .. } = node_state(core)?;
    let has_failed = |node: usize| map.nodes.get(node).is_some_and(|it| it.has_failed);
    let ranges = map.owners.ranges().into_iter();
    let failed: u16 = ranges
        .filter(|(_, node)| has_failed(*node))
        .map(|((first, last), _)| last - first + 1)
        .sum();
    let size = (0..map.nodes.len()).filter(|node| map.ranges_of(*node).next().is_some()).count();
    let state = if *is_down { "fail" } else { "ok" };
    let newest = map.nodes.iter().map(|node| node.epoch).max().unwrap_or_default();
    let own = map.nodes.get(*me).map_or(0, |node| node.epoch);
    Ok(Reply::Verbatim(format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{SLOTS}\r\n\
         cluster_slots_ok:{}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{failed}\r\n\
         cluster_known_nodes:{}\r\ncluster_size:{size}\r\ncluster_current_epoch:{newest}\r\n\
         cluster_my_epoch:{own}\r\n",
        SLOTS - failed,
        map.nodes.len()
    )))
}
