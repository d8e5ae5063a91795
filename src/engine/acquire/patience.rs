//! How long a caller waits, counted from when it came.

use std::time::Duration;

use tokio::time::Instant;

/// A bounded timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub(super) since: Instant,
    pub(super) until: Instant,
}

impl Within {
    /// Starts now.
    pub(crate) fn from_now(patience: Duration) -> Self {
        let since = Instant::now();
        Self { since, until: since + patience }
    }
}

/// How long a caller waits that already holds the object.
#[cfg(feature = "blocking")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// As long as it holds.
    Endless,
    /// As long as a question may take.
    Once,
    /// For this time.
    Within(Within),
}

#[cfg(feature = "blocking")]
impl Patience {
    /// When it ends, if it is bounded.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Endless | Self::Once => None,
            Self::Within(within) => Some(within.until),
        }
    }

    /// How long an answer is waited for, where a `question` may take so long.
    pub(super) fn for_an_answer(self, question: Duration) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::Once => Some(question),
            Self::Within(within) => Some(within.until.saturating_duration_since(Instant::now())),
        }
    }
}
