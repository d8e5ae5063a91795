//! Workers that change the entries of a map: with a guard, by a computation, and without a lock.
//! They also delete the lock of an entry while another worker holds it.

use std::time::Duration;

use tokio::time::sleep;

use super::Worker;
use crate::{
    Client, Error, Map, Result,
    engine::simulation::served::{book::Book, facts::until_known},
};

/// Two keys of the map.
const COUNTER: &str = "counter";
const LAST: &str = "last";

/// The longest wait for the computation of another task. At the end of a simulation, also the pause
/// before a failed request is repeated.
const PATIENCE: Duration = Duration::from_secs(60);

fn entries(client: &Client) -> Map<String, String> {
    client.map("entries").unwrap()
}

async fn counter(map: &Map<String, String>) -> Result<u64> {
    Ok(map.get(COUNTER).await?.map_or(0, |value| value.parse().unwrap()))
}

impl Worker {
    /// Counts, computes and replaces values, and deletes the lock of the counter.
    pub(super) async fn use_map(mut self) {
        let map = entries(&self.client());
        for round in 0..self.scenario.rounds {
            self.pause(self.scenario.rest).await;
            match self.chance.u32(..4) {
                0 => self.counts(&map).await,
                1 => self.computes(&map, round).await,
                2 => {
                    // After this, two tasks may have a valid guard. But only the task whose hold is
                    // on the server can write.
                    let lock = map.lock(COUNTER).unwrap();
                    let deleted = self.book.site.master().delete(lock.name().as_str());
                    self.log(|| format!("deletes the lock of the counter: {deleted}"));
                }
                _ => self.replaces(&map, round).await,
            }
        }
    }

    /// Adds one to the counter under its lock.
    async fn counts(&mut self, map: &Map<String, String>) {
        let lock = map.lock(COUNTER).unwrap().ttl(self.scenario.ttl);
        let Some(guard) = self.acquire(lock.try_acquire(), lock.acquire()).await else { return };
        let least = self.book.note(|known| known.entries.counted());
        if let Ok(count) = counter(map).await {
            if count < least {
                self.book.breaks(format!("the counter is {count} after {least} writes"));
            }
            self.pause(self.scenario.hold).await;
            let write = map.insertion(COUNTER, &(count + 1).to_string()).unwrap();
            self.book.note(|known| known.entries.may_be_counted());
            let written = guard.write([write]).await;
            self.log(|| format!("counts {count} and one: {written:?}"));
            if let Ok(()) | Err(Error::Lost { .. }) = written {
                self.book.note(|known| known.entries.is_counted(written.is_ok()));
            }
        }
        self.release(guard, async |guard| drop(guard.release().await)).await;
    }

    /// Gets a value that other workers compute at the same time. Some workers insert a value
    /// without the lock.
    async fn computes(&mut self, map: &Map<String, String>, number: u32) {
        let (value, takes) = (self.label.clone(), self.up_to(self.scenario.hold));
        let key = number.to_string();
        let computed = if self.chance.u32(..4) == 0 {
            map.insert_if_absent(&key, &value).await.map(|there| there.unwrap_or(value))
        } else {
            let compute = || async {
                sleep(takes).await;
                Ok::<_, Error>(value)
            };
            map.get_or_insert_with(&key, PATIENCE, compute).await
        };
        self.log(|| format!("wants {number}: {computed:?}"));
        if let Ok(value) = computed {
            self.book.checks(|known| known.entries.is_computed(number, &value));
        }
    }

    /// Replaces a value without a lock.
    async fn replaces(&mut self, map: &Map<String, String>, round: u32) {
        let value = format!("{}:{round}", self.label);
        self.book.note(|known| known.entries.may_be_inserted(&value));
        let before = map.insert(LAST, &value).await;
        self.log(|| format!("{value} replaces {before:?}"));
        if let Ok(before) = before {
            self.book.checks(|known| known.entries.is_inserted(&value, before));
        }
    }
}

/// Compares the entries with the record of the simulation, and removes them.
pub(super) async fn remove_all(client: &Client, book: &Book) -> Result<(), String> {
    let map = entries(client);
    let count = until_known(PATIENCE, || counter(&map)).await;
    let last = until_known(PATIENCE, || map.remove(LAST)).await;
    book.note(|known| known.entries.end_with(count, last.as_ref()))?;
    let mut stream = map.stream();
    while let Some((key, value)) = stream.next().await.map_err(|error| error.to_string())? {
        if let Ok(number) = key.parse() {
            let rule = book.note(|known| known.entries.is_computed(number, &value));
            rule.map_or(Ok(()), Err)?;
        }
        until_known(PATIENCE, || map.remove(&key)).await;
    }
    Ok(())
}
