//! Detects that the server does not reply, or replies much too late.
//!
//! The watch counts replies and not bytes, because an endless reply or a pushed message does not
//! complete a request. A request counts even after its caller was cancelled.
//!
//! The watch measures silence in checks, and not in time. If the process is stopped for a minute,
//! at most one check falls into that minute. The client reads the received bytes before the next
//! check. So a stop of this process does not count as silence of the server.

use std::{collections::VecDeque, time::Duration};

use crate::pipe::ending::Ending;

/// The number of checks within one command timeout.
pub(super) const LOOKS: u32 = 4;

/// How many requests and replies one connection has had so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Progress {
    /// How many requests the client has sent.
    pub(crate) asked: u64,
    /// How many of these requests have a reply.
    pub(crate) answered: u64,
    /// How many replies came. One request may have several replies.
    pub(crate) replies: u64,
}

/// Checks one connection while a request is in flight.
#[derive(Debug)]
pub(super) struct Watch {
    command_timeout: Duration,
    replies: u64,
    /// How many checks in a row found no new reply.
    silent: u32,
    /// How many requests had been sent at each of the last checks. The oldest check comes first.
    asked: VecDeque<u64>,
}

impl Watch {
    /// Creates a watch whose first check is now.
    pub(crate) fn new(command_timeout: Duration, now: Progress) -> Self {
        Self { command_timeout, replies: now.replies, silent: 0, asked: [now.asked].into() }
    }

    /// Checks again, and returns an ending if the connection must end. Between two checks, the
    /// caller waits for the command timeout divided by `LOOKS`.
    ///
    /// The connection must end if the command timeout has passed without any reply, or if the
    /// oldest request has waited for twice the command timeout.
    pub(crate) fn look(&mut self, now: Progress) -> Option<Ending> {
        self.silent = if now.replies == self.replies { self.silent + 1 } else { 0 };
        self.replies = now.replies;
        if self.silent >= LOOKS {
            return Some(Ending::Silent(self.command_timeout));
        }
        let latest = 2 * LOOKS as usize;
        if self.asked.len() >= latest
            && let Some(asked) = self.asked.pop_front()
            && asked > now.answered
        {
            return Some(Ending::Behind(self.command_timeout));
        }
        self.asked.push_back(now.asked);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn progress(asked: u64, answered: u64) -> Progress {
        Progress { asked, answered, replies: answered }
    }

    fn watch(now: Progress) -> Watch {
        Watch::new(LIMIT, now)
    }

    #[test]
    fn silent_server_is_dropped_after_the_command_timeout() {
        let mut watch = watch(progress(8, 7));
        for _ in 1..LOOKS {
            assert!(watch.look(progress(9, 7)).is_none());
        }
        assert!(matches!(watch.look(progress(9, 7)), Some(Ending::Silent(_))));
    }

    #[test]
    fn connection_to_a_slow_server_is_kept_while_it_replies() {
        let mut watch = watch(progress(1, 0));
        for look in 1..100 {
            // each request gets its reply within less than the command timeout
            assert!(watch.look(progress(look + 2, look - 1)).is_none(), "{look}");
            assert!(watch.look(progress(look + 3, look - 1)).is_none(), "{look}");
        }
    }

    #[test]
    fn server_whose_replies_lag_is_dropped_after_two_timeouts() {
        let mut watch = watch(progress(1_000, 0));
        let looks = (1..100).find(|look| watch.look(progress(1_000, *look)).is_some());
        assert_eq!(looks, Some(2 * u64::from(LOOKS)));
    }

    #[test]
    fn partial_replies_to_a_request_keep_the_connection() {
        let mut watch = watch(progress(1, 0));
        for replies in 1..=2 * u64::from(LOOKS) - 1 {
            assert!(watch.look(Progress { asked: 1, answered: 0, replies }).is_none());
        }
    }
}
