//! One round of acquiring and releasing, and its cost for the server. A pair is an acquisition and
//! its release.

use super::Bench;
use crate::{
    driver::{contender::Contender, server, worker::Answer},
    job::{Job, Paired},
};

pub(super) struct Round {
    paired: Paired,
    server_cpu_seconds: f64,
    commands: u64,
}

impl Round {
    /// Sends this job to the worker of `contender`. A new worker first warms up. The figures do not
    /// include the warm-up.
    pub(super) fn run(bench: &mut Bench, contender: Contender, job: &Job) -> Answer<Self> {
        bench.worker(contender)?;
        let (cpu, commands) = (server::cpu_seconds(&bench.redis), server::commands(&bench.redis));
        let paired = bench.ask(contender, job)?;
        let commands = server::commands(&bench.redis) - commands;
        let server_cpu_seconds = server::cpu_seconds(&bench.redis) - cpu;
        Ok(Self { paired, server_cpu_seconds, commands })
    }

    /// With one task, the median time of a pair in µs. With more tasks, the number of pairs in a
    /// second.
    pub(super) fn speed(&self, tasks: usize) -> f64 {
        match tasks {
            1 => self.paired.p50_ns as f64 / 1e3,
            _ => self.pairs() / (self.paired.wall_ns as f64 / 1e9),
        }
    }

    /// The processor time of the client for a pair, in µs.
    pub(super) fn client_cpu(&self) -> f64 {
        self.paired.cpu_ns as f64 / 1e3 / self.pairs()
    }

    /// The processor time of the server for a pair, in µs.
    pub(super) fn server_cpu(&self) -> f64 {
        self.server_cpu_seconds * 1e6 / self.pairs()
    }

    /// The number of commands for a pair, including those that scripts call.
    pub(super) fn commands(&self) -> f64 {
        self.commands as f64 / self.pairs()
    }

    fn pairs(&self) -> f64 {
        self.paired.pairs as f64
    }
}

/// The text `1 task` or `n tasks`.
pub(super) fn count(tasks: usize) -> String {
    format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" })
}
