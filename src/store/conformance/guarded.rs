//! The contract of every store for guarded writes. A store has no request that reads texts, so the
//! tests check texts by further writes: see [`is_text`].

use tokio::time::sleep;

use super::{Bench, Duration};
use crate::{
    domain::{Claim, Failure, Name, ReleaseMode, Value, Work, Write},
    store::map,
};

/// Runs every case on `bench`.
pub(super) async fn all(bench: &Bench) {
    only_the_holder_writes(bench).await;
    write_changes_nothing_after_the_hold(bench).await;
    reentered_holder_writes(bench).await;
    writes_are_ordered_and_atomic(bench).await;
    value_with_a_ttl_expires(bench).await;
}

/// Sends `writes`. Returns whether the store executed them.
async fn writes<const N: usize>(t: &Bench, claim: &Claim, writes: [Write; N]) -> bool {
    let done = t.one.guarded(claim, &Work::Writes(writes.into())).await.unwrap();
    assert!(done.is_none() || done == Some(Value::Nil), "{done:?}");
    done.is_some()
}

/// Returns whether `key` has a text. For this check, the function sets a hash field, which fails if
/// the key has a text.
async fn is_text(t: &Bench, claim: &Claim, key: &str) -> bool {
    let work = Work::Writes(vec![Write::hset(t.key(key), "field", "")]);
    match t.one.guarded(claim, &work).await {
        Ok(Some(Value::Nil)) => false,
        Err(Failure::Refused { code, .. }) if code == "WRONGTYPE" => true,
        other => panic!("{other:?}"),
    }
}

async fn only_the_holder_writes(t: &Bench) {
    let (mine, yours) = (t.claim("guarded"), t.claim("guarded"));
    assert!(
        !writes(t, &mine, [Write::set(t.key("{guarded}:a"), "early")]).await,
        "no client holds the lock"
    );
    t.grant(&mine).await;
    assert!(!writes(t, &yours, [Write::set(t.key("{guarded}:a"), "another's")]).await);
    assert!(!is_text(t, &mine, "{guarded}:a").await, "a client without the lock must not write");
    assert!(writes(t, &mine, [Write::set(t.key("{guarded}:b"), "mine")]).await);
    assert!(is_text(t, &mine, "{guarded}:b").await);
    assert!(writes(t, &mine, []).await);
    assert!(!writes(t, &yours, []).await);
    t.broadcast(&mine).await;
}

async fn write_changes_nothing_after_the_hold(t: &Bench) {
    let late = || [Write::set(t.key("{over}:late"), "late")];
    let expired = t.claim_for("over", Duration::from_millis(60));
    t.grant(&expired).await;
    sleep(Duration::from_millis(80)).await;
    assert!(!writes(t, &expired, late()).await);
    let forced = t.claim("over");
    t.grant(&forced).await;
    t.other.force_release(&forced.object).await.unwrap();
    assert!(!writes(t, &forced, late()).await);
    let released = t.claim("over");
    t.grant(&released).await;
    t.one.release(&released, ReleaseMode::Broadcast).await.unwrap();
    assert!(!writes(t, &released, late()).await);

    let next = t.claim("over");
    t.grant(&next).await;
    for before in [&expired, &forced, &released] {
        assert!(!writes(t, before, late()).await);
    }
    assert!(!is_text(t, &next, "{over}:late").await);
    t.broadcast(&next).await;
}

async fn reentered_holder_writes(t: &Bench) {
    let claim = t.claim("entered");
    t.grant(&claim).await;
    t.one.recount(&claim, 2, None).await.unwrap();
    assert!(writes(t, &claim, [Write::set(t.key("{entered}:a"), "1")]).await);
    assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), 2);
    t.broadcast(&claim).await;
}

async fn writes_are_ordered_and_atomic(t: &Bench) {
    let claim = t.claim("order");
    t.grant(&claim).await;
    let set = |key: String| Write::set(key, "1");
    let field = |key: String| Write::hset(key, "field", "1");
    assert!(
        writes(
            t,
            &claim,
            [set(t.key("{order}:a")), Write::delete(t.key("{order}:a")), field(t.key("{order}:a"))]
        )
        .await
    );
    assert!(writes(t, &claim, [field(t.key("{order}:b")), set(t.key("{order}:b"))]).await);
    assert!(!is_text(t, &claim, "{order}:a").await);
    assert!(is_text(t, &claim, "{order}:b").await);
    let hash = Name::new(t.key("{order}:a")).unwrap();
    assert_eq!(map::len(&t.one, &hash).await.unwrap(), 1);
    assert!(writes(t, &claim, [Write::hdel(hash.as_str(), "field")]).await);
    assert_eq!(map::len(&t.one, &hash).await.unwrap(), 0);

    // the second write is invalid for the existing value, or for the value that the first write
    // sets
    for refused in [
        [set(t.key("{order}:c")), field(t.key("{order}:b"))],
        [set(t.key("{order}:c")), field(t.key("{order}:c"))],
    ] {
        let refused = t.one.guarded(&claim, &Work::Writes(refused.into())).await.unwrap_err();
        assert!(!refused.may_have_happened() && refused.to_string().contains("WRONGTYPE"));
        assert!(!is_text(t, &claim, "{order}:c").await, "no part of the batch is written");
        assert!(writes(t, &claim, [Write::delete(t.key("{order}:c"))]).await);
    }
    t.broadcast(&claim).await;
}

async fn value_with_a_ttl_expires(t: &Bench) {
    let claim = t.claim("expiry");
    t.grant(&claim).await;
    let soon = |key: String| Write::expire(key, Duration::from_millis(60));
    let (kept, gone) =
        (Write::set(t.key("{expiry}:kept"), "1"), Write::set(t.key("{expiry}:gone"), "1"));
    let nothing = soon(t.key("{expiry}:nothing"));
    assert!(writes(t, &claim, [gone, soon(t.key("{expiry}:gone")), nothing]).await);
    assert!(writes(t, &claim, [kept.clone(), soon(t.key("{expiry}:kept")), kept]).await);
    sleep(Duration::from_millis(80)).await;
    assert!(!is_text(t, &claim, "{expiry}:gone").await);
    assert!(is_text(t, &claim, "{expiry}:kept").await, "a value that is set again has no TTL");
    t.broadcast(&claim).await;
}
