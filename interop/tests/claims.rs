//! `RBlockingQueue` and Leasehold's queue share elements. Claims and Java's `take` run at the same
//! time.

use std::collections::BTreeSet;
use std::thread::spawn;
use std::time::Duration;

use interop::{Java, Servers, Setup, Thread, Way, shown};
use leasehold::Release;
use leasehold::blocking::{Client, Queue};
use serde_json::{Value, json};
use testkit::{Cluster, Redis, Sentinels};

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "jobs";

/// Servers, and a client of each language.
struct Both<S> {
    _servers: S,
    java: Java,
    rust: Queue<String>,
}

impl<S: Servers> Both<S> {
    fn on(servers: S) -> Self {
        let java = Java::start(&Setup::new(servers.place()));
        let rust = Client::connect(&servers.place()).unwrap().queue(NAME).unwrap();
        Self { _servers: servers, java, rust }
    }

    fn thread(&self, name: &str) -> Thread {
        self.java.thread(name)
    }

    fn java_offers(&self, element: &str) {
        assert!(self.thread("T1").queue("offer", NAME, json!({ "element": element })).is_true());
    }

    fn size(&self) -> (i64, u64) {
        let size = self.thread("T1").queue("size", NAME, json!({})).number();
        (size, self.rust.len().unwrap())
    }
}

fn texts(value: &Value) -> Vec<String> {
    let text = |it: &Value| it.as_str().expect("a text").to_owned();
    value.as_array().expect("a list").iter().map(text).collect()
}

/// Each client takes the elements of the other one, in order, and is woken by it.
fn elements_are_shared<S: Servers>(servers: S) {
    let both = Both::on(servers);
    let poll = |wait: u64| both.thread("T2").start_queue("poll", NAME, json!({ "wait_ms": wait }));
    for element in ["ä:\0\"", "", "42"] {
        both.rust.push(&element.to_owned()).unwrap();
        both.java_offers(element);
    }
    assert_eq!(both.size(), (6, 6));
    for element in ["ä:\0\"", "", "42"] {
        assert_eq!(poll(1_000).wait(SECOND * 10).value(), &json!(element));
        let claim = both.rust.claim().unwrap();
        assert_eq!(claim.value(), element);
        assert_eq!(claim.done().unwrap(), Release::Released);
    }
    assert_eq!(both.size(), (0, 0));

    let waiting = poll(10_000);
    both.rust.push(&"a".to_owned()).unwrap();
    assert_eq!(waiting.wait(SECOND * 10).value(), &json!("a"));
    shown(&format!("{}queue: elements are shared, and wake a taker", S::PLACE), Way::RustToJava);

    let rust = both.rust.clone();
    let waiting = spawn(move || rust.claim_within(SECOND * 10).unwrap());
    both.java_offers("b");
    let claim = waiting.join().unwrap();
    assert_eq!(claim.value(), "b");
    shown(&format!("{}queue: elements are shared, and wake a taker", S::PLACE), Way::JavaToRust);

    // Java does not see a claimed element, but takes it when the claim is given back.
    assert_eq!(both.size(), (0, 0));
    let waiting = poll(10_000);
    assert_eq!(claim.give_back().unwrap(), Release::Released);
    assert_eq!(waiting.wait(SECOND * 10).value(), &json!("b"));
    shown(&format!("{}queue: Java takes what a claim gives back", S::PLACE), Way::RustToJava);
}

/// Both clients push, Java takes, and Rust claims. Each element is taken once.
fn each_element_is_taken_once<S: Servers>(servers: S) {
    const EACH: usize = 200;
    let both = Both::on(servers);
    let java: Vec<_> = (0..2)
        .map(|number| {
            let thread = both.thread(&format!("taker {number}"));
            thread.start_queue("takeAll", NAME, json!({ "wait_ms": 3_000 }))
        })
        .collect();
    let worker = |_| {
        let rust = both.rust.clone();
        spawn(move || {
            let mut done = vec![];
            while let Ok(claim) = rust.claim_within(SECOND * 3) {
                done.push(claim.value().clone());
                claim.done().unwrap().into_result().unwrap();
            }
            done
        })
    };
    let workers: Vec<_> = (0..3).map(worker).collect();
    for number in 0..EACH {
        both.rust.push(&format!("rust {number}")).unwrap();
        both.java_offers(&format!("java {number}"));
    }
    let claimed: Vec<_> = workers.into_iter().flat_map(|it| it.join().unwrap()).collect();
    let polled: Vec<_> =
        java.into_iter().flat_map(|it| texts(it.wait(SECOND * 60).value())).collect();
    assert!(!claimed.is_empty() && !polled.is_empty(), "{} {}", claimed.len(), polled.len());
    let all: Vec<_> = claimed.iter().chain(&polled).collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (2 * EACH, 2 * EACH));
    assert_eq!(both.size(), (0, 0));
    let row = format!("{}queue: claims and takes lose and repeat nothing", S::PLACE);
    shown(&row, Way::RustToJava);
    shown(&row, Way::JavaToRust);
}

#[test]
fn java_and_rust_share_queue_elements_on_one_server() {
    elements_are_shared(Redis::start());
}

#[test]
fn java_and_rust_share_queue_elements_behind_sentinels() {
    elements_are_shared(Sentinels::options().replicas(1).start());
}

#[test]
fn java_and_rust_share_queue_elements_in_a_cluster() {
    elements_are_shared(Cluster::options().replicas(0).start());
}

#[test]
fn java_and_rust_take_each_element_once_on_one_server() {
    each_element_is_taken_once(Redis::start());
}

#[test]
fn java_and_rust_take_each_element_once_behind_sentinels() {
    each_element_is_taken_once(Sentinels::options().replicas(1).start());
}

#[test]
fn java_and_rust_take_each_element_once_in_a_cluster() {
    each_element_is_taken_once(Cluster::options().replicas(0).start());
}
