//! Plants all defects into the sources. Each process then runs with at most one of the defects.
//!
//! If defects change a function, the function contains the changed bodies in addition to its own
//! body. The function looks up the number of the active defect, and runs the body of this defect. A
//! file that is not Rust is part of the program as a text. A defect in such a file needs a copy of
//! the program, in which the defect overwrites this text. The text is padded, so that each
//! replacement fits.

use std::collections::BTreeMap;

use crate::bodies::bodies;
use crate::{Case, Defect, Edit};

/// The environment variable with the number of the defect that is active in a process.
pub(crate) const NUMBER: &str = "LEASEHOLD_PLANTED";

/// The libraries whose functions look up the number of the active defect, each with the file of its
/// lookup.
const LIBRARIES: [(&str, &str); 2] =
    [("src/lib.rs", "src/planted.rs"), ("link/src/lib.rs", "link/src/planted.rs")];

/// The file with the dependencies of the library's tests.
const DEPENDENCIES: &str = "Cargo.toml";

/// The line that makes the library its own dependency, for examples and integration tests. The copy
/// does not have this line, because cargo would build the library twice, and unit tests do not need
/// it.
const ITSELF: &str = "leasehold = { path = \".\", features = [\"testing\"] }\n";

/// Returns the source of the function `number`. An invalid number counts as 0, so that no defect is
/// active, and none is found.
fn planted() -> String {
    format!(
        "use std::{{env, sync::LazyLock}};\n\n\
         static NUMBER: LazyLock<usize> = LazyLock::new(|| {{\n    \
             env::var({NUMBER:?}).map_or(0, |number| number.parse().unwrap_or(0))\n\
         }});\n\n\
         pub(crate) fn number() -> usize {{\n    *NUMBER\n}}\n"
    )
}

/// The texts of files, by the path of the file.
pub(crate) type Texts = BTreeMap<&'static str, String>;

/// The sources with all defects.
pub(crate) struct Planted {
    /// The changed files of the copied sources.
    pub(crate) texts: Texts,
    /// For each defect, by its number: the new content of texts in the program. Each is as long as
    /// the text in `texts` that it overwrites.
    included: BTreeMap<usize, Texts>,
}

impl Planted {
    /// Plants `cases` in the sources that `read` returns.
    pub(crate) fn of(
        cases: &[Case],
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        let (mut functions, mut included) = (Functions::new(), BTreeMap::new());
        for case in cases {
            let changed = edited(case.defect, &read).and_then(|texts| {
                let (code, others): (Texts, Texts) =
                    texts.into_iter().partition(|(file, _)| file.ends_with(".rs"));
                included.extend((!others.is_empty()).then_some((case.number, others)));
                add(case, code, &mut functions, &read)
            });
            changed.map_err(|why| format!("`{}`: {why}", case.defect.says))?;
        }
        let mut texts = switched(functions, &read)?;
        for (library, lookup) in LIBRARIES {
            let text = texts.remove(library).map_or_else(|| read(library), Ok)?;
            texts.insert(library, text + "\nmod planted;\n");
            texts.insert(lookup, planted());
        }
        texts.insert(DEPENDENCIES, read(DEPENDENCIES)?.replace(ITSELF, ""));
        texts.extend(with_room(&mut included, &read)?);
        Ok(Self { texts, included })
    }

    /// The files that the program includes as texts, and that at least one defect changes.
    pub(crate) fn included(&self) -> impl Iterator<Item = &'static str> {
        let mut files: Vec<_> = self.included.values().flat_map(Texts::keys).copied().collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter()
    }

    /// The new content of each text that the defect `number` overwrites in the program.
    pub(crate) fn included_by(&self, number: usize) -> Option<&Texts> {
        self.included.get(&number)
    }
}

/// For each function that defects change: the arms of its `match`. Each arm has the number of a
/// defect and the changed body. The key is the file of the function, and its index in that file.
type Functions = BTreeMap<(&'static str, usize), String>;

/// Adds the functions that `case` changes.
fn add(
    case: &Case,
    changed: Texts,
    functions: &mut Functions,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    let Case { number, defect: Defect { says, .. }, .. } = case;
    for (file, text) in changed {
        let changes = changes(&read(file)?, &text).map_err(|why| format!("{file}: {why}"))?;
        for (place, body) in changes {
            let arms = functions.entry((file, place)).or_default();
            arms.push_str(&format!("// {says}\n{number} => {body}\n"));
        }
    }
    Ok(())
}

/// The bodies of `changed` that differ from the bodies of `text`, each with its index.
fn changes(text: &str, changed: &str) -> Result<Vec<(usize, String)>, String> {
    let (before, after) = (bodies(text), bodies(changed));
    let rest = |text: &str| {
        let mut rest = text.to_owned();
        bodies(text).into_iter().rev().for_each(|body| rest.replace_range(body, "{}"));
        rest
    };
    if rest(text) != rest(changed) {
        return Err("it changes more than what stands in functions".into());
    }
    let bodies =
        before.into_iter().map(|it| &text[it]).zip(after.into_iter().map(|it| &changed[it]));
    let changes = bodies.enumerate().filter(|(_, (before, after))| before != after);
    Ok(changes.map(|(place, (_, after))| (place, after.to_owned())).collect())
}

/// The texts of the files of `functions`. In these texts, each of `functions` runs the body of the
/// active defect.
fn switched(
    functions: Functions,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Texts, String> {
    let mut texts = Texts::new();
    // Starts at the end of each file, so that earlier positions stay valid.
    for ((file, place), arms) in functions.into_iter().rev() {
        let mut text = texts.remove(file).map_or_else(|| read(file), Ok)?;
        let body = bodies(&text)[place].clone();
        let switch = format!(
            "{{ match crate::planted::number() {{\n{arms}_ => {} }} }}",
            &text[body.clone()]
        );
        text.replace_range(body, &switch);
        texts.insert(file, text);
    }
    Ok(texts)
}

/// Pads all versions of a text to one length. Returns the versions without a defect.
fn with_room(
    included: &mut BTreeMap<usize, Texts>,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Texts, String> {
    let mut sound = Texts::new();
    let mut longest: BTreeMap<&str, usize> = BTreeMap::new();
    for (&file, text) in included.values().flatten() {
        sound.insert(file, read(file)?);
        let longest = longest.entry(file).or_default();
        *longest = text.len().max(sound[file].len()).max(*longest);
    }
    for (file, text) in included.values_mut().flatten().chain(&mut sound) {
        text.push_str(&" ".repeat(longest[file] - text.len()));
    }
    Ok(sound)
}

/// The files that `defect` changes, with all of its edits.
fn edited(defect: &Defect, read: impl Fn(&str) -> Result<String, String>) -> Result<Texts, String> {
    let mut texts = Texts::new();
    for Edit { file, from, to } in defect.edits {
        let text = texts.remove(file).map_or_else(|| read(file), Ok)?;
        let times = text.matches(from).count();
        if times != 1 {
            return Err(format!("its text stands {times} times in {file}: {from:?}"));
        }
        texts.insert(*file, text.replacen(from, to, 1));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finder;

    const SOURCES: [(&str, &str); 5] = [
        (
            "Cargo.toml",
            "[dev-dependencies]\nleasehold = { path = \".\", features = [\"testing\"] }\n",
        ),
        ("src/lib.rs", "mod a;\n"),
        ("link/src/lib.rs", "mod b;\n"),
        ("src/a.rs", "const ONE: u8 = 1;\nfn a() -> u8 { ONE + 2 }\nfn b() { a() }\n"),
        ("src/a.lua", "return 1\n"),
    ];

    fn read(file: &str) -> Result<String, String> {
        let found = SOURCES.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("{file}: gone"))
    }

    /// Plants defects, with numbers from 1.
    fn planted(defects: &'static [Defect]) -> Result<Planted, String> {
        let cases = defects.iter().zip(1..);
        let cases =
            cases.map(|(defect, number)| Case { number, finder: Finder::Unit("a"), defect });
        Planted::of(&cases.collect::<Vec<_>>(), read)
    }

    #[test]
    fn planted_function_selects_its_body_by_the_defect_number() {
        let planted = planted(&[
            Defect {
                says: "one",
                edits: &[
                    Edit { file: "src/a.rs", from: "+ 2", to: "+ 3" },
                    Edit { file: "src/a.rs", from: "ONE + 3", to: "4" },
                    Edit { file: "src/a.rs", from: "b() { a() }", to: "b() { }" },
                ],
            },
            Defect { says: "two", edits: &[Edit { file: "src/a.rs", from: "+ 2", to: "" }] },
        ]);
        assert_eq!(
            planted.unwrap().texts["src/a.rs"],
            "const ONE: u8 = 1;\nfn a() -> u8 { match crate::planted::number() {\n// one\n1 => { 4 }\n\
             // two\n2 => { ONE  }\n_ => { ONE + 2 } } }\nfn b() { match crate::planted::number() {\n\
             // one\n1 => { }\n_ => { a() } } }\n"
        );
    }

    #[test]
    fn planted_library_reads_the_selected_defect_from_its_env() {
        let planted = planted(&[]).unwrap();
        assert_eq!(planted.texts["src/lib.rs"], "mod a;\n\nmod planted;\n");
        assert_eq!(planted.texts["link/src/lib.rs"], "mod b;\n\nmod planted;\n");
        for lookup in ["src/planted.rs", "link/src/planted.rs"] {
            assert!(planted.texts[lookup].contains("\"LEASEHOLD_PLANTED\""));
        }
    }

    #[test]
    fn planted_copy_has_no_dev_dependency_on_leasehold() {
        assert_eq!(planted(&[]).unwrap().texts["Cargo.toml"], "[dev-dependencies]\n");
    }

    #[test]
    fn planted_lua_text_has_the_same_length_for_each_defect() {
        let planted = planted(&[
            Defect { says: "one", edits: &[Edit { file: "src/a.lua", from: "1", to: "100" }] },
            Defect { says: "two", edits: &[Edit { file: "src/a.lua", from: " 1", to: "" }] },
        ])
        .unwrap();
        assert_eq!(planted.texts["src/a.lua"], "return 1\n  ");
        assert_eq!(planted.included_by(1).unwrap()["src/a.lua"], "return 100\n");
        assert_eq!(planted.included_by(2).unwrap()["src/a.lua"], "return\n    ");
        assert!(planted.included_by(3).is_none());
        assert_eq!(planted.included().collect::<Vec<_>>(), ["src/a.lua"]);
    }

    #[test]
    fn defect_that_cannot_be_planted_is_an_error() {
        const FILE: &str = "src/a.rs";
        let why = |edits| planted(edits).err().unwrap();
        let no_function = why(&[Defect {
            says: "a constant",
            edits: &[Edit { file: FILE, from: "= 1", to: "= 2" }],
        }]);
        assert_eq!(
            no_function,
            "`a constant`: src/a.rs: it changes more than what stands in functions"
        );
        let twice =
            why(&[Defect { says: "a", edits: &[Edit { file: FILE, from: "ONE", to: "" }] }]);
        assert_eq!(twice, "`a`: its text stands 2 times in src/a.rs: \"ONE\"");
        let gone = why(&[Defect { says: "a", edits: &[Edit { file: "b", from: "c", to: "" }] }]);
        assert_eq!(gone, "`a`: b: gone");
    }
}
