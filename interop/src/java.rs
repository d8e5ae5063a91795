//! The Java process: how it is started, shut down and killed.

use std::io::ErrorKind;
use std::process::{Command, ExitStatus};

use crate::process::Process;
use crate::setup::Setup;
use crate::thread::Thread;

/// A Java process with one Redisson client.
///
/// Dropping this value **kills** the process. Its locks stay held until their leases end.
#[derive(Debug)]
pub struct Java {
    process: Process,
    id: String,
    version: String,
}

impl Java {
    /// Starts a process and waits for about half a second, until its Redisson client is connected.
    ///
    /// # Panics
    ///
    /// If Java or the jars are missing, or Redisson cannot connect.
    #[must_use]
    #[track_caller]
    pub fn start(setup: &Setup) -> Self {
        let mut command = java(setup, "leasehold.interop.Main");
        command.args(setup.arguments());
        let process = match Process::start(command) {
            Ok(process) => process,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                panic!("Java is missing; install it: make interop")
            }
            Err(e) => panic!("Java does not start: {e}"),
        };
        let ready = process.ready();
        assert!(ready["ready"] == true, "Redisson does not start: {ready}");
        Self { id: process.text("id"), version: process.text("version"), process }
    }

    /// A thread of the process. The thread starts with its first call.
    #[must_use]
    pub fn thread(&self, name: &str) -> Thread {
        self.process.thread(name)
    }

    /// `redisson.getId()`: the part of an owner in Redis before the colon.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version of Redisson.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The id of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Calls `redisson.shutdown()`, and ends the process. Locks stay held until their leases end.
    ///
    /// # Panics
    ///
    /// If Redisson throws an exception, or if the process does not end.
    #[track_caller]
    pub fn shutdown(self) -> ExitStatus {
        self.process.shutdown()
    }

    /// Kills the process by SIGKILL, like a crash. Its locks stay held until their leases end.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Returns the command that runs `class` with the Redisson version of `setup`. The caller adds all
/// other arguments.
///
/// # Panics
///
/// If the jars are missing.
#[must_use]
#[track_caller]
pub fn java(setup: &Setup, class: &str) -> Command {
    let jars = setup.jars();
    assert!(jars.is_dir(), "{} is missing; build it: interop/build.sh", jars.display());
    let mut command = Command::new("java");
    command.args(QUICK_START).arg("-cp").arg(jars.join("*")).arg(class);
    command
}

/// A process runs for seconds, so optimised compilation would cost more time than it saves.
const QUICK_START: [&str; 3] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"];
