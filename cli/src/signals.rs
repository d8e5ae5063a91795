//! The signals that this process receives.

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};

use crate::exit::{Exit, SIGNALLED};

/// The signals that `run` forwards to its command. In the foreground of a terminal, TSTP is not
/// caught, because the shell must see that this process stops, too.
const FORWARDED: [Signal; 9] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
];

/// The signals that end a process which does not catch them.
const FATAL: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

#[derive(Debug)]
pub(crate) struct Signals(UnboundedReceiver<Signal>);

impl Signals {
    /// Catches the signals of `FORWARDED`, but not TSTP if `in_terminal` is true. Does not catch
    /// signals that this process ignores from its start, as under `nohup`.
    pub(crate) fn catch(in_terminal: bool) -> Result<Self, Exit> {
        let (sender, receiver) = unbounded_channel();
        let ignored = ignored();
        let is_wanted = |it: &Signal| {
            ignored & (1 << (it.as_raw() - 1)) == 0 && !(in_terminal && *it == Signal::TSTP)
        };
        for caught in FORWARDED.into_iter().filter(is_wanted) {
            let stream = signal(SignalKind::from_raw(caught.as_raw()));
            let mut stream = stream.map_err(|error| Exit::os("catch", "signals", &error))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(caught).is_ok() {}
            });
        }
        Ok(Self(receiver))
    }

    pub(crate) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // This process ignores all signals of `FORWARDED`, so no task sends any.
            None => std::future::pending().await,
        }
    }

    /// Waits for a signal that ends a process without a handler.
    pub(crate) async fn fatal(&mut self) -> Signal {
        loop {
            match self.next().await {
                signal if FATAL.contains(&signal) => return signal,
                _ => {}
            }
        }
    }
}

pub(crate) fn is_term(signal: Signal) -> bool {
    signal == Signal::TERM
}

/// Returns the exit code after `signal`.
pub(crate) fn code(signal: Signal) -> u8 {
    SIGNALLED + u8::try_from(signal.as_raw()).unwrap_or_default()
}

/// Returns the exit status of a process whose `operation` was interrupted by `signal`. `result`
/// describes the state that the operation has left.
pub(crate) fn ended_by(signal: Signal, operation: &str, result: &str) -> Exit {
    Exit::new(code(signal), format!("{operation}: ended by a signal; {result}"))
}

/// Returns the signals that this process ignores from its start, one bit for each. Only Linux shows
/// these signals without unsafe code. On other systems, this process catches all signals.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
