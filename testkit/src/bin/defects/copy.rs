//! A copy of the sources, with all defects in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::planting::Texts;

/// The files and folders of the project that are needed to build its tests.
const PARTS: [&str; 14] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "benches",
    "cli",
    "docs",
    "examples",
    "link",
    "src",
    "testkit",
    "tests",
    "twin",
];

/// The folder of the copy. While this value exists, no other run of the program uses the folder.
pub(crate) struct WorkingCopy {
    folder: PathBuf,
    _lock: File,
}

impl WorkingCopy {
    pub(crate) fn in_project(root: &Path) -> Result<Self, String> {
        let folder = root.join("target/defects");
        let output = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(output)?;
        let lock = File::create(folder.join("lock")).map_err(output)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another run is planting defects already".to_owned())?;
        Ok(Self { folder, _lock: lock })
    }

    /// The path of the file `name` in the copy.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Makes `folder` a copy of the sources in `root`. Each file in `texts` gets its text from `texts`.
/// Unchanged files keep their modification time, so cargo builds nothing twice.
pub(crate) fn copy(root: &Path, folder: &Path, texts: &Texts) -> Result<(), String> {
    let output = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = BTreeSet::new();
    for part in PARTS {
        list(&root.join(part), &mut files).map_err(output)?;
    }
    let of_root = |file: PathBuf| {
        file.strip_prefix(root).map(Path::to_owned).expect("the file is below the root")
    };
    let mut wanted: BTreeSet<PathBuf> = files.into_iter().map(of_root).collect();
    wanted.extend(texts.keys().map(PathBuf::from));
    for file in &wanted {
        let text = file.to_str().and_then(|file| texts.get(file));
        let text = text.map_or_else(|| fs::read(root.join(file)), |it| Ok(it.clone().into_bytes()));
        text.and_then(|text| write(&folder.join(file), &text)).map_err(output)?;
    }
    remove_others(folder, &wanted).map_err(output)
}

/// Adds `from` to `files`, or all files in it if it is a folder.
fn list(from: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !from.is_dir() {
        files.insert(from.to_owned());
        return Ok(());
    }
    fs::read_dir(from)?.try_for_each(|entry| list(&entry?.path(), files))
}

fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|it| it == text) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    fs::write(file, text)
}

/// Removes files of an earlier run that are not `wanted`.
fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    let mut files = BTreeSet::new();
    list(folder, &mut files)?;
    let is_wanted = |file: &Path| file.strip_prefix(folder).is_ok_and(|it| wanted.contains(it));
    files.iter().filter(|file| !is_wanted(file)).try_for_each(fs::remove_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the parts of a project.
    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for part in PARTS.iter().filter(|part| part.contains('.')) {
            fs::write(folder.path().join(part), part).unwrap();
        }
        for part in PARTS.iter().filter(|part| !part.contains('.')) {
            write(&folder.path().join(part).join("a"), part.as_bytes()).unwrap();
        }
        folder
    }

    #[test]
    fn defect_is_planted_in_the_copy_and_not_in_the_sources() {
        let (project, into) = (project(), tempfile::tempdir().unwrap());
        let texts = Texts::from([("src/a", "defect".into()), ("src/b", "more".into())]);
        copy(project.path(), into.path(), &texts).unwrap();
        let copied = |file| fs::read_to_string(into.path().join(file)).unwrap();
        assert_eq!(
            [copied("src/a"), copied("src/b"), copied("docs/a")],
            ["defect", "more", "docs"]
        );
        assert_eq!(fs::read_to_string(project.path().join("src/a")).unwrap(), "src");
        assert!(!project.path().join("src/b").exists());
    }

    #[test]
    fn copy_writes_changed_files_and_removes_deleted_files() {
        // given a copy
        let (project, into) = (project(), tempfile::tempdir().unwrap());
        let texts = Texts::from([("src/gone/b", "more".into())]);
        copy(project.path(), into.path(), &texts).unwrap();
        let written = |file| fs::metadata(into.path().join(file)).unwrap().modified().unwrap();
        let before = written("docs/a");

        // when the sources have changed
        fs::write(project.path().join("src/a"), "changed").unwrap();
        copy(project.path(), into.path(), &Texts::new()).unwrap();

        // then the copy has the changes, and all other files keep their modification time
        assert_eq!(fs::read_to_string(into.path().join("src/a")).unwrap(), "changed");
        assert!(!into.path().join("src/gone/b").exists());
        assert_eq!(written("docs/a"), before);
    }
}
