//! Faults of the server, the connections and the clients.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use leasehold_twin::{Cut, Reach, Refusal, Twin};
use tokio::{task::JoinSet, time::sleep};

use super::{judge::Judge, peer::Peer, permissions::Permissions, scenario::Scenario, site::Site};
use crate::engine::simulation::trace::Trace;

/// Starts the faults of a run.
pub(super) struct FaultInjector {
    pub(super) site: Site,
    pub(super) judge: Arc<Judge>,
    pub(super) trace: Arc<Trace>,
    pub(super) scenario: Scenario,
    pub(super) chance: Rng,
    /// Faults that end by themselves.
    pub(super) lasting: JoinSet<()>,
    /// Clients whose runtime has ended, with the tasks on it.
    pub(super) without_runtime: Vec<Arc<Peer>>,
}

impl FaultInjector {
    pub(super) fn log(&self, what: impl FnOnce() -> String) {
        self.trace.log(what);
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(..n) == 0
    }

    pub(super) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.chance.u64(1..=most))
    }

    /// Starts faults at random times.
    pub(super) fn check(&mut self, peers: &[Arc<Peer>]) {
        let does = self.scenario.faults;
        let peer = &peers[self.chance.usize(..peers.len())];
        if !peer.is_dead() {
            self.fault_of_process(peer);
            self.fault_of_client(peer);
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
            self.log(|| "scripts are flushed".into());
            self.site.master().flush_scripts();
        }
        if does.forgetting && self.one_in(1_500) {
            self.forget();
        }
        if does.promotion && self.one_in(1_000) {
            self.promote();
        }
    }

    fn fault_of_client(&mut self, peer: &Arc<Peer>) {
        let does = self.scenario.faults;
        if does.cuts && self.one_in(150) {
            self.cut(peer);
        }
        if does.permissions && self.one_in(200) {
            let permissions = Permissions::draw(&mut self.chance);
            self.log(|| format!("{} has these permissions: {permissions:?}", peer.id));
            self.judge.fault(Duration::ZERO);
            peer.is_given(permissions);
        }
        if does.pauses && self.one_in(400) {
            let time = self.millis(8_000);
            self.log(|| format!("{} is paused for {time:?}", peer.id));
            self.judge.fault(time);
            peer.gate.close_for(time);
        }
        if does.deaths && self.one_in(800) {
            self.log(|| format!("{} dies", peer.id));
            self.judge.fault(Duration::ZERO);
            self.judge.dies(&peer.id, &peer.gate);
            peer.dies();
        }
    }

    fn cut(&mut self, peer: &Peer) {
        let how = [Cut::Whole, Cut::Replies, Cut::Silence][self.chance.usize(..3)];
        self.log(|| format!("{} loses its connections: {how:?}", peer.id));
        // A client notices a silent server only by a request without a reply. On a subscribed
        // connection, the client sends a request after five seconds without a message.
        let unnoticed = if how == Cut::Silence { Duration::from_secs(6) } else { Duration::ZERO };
        self.judge.fault(unnoticed);
        peer.cut(how);
    }

    /// Cuts all connections, and lets no new connection succeed for a while.
    fn cut_off(&mut self) {
        let (time, server) = (self.millis(2_000), self.site.master());
        let reach = if self.chance.bool() { Reach::Refused } else { Reach::Silent };
        self.log(|| format!("the server is unreachable for {time:?}: {reach:?}"));
        self.judge.fault(time);
        server.cut(Cut::Whole, |_| true);
        server.reach(reach);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.reach(Reach::Open);
        });
    }

    fn stop(&mut self) {
        let (time, server) = (self.millis(3_000), self.site.master());
        self.log(|| format!("the server stops for {time:?}"));
        self.judge.fault(time);
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
        self.log(|| format!("{refusal:?} for {time:?}, {per_mille} of a thousand"));
        self.judge.fault(time);
        server.refuse(refusal, per_mille);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.refuse(refusal, 0);
        });
    }

    fn lose_messages(&mut self) {
        let (time, server) = (self.millis(1_000), self.site.master());
        let per_mille = [200, 1_000][self.chance.usize(..2)];
        self.log(|| format!("messages are lost for {time:?}"));
        self.judge.fault(time);
        server.lose_messages(per_mille);
        self.lasting.spawn(async move {
            sleep(time).await;
            server.lose_messages(0);
        });
    }

    fn forget(&mut self) {
        self.log(|| "the server forgets everything".into());
        self.judge.doubts_all(Duration::ZERO);
        self.site.master().forget_everything();
    }

    /// Promotes the replica. Connections to the old primary stay open for a while.
    fn promote(&mut self) {
        let Some(before) = self.site.promote() else { return };
        let time = self.millis(2_000);
        self.log(|| format!("the replica takes over; connections stay for {time:?}"));
        self.judge.doubts_all(time);
        self.lasting.spawn(async move {
            sleep(time).await;
            let _many: usize = before.cut(Cut::Whole, |_| true);
        });
    }

    /// Waits until the lasting faults are over, and resumes the servers that are still stopped.
    pub(super) async fn end(&mut self) {
        while self.lasting.join_next().await.is_some() {}
        self.site.all().iter().for_each(Twin::resume);
    }
}
