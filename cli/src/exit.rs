//! The exit codes, and the line on stderr that explains each.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use leasehold::Error;

/// The object does not exist, or is free.
pub(crate) const ABSENT: u8 = 1;
/// The command line is wrong, `EX_USAGE`.
pub(crate) const USAGE: u8 = 64;
/// Existing data contradicts the command line, `EX_DATAERR`.
pub(crate) const DATA: u8 = 65;
/// Redis is unreachable or rejects the request, `EX_UNAVAILABLE`.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system refused something, `EX_OSERR`.
pub(crate) const OS: u8 = 71;
/// Another owner holds the lock, `EX_TEMPFAIL`.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost, `EX_PROTOCOL`.
pub(crate) const LOST: u8 = 76;
/// The command exists but cannot be executed; the same code as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist; the same code as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;
/// After a signal, the exit code is this number plus the number of the signal.
pub(crate) const SIGNALLED: u8 = 128;

/// Why this process ends: the exit code, and the reason as a text.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    reason: String,
}

impl Exit {
    pub(crate) fn new(code: u8, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    pub(crate) fn os(operation: &str, object: &str, cause: &dyn fmt::Display) -> Self {
        Self::new(
            OS,
            format!(
                "{operation} `{object}`: {cause}; check the permissions and limits of this user"
            ),
        )
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn report(&self) -> ExitCode {
        say(&self.reason);
        self.code.into()
    }
}

impl From<Error> for Exit {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Duration(_)
            | Error::Name(_)
            | Error::TooMany { .. }
            | Error::Url(_)
            | Error::ZeroCount { .. } => USAGE,
            Error::TimedOut { .. } => BUSY,
            _ => UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

/// Writes one line to stderr.
pub(crate) fn say(line: &str) {
    // If stderr cannot be written, the exit code still shows the result.
    drop(writeln!(io::stderr(), "leasehold: {}", on_one_line(line)));
}

/// Returns `text` with control characters and invisible characters escaped, as in a shown `Name`.
pub(crate) fn on_one_line(text: &str) -> String {
    let shown = |c: char| match is_hidden(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Returns whether a terminal does not show `c`, or changes the direction of text because of `c`.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}
