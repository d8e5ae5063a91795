//! The commands of Leasehold, sent over one connection of the crate `redis`. In a cluster, there is
//! one connection to each node. The cost of these commands is the lower limit of acquiring and
//! releasing.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{Value, aio::MultiplexedConnection};
use testkit::Cluster;

use super::{Library, Outcome};
use crate::job::TTL;

#[derive(Clone, Debug)]
pub(crate) struct Raw {
    nodes: Arc<[Node]>,
    acquire: Arc<str>,
    holds: Arc<AtomicU64>,
}

/// A node, and its slots.
#[derive(Debug)]
struct Node {
    slots: RangeInclusive<u16>,
    connection: MultiplexedConnection,
}

/// A lock that was granted: its name, and the owner.
#[derive(Debug)]
pub(crate) struct Held {
    name: String,
    owner: String,
}

impl Library for Raw {
    type Held = Held;

    async fn connect(url: &str) -> Outcome<Self> {
        let mut nodes = match url.strip_prefix("redis-cluster://") {
            Some(seeds) => nodes(seeds).await?,
            None => vec![Node { slots: 0..=u16::MAX, connection: connect(url).await? }],
        };
        let mut acquire = String::new();
        for node in &mut nodes {
            acquire = load(&mut node.connection, include_str!(script!("acquire"))).await?;
        }
        Ok(Self { nodes: nodes.into(), acquire: acquire.into(), holds: Arc::default() })
    }

    async fn acquire(&self, name: &str) -> Outcome<Held> {
        self.seize(name, TTL).await
    }

    async fn release(&self, held: Held) -> Outcome<()> {
        let channel = format!("redisson_lock__channel:{{{}}}", held.name);
        let publish = if self.nodes.len() == 1 { "PUBLISH" } else { "SPUBLISH" };
        let mut calls = redis::pipe();
        calls.cmd("HDEL").arg(&held.name).arg(&held.owner);
        calls.cmd(publish).arg(channel).arg("0");
        let replies = self.at(&held.name)?.send_packed_commands(&calls, 0, 2).await?;
        match replies.as_slice() {
            [Value::Int(1), Value::Int(_)] => Ok(()),
            other => Err(format!("the release was answered {other:?}").into()),
        }
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<Held> {
        self.seize(name, ttl).await
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<Held> {
        let owner = format!("{CLIENT}:{}", self.holds.fetch_add(1, Ordering::Relaxed));
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*self.acquire).arg(1).arg(name).arg(&owner).arg(lease.as_millis() as u64);
        match self.at(name)?.send_packed_command(&call).await? {
            Value::BulkString(granted) if granted == owner.as_bytes() => {}
            other => return Err(format!("a script answered {other:?}").into()),
        }
        Ok(Held { name: name.to_owned(), owner })
    }
}

impl Raw {
    /// The connection to the node that has `name`.
    fn at(&self, name: &str) -> Outcome<MultiplexedConnection> {
        if let [node] = &*self.nodes {
            return Ok(node.connection.clone());
        }
        let slot = Cluster::slot_of(name);
        let node = self.nodes.iter().find(|node| node.slots.contains(&slot));
        Ok(node.ok_or("nobody has the slot")?.connection.clone())
    }
}

/// The nodes of a cluster. Each node must have only one range of slots.
async fn nodes(seeds: &str) -> Outcome<Vec<Node>> {
    let seed = seeds.split(',').next().ok_or("no node is named")?;
    let mut seed = connect(&format!("redis://{seed}")).await?;
    let known: Vec<Range> = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut seed).await?;
    let mut nodes = vec![];
    for (first, last, (host, port, ..)) in known {
        let connection = connect(&format!("redis://{host}:{port}")).await?;
        nodes.push(Node { slots: first..=last, connection });
    }
    Ok(nodes)
}

/// The first part of an owner. Owners are as long as those of Leasehold, and each hold has its own
/// owner. So the server does the same work as for Leasehold.
const CLIENT: &str = "6e3a54b4-8f3c-4f0e-9d5b-3a1f0c7d2b90";

/// An entry of `CLUSTER SLOTS`: the first slot, the last slot, and the master with its address, its
/// port, its id and more fields.
type Range = (u16, u16, (String, u16, Value, Value));

/// Opens a connection with the settings that Leasehold uses.
pub(super) async fn connect(url: &str) -> Outcome<MultiplexedConnection> {
    let info = redis::IntoConnectionInfo::into_connection_info(format!("{url}?protocol=resp3"))?;
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(info.set_tcp_settings(tcp))?;
    let config = redis::AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(16_384);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

async fn load(connection: &mut MultiplexedConnection, text: &str) -> Outcome<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(connection).await?)
}

/// The path of a script of Leasehold.
macro_rules! script {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../src/store/redis/kinds/lock/", $name, ".lua")
    };
}
use script;
