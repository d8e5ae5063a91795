//! Plants defects in a copy of the sources, and shows that the tests find each of them.
//!
//! The defects are data: see [`list`]. One build contains all defects. If defects change a
//! function, the function has all of the changed bodies. The environment of a process has the
//! number of a defect, whose body the process runs ([`planting`]). A process without such a number
//! has no defect, and its tests pass.
//!
//! It is an error if a defect cannot be planted, does not build, or makes a test fail in an unknown
//! way. It is also an error if a test fails without a defect. The program only reads the sources,
//! so it can be interrupted at any time.
//!
//! An argument selects the defects whose description contains it.

mod bodies;
mod copy;
mod links;
mod list;
mod planting;
mod program;
mod search;
mod store;

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use copy::WorkingCopy;
use links::LINKS;
use list::{DEFECTS, ELSEWHERE};
use planting::Planted;
use program::Program;
use search::{Found, search};
use store::SERVED;

/// A possible mistake. It changes text in functions, or in files that are included in the program
/// as text.
struct Defect {
    says: &'static str,
    edits: &'static [Edit],
}

/// One place of a defect: a text that occurs once, and its replacement.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// The test that has to find a defect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finder {
    /// The simulation of a world, by its name. It must find the defect within `SEEDS` seeds.
    Simulation(&'static str),
    /// The simulation of a world, by its name, with seeds from this number on. Earlier seeds do not
    /// find the defect, and would take long. If a change of the sources makes another seed find the
    /// defect, the search takes longer.
    SimulationFrom(&'static str, u64),
    /// A test of the library, by its full path.
    Unit(&'static str),
    /// A test of the Redis client `link`, by its full path.
    Link(&'static str),
}

/// A defect with its number in the list.
#[derive(Clone, Copy)]
struct Case {
    number: usize,
    finder: Finder,
    defect: &'static Defect,
}

impl Case {
    /// Whether the finder of the defect is not a unit test of the library.
    fn is_no_unit_test(&self) -> bool {
        !matches!(self.finder, Finder::Unit(_))
    }
}

/// The outcome of a search: what found the defect, or nothing. An error explains why the outcome is
/// unknown.
type Outcome = Result<Option<Found>, String>;

fn main() -> ExitCode {
    match plant_all(env::args().nth(1).as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("defects: {why}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Vec<Case> {
    let simulated = DEFECTS.iter().map(|defect| (Finder::Simulation("run_served"), defect));
    let served = SERVED.iter().map(|defect| (Finder::Simulation("run_served"), defect));
    let elsewhere = LINKS.iter().chain(ELSEWHERE).map(|(finder, defect)| (*finder, defect));
    let all = simulated.chain(served).chain(elsewhere).zip(1..);
    all.map(|((finder, defect), number)| Case { number, finder, defect }).collect()
}

/// Returns the `cases` whose description contains `part`. Without `part`, returns all of them.
fn chosen(cases: &[Case], part: Option<&str>) -> Vec<Case> {
    let has = |case: &&Case| part.is_none_or(|part| case.defect.says.contains(part));
    cases.iter().filter(has).copied().collect()
}

/// Plants every defect, and searches for the defects whose description contains `part`. Returns
/// whether all of these defects were found.
fn plant_all(part: Option<&str>) -> Result<bool, String> {
    let all = all();
    let cases = chosen(&all, part);
    if cases.is_empty() {
        return Err("no such defect".into());
    }
    let started = clock();
    let copy = WorkingCopy::in_project(root())?;
    let planted = Planted::of(&all, read)?;
    copy::copy(root(), &copy.at("copy"), &planted.texts)?;
    let program = Program::build(copy.at("copy"), &target()?, &planted)?;
    println!("{} defects built in {}\n", all.len(), seconds(started));
    println!("| # | defect | found by | after | time |");
    println!("|---|---|---|---|---|");
    let missed = Searches { program, planted, copy }.run(&cases)?;
    let (planted, took) = (cases.len(), seconds(started));
    println!("\n{planted} defects planted, {} found, in {took}", planted - missed.len());
    for case in &missed {
        println!("not found: {} | {}", case.number, case.defect.says);
    }
    Ok(missed.is_empty())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the project")
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// The target folder of this program, which also has the built dependencies of the project.
fn target() -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let target = program.ancestors().nth(2).ok_or("this program lies in no folder")?;
    Ok(target.to_owned())
}

/// The goal of a search: a defect, or any failure of a test without a defect.
enum Search {
    Defect(Case),
    Nothing(Finder),
}

/// The tests with all defects, and the texts and the folder that the searches use.
struct Searches {
    program: Program,
    planted: Planted,
    copy: WorkingCopy,
}

impl Searches {
    /// Searches for each of `cases`. Also runs each test of `cases` once without a defect. Returns
    /// the defects that were not found.
    fn run(&self, cases: &[Case]) -> Result<Vec<Case>, String> {
        // Unit tests, which may wait for servers, come before simulations, which only compute.
        let (simulations, tests): (Vec<_>, Vec<_>) =
            cases.iter().partition(|case| case.is_no_unit_test());
        let sound = finders(cases).into_iter().map(Search::Nothing);
        let defects = tests.into_iter().chain(simulations).copied().map(Search::Defect);
        let left = Mutex::new(sound.chain(defects).collect());
        let mut missed = thread::scope(|scope| {
            let start = |_| scope.spawn(|| self.run_each(&left));
            let running: Vec<_> = (0..at_once()).map(start).collect();
            let missed = running.into_iter().map(|it| it.join().expect("a search never panics"));
            missed.collect::<Result<Vec<_>, _>>().map(|missed| missed.concat())
        })?;
        missed.sort_by_key(|case| case.number);
        Ok(missed)
    }

    /// Runs the searches in `left`, one after the other.
    fn run_each(&self, left: &Mutex<VecDeque<Search>>) -> Result<Vec<Case>, String> {
        let next = || left.lock().expect("the lock is not poisoned").pop_front();
        let mut missed = vec![];
        while let Some(search) = next() {
            match search {
                Search::Defect(case) => missed.extend((!self.finds(case)).then_some(case)),
                Search::Nothing(finder) => self.find_nothing(finder).inspect_err(|_| {
                    left.lock().expect("the lock is not poisoned").clear();
                })?,
            }
        }
        Ok(missed)
    }

    /// Checks that the test of `finder` passes without a defect.
    fn find_nothing(&self, finder: Finder) -> Result<(), String> {
        let name = self.copy.at(&format!("{:?}", thread::current().id()));
        match search(&self.program, finder, 0, None, &name)? {
            None => Ok(()),
            Some(Found { by, after }) => {
                Err(format!("nothing is planted, and is found by the {by} after {after}"))
            }
        }
    }

    /// Searches for `case`, prints the outcome, and returns whether the defect was found.
    fn finds(&self, case: Case) -> bool {
        let Case { number, finder, defect: Defect { says, .. } } = case;
        let started = clock();
        let included = self.planted.included_by(number);
        let name = self.copy.at(&number.to_string());
        let outcome = search(&self.program, finder, number, included, &name);
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
}

/// The number of searches that run at the same time: two for each core, because long searches wait
/// for servers.
fn at_once() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}

/// Each finder of `cases` once. A simulation starts at its first seed.
fn finders(cases: &[Case]) -> Vec<Finder> {
    let mut finders = vec![];
    for Case { finder, .. } in cases {
        let finder = match *finder {
            Finder::SimulationFrom(world, _) => Finder::Simulation(world),
            finder => finder,
        };
        if !finders.contains(&finder) {
            finders.push(finder);
        }
    }
    finders
}

fn seconds(started: Instant) -> String {
    format!("{:.1} s", started.elapsed().as_secs_f64())
}

#[expect(clippy::disallowed_methods, reason = "builds take real time")]
fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_defect_quotes_a_unique_source_text() {
        let misplaced = all().into_iter().filter_map(|case| Planted::of(&[case], read).err());
        let misplaced: Vec<_> = misplaced.collect();
        assert!(misplaced.is_empty(), "\n{}\n", misplaced.join("\n"));
    }

    #[test]
    fn planted_defects_are_selected_by_words_of_their_texts() {
        let all = all();
        assert_eq!(all.len(), DEFECTS.len() + SERVED.len() + LINKS.len() + ELSEWHERE.len());
        assert_eq!(chosen(&all, None).len(), all.len());
        assert_eq!(chosen(&all, Some(DEFECTS[2].says))[0].number, 3);
        assert!(chosen(&all, Some("no defect says this")).is_empty());
    }
}
