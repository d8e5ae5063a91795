//! What the project depends on, taken along to a second place of builds: cargo lets nobody
//! else build in the first one while it does, and to build it there anew takes minutes.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Where cargo keeps what a profile has built.
const PROFILE: &str = "debug";

/// What is taken whole: what cargo knows of each library, and what build scripts have made.
const WHOLE: [&str; 2] = [".fingerprint", "build"];

/// What is taken of the rest. Programs stay, which are the largest part and nobody's dependency.
const LIBRARIES: [&str; 4] = ["rlib", "rmeta", "so", "d"];

/// Fills the target directory `to` with the libraries of `from`, unless it is there already:
/// cargo itself sees what has changed since.
pub(crate) fn take(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    // Whoever is interrupted leaves no half of it.
    let unfinished = to.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let (libraries, into) = (from.join(PROFILE), unfinished.join(PROFILE));
    for part in WHOLE {
        copy(&libraries.join(part), &into.join(part), &|_| true)?;
    }
    copy(&libraries.join("deps"), &into.join("deps"), &is_library)?;
    fs::rename(unfinished, to)
}

fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|it| LIBRARIES.iter().any(|kind| it == *kind))
}

/// Copies the files of a folder that are `wanted`, each with its time: by that cargo knows
/// what is up to date.
fn copy(from: &Path, to: &Path, wanted: &impl Fn(&Path) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &copied, wanted)?;
        } else if wanted(&path) {
            fs::copy(&path, &copied)?;
            File::options()
                .write(true)
                .open(&copied)?
                .set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_taken_with_their_times_and_programs_are_not() {
        // given what cargo leaves
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for file in
            ["build/a-1/out/made.o", ".fingerprint/a-1/lib-a", "deps/liba-1.rlib", "deps/a-2"]
        {
            let file = from.join(PROFILE).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let library = |target: &Path| target.join(PROFILE).join("deps/liba-1.rlib");
        let modified = |file| fs::metadata(file).unwrap().modified().unwrap();

        // when it is taken along
        take(&from, &to).unwrap();

        // then what is depended upon is there, as old as it was
        assert_eq!(modified(library(&to)), modified(library(&from)));
        assert!(to.join("debug/build/a-1/out/made.o").exists());
        assert!(to.join("debug/.fingerprint/a-1/lib-a").exists());
        assert!(!to.join("debug/deps/a-2").exists());
    }

    #[test]
    fn what_is_there_is_left_as_it_is_and_what_was_interrupted_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for part in ["build", ".fingerprint", "deps"] {
            fs::create_dir_all(from.join(PROFILE).join(part)).unwrap();
        }
        fs::create_dir_all(to.with_extension("unfinished").join("half")).unwrap();
        take(&from, &to).unwrap();
        assert!(!to.join("half").exists());
        fs::write(to.join("mine"), "").unwrap();
        take(&from, &to).unwrap();
        assert!(to.join("mine").exists());
    }
}
