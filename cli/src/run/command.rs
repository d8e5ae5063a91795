//! The command that runs under the lock: its start, its process group, its end.
//!
//! Normally the command leads a process group of its own, so that signals reach its descendants,
//! too. In the foreground of a terminal, the command stays in the group of this process, because a
//! group in the background may not read from the terminal. In this case, signals from this process
//! reach only the command itself.

use std::{fs::File, io, process::ExitStatus, time::Duration};

use rustix::{
    process::{Pid, Signal, getpgrp},
    termios::tcgetpgrp,
};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

use super::{
    Job, KILLED, environment,
    hold::Hold,
    starter::{START, this_program},
    target::Target,
    watcher::Watcher,
};
use crate::exit::{Exit, say};

#[derive(Debug)]
pub(super) struct Command {
    child: Child,
    target: Target,
    watcher: Watcher,
}

impl Command {
    pub(super) fn start(job: &Job, hold: &Hold, in_terminal: bool) -> Result<Self, Exit> {
        let failed = |error: io::Error| Exit::os("start", "command", &error);
        // If the parent of this process ignores SIGCHLD, this process ignores SIGCHLD, too. Without
        // a handler, the kernel would then keep no exit code of the command.
        drop(signal(SignalKind::child()).map_err(failed)?);
        // The watcher starts first, so that it knows the command as soon as the command exists.
        let mut watcher = Watcher::start().map_err(failed)?;
        let mut command = tokio::process::Command::new(this_program().map_err(failed)?);
        command.arg(START).arg(std::process::id().to_string()).args(&job.words);
        if !in_terminal {
            command.process_group(0);
        }
        environment::set(&mut command, job, hold);
        let child = command.spawn().map_err(failed)?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| failed(io::Error::other("the command has no process id")))?;
        let target = if in_terminal { Target::Process(pid) } else { Target::Group(pid) };
        watcher.allow(target, hold.remaining().unwrap_or_default());
        Ok(Self { child, target, watcher })
    }

    /// Waits for the end of the command itself. Its descendants may still run.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// After the end of the command, returns whether other processes of its group are left.
    pub(super) fn has_descendants(&self) -> bool {
        self.target.outlives_its_command()
    }

    /// Reports processes of the group that are left although they got KILL.
    pub(super) fn report_descendants(&self) {
        if self.has_descendants() {
            let group = self.target.id();
            say(&format!(
                "end command: process group {group} still exists {KILLED:?} after KILL; check its \
                 processes"
            ));
        }
    }

    /// Ends the watcher, so that the watcher kills no process.
    pub(super) fn end(mut self) {
        self.watcher.end();
    }

    /// Makes the watcher kill the command after `left`, unless a later call extends the time.
    pub(super) fn allow(&mut self, left: Duration) {
        self.watcher.allow(self.target, left);
    }

    /// Forwards a signal, unless the terminal has also sent this signal to the command.
    pub(super) fn forward(&self, signal: Signal) {
        let by_terminal = [Signal::INT, Signal::QUIT, Signal::WINCH, Signal::TSTP, Signal::CONT];
        match self.target {
            Target::Process(_) if by_terminal.contains(&signal) => {}
            _ => self.signal(signal),
        }
    }

    /// Sends TERM, and then CONT, because a stopped process would not handle TERM.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = self.target.signal(signal) {
            say(&format!("send signal to command: {error}; check the user of the command"));
        }
    }
}

/// Returns whether this process may read from its terminal.
pub(crate) fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}
