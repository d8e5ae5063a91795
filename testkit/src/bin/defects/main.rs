//! Plants one defect after the other in copies of the sources, and shows that
//! the tests find each of them.
//!
//! The defects are data: see [`list`]. Each is built by itself, since an edit may
//! stand anywhere in a program; what makes it quick is that only the program of
//! the tests is built, incrementally and without debug information, on dependencies
//! that `make tests` has built before; that two copies are built at once, since most
//! of a build is the work of one core; and that the next defect is built while the
//! last ones are searched for. Meanwhile the tests run with nothing planted, too.
//!
//! A defect that cannot be planted, does not build or fails in an unknown way is
//! an error, and so is a copy whose tests fail with nothing planted. The sources
//! themselves are read once and never written, so that an interruption is safe.
//!
//! An argument chooses the defects that have it in their words.

mod copy;
mod libraries;
mod list;
mod search;
mod store;

use std::collections::VecDeque;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use copy::{Bed, Copy};
use list::{DEFECTS, ELSEWHERE};
use search::{Found, Program, SEEDS, SOUND_SEEDS};
use store::SERVED;

/// A mistake that somebody could make.
struct Defect {
    says: &'static str,
    edits: &'static [Edit],
}

/// One place of a defect: a text that stands there once, and what stands there
/// instead.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// The test that has to find a defect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finder {
    /// The simulation of a world, by its name, within [`search::SEEDS`] seeds.
    Simulation(&'static str),
    /// A test in the library, by its whole path.
    Unit(&'static str),
}

/// A defect with its number in the list.
#[derive(Clone, Copy)]
struct Case {
    number: usize,
    finder: Finder,
    defect: &'static Defect,
}

/// What came of a defect; an error says why nobody knows.
type Outcome = Result<Option<Found>, String>;

fn main() -> ExitCode {
    match plant_all(&chosen(env::args().nth(1).as_deref())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("defects: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Every defect, or those whose words contain `part`.
fn chosen(part: Option<&str>) -> Vec<Case> {
    let simulated = DEFECTS.iter().map(|defect| (Finder::Simulation("run_served"), defect));
    let served = SERVED.iter().map(|defect| (Finder::Simulation("run_served"), defect));
    let simulated = simulated.chain(served);
    let all = simulated.chain(ELSEWHERE.iter().map(|(finder, defect)| (*finder, defect)));
    let all = all.zip(1..).map(|((finder, defect), number)| Case { number, finder, defect });
    all.filter(|case| part.is_none_or(|part| case.defect.says.contains(part))).collect()
}

/// Returns whether every defect was planted and found.
fn plant_all(cases: &[Case]) -> Result<bool, String> {
    if cases.is_empty() {
        return Err("no such defect".into());
    }
    let bed = Bed::in_project(root())?;
    let copies = copies(&bed)?;
    for case in cases {
        copies[0].check(case.defect)?;
    }
    let started = clock();
    println!("| # | defect | found by | after | time |");
    println!("|---|---|---|---|---|");
    let missed = plant_in(&copies, cases)?;
    let (planted, took) = (cases.len(), seconds(started));
    println!("\n{planted} defects planted, {} found, in {took}", planted - missed.len());
    for case in &missed {
        println!("not found: {} | {}", case.number, case.defect.says);
    }
    Ok(missed.is_empty())
}

/// Two copies. The first is built where the dependencies are, the second has its own.
fn copies(bed: &Bed) -> Result<[Copy; 2], String> {
    let (first, second) = (target()?, bed.at("target"));
    libraries::take(&first, &second).map_err(|error| format!("{}: {error}", second.display()))?;
    let copy = |name, target| Copy::of(root(), bed.at(name), target);
    Ok([copy("first", first)?, copy("second", second)?])
}

/// Where this program was built, and the dependencies of the project with it.
fn target() -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let target = program.ancestors().nth(2).ok_or("this program lies in no folder")?;
    Ok(target.to_owned())
}

/// Plants each case in that of the copies which is free. Returns those that were not found.
fn plant_in([first, second]: &[Copy; 2], cases: &[Case]) -> Result<Vec<Case>, String> {
    let left = Mutex::new(cases.iter().copied().collect());
    thread::scope(|scope| {
        let beside = scope.spawn(|| plant_each(second, &left));
        // Before anything is planted there.
        let sound = Sound::build(first, cases);
        if sound.is_err() {
            left.lock().expect("nobody panics while taking one").clear();
        }
        let sound = scope.spawn(|| sound?.find_nothing());
        let mut missed = plant_each(first, &left);
        missed.extend(beside.join().expect("a search never panics"));
        sound.join().expect("a search never panics")?;
        missed.sort_by_key(|case| case.number);
        Ok(missed)
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the project")
}

/// The tests that are to find defects, built with nothing planted, and which they are.
struct Sound(Vec<(Program, Vec<Finder>)>);

impl Sound {
    fn build(copy: &Copy, cases: &[Case]) -> Result<Self, String> {
        let is_told = |finder: &Finder| matches!(finder, Finder::Simulation(_));
        let (told, named): (Vec<_>, Vec<_>) = finders(cases).into_iter().partition(is_told);
        let alike = [("sound-stories", told), ("sound-tests", named)];
        let some = alike.into_iter().filter(|(_, finders)| !finders.is_empty());
        let built = some.map(|(name, finders)| {
            let program = Program::build(copy, finders[0], name)?;
            Ok((program, finders))
        });
        built.collect::<Result<_, _>>().map(Self)
    }

    /// Without a defect, every test that is to find one passes.
    fn find_nothing(&self) -> Result<(), String> {
        for (program, finders) in &self.0 {
            for &finder in finders {
                if let Some(Found { by, after }) = program.run(finder, SOUND_SEEDS)? {
                    return Err(format!(
                        "nothing is planted, and is found by the {by} after {after}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Each finder of `cases`, once.
fn finders(cases: &[Case]) -> Vec<Finder> {
    let mut finders = vec![];
    for Case { finder, .. } in cases {
        if !finders.contains(finder) {
            finders.push(*finder);
        }
    }
    finders
}

/// Builds one of those that are `left` after the other, while those before are searched for.
/// Returns those that were not found.
fn plant_each(copy: &Copy, left: &Mutex<VecDeque<Case>>) -> Vec<Case> {
    let next = || left.lock().expect("nobody panics while taking one").pop_front();
    thread::scope(|scope| {
        let mut missed = vec![];
        let mut running: VecDeque<Search<'_>> = VecDeque::new();
        while let Some(case) = next() {
            let started = clock();
            let build = || Program::build(copy, case.finder, &case.number.to_string());
            let program = copy.planted(case.defect, build);
            if running.len() == SEARCHES {
                missed.extend(running.pop_front().and_then(Search::missed));
            }
            let found = move || program.and_then(|program| program.run(case.finder, SEEDS));
            let run = scope.spawn(move || told(case, found(), started));
            running.push_back(Search { case, run });
        }
        missed.extend(running.into_iter().filter_map(Search::missed));
        missed
    })
}

/// How many defects of a copy are searched for at once: what takes long waits for servers.
const SEARCHES: usize = 2;

/// A search for the defect of `case`, which says in the end whether it was found.
struct Search<'scope> {
    case: Case,
    run: ScopedJoinHandle<'scope, bool>,
}

impl Search<'_> {
    /// The case, if nobody found it.
    fn missed(self) -> Option<Case> {
        let found = self.run.join().expect("a search never panics");
        (!found).then_some(self.case)
    }
}

/// Prints what came of `case`, and returns whether it was found.
fn told(case: Case, outcome: Outcome, started: Instant) -> bool {
    let Case { number, defect: Defect { says, .. }, .. } = case;
    let (by, after) = match &outcome {
        Ok(Some(found)) => (found.by.as_str(), found.after.as_str()),
        Ok(None) => ("**nobody**", "all"),
        Err(_) => ("**error**", "–"),
    };
    println!("| {number} | {says} | {by} | {after} | {} |", seconds(started));
    if let Err(why) = &outcome {
        eprintln!("defects: `{says}`: {why}");
    }
    matches!(outcome, Ok(Some(_)))
}

fn seconds(started: Instant) -> String {
    format!("{:.1} s", started.elapsed().as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "builds take real time")]
fn clock() -> Instant {
    Instant::now()
}

/// How long to leave a condition alone before looking again.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_defect_has_its_place_in_the_sources() {
        let read = |file: &str| fs::read_to_string(root().join(file)).map_err(|it| it.to_string());
        let misplaced = chosen(None).into_iter().filter_map(|case| {
            let why = copy::edited(case.defect, read).err()?;
            Some(format!("`{}`: {why}", case.defect.says))
        });
        let misplaced: Vec<_> = misplaced.collect();
        assert!(misplaced.is_empty(), "\n{}\n", misplaced.join("\n"));
    }

    #[test]
    fn defects_are_chosen_by_their_words() {
        assert_eq!(chosen(None).len(), DEFECTS.len() + SERVED.len() + ELSEWHERE.len());
        assert_eq!(chosen(Some(DEFECTS[2].says))[0].number, 3);
        assert!(chosen(Some("no defect says this")).is_empty());
    }
}
