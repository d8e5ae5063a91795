//! The processes that a signal reaches.

use std::io;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

/// A process, or all of a process group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Group(Pid),
    Process(Pid),
}

impl Target {
    pub(super) fn signal(self, signal: Signal) -> io::Result<()> {
        let sent = match self {
            Self::Group(group) => kill_process_group(group, signal),
            Self::Process(process) => kill_process(process, signal),
        };
        match sent {
            // The target has already ended.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Returns whether a process is left in the group of a command that has ended.
    pub(super) fn outlives_its_command(self) -> bool {
        match self {
            Self::Group(group) => test_kill_process_group(group) != Err(rustix::io::Errno::SRCH),
            Self::Process(_) => false,
        }
    }
}
