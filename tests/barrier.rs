//! The barrier and the double barrier, on the store in memory and in virtual time.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{FutureExt, future::join_all};
use leasehold::{
    Arrived, Barrier, Client, DoubleBarrier, DoubleBarrierGuard, Error, LostReason, MemoryStore,
    Release, Result,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Too short for a poll or a timer. A member that continues within this time was notified.
const AT_ONCE: Duration = millis(10);

/// Two handles of one barrier, from two clients of one store.
fn two(parties: u32) -> (MemoryStore, [Barrier; 2]) {
    let store = MemoryStore::new();
    let barrier = |()| Client::with_store(&store).barrier("phase", parties).unwrap();
    let barriers = [(); 2].map(barrier);
    (store, barriers)
}

/// Starts a member, and returns when the member has sent its request and waits.
async fn waiting(barrier: &Barrier) -> JoinHandle<Result<Arrived>> {
    let barrier = barrier.clone();
    let member = tokio::spawn(async move { barrier.arrive_and_wait().await });
    sleep(millis(1)).await;
    assert!(!member.is_finished());
    member
}

async fn passes(member: JoinHandle<Result<Arrived>>) -> Arrived {
    timeout(AT_ONCE, member).await.expect("the member passes at once").unwrap().unwrap()
}

/// Lets one more member arrive for 5 ms. Returns the number of arrived members, including this
/// member, as its timeout error reports it.
async fn present(barrier: &Barrier) -> u32 {
    match barrier.arrive_and_wait_within(millis(5)).await {
        Err(Error::MembersMissing { arrived, .. }) => arrived,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn barrier_opens_when_all_members_have_arrived() {
    let (_, [one, other]) = two(3);
    let members = [waiting(&one).await, waiting(&other).await];
    sleep(secs(300)).await;
    let last = one.arrive_and_wait().await.unwrap();
    assert_eq!((last.generation, last.index), (1, 2));
    let mut indexes = BTreeSet::new();
    for member in members {
        let arrived = passes(member).await;
        assert_eq!(arrived.generation, 1);
        indexes.insert(arrived.index);
    }
    assert_eq!(indexes, BTreeSet::from([0, 1]));
    assert!(matches!(Client::in_memory().barrier("phase", 0), Err(Error::ZeroCount { .. })));
}

#[tokio::test(start_paused = true)]
async fn barrier_can_be_used_again_at_once() {
    const ROUNDS: u64 = 50;
    let (_, [one, other]) = two(3);
    let member = |barrier: Barrier| async move {
        let mut indexes = vec![];
        for generation in 1..=ROUNDS {
            let arrived = barrier.arrive_and_wait().await.unwrap();
            assert_eq!(arrived.generation, generation);
            indexes.push(arrived.index);
        }
        indexes
    };
    let members = [one.clone(), one, other].map(|barrier| tokio::spawn(member(barrier)));
    let all: Vec<Vec<u32>> = join_all(members).await.into_iter().map(Result::unwrap).collect();
    for round in 0..ROUNDS as usize {
        let indexes: BTreeSet<u32> = all.iter().map(|indexes| indexes[round]).collect();
        assert_eq!(indexes, BTreeSet::from([0, 1, 2]));
    }
}

#[tokio::test(start_paused = true)]
async fn timed_out_member_names_the_present_members_and_leaves() {
    let (_, [one, other]) = two(3);
    let waiter = waiting(&one).await;
    let start = Instant::now();
    let error = other.arrive_and_wait_within(secs(20)).await.unwrap_err();
    assert_eq!(start.elapsed(), secs(20));
    let text = error.to_string();
    assert!(text.starts_with(
        "timed out after 20s waiting at the barrier `phase`: only 2 of 3 members arrived: "
    ));
    let Error::MembersMissing { arrived: 2, parties: 3, members, .. } = &error else { panic!() };
    assert!(members.len() == 2 && error.is_busy() && !error.is_transient());

    assert_eq!(present(&other).await, 2);
    let next = waiting(&other).await;
    other.arrive_and_wait().await.unwrap();
    passes(next).await;
    passes(waiter).await;
    assert!(matches!(one.arrive_and_wait_within(Duration::ZERO).await, Err(Error::Duration(_))));
}

#[tokio::test(start_paused = true)]
async fn dropped_member_leaves_at_once() {
    let (_, [one, other]) = two(2);
    for _ in 0..30 {
        let barrier = one.clone();
        let member = tokio::spawn(async move { barrier.arrive_and_wait().await });
        for _ in 0..fastrand::u32(0..10) {
            tokio::task::yield_now().await;
        }
        member.abort();
        drop(member.await.map(drop));
        sleep(millis(1)).await;
        assert_eq!(present(&other).await, 1);
    }
}

/// Former bug: the store still counted a timed-out member after its call had returned. With the
/// next arrival, the barrier then opened early.
#[tokio::test(start_paused = true)]
async fn timed_out_member_no_longer_counts_at_the_next_arrival() {
    let (store, [one, other]) = two(2);
    for _ in 0..10 {
        assert_eq!(present(&one).await, 1);
        assert_eq!(present(&other).await, 1);
    }
    let (_, [first, second]) = two_double(2);
    for barrier in [&first, &second, &first] {
        let missing = barrier.enter_within(millis(5)).await.unwrap_err();
        assert!(matches!(missing, Error::MembersMissing { arrived: 1, .. }), "{missing}");
    }

    // When the timeout of 2 s ends, the client sends a request to remove the member. If the store
    // does not reply, the client returns the error 100 ms later. The client removes the member when
    // the store replies again.
    let start = Instant::now();
    let late = tokio::spawn(async move { one.arrive_and_wait_within(secs(2)).await });
    sleep(secs(1)).await;
    store.stall();
    let missing = late.await.unwrap().unwrap_err();
    assert!(matches!(missing, Error::MembersMissing { .. }), "{missing}");
    assert_eq!(start.elapsed(), millis(2_100));
    store.resume();
    sleep(secs(1)).await;
    assert_eq!(present(&other).await, 1);
}

/// A future that is neither polled nor dropped is like a process that has died.
#[tokio::test(start_paused = true)]
async fn dead_member_leaves_within_ten_seconds() {
    let (_, [one, other]) = two(4);
    let alive = waiting(&other).await;
    let mut dead = Box::pin(one.arrive_and_wait());
    for _ in 0..20 {
        assert!((&mut dead).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(present(&other).await, 3);
    sleep(secs(11)).await;
    assert_eq!(present(&other).await, 2);
    sleep(millis(1)).await;

    // The arrival of `dead` has expired. When `dead` is polled again, it arrives again.
    let rest = [waiting(&other).await, waiting(&one).await];
    timeout(secs(5), dead).await.unwrap().unwrap();
    passes(alive).await;
    join_all(rest.map(passes)).await;
}

#[tokio::test(start_paused = true)]
async fn unpolled_member_gets_an_error_a_minute_after_the_opening() {
    let (_, [one, other]) = two(2);
    let mut asleep = Box::pin(one.arrive_and_wait());
    for _ in 0..20 {
        assert!((&mut asleep).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    // The barrier opens for both members. After a minute, the store forgets this opening.
    other.arrive_and_wait().await.unwrap();
    sleep(secs(61)).await;
    let error = timeout(secs(5), asleep).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    sleep(secs(5)).await;
    assert_eq!(present(&other).await, 1);
}

#[tokio::test(start_paused = true)]
async fn barrier_member_survives_only_a_short_outage_of_the_store() {
    let (store, [one, other]) = two(2);
    let member = waiting(&one).await;
    store.stall();
    sleep(secs(20)).await;
    store.resume();
    sleep(secs(4)).await;
    assert!(!member.is_finished());
    other.arrive_and_wait().await.unwrap();
    passes(member).await;

    let member = waiting(&one).await;
    store.stall();
    let error = timeout(secs(60), member).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let start = Instant::now();
    let silent = one.arrive_and_wait_within(secs(2)).await.unwrap_err();
    assert!(matches!(silent, Error::Unavailable { .. }), "{silent}");
    // After its timeout of 2 s, the call waited 100 ms for a reply to the removal of the member.
    assert_eq!(start.elapsed(), Duration::from_millis(2_100));
}

#[tokio::test(start_paused = true)]
async fn shutdown_makes_members_leave() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let barrier = client.barrier("phase", 2).unwrap();
    let member = waiting(&barrier).await;
    assert_eq!(client.shutdown(secs(2)).await.pending, 0);
    let ended = timeout(AT_ONCE, member).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::ShutDown)), "{ended:?}");
    let other = Client::with_store(&store).barrier("phase", 2).unwrap();
    assert_eq!(present(&other).await, 1);
}

// The double barrier.

/// Two handles of one double barrier, from two clients of one store.
fn two_double(parties: u32) -> (MemoryStore, [DoubleBarrier; 2]) {
    let store = MemoryStore::new();
    let barrier = |()| Client::with_store(&store).double_barrier("phase", parties).unwrap();
    let barriers = [(); 2].map(barrier);
    (store, barriers)
}

fn entering(barrier: &DoubleBarrier) -> JoinHandle<Result<DoubleBarrierGuard>> {
    let barrier = barrier.clone();
    tokio::spawn(async move { barrier.enter().await })
}

async fn enters(member: JoinHandle<Result<DoubleBarrierGuard>>) -> DoubleBarrierGuard {
    timeout(AT_ONCE, member).await.expect("the member enters at once").unwrap().unwrap()
}

/// Lets one member enter through each handle, and returns both guards.
async fn inside(barriers: &[DoubleBarrier; 2]) -> [DoubleBarrierGuard; 2] {
    let [one, other] = barriers.each_ref().map(entering);
    [enters(one).await, enters(other).await]
}

/// Lets a member leave in a task of its own. Returns when the member has left and waits for the
/// other members to leave.
async fn leaving(guard: DoubleBarrierGuard) -> JoinHandle<Result<Release>> {
    let member = tokio::spawn(guard.leave());
    sleep(millis(1)).await;
    assert!(!member.is_finished());
    member
}

async fn leaves(member: JoinHandle<Result<Release>>) -> Release {
    timeout(AT_ONCE, member).await.expect("the member leaves at once").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn members_enter_together_and_leave_together() {
    let (_, barriers) = two_double(2);
    for generation in 1..=3 {
        let first = entering(&barriers[0]);
        sleep(secs(30)).await;
        assert!(!first.is_finished());
        let second = barriers[1].enter().await.unwrap();
        let first = enters(first).await;
        let arrived = [&first, &second].map(|it| (it.arrived().index, it.arrived().generation));
        assert_eq!(arrived, [(0, generation), (1, generation)]);

        // 100 s are longer than a lease.
        sleep(secs(100)).await;
        assert!(first.is_inside() && second.is_inside());
        let first = leaving(first).await;
        sleep(secs(100)).await;
        assert!(!first.is_finished());
        assert_eq!(second.leave().await.unwrap(), Release::Released);
        assert_eq!(leaves(first).await, Release::Released);
    }
    let zero = Client::in_memory().double_barrier("phase", 0);
    assert!(matches!(zero, Err(Error::ZeroCount { .. })));
}

#[tokio::test(start_paused = true)]
async fn next_generation_enters_when_all_have_left() {
    let (_, barriers) = two_double(2);
    let [one, other] = inside(&barriers).await;
    let next = [entering(&barriers[0]), entering(&barriers[1]), entering(&barriers[1])];
    let one = leaving(one).await;
    sleep(secs(60)).await;
    assert!(next.iter().all(|member| !member.is_finished()));
    drop(other);
    assert_eq!(leaves(one).await, Release::Released);
    sleep(AT_ONCE).await;
    let entered: Vec<_> = next.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(entered.iter().filter(|it| **it).count(), 2, "{entered:?}");
    next.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn timed_out_leave_names_the_members_that_are_inside() {
    let (_, barriers) = two_double(2);
    let error = barriers[0].enter_within(secs(3)).await.unwrap_err();
    assert!(matches!(error, Error::MembersMissing { arrived: 1, parties: 2, .. }), "{error}");

    let [one, other] = inside(&barriers).await;
    let start = Instant::now();
    let error = one.leave_within(secs(20)).await.unwrap_err();
    assert_eq!(start.elapsed(), secs(20));
    let text = error.to_string();
    assert!(
        text.starts_with(
            "timed out after 20s waiting to leave the barrier `phase`: 1 still inside: "
        ),
        "{text}"
    );
    assert!(error.is_busy() && !error.is_transient());
    // `one` has left, although its call timed out. So `other` need not wait.
    assert_eq!(other.leave().await.unwrap(), Release::Released);
    let [one, _other] = inside(&barriers).await;
    assert!(matches!(one.leave_within(Duration::ZERO).await, Err(Error::Duration(_))));
}

#[tokio::test(start_paused = true)]
async fn dropped_member_of_a_double_barrier_leaves_at_once() {
    let (_, barriers) = two_double(2);
    for _ in 0..30 {
        let members = barriers.each_ref().map(entering);
        for _ in 0..fastrand::u32(0..10) {
            tokio::task::yield_now().await;
        }
        members.iter().for_each(JoinHandle::abort);
        drop(join_all(members).await);
        sleep(millis(1)).await;
        let missing = barriers[0].enter_within(millis(5)).await.unwrap_err();
        assert!(matches!(missing, Error::MembersMissing { arrived: 1, .. }), "{missing}");
    }
    // If a member is dropped while it waits for the other members to leave, it does not stay
    // inside.
    let [one, other] = inside(&barriers).await;
    let one = leaving(one).await;
    one.abort();
    drop(one.await);
    assert_eq!(timeout(AT_ONCE, other.leave()).await.unwrap().unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn member_inside_a_double_barrier_is_notified_of_its_loss() {
    let (store, barriers) = two_double(2);
    let [one, other] = inside(&barriers).await;
    let lost = one.lost();
    store.lose_everything();
    assert_eq!(timeout(secs(11), lost).await, Ok(LostReason::NotOwned));
    assert!(!one.is_inside());
    for guard in [one, other] {
        let left = timeout(AT_ONCE, guard.leave()).await.unwrap().unwrap();
        assert!(matches!(left, Release::NotHeld { .. }), "{left:?}");
    }
    let [one, other] = inside(&barriers).await;
    let other = leaving(other).await;
    store.stall();
    assert_eq!(timeout(secs(31), one.lost()).await, Ok(LostReason::Expired));
    store.resume();
    // If the store executed a late renewal after `resume`, the member would stay inside for another
    // lease.
    drop(one);
    let left = timeout(secs(10), other).await.unwrap().unwrap().unwrap();
    assert_eq!(left, Release::Released);
}

/// The member `asleep` waits, and its task runs again only long after the barrier has opened.
#[tokio::test(start_paused = true)]
async fn unpolled_member_is_lost_when_its_lease_ends() {
    let (_, [one, other]) = two_double(2);
    let mut asleep = Box::pin(one.enter());
    for _ in 0..20 {
        assert!((&mut asleep).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let awake = other.enter().await.unwrap();
    let awake = leaving(awake).await;
    // 36 s are the lease of `asleep`, and the time until `awake` sends its next request.
    sleep(secs(36)).await;
    assert_eq!(leaves(awake).await, Release::Released);
    let error = timeout(secs(5), asleep).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::Expired, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_makes_members_of_a_double_barrier_leave() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let barrier = client.double_barrier("phase", 2).unwrap();
    let other = Client::with_store(&store).double_barrier("phase", 2).unwrap();
    let [one, other] = inside(&[barrier, other]).await;
    let other = leaving(other).await;
    client.shutdown(secs(2)).await;
    assert_eq!(timeout(AT_ONCE, one.lost()).await, Ok(LostReason::ShutDown));
    assert_eq!(leaves(other).await, Release::Released);
}
