//! The faults of one shard, each from its beginning to its end.
//!
//! At each failover, the data of the old and the new primary is compared. If both have the same
//! data, the judge allows no second holder.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use leasehold_twin::{Cluster, Cut, Delay, Reach, Twin};
use tokio::time::sleep;

use super::{
    book::Book,
    jobs,
    judge::Judge,
    peer::Peer,
    scenario::{Kind, Scenario},
    server_faults::{LONGEST_PAUSE, ServerFaults},
    site::Site,
    stale_connections::SILENCE,
};
use crate::{domain::Name, engine::simulation::trace::Trace};

/// How long clients reach only the stale sentinel after all their connections were cut.
const LONGER: Duration = Duration::from_secs(3);

/// The longest time between two refreshes of the topology, if nothing requests a refresh.
const REFRESH: Duration = Duration::from_millis(6_250);

/// The longest time for which clients reach only an isolated primary, in milliseconds, and the part
/// of this time before a replica is promoted.
const LONGEST_PARTING: u64 = 9_000;
const PROMOTED: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum FaultKind {
    Agreed,
    Killed,
    Behind,
    Hung,
    Isolated,
    Parted,
    Stale,
    Restarted,
    Stopped,
    Late,
    ReplicaKilled,
    ReplicaHung,
    MessagesLost,
    Flushed,
}

/// A fault of some shards. Dropping this value allows new faults of these shards.
pub(super) struct ShardFault {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) scenario: Scenario,
    pub(super) server_faults: ServerFaults,
    pub(super) names: Vec<Name>,
    pub(super) book: Option<Arc<Book>>,
    pub(super) chance: Mutex<Rng>,
    pub(super) shards: Vec<usize>,
    pub(super) busy: Arc<Mutex<BTreeSet<usize>>>,
    /// Whether a replica did not have all data when the fault began.
    pub(super) lacks_replicas: bool,
}

impl Drop for ShardFault {
    fn drop(&mut self) {
        let mut busy = self.busy.lock().unwrap();
        busy.retain(|shard| !self.shards.contains(shard));
    }
}

impl ShardFault {
    pub(super) fn log(&self, what: impl FnOnce() -> String) {
        self.trace.log(what);
    }

    pub(super) fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.chance.lock().unwrap().u64(1..=most))
    }

    /// Returns the longest time that a fault takes.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_secs(25)
    }

    pub(super) fn primary(&self) -> Twin {
        self.site.primary(self.shards[0])
    }

    /// Returns how long it takes until all clients have left a replaced server.
    pub(super) fn left(&self) -> Duration {
        let follows = if self.scenario.kind == Kind::Switched { 1_000 } else { 4_000 };
        self.server_faults.gossip() + Duration::from_millis(follows)
    }

    /// Like [`left`](Self::left), for the failover of a primary that clients still reach. If a
    /// client asks this primary and a late node about the topology, it uses the reply that comes
    /// first, and learns of the failover one refresh later.
    fn left_after_isolation(&self) -> Duration {
        let later = if self.server_faults.late { REFRESH } else { Duration::ZERO };
        self.left() + later
    }

    /// Returns the names on this shard.
    pub(super) fn names(&self) -> Vec<Name> {
        let is_here = |name: &&Name| self.site.shard_of(name) == self.shards[0];
        self.names.iter().filter(is_here).cloned().collect()
    }

    pub(super) fn fault(&self, lasts: Duration) {
        self.names().iter().for_each(|name| self.judge.fault_of(name, lasts));
    }

    /// Returns the data of `name` at `server`, and the milliseconds until its lease ends.
    fn state(&self, server: &Twin, name: &Name) -> (Option<BTreeMap<String, String>>, i64) {
        match &self.book {
            Some(_) => jobs::state(server),
            None => (server.hash(name.as_str()), server.pttl(name.as_str())),
        }
    }

    /// Promotes another server. The old primary still serves its connected clients for `serves`.
    pub(super) fn promote(&self, serves: Duration) {
        self.promote_slowly(serves, self.left());
    }

    /// Like [`promote`](Self::promote). `follows` is how long a client may take until it renews its
    /// leases at the new primary.
    fn promote_slowly(&self, serves: Duration, follows: Duration) {
        let (names, old) = (self.names(), self.primary());
        let before: Vec<_> = names.iter().map(|name| self.state(&old, name)).collect();
        if !self.site.fail_over(self.shards[0]) {
            return self.log(|| "nobody can take over".into());
        }
        let new = self.primary();
        self.log(|| format!("{} takes over from {}", new.address(), old.address()));
        for (name, (held, lasted)) in names.iter().zip(before) {
            let (known, lasts) = self.state(&new, name);
            self.judge.fails_over(name, self.server_faults.gossip().max(serves));
            // If a renewal reached, or later reaches, only the old primary, the lease at the new
            // primary may end before the client reaches the new primary. A paused client reaches it
            // later, and so does a client that another fault cuts off from this primary.
            let left = Duration::from_millis(lasts.unsigned_abs());
            let shorter = lasts < lasted || self.book.is_some();
            let pause = if self.server_faults.pauses { LONGEST_PAUSE } else { 0 };
            let cut_off = if self.server_faults.parted { LONGEST_PARTING } else { 0 };
            let reached = follows + Duration::from_millis(pause.max(cut_off));
            let reached = if shorter { reached + serves } else { reached };
            let may_be_late = shorter || !serves.is_zero();
            if known.is_some() && may_be_late && left < reached {
                self.judge.may_expire(name, serves + left);
            }
            if self.lacks_replicas {
                self.judge.may_expire(name, serves);
            }
            if known != held || !serves.is_zero() {
                self.log(|| format!("{name} was {held:?} and is {known:?}"));
                self.judge.doubts(name, serves);
            }
            if let (Some(book), Some(before), Some(after)) = (&self.book, held, known) {
                let repeats = self.scenario.kind == Kind::Switched && self.site.shards() == 1;
                book.fails_over(&before, &after, repeats);
            }
        }
    }

    /// Records that for `lasts`, no renewal reaches the replicas, before one of them is promoted. If
    /// an earlier fault has delayed the renewals of a hold, its lease may end at a replica meanwhile.
    fn misses_renewals(&self, lasts: Duration) {
        let (replicas, until) = (self.site.replicas(self.shards[0]), lasts + self.left());
        for name in self.names() {
            let mut left = replicas.iter().map(|replica| self.state(replica, &name).1);
            if left.any(|left| u128::try_from(left).is_ok_and(|left| left < until.as_millis())) {
                self.judge.may_expire(&name, until);
            }
        }
    }

    pub(super) fn agreed(&self) {
        let serves = self.server_faults.gossip();
        self.promote(if serves.is_zero() { serves } else { self.left() });
    }

    /// Kills the primary, and promotes a replica. The old primary comes back as a replica.
    pub(super) async fn killed(&self) {
        let (old, cut_for) = (self.primary(), self.millis(1_500));
        self.fault(cut_for);
        old.kill();
        sleep(cut_for).await;
        self.promote(Duration::ZERO);
        sleep(self.millis(4_000)).await;
        self.log(|| format!("{} is started again", old.address()));
        old.restart();
    }

    /// Kills the replicas, so that they miss all writes until the primary is killed. Then one of
    /// the restarted replicas is promoted.
    pub(super) async fn behind(&self) {
        let (old, replicas) = (self.primary(), self.site.replicas(self.shards[0]));
        // The replicas miss renewals for this time.
        let most = u64::try_from(self.scenario.ttl.as_millis()).unwrap() / 4;
        let (missed, cut_for) = (self.millis(most), self.millis(500));
        self.misses_renewals(missed + cut_for);
        replicas.iter().for_each(Twin::kill);
        sleep(missed).await;
        self.fault(cut_for);
        old.kill();
        replicas.iter().for_each(Twin::restart);
        sleep(cut_for).await;
        self.promote(Duration::ZERO);
        // Clients have time to repeat the lost writes.
        sleep(Duration::from_secs(3) + self.millis(4_000)).await;
        self.log(|| format!("{} is started again", old.address()));
        old.restart();
    }

    /// Stops the primary, promotes a replica, and later resumes the old primary, which has not
    /// noticed its replacement.
    pub(super) async fn hung(&self) {
        let (old, cut_for, later) = (self.primary(), self.millis(1_500), self.millis(8_000));
        // A client of a cluster that sends no request to the node notices only that its connection
        // for messages is silent.
        let is_node = matches!(self.site, Site::Nodes(..));
        self.fault(if is_node { SILENCE.max(cut_for) } else { cut_for });
        self.site.stop(&old);
        sleep(cut_for).await;
        self.promote(if later < self.left() { self.left() } else { Duration::ZERO });
        sleep(later).await;
        self.log(|| format!("{} goes on", old.address()));
        self.site.resume(&old);
    }

    /// Cuts the primary off from all other servers, while clients still reach it.
    pub(super) async fn isolated(&self) {
        let (old, missed) = (self.primary(), self.millis(2_000));
        self.misses_renewals(missed);
        old.isolate();
        sleep(missed).await;
        self.promote_slowly(self.left_after_isolation(), self.left_after_isolation() + REFRESH);
        sleep(self.millis(10_000)).await;
        self.log(|| format!("{} is among others again", old.address()));
        old.rejoin();
    }

    /// Cuts the primary and some clients off from all other servers. These clients reach only this
    /// primary.
    pub(super) async fn parted(&self, peers: &[Arc<Peer>]) {
        let (old, time) = (self.primary(), self.millis(LONGEST_PARTING - PROMOTED));
        let address = old.address();
        old.isolate();
        let lasts = time + self.left_after_isolation();
        self.judge.fault(lasts);
        self.names().iter().for_each(|name| self.judge.forgets(name, lasts));
        self.set_reach(peers, |it| *it != address, Reach::Silent, Cut::Silence);
        sleep(self.millis(PROMOTED)).await;
        self.promote_slowly(lasts, lasts + REFRESH);
        sleep(time).await;
        self.set_reach(peers, |it| *it != address, Reach::Open, Cut::Silence);
        old.rejoin();
    }

    /// Lets one sentinel miss a failover, and then makes the other sentinels unreachable.
    pub(super) async fn stale(&self, peers: &[Arc<Peer>]) {
        let Site::Watched(_, watched, _) = &self.site else { return self.stale_node().await };
        let sentinel = watched.sentinels()[0].clone();
        sentinel.isolate();
        self.agreed();
        sleep(self.left()).await;
        let others = &watched.addresses()[1..];
        let time = self.millis(14_000);
        self.log(|| format!("for {time:?} the sentinel alone answers that knows nothing"));
        self.judge.fault(Duration::ZERO);
        self.judge.misleads(time + LONGER);
        self.set_reach(peers, |it| others.contains(it), Reach::Refused, Cut::Whole);
        sleep(time).await;
        self.judge.fault(Duration::ZERO);
        peers.iter().for_each(|peer| peer.cut(Cut::Whole));
        sleep(LONGER).await;
        self.set_reach(peers, |it| others.contains(it), Reach::Open, Cut::Whole);
        sentinel.rejoin();
    }

    /// Lets a node of a cluster miss the failover of another shard.
    pub(super) async fn stale_node(&self) {
        let node = self.site.primary(self.shards[1]);
        node.isolate();
        self.agreed();
        sleep(self.millis(6_000)).await;
        node.rejoin();
    }

    /// Makes the `wanted` servers unreachable for `peers`, or reachable again.
    pub(super) fn set_reach(
        &self,
        peers: &[Arc<Peer>],
        wanted: impl Fn(&String) -> bool,
        reach: Reach,
        cut: Cut,
    ) {
        let (Site::Watched(net, ..) | Site::Nodes(net, ..)) = &self.site else { return };
        let all = self.site.all().into_iter().map(|it| it.address()).filter(wanted);
        for address in all {
            for host in peers.iter().map(|peer| net.host(&peer.id)) {
                host.reach(&address, reach);
                if reach != Reach::Open {
                    let _many: usize = host.cut(&address, cut);
                }
            }
        }
    }

    /// Kills the primary, and starts it again before a replica is promoted.
    pub(super) async fn restarted(&self) {
        let (old, time) = (self.primary(), self.millis(1_500));
        self.fault(time);
        old.kill();
        sleep(time).await;
        old.restart();
        self.fault(Duration::ZERO);
    }

    pub(super) async fn stopped(&self) {
        let (old, time) = (self.primary(), self.millis(2_500));
        self.fault(time);
        self.site.stop(&old);
        sleep(time).await;
        self.site.resume(&old);
    }

    /// Delays requests and replies.
    pub(super) async fn late(&self) {
        let (server, time) = (self.primary(), self.millis(4_000));
        let (usual, late) = (Duration::from_millis(self.scenario.delay), self.millis(120));
        self.fault(time);
        server.delay(Delay::UpTo(late), Delay::UpTo(late));
        sleep(time).await;
        server.delay(Delay::UpTo(usual), Delay::UpTo(usual));
    }

    pub(super) async fn replica_killed(&self) {
        let replica = self.site.replicas(self.shards[0]).remove(0);
        replica.kill();
        sleep(self.millis(4_000)).await;
        replica.restart();
    }

    pub(super) async fn replica_hung(&self) {
        let replica = self.site.replicas(self.shards[0]).remove(0);
        self.site.stop(&replica);
        sleep(self.millis(4_000)).await;
        self.site.resume(&replica);
    }

    pub(super) async fn messages_lost(&self) {
        let (server, time) = (self.primary(), self.millis(1_000));
        self.fault(time);
        server.lose_messages(500);
        sleep(time).await;
        server.lose_messages(0);
    }

    pub(super) fn flushed(&self) {
        self.site.servers(self.shards[0]).iter().for_each(Twin::flush_scripts);
    }

    /// Moves the slot of a name to another shard: first one key of the slot, then the others.
    pub(super) async fn moved(&self, cluster: &Cluster, name: &Name, to: usize) {
        let slot = Cluster::slot_of(name.as_str());
        let to =
            cluster.nodes().iter().position(|it| it.address() == self.site.primary(to).address());
        let Some(to) = to else { return };
        let (first, then) = (self.millis(3_000), self.millis(300));
        if !cluster.begin_move(slot, to) {
            return;
        }
        self.log(|| format!("{name} goes to {}", cluster.addresses()[to]));
        // While no key has moved, no client notices the move.
        sleep(first).await;
        self.judge.moves(name, then);
        let _many: usize = cluster.move_keys(slot, 1);
        sleep(then).await;
        while cluster.move_keys(slot, usize::MAX) > 0 {}
        cluster.finish_move(slot);
        self.log(|| format!("{name} has gone"));
        self.judge.moves(name, self.server_faults.gossip());
    }
}
