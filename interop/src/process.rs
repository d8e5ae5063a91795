//! A process that executes commands. Each command is one line of JSON.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::{io, panic::Location};

use serde_json::{Map, Value};

use crate::lines::Lines;
use crate::pending::Pending;
use crate::thread::{PATIENCE, Thread};

/// A process that is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Arc<Lines>,
    ready: Value,
}

impl Process {
    /// Starts the process and waits for its first line of output.
    ///
    /// # Errors
    ///
    /// If the process cannot be started.
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let asked_by = Location::caller();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let commands = child.stdin.take().expect("stdin is a pipe");
        let answers = child.stdout.take().expect("stdout is a pipe");
        let Some((ready, lines)) = Lines::open(commands, answers) else {
            let status = child.wait();
            panic!("{command:?} of {asked_by} ended without output ({status:?}); see stderr");
        };
        Ok(Self { child, lines: Arc::new(lines), ready })
    }

    /// The first line of output of the process.
    pub(crate) fn ready(&self) -> &Value {
        &self.ready
    }

    /// A text in the first line of the output.
    #[track_caller]
    pub(crate) fn text(&self, field: &str) -> String {
        let text = self.ready[field].as_str();
        text.unwrap_or_else(|| panic!("no `{field}` in {}", self.ready)).to_owned()
    }

    pub(crate) fn thread(&self, name: &str) -> Thread {
        Thread::new(Arc::clone(&self.lines), name)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        // The kill fails if the process has already ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    #[track_caller]
    pub(crate) fn shutdown(mut self) -> ExitStatus {
        let mut command = Map::new();
        command.insert("op".into(), Value::from("shutdown"));
        let done = Pending::new("shutdown".into(), self.lines.send(command)).wait(PATIENCE);
        assert!(done.is_true(), "the reply to shutdown was {done:?}");
        self.child.wait().expect("a child process can be waited for")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
