//! One reply is valid for all tasks that were in line when its request was sent.

use super::*;

type Line<'a> = Pin<Box<dyn Future<Output = Option<Entrance>> + 'a>>;

const WISH: WaiterSpec =
    WaiterSpec { profile: PLAIN, listens: true, may_share: false, again: None };

/// Returns a task that waits in line for `name`.
fn in_line<'a>(contention: &'a Arc<NameRegistry>, name: &'a Object) -> Line<'a> {
    let mut waits: Line<'_> = Box::pin(contention.slot(name, &WISH, || true));
    assert!((&mut waits).now_or_never().is_none());
    waits
}

/// Returns how the task leaves the line, if it leaves now.
fn entrance(waits: &mut Line<'_>) -> Entrance {
    waits.now_or_never().expect("the task leaves the line").unwrap()
}

/// Returns the request slot with which the task leaves the line now.
fn slot(waits: &mut Line<'_>) -> RequestSlot {
    match entrance(waits) {
        Entrance::Slot(slot) => slot,
        Entrance::Shared(_) | Entrance::Answered => panic!("the task did not get the request slot"),
    }
}

#[tokio::test(start_paused = true)]
async fn latch_reply_wakes_only_waiters_that_preceded_its_request() {
    let (_engine, contention, name) = door();
    // given a task that sends a request, and two tasks in line
    let mut requester = contention.line(&name, PLAIN, true, || true).await.unwrap();
    let (mut one, other) = (in_line(&contention, &name), in_line(&contention, &name));
    requester.asks();

    // when two more tasks join the line before the reply, and an earlier task leaves the line
    let (mut late, mut later) = (in_line(&contention, &name), in_line(&contention, &name));
    drop(other);
    requester.answer_those_before();

    // then the reply is not valid for the later tasks, which send their own requests one after the
    // other
    assert!(matches!(entrance(&mut one), Entrance::Answered));
    assert!((&mut late).now_or_never().is_none());
    drop(requester);
    let its_turn = slot(&mut late);
    assert!((&mut later).now_or_never().is_none());
    drop(its_turn);
    drop(slot(&mut later));
}

#[tokio::test(start_paused = true)]
async fn waiter_gets_only_replies_to_requests_after_its_arrival() {
    let (_engine, contention, name) = door();
    let mut requester = contention.line(&name, PLAIN, true, || true).await.unwrap();
    requester.asks();
    let mut late = in_line(&contention, &name);
    requester.answer_those_before();
    assert!((&mut late).now_or_never().is_none());
    // but the task gets the reply to a later request
    requester.asks();
    requester.answer_those_before();
    assert!(matches!(entrance(&mut late), Entrance::Answered));
}
