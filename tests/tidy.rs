//! Checks that the code keeps the rules of the project, and that the documents describe it.
//!
//! The checks are about layers, script headers, length, documentation, names of tests, and links.
//! Each check is a function that returns its complaints about a text, and its comment states the
//! rule. So the tests with `finds` in their names can give a bad sample to a check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

// The repository itself.

#[test]
fn every_import_points_to_a_lower_layer() {
    none(of_users().flat_map(|(path, text)| layers(&path, &text)));
}

#[test]
fn no_files_of_a_folder_form_an_import_cycle() {
    let tests = test_files();
    let found = WITHOUT_CIRCLES.into_iter().flat_map(|root| {
        // Tests may import the code that they test, and a program may import its library. These
        // imports do not count.
        let is_of = |path: &String| match root {
            "src" | "link/src" => !tests.contains(path),
            _ => root.contains("/bin/") || !path.contains("/bin/"),
        };
        let sources = files(root, "rs").into_iter().filter(is_of);
        let sources: Vec<_> = sources.map(|path| (path.clone(), read(&path))).collect();
        assert!(!sources.is_empty(), "{root}");
        circles(root, &sources)
    });
    none(found.map(|circle| format!("a circle in {circle}")));
}

#[test]
fn every_import_inside_the_engine_points_to_a_lower_module() {
    none(of_users().flat_map(|(path, text)| engine_layers(&path, &text)));
}

#[test]
fn every_script_header_has_a_signature() {
    for (folder, users) in SCRIPTS {
        let listed =
            files(users, "rs").into_iter().flat_map(|path| named_files(&path, &read(&path)));
        let listed: BTreeSet<_> = listed.collect();
        let scripts = files(folder, "lua");
        assert!(!scripts.is_empty(), "{folder}");
        none(scripts.iter().flat_map(|path| script(path, &read(path), &listed)));
    }
}

#[test]
fn every_file_of_tests_belongs_to_a_program() {
    let (manifest, all) = (read("Cargo.toml"), read("tests/all/main.rs"));
    let mut tests = files("tests", "rs");
    tests.retain(|path| path.matches('/').count() == 1 || path.ends_with("/main.rs"));
    none(tests.iter().filter_map(|path| orphan(path, &manifest, &all)));
}

#[test]
fn no_file_is_too_long() {
    none(sources().flat_map(|(path, text)| length(&path, &text)));
}

#[test]
fn test_names_have_at_most_60_characters() {
    none(rust_files().flat_map(|path| long_names(&path, &read(&path))));
}

#[test]
fn code_has_no_todo_and_no_panic() {
    none(of_users().flat_map(|(path, text)| leftovers(&path, &text)));
}

#[test]
fn only_the_redis_store_uses_types_of_the_redis_crate() {
    none(of_library().flat_map(|(path, text)| foreign_types(&path, &text)));
}

#[test]
fn link_crate_does_not_mention_locks() {
    let room = files("link/src", "rs");
    none(room.iter().flat_map(|path| locks(path, &read(path))));
}

#[test]
fn public_functions_document_errors_and_cancel_safety() {
    none(of_library().flat_map(|(path, text)| sections(&path, &text)));
}

#[test]
fn everything_public_has_an_example() {
    none(of_library().flat_map(|(path, text)| examples(&path, &text)));
}

#[test]
fn every_test_that_a_document_names_exists() {
    none(documents().flat_map(|(path, text)| named_tests(&path, &text, &has_test)));
}

#[test]
fn every_guarantee_names_a_test() {
    let path = "docs/guarantees.md";
    none(guarantees("SECURITY.md", &read("SECURITY.md")));
    none(guarantees(path, &read(path)));
}

#[test]
fn every_link_has_a_target() {
    none(documents().flat_map(|(path, text)| links(&path, &text, &has_target)));
}

#[test]
fn every_make_target_that_a_document_names_exists() {
    let makefile = read("Makefile");
    none(documents().flat_map(|(path, text)| make_targets(&path, &text, &makefile)));
}

#[test]
fn every_cargo_command_in_a_document_can_be_run() {
    let manifest = read("Cargo.toml");
    let exists = |file: &str| match file.strip_prefix("tests/") {
        Some(program) => is_program(&manifest, program),
        None => root(file).exists(),
    };
    none(documents().flat_map(|(path, text)| cargo(&path, &text, &exists)));
    let all: Vec<_> = documents().flat_map(|(_, text)| commands(&text)).collect();
    assert!(all.iter().any(|(_, command)| command.starts_with("cargo add leasehold")), "{all:?}");
}

#[test]
fn guide_explains_every_metric() {
    none(numbers(&read("src/domain/stats.rs"), &guide()));
}

#[test]
fn messages_page_lists_every_text_of_errors_and_logs() {
    // The only strings in the blocking API are in examples.
    let shown = of_users().filter(|(path, _)| !path.starts_with("src/blocking/"));
    let shown = shown.flat_map(|(path, text)| shown_texts(&path, &text));
    let scripts = scripts().flat_map(|(path, text)| script_texts(&path, &text));
    let shown: Vec<_> = shown.chain(scripts).collect();
    none(messages(&read("docs/messages.md"), &shown));
}

#[test]
fn guide_has_a_row_for_every_error_and_every_setting() {
    let page = read("docs/guide/errors-and-settings.md");
    none(errors(&read("src/error.rs"), &page));
    let client = read("src/client/builder.rs");
    none(settings_of_a_client(&client, &page));
}

#[test]
fn texts_that_users_read_are_in_plain_words() {
    none(documents().flat_map(|(path, text)| dialect(&path, &prose(&text))));
    let docs = |text: &str| comments(text, "//!") + &public_docs(text);
    let public = of_users().map(|(path, text)| (path, docs(&text)));
    none(public.flat_map(|(path, docs)| dialect(&path, &prose(&docs))));
    let command = files("cli/src", "rs").into_iter().map(|path| (path.clone(), read(&path)));
    let shown = of_users().chain(command).flat_map(|(path, text)| shown_texts(&path, &text));
    none(shown.flat_map(|shown| dialect(&shown.at, &shown.text)));
    none(scripts().flat_map(|(path, text)| dialect(&path, &prose(&comments(&text, "--")))));
    let path = "cli/src/args.rs";
    none(dialect(path, &prose(&comments(&read(path), "///"))));
}

#[test]
fn blocking_api_has_every_method_of_the_async_api() {
    let mut tasks = api_of("src/client.rs");
    tasks.extend(["src/primitives", "src/quorum", "src/client"].into_iter().flat_map(api));
    let threads = api("src/blocking");
    let objects = [
        "Lock",
        "Lock<Fenced>",
        "MultiLock",
        "MultiGuard",
        "QuorumClient",
        "QuorumLock",
        "QuorumGuard",
        "ReadWriteLock",
        "Election",
        "DoubleBarrier",
        "DoubleBarrierGuard",
        "Semaphore",
        "ExpirableSemaphore",
        "Latch",
    ];
    for object in objects {
        assert!(threads.iter().any(|(of, _)| of == object), "{object}: {threads:?}");
    }
    none(parity(&tasks, &threads));
}

#[test]
fn architecture_page_lists_exactly_the_source_files() {
    let sources: Vec<_> = sources().map(|(path, _)| path).collect();
    none(architecture(&read("ARCHITECTURE.md"), &sources, &|name| is_a_file_called(name)));
}

// The checks.

/// Modules from the bottom to the top. `blocking` is the highest, and may use the exports of the
/// crate.
const LAYERS: [&str; 11] = [
    "domain",
    "fence",
    "codec",
    "error",
    "metrics",
    "store",
    "engine",
    "primitives",
    "client",
    "quorum",
    "blocking",
];

/// A file imports only from its own layer and from the layers below.
fn layers(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    let Some(own) = module.first().and_then(|name| layer(name)) else { return vec![] };
    let top = LAYERS.len() - 1;
    let mut complaints = vec![];
    for (line, named) in imports(&code(text), &module) {
        let Some(imported) = named.first() else { continue };
        let complaint = match layer(imported) {
            Some(other) if other <= own => continue,
            None if own == top || imported == "self" => continue,
            Some(_) => format!("`{imported}` is above `{}`", LAYERS[own]),
            None => format!("`crate::{imported}` is exported above all layers: name its module"),
        };
        complaints.push(format!("{path}:{line}: {complaint}"));
    }
    // Two imported items of one module are one complaint.
    complaints.dedup();
    complaints
}

/// The layers within the engine, from the bottom to the top, as `engine/mod.rs` draws them. Modules
/// of one layer do not import each other.
const ENGINE_LAYERS: [&[&str]; 10] = [
    &["clock", "counters", "tasks", "timing"],
    &["grant", "limits", "recent", "retry"],
    &["hold"],
    &["pending"],
    &["core"],
    &["contention"],
    &["watchdog"],
    &["introduction", "release"],
    &["events", "held", "requests"],
    &["acquire"],
];

/// A file of the engine imports only from its own folder and from the layers below.
fn engine_layers(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path.trim_start_matches("src/"));
    let (Some("engine"), Some(own)) = (module.first().map(String::as_str), module.get(1)) else {
        return vec![];
    };
    let layer = |name: &str| ENGINE_LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(at) = layer(own) else {
        let outside = own == "simulation";
        return if outside { vec![] } else { vec![format!("{path}: `{own}` has no layer")] };
    };
    let mut complaints = vec![];
    for (line, imported) in imports(&code(text), &module) {
        let other = imported.get(1).filter(|_| imported[0] == "engine");
        let Some(other) = other.filter(|other| *other != own) else { continue };
        if layer(other).is_some_and(|below| below >= at) {
            complaints.push(format!("{path}:{line}: `{other}` is not below `{own}`"));
        }
    }
    complaints
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|name| *name == module)
}

/// `src/engine/watchdog/mod.rs` is the module `engine::watchdog`.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs");
    let parts = path.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main"));
    parts.map(str::to_owned).collect()
}

/// The modules and items that `text` imports by `crate::` or `super::`, with their full paths and
/// the numbers of their lines.
fn imports(text: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = vec![];
    for (at, _) in text.match_indices("crate::") {
        let named = paths(&text[at + "crate::".len()..]);
        found.extend(named.into_iter().map(|path| (line_of(text, at), path)));
    }
    for (at, _) in text.match_indices("super::") {
        if text[..at].ends_with("super::") {
            continue;
        }
        let (mut rest, mut up) = (&text[at..], 0);
        while let Some(after) = rest.strip_prefix("super::") {
            (rest, up) = (after, up + 1);
        }
        let Some(from) = module.len().checked_sub(up) else { continue };
        let named = paths(rest).into_iter().map(|path| [&module[..from], &path].concat());
        found.extend(named.map(|path| (line_of(text, at), path)));
    }
    found
}

/// Every path in a path with groups, such as `a::{b, c::d}`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        return members(group).into_iter().flat_map(paths).collect();
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return vec![];
    }
    let mut below = rest.strip_prefix("::").map(paths).unwrap_or_default();
    if below.is_empty() {
        below.push(vec![]);
    }
    below.iter_mut().for_each(|path| path.insert(0, name.to_owned()));
    below
}

/// Returns the members of a group, such as `b` and `c::d`, up to its closing bracket.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, vec![]);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Folders whose files do not import each other in a circle: libraries, programs and big tests.
const WITHOUT_CIRCLES: [&str; 11] = [
    "src",
    "link/src",
    "cli/src",
    "src/engine/simulation",
    "testkit/src",
    "testkit/src/bin/defects",
    "twin/src",
    "bench/src",
    "chaos/src",
    "interop/src",
    "tests/lock",
];

/// For every folder, lists its files and folders that import each other in a circle. The items of
/// the folder's own `mod.rs` are not checked.
fn circles(root: &str, sources: &[(String, String)]) -> Vec<String> {
    let sources = sources.iter().map(|(path, text)| (module_of(&path[root.len() + 1..]), text));
    let sources: Vec<_> = sources.collect();
    let is_module = |path: &[String]| sources.iter().any(|(module, _)| module == path);
    let mut uses = Uses::new();
    for (module, text) in &sources {
        for (_, path) in imports(&code(text), module) {
            let shared = module.iter().zip(&path).take_while(|(a, b)| a == b).count();
            if let (Some(user), Some(used)) = (module.get(..=shared), path.get(..=shared))
                && is_module(used)
            {
                uses.entry(user.to_owned()).or_default().insert(used.to_owned());
            }
        }
    }
    let around = |module| circle(module, &uses);
    let found: BTreeSet<_> = uses.keys().map(around).filter(|found| !found.is_empty()).collect();
    found.iter().map(|circle| shown(root, circle)).collect()
}

type Uses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The modules in a circle with `module`. They import `module` and are imported by `module`,
/// directly or through other modules.
fn circle(module: &Vec<String>, uses: &Uses) -> BTreeSet<Vec<String>> {
    let comes_back = |other: &Vec<String>| reached(other, uses).contains(module);
    reached(module, uses).into_iter().filter(comes_back).collect()
}

fn reached(module: &Vec<String>, uses: &Uses) -> BTreeSet<Vec<String>> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(module) = next.pop() {
        let used = uses.get(module).into_iter().flatten();
        next.extend(used.filter(|used| seen.insert((*used).clone())));
    }
    seen
}

/// A circle as a text, such as `src/engine: hold, turns`.
fn shown(root: &str, circle: &BTreeSet<Vec<String>>) -> String {
    let mut folder = vec![root];
    let inside = circle.first().map(|module| &module[..module.len() - 1]);
    folder.extend(inside.into_iter().flatten().map(String::as_str));
    let names: Vec<_> = circle.iter().filter_map(|module| module.last()).cloned().collect();
    format!("{}: {}", folder.join("/"), names.join(", "))
}

/// Folders of scripts, and the folders of the sources that use them.
const SCRIPTS: [(&str, &str); 2] =
    [("src/store/redis/kinds", "src/store/redis"), ("src/fence/lua", "src/fence")];

/// The scripts that a source names, by their paths from the repository.
fn named_files(path: &str, text: &str) -> Vec<String> {
    let folder: Vec<_> = path.split('/').collect();
    let folder = &folder[..folder.len() - 1];
    let quoted = text.split('"').skip(1).step_by(2).filter(|name| !name.contains(['\n', ' ']));
    let file = |name: &str| {
        let up = name.split('/').take_while(|part| *part == "..").count();
        let inside = folder.len().checked_sub(up).map(|kept| &folder[..kept])?;
        let name: Vec<_> = inside.iter().copied().chain(name.split('/').skip(up)).collect();
        Some(format!("{}.lua", name.join("/").trim_end_matches(".lua")))
    };
    quoted.filter_map(file).collect()
}

/// A script starts with its signature, and the signature is correct.
fn script(path: &str, text: &str, listed: &BTreeSet<String>) -> Vec<String> {
    let folder = |mark| path.split_once(mark);
    let (_, name) = folder("/kinds/").or_else(|| folder("/lua/")).unwrap_or(("", path));
    let name = name.trim_end_matches(".lua");
    let header: Vec<_> = text.lines().take_while(|line| line.starts_with("--")).collect();
    let body: String = text.lines().skip(header.len()).collect::<Vec<_>>().join("\n");
    let mut complaints = vec![];
    let mut expect = |good: bool, what: String| {
        if !good {
            complaints.push(format!("{path}: {what}"));
        }
    };
    let first = header.first().copied().unwrap_or_default();
    let described = first.starts_with(&format!("-- {name}: ")) && first.ends_with('.');
    expect(described, format!("the first line is no `-- {name}: <what it does>.`"));
    let cost = header.last().is_some_and(|line| line.starts_with("-- Cost: "));
    expect(cost, "the header does not end with a `-- Cost:` line".into());
    expect(listed.contains(path), "nothing lists it".into());

    let (output, used) = (named_arguments(&header), used_arguments(&body));
    for argument in used.difference(&output) {
        expect(false, format!("{argument} is used, and not in the header"));
    }
    for argument in output.difference(&used) {
        expect(false, format!("{argument} is in the header, and not used"));
    }
    let results = header.iter().filter(|line| {
        let text = line.trim_start_matches("--").trim_start();
        line.starts_with("--   ") && text.starts_with(|c: char| c == '{' || c.is_ascii_digit())
    });
    expect(results.count() > 0, "the header does not say what it returns".into());
    complaints
}

/// The arguments in the signature of a header, such as `KEYS[1]`. `KEYS[i]` stands for all keys.
fn named_arguments(header: &[&str]) -> BTreeSet<String> {
    let lines = header.iter().filter_map(|line| line.strip_prefix("--   "));
    lines.flat_map(arguments).collect()
}

fn used_arguments(body: &str) -> BTreeSet<String> {
    // A comment in the body may mention an argument that the code does not use.
    let code = body.lines().map(|line| line.split("--").next().unwrap_or(line));
    let mut used: BTreeSet<_> = code.flat_map(arguments).collect();
    if body.contains("ipairs(KEYS)") {
        used.insert("KEYS[i]".into());
    }
    used
}

fn arguments(line: &str) -> Vec<String> {
    let mut found = vec![];
    for array in ["KEYS[", "ARGV["] {
        for (at, _) in line.match_indices(array) {
            let Some(end) = line[at..].find(']') else { continue };
            // The header writes `ARGV[2i-1]` for the `ARGV[2 * i - 1]` of the code.
            found.push(line[at..=at + end].replace([' ', '*'], ""));
        }
    }
    found
}

/// The highest number of lines of a file, without its tests and its documentation.
const LONGEST: usize = 500;

fn length(path: &str, text: &str) -> Vec<String> {
    let lines = without_tests(text).lines().filter(|line| !is_doc(line)).count();
    match lines > LONGEST {
        true => {
            vec![format!("{path}: {lines} lines without tests and docs; {LONGEST} is the most")]
        }
        false => vec![],
    }
}

/// The name of a test has at most 60 characters. The check reads the names of all functions,
/// because a macro can make a test of any function.
fn long_names(path: &str, text: &str) -> Vec<String> {
    let named = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, function(line)?)));
    let long = named.filter(|(_, name)| name.len() > 60 && !name.contains(' '));
    long.map(|(line, name)| format!("{path}:{line}: `{name}` is too long")).collect()
}

fn leftovers(path: &str, text: &str) -> Vec<String> {
    let mut complaints = vec![];
    for (at, line) in text.lines().enumerate() {
        for word in ["TODO", "FIXME", "XXX", "todo!", "unimplemented!", "#[ignore", "dbg!"] {
            if line.contains(word) {
                complaints.push(format!("{path}:{}: {word}", at + 1));
            }
        }
    }
    for (at, line) in code(text).lines().enumerate() {
        for call in [".unwrap()", ".expect(", "panic!(", ".unwrap_err()"] {
            if line.contains(call) {
                complaints.push(format!("{path}:{}: {call} in code that users run", at + 1));
            }
        }
        if line.contains("unreachable!(") && !line.contains("unreachable!(\"BUG: ") {
            complaints.push(format!("{path}:{}: unreachable! without `BUG:` and why", at + 1));
        }
    }
    complaints
}

/// In the library, only `store/redis` uses the crate `redis`, and no public item exposes a type of
/// this crate.
fn foreign_types(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let inside = path.starts_with("src/store/redis/");
    let mut complaints = vec![];
    let mut foreign = vec![];
    for (at, _) in code.match_indices("redis::") {
        if code[..at].ends_with(|c: char| c == ':' || c.is_alphanumeric() || c == '_') {
            continue;
        }
        if !inside {
            complaints.push(format!("{path}:{}: names the crate redis", line_of(&code, at)));
        }
        if let Some(names) = code[..at].ends_with("use ").then(|| paths(&code[at + 7..])) {
            let names = names.into_iter().filter_map(|path| path.into_iter().next());
            foreign.extend(names.filter(|name| name.starts_with(char::is_uppercase)));
        }
    }
    let items = signatures(&code).into_iter().filter(|(_, it)| !it.starts_with("pub mod "));
    for (line, signature) in items {
        let words: Vec<_> = signature.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let named = foreign.iter().map(String::as_str).chain(["redis"]);
        for name in named.filter(|name| words.contains(name)) {
            complaints.push(format!("{path}:{line}: `{name}` of the crate redis is public"));
        }
    }
    complaints
}

/// `link`, the Redis client, does not use the words of locks.
fn locks(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let words: BTreeSet<_> =
        code.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).collect();
    let used = ["Claim", "Holder", "Name", "Owner", "Verdict", "super::super"];
    let used = used.into_iter().filter(|used| words.iter().any(|word| word.starts_with(used)));
    used.map(|used| format!("{path}: `{used}` is no business of a connection")).collect()
}

/// Async functions that need no section about cancel safety.
const NO_CANCEL_SAFETY: [&str; 0] = [];

/// A function that returns a `Result` documents its errors. An async function documents its cancel
/// safety. The macro `like` writes both sections.
fn sections(path: &str, text: &str) -> Vec<String> {
    let mut complaints = vec![];
    let text = without_tests(text);
    let lines: Vec<_> = text.lines().collect();
    for (line, signature) in signatures(text) {
        let Some(name) = function(&signature) else { continue };
        let docs = docs_above(&lines, line - 1);
        let bounds = signature.find(" where ").unwrap_or(signature.len());
        let returned = signature[..bounds].split("->").last().unwrap_or_default();
        let lacks = |section| !docs.contains(section) && !docs.contains("#[doc = like!(");
        let is_result = returned.trim_start().starts_with("Result<");
        if is_result && lacks("# Errors") {
            complaints.push(format!("{path}:{line}: `{name}` has no `# Errors`"));
        }
        let is_async = signature.contains("async fn") || returned.contains("impl Future");
        if is_async && lacks("# Cancel safety") && !NO_CANCEL_SAFETY.contains(&name) {
            complaints.push(format!("{path}:{line}: `{name}` has no `# Cancel safety`"));
        }
        if docs.trim().is_empty() {
            complaints.push(format!("{path}:{line}: `{name}` is not documented"));
        }
    }
    complaints
}

/// Every public function and type has an example.
fn examples(path: &str, text: &str) -> Vec<String> {
    let text = without_tests(text);
    let lines: Vec<_> = text.lines().collect();
    let items = signatures(text).into_iter().filter(|(_, signature)| {
        ["pub fn", "pub async fn", "pub struct", "pub enum"]
            .iter()
            .any(|it| signature.starts_with(it))
    });
    let shown = ["# Examples", "example!("];
    let bare = items.filter(|(line, _)| {
        let docs = docs_above(&lines, line - 1);
        !shown.iter().any(|example| docs.contains(example))
    });
    bare.map(|(line, signature)| format!("{path}:{line}: `{signature}` has no example")).collect()
}

/// Every `pub` item up to its body, and the number of its first line.
fn signatures(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if !line.trim_start().starts_with("pub ") || line.trim_start().starts_with("pub use ") {
            continue;
        }
        let mut signature = line.trim().to_owned();
        let ends = |text: &str| text.ends_with(['{', ';', ',', '}']) && balanced(text);
        while !ends(&signature) {
            let Some((_, more)) = lines.next() else { break };
            signature = format!("{signature} {}", more.trim());
        }
        found.push((at + 1, signature));
    }
    found
}

/// Whether every parenthesis is closed.
fn balanced(text: &str) -> bool {
    text.matches('(').count() == text.matches(')').count()
}

fn function(signature: &str) -> Option<&str> {
    let (_, rest) = signature.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

/// The documentation above the line `index`, without attributes.
fn docs_above(lines: &[&str], index: usize) -> String {
    let above = lines[..index].iter().rev().map(|line| line.trim_start());
    // There may be attributes within the documentation, and between the documentation and the item.
    let docs = above.take_while(|line| {
        let is_code = line.is_empty() || line.ends_with(['}', '{', ';']);
        line.starts_with("///") || !is_code
    });
    let mut docs: Vec<_> = docs.collect();
    docs.reverse();
    docs.join("\n")
}

/// Every `path.rs::name` in backticks is the name of a test.
fn named_tests(path: &str, text: &str, exists: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let named = in_backticks(text).filter_map(|(line, word)| {
        let (file, name) = word.split_once(".rs::")?;
        Some((line, format!("{file}.rs"), name.to_owned()))
    });
    let missing = named.filter(|(_, file, name)| !exists(file, name));
    missing.map(|(line, file, name)| format!("{path}:{line}: no test {file}::{name}")).collect()
}

/// If a table has a column of tests, every row of it names a test.
fn guarantees(path: &str, text: &str) -> Vec<String> {
    let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let rows = rows.filter(|(_, line)| !line.starts_with("|--") && !line.starts_with("| what"));
    let complaints: Vec<_> = rows
        .clone()
        .filter(|(_, row)| !row.contains(".rs::"))
        .map(|(at, row)| format!("{path}:{}: no test shows this: {row}", at + 1))
        .collect();
    match rows.count() {
        0 => vec![format!("{path}: there is no guarantee in it")],
        _ => complaints,
    }
}

/// Every relative link has a file and, if it has an anchor, a heading in that file. Every
/// `[text](target)` has a target.
fn links(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
    let mut complaints = vec![];
    let inline = text.match_indices("](").map(|(at, _)| {
        let rest = &text[at + 2..];
        (at, rest.split(')').next().unwrap_or_default())
    });
    let below = text.match_indices("\n[").filter_map(|(at, _)| {
        let line = text[at + 1..].lines().next()?;
        Some((at + 1, line.split_once("]: ")?.1))
    });
    for (at, target) in inline.chain(below) {
        if target.contains("://") || target.contains("::") {
            continue;
        }
        let whole = match target.strip_prefix('#') {
            Some(heading) => format!("{path}#{heading}"),
            None => normal(&folder.join(target)),
        };
        if target.is_empty() || !exists(&whole) {
            complaints.push(format!("{path}:{}: no file `{target}`", line_of(text, at)));
        }
    }
    complaints
}

/// Whether `target` exists, such as `docs/x.md` or `docs/x.md#heading`.
fn has_target(target: &str) -> bool {
    let Some((file, anchor)) = target.split_once('#') else { return root(target).exists() };
    root(file).exists() && read(file).lines().any(|line| anchor_of(line).as_deref() == Some(anchor))
}

/// The anchor that GitHub, rustdoc and mdBook create for a heading.
fn anchor_of(line: &str) -> Option<String> {
    let heading =
        line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
}

/// Resolves `..`: `docs/../README.md` becomes `README.md`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = vec![];
    for part in path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()) {
        match part.as_str() {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Every `make something` is a target of the Makefile.
fn make_targets(path: &str, text: &str, makefile: &str) -> Vec<String> {
    let mut complaints = vec![];
    for (at, line) in text.lines().enumerate() {
        for (start, _) in line.match_indices("make ") {
            let is_command = start == 0 || line[..start].ends_with(['`', ' ', '$']);
            let in_code = line[..start].matches('`').count() % 2 == 1 || start == 0;
            let rest = &line[start + "make ".len()..];
            let target: String = rest.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if !is_command || !in_code || target.is_empty() {
                continue;
            }
            if !makefile.lines().any(|rule| rule.starts_with(&format!("{target}:"))) {
                complaints.push(format!("{path}:{}: the Makefile has no `{target}`", at + 1));
            }
        }
    }
    complaints
}

/// Every line of a shell block in `text`, with its number.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut in_shell = false;
    for (at, line) in text.lines().enumerate() {
        match line.trim().strip_prefix("```") {
            Some(language) => in_shell = !in_shell && ["sh", "console"].contains(&language),
            None if in_shell => found.push((at + 1, line.trim_start_matches("$ ").to_owned())),
            None => {}
        }
    }
    found
}

/// Complains about a file of tests that no program of `manifest` runs.
fn orphan(path: &str, manifest: &str, all: &str) -> Option<String> {
    let file = path.trim_start_matches("tests/");
    let is_run = is_program(manifest, file) || all.contains(&format!("#[path = \"../{file}\"]"));
    (!is_run).then(|| format!("{path}: neither in tests/all/main.rs nor a program in Cargo.toml"))
}

/// Whether `manifest` has a test program with this file.
fn is_program(manifest: &str, file: &str) -> bool {
    let name = file.trim_end_matches(".rs").trim_end_matches("/main");
    manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"))
}

/// Every example and every test program that a command names exists. No command adds this crate
/// from a registry.
fn cargo(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = vec![];
    for (line, command) in commands(text) {
        let command = command.split(" #").next().unwrap_or_default();
        let words: Vec<_> = command.split_whitespace().collect();
        for pair in words.windows(2) {
            let folder = match pair[0] {
                "--example" => "examples",
                "--test" => "tests",
                _ => continue,
            };
            let name = pair[1];
            let files = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
            if !files.iter().any(|file| exists(file)) {
                complaints.push(format!("{path}:{line}: {folder} has no `{name}`"));
            }
        }
        let is_from = |word: &&str| ["--git", "--path"].contains(word);
        if words.starts_with(&["cargo", "add", "leasehold"]) && !words.iter().any(is_from) {
            complaints.push(format!("{path}:{line}: no registry has us: `{command}`"));
        }
    }
    complaints
}

/// Literals of several words that users do not see: commands of servers, parts of scripts, `Debug`
/// texts.
const NOT_SHOWN: [&str; 16] = [
    "ACL failure in script",
    "Errors writing to the AOF file",
    "Not enough good replicas",
    "Redis is configured to save",
    "The user executing the script can't",
    "Valkey is configured to save",
    "You can't write",
    "by a function",
    "command not allowed",
    "local function work(KEYS, ARGV) {text}\\nend\\n{EVAL}",
    "local write = function(KEYS, ARGV) {write}\\nend\\n{pass}",
    "max number of clients",
    "nknown command",
    "nsupported command",
    "protected mode",
    "to access a non local key",
];

/// A text that users see. An event or a span also has a level.
struct Shown {
    text: String,
    level: Option<String>,
    at: String,
}

/// The texts of errors and events in a source: every literal of several words, and every message of
/// an event. Examples in attributes and macros do not count. A literal that the code only compares
/// with another text does not count either.
fn shown_texts(path: &str, text: &str) -> Vec<Shown> {
    let text = without_tests(text);
    let (code, literals) = scanned(text);
    let macros = ["macro_rules!", "views!", "group_guard!", "group_run!"];
    let macros = macros.into_iter().flat_map(|mark| blocks(&code, mark));
    let unseen: Vec<_> = macros.chain(attributes(&code)).collect();
    let mut found = vec![];
    for (start, end) in literals {
        if unseen.iter().any(|block| block.contains(&start)) {
            continue;
        }
        let (before, literal) = (code[..start].trim_end(), joined(&text[start + 1..end]));
        let level = level_of(before);
        let is_shown = match &level {
            Some(_) => !before.ends_with("target:"),
            None => has_words(&literal) && !literal.starts_with("BUG: ") && !is_searched(before),
        };
        if is_shown && !NOT_SHOWN.contains(&literal.as_str()) {
            found.push(Shown {
                text: literal,
                level,
                at: format!("{path}:{}", line_of(text, start)),
            });
        }
    }
    found
}

/// `text` with spaces instead of literals and comments, and the positions of the quotation marks of
/// each literal.
fn scanned(text: &str) -> (String, Vec<(usize, usize)>) {
    let (mut code, mut literals) = (String::new(), vec![]);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match c {
            '"' => 2 + end_of_literal(&rest[1..]),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '\'' if rest.starts_with("'\"'") => 3,
            other => {
                code.push(other);
                at += other.len_utf8();
                continue;
            }
        };
        if c == '"' {
            literals.push((at, at + length - 1));
        }
        code.extend(std::iter::repeat_n(' ', length));
        at += length;
    }
    (code, literals)
}

/// The texts of the errors that a script returns. `{}` stands for a value between two literals.
fn script_texts(path: &str, text: &str) -> Vec<Shown> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with("--"));
    let starts = ["error_reply(", "'ERR ", "'WRONGTYPE "];
    let has_error = |line: &str| starts.iter().any(|start| line.contains(start));
    let lines = lines.filter(|(_, line)| has_error(line));
    let shown = lines.map(|(number, line)| {
        let parts: Vec<_> = line.split('\'').collect();
        let mut text = parts.iter().skip(1).step_by(2).copied().collect::<Vec<_>>().join("{}");
        if parts.last().is_some_and(|rest| rest.starts_with(" ..")) {
            text.push_str("{}");
        }
        Shown { text, level: None, at: format!("{path}:{}", number + 1) }
    });
    shown.collect()
}

/// The comments of a source that start with `mark`.
fn comments(text: &str, mark: &str) -> String {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(mark));
    lines.collect::<Vec<_>>().join("\n")
}

/// The length of the literal with which `text` starts.
fn end_of_literal(text: &str) -> usize {
    let mut escaped = false;
    let ends = |c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    };
    text.find(ends).unwrap_or(text.len())
}

/// Every block that starts with `mark`, up to the bracket that closes its first bracket.
fn blocks(code: &str, mark: &str) -> impl Iterator<Item = Range<usize>> {
    code.match_indices(mark).map(|(start, _)| {
        let mut depth = 0;
        let closes = |c: char| {
            depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
            depth == 0 && ")]}".contains(c)
        };
        start..code[start..].find(closes).map_or(code.len(), |length| start + length)
    })
}

/// Every attribute except `#[error(…)]`, which has the text of an error.
fn attributes(code: &str) -> impl Iterator<Item = Range<usize>> {
    blocks(code, "#[").filter(|block| !code[block.start..].starts_with("#[error("))
}

/// The level of the event or span whose call is open at the end of `before`.
fn level_of(before: &str) -> Option<String> {
    let call = &before[before.rfind("tracing::")? + "tracing::".len()..];
    let level = call.split(['!', '_']).next()?;
    let is_open = !call.contains(';') && call.matches('(').count() > call.matches(')').count();
    (is_open && ["debug", "error", "info", "warn"].contains(&level)).then(|| level.to_owned())
}

/// Whether a literal has several words, besides the values that are filled in.
fn has_words(literal: &str) -> bool {
    let parts = literal.split('{').map(|part| part.rsplit('}').next().unwrap_or_default());
    let plain: String = parts.collect();
    plain.contains(' ') && plain.contains(|c: char| c.is_ascii_lowercase())
}

/// Whether the code compares the literal behind `before` with another text.
fn is_searched(before: &str) -> bool {
    let calls = [
        "contains(",
        "starts_with(",
        "ends_with(",
        "split_once(",
        "strip_prefix(",
        "strip_suffix(",
    ];
    calls.iter().any(|call| before.ends_with(call))
}

/// A literal as users read it: on one line, without the escapes of Rust.
fn joined(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let text = lines.fold(first, |text, line| text + line.trim_start());
    text.replace("{{", "{").replace("}}", "}").replace("\\\"", "\"")
}

/// The page has every text exactly once, and every row of the page has a text in the code.
fn messages(page: &str, shown: &[Shown]) -> Vec<String> {
    let mut texts: BTreeMap<&str, (BTreeSet<&str>, &str)> = BTreeMap::new();
    for Shown { text, level, at } in shown {
        let (levels, _) = texts.entry(text).or_insert_with(|| (BTreeSet::new(), at));
        levels.extend(level.as_deref());
    }
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut complaints = vec![];
    let mut expected = BTreeSet::new();
    for (text, (levels, at)) in &texts {
        let levels = levels.iter().copied().collect::<Vec<_>>().join(", ");
        let code = in_code(text);
        let row = match levels.is_empty() {
            true => format!("| {code} | "),
            false => format!("| {code} | {levels} | "),
        };
        let begun = rows.iter().filter(|line| line.starts_with(&row)).count();
        let named = rows.iter().filter(|line| line.contains(&code)).count();
        let in_another_cell = levels.is_empty() && (begun, named) == (0, 1);
        if begun != 1 && !in_another_cell {
            complaints
                .push(format!("{at}: docs/messages.md needs one row `{row}… |`, and has {begun}"));
        }
        expected.insert(row);
    }
    let is_stale = |row: &&&str| !expected.iter().any(|it| row.starts_with(it.as_str()));
    complaints.extend(
        rows.iter().filter(is_stale).map(|row| format!("docs/messages.md: no such text: {row}")),
    );
    complaints
}

fn in_code(text: &str) -> String {
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

/// Words that readers of the documents misunderstood.
const DIALECT: [&str; 11] = [
    "told",
    "heard",
    "said",
    "anew",
    "by and by",
    "so many",
    "beside",
    "is none",
    "is no",
    "on its way",
    "whoever",
];

/// Phrases in which a word of `DIALECT` is allowed.
const PLAIN: [&str; 4] = ["is no longer", "is no more", "there is no", ", so many"];

fn dialect(at: &str, text: &str) -> Vec<String> {
    let mut plain = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    PLAIN.iter().for_each(|phrase| plain = plain.replace(phrase, "…"));
    let is_apart = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    let mut complaints = vec![];
    for phrase in DIALECT {
        for (start, _) in plain.match_indices(phrase) {
            let (before, after) = (&plain[..start], &plain[start + phrase.len()..]);
            if is_apart(before.chars().next_back()) && is_apart(after.chars().next()) {
                let around: String = before.chars().rev().take(40).collect();
                let around: String = around
                    .chars()
                    .rev()
                    .chain(phrase.chars())
                    .chain(after.chars().take(40))
                    .collect();
                complaints.push(format!("{at}: `{phrase}` in: …{around}…"));
            }
        }
    }
    complaints
}

/// The text of a page without its code.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|part| part.split('`').step_by(2)).collect::<Vec<_>>().join("…")
}

/// The documentation of public items.
fn public_docs(text: &str) -> String {
    let (mut docs, mut block) = (String::new(), String::new());
    let (mut is_public_item, mut in_attribute) = (false, false);
    for line in without_tests(text).lines() {
        let bare = line.trim_start();
        if let Some(words) = bare.strip_prefix("///") {
            block = block + words + "\n";
            continue;
        }
        in_attribute |= bare.starts_with("#[");
        if in_attribute {
            in_attribute = !bare.ends_with(']');
            continue;
        }
        if line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            is_public_item = line.starts_with("pub ") || line.starts_with("macro_rules!");
        }
        let is_member = bare.starts_with(char::is_uppercase)
            || bare.split(' ').next().is_some_and(|name| name.ends_with(':'));
        if bare.starts_with("pub ")
            || bare.starts_with("fn ") && is_public_item
            || is_member && is_public_item
        {
            docs.push_str(&block);
        }
        block.clear();
    }
    docs
}

/// Every public field of `Stats` is in the guide.
fn numbers(text: &str, guide: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("pub "));
    let fields = lines.filter_map(|line| line.strip_suffix(',')?.split_once(": "));
    let unsaid = fields.filter(|(field, _)| !guide.contains(&format!("`{field}`")));
    unsaid.map(|(field, _)| format!("the guide does not explain `{field}`")).collect()
}

/// Every variant of `Error` is in a row of a table of the guide.
fn errors(text: &str, guide: &str) -> Vec<String> {
    let body = code(text);
    let body = body.split("pub enum Error {").nth(1).and_then(|rest| rest.split("\n}").next());
    let lines = body.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("    "));
    let variants = lines.filter(|line| line.starts_with(char::is_uppercase));
    let names = variants.filter_map(|line| line.split([' ', '(', ',', '{']).next());
    let unsaid = names.filter(|name| !is_in_a_row(guide, name));
    unsaid.map(|name| format!("the guide has no row for Error::{name}")).collect()
}

/// Every method of a builder that returns the builder is in a row of a table of the guide.
fn settings_of_a_client(text: &str, guide: &str) -> Vec<String> {
    let setters = signatures(text).into_iter().filter(|(_, signature)| {
        signature.contains("fn ") && signature.contains("(mut self,")
            || signature.contains("( mut self,")
    });
    let names = setters.filter_map(|(_, signature)| function(&signature).map(str::to_owned));
    let unsaid = names.filter(|name| !is_in_a_row(guide, name));
    unsaid.map(|name| format!("the guide has no row for the setting {name}")).collect()
}

fn is_in_a_row(guide: &str, name: &str) -> bool {
    guide.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{name}`")))
}

type Api = BTreeSet<(String, String)>;

/// Methods that only tasks have. A thread needs no `acquire_read_with`: while it has the write
/// hold, it acquires a read hold by `acquire`.
const FOR_TASKS_ALONE: [(&str, &str); 13] = [
    // Operators use these methods by the command `leasehold`, which is async.
    ("Client", "client_info"),
    ("Client", "forced_releases"),
    ("Client", "inspect"),
    ("Client", "names"),
    ("Client", "next_names"),
    ("Client", "server_reports"),
    ("Client", "dry_run"),
    ("Lock", "on_loss"),
    ("MultiLock", "on_loss"),
    ("Election", "on_loss"),
    ("ExpirableSemaphore", "on_loss"),
    ("ReadWriteLock", "downgrade"),
    ("ReadWriteLock", "acquire_read_with"),
];
const FOR_THREADS_ALONE: [(&str, &str); 4] = [
    ("Guard", "lost_within"),
    ("Lock", "acquire_owned"),
    ("Lock", "acquire_owned_within"),
    ("Lock", "try_acquire_owned"),
];

/// Types that both APIs use.
const SHARED: [&str; 7] = [
    "ClientBuilder<Made>",
    "LockContext",
    "MultiContext",
    "QuorumContext",
    "RunOutcome<T>",
    "Release",
    "MultiRelease",
];

/// The public methods of the files in `folder`.
fn api(folder: &str) -> Api {
    files(folder, "rs").iter().flat_map(|path| api_of(path)).collect()
}

fn api_of(path: &str) -> Api {
    let macros = ["primitives/settings.rs", "primitives/views.rs", "blocking/face.rs"];
    methods(&read(path), &macros.map(|file| read(Path::new("src").join(file))).concat())
}

/// The public methods of `text`. A call of a macro in `macros`, by `name!(`, counts as the methods
/// that it defines. A row of a table, `fn name(…) -> …;`, counts as a method.
fn methods(text: &str, macros: &str) -> Api {
    let (mut found, mut owner) = (Api::new(), String::new());
    for line in code(text).lines() {
        if let Some(head) = line.strip_prefix("impl") {
            owner = owner_of(head);
        } else if line.starts_with('}') {
            owner.clear();
        }
        if !owner.is_empty() && !SHARED.contains(&&*owner) {
            found.extend(named(line, macros).into_iter().map(|name| (owner.clone(), name)));
        }
    }
    found
}

/// The type of an `impl`: `Guard<Lock>` for `<K, B: Clone> Guard<Lock<K>, B> {`. An `impl` of a
/// trait has no such type.
fn owner_of(head: &str) -> String {
    let (bounds, of) = match head.split_once("> ") {
        Some((bounds, of)) if head.starts_with('<') => (bounds, of),
        _ => ("", head),
    };
    if of.contains(" for ") {
        return String::new();
    }
    let own = |parameter: &str| bounds.contains(parameter);
    let mut of = of.trim_end_matches(" {").trim().replace("crate::", "").replace("<Client>", "");
    if own("B") {
        of = of.replace(", B>", ">");
    }
    if own("K") { of.replace("<K>", "") } else { of }
}

fn named(line: &str, macros: &str) -> Vec<String> {
    let line = line.trim();
    let is_row = line.starts_with("fn ") && line.contains(';');
    let declared = line.strip_prefix("pub ").or_else(|| is_row.then_some(line));
    if let Some(name) = declared.and_then(function) {
        return vec![name.to_owned()];
    }
    let of = line.trim_start_matches("$crate::primitives::").trim_start_matches("settings::");
    let of = of.split("!(").next();
    let body = of.and_then(|of| macros.split(&format!("macro_rules! {of} {{")).nth(1));
    let body = body.and_then(|body| body.split("\n}").next()).unwrap_or_default();
    body.lines().flat_map(|line| named(line, macros)).collect()
}

/// Tasks and threads have the same methods, except those in the lists above.
fn parity(tasks: &Api, threads: &Api) -> Vec<String> {
    let listed = |list: &[(&str, &str)], (owner, method): &(String, String)| {
        list.contains(&(owner.as_str(), method.as_str()))
    };
    let lacking = tasks.difference(threads).filter(|it| !listed(&FOR_TASKS_ALONE, it));
    let surplus = threads.difference(tasks).filter(|it| !listed(&FOR_THREADS_ALONE, it));
    let lacking = lacking.map(|(owner, method)| format!("blocking::{owner} lacks `{method}`"));
    lacking.chain(surplus.map(|(owner, method)| format!("{owner} lacks `{method}`"))).collect()
}

/// `ARCHITECTURE.md` names every source file, and every file that it names exists.
fn architecture(text: &str, sources: &[String], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let separators = |c: char| c.is_whitespace() || "`()[],;│├└─*".contains(c);
    let words: BTreeSet<_> =
        text.split(separators).map(|word| word.trim_end_matches('.')).collect();
    let named: BTreeSet<_> = words
        .into_iter()
        .filter(|word| word.ends_with(".rs") && word.len() > ".rs".len())
        .collect();
    let says =
        |path: &str| named.iter().any(|name| path == *name || path.ends_with(&format!("/{name}")));
    let unsaid = sources.iter().filter(|path| !says(path));
    let mut complaints: Vec<_> =
        unsaid.map(|path| format!("ARCHITECTURE.md does not name {path}")).collect();
    let gone = named.iter().filter(|name| !exists(name));
    complaints.extend(gone.map(|name| format!("ARCHITECTURE.md names {name}, which is gone")));
    complaints
}

// Reading texts.

/// A source without its tests, and with spaces instead of comments and strings. Line numbers stay
/// the same.
fn code(text: &str) -> String {
    without_tests(text).lines().map(|line| without_comment(line) + "\n").collect()
}

fn without_comment(line: &str) -> String {
    let mut in_string = false;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match c {
            '"' if before != '\\' && before != '\'' => in_string = !in_string,
            '/' if before == '/' && !in_string => return line[..at - 1].to_owned(),
            _ => {}
        }
        before = c;
    }
    line.to_owned()
}

/// A file without the tests at its end.
fn without_tests(text: &str) -> &str {
    let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    &text[..end]
}

fn is_doc(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") || line.starts_with("//!")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Every text between two backticks of one line, outside of code blocks.
fn in_backticks(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut block = false;
    text.lines().enumerate().flat_map(move |(at, line)| {
        block ^= line.trim_start().starts_with("```");
        let words = line.split('`').skip(1).step_by(2).map(str::to_owned);
        let words: Vec<_> = if block { vec![] } else { words.collect() };
        words.into_iter().map(move |word| (at + 1, word))
    })
}

// Reading the repository.

fn root(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below `folder` with this extension, sorted.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(root(folder)).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            found.extend(files(&name, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// The sources of the library and of its Redis client.
fn sources() -> impl Iterator<Item = (String, String)> {
    let all = files("src", "rs").into_iter().chain(files("link/src", "rs"));
    all.map(|path| (path.clone(), read(&path)))
}

fn scripts() -> impl Iterator<Item = (String, String)> {
    let all = SCRIPTS.into_iter().flat_map(|(folder, _)| files(folder, "lua"));
    all.map(|path| (path.clone(), read(&path)))
}

fn of_library() -> impl Iterator<Item = (String, String)> {
    sources().filter(|(path, _)| path.starts_with("src/"))
}

/// The sources that are part of a release. Tests are not part of a release, so they may import from
/// any layer.
fn of_users() -> impl Iterator<Item = (String, String)> {
    let test_files = test_files();
    sources().filter(move |(path, _)| !test_files.contains(path))
}

/// Files that contain only tests: their `mod` line has `#[cfg(test)]`.
fn test_files() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in sources() {
        let folder = match path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_owned(),
            None => path.trim_end_matches(".rs").to_owned(),
        };
        for after in text.split("#[cfg(test)]\n").skip(1) {
            let line = after.lines().next().unwrap_or_default();
            let name = line.rsplit(' ').next().and_then(|name| name.strip_suffix(';'));
            if let Some(name) = name.filter(|_| line.contains("mod ")) {
                found.insert(format!("{folder}/{name}.rs"));
                found.extend(files(&format!("{folder}/{name}"), "rs"));
            }
        }
    }
    found
}

fn documents() -> impl Iterator<Item = (String, String)> {
    let at_the_top = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "link/README.md",
    ];
    let all = at_the_top.map(str::to_owned).into_iter().chain(files("docs", "md"));
    all.map(|path| (path.clone(), read(&path)))
}

fn guide() -> String {
    files("docs/guide", "md").iter().map(read).collect()
}

/// Whether `file` or one of its modules has a test `name`. A test program `tests/lock.rs` may be a
/// folder of files, `tests/lock/`.
fn has_test(file: &str, name: &str) -> bool {
    let parts = files(file.trim_end_matches(".rs"), "rs");
    let texts = [file.to_owned()].into_iter().chain(parts);
    let mut texts = texts.filter_map(|part| fs::read_to_string(root(part)).ok());
    texts.any(|text| is_test_in(&text, name.rsplit("::").next().unwrap_or(name)))
}

/// Whether `text` has a function `name` with a test attribute above it.
fn is_test_in(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_named = |line: &str| line.contains(&format!("fn {name}("));
    lines.iter().enumerate().filter(|(_, line)| is_named(line)).any(|(at, _)| {
        let above = lines[..at].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
        above.into_iter().any(|line| line.starts_with("#[") && line.contains("test"))
    })
}

fn is_a_file_called(name: &str) -> bool {
    root(name).exists() || rust_files().any(|path| path.ends_with(&format!("/{name}")))
}

/// Every Rust file of the repository.
fn rust_files() -> impl Iterator<Item = String> {
    let folders = [
        "src", "cli", "link", "tests", "testkit", "twin", "interop", "chaos", "bench", "benches",
        "examples", "apps",
    ];
    let all = folders.into_iter().flat_map(|folder| files(folder, "rs"));
    all.filter(|path| !path.contains("/target/"))
}

fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

// Tests of the checks: each check finds a bad sample.

fn one(complaints: &[String], part: &str) {
    assert!(complaints.len() == 1 && complaints[0].contains(part), "{complaints:?}");
}

#[test]
fn tidy_finds_an_engine_import_that_points_to_a_higher_module() {
    let found = |path: &str, text: &str| engine_layers(path, text).len();
    assert_eq!(found("src/engine/hold.rs", "use super::grant::Grant;"), 0);
    assert_eq!(found("src/engine/contention/request_slot.rs", "use super::entry::Entry;"), 0);
    assert_eq!(found("src/engine/hold.rs", "use super::contention::RequestSlot;"), 1);
    assert_eq!(found("src/engine/grant.rs", "use crate::engine::{retry::Backoff};"), 1);
    assert_eq!(
        found("src/engine/contention/entry.rs", "use crate::engine::watchdog::Watchdog;"),
        1
    );
    assert_eq!(found("src/engine/elsewhere.rs", ""), 1, "a file without a layer is a complaint");
    assert_eq!(found("src/store/mod.rs", "use crate::engine::watchdog::Watchdog;"), 0);
}

#[test]
fn tidy_finds_an_import_from_a_higher_layer() {
    let upward = "use crate::{\n    domain::Name,\n    primitives::{Lock, LockGuard},\n};\n";
    one(&layers("src/engine/acquire.rs", upward), "`primitives` is above `engine`");
    assert!(layers("src/client.rs", upward).is_empty());

    one(&layers("src/store/memory.rs", "use super::super::engine::Engine;"), "above `store`");
    one(&layers("src/error.rs", "use super::store::Store;"), "`store` is above `error`");
    assert!(layers("src/store/redis/keys.rs", "use super::super::memory::X;").is_empty());
    one(&layers("src/domain/name.rs", "fn f() -> crate::engine::X {}"), "src/domain/name.rs:1");
}

#[test]
fn tidy_finds_an_import_from_the_crate_root() {
    one(&layers("src/engine/mod.rs", "use crate::{Client, domain::Name};"), "name its module");
    assert!(layers("src/blocking/client.rs", "use crate::{Client, domain::Name};").is_empty());
}

#[test]
fn tidy_ignores_imports_in_comments_strings_and_tests() {
    let text = "/// [`Lock`](crate::Lock)\nlet x = 1; // crate::Lock\n\
        \n#[cfg(test)]\nmod tests {\n    use crate::client::Client;\n}\n";
    assert!(layers("src/domain/name.rs", text).is_empty());
}

#[test]
fn tidy_finds_files_that_import_each_other() {
    let check = |sources: &[(&str, &str)]| {
        let owned = |(path, text): &(&str, &str)| (format!("it/src/{path}"), (*text).to_owned());
        circles("it/src", &sources.iter().map(owned).collect::<Vec<_>>())
    };
    // Circles of two files with both forms of paths, of three files, and of a file and a folder.
    let two = [("e/a.rs", "use super::{X, b::B};"), ("e/b.rs", "fn f() -> crate::e::a::A {}")];
    one(&check(&two), "it/src/e: a, b");
    let three = [
        ("a.rs", "use crate::{\n    b::{self, C, d::D},\n};"),
        ("b.rs", "use super::c::C;"),
        ("c.rs", "use crate::a::A;"),
        ("d.rs", "use crate::{a, c};"),
    ];
    one(&check(&three), "it/src: a, b, c");
    let folder = [
        ("a.rs", "use crate::k::K;"),
        ("k/mod.rs", "mod s;"),
        ("k/s.rs", "use super::super::a::A;"),
    ];
    one(&check(&folder), "it/src: a, k");

    // These imports form no circle: imports in one direction, in tests, in comments, and of the
    // items of the folder itself.
    assert!(check(&[("a.rs", "use crate::b::B;"), ("b.rs", "use super::A;")]).is_empty());
    let test = "// crate::a\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
    assert!(check(&[("a.rs", "use crate::b::B;"), ("b.rs", test)]).is_empty());
    let own = [("k/mod.rs", "mod s;\nuse s::S;\nstruct K;"), ("k/s.rs", "use super::K;")];
    assert!(check(&own).is_empty());
}

const SCRIPT: &str = "-- lock/try: do a thing.\n--\n--   KEYS[1]  lock\n--   ARGV[1]  owner\n--\n\
    --   1        done\n--\n-- Cost: one GET.\n\nreturn redis.call('GET', KEYS[1], ARGV[1])\n";

#[test]
fn tidy_finds_a_script_with_a_wrong_header() {
    let path = "src/store/redis/kinds/lock/try.lua";
    let listed = |source, text| BTreeSet::from_iter(named_files(source, text));
    let list = listed("src/store/redis/kinds/lock/mod.rs", "script!(\"../holder\", \"try\")");
    let check = |from: &str, to: &str| script(path, &SCRIPT.replace(from, to), &list);
    assert!(check("", "").is_empty(), "{:?}", check("", ""));

    one(&check("lock/try: ", "lock/retry: "), "first line");
    one(&check("-- Cost: one GET.", "-- One GET."), "Cost");
    one(&check("--   ARGV[1]  owner\n", ""), "ARGV[1] is used");
    one(&check(", ARGV[1]", ""), "ARGV[1] is in the header");
    one(&check("--   1        done\n", ""), "returns");
    let elsewhere = listed("src/store/redis/kinds/latch/mod.rs", "script!(\"try\")");
    one(&script(path, SCRIPT, &elsewhere), "nothing lists it");
    let by_its_path = listed("src/store/redis/mod.rs", "include_str!(\"kinds/lock/try.lua\")");
    assert!(script(path, SCRIPT, &by_its_path).is_empty());
}

#[test]
fn tidy_finds_a_file_that_is_too_long() {
    let long = "let a = 1;\n".repeat(LONGEST + 1);
    one(&length("src/a.rs", &long), "501 lines");
    let documented = "/// Words.\n".repeat(LONGEST + 1);
    assert!(length("src/a.rs", &documented).is_empty());
    let tested = format!("fn a() {{}}\n\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    assert!(length("src/a.rs", &tested).is_empty());
}

#[test]
fn tidy_finds_a_test_name_that_is_too_long() {
    let check = |length| {
        let test = format!("#[test]\nfn {}() {{}}\n", "a".repeat(length));
        long_names("tests/a.rs", &test)
    };
    assert!(check(60).is_empty());
    one(&check(61), "tests/a.rs:2");
}

#[test]
fn tidy_finds_todos_and_panics() {
    let check = |line: &str| leftovers("src/a.rs", line);
    one(&check("// TODO: later"), "TODO");
    one(&check("let a = b.unwrap();"), "unwrap");
    one(&check("let a = b.expect(\"c\");"), "expect");
    one(&check("unreachable!(\"never\")"), "BUG");
    assert!(check("/// let a = b.unwrap();").is_empty());
    assert!(check("let a = b.unwrap_or_else(c);").is_empty());
    assert!(check("unreachable!(\"BUG: why\")").is_empty());
    assert!(check("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    b.unwrap();\n}\n").is_empty());
}

#[test]
fn tidy_finds_a_type_of_the_redis_crate_outside_its_store() {
    one(&foreign_types("src/client.rs", "use redis::Value;"), "names the crate redis");
    assert!(foreign_types("src/client.rs", "use crate::store::redis::Settings;").is_empty());
    assert!(foreign_types("src/fence/mod.rs", "pub mod redis;").is_empty());
    let inside = "src/store/redis/replies.rs";
    let text = "use redis::{Cmd, Value};\npub fn a(\n    value: &Value,\n) -> u8 {\n";
    one(&foreign_types(inside, text), "`Value` of the crate redis is public");
    assert!(foreign_types(inside, &text.replace("pub fn", "pub(super) fn")).is_empty());
}

#[test]
fn tidy_finds_a_mention_of_locks_in_the_link_crate() {
    one(&locks("a.rs", "use crate::domain::{Failure, Name};"), "`Name`");
    one(&locks("a.rs", "use super::super::keys;"), "`super::super`");
    assert!(locks("a.rs", "use rustls::ServerName;\nuse super::wire::Wire;").is_empty());
}

#[test]
fn tidy_finds_public_items_without_an_example() {
    one(&examples("src/a.rs", "/// Does it.\npub fn a() {\n"), "`pub fn a() {` has no example");
    one(&examples("src/a.rs", "/// Is it.\npub struct A {\n"), "has no example");
    assert!(examples("src/a.rs", "/// Is it.\n///\n/// # Examples\npub struct A;\n").is_empty());
    assert!(examples("src/a.rs", "pub(crate) fn a() {\n").is_empty());
}

#[test]
fn tidy_finds_functions_without_an_errors_section() {
    let fails = "/// Does it.\npub fn a(\n    b: u8,\n) -> Result<u8> {\n";
    one(&sections("src/a.rs", fails), "`a` has no `# Errors`");
    let output = fails.replace("it.\n", "it.\n///\n/// # Errors\n///\n/// Never.\n#[must_use]\n");
    assert!(sections("src/a.rs", &output).is_empty());

    let like = "#[doc = like!(read \"b\")]\npub async fn a() -> Result<u8> {\n";
    assert!(sections("src/a.rs", like).is_empty());

    let leaves = "/// Does it.\npub async fn a() {\n";
    one(&sections("src/a.rs", leaves), "`a` has no `# Cancel safety`");
    let waits = "/// Does it.\npub fn a() -> impl Future<Output = u8> {\n";
    one(&sections("src/a.rs", waits), "`a` has no `# Cancel safety`");
    one(&sections("src/a.rs", "pub fn a() {\n"), "`a` is not documented");
    assert!(sections("src/a.rs", "pub(crate) async fn a() -> Result<()> {\n").is_empty());
}

#[test]
fn tidy_finds_a_reference_to_a_missing_test() {
    let text = "#[tokio::test]\nasync fn it_is_so() {}\n\nfn helper() {}\n";
    assert!(is_test_in(text, "it_is_so"));
    assert!(!is_test_in(text, "helper"));
    assert!(!is_test_in(text, "it_is"));

    let name = "two_clients_exclude_each_other";
    for file in ["tests/lock.rs", "tests/lock/exclusion.rs"] {
        assert!(has_test(file, name) && !has_test(file, "two_clients"), "{file}");
    }
    assert!(!has_test("tests/run.rs", name));

    let exists = |file: &str, name: &str| file == "tests/a.rs" && name == "b";
    assert!(named_tests("docs/x.md", "as `tests/a.rs::b` shows", &exists).is_empty());
    one(&named_tests("docs/x.md", "\nas `tests/a.rs::c` shows", &exists), "docs/x.md:2");
}

#[test]
fn tidy_finds_a_guarantee_without_a_test() {
    let good = "| what happens | shown by |\n|---|---|\n| killed | `tests/a.rs::b` |\n";
    assert!(guarantees("g.md", good).is_empty());
    one(&guarantees("g.md", &format!("{good}| stopped | we hope |\n")), "stopped");
    one(&guarantees("g.md", "words"), "no guarantee");
}

#[test]
fn tidy_finds_a_link_without_a_target() {
    let exists = |target: &str| ["README.md", "README.md#b", "docs/x.md#e"].contains(&target);
    let check = |text: &str| links("docs/x.md", text, &exists);
    assert!(
        check("[a](../README.md#b) [c](https://example.org) [d](#e) [f](crate::Lock)").is_empty()
    );
    one(&check("[a](README.md)"), "docs/x.md:1");
    one(&check("[a](../README.md#c)"), "README.md#c");
    one(&check("[a](#c)"), "#c");
    assert_eq!(anchor_of("## Who holds a lock, `now`?").as_deref(), Some("who-holds-a-lock-now"));
    assert_eq!(anchor_of("#[test]"), None);
    one(&check("[a]()"), "no file");
    one(&check("See [a].\n\n[a]: gone.md\n"), "docs/x.md:3");
}

#[test]
fn tidy_finds_a_make_target_that_does_not_exist() {
    let makefile = "test: ## runs\n";
    assert!(make_targets("README.md", "Run `make test`.\nmake test\n", makefile).is_empty());
    assert!(make_targets("README.md", "We make no promise.", makefile).is_empty());
    one(&make_targets("README.md", "Run `make sense`.", makefile), "`sense`");
    one(&make_targets("README.md", "make sense SEEDS=3", makefile), "`sense`");
}

#[test]
fn tidy_finds_a_cargo_command_that_cannot_be_run() {
    let check = |line: &str| {
        let text = format!("Look:\n```sh\n{line}\n```\ncargo add leasehold\n");
        cargo("README.md", &text, &|file| file == "examples/web.rs" || file == "tests/lock/main.rs")
    };
    assert!(check("cargo run --example web # --example gone").is_empty());
    assert!(check("$ cargo test --test lock").is_empty());
    assert!(check("cargo add leasehold --path ../leasehold").is_empty());
    one(&check("cargo run --example gone"), "README.md:3: examples has no `gone`");
    one(&check("X=1 cargo test --test gone"), "tests has no `gone`");
    one(&check("cargo add leasehold # --path ."), "no registry has us");
}

#[test]
fn tidy_finds_a_test_file_that_no_program_runs() {
    let (manifest, all) = ("[[test]]\nname = \"all\"\n", "#[path = \"../a.rs\"]\nmod a;\n");
    assert_eq!(orphan("tests/all/main.rs", manifest, all), None);
    assert_eq!(orphan("tests/a.rs", manifest, all), None);
    assert!(orphan("tests/b.rs", manifest, all).is_some());
}

#[test]
fn tidy_finds_a_missing_or_obsolete_file_in_the_architecture() {
    let sources = ["src/lib.rs".to_owned(), "src/engine/held.rs".to_owned()];
    let check = |text: &str| architecture(text, &sources, &|name| name != "gone.rs");
    assert!(check("`src/lib.rs`, then `engine/held.rs`.").is_empty());
    one(&check("├── lib.rs"), "src/engine/held.rs");
    one(&check("lib.rs held.rs gone.rs"), "gone.rs");
}

#[test]
fn tidy_finds_an_error_or_setting_missing_in_the_guide() {
    let text = "pub enum Error {\n    /// Why.\n    Lost {\n        name: Name,\n    },\n    \
        #[error(\"x\")]\n    ShutDown,\n    Name(#[from] InvalidName),\n}\nenum Other {\n    No,\n}\n";
    one(&errors(text, "| `Lost` | gone |\n| `Name` | bad |\nAnd `ShutDown`.\n"), "ShutDown");
    assert!(errors(text, "| `Lost`, `ShutDown` |\n| `Name` |\n").is_empty());

    let set = "    pub fn ttl(mut self, ttl: u8) -> Self {\n    pub fn connect(self) -> u8 {\n";
    one(&settings_of_a_client(set, "nothing"), "the setting ttl");
    let long = "    pub fn certificate(\n        mut self,\n        key: u8,\n    ) -> Self {\n";
    one(&settings_of_a_client(long, "nothing"), "the setting certificate");
    assert!(settings_of_a_client(set, "| `ttl` | 30 s |").is_empty());
}

#[test]
fn tidy_finds_a_method_that_only_one_of_the_two_apis_has() {
    let settings = "macro_rules! settings {\n    pub fn ttl(self) {\n    replicated!(x);\n}\n\
        macro_rules! replicated {\n    pub fn replicated(self) {\n}\n";
    let of = |text: &str| methods(text, settings);
    let tasks =
        of("impl<K> Lock<K> {\n    settings!(\"x\");\n    pub async fn a(&self) {\n    fn b() {\n");
    let named = |(owner, method): &(String, String)| format!("{owner}::{method}");
    let all: Vec<_> = tasks.iter().map(named).collect();
    assert_eq!(all, ["Lock::a", "Lock::replicated", "Lock::ttl"]);
    assert!(parity(&tasks, &tasks).is_empty());

    let threads = of("impl<K> Lock<K> {\n    settings!(\"x\");\n");
    one(&parity(&tasks, &threads), "blocking::Lock lacks `a`");
    one(&parity(&threads, &tasks), "Lock lacks `a`");
    let row = of("impl<K> Lock<K> {\n    settings!(\"x\");\n        fn a() -> u8; \"it.a()\"\n");
    assert!(parity(&tasks, &row).is_empty());

    assert!(of("impl<Made> ClientBuilder<Made> {\n    pub fn ttl(self) {\n").is_empty());
    assert!(of("impl<K> fmt::Debug for Lock<K> {\n    pub fn ttl(self) {\n").is_empty());
    let moving = of("impl<K, B: Clone> Guard<Lock<K>, B> {\n    pub fn count(&self) {\n");
    assert_eq!(moving, of("impl<K> Guard<Lock<K>> {\n    pub fn count(&self) {\n"));
    assert_ne!(moving, of("impl<K> Guard<K> {\n    pub fn count(&self) {\n"));
}

#[test]
fn tidy_finds_forbidden_words() {
    one(
        &dialect("a.md", &prose("A waiter is\ntold. `told`, untold, a\n```\nsaid\n```\nend")),
        "`told` in",
    );
    one(&dialect("a.md", "This is no promise."), "`is no`");
    assert!(dialect("a.md", "There is no bound. It is no longer held, so many wait.").is_empty());
    let code = "/// Public.\n#[must_use]\npub fn a() {}\n\n/// Private.\nfn b() {}\n\n/// Inside.\n\
        pub(crate) fn c() {}\n\npub enum D {\n    /// Variant.\n    E {\n        /// Field.\n        f: u8,\n";
    assert_eq!(public_docs(code), " Public.\n Variant.\n Field.\n");
    assert_eq!(comments("-- a: b.\nlocal c\n    -- d\n", "--"), " a: b.\n d");
}

#[test]
fn tidy_finds_a_metric_that_the_guide_does_not_explain() {
    one(&numbers("    pub held: u64,\n    granted: u64,\n", "`granted`"), "`held`");
}

#[test]
fn tidy_finds_a_missing_or_obsolete_text_in_messages() {
    let code = "#[doc = \"an example\"] #[error(\"no `{0}` \\\n  {{here}}\")]\n\
        tracing::warn!(target: \"leasehold\", x(),\n \"lost\"); // \"a word\"\n\
        it.contains(\"a word\"); tracing::debug!(target: \"leasehold\", \"lost\");\n";
    let shown = shown_texts("src/a.rs", code);
    let page = "| `` no `{0}` {here} `` | x |\n| `lost` | debug, warn | x |\n";
    assert!(messages(page, &shown).is_empty(), "{:?}", messages(page, &shown));
    one(&messages(&page.replace("debug, ", ""), &shown)[..1], "one row `| `lost` | debug, warn | ");
    one(&messages(&format!("{page}| `gone` | x |\n"), &shown), "no such text: | `gone`");
    let lacking = page.split_once('\n').map_or("", |(_, rest)| rest);
    one(&messages(lacking, &shown), "src/a.rs:1");

    let script = "-- redis.error_reply('ERR no')\nreturn redis.error_reply('BAD ' .. KEYS[1])\n\
        return {3, 'ERR ' .. what .. ' is bad'}\n";
    let shown = script_texts("a.lua", script);
    assert!(messages("| `BAD {}` | x |\n| `ERR {} is bad` | x |\n", &shown).is_empty());
    one(&messages("| `BAD {}` | x |\n", &shown), "a.lua:3");
}
