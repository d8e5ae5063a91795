//! Why a connection has ended.

use std::{fmt, io, time::Duration};

use crate::failure::Failure;

/// Why a connection has ended, as text for a person.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// This connection leads to another server than the connection for commands.
    Astray,
    /// The server replies, but the oldest request has waited too long for its reply.
    Behind(Duration),
    /// The network or TLS failed.
    Broken(String),
    /// The server is no longer a working primary.
    Demoted,
    /// This client closed the connection.
    Dropped,
    /// The server closed the connection.
    HungUp,
    /// The sentinels name another primary.
    Moved(String),
    /// The server did not reply to any request.
    Silent(Duration),
    /// The server sent a reply without a request. So earlier replies may belong to other requests.
    Surplus,
    /// The received bytes are not a reply.
    Unreadable(String),
}

impl Ending {
    /// Returns the failure of a request that got no reply because of this ending.
    pub(crate) fn failure(&self) -> Failure {
        Failure::unanswered(self.to_string())
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => Self::HungUp,
            io::ErrorKind::ConnectionReset => Self::HungUp,
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Astray => f.write_str(
                "this connection and the connection for commands reached different servers",
            ),
            Self::Behind(late) => write!(f, "replies take longer than {late:?}"),
            Self::Broken(how) => write!(f, "the connection failed: {how}"),
            Self::Demoted => f.write_str("the server is no longer the primary"),
            Self::Dropped => f.write_str("this client closed the connection"),
            Self::HungUp => f.write_str("the server closed the connection"),
            Self::Moved(to) => write!(f, "the sentinels name another primary: {to}"),
            Self::Silent(time) => write!(f, "no reply for {time:?}"),
            Self::Surplus => f.write_str("the server sent more replies than requests"),
            Self::Unreadable(why) => write!(f, "a reply cannot be read: {why}"),
        }
    }
}
