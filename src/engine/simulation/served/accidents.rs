//! What happens to the machine and the process of a client.

use std::{sync::Arc, time::Duration};

use super::{peer::Peer, troubles::Troubles};
use crate::{Client, engine::simulation::story::name};

/// How long a client is without a runtime at most.
const WITHOUT_RUNTIME: Duration = Duration::from_millis(300);

/// How long the server may take for a request that it has.
const SLOW: Duration = Duration::from_secs(5);

impl Troubles {
    /// Suspends the machine of a client, ends its runtime, or shuts it down, now and then.
    pub(super) fn of_a_process(&mut self, peer: &Arc<Peer>) {
        let does = self.plot.troubles;
        if does.suspensions && self.one_in(500) {
            self.suspend(peer);
        }
        if does.runtimes && self.one_in(400) && peer.process.may_lose_its_runtime() {
            self.end_runtime(peer);
        }
        if does.shutdowns && self.one_in(800) && !peer.process.is_shut() {
            self.shut_down(peer);
        }
        if does.forcing && self.one_in(800) {
            self.force(peer);
        }
    }

    /// Its clock goes on; no other clock does.
    fn suspend(&mut self, peer: &Peer) {
        let time = self.millis(10_000);
        self.say(|| format!("{} has slept for {time:?}", peer.id));
        self.judge.sleeps(&peer.gate, time, || peer.process.sleeps(time));
    }

    /// Its tasks end where they are. Others begin to work for it on the next runtime.
    fn end_runtime(&mut self, peer: &Arc<Peer>) {
        self.say(|| format!("{} loses its runtime", peer.id));
        self.judge.trouble(WITHOUT_RUNTIME);
        peer.process.loses_its_runtime();
        peer.ends_its_tasks();
        self.without_runtime.push(Arc::clone(peer));
    }

    fn shut_down(&mut self, peer: &Arc<Peer>) {
        let patience = if self.chance.bool() { Duration::ZERO } else { self.millis(2_000) };
        self.say(|| format!("{} is shut down within {patience:?}", peer.id));
        peer.process.shuts();
        let (ending, judge, story) =
            (Arc::clone(peer), Arc::clone(&self.judge), Arc::clone(&self.story));
        let task = self.lasting.spawn(async move {
            let done = ending.gate.pass(ending.engine.shut_down(patience)).await;
            story.say(|| format!("{} is shut: {done:?}", ending.id));
            judge.is_shut(&ending.gate);
        });
        peer.owns(task);
    }

    /// Somebody frees a lock that others hold.
    fn force(&mut self, peer: &Arc<Peer>) {
        let name = name(self.chance.u32(..self.plot.names));
        self.say(|| format!("{} frees {name} by force", peer.id));
        let lock = Client::of(Arc::clone(&peer.engine)).lock(&name).unwrap();
        let (gate, judge) = (peer.gate.clone(), Arc::clone(&self.judge));
        let doubts = async move {
            loop {
                judge.doubts(&name, SLOW);
                tokio::time::sleep(SLOW / 5).await;
            }
        };
        // The client may be without a connection for long before it can ask.
        let task = async move {
            tokio::select! {
                biased;
                () = doubts => {},
                _ = gate.pass(lock.force_release()) => {},
            }
        };
        peer.owns(self.lasting.spawn(task));
    }
}
