//! Child processes that never outlive this process.
//!
//! A test process can be killed before it cleans up. Then the kernel kills its children, because
//! `setpriv --pdeathsig` requested this. The kernel also kills a child when the **thread** that
//! started it ends, and tests run in short-lived threads. So one thread that never ends starts all
//! children.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::program;

/// Returns a command that runs `program`, and is killed when this process dies.
pub(crate) fn tied(program: &Path) -> Command {
    let Some(setpriv) = program::setpriv() else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A child process that is killed when this value is dropped, or when this process dies.
#[derive(Debug)]
pub(crate) struct Tethered {
    pid: Pid,
    child: Mutex<Child>,
    paused: AtomicBool,
}

impl Tethered {
    /// Starts a command made by [`tied`].
    pub(crate) fn start(command: Command) -> Self {
        let what = format!("{command:?}");
        let child = start_from_lasting_thread(command)
            .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let pid = Pid::from_child(&child);
        Self { pid, child: Mutex::new(child), paused: AtomicBool::new(false) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The child process, from which a caller can take the pipes.
    pub(crate) fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exit status, if the process has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().expect("a child process can be waited for")
    }

    /// Pauses the process, and returns when it is stopped.
    pub(crate) fn pause(&self) {
        self.paused.store(true, Ordering::SeqCst);
        self.signal(Signal::STOP);
        self.wait_for(WaitIdOptions::STOPPED | WaitIdOptions::EXITED);
    }

    /// Lets a paused process continue.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
        self.paused.store(false, Ordering::SeqCst);
    }

    /// Returns whether the process is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Sends QUIT to the process, and returns when it has ended.
    pub(crate) fn quit(&self) {
        self.signal(Signal::QUIT);
        self.wait();
    }

    /// Kills the process, paused or not, and returns when it has ended.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Waits until the process ends.
    pub(crate) fn wait(&self) -> ExitStatus {
        if let Some(status) = self.ended() {
            return status;
        }
        // The lock is not held during the wait, so that another thread may kill the process.
        self.wait_for(WaitIdOptions::EXITED);
        self.child().wait().expect("a child process can be waited for")
    }

    /// Waits for a change of state. Does not consume the change, so that other callers see it, too.
    fn wait_for(&self, change: WaitIdOptions) {
        loop {
            match waitid(WaitId::Pid(self.pid), change | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                // An error means that the child has ended, and that another caller has waited for
                // it.
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child();
        // After a caller has waited for the child, its id may belong to another process.
        if child.try_wait().expect("a child process can be waited for").is_none() {
            kill_process(self.pid, signal).expect("a child process can be signalled");
        }
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_from_lasting_thread(command: Command) -> io::Result<Child> {
    let (answer, answered) = channel();
    STARTER.send(Job { command, answer }).expect("the starting thread never ends");
    answered.recv().expect("the starting thread replies")
}

struct Job {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

static STARTER: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (jobs, work) = channel::<Job>();
    thread::spawn(move || {
        for mut job in work {
            // If the test was aborted, nothing receives the result.
            drop(job.answer.send(job.command.spawn()));
        }
    });
    jobs
});
