//! Several processes of one library that want one name together.

use std::{collections::HashMap, time::Duration};

use super::{
    Bench,
    contender::Contender,
    log::Story,
    worker::{Answer, Launch, Worker},
};
use crate::{
    clock,
    job::{Contended, Job, Paired},
};

/// The crews that were started so far, by library, or why there is none. They
/// stay from case to case, and grow.
#[derive(Debug, Default)]
pub(super) struct Crews(HashMap<&'static str, Answer<Crew>>);

/// Processes that are ready and warm.
#[derive(Debug, Default)]
pub(super) struct Crew(Vec<Worker>);

/// What each process of a crew does.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) name: String,
    pub(super) length: Duration,
    pub(super) hold_us: u64,
}

impl Bench {
    /// Lets as many processes of `contender` as it takes begin at the same moment.
    /// Returns what happened inside the lock, and the longest wait.
    pub(super) fn contend(
        &mut self,
        contender: Contender,
        stay: &Stay,
    ) -> Answer<(Story, Duration)> {
        self.man(contender, stay.processes)?.contend(stay)
    }

    /// Makes sure that `contender` has that many processes, warmed up.
    pub(super) fn man(&mut self, contender: Contender, processes: usize) -> Answer<&mut Crew> {
        let crew = self.crews.0.remove(contender.library).unwrap_or_else(|| Ok(Crew::default()));
        let warm_up = self.settings.warm_up_of_crew(contender.language);
        let crew = crew.and_then(|crew| crew.grown(&self.launch, contender, processes, warm_up));
        let crew = self.crews.0.entry(contender.library).or_insert(crew);
        crew.as_mut().map_err(|why| why.clone())
    }
}

impl Crew {
    /// With so many processes; those that are new are warmed up.
    fn grown(
        mut self,
        launch: &Launch,
        contender: Contender,
        processes: usize,
        warm_up: Duration,
    ) -> Answer<Self> {
        let known = self.0.len();
        let launch = Launch { heap: "-Xmx96m", ..launch.clone() };
        // All are started before the first is waited for.
        let started: Answer<Vec<_>> = (known..processes).map(|_| launch.start(contender)).collect();
        let ready: Answer<Vec<_>> = started?.into_iter().map(Worker::ready).collect();
        self.0.extend(ready?);
        warm(&mut self.0[known..], warm_up)?;
        Ok(self)
    }

    fn contend(&mut self, stay: &Stay) -> Answer<(Story, Duration)> {
        let start_ns = clock::monotonic_ns() + HEAD_START.as_nanos() as u64;
        let (tasks, name, hold_us) = (stay.tasks, stay.name.clone(), stay.hold_us);
        let millis = stay.length.as_millis() as u64;
        let job = Job::Contend { tasks, name, start_ns, millis, hold_us, log: true };
        let workers = &mut self.0[..stay.processes];
        workers.iter_mut().try_for_each(|worker| worker.send(&job))?;
        let found: Answer<Vec<Contended>> = workers.iter().map(|it| it.answer()).collect();
        let found = found?;
        let longest = found.iter().map(|it| it.longest_wait_ns).max().unwrap_or(0);
        let logs: Vec<_> = found.into_iter().map(|it| it.log).collect();
        Ok((Story::of(&logs), Duration::from_nanos(longest)))
    }
}

fn warm(workers: &mut [Worker], length: Duration) -> Answer<()> {
    for (number, worker) in workers.iter_mut().enumerate() {
        let (prefix, millis) = (format!("warm-{number}"), length.as_millis() as u64);
        worker.send(&Job::Pairs { tasks: 4, names: 4, prefix, millis, all: false })?;
    }
    workers.iter().try_for_each(|worker| worker.answer::<Paired>().map(drop))
}

/// Time for every process to read its line.
const HEAD_START: Duration = Duration::from_millis(50);
