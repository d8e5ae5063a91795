//! The external judge: Porcupine, a program in Go.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Lets the judge check the history. Returns its output.
///
/// # Errors
///
/// Returns the output of the judge if it rejects the history. Returns the reason if the judge could
/// not be started.
pub fn ask(history: &Path) -> Result<String, String> {
    let check: PathBuf = [env!("CARGO_MANIFEST_DIR"), "porcupine", "check.sh"].iter().collect();
    let run = Command::new(&check).arg(history).output();
    let run = run.map_err(|e| format!("{} does not run: {e}", check.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let event = [text(&run.stdout), text(&run.stderr)].join("\n").trim().to_owned();
    if run.status.success() { Ok(event) } else { Err(event) }
}
