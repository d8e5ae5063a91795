//! What was found, and how it is shown.

pub mod board;
mod json;
mod machine;
mod markdown;
mod plots;
mod svg;
mod target;
mod verdict;

use std::{fs, io, path::Path};

use board::Board;
pub use machine::Machine;
pub use target::Target;

/// Writes the table, the figures and the plots into `folder`.
///
/// # Errors
///
/// If that cannot be written.
pub fn write(folder: &Path, board: &Board, machine: &Machine, note: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("results.json"), json::results(board, machine, note))?;
    fs::write(folder.join("results.md"), markdown::results(board, machine, note))?;
    for (name, picture) in plots::all(board) {
        fs::write(folder.join(format!("{name}.svg")), picture)?;
    }
    Ok(())
}
