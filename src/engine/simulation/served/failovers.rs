//! What happens to servers that have others beside them, and when.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use leasehold_twin::{Cut, Twin};
use tokio::{task::JoinSet, time::sleep};

use super::{
    allegiance::Allegiance,
    hardships::Hardships,
    judge::Judge,
    peer::Peer,
    plot::Plot,
    scenes::{Scene, Way},
    site::Site,
};
use crate::{domain::Name, engine::simulation::story::Story};

/// Makes servers fail, and others take their place.
pub(super) struct Failovers {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) plot: Plot,
    pub(super) hardships: Hardships,
    pub(super) names: Vec<Name>,
    pub(super) chance: Rng,
    /// Shards to which something happens.
    pub(super) busy: Arc<Mutex<BTreeSet<usize>>>,
    /// Troubles that end by themselves.
    pub(super) lasting: JoinSet<()>,
}

impl Failovers {
    fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(..n) == 0
    }

    /// Makes trouble, now and then.
    pub(super) fn look(&mut self, peers: &[Arc<Peer>], allegiance: &mut Allegiance) {
        let does = self.hardships;
        if self.one_in(40) {
            self.of_a_shard(peers, allegiance);
        }
        if does.moves && self.one_in(60) {
            self.move_a_slot();
        }
        if does.sentinels && self.one_in(80) {
            self.of_a_sentinel();
        }
        if does.down && self.one_in(240) {
            self.is_down();
        }
        let peer = &peers[self.chance.usize(..peers.len())];
        if !peer.is_dead() {
            self.of_a_client(peer, allegiance);
        }
    }

    /// Something happens to one of the shards, if nothing does already.
    fn of_a_shard(&mut self, peers: &[Arc<Peer>], allegiance: &mut Allegiance) {
        let does = self.hardships;
        let ways = [
            (does.agreed, Way::Agreed),
            (does.killed, Way::Killed),
            (does.behind, Way::Behind),
            (does.hung, Way::Hung),
            (does.isolated, Way::Isolated),
            (does.parted, Way::Parted),
            (does.stale, Way::Stale),
            (does.restarts, Way::Restarted),
            (does.restarts, Way::Stopped),
            (does.late, Way::Late),
            (does.replicas, Way::ReplicaKilled),
            (does.replicas, Way::ReplicaHung),
            (does.losses, Way::MessagesLost),
            (does.flushes, Way::Flushed),
        ];
        let ways: Vec<Way> = ways.into_iter().filter(|it| it.0).map(|it| it.1).collect();
        if ways.is_empty() {
            return;
        }
        let way = ways[self.chance.usize(..ways.len())];
        let shard = self.chance.usize(..self.site.shards());
        let other = (shard + 1) % self.site.shards();
        let shards = if matches!(way, Way::Stale) { vec![shard, other] } else { vec![shard] };
        let Some(scene) = self.scene(&shards) else { return };
        let parted: Vec<_> = peers.iter().filter(|_| self.chance.bool()).cloned().collect();
        let story = Arc::clone(&self.story);
        story.say(|| format!("{way:?}: {}", self.site.primary(shard).address()));
        let lasts = scene.longest();
        match way {
            Way::Parted => parted.iter().for_each(|it| allegiance.excuse(&it.id, lasts)),
            Way::Stale => peers.iter().for_each(|it| allegiance.excuse(&it.id, lasts)),
            _ => {}
        }
        let all = peers.to_vec();
        self.lasting.spawn(async move {
            match way {
                Way::Agreed => scene.agreed(),
                Way::Killed => scene.killed().await,
                Way::Behind => scene.behind().await,
                Way::Hung => scene.hung().await,
                Way::Isolated => scene.isolated().await,
                Way::Parted => scene.parted(&parted).await,
                Way::Stale => scene.stale(&all).await,
                Way::Restarted => scene.restarted().await,
                Way::Stopped => scene.stopped().await,
                Way::Late => scene.late().await,
                Way::ReplicaKilled => scene.replica_killed().await,
                Way::ReplicaHung => scene.replica_hung().await,
                Way::MessagesLost => scene.messages_lost().await,
                Way::Flushed => scene.flushed(),
            }
        });
    }

    /// What happens to these shards, if nothing does already.
    fn scene(&mut self, shards: &[usize]) -> Option<Scene> {
        let mut busy = self.busy.lock().unwrap();
        if shards.iter().any(|it| busy.contains(it)) {
            return None;
        }
        busy.extend(shards);
        drop(busy);
        Some(Scene {
            site: self.site.clone(),
            judge: Arc::clone(&self.judge),
            story: Arc::clone(&self.story),
            plot: self.plot,
            hardships: self.hardships,
            names: self.names.clone(),
            chance: Mutex::new(self.chance.fork()),
            shards: shards.to_vec(),
            busy: Arc::clone(&self.busy),
        })
    }

    /// The slot of a name goes to another shard.
    fn move_a_slot(&mut self) {
        let Site::Nodes(_, cluster, _) = &self.site else { return };
        let cluster = cluster.clone();
        let name = self.names[self.chance.usize(..self.names.len())].clone();
        let from = self.site.shard_of(&name);
        let to = (from + self.chance.usize(1..self.site.shards())) % self.site.shards();
        let Some(scene) = self.scene(&[from, to]) else { return };
        self.lasting.spawn(async move { scene.moved(&cluster, &name, to).await });
    }

    /// One of the sentinels is away, or hears of nothing: that makes no difference.
    fn of_a_sentinel(&mut self) {
        let Site::Watched(_, watched, _) = &self.site else { return };
        let sentinel = watched.sentinels()[self.chance.usize(..3)].clone();
        let way = self.chance.u32(..3);
        let Some(scene) = self.scene(&[10]) else { return };
        let time = scene.millis(8_000);
        scene.say(|| format!("a sentinel is away for {time:?}: {way}"));
        self.lasting.spawn(async move {
            match way {
                0 => sentinel.kill(),
                1 => sentinel.stop(),
                _ => sentinel.isolate(),
            }
            sleep(time).await;
            match way {
                0 => sentinel.restart(),
                1 => sentinel.resume(),
                _ => sentinel.rejoin(),
            }
            drop(scene);
        });
    }

    fn is_down(&mut self) {
        let Site::Nodes(_, cluster, _) = &self.site else { return };
        let (cluster, time) = (cluster.clone(), Duration::from_millis(self.chance.u64(1..=1_500)));
        self.story.say(|| format!("the cluster is down for {time:?}"));
        self.judge.trouble(time);
        cluster.set_down(true);
        self.lasting.spawn(async move {
            sleep(time).await;
            cluster.set_down(false);
        });
    }

    fn of_a_client(&mut self, peer: &Arc<Peer>, allegiance: &mut Allegiance) {
        let does = self.hardships;
        if does.cuts && self.one_in(120) {
            let how = [Cut::Whole, Cut::Replies, Cut::Silence][self.chance.usize(..3)];
            self.story.say(|| format!("{} loses its connections: {how:?}", peer.id));
            let lasts = Duration::from_secs(if how == Cut::Silence { 6 } else { 0 });
            self.judge.trouble_of_client(&peer.id, lasts);
            allegiance.excuse(&peer.id, lasts);
            if how == Cut::Silence {
                allegiance.silences(&self.site, &peer.id);
            }
            peer.cut(how);
        }
        if does.pauses && self.one_in(200) {
            let time = Duration::from_millis(self.chance.u64(1..=8_000));
            self.story.say(|| format!("{} is paused for {time:?}", peer.id));
            self.judge.trouble_of_client(&peer.id, time);
            peer.gate.close_for(time);
        }
        if does.deaths && self.one_in(600) {
            self.story.say(|| format!("{} dies", peer.id));
            self.judge.trouble_of_client(&peer.id, Duration::ZERO);
            self.judge.dies(&peer.id, &peer.gate);
            peer.dies();
        }
    }

    /// Waits until nothing is wrong any more.
    pub(super) async fn end(&mut self) {
        while self.lasting.join_next().await.is_some() {}
        self.site.all().iter().for_each(Twin::resume);
    }
}
