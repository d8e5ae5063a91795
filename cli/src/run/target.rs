//! The processes that a signal reaches.

use std::io;

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};

/// A process, or all processes of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Group(Pid),
    Process(Pid),
}

impl Target {
    pub(super) fn id(self) -> i32 {
        let (Self::Group(id) | Self::Process(id)) = self;
        id.as_raw_nonzero().get()
    }

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

    /// Returns whether a process is left in the group of a command that has ended. In a container,
    /// this process may be process 1, and so the parent of orphaned descendants of the command. So
    /// this function reaps the descendants that have ended.
    pub(super) fn outlives_its_command(self) -> bool {
        match self {
            Self::Group(group) => {
                while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
                test_kill_process_group(group) != Err(rustix::io::Errno::SRCH)
            }
            Self::Process(_) => false,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{os::unix::process::CommandExt, process::Command, thread::sleep, time::Duration};

    use rustix::process::{getpid, set_child_subreaper};

    use super::*;

    /// In this test, this process becomes the parent of orphaned descendants, as process 1 does.
    #[test]
    fn zombie_descendant_does_not_count_as_running() {
        set_child_subreaper(Some(getpid())).unwrap();
        let mut command =
            Command::new("sh").args(["-c", "sleep 1 &"]).process_group(0).spawn().unwrap();
        let target = Target::Group(Pid::from_child(&command));
        command.wait().unwrap();
        assert!(target.outlives_its_command());
        let mut looks = (0..1_000).map(|_| sleep(Duration::from_millis(10)));
        assert!(looks.any(|()| !target.outlives_its_command()));
    }
}
