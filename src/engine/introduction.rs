//! Publishes the client info while the client has a hold that has lasted for at least a second.
//!
//! This module runs in the background task. No acquisition waits for the client info, and a failure
//! to publish it has no effect on a hold.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::sleep;

use super::{core::Core, watchdog::Watchdog};
use crate::{
    domain::{ClientInfo, Failure, HoldInfo, Name},
    store::client_info,
};

/// The client info lists only holds that have lasted for this time. A client with only shorter
/// holds publishes nothing, so short holds cost no request.
const LASTS: Duration = Duration::from_secs(1);

/// How long Redis keeps the client info. While a hold lasts, the client info is published again
/// after a third of this time.
const CLIENT_INFO_KEPT_FOR: Duration = Duration::from_secs(30);

/// Publishes the client info of `client` until the engine is dropped, or the server denies the
/// permission.
pub(super) async fn introduce(
    core: Arc<Core>,
    watchdog: Arc<Watchdog>,
    info: Arc<ClientInfo>,
    client: Name,
) {
    let mut due_at = core.clock.now();
    loop {
        tokio::select! {
            biased;
            _ = core.used.acquire() => return,
            () = sleep(LASTS) => {}
        }
        let now = core.clock.now();
        if now < due_at {
            continue;
        }
        let mut holds = watchdog.holds();
        holds.retain(|hold| hold.held_for(now) >= LASTS && hold.remaining(now).is_ok());
        if holds.is_empty() {
            continue;
        }
        let today = today();
        let text = info.text(holds.iter().map(|hold| HoldInfo {
            name: hold.name().as_str(),
            owner: hold.grant.claim.owner.as_str(),
            since: today.checked_sub(hold.held_for(now)).unwrap_or(today),
            reason: hold.reason.as_deref(),
        }));
        match client_info::write(&core.store, &client, &text, CLIENT_INFO_KEPT_FOR).await {
            Ok(()) => due_at = now + CLIENT_INFO_KEPT_FOR / 3,
            Err(Failure::Refused { code, message, .. }) if code == "NOPERM" => {
                tracing::warn!(target: "leasehold", %message,
                    "client info not published: the Redis user lacks a permission");
                return;
            }
            Err(failure) => {
                tracing::debug!(target: "leasehold", %failure, "client info not published: retrying");
            }
        }
    }
}

/// Returns the time of day, which only operators read.
#[expect(clippy::disallowed_methods, reason = "no lease depends on it")]
pub(super) fn today() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, MemoryStore, domain::Owner};

    const LONG: Duration = Duration::from_secs(100);

    fn named(memory: &MemoryStore) -> Client {
        Client::builder().application("orders", "1.4.2").with_store(memory)
    }

    /// Returns the published client info, as another client reads it.
    async fn published(memory: &MemoryStore, of: &Client) -> Option<ClientInfo> {
        let owner = Owner::new(format!("{}:1", of.id())).unwrap();
        Client::with_store(memory).client_info(&owner).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn client_info_expires_after_the_hold() {
        let memory = MemoryStore::new();
        let client = named(&memory);
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        assert_eq!(published(&memory, &client).await, None);
        sleep(LONG).await;
        let info = published(&memory, &client).await.unwrap();
        assert_eq!((&*info.application, info.pid), ("orders", std::process::id()));
        assert!(info.held_since("door").is_some() && info.held_since("gate").is_none());

        guard.release().await.unwrap().into_result().unwrap();
        sleep(CLIENT_INFO_KEPT_FOR).await;
        assert_eq!(memory.keys(), [""; 0]);
        sleep(LONG).await;
        assert_eq!(memory.keys(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn short_holds_publish_no_client_info() {
        let memory = MemoryStore::new();
        let client = named(&memory);
        let door = client.lock("door").unwrap();
        for _ in 0..100 {
            let guard = door.acquire().await.unwrap();
            sleep(LASTS / 2).await;
            guard.release().await.unwrap().into_result().unwrap();
            assert_eq!(memory.keys(), [""; 0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_without_an_application_publishes_no_client_info() {
        let memory = MemoryStore::new();
        let client = Client::with_store(&memory);
        let _guard = client.lock("door").unwrap().acquire().await.unwrap();
        sleep(LONG).await;
        assert_eq!(memory.keys(), ["door"]);
    }

    #[tokio::test(start_paused = true)]
    async fn client_info_is_published_again_after_an_outage() {
        let memory = MemoryStore::new();
        let client = named(&memory);
        let _guard = client.lock("door").unwrap().ttl(2 * LONG).acquire().await.unwrap();
        sleep(CLIENT_INFO_KEPT_FOR).await;
        memory.fail("LOADING Redis is loading the dataset in memory");
        sleep(2 * CLIENT_INFO_KEPT_FOR).await;
        memory.heal();
        sleep(2 * LASTS).await;
        assert!(published(&memory, &client).await.is_some());
    }
}
