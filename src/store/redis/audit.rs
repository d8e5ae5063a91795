//! The record of the last releases by force: one list for all names. Plain commands read and write
//! the list.
//!
//! The client writes an entry before the release, so every release by force has an entry.

use redis::{Cmd, Value, cmd};

use super::{RedisStore, Reply, keys::FORCED, replies};
use crate::domain::{Failure, ForcedRelease};

/// The largest number of entries in the list.
const MOST: i64 = 100;

/// Appends `forced`, and removes the oldest entry if there are too many.
pub(crate) async fn write(store: &RedisStore, forced: &ForcedRelease) -> Reply<()> {
    let length = call(store, cmd("RPUSH").arg(FORCED).arg(forced.text())).await?;
    if matches!(length, Value::Int(length) if length > MOST) {
        call(store, cmd("LPOP").arg(FORCED)).await?;
    }
    Ok(())
}

/// Reads all entries, the newest entry first.
pub(crate) async fn read(store: &RedisStore) -> Reply<Vec<ForcedRelease>> {
    let entries = call(store, cmd("LRANGE").arg(FORCED).arg(-MOST).arg(-1)).await?;
    let Value::Array(entries) = entries else { return Ok(vec![]) };
    let entries = entries.iter().rev();
    Ok(entries.filter_map(|entry| ForcedRelease::read(&replies::into_text(entry))).collect())
}

async fn call(store: &RedisStore, command: &Cmd) -> Reply<Value> {
    let reply = store.topology.call(FORCED.as_bytes(), command).await?;
    replies::accepted(reply).map_err(naming_the_key)
}

/// Adds the key of the list to a rejection. Without this key, a user would assume that the server
/// denied the key of the lock.
fn naming_the_key(failure: Failure) -> Failure {
    match failure {
        Failure::Refused { code, message, command } => {
            let message =
                format!("{message}; the request was for {FORCED}, the record of releases by force");
            Failure::Refused { code, message, command }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Error, MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn only_the_latest_forced_releases_are_kept_newest_first() {
        let client = Client::with_store(&MemoryStore::new());
        let door = client.lock("door").unwrap();
        assert_eq!(client.forced_releases().await.unwrap(), []);
        for number in 0..MOST + 5 {
            let guard = door.acquire().await.unwrap();
            let by = format!("root {number}");
            assert!(door.force_release_owner(guard.owner(), &by).await.unwrap());
            assert!(!door.is_locked().await.unwrap());
        }
        let forced = client.forced_releases().await.unwrap();
        let by: Vec<_> = forced.iter().map(|it| it.by.clone()).collect();
        let expected: Vec<_> = (5..MOST + 5).rev().map(|it| format!("root {it}")).collect();
        assert_eq!(by, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn forced_release_fails_if_it_cannot_be_recorded() {
        let memory = MemoryStore::new();
        let client = Client::with_store(&memory);
        let door = client.lock("door").unwrap();
        let guard = door.acquire().await.unwrap();
        memory.fail("NOPERM no permissions to access a key");
        let error = door.force_release_owner(guard.owner(), "root").await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }) && error.to_string().contains(FORCED));
        memory.heal();
        assert!(door.is_locked().await.unwrap());
    }
}
