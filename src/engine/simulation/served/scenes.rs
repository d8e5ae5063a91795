//! What happens to one shard, from its beginning to its end.
//!
//! A failover is compared with what it forgets: where the new primary has what the old one had, no
//! hold is in doubt.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use leasehold_twin::{Cluster, Cut, Delay, Reach, Twin};
use tokio::time::sleep;

use super::{
    hardships::Hardships,
    judge::Judge,
    peer::Peer,
    plot::{Kind, Plot},
    site::Site,
};
use crate::{domain::Name, engine::simulation::story::Story};

/// What happens to a shard.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
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

/// Something that happens to some shards, until it is dropped.
pub(super) struct Scene {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) plot: Plot,
    pub(super) hardships: Hardships,
    pub(super) names: Vec<Name>,
    pub(super) chance: Mutex<Rng>,
    pub(super) shards: Vec<usize>,
    pub(super) busy: Arc<Mutex<BTreeSet<usize>>>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let mut busy = self.busy.lock().unwrap();
        busy.retain(|shard| !self.shards.contains(shard));
    }
}

impl Scene {
    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        self.story.say(what);
    }

    pub(super) fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.chance.lock().unwrap().u64(1..=most))
    }

    /// How long it may take at most.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_secs(25)
    }

    pub(super) fn primary(&self) -> Twin {
        self.site.primary(self.shards[0])
    }

    /// How long it takes all clients to leave a server that is replaced.
    pub(super) fn left(&self) -> Duration {
        let follows = if self.plot.kind == Kind::Switched { 1_000 } else { 4_000 };
        self.hardships.gossip() + Duration::from_millis(follows)
    }

    /// The names that lie there.
    pub(super) fn names(&self) -> Vec<Name> {
        let lies = |name: &&Name| self.site.shard_of(name) == self.shards[0];
        self.names.iter().filter(lies).cloned().collect()
    }

    pub(super) fn trouble(&self, lasts: Duration) {
        self.names().iter().for_each(|name| self.judge.trouble_of(name, lasts));
    }

    /// Another server takes the place of the primary, which `serves` clients for so long yet.
    pub(super) fn promote(&self, serves: Duration) {
        let (names, old) = (self.names(), self.primary());
        let state =
            |server: &Twin, name: &Name| (server.hash(name.as_str()), server.pttl(name.as_str()));
        let before: Vec<_> = names.iter().map(|name| state(&old, name)).collect();
        if !self.site.fail_over(self.shards[0]) {
            return self.say(|| "nobody can take over".into());
        }
        let new = self.primary();
        self.say(|| format!("{} takes over from {}", new.address(), old.address()));
        for (name, (held, lasted)) in names.iter().zip(before) {
            let (known, lasts) = state(&new, name);
            self.judge.trouble_of(name, self.hardships.gossip().max(serves));
            // Who renewed at the old one comes to the new one too late.
            let left = Duration::from_millis(lasts.unsigned_abs());
            if known.is_some() && lasts < lasted && left < self.left() + serves {
                self.judge.forgets(name, serves + left);
            }
            if known != held || !serves.is_zero() {
                self.say(|| format!("{name} was {held:?} and is {known:?}"));
                self.judge.doubts(name, serves);
            }
        }
    }

    pub(super) fn agreed(&self) {
        let serves = self.hardships.gossip();
        self.promote(if serves.is_zero() { serves } else { self.left() });
    }

    /// The primary is killed and replaced, and comes back as a replica.
    pub(super) async fn killed(&self) {
        let (old, away) = (self.primary(), self.millis(1_500));
        self.trouble(away);
        old.kill();
        sleep(away).await;
        self.promote(Duration::ZERO);
        sleep(self.millis(4_000)).await;
        self.say(|| format!("{} is started again", old.address()));
        old.restart();
    }

    /// The replicas are away, and miss what is written until the primary is killed. Then one of
    /// them takes its place.
    pub(super) async fn behind(&self) {
        let (old, replicas) = (self.primary(), self.site.replicas(self.shards[0]));
        // What replicas have acknowledged lasts longer there, although they miss its renewals.
        let most = u64::try_from(self.plot.ttl.as_millis()).unwrap() / 4;
        let (missed, away) = (self.millis(most), self.millis(500));
        replicas.iter().for_each(Twin::kill);
        sleep(missed).await;
        self.trouble(away);
        old.kill();
        replicas.iter().for_each(Twin::restart);
        sleep(away).await;
        self.promote(Duration::ZERO);
        // Clients have time to repeat what was lost.
        sleep(Duration::from_secs(3) + self.millis(4_000)).await;
        self.say(|| format!("{} is started again", old.address()));
        old.restart();
    }

    /// The primary stands still, is replaced, and goes on as if nothing had happened.
    pub(super) async fn hung(&self) {
        let (old, away, later) = (self.primary(), self.millis(1_500), self.millis(8_000));
        self.trouble(away);
        self.site.stop(&old);
        sleep(away).await;
        self.promote(if later < self.left() { self.left() } else { Duration::ZERO });
        sleep(later).await;
        self.say(|| format!("{} goes on", old.address()));
        self.site.resume(&old);
    }

    /// The primary is cut off from all other servers, and clients reach it.
    pub(super) async fn isolated(&self) {
        let old = self.primary();
        old.isolate();
        sleep(self.millis(2_000)).await;
        self.promote(self.left());
        sleep(self.millis(10_000)).await;
        self.say(|| format!("{} is among others again", old.address()));
        old.rejoin();
    }

    /// The same together with some clients.
    pub(super) async fn parted(&self, peers: &[Arc<Peer>]) {
        let (old, time) = (self.primary(), self.millis(8_000));
        let address = old.address();
        old.isolate();
        self.judge.trouble(time + self.left());
        self.names().iter().for_each(|name| self.judge.forgets(name, time + self.left()));
        self.keep_from(peers, |it| *it != address, Reach::Silent, Cut::Silence);
        sleep(self.millis(1_000)).await;
        self.promote(time + self.left());
        sleep(time).await;
        self.keep_from(peers, |it| *it != address, Reach::Open, Cut::Silence);
        old.rejoin();
    }

    /// One server misses a failover, and then some clients reach no other one that could tell them.
    pub(super) async fn stale(&self, peers: &[Arc<Peer>]) {
        let Site::Watched(_, watched, _) = &self.site else { return self.stale_node().await };
        let sentinel = watched.sentinels()[0].clone();
        sentinel.isolate();
        self.agreed();
        sleep(self.left()).await;
        let others = &watched.addresses()[1..];
        let time = self.millis(14_000);
        self.say(|| format!("for {time:?} the sentinel alone answers that knows nothing"));
        self.judge.trouble(Duration::ZERO);
        self.keep_from(peers, |it| others.contains(it), Reach::Refused, Cut::Whole);
        sleep(time).await;
        self.judge.trouble(Duration::ZERO);
        peers.iter().for_each(|peer| peer.cut(Cut::Whole));
        sleep(Duration::from_secs(3)).await;
        self.keep_from(peers, |it| others.contains(it), Reach::Open, Cut::Whole);
        sentinel.rejoin();
    }

    /// A node hears nothing of what happens to another one.
    pub(super) async fn stale_node(&self) {
        let node = self.site.primary(self.shards[1]);
        node.isolate();
        self.agreed();
        sleep(self.millis(6_000)).await;
        node.rejoin();
    }

    /// Lets some servers be out of reach of some clients, or not any more.
    pub(super) fn keep_from(
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

    /// The primary is killed, and started again before anybody takes its place.
    pub(super) async fn restarted(&self) {
        let (old, time) = (self.primary(), self.millis(1_500));
        self.trouble(time);
        old.kill();
        sleep(time).await;
        old.restart();
        self.trouble(Duration::ZERO);
    }

    pub(super) async fn stopped(&self) {
        let (old, time) = (self.primary(), self.millis(2_500));
        self.trouble(time);
        self.site.stop(&old);
        sleep(time).await;
        self.site.resume(&old);
    }

    /// Requests and replies take long.
    pub(super) async fn late(&self) {
        let (server, time) = (self.primary(), self.millis(4_000));
        let (usual, late) = (Duration::from_millis(self.plot.delay), self.millis(120));
        self.trouble(time);
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
        self.trouble(time);
        server.lose_messages(500);
        sleep(time).await;
        server.lose_messages(0);
    }

    pub(super) fn flushed(&self) {
        self.site.servers(self.shards[0]).iter().for_each(Twin::flush_scripts);
    }

    /// The slot of a name goes to another shard, and its keys one after the other.
    pub(super) async fn moved(&self, cluster: &Cluster, name: &Name, to: usize) {
        let slot = Cluster::slot_of(name.as_str());
        let to =
            cluster.nodes().iter().position(|it| it.address() == self.site.primary(to).address());
        let Some(to) = to else { return };
        let (first, then) = (self.millis(3_000), self.millis(300));
        self.say(|| format!("{name} goes to {}", cluster.addresses()[to]));
        cluster.begin_move(slot, to);
        // So far nobody notices.
        sleep(first).await;
        self.judge.moves(name, then);
        let _many: usize = cluster.move_keys(slot, 1);
        sleep(then).await;
        while cluster.move_keys(slot, usize::MAX) > 0 {}
        cluster.finish_move(slot);
        self.say(|| format!("{name} has gone"));
        self.judge.moves(name, self.hardships.gossip());
    }
}
