//! The workers, which continue from case to case. Each library has one worker.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

use super::{
    Bench,
    contender::Contender,
    worker::{Answer, Worker},
};
use crate::job::{Job, Paired};

/// The workers by library, or the reason why a library has no worker.
#[derive(Debug, Default)]
pub(super) struct Fleet(HashMap<&'static str, Answer<Worker>>);

impl Bench {
    /// Sends a job to the worker of `contender`. If there is no worker yet, first starts one and
    /// warms it up.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        contender: Contender,
        job: &Job,
    ) -> Answer<T> {
        self.worker(contender)?.ask(job)
    }

    pub(super) fn worker(&mut self, contender: Contender) -> Answer<&mut Worker> {
        if !self.fleet.0.contains_key(contender.library) {
            let started = self.launch.start(contender).and_then(Worker::ready);
            let warm = started.and_then(|worker| self.warm_up(contender, worker));
            self.fleet.0.insert(contender.library, warm);
        }
        let worker =
            self.fleet.0.get_mut(contender.library).expect("the worker was inserted above");
        worker.as_mut().map_err(|why| why.clone())
    }

    fn warm_up(&self, contender: Contender, mut worker: Worker) -> Answer<Worker> {
        let millis = self.settings.warm_up(contender.language).as_millis() as u64;
        let prefix = "warm".to_owned();
        worker.ask::<Paired>(&Job::Pairs { tasks: 16, names: 16, prefix, millis, all: false })?;
        Ok(worker)
    }

    pub(super) fn dismiss(&mut self, contenders: &[Contender]) {
        for contender in contenders {
            self.fleet.0.remove(contender.library);
        }
    }

    /// Measures all contenders, one after the other, `rounds` times. So a disturbance of the
    /// machine affects all contenders alike.
    ///
    /// Each round starts with another contender, and every second round has the reverse order. With
    /// a fixed order, a contender would always run while the same other contender completes its
    /// last work.
    pub(super) fn in_turn(
        &mut self,
        rounds: usize,
        contenders: &[Contender],
        mut turn: impl FnMut(&mut Self, Contender),
    ) {
        for round in 0..rounds {
            for contender in in_order(contenders, round) {
                turn(self, contender);
            }
        }
    }
}

/// The contenders in their order for this round.
fn in_order(contenders: &[Contender], round: usize) -> Vec<Contender> {
    let mut order = contenders.to_vec();
    order.rotate_left(round % contenders.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
