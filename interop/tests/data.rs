//! `RMap` and `RSet` share entries, elements and locks with Leasehold's `Map` and `Set`, with every
//! codec.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use interop::{Answer, Java, Servers, Setup, cluster_without_sharded_channels};
use leasehold::Error;
use leasehold::blocking::{Client, Map};
use leasehold::codec::{Codec, Json, Kryo5Text, TaggedJson, Text};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::{Cluster, Redis, Sentinels, eventually};

const KEY: &str = "orders:42";
const SECOND: Duration = Duration::from_secs(1);

/// Servers, and a client of each language.
struct Both<S = Redis> {
    servers: S,
    java: Java,
    rust: Client,
}

impl Both {
    fn start() -> Self {
        Self::on(Redis::start())
    }
}

impl<S: Servers> Both<S> {
    fn on(servers: S) -> Self {
        let java = Java::start(&Setup::new(servers.place()));
        let rust = Client::connect(&servers.place()).unwrap();
        Self { servers, java, rust }
    }

    fn ask(&self, op: &str, name: &str, arguments: Value) -> Answer {
        self.java.thread("T1").data(op, name, arguments)
    }
}

/// The counterpart of the Java class `Order`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Order {
    total_cents: i64,
    note: Option<String>,
}

fn key() -> String {
    KEY.to_owned()
}

/// Writes on each side, reads on the other side, and compares the bytes. `kind` is the class in
/// Java, `value` creates a value from a number, and `shown` is the text that Java prints for this
/// value.
fn map_is_shared<S, V, KC, VC>(
    both: &Both<S>,
    map: &Map<String, V, KC, VC>,
    kind: Value,
    value: impl Fn(i64) -> V,
    shown: impl Fn(i64) -> String,
) where
    S: Servers,
    V: PartialEq + std::fmt::Debug,
    KC: Codec<String>,
    VC: Codec<V>,
{
    let java = |op: &str, more: Value| {
        let mut arguments = kind.clone();
        let given = [json!({ "key": KEY }), more];
        for (name, it) in given.iter().flat_map(|given| given.as_object().unwrap()) {
            arguments[name] = it.clone();
        }
        both.servers.in_step(map.name().as_str());
        both.ask(&format!("map.{op}"), map.name().as_str(), arguments)
    };
    // Rust inserts and Java reads. Then Java inserts and Rust reads.
    assert_eq!(map.insert(KEY, &value(42)).unwrap(), None);
    assert_eq!(java("get", json!({})).text(), shown(42));
    assert_eq!(java("put", json!({ "value": 43 })).text(), shown(42));
    assert_eq!(map.get(KEY).unwrap(), Some(value(43)));
    assert_eq!(map.insert(KEY, &value(44)).unwrap(), Some(value(43)));
    assert_eq!(java("putIfAbsent", json!({ "value": 45 })).text(), shown(44));
    assert_eq!(map.insert_if_absent(KEY, &value(45)).unwrap(), Some(value(44)));

    // Each side compares a value with the bytes that the other side has written.
    assert!(java("replace", json!({ "old": 44, "value": 46 })).is_true());
    assert!(map.compare_and_set(KEY, &value(46), &value(47)).unwrap());
    assert!(!java("removeIf", json!({ "value": 46 })).is_true());
    assert!(java("removeIf", json!({ "value": 47 })).is_true());
    java("put", json!({ "value": 48 }));
    assert!(!map.remove_if(KEY, &value(47)).unwrap());
    assert!(map.remove_if(KEY, &value(48)).unwrap());
    assert_eq!(java("size", json!({})).number(), 0);
    map.insert(KEY, &value(3_000_000_000)).unwrap();
    assert_eq!(java("remove", json!({})).text(), shown(3_000_000_000));

    // The lock of a key has the same name on both sides, and excludes the other side.
    let lock = map.lock(KEY).unwrap();
    assert_eq!(java("lockName", json!({})).text(), lock.name().as_str());
    let guard = lock.acquire().unwrap();
    assert!(!java("tryLock", json!({})).is_true());
    guard.write([map.insertion(KEY, &value(49)).unwrap()]).unwrap();
    guard.release().unwrap().into_result().unwrap();
    assert_eq!(java("get", json!({})).text(), shown(49));
    assert!(java("lock", json!({})).is_true());
    assert!(lock.try_acquire().unwrap().is_none());
    java("unlock", json!({}));
    lock.acquire_within(SECOND).unwrap().release().unwrap().into_result().unwrap();
    assert_eq!(map.remove(KEY).unwrap(), Some(value(49)));
}

#[test]
fn java_and_rust_share_a_map_with_each_codec() {
    map_is_shared_with_each_codec(&Both::start());
}

fn map_is_shared_with_each_codec<S: Servers>(both: &Both<S>) {
    let long = |codec: &str| json!({ "codec": codec, "long": true });
    let text = |codec: &str| json!({ "codec": codec });
    let order = |codec: &str| json!({ "codec": codec, "order": true });
    let number = |n: i64| n;
    let as_text = |n: i64| n.to_string();
    let as_order = |n: i64| Order { total_cents: n, note: None };
    let order_shown = |n: i64| format!("{n} null");

    let strings = |name: &str| both.rust.map::<String, String>(name).unwrap();
    map_is_shared(both, &strings("text"), text("text"), as_text, as_text);
    let json = strings("json").codecs(Text, Json);
    map_is_shared(both, &json, text("json"), as_text, as_text);
    let tagged = strings("tagged").codec(TaggedJson::plain());
    map_is_shared(both, &tagged, text("tagged"), as_text, as_text);
    let kryo = strings("kryo").codec(Kryo5Text);
    map_is_shared(both, &kryo, text("kryo"), as_text, as_text);

    let longs = |name: &str| both.rust.map::<String, i64>(name).unwrap();
    let json = longs("json:long").codecs(Text, Json);
    map_is_shared(both, &json, long("json"), number, as_text);
    let class = TaggedJson::new("java.lang.Long");
    let tagged = longs("tagged:long").codecs(TaggedJson::plain(), class);
    map_is_shared(both, &tagged, long("tagged"), number, as_text);
    let kryo = longs("kryo:long").codec(Kryo5Text);
    map_is_shared(both, &kryo, long("kryo"), number, as_text);

    let orders = |name: &str| both.rust.map::<String, Order>(name).unwrap();
    let json = orders("json:order").codecs(Text, Json);
    map_is_shared(both, &json, order("json"), as_order, order_shown);
    let class = TaggedJson::new("leasehold.interop.Order");
    let tagged = orders("tagged:order").codecs(TaggedJson::plain(), class);
    map_is_shared(both, &tagged, order("tagged"), as_order, order_shown);
}

#[test]
fn java_and_rust_share_kryo_texts_of_every_length() {
    let mut values = ["", "a", "é", "€", "🔒", "aé🔒z"].map(str::to_owned).to_vec();
    values.extend([2, 31, 32, 33, 62, 63, 64, 80, 200, 9_000].map(|length| "x".repeat(length)));
    values.extend([1, 40, 62, 100].map(|length| "é€🔒".repeat(length)));
    texts_have_the_same_bytes("kryo", (Kryo5Text, Kryo5Text), &values);
}

#[test]
fn json_text_has_the_same_bytes_in_java_and_rust() {
    let values = ["", "é€", "🔒", "a\u{1b}b\n\"\\/\u{7f}"].map(str::to_owned);
    texts_have_the_same_bytes("json", (Text, Json), &values);
}

/// Each side removes an entry only if its own bytes are equal to the bytes of the other side.
fn texts_have_the_same_bytes<KC: Codec<String>, VC: Codec<String>>(
    codec: &str,
    (keys, values): (KC, VC),
    texts: &[String],
) {
    let both = Both::start();
    let map = both.rust.map::<String, String>("texts").unwrap().codecs(keys, values);
    for (at, text) in texts.iter().enumerate() {
        let key = format!("key:{at}");
        let ask =
            |op: &str| both.ask(op, "texts", json!({ "codec": codec, "key": key, "value": text }));
        map.insert(&key, text).unwrap();
        assert_eq!(ask("map.get").text(), *text);
        assert!(ask("map.removeIf").is_true(), "Java finds the same bytes: {text}");
        ask("map.put");
        assert_eq!(map.get(&key).unwrap().as_ref(), Some(text));
        assert!(map.remove_if(&key, text).unwrap(), "Rust finds the same bytes: {text}");
    }
}

#[test]
fn java_and_rust_add_to_the_same_number() {
    let both = Both::start();
    let stock = both.rust.map::<String, i64>("stock").unwrap();
    assert_eq!(stock.add(KEY, 7).unwrap(), 7);
    let asked = json!({ "codec": "json", "long": true, "key": KEY, "value": 5 });
    assert_eq!(both.ask("map.addAndGet", "stock", asked).text(), "12");
    assert_eq!(stock.add(KEY, -2).unwrap(), 10);
}

#[test]
fn java_and_rust_compute_an_absent_map_value_only_once() {
    computed_by_one_side(&Both::start());
}

/// Both sides need one value, and only the first side computes this value.
fn computed_by_one_side<S: Servers>(both: &Both<S>) {
    let cache = both.rust.map::<String, String>("cache").unwrap();
    let asks = &both.java;
    let java = |key: &str| {
        let asked = json!({ "codec": "text", "key": key, "value": "java", "sleep_ms": 1_500 });
        asks.thread("T1").data("map.computeIfAbsent", "cache", asked).text().to_owned()
    };
    let rust = |key: &str| {
        let compute = || {
            sleep(SECOND * 3 / 2);
            Ok::<_, Error>("rust".to_owned())
        };
        cache.get_or_insert_with(&key.to_owned(), SECOND * 10, compute).unwrap()
    };
    for (key, java_first) in [("java first", true), ("rust first", false)] {
        let start = Instant::now();
        let wait = |first: bool| sleep(if first { Duration::ZERO } else { SECOND / 2 });
        let (of_java, of_rust) = scope(|scope| {
            let from_java = scope.spawn(|| {
                wait(java_first);
                java(key)
            });
            wait(!java_first);
            (rust(key), from_java.join().unwrap())
        });
        let expected = if java_first { "java" } else { "rust" };
        assert_eq!((&*of_java, &*of_rust), (expected, expected), "{key}");
        assert!(
            start.elapsed() < SECOND * 5 / 2,
            "only one client computes the value: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn java_and_rust_share_a_set_with_each_codec() {
    set_is_shared_with_each_codec(&Both::start());
}

fn set_is_shared_with_each_codec<S: Servers>(both: &Both<S>) {
    set_is_shared(both, "text", Text);
    set_is_shared(both, "tagged", TaggedJson::plain());
    set_is_shared(both, "kryo", Kryo5Text);
    set_is_shared(both, "json", Json);
}

fn set_is_shared<S: Servers, C: Codec<String>>(both: &Both<S>, codec: &str, of_rust: C) {
    let set = both.rust.set::<String>(format!("set:{codec}")).unwrap().codec(of_rust);
    let java = |op: &str, value: &str| {
        let asked = json!({ "codec": codec, "value": value });
        both.servers.in_step(set.name().as_str());
        both.ask(&format!("set.{op}"), set.name().as_str(), asked)
    };
    assert!(set.insert(&key()).unwrap());
    assert!(java("contains", KEY).is_true());
    assert!(!java("add", KEY).is_true());
    assert!(java("add", "b").is_true());
    assert!(!set.insert_all_if_none(&["a".to_owned(), "b".to_owned()]).unwrap());
    assert!(!java("tryAdd", KEY).is_true());
    let mut members = set.members().unwrap();
    members.sort();
    assert_eq!(members, ["b", KEY]);
    assert_eq!(java("readAll", "").text(), format!("[b, {KEY}]"));
    assert_eq!(java("lockName", KEY).text(), set.lock(&key()).unwrap().name().as_str());
    assert!(java("remove", KEY).is_true());
    assert!(set.remove(&"b".to_owned()).unwrap());
    assert_eq!(set.pop().unwrap(), None);
}

/// Java has an entry in its local cache. A change by Rust makes Java drop this entry. The tests in
/// `src/primitives/map.rs` show that all kinds of changes send the same message.
fn local_cache_drops_what_rust_changes<S: Servers>(both: &Both<S>) {
    let silent = both.rust.map::<String, i64>("cached").unwrap();
    let orders = silent.clone().notify_local_caches(true);
    let read = || {
        both.servers.in_step("cached");
        let asked = json!({ "codec": "text", "cached": true, "key": KEY });
        both.ask("map.get", "cached", asked).text().to_owned()
    };
    let sees =
        |expected: &str| eventually("Java sees the change", SECOND * 10, || read() == expected);
    silent.insert(KEY, &1).unwrap();
    sees("1");
    // Without a notification, Java does not notice the change.
    silent.insert(KEY, &2).unwrap();
    sleep(SECOND / 5);
    assert_eq!(read(), "1");
    orders.insert(KEY, &3).unwrap();
    sees("3");
    orders.insert_many(&[("other".to_owned(), 0), (key(), 4)]).unwrap();
    sees("4");
    let guard = orders.lock(KEY).unwrap().acquire().unwrap();
    guard.write([orders.insertion(KEY, &5).unwrap()]).unwrap();
    sees("5");
    guard.release().unwrap().into_result().unwrap();
    assert!(orders.remove_if(KEY, &5).unwrap());
    sees("nothing");
}

#[test]
fn java_local_cache_drops_entries_that_rust_changes() {
    local_cache_drops_what_rust_changes(&Both::start());
}

#[test]
fn entry_with_a_ttl_expires_for_java_and_rust() {
    let both = Both::on(Redis::start_with_field_ttls());
    let orders = both.rust.map::<String, i64>("orders").unwrap();
    let java = |op: &str, ttl_ms: u64| {
        let asked = json!({
            "codec": "json", "long": true, "native": true,
            "key": KEY, "value": 8, "ttl_ms": ttl_ms,
        });
        both.ask(op, "orders", asked).text().to_owned()
    };
    orders.insert_for(KEY, &7, SECOND).unwrap();
    assert_eq!(java("map.get", 0), "7");
    eventually("the entry of Rust expires", SECOND * 5, || java("map.get", 0) == "nothing");
    assert_eq!(java("map.putFor", 1_000), "nothing");
    assert_eq!(orders.get(KEY).unwrap(), Some(8));
    eventually("the entry of Java expires", SECOND * 5, || orders.get(KEY).unwrap().is_none());
}

/// The tests that are repeated for every deployment.
fn data_is_shared<S: Servers>(servers: S) {
    let both = Both::on(servers);
    map_is_shared_with_each_codec(&both);
    set_is_shared_with_each_codec(&both);
    computed_by_one_side(&both);
    local_cache_drops_what_rust_changes(&both);
}

#[test]
fn java_and_rust_share_data_behind_sentinels() {
    data_is_shared(Sentinels::options().replicas(1).start());
}

#[test]
fn java_and_rust_share_data_in_a_cluster() {
    data_is_shared(Cluster::options().replicas(0).start());
}

#[test]
fn java_and_rust_share_data_without_sharded_channels() {
    data_is_shared(cluster_without_sharded_channels());
}
