//! Why a connection has ended.

use std::{fmt, io, time::Duration};

use crate::domain::Failure;

/// Why a connection carries nothing any more, in words for a person.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// Commands go to another server by now.
    Astray,
    /// The other side answered too late for too long.
    Behind(Duration),
    /// The network says so, or TLS.
    Broken(String),
    /// The server is no primary any more, or cannot answer as one.
    Demoted,
    /// We gave it up ourselves.
    Dropped,
    /// The other side closed it.
    HungUp,
    /// The primary is another one, by now.
    Moved(String),
    /// The other side answered nothing, though it was asked.
    Silent(Duration),
    /// Something came that was not asked for: whose the replies were nobody knows.
    Surplus,
    /// Something came that is no reply.
    Unreadable(String),
}

impl Ending {
    /// What it means to a request that was not answered.
    pub(super) fn failure(&self) -> Failure {
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
            Self::Astray => f.write_str("this connection reached another server than commands do"),
            Self::Behind(late) => write!(f, "replies take longer than {late:?}"),
            Self::Broken(how) => write!(f, "the connection broke: {how}"),
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
