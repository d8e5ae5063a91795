//! `leasehold run`: a command that runs only while a lock is held.
//!
//! Three processes work together.
//!
//! - This process acquires the lock, renews it, forwards signals, and stops the command if the lock
//!   is lost. It sends TERM early, so that the grace period ends before the lease ends.
//! - The command begins as this program in the mode `__start`. In this mode, the process requests
//!   that the kernel kills it when `leasehold run` dies, and then becomes the command. See
//!   `starter.rs`.
//! - The watcher is this program in the mode `__watch`. It kills the process group of the command
//!   when `leasehold run` dies, or when `leasehold run` was stopped and has not renewed the lease
//!   in time. See `watcher.rs`.

mod command;
mod environment;
pub(crate) mod hold;
mod period;
mod starter;
mod target;
mod watcher;

use std::{env, ffi::OsString, pin::pin, process::ExitStatus, time::Duration};

use leasehold::{Client, Error, LostReason, Release};
use tokio::time::{Instant, sleep, sleep_until};

use self::{
    command::Command,
    hold::{Acquired, Hold},
};
pub(crate) use self::{
    command::is_in_foreground,
    starter::{START, start},
    watcher::{WATCH, watch},
};
use crate::{
    args::{Run, Server},
    exit::{Exit, LOST, SIGNALLED, USAGE, say},
    server,
    signals::{self, Signals},
};

/// The longest time for pending releases at the end of this process.
const FAREWELL: Duration = Duration::from_secs(2);

/// The application name that other clients and `show` display for this process.
const PUBLISHED: &str = "leasehold run";

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// How often the group of a stopped command is checked, after the command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long this process waits for the end of killed processes. The kernel ends them at once, unless
/// they wait for a device that does not reply. A zombie counts as a process until it is reaped.
const KILLED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) words: Vec<OsString>,
    pub(crate) ttl: Duration,
    /// The time between TERM and KILL.
    pub(crate) grace: Duration,
}

impl Job {
    fn of(run: &Run) -> Result<Self, Exit> {
        // If this process is killed, the lease must still last for `--hold-at-least`.
        let ttl = run.ttl.max(run.hold_at_least.unwrap_or_default());
        let words = words(run.shell.as_ref(), &run.command);
        Ok(Self { name: run.name.clone(), words, ttl, grace: grace(run.grace, ttl)? })
    }
}

/// Returns the words of the command, or the shell and its text.
fn words(shell: Option<&OsString>, command: &[OsString]) -> Vec<OsString> {
    let program = || env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    match shell {
        Some(text) => [program(), "-c".into(), text.clone()].into(),
        None => command.to_owned(),
    }
}

pub(crate) fn grace(given: Option<Duration>, ttl: Duration) -> Result<Duration, Exit> {
    match given {
        None => Ok(DEFAULT_GRACE.min(ttl / 3)),
        Some(grace) if grace <= ttl / 2 => Ok(grace),
        Some(_) => Err(Exit::new(
            USAGE,
            "read `--grace`: the grace is more than half of the lease; use a longer --ttl",
        )),
    }
}

pub(crate) async fn run(server: &Server, run: &Run) -> Result<u8, Exit> {
    let job = Job::of(run)?;
    let in_terminal = is_in_foreground();
    let mut signals = Signals::catch(in_terminal)?;
    let mut settings = Client::builder().ttl(job.ttl);
    if !run.no_metadata {
        settings = settings.application(PUBLISHED, VERSION);
    }
    let client = server::connect_or_end(server, settings, &mut signals).await?;
    let acquired = tokio::select! {
        acquired = hold::acquire(&client, run) => acquired,
        signal = signals.fatal() => {
            let operation = format!("acquire `{}`", run.name);
            Err(signals::ended_by(signal, &operation, "the command was not started"))
        }
        never = server::report_outages(&client) => match never {},
    };
    let result = match acquired {
        Ok(Acquired::Hold(hold)) => {
            let until = run.hold_at_least.map(|time| Instant::now() + time);
            let ended = supervise(&job, &hold, &mut signals, in_terminal).await;
            match ended {
                Ok(ended) => finish(&job, ended, release(&client, run, hold, until).await),
                Err(exit) => Err(exit),
            }
        }
        Ok(Acquired::Busy) => hold::busy(&client, run).await,
        Ok(Acquired::Done(left)) => Ok(period::is_over_in(run, left)),
        Err(exit) => Err(exit),
    };
    farewell(&client).await;
    result
}

/// Releases the hold, or leaves it in Redis until the time `until`.
async fn release(
    client: &Client,
    run: &Run,
    hold: Hold,
    until: Option<Instant>,
) -> Result<Release, Error> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    match left.filter(|left| !left.is_zero()) {
        Some(left) if hold.remaining().is_some() => {
            hold.leave(&hold::lock_of(client, run)?, left).await
        }
        _ => hold.release().await,
    }
}

/// Completes pending releases and withdrawals. If some do not complete in time, their locks expire
/// with their leases.
pub(crate) async fn farewell(client: &Client) {
    let shutdown = client.shutdown(FAREWELL).await;
    if shutdown.pending > 0 {
        say("release locks: Redis did not confirm in time that nothing is held; a lock that is \
             still held expires with its lease");
    }
}

/// The end of a command: its status, and the reason if leasehold stopped the command.
pub(crate) type Ended = (ExitStatus, Option<String>);

/// Runs the command until it has ended. Does not release the hold.
pub(crate) async fn supervise(
    job: &Job,
    hold: &Hold,
    signals: &mut Signals,
    in_terminal: bool,
) -> Result<Ended, Exit> {
    let mut command = Command::start(job, hold, in_terminal)?;
    let ended = attend(job, hold, signals, &mut command).await;
    let ended = ended.map_err(|error| Exit::os("wait for", "command", &error))?;
    command.end();
    Ok(ended)
}

/// Returns the exit code of a command. `released` is the result of the release after the command.
pub(crate) fn finish(
    job: &Job,
    (status, stopped): Ended,
    released: Result<Release, Error>,
) -> Result<u8, Exit> {
    let lost = match released {
        Ok(Release::NotHeld { reason, .. }) => Some(reason.to_string()),
        Ok(_) => stopped,
        Err(error) => {
            say(&error.to_string());
            stopped
        }
    };
    match lost {
        None => Ok(code(status)),
        Some(reason) => Err(Exit::new(
            LOST,
            format!("run `{}`: lock lost: {reason}; check the result of the command", job.name),
        )),
    }
}

/// Waits for the command. After a loss or TERM, also waits for its process group, because no
/// process of this group may run without the lock. After KILL, waits for the group at most for the
/// time `KILLED`. Returns how the command ended.
async fn attend(
    job: &Job,
    hold: &Hold,
    signals: &mut Signals,
    command: &mut Command,
) -> std::io::Result<Ended> {
    let grace = job.grace;
    let mut lost = pin!(hold.lost());
    let (mut stopped, mut kill_at, mut terminated) = (None, None::<Instant>, false);
    let (mut ended, mut gone_by) = (None, None::<Instant>);
    loop {
        let waits = kill_at.is_some() || gone_by.is_some_and(|by| Instant::now() < by);
        if let Some(status) = ended
            && !(waits && command.has_descendants())
        {
            if gone_by.is_some() {
                command.report_descendants();
            }
            return Ok((status, stopped));
        }
        let left = hold.remaining();
        if let Some(left) = left {
            command.allow(left);
        }
        if stopped.is_none() && left.is_some_and(|left| left <= grace) {
            let reason = "its lease was about to end, and no renewal succeeded";
            stopped = Some(stop(job, command, reason));
            kill_at = Some(Instant::now() + grace);
        }
        let look_again = left.unwrap_or_default().saturating_sub(grace).min(job.ttl / 10);
        tokio::select! {
            biased;
            status = command.wait(), if ended.is_none() => {
                ended = Some(status?);
                if terminated && gone_by.is_none() {
                    kill_at = kill_at.or_else(|| Some(Instant::now() + grace));
                }
            }
            reason = &mut lost, if stopped.is_none() => {
                // An expired lease leaves no time for a grace period.
                let grace = if reason == LostReason::NotOwned { grace } else { Duration::ZERO };
                stopped = Some(stop(job, command, &reason.to_string()));
                kill_at = Some(Instant::now() + grace);
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                command.kill();
                (kill_at, gone_by) = (None, Some(Instant::now() + KILLED));
            }
            signal = signals.next() => {
                // A second TERM means that the user does not want to wait.
                match signals::is_term(signal) && terminated {
                    true => kill_at = Some(Instant::now()),
                    false => command.forward(signal),
                }
                terminated |= signals::is_term(signal);
            }
            () = sleep(LOOK), if ended.is_some() => {}
            () = sleep(look_again.max(Duration::from_millis(1))), if stopped.is_none() => {}
        }
    }
}

/// Reports `reason`, and sends TERM to the command. Returns `reason`.
fn stop(job: &Job, command: &Command, reason: &str) -> String {
    say(&format!("run `{}`: lock lost: {reason}; the command gets TERM", job.name));
    command.terminate();
    reason.to_owned()
}

/// Returns the exit code that a shell returns for a command with this status.
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let signal = || status.signal().map(|signal| i32::from(SIGNALLED) + signal);
    let code = status.code().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
