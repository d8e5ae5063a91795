//! One run: workers contend while one fault follows another. After each fault, all workers must
//! recover.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use leasehold::blocking::Client;

use crate::clock::{Nanos, nanos, now, since};
use crate::crew::{Crew, Plan};
use crate::fault::{Fault, HealedFault};
use crate::orders::{Kind, Mode, Object};
use crate::plot::Plot;
use crate::record::{Hold, Record};
use crate::referee::{Verdict, Violation, closed_again, judge, overtaking};
use crate::report::{Recovery, Report};
use crate::site::{Site, start};
use crate::worker::{Shared, look};
use crate::{drain, history, leftovers};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the run injects faults.
    pub time: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// The deployment: `single`, `sentinel` or `cluster`.
    pub on: String,
    /// Whether one worker sometimes acts as a holder without a request, to test the referee.
    pub disobeys: bool,
    /// The folder of the history and the report.
    pub folder: PathBuf,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The table, and other counts.
    pub report: String,
    /// The violations, each as a sentence.
    pub violations: Vec<String>,
    /// The file that the judge reads.
    pub history: PathBuf,
}

/// Executes a run.
///
/// # Panics
///
/// If the deployment does not start or does not recover.
#[must_use]
pub fn run(settings: &Settings) -> Outcome {
    let mut run = Run::begin(settings);
    let end = now() + nanos(settings.time);
    while now() < end {
        run.next_fault();
    }
    run.end(settings)
}

struct Run {
    site: Box<dyn Site>,
    crew: Crew,
    record: Shared,
    /// All objects for which workers have contended.
    objects: Vec<Object>,
    /// The current names of semaphores and latches, by their original names.
    renewed: BTreeMap<String, Object>,
    plot: Plot,
    recoveries: Vec<Recovery>,
    violations: Vec<Violation>,
    client: Client,
}

impl Run {
    fn begin(settings: &Settings) -> Self {
        fs::create_dir_all(&settings.folder).expect("the folder can be made");
        let site = start(&settings.on);
        let objects = site.objects();
        let client = Client::connect(&site.url()).expect("the servers are up");
        let record = Shared::default();
        let plan = Plan {
            url: site.url(),
            apart: site.apart(),
            folder: settings.folder.clone(),
            objects: objects.clone(),
            ttl: TTL,
            seed: settings.seed,
            disobeys: settings.disobeys,
        };
        let renewed = objects.iter().filter(|it| matches!(it.kind, Kind::Semaphore | Kind::Latch));
        let renewed = renewed.map(|it| (it.name.clone(), it.clone())).collect();
        objects.iter().for_each(|it| fill(&client, it));
        let crew = Crew::start(plan, &record);
        let faults = [site.faults(), &[Fault::WorkerKilled, Fault::WorkerStopped]].concat();
        let plot = Plot::new(&faults, settings.seed);
        let (recoveries, violations) = Default::default();
        let run =
            Self { site, crew, record, objects, renewed, plot, recoveries, violations, client };
        run.open_latches();
        run
    }

    fn next_fault(&mut self) {
        let (fault, mut rng) = self.plot.next_fault();
        eprintln!("chaos: {fault}");
        self.renew(Kind::Latch);
        let healed_fault = match fault {
            Fault::WorkerKilled | Fault::WorkerStopped => self.crew.strike(fault, &mut rng),
            _ => self.site.strike(fault, &mut rng),
        };
        // A semaphore never gets back the permits of a dead process. The same is true for the
        // permits of a request whose reply a failover has lost. So all workers get a new semaphore.
        self.renew(Kind::Semaphore);
        self.open_latches();
        let recovery = self.recover(&healed_fault);
        look(&self.record).faults.push(healed_fault);
        self.recoveries.push(recovery);
        sleep(Duration::from_millis(rng.u64(100..800)));
    }

    /// Replaces each object of this kind by a new one, for all workers.
    fn renew(&mut self, kind: Kind) {
        let number = self.recoveries.len();
        for (name, object) in self.renewed.iter_mut().filter(|(_, it)| it.kind == kind) {
            *object = object.called(&format!("{name}-{number}"));
            fill(&self.client, object);
            self.crew.rename(name, &object.name);
            self.objects.push(object.clone());
        }
    }

    fn open_latches(&self) {
        for Object { name, .. } in self.renewed.values().filter(|it| it.kind == Kind::Latch) {
            look(&self.record).opened.insert(name.clone(), now());
            let opened = self.client.latch(name).and_then(|it| it.count_down());
            opened.expect("the servers reply");
        }
    }

    /// Waits until each process has had a grant, and each object has been granted.
    fn recover(&mut self, healed_fault: &HealedFault) -> Recovery {
        let processes = self.crew.processes();
        let names: Vec<_> = self.names().collect();
        let limit = healed_fault.healed + nanos(PATIENCE);
        // The first worker still reaches the old master for a while, so its grants do not prove
        // that the new master works.
        let served = &processes[usize::from(healed_fault.fault == Fault::MasterAndWorkerCutOff)..];
        loop {
            let record = look(&self.record);
            let entries = Entries::since(&record, healed_fault);
            let missing = entries.missing(&processes, &names);
            if missing.is_empty() {
                let first = first_grant(&record, healed_fault, served);
                return Recovery {
                    first,
                    everybody: entries.last().map(|at| since(healed_fault.healed, at)),
                };
            }
            if now() > limit {
                let first = first_grant(&record, healed_fault, served);
                let what =
                    format!("no progress {PATIENCE:?} after the heal: {}", missing.join(", "));
                self.violations.push(Violation { at: healed_fault.healed, what });
                return Recovery { first, everybody: None };
            }
            drop(record);
            sleep(PAUSE);
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let firsts = self.site.objects().into_iter();
        firsts.map(|it| self.renewed.get(&it.name).map_or(it.name, |now| now.name.clone()))
    }

    fn end(self, settings: &Settings) -> Outcome {
        let Self { site, crew, record, objects, renewed, .. } = self;
        let Self { recoveries, mut violations, client, .. } = self;
        let gone = crew.dismiss();
        let semaphores = renewed.into_values().filter(|it| it.kind == Kind::Semaphore);
        let current: Vec<_> = semaphores.collect();
        let undone = drain::drain(&client, &objects, &record, TTL);
        let unclear = drain::clear_fair_queues(&client, &objects);
        let closed_again = closed_again(&look(&record));
        let stayed = leftovers::look(&*site, &client, (&objects, &closed_again), TTL);
        let lacking = leftovers::lacking(&*site, &current);
        let at = now();
        let last = [gone, undone, unclear, stayed, lacking].concat().into_iter();
        violations.extend(last.map(|what| Violation { at, what }));
        let record = look(&record);
        violations.extend(record.nonsense.iter().map(|it| Violation { at, what: it.clone() }));
        let mut verdict = judge(&record, &objects, TTL);
        verdict.violations.extend(violations);
        let history = settings.file("jsonl");
        history::write(&history, (settings.seed, &settings.on), (&record, &objects), TTL)
            .expect("the history can be written");
        let report = report_text((&record, &objects), &recoveries, &verdict);
        fs::write(settings.file("md"), &report).expect("the report can be written");
        let violations = verdict.violations.into_iter().map(|it| it.what).collect();
        Outcome { report, violations, history }
    }
}

impl Settings {
    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}-{}.{ending}", self.on, self.seed))
    }
}

/// The first grant after a fault, for each worker and for each object.
struct Entries<'a> {
    first: BTreeMap<&'a str, Nanos>,
}

impl<'a> Entries<'a> {
    /// The first grants since `healed_fault` was healed. A latch whose data was lost is open, so
    /// workers may have passed it before the fault was healed. Such a worker does not pass the
    /// latch again, so its earlier pass counts, too.
    fn since(record: &'a Record, healed_fault: &HealedFault) -> Self {
        let mut first = BTreeMap::new();
        for (at, hold) in record.entered_since(healed_fault.from) {
            let (passes, had) = (hold.mode == Mode::Pass, at.max(healed_fault.healed));
            if passes || at > healed_fault.healed {
                first.entry(hold.name.as_str()).or_insert(had);
            }
            if !passes && at > healed_fault.healed {
                first.entry(hold.process.as_str()).or_insert(at);
            }
        }
        Self { first }
    }

    /// The workers without a grant, and the objects that were not granted.
    fn missing(&self, processes: &[String], names: &[String]) -> Vec<String> {
        let all = processes.iter().chain(names);
        all.filter(|it| !self.first.contains_key(it.as_str())).cloned().collect()
    }

    /// The latest of all first grants.
    fn last(&self) -> Option<Nanos> {
        self.first.values().max().copied()
    }
}

/// The time from the moment when servers could serve again until the first grant to one of the
/// workers `served`. Only objects that the fault affected count.
fn first_grant(record: &Record, healed_fault: &HealedFault, served: &[String]) -> Option<Duration> {
    let is_it =
        |name: &String| healed_fault.names.as_ref().is_none_or(|names| names.contains(name));
    let entered = record.entered_since(healed_fault.served);
    let is_grant = |hold: &Hold| hold.mode != Mode::Pass && served.contains(&hold.process);
    let mut entered = entered.iter().filter(|(_, hold)| is_grant(hold));
    let first = entered.find(|(_, hold)| is_it(&hold.name))?;
    Some(since(healed_fault.served, first.0))
}

/// Sets the number of permits, or closes the latch.
fn fill(client: &Client, object: &Object) {
    let set = match object.kind {
        Kind::Semaphore => {
            client.semaphore(&object.name).and_then(|it| it.set_if_absent(object.permits))
        }
        Kind::Permits => {
            client.expirable_semaphore(&object.name).and_then(|it| it.set_if_absent(object.permits))
        }
        Kind::Latch => client.latch(&object.name).and_then(|it| it.set(1)),
        Kind::Lock
        | Kind::Fenced
        | Kind::ReadWrite
        | Kind::Fair
        | Kind::Multi
        | Kind::Election
        | Kind::Queue => return,
    };
    set.expect("the servers reply");
}

fn report_text(
    (record, objects): (&Record, &[Object]),
    recoveries: &[Recovery],
    verdict: &Verdict,
) -> String {
    let faults: Vec<_> = record.faults.iter().cloned().zip(recoveries.iter().copied()).collect();
    let mut text = Report::new(&faults, verdict).to_string();
    let entered = |language: &str| {
        let of = record.holds.values().filter(|it| it.process.starts_with(language));
        of.filter(|it| it.entered.is_some()).count()
    };
    let refused = record.writes.iter().filter(|it| !it.accepted).count();
    let processes: BTreeSet<_> = record.holds.values().map(|it| &it.process).collect();
    writeln!(
        text,
        "\n{} holds of {} processes: {} of Leasehold, {} of Redisson. {} writes behind the fence, {refused} of them late and refused.",
        record.entered(),
        processes.len(),
        entered("rust"),
        entered("java"),
        record.writes.len(),
    )
    .expect("writing to a string cannot fail");
    let done = record.holds.values().filter(|it| it.done).count();
    let (fair, overtaken) = overtaking(record, objects);
    writeln!(
        text,
        "{} elements pushed, {done} done. {overtaken} of {fair} grants of fair locks overtook an older request.",
        record.pushed.len(),
    )
    .expect("writing to a string cannot fail");
    writeln!(text, "Questions without a hold: {:?}.", record.refusals)
        .expect("writing to a string cannot fail");
    text
}

/// The lease of all objects.
const TTL: Duration = Duration::from_secs(3);
/// The time after the end of a fault in which each worker must have a grant.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker_event::WorkerEvent;

    #[test]
    fn recovery_needs_a_later_grant_or_a_latch_wait_in_the_fault() {
        let mut record = Record::default();
        let asked =
            [("door", Mode::Exclusive, 4), ("latch", Mode::Pass, 4), ("gate", Mode::Exclusive, 6)];
        for (hold, (name, mode, at)) in (1..).zip(asked) {
            record.note("rust-1", WorkerEvent::Ask { hold, name: name.into(), mode, call: 1 });
            record.note("rust-1", WorkerEvent::Enter { hold, at, token: None, element: None });
        }
        let healed_fault = |from| HealedFault {
            fault: Fault::MasterKilled,
            from,
            served: from,
            healed: 5,
            failover: true,
            names: None,
        };
        let names = ["door", "latch", "gate"].map(str::to_owned);
        let missing =
            |from| Entries::since(&record, &healed_fault(from)).missing(&["rust-1".into()], &names);
        assert_eq!(missing(3), ["door"]);
        assert_eq!(missing(4), ["door", "latch"]);
    }
}
