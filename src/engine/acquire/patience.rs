//! The timeout of a caller, counted from the start of its call.

use std::time::Duration;

use tokio::time::Instant;

/// A bounded timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub(super) since: Instant,
    pub(crate) until: Instant,
}

impl Within {
    /// Starts now.
    pub(crate) fn from_now(patience: Duration) -> Self {
        let since = Instant::now();
        Self { since, until: since + patience }
    }
}

/// The timeout of a caller that already holds the object.
#[cfg(feature = "blocking")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// No timeout: it waits for as long as it holds the object.
    Endless,
    /// One request: it waits for the request timeout.
    Once,
    /// This timeout.
    Within(Within),
}

#[cfg(feature = "blocking")]
impl Patience {
    /// Returns when the timeout ends, if there is one.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Endless | Self::Once => None,
            Self::Within(within) => Some(within.until),
        }
    }

    /// Returns how long the caller waits for a reply. `question` is the request timeout.
    pub(super) fn for_an_answer(self, question: Duration) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::Once => Some(question),
            Self::Within(within) => Some(within.until.saturating_duration_since(Instant::now())),
        }
    }
}
