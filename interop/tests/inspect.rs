//! What an operator sees of Redisson's objects: `inspect` returns an object for every key.

use std::time::Duration;

use interop::{Java, Kind, Pending, Setup, Thread, until_asleep};
use leasehold::{Client, Inspection};
use serde_json::json;
use testkit::{Redis, eventually};

/// The names of objects, and the kind that `inspect` finds for each name.
const KINDS: [(&str, &str); 16] = [
    ("api", "rate limiter"),
    ("booth", "read lock"),
    ("desk", "write lock"),
    ("door", "lock"),
    ("fair", "fair lock"),
    ("fenced", "lock"),
    ("jobs", "queue"),
    ("one", "lock"),
    ("orders", "map"),
    ("other", "lock"),
    ("pool", "expirable semaphore"),
    ("seats", "number"),
    ("spin", "lock"),
    ("start", "number"),
    ("tags", "set"),
    (OF_A_KEY, "lock"),
];

/// The name of the lock of the key `42` in the map `orders`.
const OF_A_KEY: &str = "{orders}:HASH:lock";

/// Lets Redisson create an object of each kind. Returns the calls that still wait.
fn create_all(redis: &Redis, java: &Java) -> Vec<Pending> {
    let (thread, other) = (java.thread("T1"), java.thread("T2"));
    assert!(thread.lock("door").acquired());
    let waits = other.start_lock("door");
    until_asleep(redis, "door", 1);
    assert!(thread.spin().lock("spin").acquired());
    assert!(thread.fair().lock("fair").acquired());
    let queues = java.thread("T3").fair().start_lock("fair");
    let queue = || redis.command(&["LLEN", "redisson_lock_queue:{fair}"]).number();
    eventually("the waiter is in the queue", Duration::from_secs(10), || queue() == 1);
    assert!(thread.fenced().lock("fenced").acquired());
    assert!(thread.reads().lock("booth").acquired());
    assert!(java.thread("T4").reads().lock("booth").acquired());
    assert!(thread.writes().lock("desk").acquired());
    assert!(thread.of(Kind::Multi).lock("one,other").acquired());
    assert!(thread.semaphores().set_permits("seats", 3).is_true());
    assert!(thread.semaphores().acquire("seats", 2).acquired());
    assert!(thread.latches().set_count("start", 2).is_true());
    let text = |arguments: serde_json::Value| {
        let mut all = json!({ "codec": "text" });
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        all
    };
    thread.data("map.put", "orders", text(json!({ "key": "42", "value": "paid" })));
    assert!(thread.data("map.lock", "orders", text(json!({ "key": "42" }))).is_true());
    assert!(thread.data("set.add", "tags", text(json!({ "value": "new" }))).is_true());
    let offer = thread.start_queue("offer", "jobs", json!({ "element": "a" }));
    assert!(offer.wait(Duration::from_secs(10)).is_true());
    permits_and_rates(&thread);
    vec![waits, queues]
}

fn permits_and_rates(thread: &Thread) {
    assert!(thread.permits("trySet", "pool", json!({ "count": 3 })).is_true());
    thread.permits("acquire", "pool", json!({ "lease_ms": 60_000 }));
    let rate = json!({ "rate": 5, "interval_ms": 60_000 });
    assert!(thread.limiter("trySetRate", "api", rate).is_true());
    assert!(thread.limiter("tryAcquire", "api", json!({ "permits": 2 })).is_true());
}

#[tokio::test]
async fn inspection_shows_an_object_for_each_redisson_key() {
    let redis = Redis::start();
    let java = Java::start(&Setup::new(redis.url()));
    let _waiting = create_all(&redis, &java);
    let client = Client::connect(&redis.url()).await.unwrap();

    let mut objects: Vec<Inspection> = vec![];
    for name in client.names("*").await.unwrap() {
        objects.extend(client.inspect(&name).await.unwrap());
    }
    // The lock of a key has a hash in its name, which depends on the codec. So the test replaces
    // this name.
    let name_of = |it: &'_ Inspection| match it.key_of() {
        Some("orders") => OF_A_KEY.to_owned(),
        _ => it.name.as_str().to_owned(),
    };
    let kinds: Vec<_> = objects.iter().map(|it| (name_of(it), it.kind.to_string())).collect();
    assert_eq!(kinds, KINDS.map(|(name, kind)| (name.to_owned(), kind.to_owned())));

    for object in &objects {
        let (name, waiters) = (object.name.as_str(), object.waiters.len());
        let holders = match name {
            "booth" => 2,
            // Redisson does not store holders of these objects.
            "api" | "jobs" | "orders" | "seats" | "start" | "tags" => 0,
            _ => 1,
        };
        assert_eq!(object.holders.len(), holders, "{object:?}");
        assert_eq!(waiters, usize::from(name == "fair"), "{object:?}");
        assert_eq!(object.subscribers, u64::from(name == "door"), "{object:?}");
        assert_eq!(object.token.is_some(), name == "fenced", "{object:?}");
        let sized = ["jobs", "orders", "tags"].contains(&name);
        assert_eq!(object.size, sized.then_some(1), "{object:?}");
    }

    let keys = redis.command(&["KEYS", "*"]);
    let belongs = |key: &str| {
        objects
            .iter()
            .any(|it| key == it.name.as_str() || key.contains(&format!("{{{}}}", it.name)))
    };
    for key in keys.texts() {
        assert!(belongs(key), "{key}");
    }
    assert!(keys.texts().len() > KINDS.len() + 5, "{keys:?}");
}
