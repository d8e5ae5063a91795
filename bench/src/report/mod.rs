//! What was found, and how it is shown.

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

/// The figures of the last whole run, beside the sources.
pub const COMMITTED: &str = "results.json";

/// The document that shows them.
const DOCUMENT: &str = "../docs/performance.md";

/// Where the pictures are that it shows.
const PLOTS: &str = "../docs/plots";

/// Writes the table, the figures and the plots into `folder`.
///
/// # Errors
///
/// If that cannot be written.
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

/// The results that are committed, if there are any.
///
/// # Errors
///
/// If they cannot be read.
pub fn committed() -> io::Result<Option<Results>> {
    match fs::read_to_string(COMMITTED) {
        Ok(text) => Ok(Some(Results::read(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts `results` in the place of what is committed, with the tables and the
/// pictures of the document.
///
/// # Errors
///
/// If the document has no place for them, or something cannot be written.
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
