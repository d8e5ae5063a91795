//! Tests of the waiters of one name, on a simulated server.

mod idle;
mod lingering;
mod offers;
mod profiles;
mod replies;
mod sharing;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, advance};

use super::*;
use crate::{
    Client, MemoryStore,
    domain::{Claim, Owner},
    engine::{
        Engine,
        grant::{Grant, LeaseProfile, LocalHandoff, ReplicationStatus, Terms},
        timing::{CONTENDED, IDLE_LIFETIME, LONG_HOLD, REPLY_IDLE_LIMIT, REQUESTER_IDLE_LIMIT},
    },
};

const TTL: Duration = Duration::from_secs(30);
const PLAIN: LeaseProfile = LeaseProfile { ttl: Some(TTL), fenced: false, units: 0 };
const TERMS: Terms =
    Terms { renewed: true, max_hold: None, local: LocalHandoff { most: 10, time: TTL } };

fn client() -> Arc<Engine> {
    Engine::on(&MemoryStore::new(), "client")
}

impl NameRegistry {
    /// Joins the line for a hold that is not shared.
    async fn line(
        self: &Arc<Self>,
        object: &Object,
        profile: LeaseProfile,
        listens: bool,
        revive: impl Fn() -> bool,
    ) -> Option<RequestSlot> {
        let spec = WaiterSpec { profile, listens, may_share: false, again: None };
        match self.slot(object, &spec, revive).await? {
            Entrance::Slot(slot) => Some(slot),
            Entrance::Shared(hold) => {
                panic!("the task got a share in {hold:?}, not the request slot")
            }
            Entrance::Answered => panic!("the task got a reply, not the request slot"),
        }
    }
}

/// Returns the engine of a new client, its registry of names, and a lock.
fn door() -> (Arc<Engine>, Arc<NameRegistry>, Object) {
    let engine = client();
    let contention = Arc::clone(&engine.contention);
    (engine, contention, Object::lock("door"))
}

fn grant(engine: &Engine, name: &Object, now: Instant) -> Grant {
    Grant {
        id: engine.next_grant(),
        claim: Claim::plain(name.clone(), engine.identity.fresh_owner(), TTL),
        leased_at: now,
        asked_at: now.into(),
        replication: ReplicationStatus::default(),
        unsure: false,
        contended: false,
        budget: TERMS.local.from(now),
        token: None,
        element: None,
    }
}

/// Creates a hold that keeps the request slot.
async fn hold(engine: &Engine, name: &Object) -> Arc<Hold> {
    let slot = engine.contention.line(name, PLAIN, true, || true).await;
    entered(engine, grant(engine, name, Instant::now()), slot)
}

fn entered(engine: &Engine, grant: Grant, slot: Option<RequestSlot>) -> Arc<Hold> {
    let now = Instant::now();
    let hold = Arc::new(Hold::new(grant, TERMS, now, &engine.core.counters));
    engine.contention.entered(&hold, slot);
    hold
}

/// Returns a task that waits in line for the request slot.
fn in_line<'a>(
    contention: &'a Arc<NameRegistry>,
    name: &'a Object,
) -> Pin<Box<impl Future<Output = Option<RequestSlot>> + 'a>> {
    let mut waits = Box::pin(contention.line(name, PLAIN, true, || true));
    assert!((&mut waits).now_or_never().is_none());
    waits
}

/// Makes a hold from the hand-off grant of `slot`.
fn take_over(engine: &Engine, mut slot: RequestSlot) -> Option<Arc<Hold>> {
    let grant = slot.handoff.take()?.take(Instant::now())?;
    Some(entered(engine, grant, Some(slot)))
}

/// The background task may end after a waiter has checked that the background task runs, and before
/// the waiter joins the line.
#[tokio::test]
async fn waiter_that_joins_the_line_restarts_the_background_task() {
    let (engine, contention, name) = door();
    let _hold = hold(&engine, &name).await;
    let revived = std::cell::Cell::new(0);
    let waits = contention.line(&name, PLAIN, true, || {
        revived.set(revived.get() + 1);
        true
    });
    let mut waits = Box::pin(waits);
    assert!((&mut waits).now_or_never().is_none());
    assert_eq!(revived.get(), 1);

    // and if the background task ends while the waiter is in line, the waiter restarts the
    // background task
    contention.wake_all_waiters();
    assert!((&mut waits).now_or_never().is_none());
    assert_eq!((revived.get(), contention.in_line(&name)), (2, 1));
}

/// Former bug: after `try_acquire`, the client noticed a forced release only at the next renewal.
#[tokio::test]
async fn grant_of_try_acquire_is_recorded_while_another_task_waits() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let _waits = in_line(&contention, &name);
    let tried = entered(&engine, grant(&engine, &name, Instant::now()), None);
    contention.left(&first);
    assert_eq!(contention.grant(&name), Some(tried.grant.id));
}

#[tokio::test]
async fn waiters_get_the_request_slot_in_order() {
    let (_engine, contention, name) = door();
    let slot = contention.line(&name, PLAIN, true, || true).await;
    let (mut first, mut second) = (in_line(&contention, &name), in_line(&contention, &name));

    drop(slot);
    assert!((&mut second).now_or_never().is_none());
    let slot = (&mut first).now_or_never().unwrap();
    assert!((&mut second).now_or_never().is_none());
    drop(slot);
    assert!((&mut second).now_or_never().is_some());
}

#[tokio::test]
async fn request_slot_of_a_leaving_waiter_goes_to_the_next_waiter() {
    let (_engine, contention, name) = door();
    let slot = contention.line(&name, PLAIN, true, || true).await;
    let waits = || in_line(&contention, &name);
    let (first, second, third) = (waits(), waits(), waits());
    // `first` leaves while it waits; `second` leaves after it was woken, but before it runs
    drop(first);
    drop(slot);
    drop(second);
    assert!(third.now_or_never().unwrap().is_some());
}

#[tokio::test]
async fn waiter_gets_no_slot_and_no_grant_after_shutdown() {
    let (engine, contention, name) = door();
    let hold = hold(&engine, &name).await;
    let (called, waiting) = (in_line(&contention, &name), in_line(&contention, &name));
    assert!(contention.pass_on(&hold, Instant::now()));

    // `called` was woken: its hand-off grant is released
    engine.core.open.close();
    contention.close();
    assert!(called.now_or_never().unwrap().is_none());
    assert!(waiting.now_or_never().unwrap().is_none());
    assert_eq!(engine.core.pending.queued(), 1);
    assert!(contention.line(&name, PLAIN, true, || true).await.is_none());
}

#[tokio::test]
async fn each_name_has_its_own_request_slot() {
    let (_engine, contention, name) = door();
    let _turn = contention.line(&name, PLAIN, true, || true).await;
    let other = Object::lock("window");
    assert!(contention.line(&other, PLAIN, true, || true).now_or_never().is_some());
}

#[tokio::test]
async fn hand_off_passes_the_grant_and_the_request_slot() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let waits = in_line(&contention, &name);
    assert!(contention.pass_on(&first, Instant::now()));

    let slot = waits.now_or_never().flatten().unwrap();
    let second = take_over(&engine, slot).unwrap();
    assert_eq!((second.grant.id, engine.core.pending.queued()), (first.grant.id, 0));
    assert_eq!(first.remaining(Instant::now()), Err(LostReason::Released));

    // and the end of the first hold does not take the request slot from the second hold
    contention.left(&first);
    assert_eq!(contention.grant(&name), Some(second.grant.id));
    assert!(contention.line(&name, PLAIN, true, || true).now_or_never().is_none());
}

#[tokio::test]
async fn grant_with_another_profile_is_not_handed_off() {
    let (engine, contention, name) = door();
    let hold = hold(&engine, &name).await;
    assert!(!contention.pass_on(&hold, Instant::now()), "no task waits");
    let other = LeaseProfile { ttl: Some(TTL * 2), ..PLAIN };
    let mut waits = Box::pin(contention.line(&name, other, true, || true));
    assert!((&mut waits).now_or_never().is_none());
    assert!(!contention.pass_on(&hold, Instant::now()), "the waiter needs another ttl");
    assert!(hold.remaining(Instant::now()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn grant_that_expires_during_a_hand_off_is_released() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let waits = in_line(&contention, &name);
    assert!(contention.pass_on(&first, Instant::now()));
    advance(TTL).await;
    let slot = waits.now_or_never().flatten().unwrap();
    assert!(take_over(&engine, slot).is_none());
    assert_eq!(engine.core.pending.queued(), 1);
}

/// Former bug: a waiting future that was polled only once blocked all processes for a *ttl*.
#[tokio::test(start_paused = true)]
async fn hand_off_grant_of_an_unpolled_task_goes_to_the_next_task() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let (mut sleeps, mut takes) = (in_line(&contention, &name), in_line(&contention, &name));
    assert!(contention.pass_on(&first, Instant::now()));

    assert!(contention.check_due_names().is_some(), "a check of the name is planned");
    assert!((&mut takes).now_or_never().is_none());
    advance(HANDOFF_LIMIT).await;
    contention.check_due_names();
    let second = take_over(&engine, (&mut takes).now_or_never().flatten().unwrap()).unwrap();

    // the task that slept is the next in line; if this task does not run, the grant is released in
    // the store
    assert!((&mut sleeps).now_or_never().is_none());
    assert!(contention.pass_on(&second, Instant::now()));
    contention.check_due_names();
    advance(HANDOFF_LIMIT).await;
    contention.check_due_names();
    assert_eq!(engine.core.pending.queued(), 1);
    let again = contention.check_due_names();
    assert!(
        again.is_none_or(|at| at > Instant::now() + HANDOFF_LIMIT),
        "no task is woken any more"
    );
    let mut slot = sleeps.now_or_never().flatten().unwrap();
    assert!(slot.handoff.take().is_none());
}

/// Former bug: a waiter that was notified and never ran blocked all waiters behind it.
#[tokio::test(start_paused = true)]
async fn next_waiter_is_woken_instead_of_an_unpolled_waiter() {
    let (_engine, contention, name) = door();
    let slot = contention.line(&name, PLAIN, true, || true).await;
    let _sleeps = in_line(&contention, &name);
    drop(slot);
    while contention.check_due_names().is_some() {
        advance(HANDOFF_LIMIT).await;
    }

    let mut comes = in_line(&contention, &name);
    assert!(contention.check_due_names().is_some(), "a check is planned, because a task waits");
    advance(HANDOFF_LIMIT).await;
    contention.check_due_names();
    assert!((&mut comes).now_or_never().flatten().is_some());
}

/// Former bug: two tasks had the same ticket, and each removed the other from the line.
#[tokio::test(start_paused = true)]
async fn unpolled_waiter_of_a_removed_name_rejoins_the_line() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let mut sleeps = in_line(&contention, &name);
    assert!(contention.pass_on(&first, Instant::now()));
    while contention.check_due_names().is_some() {
        advance(HANDOFF_LIMIT).await;
    }
    advance(2 * IDLE_LIFETIME).await;
    contention.check_due_names();
    assert!(contention.is_idle());

    let slot = contention.line(&name, PLAIN, true, || true).await;
    let mut waits = in_line(&contention, &name);
    assert!((&mut sleeps).now_or_never().is_none());
    assert!((&mut waits).now_or_never().is_none(), "the task still waits");
    assert_eq!(contention.in_line(&name), 2, "each task has its own position in the line");
    drop(slot);
    drop(sleeps);
    assert!(waits.now_or_never().flatten().is_some());
}

/// The store reports the loss while the grant is between two holds. Former bug: no task was
/// notified of this loss.
#[tokio::test]
async fn grant_lost_during_a_hand_off_is_used_by_no_task() {
    let (engine, contention, name) = door();
    let first = hold(&engine, &name).await;
    let waits = in_line(&contention, &name);
    assert!(contention.pass_on(&first, Instant::now()));
    contention.disown(&first);
    let slot = waits.now_or_never().flatten().unwrap();
    assert!(take_over(&engine, slot).is_none());
    assert_eq!(engine.core.pending.queued(), 0, "there is no pending release");

    // and a task that has already taken the grant must not use it
    let first = hold(&engine, &name).await;
    let waits = in_line(&contention, &name);
    assert!(contention.pass_on(&first, Instant::now()));
    let second = take_over(&engine, waits.now_or_never().flatten().unwrap()).unwrap();
    contention.disown(&first);
    assert_eq!(second.remaining(Instant::now()), Err(LostReason::NotOwned));
    let slot = contention.line(&name, PLAIN, true, || true).now_or_never();
    assert!(slot.is_some(), "the request slot is free");
}

#[tokio::test(start_paused = true)]
async fn task_is_notified_of_a_loss_during_its_hand_off() {
    // given a hand-off grant for a sleeping task
    let store = MemoryStore::new();
    let lock = Client::of(Engine::on(&store, "one"))
        .lock("door")
        .unwrap()
        .local_handoff(9, Duration::from_secs(9));
    let first = lock.acquire().await.unwrap();
    let mut waits = Box::pin(lock.acquire());
    assert!((&mut waits).now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(first);

    // when an operator releases the lock by force, and then the sleeping task continues
    let operator = Client::with_store(&store).lock("door").unwrap();
    assert!(operator.force_release().await.unwrap());
    let second = waits.now_or_never().unwrap().unwrap();

    // then the task gets a report of the loss at once
    let lost = tokio::time::timeout(Duration::from_millis(100), second.lost()).await;
    assert_eq!(lost, Ok(LostReason::NotOwned));
}

#[tokio::test(start_paused = true)]
async fn reported_loss_of_an_expired_hold_wakes_the_next_waiter() {
    let (engine, contention, name) = door();
    let hold = hold(&engine, &name).await;
    let waits = in_line(&contention, &name);
    // the holder checks the lease before the watchdog does
    advance(2 * TTL).await;
    assert_eq!(hold.remaining(Instant::now()), Err(LostReason::Expired));
    contention.disown(&hold);
    assert!(waits.now_or_never().is_some());
}

#[tokio::test]
async fn hold_is_lost_when_a_later_reply_names_another_owner() {
    let (engine, contention, name) = door();
    let hold = hold(&engine, &name).await;
    let holder = |owner: &Owner| Holder::new(owner.clone(), 1, None);
    let (now, ours) = (Instant::now(), hold.grant.claim.owner.clone());
    contention.note_holder(&name, Some(&holder(&ours)), now + TTL);
    contention.note_holder(&name, Some(&holder(&Owner::new("java:1").unwrap())), now - TTL);
    assert!(hold.remaining(now).is_ok(), "a reply from before the grant is ignored");
    contention.note_holder(&name, Some(&holder(&Owner::new("java:1").unwrap())), now + TTL);
    assert_eq!(hold.remaining(now), Err(LostReason::NotOwned));
}

#[tokio::test(start_paused = true)]
async fn lock_stays_contended_for_a_while_after_waiters_were_found() {
    let (_engine, contention, door) = door();
    contention.note(&door, RemoteWaiters::Nobody);
    assert!(!contention.is_contended(&door));

    contention.note(&door, RemoteWaiters::Listeners);
    assert!(contention.is_contended(&door) && !contention.is_contended(&Object::lock("window")));
    assert_eq!(contention.line(&door, PLAIN, true, || true).await.unwrap().head_start, None);

    let window = Duration::from_millis(4);
    contention.note(&door, RemoteWaiters::Outsiders(window));
    assert_eq!(
        contention.line(&door, PLAIN, true, || true).await.unwrap().head_start,
        Some(window)
    );
    advance(window).await;
    assert_eq!(contention.line(&door, PLAIN, true, || true).await.unwrap().head_start, None);
    // a client yields for at most a quarter of the time
    contention.note(&door, RemoteWaiters::Outsiders(window));
    assert_eq!(contention.line(&door, PLAIN, true, || true).await.unwrap().head_start, None);
    advance(3 * window).await;
    contention.note(&door, RemoteWaiters::Outsiders(window));
    assert_eq!(
        contention.line(&door, PLAIN, true, || true).await.unwrap().head_start,
        Some(window)
    );
    advance(CONTENDED).await;
    assert!(!contention.is_contended(&door));
}

#[tokio::test(start_paused = true)]
async fn task_that_reacquires_waits_for_requests_of_other_clients() {
    let engine = client();
    let lock = Client::of(Arc::clone(&engine)).lock("door").unwrap();
    let window = Duration::from_millis(4);
    // With `Next`, the first client in the wait queue sends its request after one window. A task
    // that acquires again waits for another window.
    for (others, waits) in
        [(RemoteWaiters::Outsiders(window), window), (RemoteWaiters::Next(window), 2 * window)]
    {
        engine.contention.note(&Object::lock("door"), others);
        let start = Instant::now();
        drop(lock.acquire().await.unwrap());
        assert_eq!(start.elapsed(), waits);
    }
    // A caller with a short timeout pauses for a quarter of its timeout.
    engine.contention.note(&Object::lock("door"), RemoteWaiters::Next(window));
    let start = Instant::now();
    drop(lock.acquire_within(window).await.unwrap());
    assert_eq!(start.elapsed(), window / 4);
}

#[tokio::test(start_paused = true)]
async fn client_waits_two_yield_windows_to_let_the_queue_head_acquire() {
    let (_engine, contention, door) = door();
    let window = Duration::from_millis(4);
    for _ in 0..2 {
        contention.note(&door, RemoteWaiters::Next(window));
        assert_eq!(
            contention.line(&door, PLAIN, true, || true).await.unwrap().head_start,
            Some(2 * window)
        );
        advance(window).await;
    }
}

#[tokio::test(start_paused = true)]
async fn release_that_finds_remote_waiters_marks_the_name_contended() {
    let store = MemoryStore::new();
    let [one, other] = ["one", "other"].map(|client| Engine::on(&store, client));
    let lock = |engine| Client::of(Arc::clone(engine)).lock("door").unwrap();
    let guard = lock(&one).acquire().await.unwrap();
    let door = lock(&other);
    let waits = tokio::spawn(async move { door.acquire_within(Duration::from_secs(9)).await });
    // the hold is shorter than `LONG_HOLD`, after which every release checks the wait queue
    advance(LONG_HOLD / 2).await;
    tokio::task::yield_now().await;
    drop(guard.release().await.unwrap());
    assert!(one.contention.is_contended(&Object::lock("door")));
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_of_the_request_slot_receives_notifications() {
    let (_engine, contention, name) = door();
    let released = || Event::Freed { object: name.clone(), queue_notified: false };
    contention.receive(released());
    assert!(contention.is_idle(), "no task waits for the name");

    let slot = contention.line(&name, PLAIN, true, || true).await.unwrap();
    assert!(slot.inbox.is_none());
    let inbox = slot.listen(PLAIN);
    let limit = Instant::now() + TTL;
    assert!(inbox.until_notified(limit).await, "the task is notified of its subscription");
    assert_eq!(inbox.level(), SubscriptionLevel::Turns);
    assert_eq!(inbox.until_notified(limit).now_or_never(), None);
    contention.receive(released());
    assert_eq!(inbox.until_notified(limit).now_or_never(), Some(true));
    contention.receive(Event::Ask { object: name.clone(), after: Duration::ZERO });
    assert_eq!(inbox.until_notified(limit).now_or_never(), Some(true));
    contention.receive(Event::SubscriptionsLost);
    assert_eq!(inbox.until_notified(limit).now_or_never(), Some(true));
    assert_eq!(inbox.level(), SubscriptionLevel::Nothing);
}

/// A message only makes a task send a request. Only a reply of the store grants or releases.
#[tokio::test]
async fn no_message_grants_or_releases_a_lock() {
    let engine = client();
    let lock = Client::of(Arc::clone(&engine)).lock("door").unwrap();
    let guard = lock.acquire().await.unwrap();
    let name = Object::lock("door");
    for event in [
        Event::Ask { object: name.clone(), after: Duration::ZERO },
        Event::Freed { object: name.clone(), queue_notified: true },
        Event::Freed { object: name.clone(), queue_notified: false },
        Event::Subscribed(name, SubscriptionLevel::Nothing),
    ] {
        engine.contention.receive(event);
        assert!(guard.is_held());
        assert_eq!(engine.core.pending.queued(), 0);
    }
    assert_eq!(lock.held_by(guard.owner()).await.unwrap(), 1);
}
