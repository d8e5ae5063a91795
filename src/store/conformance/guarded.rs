//! The contract of every store for guarded writes. What is written is read back by writing: no
//! store is asked for data otherwise.

use tokio::time::sleep;

use super::{Bench, Duration};
use crate::domain::{Claim, Failure, ReleaseMode, Value, Work, Write};

/// Runs every case on `bench`.
pub(super) async fn all(bench: &Bench) {
    who_holds_writes_and_nobody_else_does(bench).await;
    nothing_is_written_when_the_hold_is_over(bench).await;
    one_that_entered_again_writes(bench).await;
    writes_are_made_in_order_and_all_of_them_or_none(bench).await;
    what_is_to_expire_does(bench).await;
}

/// Whether `writes` were made.
async fn writes<const N: usize>(t: &Bench, claim: &Claim, writes: [Write; N]) -> bool {
    let done = t.one.guarded(claim, &Work::Writes(writes.into())).await.unwrap();
    assert!(done.is_none() || done == Some(Value::Nil), "{done:?}");
    done.is_some()
}

/// Whether a text lies under `key`: then no field can be set. Otherwise one is.
async fn is_text(t: &Bench, claim: &Claim, key: &str) -> bool {
    let work = Work::Writes(vec![Write::hset(t.key(key), "field", "")]);
    match t.one.guarded(claim, &work).await {
        Ok(Some(Value::Nil)) => false,
        Err(Failure::Refused { code, .. }) if code == "WRONGTYPE" => true,
        other => panic!("{other:?}"),
    }
}

async fn who_holds_writes_and_nobody_else_does(t: &Bench) {
    let (mine, yours) = (t.claim("guarded"), t.claim("guarded"));
    assert!(
        !writes(t, &mine, [Write::set(t.key("{guarded}:a"), "early")]).await,
        "nobody holds it"
    );
    t.grant(&mine).await;
    assert!(!writes(t, &yours, [Write::set(t.key("{guarded}:a"), "another's")]).await);
    assert!(!is_text(t, &mine, "{guarded}:a").await, "who does not hold has written");
    assert!(writes(t, &mine, [Write::set(t.key("{guarded}:b"), "mine")]).await);
    assert!(is_text(t, &mine, "{guarded}:b").await);
    assert!(writes(t, &mine, []).await);
    assert!(!writes(t, &yours, []).await);
    t.broadcast(&mine).await;
}

async fn nothing_is_written_when_the_hold_is_over(t: &Bench) {
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

async fn one_that_entered_again_writes(t: &Bench) {
    let claim = t.claim("entered");
    t.grant(&claim).await;
    t.one.recount(&claim, 2, None).await.unwrap();
    assert!(writes(t, &claim, [Write::set(t.key("{entered}:a"), "1")]).await);
    assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), 2);
    t.broadcast(&claim).await;
}

async fn writes_are_made_in_order_and_all_of_them_or_none(t: &Bench) {
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

    // what cannot be made for what lies there, or for what is to lie there by then
    for refused in [
        [set(t.key("{order}:c")), field(t.key("{order}:b"))],
        [set(t.key("{order}:c")), field(t.key("{order}:c"))],
    ] {
        let refused = t.one.guarded(&claim, &Work::Writes(refused.into())).await.unwrap_err();
        assert!(!refused.may_have_happened() && refused.to_string().contains("WRONGTYPE"));
        assert!(!is_text(t, &claim, "{order}:c").await, "a part of it was written");
        assert!(writes(t, &claim, [Write::delete(t.key("{order}:c"))]).await);
    }
    t.broadcast(&claim).await;
}

async fn what_is_to_expire_does(t: &Bench) {
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
    assert!(is_text(t, &claim, "{expiry}:kept").await, "what is set anew has no end");
    t.broadcast(&claim).await;
}
