//! Writes the results.

pub mod board;
mod compare;
mod document;
mod machine;
mod markdown;
mod plots;
mod results;
mod svg;
mod target;
mod verdict;

use std::{fs, io, path::Path};

use board::Board;
pub use compare::fallen;
pub use machine::Machine;
pub use results::Results;
pub use target::Target;

/// The file with the figures of the last full run, in the folder of the benchmarks.
pub const COMMITTED: &str = "results.json";

/// The document that shows the figures.
const DOCUMENT: &str = "../docs/performance.md";

/// The folder of the plots in the document.
const PLOTS: &str = "../docs/plots";

/// Writes the table, the figures and the plots into `folder`.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(folder: &Path, board: &Board, machine: &Machine, note: &str) -> io::Result<Results> {
    let results = Results::of(board, machine, note);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("results.json"), results.text())?;
    fs::write(folder.join("results.md"), markdown::results(board, machine, note))?;
    for (name, picture) in plots::all(&results) {
        fs::write(folder.join(format!("{name}.svg")), picture)?;
    }
    Ok(results)
}

/// The committed results, if there are any.
///
/// # Errors
///
/// If the file cannot be read.
pub fn committed() -> io::Result<Option<Results>> {
    match fs::read_to_string(COMMITTED) {
        Ok(text) => Ok(Some(Results::read(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the committed results, and the tables and plots of the document.
///
/// # Errors
///
/// If a table is missing in the document, or if a file cannot be written.
pub fn commit(results: &Results) -> io::Result<()> {
    let document = fs::read_to_string(DOCUMENT)?;
    let filled = document::filled(&document, results).map_err(io::Error::other)?;
    fs::write(COMMITTED, results.text())?;
    fs::write(DOCUMENT, &filled)?;
    let shown = |name: &str| filled.contains(&format!("plots/{name}.svg"));
    for (name, picture) in plots::all(results).into_iter().filter(|(name, _)| shown(name)) {
        fs::write(format!("{PLOTS}/{name}.svg"), picture)?;
    }
    Ok(())
}
