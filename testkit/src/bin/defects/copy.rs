//! Copies of the sources, where defects are planted and taken out again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{Defect, Edit};

/// What the tests are built from.
const PARTS: [&str; 11] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "benches",
    "docs",
    "examples",
    "src",
    "testkit",
    "twin",
];

/// Where the copies lie. Nobody else uses them as long as this value lives.
pub(crate) struct Bed {
    folder: PathBuf,
    _lock: File,
}

impl Bed {
    pub(crate) fn in_project(root: &Path) -> Result<Self, String> {
        let folder = root.join("target/defects");
        let said = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(said)?;
        let lock = File::create(folder.join("lock")).map_err(said)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another run is planting defects already".to_owned())?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where something lies that has this `name`.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A copy, and where it is built: cargo builds one thing at a time in each place.
pub(crate) struct Copy {
    folder: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies the sources to `folder` anew, whatever an interrupted run has left behind.
    pub(crate) fn of(root: &Path, folder: PathBuf, target: PathBuf) -> Result<Self, String> {
        let said = |error: io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(said)?;
        }
        fs::create_dir_all(&folder).map_err(said)?;
        for part in PARTS {
            copy(&root.join(part), &folder.join(part)).map_err(said)?;
        }
        Ok(Self { folder, target })
    }

    /// Where the copy is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where cargo builds it.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Whether `defect` can be planted.
    pub(crate) fn check(&self, defect: &Defect) -> Result<(), String> {
        let edited = edited(defect, |file| self.read(file));
        edited.map(drop).map_err(|why| format!("`{}`: {why}", defect.says))
    }

    /// Plants `defect`, does `work`, and takes it out again.
    pub(crate) fn planted<T>(
        &self,
        defect: &Defect,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let planted = edited(defect, |file| self.read(file))?;
        let mut sound = BTreeMap::new();
        for file in planted.keys() {
            sound.insert(*file, self.read(file)?);
        }
        self.write_all(&planted)?;
        let done = work();
        // Also when the work failed: the next defect is to stand alone.
        self.write_all(&sound)?;
        done
    }

    fn write_all(&self, texts: &BTreeMap<&str, String>) -> Result<(), String> {
        texts.iter().try_for_each(|(file, text)| self.write(file, text))
    }

    fn read(&self, file: &str) -> Result<String, String> {
        fs::read_to_string(self.folder.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| format!("{file}: {error}"))
    }
}

/// The files of `defect` with all of its edits made.
pub(crate) fn edited(
    defect: &Defect,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<BTreeMap<&'static str, String>, String> {
    let mut texts = BTreeMap::new();
    for Edit { file, from, to } in defect.edits {
        let text = match texts.remove(file) {
            Some(text) => text,
            None => read(file)?,
        };
        let times = text.matches(from).count();
        if times != 1 {
            return Err(format!("its text stands {times} times in {file}: {from:?}"));
        }
        texts.insert(*file, text.replacen(from, to, 1));
    }
    Ok(texts)
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWICE: Defect = Defect {
        says: "two edits of one file",
        edits: &[
            Edit { file: "a", from: "one", to: "1" },
            Edit { file: "a", from: "two", to: "2" },
        ],
    };

    #[test]
    fn edits_of_one_file_are_made_together() {
        let texts = edited(&TWICE, |_| Ok("one two".into())).unwrap();
        assert_eq!(texts["a"], "1 2");
    }

    #[test]
    fn a_text_that_does_not_stand_there_once_is_an_error() {
        for (text, times) in [("one", 0), ("one two two", 2)] {
            let why = edited(&TWICE, |_| Ok(text.into())).unwrap_err();
            assert!(why.contains(&format!("{times} times in a")), "{why}");
        }
        let why = edited(&TWICE, |file| Err(format!("{file}: gone"))).unwrap_err();
        assert_eq!(why, "a: gone");
    }

    #[test]
    fn what_is_planted_is_taken_out_again_also_when_it_does_not_build() {
        // given a copy with one file
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let copy = Copy { folder: path.clone(), target: path };
        copy.write("a", "one two").unwrap();

        // when something fails while the defect is planted
        let seen = copy.planted::<()>(&TWICE, || Err(copy.read("a").unwrap()));

        // then it was there, and is there no more
        assert_eq!(seen, Err("1 2".into()));
        assert_eq!(copy.read("a").unwrap(), "one two");
    }
}
