//! One round of pairs, and the work of the server for it.

use super::Bench;
use crate::{
    driver::{contender::Contender, server, worker::Answer},
    job::{Job, Paired},
};

/// The pairs of a round.
pub(super) struct Round {
    paired: Paired,
    server_cpu_seconds: f64,
    commands: u64,
}

impl Round {
    /// Sends this job to the worker of `contender`. The first job of a worker warms it up before,
    /// and that time is not counted.
    pub(super) fn run(bench: &mut Bench, contender: Contender, job: &Job) -> Answer<Self> {
        bench.worker(contender)?;
        let (cpu, commands) = (server::cpu_seconds(&bench.redis), server::commands(&bench.redis));
        let paired = bench.ask(contender, job)?;
        let commands = server::commands(&bench.redis) - commands;
        let server_cpu_seconds = server::cpu_seconds(&bench.redis) - cpu;
        Ok(Self { paired, server_cpu_seconds, commands })
    }

    /// The median of a pair in µs with one task, and pairs in a second with more.
    pub(super) fn speed(&self, tasks: usize) -> f64 {
        match tasks {
            1 => self.paired.p50_ns as f64 / 1e3,
            _ => self.pairs() / (self.paired.wall_ns as f64 / 1e9),
        }
    }

    /// µs for a pair.
    pub(super) fn client_cpu(&self) -> f64 {
        self.paired.cpu_ns as f64 / 1e3 / self.pairs()
    }

    /// µs for a pair.
    pub(super) fn server_cpu(&self) -> f64 {
        self.server_cpu_seconds * 1e6 / self.pairs()
    }

    /// The commands of a pair, including those in scripts.
    pub(super) fn commands(&self) -> f64 {
        self.commands as f64 / self.pairs()
    }

    fn pairs(&self) -> f64 {
        self.paired.pairs as f64
    }
}

/// `1 task` or `n tasks`.
pub(super) fn count(tasks: usize) -> String {
    format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" })
}
