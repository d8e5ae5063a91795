//! Faults of the machine and the process of a client.

use std::{sync::Arc, time::Duration};

use super::{faults::FaultInjector, peer::Peer};
use crate::{Client, engine::simulation::trace::name};

/// The longest time for which a client has no runtime.
const WITHOUT_RUNTIME: Duration = Duration::from_millis(300);

/// The longest time that the server takes for a request.
const SLOW: Duration = Duration::from_secs(5);

impl FaultInjector {
    /// At random, suspends a machine, ends a runtime, shuts a client down, or forces a release.
    pub(super) fn fault_of_process(&mut self, peer: &Arc<Peer>) {
        let does = self.scenario.faults;
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

    /// Suspends the machine of a client: only the clock of this machine jumps.
    fn suspend(&mut self, peer: &Peer) {
        let time = self.millis(10_000);
        self.log(|| format!("{} has slept for {time:?}", peer.id));
        self.judge.sleeps(&peer.gate, time, || peer.process.sleeps(time));
    }

    /// Ends the runtime of a client: its tasks are aborted. On its next runtime, the client gets
    /// new tasks.
    fn end_runtime(&mut self, peer: &Arc<Peer>) {
        self.log(|| format!("{} loses its runtime", peer.id));
        self.judge.fault(WITHOUT_RUNTIME);
        peer.process.loses_its_runtime();
        peer.ends_its_tasks();
        self.without_runtime.push(Arc::clone(peer));
    }

    fn shut_down(&mut self, peer: &Arc<Peer>) {
        let timeout = if self.chance.bool() { Duration::ZERO } else { self.millis(2_000) };
        self.log(|| format!("{} is shut down within {timeout:?}", peer.id));
        peer.process.shuts();
        let (ending, judge, trace) =
            (Arc::clone(peer), Arc::clone(&self.judge), Arc::clone(&self.trace));
        let task = self.lasting.spawn(async move {
            let done = ending.gate.pass(ending.engine.shut_down(timeout)).await;
            trace.log(|| format!("{} is shut: {done:?}", ending.id));
            judge.is_shut(&ending.gate);
        });
        peer.owns(task);
    }

    /// Releases a lock by force.
    fn force(&mut self, peer: &Arc<Peer>) {
        let name = name(self.chance.u32(..self.scenario.names));
        self.log(|| format!("{} frees {name} by force", peer.id));
        let lock = Client::of(Arc::clone(&peer.engine)).lock(&name).unwrap();
        let (gate, judge) = (peer.gate.clone(), Arc::clone(&self.judge));
        let doubts = async move {
            loop {
                judge.doubts(&name, SLOW);
                tokio::time::sleep(SLOW / 5).await;
            }
        };
        // The client may send this request late, because it may have no connection for long. So the
        // judge doubts the holder until the request has ended.
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
