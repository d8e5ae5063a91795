//! The contract of every store for maps, and for long elements of sets.

use super::*;
use crate::{
    domain::{Name, Owner},
    store::{
        data::{Changed, Cursor, Page},
        map::{self, Change},
        set,
    },
};

pub(super) async fn all(t: &Bench) {
    map_change_counts_once_and_returns_the_previous_value(t).await;
    entry_ends_with_its_ttl_if_the_server_can(t).await;
    sum_is_added_once_for_each_request(t).await;
    entries_are_read_together(t).await;
    long_values_are_not_returned(t).await;
    long_page_is_read_in_parts(t).await;
}

impl Bench {
    pub(super) fn data(&self, name: &str) -> Name {
        Name::new(format!("{}{name}", self.prefix)).unwrap()
    }

    /// Makes a change as the first client, with the idempotency key `receipt`.
    async fn changes(&self, name: &Name, change: Change<'_>, receipt: &Owner) -> Changed {
        map::change(&self.one, name, b"key", change, None, receipt).await.unwrap()
    }

    async fn change(&self, name: &Name, change: Change<'_>) -> Changed {
        self.changes(name, change, &self.identity.fresh_owner()).await
    }

    async fn value(&self, name: &Name) -> Option<Vec<u8>> {
        map::read(&self.other, name, &bytes(&["key"])).await.unwrap().remove(0)
    }

    /// Adds an element to a set, and returns whether it was new.
    pub(super) async fn adds(&self, name: &Name, element: &[u8]) -> bool {
        let receipt = self.identity.fresh_owner();
        let elements = [element.to_vec()];
        set::change(&self.one, name, set::Change::Insert, &elements, &receipt).await.unwrap()
    }
}

fn insert(value: &[u8]) -> Change<'_> {
    Change { value, ..Change::INSERT }
}

pub(super) fn yes(value: &[u8]) -> Changed {
    Changed::Yes(value.to_vec())
}

pub(super) fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A repeated request changes nothing, and returns the same reply. A request without an effect
/// leaves no idempotency key, so the next change can have the same key.
async fn map_change_counts_once_and_returns_the_previous_value(t: &Bench) {
    let (name, mut receipt) = (t.data("map-change"), t.identity.fresh_owner());
    let with = |value, change| Change { value, ..change };
    let on = |old, change| Change { old, ..change };
    for (change, reply) in [
        (with(b"1", Change::REPLACE), Changed::No),
        (with(b"1", Change::COMPARE_AND_SET), Changed::No),
        (Change::REMOVE, Changed::No),
        (Change::REMOVE_IF, Changed::No),
        (with(b"1", Change::INSERT_IF_ABSENT), Changed::No),
        (with(b"2", Change::INSERT_IF_ABSENT), yes(b"1")),
        (insert(b"\0\xff"), yes(b"1")),
        (Change::REPLACE, yes(b"\0\xff")),
        (on(b"1", with(b"3", Change::COMPARE_AND_SET)), Changed::No),
        (with(b"3", Change::COMPARE_AND_SET), yes(b"")),
        (on(b"1", Change::REMOVE_IF), Changed::No),
        (insert(b"0"), yes(b"3")),
        (on(b"0", Change::REMOVE_IF), yes(b"")),
        (insert(b"4"), Changed::No),
        (Change::REMOVE, yes(b"4")),
    ] {
        let before = t.value(&name).await;
        assert_eq!(t.changes(&name, change, &receipt).await, reply, "{change:?}");
        let now = t.value(&name).await;
        if now != before {
            assert_eq!(t.changes(&name, change, &receipt).await, reply, "{change:?} again");
            assert_eq!(t.value(&name).await, now, "{change:?} again");
            receipt = t.identity.fresh_owner();
        }
    }
    let many = with(b"7", Change::INSERT_MANY);
    assert_eq!(t.changes(&name, many, &receipt).await, yes(b""));
    t.change(&name, insert(b"8")).await;
    assert_eq!(t.changes(&name, many, &receipt).await, yes(b""));
    assert_eq!(t.change(&name, Change::REMOVE).await, yes(b"8"));
    assert_eq!(map::len(&t.other, &name).await.unwrap(), 0);
}

async fn entry_ends_with_its_ttl_if_the_server_can(t: &Bench) {
    let (name, receipt) = (t.data("map-ttl"), t.identity.fresh_owner());
    t.change(&name, insert(b"1")).await;
    let ttl = Duration::from_millis(200);
    let brief = Change { ttl: Some(ttl), ..insert(b"2") };
    let inserted = async || map::change(&t.one, &name, b"key", brief, None, &receipt).await;
    let before = inserted().await;
    if let Err(Failure::Unsupported(_)) = before {
        // The refused request left no idempotency key, so another change may use the same key.
        assert_eq!(t.changes(&name, Change::REMOVE, &receipt).await, yes(b"1"));
    } else {
        assert_eq!((before.unwrap(), t.value(&name).await), (yes(b"1"), Some(b"2".to_vec())));
        sleep(ttl * 5 / 4).await;
        // A repeated request returns the same reply, and does not insert the entry again.
        assert_eq!(inserted().await.unwrap(), yes(b"1"));
    }
    assert_eq!(t.value(&name).await, None);
}

async fn sum_is_added_once_for_each_request(t: &Bench) {
    let (name, receipt) = (t.data("map-sum"), t.identity.fresh_owner());
    let add = |value| Change { value, ..Change::ADD };
    let [most, less] = [i64::MAX, i64::MAX - 1].map(|number| number.to_string().into_bytes());
    for _ in 0..2 {
        assert_eq!(t.changes(&name, add(&less), &receipt).await, yes(&less));
    }
    assert_eq!(t.change(&name, add(b"1")).await, yes(&most));
    for not_changed in [&most[..], b"many"] {
        let receipt = t.identity.fresh_owner();
        let sum = map::change(&t.one, &name, b"key", add(b"1"), None, &receipt).await;
        assert!(matches!(sum, Err(Failure::Refused { .. })), "{sum:?}");
        assert_eq!(t.change(&name, insert(b"many")).await, yes(not_changed));
    }
    t.change(&name, Change::REMOVE).await;
}

async fn entries_are_read_together(t: &Bench) {
    let name = t.data("map-read");
    let more = &bytes(&["lock", ""])[..];
    t.change(&name, Change { value: b"1", more, ..Change::INSERT_MANY }).await;
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
    assert_eq!(t.change(&name, insert(&long)).await, Changed::No);
    assert_eq!(t.change(&name, insert(b"1")).await, Changed::TooLong);
    assert_eq!(t.change(&name, Change::REMOVE).await, Changed::TooLong);
    let read = map::read(&t.one, &name, &bytes(&["none", "key", "none"])).await.unwrap();
    assert_eq!(read, [None], "only the values before the long one are read");
    let page = map::scan(&t.one, &name, &Cursor::default()).await.unwrap();
    assert_eq!((page.skips.as_deref(), page.parts.len()), (Some(&b"key"[..]), 0));
    let page = map::scan(&t.one, &name, &page.next.unwrap()).await.unwrap();
    assert_eq!(page, Page { parts: vec![], next: None, skips: None });
    assert_eq!(t.change(&name, Change { old: &long, ..Change::REMOVE_IF }).await, yes(b""));

    let (elements, receipt) = (t.data("set-long"), t.identity.fresh_owner());
    assert!(t.adds(&elements, &long).await);
    assert_eq!(set::pop(&t.one, &elements, &receipt).await.unwrap(), Changed::TooLong);
    let skips = set::scan(&t.one, &elements, &Cursor::default()).await.unwrap().skips;
    assert!(skips.unwrap() == [b'x'; 200]);
}

async fn long_page_is_read_in_parts(t: &Bench) {
    let (map, set) = (t.data("map-parts"), t.data("set-parts"));
    let texts = ["a", "b", "c", "d"].map(|text| text.repeat(90_000).into_bytes());
    for text in &texts {
        let receipt = t.identity.fresh_owner();
        map::change(&t.one, &map, &text[..1], insert(text), None, &receipt).await.unwrap();
        t.adds(&set, text).await;
    }
    for is_map in [true, false] {
        let (mut cursor, mut read) = (Some(Cursor::default()), vec![]);
        while let Some(at) = cursor {
            let page = match is_map {
                true => map::scan(&t.other, &map, &at).await.unwrap(),
                false => set::scan(&t.other, &set, &at).await.unwrap(),
            };
            assert!(page.skips.is_none() && page.parts.concat().len() <= 200_000);
            read.extend(page.parts.into_iter().filter(|part| part.len() > 1));
            cursor = page.next;
        }
        read.sort();
        assert!(read == texts, "{} of the four texts are read", read.len());
    }
}
