//! Every command that a server executes, as `MONITOR` reports it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::access::Access;
use crate::wire::{Connection, PATIENCE};

/// Records all commands of a server until this value is dropped.
///
/// A line looks like `1700000000.000000 [0 127.0.0.1:50000] "GET" "key"`. A command inside a script
/// has `lua` instead of an address.
#[derive(Debug)]
pub struct Monitor {
    access: Access,
    seen: Arc<Seen>,
    stream: TcpStream,
}

impl Monitor {
    pub(crate) fn start(access: Access) -> Self {
        let mut connection = access.open().expect("the server accepts connections");
        assert_eq!(connection.command(&["MONITOR"]).text(), "OK");
        access.count("monitor");
        let stream = connection.stream().expect("a socket can be shared");
        stream.set_read_timeout(None).expect("a socket can have no timeout");
        let seen = Arc::new(Seen::default());
        thread::spawn({
            let seen = Arc::clone(&seen);
            move || seen.read(connection)
        });
        Self { access, seen, stream }
    }

    /// The commands executed so far.
    ///
    /// Returns **all** commands that were executed before this call. If the server is stopped or
    /// paused, returns the commands that it has reported. Commands of the test kit are omitted.
    /// Each `AUTH` is omitted, too.
    pub fn lines(&self) -> Vec<String> {
        let marker = next_marker();
        if self.access.command(&["ECHO", &marker]).is_ok() {
            self.seen.wait_for(&marker);
        }
        self.seen.state().lines.iter().filter(|line| !is_own(line)).cloned().collect()
    }

    /// Stops recording and returns all lines.
    pub fn stop(self) -> Vec<String> {
        self.lines()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // This fails if the server has already closed the connection.
        self.stream.shutdown(Shutdown::Both).ok();
    }
}

#[derive(Debug, Default)]
struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    ended: bool,
}

impl Seen {
    /// Reads lines until the connection is closed.
    fn read(&self, mut connection: Connection) {
        while let Ok(line) = next_line(&mut connection) {
            self.state().lines.push(line);
            self.changed.notify_all();
        }
        self.state().ended = true;
        self.changed.notify_all();
    }

    /// Waits until the server has reported `marker`, or the connection ends.
    fn wait_for(&self, marker: &str) {
        let is_missing = |state: &mut State| {
            !state.ended && !state.lines.iter().rev().any(|line| line.contains(marker))
        };
        drop(self.changed.wait_timeout_while(self.state(), PATIENCE, is_missing));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next_line(connection: &mut Connection) -> io::Result<String> {
    Ok(connection.next_reply()?.text().to_owned())
}

/// Whether a command was sent by the test kit, and not by the test.
fn is_own(line: &str) -> bool {
    [MARKER, r#"] "AUTH" "#, r#"] "INFO" "commandstats""#].iter().any(|own| line.contains(own))
}

/// A unique word. When `MONITOR` reports this word, it has reported all commands before the word.
fn next_marker() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Because of the closing bracket, `[1]` is not found in `[10]`.
    format!("{MARKER}[{}]", NEXT.fetch_add(1, Ordering::Relaxed))
}

const MARKER: &str = "testkit-marker";
