//! The mode `__start PARENT COMMAND…`: becomes the command.
//!
//! On Linux, this process first requests that the kernel kills it when its parent dies. `pre_exec`
//! could send this request between fork and exec, but only with unsafe code. The request survives
//! the exec, unless the command is setuid or setgid. If the parent died before the request, this
//! process now has another parent, and does not start the command. The request does not cover
//! descendants of the command, and other systems have no such request. In these cases, the watcher
//! kills the command and its descendants.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use crate::exit::{LOST, NOT_EXECUTABLE, NOT_FOUND, USAGE, say};

pub(crate) const START: &str = "__start";

pub(crate) fn start(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next().and_then(|id| id.to_str()?.parse::<u32>().ok());
    let (Some(parent), Some(program)) = (parent, words.next()) else { return USAGE.into() };
    if let Err(error) = die_with(parent) {
        say(&format!("start command: {error}; the command was not started"));
        return LOST.into();
    }
    let error = Command::new(&program).args(words).exec();
    let program = program.display();
    say(&format!("run `{program}`: {error}; check the path and the mode of the command"));
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND.into(),
        _ => NOT_EXECUTABLE.into(),
    }
}

#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid().map(|id| id.as_raw_nonzero().get().cast_unsigned()) == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the process that holds the lock has died")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: u32) -> io::Result<()> {
    Ok(())
}

/// Returns the path of this program, to start it again. On Linux, the path works even if the file
/// of the program was replaced.
pub(super) fn this_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => env::current_exe(),
    }
}
