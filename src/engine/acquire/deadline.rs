//! The timeout of a caller, counted from the start of its call.

use std::time::Duration;

use tokio::time::Instant;

/// The start of a call and the end of its timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(super) since: Instant,
    pub(crate) until: Instant,
}

impl Deadline {
    pub(crate) fn from_now(max_wait: Duration) -> Self {
        let since = Instant::now();
        Self { since, until: since + max_wait }
    }
}

/// The timeout of a caller that already holds the object.
#[cfg(feature = "blocking")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReentryTimeout {
    /// No timeout: the caller waits for as long as its hold lasts.
    Endless,
    /// The request timeout: the caller waits for one reply.
    Once,
    Within(Deadline),
}

#[cfg(feature = "blocking")]
impl ReentryTimeout {
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Endless | Self::Once => None,
            Self::Within(deadline) => Some(deadline.until),
        }
    }

    /// Returns how long the caller waits for a reply, or `None` if it waits without a limit.
    pub(super) fn for_reply(self, request_timeout: Duration) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::Once => Some(request_timeout),
            Self::Within(deadline) => {
                Some(deadline.until.saturating_duration_since(Instant::now()))
            }
        }
    }
}
