//! Processes that a test can kill.
//!
//! A thread or a task cannot die without any cleanup. So a holder that must die is a separate
//! process, which runs an example of the workspace.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::child::{Tethered, tied};
use crate::clock::clock;

/// An example of the workspace, in a separate process.
///
/// The process is killed when this value is dropped, and when the test is killed.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// let holder = testkit::Helper::example("holder", &["redis://127.0.0.1:6379/"]);
/// holder.wait_for_line(|line| line == "held", Duration::from_secs(5));
/// holder.kill();
/// ```
#[derive(Debug)]
pub struct Helper {
    name: String,
    process: Tethered,
    input: Mutex<Option<ChildStdin>>,
    output: Mutex<Receiver<String>>,
}

impl Helper {
    /// Starts the example that cargo has built next to the running test.
    ///
    /// # Panics
    ///
    /// If the example was not built. `cargo test` builds examples, `cargo test --test name` does
    /// not.
    pub fn example(name: &str, args: &[&str]) -> Self {
        let mut command = tied(&path_of_example(name));
        command.env_remove("REDIS_URL");
        Self::start(name, command, args)
    }

    /// Starts an example as [`example`](Self::example) does, with `REDIS_URL` in its environment.
    ///
    /// # Panics
    ///
    /// For the same reason as [`example`](Self::example).
    pub fn example_on(url: &str, name: &str, args: &[&str]) -> Self {
        let mut command = tied(&path_of_example(name));
        command.env("REDIS_URL", url);
        Self::start(name, command, args)
    }

    fn start(name: &str, mut command: Command, args: &[&str]) -> Self {
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Tethered::start(command);
        let input = process.child().stdin.take();
        let output = process.child().stdout.take().expect("stdout is a pipe");
        let output = Mutex::new(lines_of(output));
        Self { name: name.into(), process, input: Mutex::new(input), output }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits for a line of output for which `is_it` returns true. Drops the lines before it.
    ///
    /// # Panics
    ///
    /// If no such line comes within `limit`. The message shows the lines that came.
    #[track_caller]
    pub fn wait_for_line(&self, is_it: impl Fn(&str) -> bool, limit: Duration) -> String {
        let started = clock();
        let mut others = Vec::new();
        loop {
            let line = self.receive(limit.saturating_sub(started.elapsed()));
            match line {
                Ok(line) if is_it(&line) => return line,
                Ok(line) => others.push(line),
                Err(why) => panic!("{}: {why} Lines so far: {others:#?}", self.name),
            }
        }
    }

    /// Waits for the next line of output.
    ///
    /// # Panics
    ///
    /// If no line comes within `limit`.
    #[track_caller]
    pub fn next_line(&self, limit: Duration) -> String {
        self.wait_for_line(|_| true, limit)
    }

    /// Waits until the process closes its output, and returns all remaining lines.
    ///
    /// # Panics
    ///
    /// If the process does not close its output within `limit`.
    #[track_caller]
    pub fn lines(&self, limit: Duration) -> Vec<String> {
        let (started, mut lines) = (clock(), Vec::new());
        loop {
            match self.receive(limit.saturating_sub(started.elapsed())) {
                Ok(line) => lines.push(line),
                Err(_) if started.elapsed() < limit => return lines,
                Err(why) => panic!("{}: {why} Lines so far: {lines:#?}", self.name),
            }
        }
    }

    /// Sends a line to the standard input of the process.
    ///
    /// # Panics
    ///
    /// If the process no longer reads its input.
    #[track_caller]
    pub fn send_line(&self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().expect("its input was closed by `wait`");
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .expect("the process reads its input");
    }

    /// Kills the process, paused or not, and waits until it has ended.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Pauses the process, and returns when it is paused.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets a paused process continue.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Closes the standard input of the process, and waits until it ends.
    pub fn wait(&self) -> ExitStatus {
        self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.process.wait()
    }

    fn receive(&self, limit: Duration) -> Result<String, String> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Disconnected => "it has closed its output.".into(),
            RecvTimeoutError::Timeout => "the line did not come in time.".into(),
        })
    }
}

/// Reads lines in a thread, so that a caller can wait for a line with a limit.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines();
        // Without a receiver, the thread still reads, so that the process can write.
        lines.map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    receive
}

fn path_of_example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a running program has a path");
    let path = parent_of(&test).join("examples").join(name);
    assert!(
        path.is_file(),
        "there is no example at {}: build it with `cargo build --examples`",
        path.display()
    );
    path
}

/// The directory of the build profile. Tests are in its `deps`, examples in its `examples`.
fn parent_of(test: &Path) -> &Path {
    let dir = test.parent().expect("a program is in a directory");
    match dir.file_name().and_then(OsStr::to_str) {
        Some("deps" | "examples") => dir.parent().expect("a profile has a directory"),
        _ => dir,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_folder_is_found_from_a_test_an_example_or_a_tool() {
        for program in ["/t/debug/deps/test-123", "/t/debug/examples/holder", "/t/debug/tool"] {
            assert_eq!(parent_of(Path::new(program)), Path::new("/t/debug"));
        }
    }

    #[test]
    #[should_panic(expected = "cargo build --examples")]
    fn error_for_a_missing_example_names_its_build_command() {
        Helper::example("no-such-example", &[]);
    }
}
