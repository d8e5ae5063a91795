//! Clients that wait until replicas have what was written: `WAIT`.

use std::time::Duration;

use tokio::time::Instant;

use super::Core;
use crate::reply::{Answer, Reply};

/// What a client waits for. It is served nothing else before the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    replicas: usize,
    /// How much of what was written the replicas need.
    offset: u64,
    until: Option<Instant>,
}

impl Awaited {
    /// When the client has the answer at the latest.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

impl Core {
    /// Answers how many replicas have what was written before this command: as soon as there are
    /// as many as are wanted, or when `patience` ends.
    pub(crate) fn wait_for_replicas(
        &mut self,
        id: u64,
        replicas: usize,
        patience: Option<Duration>,
    ) -> Answer {
        let offset = self.client(id).map_or(0, |client| client.written);
        let have = self.replicas_with(offset);
        if have >= replicas {
            return Ok(Reply::count(have));
        }
        let until = patience.map(|patience| self.instant() + patience);
        if let Some(client) = self.client(id) {
            client.awaited = Some(Awaited { replicas, offset, until });
        }
        Ok(Reply::Said)
    }

    /// Whether this client waits for replicas.
    pub(crate) fn is_awaiting(&mut self, id: u64) -> bool {
        self.client(id).is_some_and(|client| client.awaited.is_some())
    }

    /// Answers the clients that have waited for replicas long enough.
    pub(crate) fn answer_awaited(&mut self) {
        let now = self.instant();
        for (id, Awaited { replicas, offset, until }) in self.awaiting() {
            let have = self.replicas_with(offset);
            if have >= replicas || until.is_some_and(|until| until <= now) {
                if let Some(client) = self.client(id) {
                    client.awaited = None;
                }
                self.say(id, &Reply::count(have));
            }
        }
    }
}
