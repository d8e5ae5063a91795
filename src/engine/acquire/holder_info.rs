//! What the client of a holder publishes, for the error of an acquisition that times out.
//!
//! The task of the acquisition reads it shortly before its timeout, while it waits. So a wait that
//! ends earlier sends nothing, and the timeout is not extended: if the reply has not come by then,
//! the error has none. The tasks of one client that wait for one name share a request.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::sleep_until;

use super::Deadline;
use crate::{domain::Object, engine::Engine};

/// How long before the timeout the request is sent, at most.
const LEAD: Duration = Duration::from_secs(1);

impl Engine {
    /// Reads what the client of the holder of `object` publishes, shortly before the timeout. Does
    /// nothing if this client publishes nothing itself.
    pub(super) async fn read_holder_info(&self, object: &Object, deadline: Deadline) -> Infallible {
        if self.info.is_some() {
            Box::pin(self.read_once(object, deadline)).await;
        }
        pending().await
    }

    async fn read_once(&self, object: &Object, Deadline { since, until }: Deadline) {
        let lead = (until.saturating_duration_since(since) / 2).min(LEAD);
        sleep_until(until - lead).await;
        let now = self.core.clock.now();
        let Some(owner) = self.contention.holder_to_ask_about(object, now) else { return };
        match self.client_info(&owner).await {
            Ok(info) => self.contention.note_client(object, &owner, info),
            Err(error) => {
                tracing::debug!(target: "leasehold", %error, "client info of the holder not read");
            }
        }
    }
}
