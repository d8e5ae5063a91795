//! A grant is handed off only to a waiter with the same lease profile.

use tokio::time::timeout;

use super::*;
use crate::{ExpirablePermits, ExpirableSemaphore};

const SOON: Duration = Duration::from_millis(2);

/// A time that is longer than the pause of a waiter between two requests.
const LONG: Duration = Duration::from_secs(5);

/// Returns the semaphore of one client, the permit of this client, and the permit of another
/// client. No permit is free.
async fn two_permits() -> (ExpirableSemaphore, ExpirablePermits, ExpirablePermits) {
    let store = MemoryStore::new();
    let [here, there] =
        [(); 2].map(|()| Client::with_store(&store).expirable_semaphore("pool").unwrap());
    here.set(2).await.unwrap();
    let (ours, theirs) = (here.acquire().await.unwrap(), there.acquire().await.unwrap());
    (here, ours, theirs)
}

/// Polls `acquires` until it waits.
async fn waits(acquires: &mut (impl Future<Output = crate::Result<ExpirablePermits>> + Unpin)) {
    assert!(timeout(SOON, acquires).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn permit_offered_to_a_leaving_waiter_is_granted_only_once() {
    let (here, ours, _theirs) = two_permits().await;
    let mut goes = Box::pin(here.acquire());
    waits(&mut goes).await;
    let mut next = Box::pin(here.acquire_many(2));
    waits(&mut next).await;
    drop(ours);
    drop(goes);
    assert!(timeout(LONG, &mut next).await.is_err(), "no third permit is granted");
}

#[tokio::test(start_paused = true)]
async fn request_for_two_permits_is_not_granted_if_only_one_is_free() {
    let (here, ours, _theirs) = two_permits().await;
    let mut goes = Box::pin(here.acquire_many(2));
    waits(&mut goes).await;
    let mut called = Box::pin(here.acquire_many(2));
    waits(&mut called).await;
    drop(goes);
    drop(ours);
    assert!(timeout(LONG, &mut called).await.is_err(), "no third permit is granted");
}
