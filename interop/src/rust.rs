//! Leasehold in a separate process, which executes the same commands as the Java process.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::process::Process;
use crate::setup::Setup;
use crate::thread::{PATIENCE, Thread};

/// A process with one Leasehold client: the binary `rust_peer`.
///
/// The process executes the same commands as [`Java`](crate::Java), so one test can use both
/// processes. It uses those settings of [`Setup`] that Leasehold has. The lease of the watchdog is
/// the *ttl* of Leasehold.
///
/// Dropping this value **kills** the process. Its locks stay held until their leases end.
#[derive(Debug)]
pub struct Rust {
    process: Process,
    id: String,
}

impl Rust {
    /// Starts a process and waits until its client is connected.
    ///
    /// # Panics
    ///
    /// If the binary is missing, or the client cannot connect.
    #[must_use]
    #[track_caller]
    pub fn start(setup: &Setup) -> Self {
        let mut command = Command::new(binary());
        command.args(setup.arguments());
        let process =
            Process::start(command).unwrap_or_else(|e| panic!("rust_peer does not start: {e}"));
        let ready = process.ready();
        assert!(ready["ready"] == true, "Leasehold does not start: {ready}");
        Self { id: process.text("id"), process }
    }

    /// A task of the process, which replaces a Java thread. Each task is a separate holder.
    #[must_use]
    pub fn thread(&self, name: &str) -> Thread {
        self.process.thread(name)
    }

    /// `Client::id`: the part of an owner in Redis before the colon.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `Stats::waiting`: how many tasks of the process wait.
    ///
    /// # Panics
    ///
    /// If the process does not reply.
    #[must_use]
    #[track_caller]
    pub fn waiting(&self) -> u64 {
        let asked = self.thread("waiting").on_lock("waiting", "nothing", json!({}));
        asked.wait(PATIENCE).number().unsigned_abs()
    }

    /// Kills the process by SIGKILL, like a crash. Its locks stay held until their leases end.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Tests are in the folder `deps` of the build profile, and binaries in the folder above it.
fn binary() -> PathBuf {
    let test = env::current_exe().expect("a running program has a path");
    let mut dir = test.parent().expect("a program is in a directory");
    if dir.file_name().and_then(OsStr::to_str) == Some("deps") {
        dir = dir.parent().expect("a profile has a directory");
    }
    dir.join("rust_peer")
}
