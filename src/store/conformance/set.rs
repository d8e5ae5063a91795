//! The contract of every store for sets. `map.rs` has the tests of long elements.

use super::{
    Bench,
    map::{bytes, yes},
};
use crate::store::{
    data::{Changed, Cursor, Page},
    set,
};

pub(super) async fn all(t: &Bench) {
    set_change_counts_once(t).await;
    repeated_pop_returns_the_same_element(t).await;
}

/// A repeated request returns the same reply. A request without an effect leaves no idempotency
/// key, so the next request can use the same key.
async fn set_change_counts_once(t: &Bench) {
    use set::Change::{Insert, InsertAllIfNone, Remove};
    let (name, mut receipt) = (t.data("set-change"), t.identity.fresh_owner());
    for (change, elements, changed) in [
        (Remove, &["a"][..], false),
        (Insert, &["a"], true),
        (Insert, &["a"], false),
        (InsertAllIfNone, &["b", "a"], false),
        (Remove, &["a", "b"], true),
        (InsertAllIfNone, &["b", "c"], true),
        (Insert, &["a", "b"], true),
    ] {
        let elements = bytes(elements);
        let request = async || set::change(&t.one, &name, change, &elements, &receipt).await;
        assert_eq!(request().await.unwrap(), changed, "{change:?} {elements:?}");
        if changed {
            assert!(request().await.unwrap(), "{change:?} {elements:?} again");
            receipt = t.identity.fresh_owner();
        }
    }
    assert!(set::contains(&t.other, &name, b"b").await.unwrap());
    assert!(!set::contains(&t.other, &name, b"d").await.unwrap());
    assert_eq!(set::len(&t.other, &name).await.unwrap(), 3);
    let mut page = set::scan(&t.other, &name, &Cursor::default()).await.unwrap();
    page.parts.sort();
    assert_eq!(page, Page { parts: bytes(&["a", "b", "c"]), next: None, skips: None });
}

async fn repeated_pop_returns_the_same_element(t: &Bench) {
    let (name, receipt) = (t.data("set-pop"), t.identity.fresh_owner());
    assert!(t.adds(&name, b"a").await && t.adds(&name, b"b").await);
    let popped = set::pop(&t.one, &name, &receipt).await.unwrap();
    assert!([yes(b"a"), yes(b"b")].contains(&popped), "{popped:?}");
    assert_eq!(set::pop(&t.one, &name, &receipt).await.unwrap(), popped);
    assert_eq!(set::len(&t.one, &name).await.unwrap(), 1);
    let [other, last] = [t.identity.fresh_owner(), t.identity.fresh_owner()];
    assert_ne!(set::pop(&t.one, &name, &other).await.unwrap(), popped);
    assert_eq!(set::pop(&t.one, &name, &last).await.unwrap(), Changed::No);
}
