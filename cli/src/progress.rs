//! Shows on the terminal how far `ls` and `doctor` are.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::time::Instant;

/// A command that takes less time than this shows no progress.
const QUIET: Duration = Duration::from_secs(1);

const INTERVAL: Duration = Duration::from_millis(100);

/// The number of characters of the bar.
const WIDTH: usize = 30;

/// A progress line on stderr, if stderr is a terminal. Each step overwrites the line, and the drop
/// of this value erases it.
pub(crate) struct Progress {
    /// The earliest time to write the next line, or `None` if stderr is not a terminal.
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + QUIET);
        Self { next, is_shown: false }
    }

    /// Shows how many names were found so far.
    pub(crate) fn found(&mut self, names: usize) {
        self.show(|| format!("searching: {names} names"));
    }

    /// Shows how many of all names were read.
    pub(crate) fn read(&mut self, done: usize, all: usize) {
        self.show(|| bar(done, all));
    }

    fn show(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + INTERVAL);
            self.is_shown = true;
            write(&text());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write("");
        }
    }
}

/// Replaces the progress line by `text`. Ignores a failure, because the terminal may be gone.
fn write(text: &str) {
    drop(write!(io::stderr(), "\r\x1b[K{text}"));
}

fn bar(done: usize, all: usize) -> String {
    let full = (WIDTH * done).checked_div(all).unwrap_or(WIDTH);
    format!("reading: [{:<WIDTH$}] {done} of {all}", "#".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_bar_grows_with_the_completed_part() {
        assert_eq!(bar(0, 20), "reading: [                              ] 0 of 20");
        assert_eq!(bar(10, 20), "reading: [###############               ] 10 of 20");
        assert_eq!(bar(20, 20), "reading: [##############################] 20 of 20");
        assert_eq!(bar(0, 0), "reading: [##############################] 0 of 0");
    }
}
