//! The mode `__watch`: kills the command if the process that holds the lock cannot.
//!
//! The watcher reads lines `group|process ID DEADLINE` from its input. Each line replaces the line
//! before. The watcher kills the group or the process in two cases. First, its input ends, because
//! the holder has died. Second, the deadline passes without another line, because the holder was
//! stopped or could not renew. The deadline is the end of the lease, by a clock that continues
//! while the machine is suspended.
//!
//! The watcher has a process group of its own, so that no signal for the command or from the
//! terminal ends it. Before the holder exits normally, it ends the watcher.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::{Child, Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionbio,
    process::{Pid, Signal},
    time::{ClockId, clock_gettime},
};

use super::{starter::this_program, target::Target};
use crate::exit::{OS, say};

pub(crate) const WATCH: &str = "__watch";

/// After a suspend, the watcher notices a passed deadline with at most this delay, because its
/// timer was suspended, too.
const LOOK: Duration = Duration::from_millis(500);

/// If the deadline changes by less than this, the holder does not send the deadline again.
const SMALL: Duration = Duration::from_millis(5);

/// The watcher, for the process that holds the lock. Dropping this value without `end` closes the
/// input of the watcher, so that the watcher kills the command.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    deadline: Duration,
    is_reachable: bool,
}

impl Watcher {
    pub(super) fn start() -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(this_program()?);
        command.arg(WATCH).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        if let Some(input) = &child.stdin {
            // The write must not block, because a stopped watcher must not stop this process.
            ioctl_fionbio(input, true)?;
        }
        Ok(Self { child, deadline: Duration::ZERO, is_reachable: true })
    }

    /// Makes the watcher kill `target` after the time `left`, unless a later call extends it.
    pub(super) fn allow(&mut self, target: Target, left: Duration) {
        let deadline = now() + left;
        if deadline.abs_diff(self.deadline) < SMALL || !self.is_reachable {
            return;
        }
        self.deadline = deadline;
        let kind = match target {
            Target::Group(_) => "group",
            Target::Process(_) => "process",
        };
        let line = format!("{kind} {} {}\n", target.id(), deadline.as_millis());
        let Some(input) = &mut self.child.stdin else { return };
        if let Err(error) = input.write_all(line.as_bytes()) {
            self.is_reachable = false;
            say(&format!(
                "watch command: {error}; if this process is killed, descendants of the command may \
                 continue to run"
            ));
        }
    }

    /// Ends the watcher, so that the watcher kills no process.
    pub(super) fn end(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            say(&format!("stop watcher: {error}; check the processes of this user"));
        }
    }
}

/// Runs until the input of the watcher ends or a deadline passes. Then kills the command that the
/// input has named last, if any.
pub(crate) fn watch(_: impl Iterator<Item = OsString>) -> ExitCode {
    let (mut text, mut order) = (Vec::new(), None::<Order>);
    loop {
        let left = order.as_ref().map_or(LOOK, |order| order.deadline.saturating_sub(now()));
        match has_input(left.min(LOOK)) {
            Ok(true) if read(&mut text) => {
                order = newest(&mut text).or(order);
            }
            Ok(false) if !left.is_zero() => {}
            // The input has ended or cannot be read, or the deadline has passed.
            _ => return kill(order),
        }
    }
}

#[derive(Debug)]
struct Order {
    target: Target,
    deadline: Duration,
}

fn has_input(wait: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads some input. This function does not use the buffer of `Stdin`, because `poll` does not see
/// that buffer. Returns whether there was any input.
fn read(text: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 512];
    let count = rustix::io::read(io::stdin(), &mut bytes).unwrap_or(0);
    text.extend_from_slice(&bytes[..count]);
    count > 0
}

/// Removes the complete lines from `text`, and parses the last one.
fn newest(text: &mut Vec<u8>) -> Option<Order> {
    let end = text.iter().rposition(|byte| *byte == b'\n')?;
    let lines: Vec<u8> = text.drain(..=end).collect();
    order(str::from_utf8(&lines).ok()?.lines().last()?)
}

fn order(line: &str) -> Option<Order> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let id = Pid::from_raw(words.next()?.parse().ok()?)?;
    let deadline = Duration::from_millis(words.next()?.parse().ok()?);
    let target = match kind {
        "group" => Target::Group(id),
        _ => Target::Process(id),
    };
    Some(Order { target, deadline })
}

fn kill(order: Option<Order>) -> ExitCode {
    match order.map(|order| order.target.signal(Signal::KILL)) {
        Some(Err(_)) => OS.into(),
        _ => ExitCode::SUCCESS,
    }
}

/// Returns the time since the machine was started.
fn now() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // On macOS, this clock continues during a suspend. Other systems have no such clock.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watcher_obeys_the_last_complete_line_of_its_input() {
        let mut text = b"group 7 100\nprocess 8 200\ngroup 9".to_vec();
        let order = newest(&mut text).unwrap();
        assert!(matches!(order.target, Target::Process(id) if id.as_raw_nonzero().get() == 8));
        assert_eq!(order.deadline, Duration::from_millis(200));
        assert_eq!(text, b"group 9");
        assert!(newest(&mut text).is_none());
    }
}
