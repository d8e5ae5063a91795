//! The machine of the measurement.

use std::{fs, process::Command, thread::available_parallelism};

/// Facts about the machine and the programs on it.
#[derive(Debug)]
pub struct Machine {
    /// The facts, each with a name and a value.
    pub facts: Vec<(String, String)>,
}

impl Machine {
    /// Collects the facts.
    #[must_use]
    pub fn here() -> Self {
        let cores = available_parallelism().map_or(0, usize::from).to_string();
        let facts = [
            ("processor", processor()),
            ("cores", cores),
            ("kernel", read("/proc/sys/kernel/osrelease")),
            ("redis", text_out("redis-server", &["--version"])),
            ("rust", text_out("rustc", &["--version"])),
            ("go", text_out("go", &["version"])),
            ("java", text_out("java", &["-version"])),
        ];
        Self { facts: facts.map(|(what, value)| (what.to_owned(), value)).into() }
    }
}

fn processor() -> String {
    let about = read("/proc/cpuinfo");
    let model = about.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    model.unwrap_or("unknown").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The first line that a program prints on stdout or stderr.
fn text_out(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else { return "none".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("none").to_owned()
}
