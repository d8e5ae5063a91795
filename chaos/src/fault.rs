//! What is done to servers, links and processes, and what came of it.

use std::collections::BTreeSet;
use std::fmt;

use crate::clock::Nanos;

/// A kind of fault: a row of the report.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A worker is killed, and another one started.
    WorkerKilled,
    /// A worker stands still, some of the time for longer than its leases.
    WorkerStopped,
    /// The only server is killed, and started with its data.
    ServerKilled,
    /// A server stands still, for too short a time to be replaced.
    ServerStopped,
    /// All connections of clients are closed by the server.
    ConnectionsKilled,
    /// No client reaches a server: connections end, new ones are refused.
    LinksCut,
    /// No client reaches a server: nothing arrives, and nobody is told.
    LinksBlackHoled,
    /// A master is killed, and replaced; later it comes back.
    MasterKilled,
    /// A master stands still until it is replaced, and then goes on.
    MasterStopped,
    /// A master is cut off from all other servers, and clients reach it.
    MasterCutOff,
    /// A master and one worker reach each other, and nobody else.
    MasterAndWorkerCutOff,
    /// A master that is well is replaced.
    FailoverAsked,
    /// A replica is killed, and started again.
    ReplicaKilled,
    /// A replica is cut off from its master.
    ReplicaCutOff,
    /// A sentinel is killed, and started again.
    SentinelKilled,
    /// A slot moves from master to master, with the locks in it.
    SlotMoved,
}

/// In the words of the report.
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
    /// Whether a server takes the place of another.
    #[must_use]
    pub fn replaces_a_master(self) -> bool {
        use Fault::{
            FailoverAsked, MasterAndWorkerCutOff, MasterCutOff, MasterKilled, MasterStopped,
        };
        let all = [FailoverAsked, MasterAndWorkerCutOff, MasterCutOff, MasterKilled, MasterStopped];
        all.contains(&self)
    }

    /// Whether clients are kept away from a server as long as it lasts.
    #[must_use]
    pub fn keeps_clients_away(self) -> bool {
        let all = [Self::ServerKilled, Self::ServerStopped, Self::LinksCut, Self::LinksBlackHoled];
        all.contains(&self)
    }

    /// One word for it, in the history.
    #[must_use]
    pub fn word(self) -> String {
        format!("{self:?}")
    }
}

/// A fault that has struck and is healed.
#[derive(Clone, Debug)]
pub struct HealedFault {
    /// Which one.
    pub fault: Fault,
    /// When it began.
    pub from: Nanos,
    /// When the servers could serve again, though not everything was healed.
    pub served: Nanos,
    /// When everything was healed.
    pub healed: Nanos,
    /// Whether a server took the place of another, in a way that may lose what was
    /// granted last.
    pub failover: bool,
    /// Whose recovery tells how long it took. Nothing stands for all.
    pub names: Option<BTreeSet<String>>,
}
