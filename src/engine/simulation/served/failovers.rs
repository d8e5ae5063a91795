//! Starts the faults of servers that have replicas, at random times.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use leasehold_twin::{Cut, Twin};
use tokio::{task::JoinSet, time::sleep};

use super::{
    book::Book,
    judge::Judge,
    peer::Peer,
    scenario::Scenario,
    server_faults::{LONGEST_PAUSE, ServerFaults},
    shard_faults::{FaultKind, ShardFault},
    site::Site,
    stale_connections::StaleConnections,
};
use crate::{domain::Name, engine::simulation::trace::Trace};

/// A number that no shard has. Every fault that isolates a primary marks this number as busy, so
/// only one such fault exists at a time. Otherwise a cluster might have no majority of primaries,
/// and would then promote no replica.
const ISOLATION: usize = 11;

/// Makes servers fail, and promotes replicas.
pub(super) struct Failovers {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) scenario: Scenario,
    pub(super) server_faults: ServerFaults,
    pub(super) names: Vec<Name>,
    /// The record of the queue, if the run uses a queue instead of locks.
    pub(super) book: Option<Arc<Book>>,
    pub(super) chance: Rng,
    /// Shards that have a fault now.
    pub(super) busy: Arc<Mutex<BTreeSet<usize>>>,
    /// Faults that end by themselves.
    pub(super) lasting: JoinSet<()>,
}

impl Failovers {
    fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(..n) == 0
    }

    /// Starts faults at random times.
    pub(super) fn check(&mut self, peers: &[Arc<Peer>], stale_connections: &mut StaleConnections) {
        let does = self.server_faults;
        if self.one_in(40) {
            self.fault_of_shard(peers, stale_connections);
        }
        if does.moves && self.one_in(60) {
            self.move_a_slot();
        }
        if does.sentinels && self.one_in(80) {
            self.fault_of_sentinel();
        }
        if does.down && self.one_in(240) {
            self.cluster_down();
        }
        let peer = &peers[self.chance.usize(..peers.len())];
        if !peer.is_dead() {
            self.fault_of_client(peer, stale_connections);
        }
    }

    /// Starts a fault of a random shard, if this shard has no fault now.
    fn fault_of_shard(&mut self, peers: &[Arc<Peer>], stale_connections: &mut StaleConnections) {
        let does = self.server_faults;
        let kinds = [
            (does.agreed, FaultKind::Agreed),
            (does.killed, FaultKind::Killed),
            (does.behind, FaultKind::Behind),
            (does.hung, FaultKind::Hung),
            (does.isolated, FaultKind::Isolated),
            (does.parted, FaultKind::Parted),
            (does.stale, FaultKind::Stale),
            (does.restarts, FaultKind::Restarted),
            (does.restarts, FaultKind::Stopped),
            (does.late, FaultKind::Late),
            (does.replicas, FaultKind::ReplicaKilled),
            (does.replicas, FaultKind::ReplicaHung),
            (does.losses, FaultKind::MessagesLost),
            (does.flushes, FaultKind::Flushed),
        ];
        let kinds: Vec<FaultKind> = kinds.into_iter().filter(|it| it.0).map(|it| it.1).collect();
        if kinds.is_empty() {
            return;
        }
        let kind = kinds[self.chance.usize(..kinds.len())];
        let shard = self.chance.usize(..self.site.shards());
        let other = (shard + 1) % self.site.shards();
        let shards = match kind {
            FaultKind::Stale => vec![shard, other, ISOLATION],
            FaultKind::Isolated | FaultKind::Parted => vec![shard, ISOLATION],
            _ => vec![shard],
        };
        let Some(fault) = self.begin(&shards) else { return };
        let parted: Vec<_> = peers.iter().filter(|_| self.chance.bool()).cloned().collect();
        let trace = Arc::clone(&self.trace);
        trace.log(|| format!("{kind:?}: {}", self.site.primary(shard).address()));
        let lasts = fault.longest();
        match kind {
            FaultKind::Parted => {
                parted.iter().for_each(|it| stale_connections.excuse(&it.id, lasts));
            }
            FaultKind::Stale => peers.iter().for_each(|it| stale_connections.excuse(&it.id, lasts)),
            _ => {}
        }
        let all = peers.to_vec();
        self.lasting.spawn(async move {
            match kind {
                FaultKind::Agreed => fault.agreed(),
                FaultKind::Killed => fault.killed().await,
                FaultKind::Behind => fault.behind().await,
                FaultKind::Hung => fault.hung().await,
                FaultKind::Isolated => fault.isolated().await,
                FaultKind::Parted => fault.parted(&parted).await,
                FaultKind::Stale => fault.stale(&all).await,
                FaultKind::Restarted => fault.restarted().await,
                FaultKind::Stopped => fault.stopped().await,
                FaultKind::Late => fault.late().await,
                FaultKind::ReplicaKilled => fault.replica_killed().await,
                FaultKind::ReplicaHung => fault.replica_hung().await,
                FaultKind::MessagesLost => fault.messages_lost().await,
                FaultKind::Flushed => fault.flushed(),
            }
        });
    }

    /// Begins a fault of these shards, if none of these shards has a fault now.
    fn begin(&mut self, shards: &[usize]) -> Option<ShardFault> {
        let mut busy = self.busy.lock().unwrap();
        if shards.iter().any(|it| busy.contains(it)) {
            return None;
        }
        busy.extend(shards);
        drop(busy);
        let shard = shards[0];
        let replicas = self.site.replicas(shard).len();
        Some(ShardFault {
            lacks_replicas: self.site.primary(shard).online_replicas() < replicas,
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            trace: Arc::clone(&self.trace),
            scenario: self.scenario,
            server_faults: self.server_faults,
            names: self.names.clone(),
            book: self.book.clone(),
            chance: Mutex::new(self.chance.fork()),
            shards: shards.to_vec(),
            busy: Arc::clone(&self.busy),
        })
    }

    fn move_a_slot(&mut self) {
        let Site::Nodes(_, cluster, _) = &self.site else { return };
        let cluster = cluster.clone();
        let name = self.names[self.chance.usize(..self.names.len())].clone();
        let from = self.site.shard_of(&name);
        let to = (from + self.chance.usize(1..self.site.shards())) % self.site.shards();
        let Some(fault) = self.begin(&[from, to]) else { return };
        self.lasting.spawn(async move { fault.moved(&cluster, &name, to).await });
    }

    /// Makes one sentinel unreachable, or isolates it. Clients must not notice this fault.
    fn fault_of_sentinel(&mut self) {
        let Site::Watched(_, watched, _) = &self.site else { return };
        let sentinel = watched.sentinels()[self.chance.usize(..3)].clone();
        let kind = self.chance.u32(..3);
        let Some(fault) = self.begin(&[10]) else { return };
        let time = fault.millis(8_000);
        fault.log(|| format!("a sentinel is unreachable for {time:?}: {kind}"));
        self.lasting.spawn(async move {
            match kind {
                0 => sentinel.kill(),
                1 => fault.site.stop(&sentinel),
                _ => sentinel.isolate(),
            }
            sleep(time).await;
            match kind {
                0 => sentinel.restart(),
                1 => fault.site.resume(&sentinel),
                _ => sentinel.rejoin(),
            }
            drop(fault);
        });
    }

    fn cluster_down(&mut self) {
        let Site::Nodes(_, cluster, _) = &self.site else { return };
        let (cluster, time) = (cluster.clone(), Duration::from_millis(self.chance.u64(1..=1_500)));
        self.trace.log(|| format!("the cluster is down for {time:?}"));
        self.judge.fault(time);
        cluster.set_down(true);
        self.lasting.spawn(async move {
            sleep(time).await;
            cluster.set_down(false);
        });
    }

    fn fault_of_client(&mut self, peer: &Arc<Peer>, stale_connections: &mut StaleConnections) {
        let does = self.server_faults;
        if does.cuts && self.one_in(120) {
            let how = [Cut::Whole, Cut::Replies, Cut::Silence][self.chance.usize(..3)];
            self.trace.log(|| format!("{} loses its connections: {how:?}", peer.id));
            let lasts = Duration::from_secs(if how == Cut::Silence { 6 } else { 0 });
            self.judge.client_fault(&peer.id, lasts);
            stale_connections.excuse(&peer.id, lasts);
            if how == Cut::Silence {
                stale_connections.silences(&self.site, &peer.id);
            }
            peer.cut(how);
        }
        if does.pauses && self.one_in(200) {
            let time = Duration::from_millis(self.chance.u64(1..=LONGEST_PAUSE));
            self.trace.log(|| format!("{} is paused for {time:?}", peer.id));
            self.judge.client_fault(&peer.id, time);
            peer.gate.close_for(time);
        }
        if does.deaths && self.one_in(600) {
            self.trace.log(|| format!("{} dies", peer.id));
            self.judge.client_fault(&peer.id, Duration::ZERO);
            self.judge.dies(&peer.id, &peer.gate);
            peer.dies();
        }
    }

    /// Waits until all faults are over, and resumes the servers that are still stopped.
    pub(super) async fn end(&mut self) {
        while self.lasting.join_next().await.is_some() {}
        self.site.all().iter().for_each(Twin::resume);
    }
}
