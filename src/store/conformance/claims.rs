//! The contract of every store for claimed elements of a queue.

use std::time::Duration;

use tokio::time::sleep;

use super::{Bench, freed, renewal};
use crate::{
    domain::{
        Claim, Ending, Kind, Outcome, ReleaseMode, ReleaseReply, RemoteWaiters, Share, Taken,
        Verdict,
    },
    store::{Event, SubscriptionLevel, queue},
};

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(10);
const ENDED: ReleaseReply = ReleaseReply::Freed(RemoteWaiters::Nobody);
const GONE: ReleaseReply = ReleaseReply::NotHeld { holder: None };

/// Runs every case on `bench`.
pub(super) async fn all(bench: &Bench) {
    elements_are_claimed_in_order(bench).await;
    repeated_request_counts_once_and_gets_the_same_element(bench).await;
    claim_ends_once_and_its_late_element_goes_back(bench).await;
    expired_claims_go_back_in_order(bench).await;
    renewed_claim_lasts(bench).await;
    waiter_is_notified_of_elements(bench).await;
}

fn wants(t: &Bench, name: &str, ttl: Duration) -> Claim {
    let share = Share::Element(Ending::Back);
    Claim { object: t.object(Kind::Queue, name), share, ..t.claim_for(name, ttl) }
}

async fn push(t: &Bench, claim: &Claim, elements: &[&str]) -> u64 {
    let elements: Vec<_> = elements.iter().map(|it| it.as_bytes().to_vec()).collect();
    queue::push(&t.one, claim.name(), &elements, &t.identity.fresh_owner()).await.unwrap()
}

/// Claims an element. Returns the time at which it was taken, and the element.
async fn take(t: &Bench, claim: &Claim) -> (u64, String) {
    match t.one.acquire(claim, None).await.unwrap() {
        Verdict::Granted { element: Some(it), token: None } => {
            (it.taken_at, String::from_utf8(it.bytes.clone()).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

async fn end(t: &Bench, claim: &Claim, ending: Ending) -> ReleaseReply {
    let claim = Claim { share: Share::Element(ending), ..claim.clone() };
    t.other.release(&claim, ReleaseMode::HandOver).await.unwrap()
}

async fn counts(t: &Bench, claim: &Claim) -> (u64, u64) {
    let name = claim.name();
    (queue::len(&t.other, name).await.unwrap(), queue::claimed(&t.other, name).await.unwrap())
}

async fn elements_are_claimed_in_order(t: &Bench) {
    let [one, two, three, four] = [(); 4].map(|()| wants(t, "q-order", LONG));
    assert_eq!(t.other.acquire(&one, None).await.unwrap(), Verdict::Busy(Taken::UNKNOWN));
    // The queue keeps equal elements apart, and an element may contain any byte.
    assert_eq!(push(t, &one, &["a:\0\r\n", "a:\0\r\n"]).await, 2);
    assert_eq!(push(t, &one, &[""]).await, 3);
    assert_eq!(take(t, &one).await.1, "a:\0\r\n");
    assert_eq!(take(t, &two).await.1, "a:\0\r\n");
    assert_eq!(counts(t, &one).await, (1, 2));
    assert_eq!(take(t, &three).await.1, "");
    let busy = t.other.acquire(&four, None).await.unwrap();
    let is_true = |left| left <= LONG && left > LONG / 2;
    assert!(matches!(busy, Verdict::Busy(Taken { at_most: Some(left), .. }) if is_true(left)));
    // An element that goes back becomes the head of the queue.
    push(t, &one, &["last"]).await;
    assert_eq!(end(t, &two, Ending::Back).await, ENDED);
    assert_eq!(take(t, &four).await.1, "a:\0\r\n");
    assert_eq!(counts(t, &one).await, (1, 3));
}

async fn repeated_request_counts_once_and_gets_the_same_element(t: &Bench) {
    let (claim, receipt) = (wants(t, "q-again", LONG), t.identity.fresh_owner());
    let elements = [b"a".to_vec(), b"b".to_vec()];
    for _ in 0..2 {
        assert_eq!(queue::push(&t.one, claim.name(), &elements, &receipt).await.unwrap(), 2);
    }
    let short = Claim { ttl: SHORT, ..claim.clone() };
    let first = take(t, &short).await;
    assert_eq!(take(t, &claim).await, first);
    sleep(2 * SHORT).await;
    // The repeated request renewed the first claim.
    assert_eq!(take(t, &wants(t, "q-again", LONG)).await.1, "b");
    assert_eq!(counts(t, &claim).await, (0, 2));
}

/// If the store executes a late request of a claim that has ended, the claim gets another element,
/// which must go back.
async fn claim_ends_once_and_its_late_element_goes_back(t: &Bench) {
    for (name, aside) in [("q-done", false), ("q-aside", true)] {
        let [claim, never] = [(); 2].map(|()| wants(t, name, LONG));
        push(t, &claim, &["a", "b"]).await;
        let (taken_at, _) = take(t, &claim).await;
        let ending = if aside { Ending::Aside(taken_at) } else { Ending::Done(taken_at) };
        assert_eq!(end(t, &never, ending).await, GONE);
        for late in [false, false, true] {
            if late {
                assert_eq!(take(t, &claim).await.1, "b");
            }
            assert_eq!(end(t, &claim, ending).await, ENDED);
            assert_eq!(counts(t, &claim).await, (1, 0));
        }
    }
}

async fn expired_claims_go_back_in_order(t: &Bench) {
    let claims: [Claim; 3] = [5, 4, 3].map(|times| wants(t, "q-expired", times * SHORT / 3));
    let next = wants(t, "q-expired", LONG);
    push(t, &next, &["a", "b", "c", "d"]).await;
    let (taken_at, _) = take(t, &claims[0]).await;
    take(t, &claims[1]).await;
    take(t, &claims[2]).await;
    sleep(2 * SHORT).await;
    for element in ["a", "b", "c", "d"] {
        assert_eq!(take(t, &wants(t, "q-expired", LONG)).await.1, element);
    }
    assert_eq!(counts(t, &next).await, (0, 4));
    assert_eq!(end(t, &claims[0], Ending::Done(taken_at)).await, GONE);
    assert_eq!(counts(t, &next).await, (0, 4), "the element belongs to another claim");
    // By a late request, the expired claim gets another element, which must go back.
    push(t, &next, &["e"]).await;
    assert_eq!(take(t, &claims[0]).await.1, "e");
    assert_eq!(end(t, &claims[0], Ending::Done(taken_at)).await, GONE);
    assert_eq!(counts(t, &next).await, (1, 4));
}

async fn renewed_claim_lasts(t: &Bench) {
    let [kept, lost, other] = [(); 3].map(|()| wants(t, "q-renewed", 2 * SHORT));
    push(t, &kept, &["a", "b"]).await;
    take(t, &kept).await;
    take(t, &lost).await;
    let renewals = [
        renewal(&kept, Some(LONG)),
        renewal(&lost, None),
        renewal(&other, Some(LONG)),
        renewal(&wants(t, "q-renewed-empty", LONG), Some(LONG)),
    ];
    const NO: Outcome = Outcome::NotOwned;
    let outcomes = t.one.renew(&renewals).await.unwrap();
    assert_eq!(outcomes, [Outcome::Renewed, Outcome::Renewed, NO, NO]);
    sleep(3 * SHORT).await;
    assert_eq!(t.one.renew(&renewals).await.unwrap(), [Outcome::Renewed, NO, NO, NO]);
    assert_eq!(take(t, &other).await.1, "b");
}

async fn waiter_is_notified_of_elements(t: &Bench) {
    let claim = wants(t, "q-notified", LONG);
    t.other.listen(&claim.object);
    let subscribed = Event::Subscribed(claim.object.clone(), SubscriptionLevel::Releases);
    t.received(&subscribed, 1).await;
    push(t, &claim, &["a"]).await;
    t.received(&freed(&claim), 1).await;
    take(t, &claim).await;
    end(t, &claim, Ending::Back).await;
    t.received(&freed(&claim), 2).await;
    t.other.unlisten(&claim.object);
}
