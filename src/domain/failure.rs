//! Why a store has no answer.

use std::{error::Error, fmt, sync::Arc};

/// Why a store has no answer, and whether the request may have been executed.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory has fewer ways to fail"))]
pub(crate) enum Failure {
    /// Asked outside of a runtime. Nothing happened.
    NoRuntime,
    /// The store refused, and says why. Nothing happened.
    Refused { code: String, message: String },
    /// Sent, but no answer came. It **may have happened**, or happen yet.
    Unanswered(Arc<dyn Error + Send + Sync>),
    /// Never sent. Nothing happened.
    Unreachable(Arc<dyn Error + Send + Sync>),
    /// Answered with something that we cannot read. It **may have happened**.
    Unreadable(String),
    /// Something of another kind lies under the name. Nothing happened.
    WrongType { found: String },
}

/// Refusals that end by themselves: the server starts, fails over or is busy.
const PASSING: [&str; 8] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "NOREPLICAS",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
];

impl Failure {
    pub(crate) fn refused(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Refused { code: code.into(), message: message.into() }
    }

    pub(crate) fn unanswered(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unanswered(cause.into().into())
    }

    #[cfg(any(feature = "redis", test))]
    pub(crate) fn unreachable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreachable(cause.into().into())
    }

    /// Whether the request may have been executed, or may be yet.
    pub(crate) fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::Unreadable(_))
    }

    /// Whether asking again later can help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused { code, .. } => PASSING.contains(&code.as_str()),
            Self::Unanswered(_) | Self::Unreachable(_) => true,
            Self::NoRuntime | Self::Unreadable(_) | Self::WrongType { .. } => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => f.write_str("there is no tokio runtime"),
            Self::Refused { code, message } => write!(f, "refused: {code} {message}"),
            Self::Unanswered(cause) => write!(f, "no answer: {cause}"),
            Self::Unreachable(cause) => write!(f, "not reachable: {cause}"),
            Self::Unreadable(what) => write!(f, "unexpected answer: {what}"),
            Self::WrongType { found } => write!(f, "the key is a {found}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_leaves_open_whether_it_happened() {
        assert!(Failure::unanswered("timeout").may_have_happened());
        assert!(Failure::Unreadable("?".into()).may_have_happened());
        assert!(!Failure::unreachable("refused").may_have_happened());
        assert!(!Failure::refused("OOM", "").may_have_happened());
    }

    #[test]
    fn asking_again_helps_against_a_restart_but_not_against_a_missing_permission() {
        for passing in ["LOADING", "READONLY", "CLUSTERDOWN", "BUSY"] {
            assert!(Failure::refused(passing, "").may_pass(), "{passing}");
        }
        for lasting in ["NOAUTH", "NOPERM", "OOM", "ERR", "WRONGPASS"] {
            assert!(!Failure::refused(lasting, "").may_pass(), "{lasting}");
        }
        assert!(!Failure::WrongType { found: "string".into() }.may_pass());
    }
}
