//! The contract of every store for maps and sets.

use std::slice;

use super::*;
use crate::{
    domain::{Name, Owner, Write},
    store::{
        map::{self, Change, Changed, Cursor, Page},
        set,
    },
};

pub(super) async fn all(t: &Bench) {
    map_change_counts_once_and_returns_the_previous_value(t).await;
    entry_ends_with_its_ttl_if_the_server_can(t).await;
    change_without_an_effect_leaves_no_idempotency_key(t).await;
    sum_is_added_once_for_each_request(t).await;
    entries_are_read_together(t).await;
    long_values_are_not_returned(t).await;
    long_page_is_read_in_parts(t).await;
    removal_under_a_lock_needs_the_hold(t).await;
    repeated_change_of_a_set_counts_once(t).await;
    set_elements_are_added_all_or_none(t).await;
    repeated_pop_returns_the_same_element(t).await;
}

/// The TTL of the entries that expire in these tests.
const BRIEF: Duration = Duration::from_millis(200);

impl Bench {
    fn data(&self, name: &str) -> Name {
        Name::new(format!("{}{name}", self.prefix)).unwrap()
    }

    /// Makes a change as the first client, with this idempotency key.
    async fn changes(&self, name: &Name, change: Change<'_>, receipt: &Owner) -> Changed {
        map::change(&self.one, name, b"key", change, None, receipt).await.unwrap()
    }

    async fn change(&self, name: &Name, change: Change<'_>) -> Changed {
        self.changes(name, change, &self.identity.fresh_owner()).await
    }

    async fn value(&self, name: &Name) -> Option<Vec<u8>> {
        map::read(&self.other, name, &bytes(&["key"])).await.unwrap().remove(0)
    }

    async fn elements(&self, name: &Name, change: set::Change, elements: &[&str]) -> bool {
        let receipt = self.identity.fresh_owner();
        set::change(&self.one, name, change, &bytes(elements), &receipt).await.unwrap()
    }
}

fn yes(value: &[u8]) -> Changed {
    Changed::Yes(value.to_vec())
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A repeated request changes nothing, and returns the same reply.
async fn map_change_counts_once_and_returns_the_previous_value(t: &Bench) {
    let name = t.data("map-change");
    for (change, reply) in [
        (Change::Replace(b"1"), Changed::No),
        (Change::CompareAndSet { old: b"", new: b"1" }, Changed::No),
        (Change::Remove, Changed::No),
        (Change::RemoveIf(b""), Changed::No),
        (Change::InsertIfAbsent(b"1"), Changed::No),
        (Change::InsertIfAbsent(b"2"), yes(b"1")),
        (Change::Insert(b"\0\xff"), yes(b"1")),
        (Change::Replace(b""), yes(b"\0\xff")),
        (Change::CompareAndSet { old: b"1", new: b"3" }, Changed::No),
        (Change::CompareAndSet { old: b"", new: b"3" }, yes(b"")),
        (Change::RemoveIf(b"1"), Changed::No),
        (Change::Insert(b"0"), yes(b"3")),
        (Change::RemoveIf(b"0"), yes(b"")),
        (Change::Insert(b"4"), Changed::No),
        (Change::Remove, yes(b"4")),
    ] {
        let receipt = t.identity.fresh_owner();
        assert_eq!(t.changes(&name, change, &receipt).await, reply, "{change:?}");
        let now = t.value(&name).await;
        assert_eq!(t.changes(&name, change, &receipt).await, reply, "{change:?} again");
        assert_eq!(t.value(&name).await, now, "{change:?} again");
    }
    let (many, receipt) = (Change::InsertMany(b"6", &[]), t.identity.fresh_owner());
    assert_eq!(t.changes(&name, many, &receipt).await, yes(b""));
    t.change(&name, Change::Insert(b"7")).await;
    assert_eq!(t.changes(&name, many, &receipt).await, yes(b""));
    assert_eq!(t.change(&name, Change::Remove).await, yes(b"7"));
    assert_eq!(map::len(&t.other, &name).await.unwrap(), 0);
}

async fn entry_ends_with_its_ttl_if_the_server_can(t: &Bench) {
    let (name, receipt) = (t.data("map-ttl"), t.identity.fresh_owner());
    t.change(&name, Change::Insert(b"1")).await;
    let brief = Change::InsertFor(b"2", BRIEF);
    let inserted = async || map::change(&t.one, &name, b"key", brief, None, &receipt).await;
    match inserted().await {
        Err(Failure::Unsupported(_)) => {
            assert_eq!(t.value(&name).await.unwrap(), b"1");
            // The refused request left no idempotency key, so its owner may make a change.
            assert_eq!(t.changes(&name, Change::Insert(b"2"), &receipt).await, yes(b"1"));
            assert_eq!(t.value(&name).await.unwrap(), b"2");
        }
        Err(other) => panic!("{other:?}"),
        Ok(before) => {
            assert_eq!((before, t.value(&name).await.unwrap()), (yes(b"1"), b"2".to_vec()));
            sleep(BRIEF * 5 / 4).await;
            // A repeated request returns the same reply, and does not insert the entry again.
            assert_eq!(inserted().await.unwrap(), yes(b"1"));
            assert_eq!(t.value(&name).await, None);
            t.change(&name, Change::InsertFor(b"3", BRIEF)).await;
            t.change(&name, Change::Insert(b"4")).await;
            sleep(BRIEF * 5 / 4).await;
            assert_eq!(t.value(&name).await.unwrap(), b"4");
        }
    }
    t.change(&name, Change::Remove).await;
}

/// If the store kept the reply, each failed comparison would write a key.
async fn change_without_an_effect_leaves_no_idempotency_key(t: &Bench) {
    let (name, receipt) = (t.data("map-unchanged"), t.identity.fresh_owner());
    assert_eq!(t.changes(&name, Change::RemoveIf(b"1"), &receipt).await, Changed::No);
    t.change(&name, Change::Insert(b"1")).await;
    assert_eq!(t.changes(&name, Change::RemoveIf(b"1"), &receipt).await, yes(b""));
}

async fn sum_is_added_once_for_each_request(t: &Bench) {
    let (name, receipt) = (t.data("map-sum"), t.identity.fresh_owner());
    let [most, less] = [i64::MAX, i64::MAX - 1].map(|number| number.to_string().into_bytes());
    for _ in 0..2 {
        assert_eq!(t.changes(&name, Change::Add(&less), &receipt).await, yes(&less));
    }
    assert_eq!(t.change(&name, Change::Add(b"1")).await, yes(&most));
    for not_changed in [&most[..], b"many"] {
        let receipt = t.identity.fresh_owner();
        let sum = map::change(&t.one, &name, b"key", Change::Add(b"1"), None, &receipt).await;
        assert!(matches!(sum, Err(Failure::Refused { .. })), "{sum:?}");
        assert_eq!(t.change(&name, Change::Insert(b"many")).await, yes(not_changed));
    }
    t.change(&name, Change::Remove).await;
}

async fn entries_are_read_together(t: &Bench) {
    let name = t.data("map-read");
    t.change(&name, Change::InsertMany(b"1", &bytes(&["lock", ""]))).await;
    let read = map::read(&t.other, &name, &bytes(&["lock", "c", "key"])).await.unwrap();
    assert_eq!(read, [Some(vec![]), None, Some(b"1".to_vec())]);
    assert!(map::contains(&t.other, &name, b"lock").await.unwrap());
    assert!(!map::contains(&t.other, &name, b"c").await.unwrap());
    assert_eq!(map::len(&t.other, &name).await.unwrap(), 2);
    let page = map::scan(&t.other, &name, &Cursor::default()).await.unwrap();
    let pairs = bytes(&["key", "1", "lock", ""]);
    assert_eq!(page, Page { parts: pairs, next: None, skips: None });
}

/// A reply with a long value would end the connection, which all callers share.
async fn long_values_are_not_returned(t: &Bench) {
    let name = t.data("map-long");
    let long = vec![b'x'; 200_001];
    assert_eq!(t.change(&name, Change::Insert(&long)).await, Changed::No);
    assert_eq!(t.change(&name, Change::Insert(b"1")).await, Changed::TooLong);
    assert_eq!(t.change(&name, Change::Remove).await, Changed::TooLong);
    let read = map::read(&t.one, &name, &bytes(&["none", "key", "none"])).await.unwrap();
    assert_eq!(read, [None], "only the values before the long one are read");
    let page = map::scan(&t.one, &name, &Cursor::default()).await.unwrap();
    assert_eq!((page.skips.as_deref(), page.parts.len()), (Some(&b"key"[..]), 0));
    let page = map::scan(&t.one, &name, &page.next.unwrap()).await.unwrap();
    assert_eq!(page, Page { parts: vec![], next: None, skips: None });
    assert_eq!(t.change(&name, Change::RemoveIf(&long)).await, yes(b""));

    let elements = t.data("set-long");
    let receipt = t.identity.fresh_owner();
    set::change(&t.one, &elements, set::Change::Insert, &[long], &receipt).await.unwrap();
    let popped = set::pop(&t.one, &elements, &t.identity.fresh_owner()).await.unwrap();
    assert_eq!(popped, Changed::TooLong);
    let skips = set::scan(&t.one, &elements, &Cursor::default()).await.unwrap().skips;
    assert!(skips.unwrap() == [b'x'; 200]);
}

async fn long_page_is_read_in_parts(t: &Bench) {
    let (map, set) = (t.data("map-parts"), t.data("set-parts"));
    let texts = ["a", "b", "c", "d"].map(|text| text.repeat(90_000).into_bytes());
    for text in &texts {
        let (one, other) = (t.identity.fresh_owner(), t.identity.fresh_owner());
        map::change(&t.one, &map, &text[..1], Change::Insert(text), None, &one).await.unwrap();
        let element = slice::from_ref(text);
        set::change(&t.one, &set, set::Change::Insert, element, &other).await.unwrap();
    }
    for is_map in [true, false] {
        let (mut cursor, mut read) = (Some(Cursor::default()), vec![]);
        while let Some(at) = cursor {
            let page = match is_map {
                true => map::scan(&t.other, &map, &at).await.unwrap(),
                false => set::scan(&t.other, &set, &at).await.unwrap(),
            };
            assert!(
                page.skips.is_none() && page.parts.iter().map(Vec::len).sum::<usize>() <= 200_000
            );
            read.extend(page.parts.into_iter().filter(|part| part.len() > 1));
            cursor = page.next;
        }
        read.sort();
        assert!(read == texts, "{} of the four texts are read", read.len());
    }
}

async fn removal_under_a_lock_needs_the_hold(t: &Bench) {
    let claim = t.claim("map-guarded");
    // The name of the map begins with the name of the lock in braces, because both must be in one
    // slot.
    let name = Name::new(format!("{{{}}}:data", claim.name().as_str())).unwrap();
    let insertion = |value| Write::hset(name.as_str(), "key", value);
    let removal = || Write::hdel(name.as_str(), "key");
    let write = async |writes| t.one.guarded(&claim, &Work::Writes(writes)).await.unwrap();
    t.grant(&claim).await;
    assert!(write(vec![insertion("1"), removal(), insertion("2")]).await.is_some());
    t.broadcast(&claim).await;
    assert!(write(vec![removal()]).await.is_none());
    assert_eq!(t.value(&name).await.unwrap(), b"2");
    t.grant(&claim).await;
    assert!(write(vec![removal()]).await.is_some());
    assert_eq!(map::len(&t.one, &name).await.unwrap(), 0);
    t.broadcast(&claim).await;
}

async fn repeated_change_of_a_set_counts_once(t: &Bench) {
    let (name, elements) = (t.data("set-once"), bytes(&["a"]));
    for change in [set::Change::Insert, set::Change::Remove, set::Change::InsertAllIfNone] {
        let receipt = t.identity.fresh_owner();
        for _ in 0..2 {
            let changed = set::change(&t.one, &name, change, &elements, &receipt).await;
            assert!(changed.unwrap(), "{change:?}");
        }
    }
    assert!(!t.elements(&name, set::Change::Insert, &["a"]).await);
    assert!(t.elements(&name, set::Change::Remove, &["a"]).await);
    assert!(!t.elements(&name, set::Change::Remove, &["a"]).await);
}

async fn set_elements_are_added_all_or_none(t: &Bench) {
    let name = t.data("set-none");
    assert!(t.elements(&name, set::Change::Insert, &["a"]).await);
    assert!(!t.elements(&name, set::Change::InsertAllIfNone, &["b", "a"]).await);
    assert!(!set::contains(&t.other, &name, b"b").await.unwrap());
    assert!(t.elements(&name, set::Change::InsertAllIfNone, &["b", "c"]).await);
    assert_eq!(set::len(&t.other, &name).await.unwrap(), 3);
    let page = set::scan(&t.other, &name, &Cursor::default()).await.unwrap();
    let mut elements = page.parts;
    elements.sort();
    assert_eq!((elements, page.next), (bytes(&["a", "b", "c"]), None));
    for element in ["a", "b", "c"] {
        assert!(t.elements(&name, set::Change::Remove, &[element]).await);
    }
}

async fn repeated_pop_returns_the_same_element(t: &Bench) {
    let (name, receipt) = (t.data("set-pop"), t.identity.fresh_owner());
    t.elements(&name, set::Change::Insert, &["a"]).await;
    t.elements(&name, set::Change::Insert, &["b"]).await;
    let popped = set::pop(&t.one, &name, &receipt).await.unwrap();
    assert!([yes(b"a"), yes(b"b")].contains(&popped), "{popped:?}");
    assert_eq!(set::pop(&t.one, &name, &receipt).await.unwrap(), popped);
    assert_eq!(set::len(&t.one, &name).await.unwrap(), 1);
    let other = set::pop(&t.one, &name, &t.identity.fresh_owner()).await.unwrap();
    assert_ne!(other, popped);
    let none = set::pop(&t.one, &name, &t.identity.fresh_owner()).await.unwrap();
    assert_eq!(none, Changed::No);
}
