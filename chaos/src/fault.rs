//! Faults of servers, links and processes, and their results.

use std::collections::BTreeSet;
use std::fmt;

use crate::clock::Nanos;

/// A kind of fault. Each kind is a row of the report.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A worker is killed, and another one is started.
    WorkerKilled,
    /// A worker is suspended, sometimes for longer than its leases last.
    WorkerStopped,
    /// The only server is killed, and started again with its data.
    ServerKilled,
    /// A server is suspended, but for too short a time to be replaced.
    ServerStopped,
    /// A server closes all connections of clients.
    ConnectionsKilled,
    /// No client reaches a server: connections are closed, and new ones are refused.
    LinksCut,
    /// No client reaches a server: no bytes arrive, but no connection is closed.
    LinksBlackHoled,
    /// A master is killed and replaced. Later this server is started again.
    MasterKilled,
    /// A master is suspended until it is replaced. Then this server continues.
    MasterStopped,
    /// A master loses the links to all other servers, but clients still reach this master.
    MasterCutOff,
    /// A master and one worker reach each other, but no other process.
    MasterAndWorkerCutOff,
    /// A healthy master is replaced.
    FailoverAsked,
    /// A replica is killed, and started again.
    ReplicaKilled,
    /// A replica loses the link to its master.
    ReplicaCutOff,
    /// A sentinel is killed, and started again.
    SentinelKilled,
    /// A slot with its locks moves from master to master.
    SlotMoved,
}

/// The name of the fault in the report.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WorkerKilled => "a worker is killed, another one starts",
            Self::WorkerStopped => "a worker is stopped, and goes on",
            Self::ServerKilled => "the server is killed, and starts with its data",
            Self::ServerStopped => "a server is stopped, and goes on before it is replaced",
            Self::ConnectionsKilled => "all clients' connections are killed",
            Self::LinksCut => "clients are cut off from a server",
            Self::LinksBlackHoled => "clients' packets to a server vanish",
            Self::MasterKilled => "a master is killed, replaced, and comes back",
            Self::MasterStopped => "a master is stopped, replaced, and goes on",
            Self::MasterCutOff => "a master is cut off from the other servers, and replaced",
            Self::MasterAndWorkerCutOff => {
                "a master and a worker are cut off from all others, and it is replaced"
            }
            Self::FailoverAsked => "a master that is well is replaced",
            Self::ReplicaKilled => "a replica is killed, and comes back",
            Self::ReplicaCutOff => "a replica is cut off from its master",
            Self::SentinelKilled => "a sentinel is killed, and comes back",
            Self::SlotMoved => "a slot moves to another master",
        })
    }
}

impl Fault {
    /// Whether this fault makes another server replace a master.
    #[must_use]
    pub fn replaces_a_master(self) -> bool {
        use Fault::{
            FailoverAsked, MasterAndWorkerCutOff, MasterCutOff, MasterKilled, MasterStopped,
        };
        let all = [FailoverAsked, MasterAndWorkerCutOff, MasterCutOff, MasterKilled, MasterStopped];
        all.contains(&self)
    }

    /// Whether clients cannot reach a server until the fault is healed. Faults that replace the
    /// server do not count.
    #[must_use]
    pub fn keeps_clients_away(self) -> bool {
        let all = [Self::ServerKilled, Self::ServerStopped, Self::LinksCut, Self::LinksBlackHoled];
        all.contains(&self)
    }

    /// The name of the fault in the history.
    #[must_use]
    pub fn word(self) -> String {
        format!("{self:?}")
    }
}

/// A fault that has happened and is healed.
#[derive(Clone, Debug)]
pub struct HealedFault {
    /// The kind of fault.
    pub fault: Fault,
    /// When the fault began.
    pub from: Nanos,
    /// When the servers could serve again. Other parts of the fault may not have been healed yet.
    pub served: Nanos,
    /// When everything was healed.
    pub healed: Nanos,
    /// Whether a server replaced another one. A replacement may lose the latest grants.
    pub failover: bool,
    /// The names whose recovery is measured. `None` means all names.
    pub names: Option<BTreeSet<String>>,
}
