//! `RBlockingQueue` and Leasehold's queue share elements. Claims and Java's `take` run at the same
//! time.

use std::collections::BTreeSet;
use std::thread::spawn;
use std::time::Duration;

use interop::{Java, Servers, Setup, Way, cluster_without_sharded_channels, shown};
use leasehold::Release;
use leasehold::blocking::{Client, Queue};
use leasehold::codec::{Codec, Json, Kryo5Text, TaggedJson, Text};
use serde_json::{Value, from_value, json};
use testkit::{Cluster, Redis, Sentinels};

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "jobs";
/// How many elements each client pushes at the end.
const EACH: usize = 200;

/// Each client gets the elements that the other client has pushed, in order, and a push wakes it.
/// If both clients push and take at the same time, each element is taken once.
fn elements_are_shared<S: Servers>(servers: S) {
    let java = Java::start(&Setup::new(servers.place()));
    let client = Client::connect(&servers.place()).unwrap();
    codec_is_shared(&client, &java, "text", Text);
    codec_is_shared(&client, &java, "tagged", TaggedJson::plain());
    codec_is_shared(&client, &java, "kryo", Kryo5Text);
    codec_is_shared(&client, &java, "json", Json);
    let rust: Queue<String> = client.queue(NAME).unwrap();
    let start = |thread: &str, op: &str, arguments: Value| {
        java.thread(thread).start_queue(op, NAME, arguments)
    };
    let ask = |op: &str, arguments: Value| start("T1", op, arguments).wait(SECOND * 10);
    let offer = |element: &str| assert!(ask("offer", json!({ "element": element })).is_true());
    let size = || (ask("size", json!({})).number(), rust.len().unwrap());
    let poll = |wait: u64| start("T2", "poll", json!({ "wait_ms": wait }));
    let row = |what: &str| format!("{}queue: {what}", S::PLACE);

    let waiting = poll(10_000);
    rust.push("a").unwrap();
    assert_eq!(waiting.wait(SECOND * 10).value(), &json!("a"));
    shown(&row("elements are shared, and wake a waiter"), Way::RustToJava);

    let claiming = rust.clone();
    let waiting = spawn(move || claiming.claim_within(SECOND * 10).unwrap());
    offer("b");
    let claim = waiting.join().unwrap();
    assert_eq!(claim.value(), "b");
    shown(&row("elements are shared, and wake a waiter"), Way::JavaToRust);

    // Java does not see a claimed element, but polls it after the claim is given back.
    assert_eq!(size(), (0, 0));
    let waiting = poll(10_000);
    assert_eq!(claim.give_back().unwrap(), Release::Released);
    assert_eq!(waiting.wait(SECOND * 10).value(), &json!("b"));
    shown(&row("Java takes what a claim gives back"), Way::RustToJava);

    // Both clients push, Java takes, and Rust claims. Some claims are dropped.
    let takers = ["T3", "T4"].map(|it| start(it, "takeAll", json!({ "wait_ms": 3_000 })));
    let workers = [(); 3].map(|()| {
        let rust = rust.clone();
        spawn(move || {
            let mut done = vec![];
            while let Ok(claim) = rust.claim_within(SECOND * 3) {
                if done.len() % 5 == 4 {
                    drop(rust.try_claim());
                }
                done.push(claim.value().clone());
                claim.done().unwrap().into_result().unwrap();
            }
            done
        })
    });
    for number in 0..EACH {
        rust.push(&format!("rust {number}")).unwrap();
        offer(&format!("java {number}"));
    }
    let claimed = workers.map(|it| it.join().unwrap()).concat();
    let taken = takers.map(|it| it.wait(SECOND * 60).value().clone());
    let taken = taken.map(|it| from_value::<Vec<String>>(it).unwrap()).concat();
    assert!(!claimed.is_empty() && !taken.is_empty(), "{} {}", claimed.len(), taken.len());
    let all: Vec<_> = claimed.iter().chain(&taken).collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (2 * EACH, 2 * EACH));
    assert_eq!(size(), (0, 0));
    shown(&row("claims and polls lose and repeat no element"), Way::RustToJava);
    shown(&row("claims and polls lose and repeat no element"), Way::JavaToRust);
}

fn codec_is_shared(rust: &Client, java: &Java, codec: &str, of_rust: impl Codec<String>) {
    let name = format!("jobs:{codec}");
    let queue = rust.queue::<String>(&name).unwrap().codec(of_rust);
    let ask = |op: &str, arguments: Value| {
        java.thread("T1").start_queue(op, &name, arguments).wait(SECOND * 10)
    };
    let (size, elements) = (json!({ "codec": codec }), ["ä:\0\"", "", "42"].map(str::to_owned));
    for element in &elements {
        queue.push(element).unwrap();
        assert!(ask("offer", json!({ "codec": codec, "element": element })).is_true());
    }
    assert_eq!((ask("size", size.clone()).number(), queue.len().unwrap()), (6, 6));
    for element in &elements {
        let polled = ask("poll", json!({ "codec": codec, "wait_ms": 1_000 }));
        assert_eq!(polled.value(), &json!(element), "{codec}");
        let claim = queue.claim().unwrap();
        assert_eq!(claim.value(), element, "{codec}");
        assert_eq!(claim.done().unwrap(), Release::Released);
    }
    assert_eq!((ask("size", size).number(), queue.len().unwrap()), (0, 0));
}

#[test]
fn java_and_rust_share_queue_elements_on_one_server() {
    elements_are_shared(Redis::start());
}

#[test]
fn java_and_rust_share_a_queue_without_sharded_channels() {
    elements_are_shared(cluster_without_sharded_channels());
}

#[test]
fn java_and_rust_share_queue_elements_behind_sentinels() {
    elements_are_shared(Sentinels::options().replicas(1).start());
}

#[test]
fn java_and_rust_share_queue_elements_in_a_cluster() {
    elements_are_shared(Cluster::options().replicas(0).start());
}
