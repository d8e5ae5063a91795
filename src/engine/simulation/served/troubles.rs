//! What happens to the server, the connections and the clients.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use leasehold_twin::{Cut, Reach, Refusal, Twin};
use tokio::{task::JoinSet, time::sleep};

use super::{judge::Judge, peer::Peer, plot::Plot, rights::Rights, site::Site};
use crate::engine::simulation::story::Story;

/// Makes trouble.
pub(super) struct Troubles {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) story: Arc<Story>,
    pub(super) plot: Plot,
    pub(super) chance: Rng,
    /// Troubles that end by themselves.
    pub(super) lasting: JoinSet<()>,
    /// Clients that have lost their runtime and the tasks that worked for them.
    pub(super) without_runtime: Vec<Arc<Peer>>,
}

impl Troubles {
    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        self.story.say(what);
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(..n) == 0
    }

    pub(super) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.chance.u64(1..=most))
    }

    /// Makes trouble, now and then.
    pub(super) fn look(&mut self, peers: &[Arc<Peer>]) {
        let does = self.plot.troubles;
        let peer = &peers[self.chance.usize(..peers.len())];
        if !peer.is_dead() {
            self.of_a_process(peer);
            self.of_a_client(peer);
        }
        if does.stops && self.one_in(600) {
            self.stop();
        }
        if does.refusals && self.one_in(400) {
            self.refuse();
        }
        if does.losses && self.one_in(300) {
            self.lose_messages();
        }
        if does.cuts && self.one_in(600) {
            self.cut_off();
        }
        if does.flushes && self.one_in(200) {
            self.say(|| "scripts are flushed".into());
            self.site.master().flush_scripts();
        }
        if does.forgetting && self.one_in(1_500) {
            self.forget();
        }
        if does.promotion && self.one_in(1_000) {
            self.promote();
        }
    }

    fn of_a_client(&mut self, peer: &Arc<Peer>) {
        let does = self.plot.troubles;
        if does.cuts && self.one_in(150) {
            self.cut(peer);
        }
        if does.rights && self.one_in(200) {
            let rights = Rights::draw(&mut self.chance);
            self.say(|| format!("{} has these rights: {rights:?}", peer.id));
            self.judge.trouble(Duration::ZERO);
            peer.is_given(rights);
        }
        if does.pauses && self.one_in(400) {
            let time = self.millis(8_000);
            self.say(|| format!("{} is paused for {time:?}", peer.id));
            self.judge.trouble(time);
            peer.gate.close_for(time);
        }
        if does.deaths && self.one_in(800) {
            self.say(|| format!("{} dies", peer.id));
            self.judge.trouble(Duration::ZERO);
            self.judge.dies(&peer.id, &peer.gate);
            peer.dies();
        }
    }

    fn cut(&mut self, peer: &Peer) {
        let how = [Cut::Whole, Cut::Replies, Cut::Silence][self.chance.usize(..3)];
        self.say(|| format!("{} loses its connections: {how:?}", peer.id));
        // Silence is noticed when something is asked: who only listens asks each five seconds.
        let unnoticed = if how == Cut::Silence { Duration::from_secs(6) } else { Duration::ZERO };
        self.judge.trouble(unnoticed);
        peer.cut(how);
    }

    /// Nobody can connect for a while, and all connections are lost.
    fn cut_off(&mut self) {
        let (time, server) = (self.millis(2_000), self.site.master());
        let reach = if self.chance.bool() { Reach::Refused } else { Reach::Silent };
        self.say(|| format!("the server cannot be reached for {time:?}: {reach:?}"));
        self.judge.trouble(time);
        server.cut(Cut::Whole, |_| true);
        server.reach(reach);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.reach(Reach::Open);
        });
    }

    fn stop(&mut self) {
        let (time, server) = (self.millis(3_000), self.site.master());
        self.say(|| format!("the server stops for {time:?}"));
        self.judge.trouble(time);
        server.stop();
        self.lasting.spawn(async move {
            sleep(time).await;
            server.resume();
        });
    }

    fn refuse(&mut self) {
        const ALL: [Refusal; 5] =
            [Refusal::Busy, Refusal::Loading, Refusal::Oom, Refusal::ReadOnly, Refusal::Misconf];
        let (time, server) = (self.millis(2_000), self.site.master());
        let refusal = ALL[self.chance.usize(..ALL.len())];
        let per_mille = [50, 300, 1_000][self.chance.usize(..3)];
        self.say(|| format!("{refusal:?} for {time:?}, {per_mille} of a thousand"));
        self.judge.trouble(time);
        server.refuse(refusal, per_mille);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.refuse(refusal, 0);
        });
    }

    fn lose_messages(&mut self) {
        let (time, server) = (self.millis(1_000), self.site.master());
        let per_mille = [200, 1_000][self.chance.usize(..2)];
        self.say(|| format!("messages are lost for {time:?}"));
        self.judge.trouble(time);
        server.lose_messages(per_mille);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.lose_messages(0);
        });
    }

    fn forget(&mut self) {
        self.say(|| "the server forgets everything".into());
        self.judge.doubts_all(Duration::ZERO);
        self.site.master().forget_everything();
    }

    /// The replica takes over. The old master's connections stay for a while.
    fn promote(&mut self) {
        let Some(before) = self.site.promote() else { return };
        let time = self.millis(2_000);
        self.say(|| format!("the replica takes over; connections stay for {time:?}"));
        self.judge.doubts_all(time);
        self.lasting.spawn(async move {
            sleep(time).await;
            let _many: usize = before.cut(Cut::Whole, |_| true);
        });
    }

    /// Ends what lasts.
    pub(super) async fn end(&mut self) {
        while self.lasting.join_next().await.is_some() {}
        self.site.all().iter().for_each(Twin::resume);
    }
}
