//! Reads the client info of a holder, for the error of an acquisition that times out.
//!
//! The waiting task sends this request shortly before its timeout, so a wait that ends earlier does
//! not cost a request. The request does not extend the timeout: if the reply is late, the error has
//! no client info. The tasks of one client that wait for the same name share one request.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::sleep_until;

use super::Deadline;
use crate::{domain::Object, engine::Engine};

/// The longest time from the request for the client info to the end of the timeout.
const LEAD: Duration = Duration::from_secs(1);

impl Engine {
    /// Reads the client info of the holder of `object` shortly before the timeout, if this client
    /// publishes client info itself. Never returns, because only the acquisition may end the wait.
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
