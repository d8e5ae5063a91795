//! The map, on the store in memory and in virtual time.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use leasehold::{
    Client, Error, LostReason, Map, MemoryStore, Result,
    codec::{Kryo5Text, TaggedJson, Text},
};
use tokio::time::sleep;

const KEY: &str = "42";
const BRIEF: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

fn orders(store: &MemoryStore) -> Map<String, u32> {
    Client::with_store(store).map("orders").unwrap()
}

/// Gets the value of `KEY` as a new client, which computes the value if there is none.
async fn value<F>(store: &MemoryStore, wait: Duration, compute: impl FnOnce() -> F) -> Result<u32>
where
    F: Future<Output = Result<u32>>,
{
    orders(store).get_or_insert_with(KEY, wait, compute).await
}

#[tokio::test(start_paused = true)]
async fn error_names_the_codec_of_the_writer() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let kryo = client.map::<String, String>("data").unwrap().codecs(Text, Kryo5Text);
    kryo.insert(KEY, &"test1".to_owned()).await.unwrap();
    assert_eq!(store.field("data", KEY).unwrap(), b"\x03test\xb1");
    let text = client.map::<String, u32>("data").unwrap();
    let error = text.get(KEY).await.unwrap_err();
    assert!(matches!(&error, Error::Codec { codec, .. } if codec == "Text"), "{error:?}");
    let shown = error.to_string();
    assert!(shown.starts_with("cannot convert a value of `data` with codec Text: "), "{shown}");
    assert!(shown.ends_with("; the bytes look like Kryo5Text, so use that codec"), "{shown}");
    assert!(!error.is_transient() && !error.is_busy());
    // After an entry that the codec cannot read, the stream continues.
    text.insert("43", &8).await.unwrap();
    let mut stream = text.stream();
    assert!(matches!(stream.next().await, Err(Error::Codec { .. })));
    assert_eq!(stream.next().await.unwrap(), Some(("43".to_owned(), 8)));
    // `insert` changes the value first, and then fails because it cannot convert the old value to
    // return it.
    text.insert(KEY, &7).await.unwrap_err();
    assert_eq!(text.get(KEY).await.unwrap(), Some(7));

    let tagged = client.map::<u32, BTreeMap<String, u32>>("data").unwrap();
    let tagged = tagged.codecs(Text, TaggedJson::plain());
    let unwritable = tagged.insert(&1, &BTreeMap::new()).await.unwrap_err().to_string();
    assert!(unwritable.ends_with("pass another value or use another codec"), "{unwritable}");
}

/// The values of one request, and the entries of one page, are too long for one reply.
#[tokio::test(start_paused = true)]
async fn map_reads_many_long_entries_by_several_requests() {
    let texts = Client::in_memory().map::<u32, String>("texts").unwrap();
    let all: Vec<_> = (0..300).map(|key| (key, key.to_string().repeat(10_000))).collect();
    texts.insert_many(&all).await.unwrap();
    assert_eq!(texts.len().await.unwrap(), 300);
    let read = texts.get_many(&Vec::from_iter(0..300)).await.unwrap();
    assert!(read.iter().flatten().eq(all.iter().map(|(_, text)| text)));
    let (mut stream, mut read) = (texts.stream(), vec![]);
    while let Some(entry) = stream.next().await.unwrap() {
        // A removal during the iteration makes the stream skip no other entry.
        texts.remove(&entry.0).await.unwrap();
        read.push(entry);
    }
    assert!(read == all, "the stream returned {} entries", read.len());
    assert_eq!(stream.next().await.unwrap(), None);
    let huge = texts.insert(&7, &"x".repeat(100_001)).await.unwrap_err();
    assert!(matches!(huge, Error::ValueTooLong { most: 100_000, .. }), "{huge}");
    assert!(huge.to_string().starts_with("value of `7` too long for `texts`: "), "{huge}");
}

// Locks of entries.

#[tokio::test(start_paused = true)]
async fn computation_is_skipped_when_a_value_appears_during_the_wait() {
    let store = MemoryStore::new();
    let dead = orders(&store);
    let _guard = dead.lock(KEY).unwrap().acquire().await.unwrap();
    let late = async {
        sleep(LONG / 2).await;
        dead.insert(KEY, &7).await.unwrap();
    };
    let got = value(&store, LONG, async || Ok(8));
    assert_eq!(tokio::join!(got, late).0.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn absent_value_is_computed_by_only_one_client() {
    let (store, computed) = (MemoryStore::new(), AtomicU32::new(0));
    let compute = async || {
        sleep(BRIEF).await;
        Ok(computed.fetch_add(1, Ordering::SeqCst))
    };
    let values = join_all((0..20).map(|_| value(&store, LONG, compute))).await;
    assert!(values.into_iter().all(|value| value.unwrap() == 0));
    assert_eq!(computed.into_inner(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_computation_ends_at_its_timeout_or_the_lease_end() {
    let store = MemoryStore::new();
    let dies = Client::builder().ttl(BRIEF * 3 / 2).with_store(&store);
    let dies = dies.map::<String, u32>("orders").unwrap();
    // Nothing renews or releases the lock of `dies`, as if its process had died.
    dies.lock(KEY).unwrap().acquire().await.unwrap().forget();
    let zero = value(&store, Duration::ZERO, async || Ok(7)).await;
    assert!(matches!(zero, Err(Error::Duration(_))), "{zero:?}");
    let short = value(&store, BRIEF, async || Ok(7)).await;
    assert!(matches!(short, Err(Error::TimedOut { waited: BRIEF, .. })), "{short:?}");
    assert_eq!(value(&store, BRIEF, async || Ok(7)).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn computed_value_is_not_inserted_after_the_lock_is_lost() {
    let store = MemoryStore::new();
    let orders = orders(&store);
    let lock = orders.lock(KEY).unwrap();
    // The client notices the loss after the end of the computation, or during the computation.
    for takes in [Duration::ZERO, LONG] {
        let compute = async || {
            store.lose(lock.name().as_str());
            sleep(takes).await;
            Ok(7)
        };
        let lost = value(&store, LONG, compute).await;
        assert!(matches!(lost, Err(Error::Lost { reason: LostReason::NotOwned, .. })), "{lost:?}");
        assert_eq!(orders.get(KEY).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_computation_inserts_nothing() {
    type Failed = Box<dyn std::error::Error>;
    let store = MemoryStore::new();
    let orders = orders(&store);
    let failed = orders.get_or_insert_with(KEY, LONG, async || Err(Failed::from("mine"))).await;
    assert_eq!(failed.unwrap_err().to_string(), "mine");
    assert!(!orders.lock(KEY).unwrap().is_locked().await.unwrap());
    assert_eq!(value(&store, LONG, async || Ok(7)).await.unwrap(), 7);
}
