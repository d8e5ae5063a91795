//! Why a request failed.

use std::{error::Error, fmt, io, sync::Arc};

use tokio::time::error::Elapsed;

/// Why a request failed, and whether it may have been executed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The caller has no tokio runtime. Nothing happened.
    NoRuntime,
    /// The server rejected the request. Nothing happened.
    Refused {
        /// The first word of the rejection, such as `READONLY`.
        code: String,
        /// The text after the code.
        message: String,
        /// The rejected command, if it is known.
        command: Option<String>,
    },
    /// The request was sent, but no reply came. The request **may have happened**, or may still
    /// happen.
    Unanswered(Arc<dyn Error + Send + Sync>),
    /// The request was never sent. Nothing happened.
    Unreachable(Arc<dyn Error + Send + Sync>),
    /// The reply is unreadable. The request **may have happened**.
    Unreadable(String),
    /// The value under the key has another type. Nothing happened.
    WrongType {
        /// The type that the server reports.
        found: String,
    },
    /// The script failed after its first write. Redis does not undo that write.
    Failed(String),
    /// The primitive or the server does not support the request. Nothing happened.
    Unsupported(&'static str),
}

/// What helps after a rejection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// An administrator must grant a permission, or correct the password.
    Forbidden,
    /// A later retry can help, because the server is not ready now.
    NotReady,
    /// Nothing helps: the server will always reject this request.
    Lasting,
}

/// Codes of temporary rejections, after which a retry can help. A server that cannot write its
/// snapshot (`MISCONF`) tries again every few seconds, and accepts writes as soon as a snapshot
/// succeeds.
const PASSING: [&str; 9] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
];

/// Codes of a missing permission.
const FORBIDDEN: [&str; 4] = ["DENIED", "NOAUTH", "NOPERM", "WRONGPASS"];

/// The code of a server whose memory is full. The caller gets this failure at once, because waiting
/// frees no memory.
const FULL: &str = "OOM";

impl Refusal {
    /// Returns what helps after a rejection with this `code`.
    pub fn of(code: &str) -> Self {
        match code {
            code if FORBIDDEN.contains(&code) => Self::Forbidden,
            code if code == FULL || PASSING.contains(&code) => Self::NotReady,
            _ => Self::Lasting,
        }
    }
}

impl Failure {
    /// Returns a rejection with this `code`. If `message` names a command, the result names this
    /// command as the rejected one.
    pub fn refused(code: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Refused { code: code.into(), command: command_in(&message), message }
    }

    /// Sets the rejected command to `refused`, unless the rejection already has a command.
    pub fn naming(mut self, refused: Option<&str>) -> Self {
        if let Self::Refused { command: command @ None, .. } = &mut self {
            *command = refused.map(str::to_ascii_uppercase);
        }
        self
    }

    /// Returns the failure of a sent request that got no reply because of `cause`.
    pub fn unanswered(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unanswered(cause.into().into())
    }

    /// Returns the failure of a request that was never sent because of `cause`.
    pub fn unreachable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreachable(cause.into().into())
    }

    /// Returns whether the request may have been executed, or may still be executed.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::Unreadable(_))
    }

    /// Returns the cause, without the words `unreachable:` and `no reply:`. The caller inserts the
    /// cause into a text that already reports an unavailable server.
    pub fn cause(&self) -> String {
        match self {
            Self::Unanswered(cause) if cause.is::<Elapsed>() => self.to_string(),
            Self::Unanswered(cause) | Self::Unreachable(cause) => in_words(&**cause),
            other => other.to_string(),
        }
    }

    /// Returns whether a retry can help.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused { code, .. } => PASSING.contains(&code.as_str()),
            Self::Unanswered(_) | Self::Unreachable(_) => true,
            Self::NoRuntime | Self::Unreadable(_) | Self::WrongType { .. } => false,
            Self::Failed(_) | Self::Unsupported(_) => false,
        }
    }

    /// Like [`is_temporary`](Self::is_temporary), but returns false if the server is unreachable.
    pub fn is_temporary_while_reachable(&self) -> bool {
        self.is_temporary() && !matches!(self, Self::Unreachable(_))
    }

    /// Returns whether a later retry can help a release. A login that the server rejects now may
    /// succeed later.
    pub fn is_temporary_for_release(&self) -> bool {
        let is_rejection = |code: &str| matches!(code, "NOAUTH" | "WRONGPASS");
        self.is_temporary() || matches!(self, Self::Refused { code, .. } if is_rejection(code))
    }
}

/// Returns the command in a rejection such as "no permissions to run the 'hset' command".
fn command_in(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("the '")?;
    let (command, _) = rest.split_once("' command")?;
    Some(command.to_ascii_uppercase())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => f.write_str("no tokio runtime"),
            Self::Refused { code, message, .. } => write!(f, "rejected: {code} {message}"),
            Self::Unanswered(cause) if cause.is::<Elapsed>() => f.write_str("no reply in time"),
            Self::Unanswered(cause) => write!(f, "no reply: {}", in_words(&**cause)),
            Self::Unreachable(cause) => write!(f, "unreachable: {}", in_words(&**cause)),
            Self::Unreadable(what) => write!(f, "unexpected reply: {what}"),
            Self::WrongType { found } => write!(f, "the Redis key is a {found}"),
            Self::Failed(words) => write!(f, "failed in part: {words}"),
            Self::Unsupported(what) => f.write_str(what),
        }
    }
}

/// Describes `cause` in words that need no knowledge of sockets.
pub(crate) fn in_words(cause: &(dyn Error + Send + Sync + 'static)) -> String {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
    };
    let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    match kind {
        Some(UnexpectedEof) => "the server closed the connection".into(),
        Some(BrokenPipe | ConnectionAborted | ConnectionReset) => "the connection was lost".into(),
        Some(ConnectionRefused) => "no server listens at the address (connection refused)".into(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_or_unreadable_reply_leaves_the_result_unknown() {
        assert!(Failure::unanswered("timeout").may_have_happened());
        assert!(Failure::Unreadable("?".into()).may_have_happened());
        assert!(!Failure::unreachable("refused").may_have_happened());
        assert!(!Failure::refused("OOM", "").may_have_happened());
    }

    #[test]
    fn rejection_is_temporary_while_loading_but_not_for_noperm() {
        for passing in ["LOADING", "READONLY", "CLUSTERDOWN", "BUSY"] {
            assert!(Failure::refused(passing, "").is_temporary(), "{passing}");
        }
        for lasting in ["NOAUTH", "NOPERM", "OOM", "ERR", "WRONGPASS"] {
            assert!(!Failure::refused(lasting, "").is_temporary(), "{lasting}");
        }
        assert!(!Failure::WrongType { found: "string".into() }.is_temporary());
    }

    #[test]
    fn rejection_after_a_failed_snapshot_is_temporary() {
        let words = "Redis is configured to save RDB snapshots, but it's currently unable to";
        assert!(Failure::refused("MISCONF", words).is_temporary());
    }

    #[test]
    fn temporary_rejections_and_oom_are_classified_as_not_ready() {
        for code in PASSING.into_iter().chain([FULL]) {
            assert_eq!(Refusal::of(code), Refusal::NotReady, "{code}");
        }
        for code in FORBIDDEN {
            assert_eq!(Refusal::of(code), Refusal::Forbidden, "{code}");
        }
        assert_eq!(Refusal::of("ERR"), Refusal::Lasting);
    }

    #[test]
    fn rejection_names_the_denied_command() {
        let command = |words: &str| match Failure::refused("NOPERM", words) {
            Failure::Refused { command, .. } => command,
            other => panic!("{other}"),
        };
        let words = "User limited has no permissions to run the 'hset' command";
        assert_eq!(command(words).as_deref(), Some("HSET"));
        assert_eq!(command("No permissions to access a key"), None);
        assert_eq!(command("the 'maxmemory' is less than what is used"), None);
    }

    #[test]
    fn failure_text_describes_the_server_instead_of_the_socket() {
        let says = |kind: io::ErrorKind| Failure::unanswered(io::Error::from(kind)).to_string();
        let closed = "no reply: the server closed the connection";
        assert_eq!(says(io::ErrorKind::UnexpectedEof), closed);
        assert_eq!(says(io::ErrorKind::ConnectionReset), "no reply: the connection was lost");
        let refused = Failure::unreachable(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert_eq!(
            refused.to_string(),
            "unreachable: no server listens at the address (connection refused)"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn missing_reply_has_the_text_no_reply_in_time() {
        let never = std::future::pending::<()>();
        let elapsed = tokio::time::timeout(std::time::Duration::ZERO, never).await.unwrap_err();
        assert_eq!(Failure::unanswered(elapsed).to_string(), "no reply in time");
    }
}
