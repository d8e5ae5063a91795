//! Several processes of one library that contend for one name.

use std::{collections::HashMap, time::Duration};

use super::{
    Bench,
    contender::Contender,
    log::VisitLog,
    worker::{Answer, Launch, Worker},
};
use crate::{
    clock,
    job::{Contended, Job, Paired},
};

/// The groups of processes by library, or the reason why a library has no group. Groups continue
/// from case to case, and grow.
#[derive(Debug, Default)]
pub(super) struct WorkerGroups(HashMap<&'static str, Answer<WorkerGroup>>);

/// Worker processes that are warmed up.
#[derive(Debug, Default)]
pub(super) struct WorkerGroup(Vec<Worker>);

/// The work of each process of a group.
#[derive(Clone, Debug)]
pub(super) struct ContentionPlan {
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) name: String,
    pub(super) length: Duration,
    pub(super) hold_us: u64,
}

impl Bench {
    /// Lets all processes of `contender` start at the same moment. Returns the visits to the lock,
    /// and the longest wait.
    pub(super) fn contend(
        &mut self,
        contender: Contender,
        plan: &ContentionPlan,
    ) -> Answer<(VisitLog, Duration)> {
        self.group_of(contender, plan.processes)?.contend(plan)
    }

    /// Starts processes of `contender` until there are `processes`, and warms up the new ones.
    pub(super) fn group_of(
        &mut self,
        contender: Contender,
        processes: usize,
    ) -> Answer<&mut WorkerGroup> {
        let group =
            self.groups.0.remove(contender.library).unwrap_or_else(|| Ok(WorkerGroup::default()));
        let warm_up = self.settings.warm_up_of_group(contender.language);
        let group =
            group.and_then(|group| group.grown(&self.launch, contender, processes, warm_up));
        let group = self.groups.0.entry(contender.library).or_insert(group);
        group.as_mut().map_err(|why| why.clone())
    }
}

impl WorkerGroup {
    /// Starts processes until there are `processes`, and warms up the new ones.
    fn grown(
        mut self,
        launch: &Launch,
        contender: Contender,
        processes: usize,
        warm_up: Duration,
    ) -> Answer<Self> {
        let known = self.0.len();
        let launch = Launch { heap: "-Xmx96m", ..launch.clone() };
        // All processes start before the first one is awaited.
        let started: Answer<Vec<_>> = (known..processes).map(|_| launch.start(contender)).collect();
        let ready: Answer<Vec<_>> = started?.into_iter().map(Worker::ready).collect();
        self.0.extend(ready?);
        warm(&mut self.0[known..], warm_up)?;
        Ok(self)
    }

    fn contend(&mut self, plan: &ContentionPlan) -> Answer<(VisitLog, Duration)> {
        let start_ns = clock::monotonic_ns() + HEAD_START.as_nanos() as u64;
        let (tasks, name, hold_us) = (plan.tasks, plan.name.clone(), plan.hold_us);
        let millis = plan.length.as_millis() as u64;
        let job = Job::Contend { tasks, name, start_ns, millis, hold_us, log: true };
        let workers = &mut self.0[..plan.processes];
        workers.iter_mut().try_for_each(|worker| worker.send(&job))?;
        let found: Answer<Vec<Contended>> = workers.iter().map(|it| it.answer()).collect();
        let found = found?;
        let longest = found.iter().map(|it| it.longest_wait_ns).max().unwrap_or(0);
        let logs: Vec<_> = found.into_iter().map(|it| it.log).collect();
        Ok((VisitLog::of(&logs), Duration::from_nanos(longest)))
    }
}

fn warm(workers: &mut [Worker], length: Duration) -> Answer<()> {
    for (number, worker) in workers.iter_mut().enumerate() {
        let (prefix, millis) = (format!("warm-{number}"), length.as_millis() as u64);
        worker.send(&Job::Pairs { tasks: 4, names: 4, prefix, millis, all: false })?;
    }
    workers.iter().try_for_each(|worker| worker.answer::<Paired>().map(drop))
}

/// The time from sending the jobs until the common start. In this time, every process reads its
/// job.
const HEAD_START: Duration = Duration::from_millis(50);
