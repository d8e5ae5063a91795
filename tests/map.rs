//! The map and the set, on the store in memory and in virtual time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use leasehold::{
    Client, Error, LostReason, Map, MemoryStore, Set,
    codec::{Bytes, Json, Kryo5Text, TaggedJson, Text},
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

const LONG: Duration = Duration::from_secs(30);

fn orders(store: &MemoryStore) -> Map<String, u32> {
    Client::with_store(store).map("orders").unwrap()
}

fn seen(store: &MemoryStore) -> Set<String> {
    Client::with_store(store).set("seen").unwrap()
}

fn order() -> String {
    "42".to_owned()
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Order {
    total_cents: u32,
    note: Option<String>,
}

#[tokio::test(start_paused = true)]
async fn each_codec_writes_its_bytes_into_the_hash() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let field = |key: &[u8]| store.field("data", key).unwrap();
    let text = client.map::<String, u32>("data").unwrap();
    text.insert(&order(), &7).await.unwrap();
    assert_eq!(field(b"42"), b"7");

    let raw = client.map::<Vec<u8>, Vec<u8>>("data").unwrap().codec(Bytes);
    raw.insert(&vec![0, 255], &vec![]).await.unwrap();
    assert_eq!(field(&[0, 255]), b"");

    let kryo = client.map::<String, i64>("data").unwrap().codec(Kryo5Text);
    kryo.insert(&order(), &42).await.unwrap();
    assert_eq!(field(&[3, b'4', 0xb2]), [9, 0x54]);

    let order_7 = Order { total_cents: 7, note: None };
    let json = client.map::<String, Order>("data").unwrap().codecs(Text, Json);
    json.insert(&"json".to_owned(), &order_7).await.unwrap();
    assert_eq!(field(b"json"), br#"{"totalCents":7}"#);

    let class = TaggedJson::new("com.ex.Order");
    let tagged = client.map::<String, Order>("data").unwrap().codecs(TaggedJson::plain(), class);
    tagged.insert(&order(), &order_7).await.unwrap();
    assert_eq!(field(b"\"42\""), br#"{"@class":"com.ex.Order","totalCents":7}"#);
    assert_eq!(tagged.get(&order()).await.unwrap(), Some(order_7));
}

#[tokio::test(start_paused = true)]
async fn error_names_the_codec_of_the_writer() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let kryo = client.map::<String, String>("data").unwrap().codecs(Text, Kryo5Text);
    kryo.insert(&order(), &"test1".to_owned()).await.unwrap();
    let text = client.map::<String, u32>("data").unwrap();
    let error = text.get(&order()).await.unwrap_err();
    assert!(matches!(&error, Error::Codec { codec, .. } if codec == "Text"), "{error:?}");
    let shown = error.to_string();
    assert!(shown.starts_with("cannot convert a value of `data` with codec Text: "), "{shown}");
    assert!(shown.ends_with("; the bytes look like Kryo5Text, so use that codec"), "{shown}");
    assert!(!error.is_transient() && !error.is_busy());
    // `insert` changes the value first, and then fails because it cannot convert the old value to
    // return it.
    text.insert(&order(), &7).await.unwrap_err();
    assert_eq!(text.get(&order()).await.unwrap(), Some(7));

    let tagged = client.map::<u32, BTreeMap<String, u32>>("data").unwrap();
    let tagged = tagged.codecs(Text, TaggedJson::plain());
    let unwritable = tagged.insert(&1, &BTreeMap::new()).await.unwrap_err().to_string();
    assert!(unwritable.ends_with("pass another value or use another codec"), "{unwritable}");
}

#[tokio::test(start_paused = true)]
async fn stream_returns_each_entry() {
    let store = MemoryStore::new();
    let numbers = Client::with_store(&store).map::<u32, u32>("numbers").unwrap();
    let all: Vec<_> = (0..300).map(|n| (n, n * n)).collect();
    numbers.insert_many(&all).await.unwrap();
    assert_eq!(numbers.len().await.unwrap(), 300);
    let (mut stream, mut read) = (numbers.stream(), vec![]);
    while let Some(entry) = stream.next().await.unwrap() {
        read.push(entry);
        // A removal during the iteration makes the stream skip no other entry.
        numbers.remove(&entry.0).await.unwrap();
    }
    assert_eq!(read, all);
    assert_eq!(stream.next().await.unwrap(), None);

    let elements = Client::with_store(&store).set::<u32>("elements").unwrap();
    for n in 0..300 {
        elements.insert(&n).await.unwrap();
    }
    let mut members = elements.members().await.unwrap();
    members.sort_unstable();
    assert_eq!(members, (0..300).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn entry_that_cannot_be_read_does_not_end_the_stream() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    client.map::<u32, String>("data").unwrap().insert(&1, &"x".to_owned()).await.unwrap();
    let numbers = client.map::<u32, u32>("data").unwrap();
    numbers.insert(&2, &7).await.unwrap();
    let mut stream = numbers.stream();
    assert!(matches!(stream.next().await, Err(Error::Codec { .. })));
    assert_eq!(stream.next().await.unwrap(), Some((2, 7)));
}

// Locks of entries.

#[tokio::test(start_paused = true)]
async fn entry_is_not_written_after_the_loss_of_its_lock() {
    let store = MemoryStore::new();
    let orders = orders(&store);
    let guard = orders.lock(&order()).unwrap().acquire().await.unwrap();
    guard.write([orders.insertion(&order(), &7).unwrap()]).await.unwrap();
    store.lose(guard.name().as_str());
    for write in [orders.insertion(&order(), &8), orders.removal(&order())] {
        let late = guard.write([write.unwrap()]).await;
        assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    }
    assert_eq!(orders.get(&order()).await.unwrap(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn present_value_is_returned_while_a_dead_client_has_its_lock() {
    let store = MemoryStore::new();
    let (dead, orders) = (orders(&store), orders(&store));
    let guard = dead.lock(&order()).unwrap().acquire().await.unwrap();
    let late = async {
        sleep(LONG / 2).await;
        dead.insert(&order(), &7).await.unwrap();
    };
    let key = order();
    let got = orders.get_or_insert_with(&key, LONG, async || Ok::<_, Error>(8));
    assert_eq!(tokio::join!(got, late).0.unwrap(), 7);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn absent_value_is_computed_by_only_one_client() {
    let store = MemoryStore::new();
    let computed = Arc::new(AtomicU32::new(0));
    let callers = (0..20).map(|_| {
        let (orders, computed) = (orders(&store), Arc::clone(&computed));
        tokio::spawn(async move {
            let compute = async || {
                sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(computed.fetch_add(1, Ordering::SeqCst))
            };
            orders.get_or_insert_with(&order(), LONG, compute).await
        })
    });
    for value in join_all(callers).await {
        assert_eq!(value.unwrap().unwrap(), 0);
    }
    assert_eq!(computed.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_computation_of_another_client_is_bounded() {
    let store = MemoryStore::new();
    let _computes = orders(&store).lock(&order()).unwrap().acquire().await.unwrap();
    let wait = Duration::from_secs(2);
    let timed_out = orders(&store).get_or_insert_with(&order(), wait, async || Ok(7)).await;
    assert!(matches!(timed_out, Err(Error::TimedOut { waited, .. }) if waited == wait));
    let zero = orders(&store);
    let zero = zero.get_or_insert_with(&order(), Duration::ZERO, async || Ok(7)).await;
    assert!(matches!(zero, Err(Error::Duration(_))), "{zero:?}");
}

#[tokio::test(start_paused = true)]
async fn value_of_a_dead_process_is_computed_after_its_lease() {
    let store = MemoryStore::new();
    let dies = Client::builder().ttl(Duration::from_secs(3)).with_store(&store);
    let dies = dies.map::<String, u32>("orders").unwrap();
    // Nothing renews or releases the lock of `dies`, as if its process had died.
    dies.lock(&order()).unwrap().acquire().await.unwrap().forget();
    let compute = async || Ok::<_, Error>(7);
    let short = orders(&store).get_or_insert_with(&order(), Duration::from_secs(2), compute).await;
    assert!(matches!(short, Err(Error::TimedOut { .. })), "{short:?}");
    let computed =
        orders(&store).get_or_insert_with(&order(), Duration::from_secs(2), compute).await;
    assert_eq!(computed.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn computed_value_is_not_inserted_after_the_lock_is_lost() {
    let store = MemoryStore::new();
    let (first, second) = (orders(&store), orders(&store));
    let lock = first.lock(&order()).unwrap();
    // The lock is lost, and the client has not noticed it when the computation ends.
    let compute = async || {
        store.lose(lock.name().as_str());
        Ok(7)
    };
    let lost = first.get_or_insert_with(&order(), LONG, compute).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    assert_eq!(second.get(&order()).await.unwrap(), None);
    // The lock is lost, and the client notices it while the computation runs.
    let compute = async || {
        store.lose(lock.name().as_str());
        sleep(LONG).await;
        Ok(7)
    };
    let lost = first.get_or_insert_with(&order(), LONG, compute).await;
    assert!(matches!(lost, Err(Error::Lost { reason: LostReason::NotOwned, .. })), "{lost:?}");
    assert_eq!(second.get(&order()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn failed_computation_inserts_nothing() {
    #[derive(Debug)]
    enum Failed {
        Mine,
        Store(Error),
    }
    impl From<Error> for Failed {
        fn from(error: Error) -> Self {
            Self::Store(error)
        }
    }
    let store = MemoryStore::new();
    let orders = orders(&store);
    match orders.get_or_insert_with(&order(), LONG, async || Err(Failed::Mine)).await {
        Err(Failed::Mine) => {}
        Err(Failed::Store(error)) => panic!("{error}"),
        Ok(value) => panic!("{value}"),
    }
    assert!(!orders.lock(&order()).unwrap().is_locked().await.unwrap());
    let value = orders.get_or_insert_with(&order(), LONG, async || Ok::<_, Error>(7)).await;
    assert_eq!(value.unwrap(), 7);
}

/// `insert` does not take the lock of the entry, so it can set a value during a computation. Java's
/// `computeIfAbsent` also returns that value.
#[tokio::test(start_paused = true)]
async fn value_of_another_client_wins_over_the_computed_value() {
    let store = MemoryStore::new();
    let (mine, other) = (orders(&store), orders(&store));
    let compute = async || {
        other.insert(&order(), &8).await.unwrap();
        Ok::<_, Error>(7)
    };
    assert_eq!(mine.get_or_insert_with(&order(), LONG, compute).await.unwrap(), 8);
    assert_eq!(mine.get(&order()).await.unwrap(), Some(8));
}

// The set.

#[tokio::test(start_paused = true)]
async fn set_has_each_element_once() {
    let store = MemoryStore::new();
    let (one, other) = (seen(&store), seen(&store));
    assert!(one.insert(&order()).await.unwrap());
    assert!(!other.insert(&order()).await.unwrap());
    assert!(other.contains(&order()).await.unwrap());
    assert!(one.insert_all_if_none(&[]).await.unwrap());
    let many: Vec<_> = (0..4_001).map(|n: u32| n.to_string()).collect();
    let refused = one.insert_all_if_none(&many).await.unwrap_err();
    assert!(matches!(refused, Error::TooMany { most: 4_000, .. }), "{refused}");
    assert!(!one.insert_all_if_none(&many[..4_000]).await.unwrap());
    assert!(one.remove(&order()).await.unwrap());
    assert!(one.insert_all_if_none(&many[..4_000]).await.unwrap());
    assert_eq!(other.len().await.unwrap(), 4_000);
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_set_element_has_the_same_name_as_in_redisson() {
    let store = MemoryStore::new();
    let lock = seen(&store).lock(&"test1".to_owned()).unwrap();
    assert_eq!(lock.name().as_str(), "{seen}:sMUTHC2Ql4EaCGlDp3W/MQ:lock");
    let kryo = seen(&store).codec(Kryo5Text).lock(&"test1".to_owned()).unwrap();
    assert_eq!(kryo.name().as_str(), "{seen}:1YYJvWKPQAOHqhq/jABzZA:lock");
}
