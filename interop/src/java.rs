//! The Java process: started, told to leave, or killed.

use std::io::ErrorKind;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::lines::Lines;
use crate::pending::Pending;
use crate::setup::Setup;
use crate::thread::{PATIENCE, Thread};

/// A Java process with one Redisson client in it.
///
/// Dropping it **kills** it, with all its locks held.
#[derive(Debug)]
pub struct Java {
    process: Child,
    lines: Arc<Lines>,
    id: String,
    version: String,
}

impl Java {
    /// Starts a process and waits until its Redisson is connected, half a second or so.
    ///
    /// # Panics
    ///
    /// If Java or our jars are missing, or Redisson cannot connect.
    #[must_use]
    #[track_caller]
    pub fn start(setup: &Setup) -> Self {
        let jars = setup.jars();
        assert!(jars.is_dir(), "{} is missing; build it: make interop", jars.display());

        let mut process = match Command::new("java")
            .args(QUICK_START)
            .arg("-cp")
            .arg(jars.join("*"))
            .arg("leasehold.interop.Main")
            .args(setup.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        {
            Ok(process) => process,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                panic!("Java is missing; install it: make interop")
            }
            Err(e) => panic!("Java does not start: {e}"),
        };
        let commands = process.stdin.take().expect("we asked for a pipe");
        let answers = process.stdout.take().expect("we asked for a pipe");
        let Some((ready, lines)) = Lines::open(commands, answers) else {
            let status = process.wait();
            panic!("Java ended without a word ({status:?}); see stderr");
        };
        assert!(ready["ready"] == true, "Redisson does not start: {ready}");

        let text = |field: &str| {
            ready[field].as_str().unwrap_or_else(|| panic!("no `{field}` in {ready}")).to_owned()
        };
        Self { id: text("id"), version: text("version"), process, lines: Arc::new(lines) }
    }

    /// A thread of the process, which begins to exist with its first call.
    #[must_use]
    pub fn thread(&self, name: &str) -> Thread {
        Thread::new(Arc::clone(&self.lines), name)
    }

    /// `redisson.getId()`: the part before the colon in the owner that Redis sees.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version of Redisson.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// `redisson.shutdown()`, then the end of the process. Locks stay until they expire.
    ///
    /// # Panics
    ///
    /// If Redisson throws or does not come to an end.
    #[track_caller]
    pub fn shutdown(mut self) -> ExitStatus {
        let mut command = Map::new();
        command.insert("op".into(), Value::from("shutdown"));
        let done = Pending::new("shutdown".into(), self.lines.send(command)).wait(PATIENCE);
        assert!(done.is_true(), "shutdown answered {done:?}");
        self.process.wait().expect("our own child")
    }

    /// SIGKILL: a crash with all locks held.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // It may have ended by itself; either way it must not stay.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// A process lives for seconds here: compiling it well would take longer than running it.
const QUICK_START: [&str; 3] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"];
