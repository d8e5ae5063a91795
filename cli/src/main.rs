//! The command `leasehold`.
//!
//! `leasehold run` and `elect` start this program in two more modes, which users never type. In the
//! mode `__start`, the process becomes the command. In the mode `__watch`, the process outlives
//! `leasehold run`, to kill the command. See `run/mod.rs`.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod doctor;
mod elect;
mod exit;
mod force;
mod http;
mod inspect;
mod manual;
mod progress;
mod run;
mod script;
mod server;
mod signals;
mod top;
mod ui;
mod watch;

use std::{env, process::ExitCode};

use clap::Parser;

use crate::{
    args::{Cli, Subcommand},
    exit::{Exit, USAGE},
};

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let mode = words.next();
    match mode.as_deref().and_then(|mode| mode.to_str()) {
        Some(run::START) => run::start(words),
        Some(run::WATCH) => run::watch(words),
        _ => command(),
    }
}

fn command() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If the message cannot be written, the exit code still shows that the command line is
            // wrong.
            drop(error.print());
            return if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let server = &cli.server;
    let ended = match &cli.command {
        Subcommand::Run(run) => in_this_thread(run::run(server, run)),
        Subcommand::Lock(lock) => in_this_thread(script::lock(server, lock)),
        Subcommand::Renew(renew) => in_this_thread(script::renew(server, renew)),
        Subcommand::Unlock(unlock) => in_this_thread(script::unlock(server, unlock)),
        Subcommand::Wait(wait) => in_this_thread(script::wait(server, wait)),
        Subcommand::Show(show) => in_this_thread(inspect::show(server, show)),
        Subcommand::Ls(list) => in_this_thread(inspect::list(server, list)),
        Subcommand::Top(top) => in_this_thread(top::top(server, top)),
        Subcommand::Ui(ui) => in_this_thread(ui::ui(server, ui)),
        Subcommand::Elect(elect) => in_this_thread(elect::elect(server, elect)),
        Subcommand::Doctor(doctor) => in_this_thread(doctor::doctor(server, doctor)),
        Subcommand::Bench(bench) => in_this_thread(bench::bench(server, bench)),
        Subcommand::Completions(completions) => manual::completions(completions),
        Subcommand::Man(man) => manual::man(man),
    };
    match ended {
        Ok(code) => code.into(),
        Err(exit) => exit.report(),
    }
}

/// Runs `work` on the main thread. The command of `run` must be started on this thread, because the
/// kernel kills the command when the thread that started the command ends.
fn in_this_thread(work: impl Future<Output = Result<u8, Exit>>) -> Result<u8, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::os("start", "runtime", &error))?;
    let ended = runtime.block_on(work);
    // A DNS lookup may still take long after a signal. This call does not wait for the lookup.
    runtime.shutdown_background();
    ended
}
