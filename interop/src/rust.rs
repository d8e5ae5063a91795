//! Leasehold in a separate process, with the commands of the Java process.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::process::Process;
use crate::setup::Setup;
use crate::thread::{PATIENCE, Thread};

/// A process with one Leasehold client in it: the binary `rust_peer`.
///
/// It takes the same commands as [`Java`](crate::Java), so that a test is written once for both. Of
/// the [`Setup`] it uses the settings that Leasehold has: the lease of the watchdog is its *ttl*.
///
/// Dropping it **kills** it together with its holds.
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
        let process = Process::start(command).unwrap_or_else(|e| panic!("no rust_peer: {e}"));
        let ready = process.ready();
        assert!(ready["ready"] == true, "Leasehold does not start: {ready}");
        Self { id: process.text("id"), process }
    }

    /// A task that stands for a thread. Other tasks see it as a separate holder.
    #[must_use]
    pub fn thread(&self, name: &str) -> Thread {
        self.process.thread(name)
    }

    /// `Client::id`: the part before the colon in the owner that Redis sees.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `Stats::waiting`: the number of its waiting tasks.
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

    /// SIGKILL: a crash with holds.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Tests run in the folder `deps` of their profile, and binaries are in the folder above.
fn binary() -> PathBuf {
    let test = env::current_exe().expect("a running program has a path");
    let mut dir = test.parent().expect("a program is in a directory");
    if dir.file_name().and_then(OsStr::to_str) == Some("deps") {
        dir = dir.parent().expect("a profile has a directory");
    }
    dir.join("rust_peer")
}
