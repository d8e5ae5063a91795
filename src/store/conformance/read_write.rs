//! The contract of every store for read-write locks: many readers, or one writer.

use std::time::Duration;

use tokio::{join, time::sleep};

use super::{Bench, freed};
use crate::domain::{
    Claim, Kind, Object, Outcome, Place, ReleaseMode, ReleaseReply, RemoteWaiters, Renewal, Share,
    Taken, Verdict,
};

pub(super) async fn all(t: &Bench) {
    many_readers_share_the_lock_and_a_writer_excludes_all(t).await;
    repeated_request_is_granted_again(t).await;
    reader_has_its_own_lease(t).await;
    lock_lasts_as_long_as_its_longest_lease(t).await;
    renewal_renews_only_current_holds(t).await;
    renewal_shortens_the_lease_of_an_only_holder(t).await;
    writer_acquires_a_read_hold_and_keeps_it(t).await;
    writer_may_read_twice_as_separate_holds(t).await;
    read_under_a_write_hold_needs_the_write_hold(t).await;
    join!(
        read_hold_of_a_writer_has_its_own_lease(t),
        read_hold_outlives_the_lease_of_its_writer(t)
    );
    yielding_readers_let_waiting_writers_acquire_first(t).await;
    readers_yield_only_to_earlier_writers(t).await;
    leaving_writer_lets_readers_acquire(t).await;
    release_of_the_last_reader_or_a_writer_notifies_waiters(t).await;
    forced_release_affects_one_side(t).await;
    reader_continues_when_another_reader_is_revoked(t).await;
    writer_continues_when_its_other_hold_is_revoked(t).await;
    writer_has_a_hold_count_and_reader_has_none(t).await;
    many_readers_acquire_and_release(t).await;
}

const YIELDS: Share = Share::ReadAfterWriters { waited: 0 };

fn of(kind: Kind, claim: &Claim) -> Claim {
    let name = claim.object.name.clone();
    let share = if kind == Kind::Write { Share::WHOLE } else { Share::Read };
    Claim { object: Object::new(kind, name), share, ..claim.clone() }
}

fn reader(t: &Bench, name: &str) -> Claim {
    of(Kind::Read, &t.claim(name))
}

fn writer(t: &Bench, name: &str) -> Claim {
    of(Kind::Write, &t.claim(name))
}

async fn is_granted(t: &Bench, claim: &Claim) -> bool {
    t.one.acquire(claim, None).await.unwrap() == Verdict::GRANTED
}

async fn release(t: &Bench, claim: &Claim) -> ReleaseReply {
    t.one.release(claim, ReleaseMode::HandOver).await.unwrap()
}

const FREED: ReleaseReply = ReleaseReply::Freed(RemoteWaiters::Nobody);

async fn many_readers_share_the_lock_and_a_writer_excludes_all(t: &Bench) {
    let [one, other] = [(); 2].map(|()| reader(t, "rw"));
    let [first, second] = [(); 2].map(|()| writer(t, "rw"));
    assert!(is_granted(t, &one).await && is_granted(t, &other).await);
    let Verdict::Busy(Taken { holder: Some(holder), at_most: Some(_), .. }) =
        t.other.acquire(&first, None).await.unwrap()
    else {
        panic!("the writer must be refused while there is a reader")
    };
    assert!(holder.owner == one.owner || holder.owner == other.owner, "{holder}");
    assert_eq!(release(t, &one).await, FREED);
    assert!(!is_granted(t, &first).await);
    assert_eq!(release(t, &other).await, FREED);
    assert!(is_granted(t, &first).await);
    let Verdict::Busy(Taken { holder, .. }) = t.other.acquire(&one, None).await.unwrap() else {
        panic!("the reader must be refused while there is a writer")
    };
    assert_eq!(holder.map(|holder| holder.owner), Some(first.owner.clone()));
    assert!(!is_granted(t, &second).await);
    assert_eq!(release(t, &first).await, FREED);
    assert!(is_granted(t, &second).await);
    assert!(matches!(release(t, &first).await, ReleaseReply::NotHeld { holder: Some(_) }));
    assert!(matches!(release(t, &one).await, ReleaseReply::NotHeld { holder: Some(_) }));
    assert_eq!(release(t, &second).await, FREED);
    assert_eq!(release(t, &second).await, ReleaseReply::NotHeld { holder: None });
}

async fn repeated_request_is_granted_again(t: &Bench) {
    for claim in [reader(t, "rw-again"), writer(t, "rw-again")] {
        assert!(is_granted(t, &claim).await && is_granted(t, &claim).await);
        assert_eq!(t.one.held_by(&claim.object, &claim.owner).await.unwrap(), 1);
        assert_eq!(release(t, &claim).await, FREED);
        assert_eq!(t.one.holder(&claim.object).await.unwrap(), None);
    }
}

async fn reader_has_its_own_lease(t: &Bench) {
    let short = Claim { ttl: Duration::from_millis(60), ..reader(t, "rw-lease") };
    let [long, next] = [reader(t, "rw-lease"), writer(t, "rw-lease")];
    assert!(is_granted(t, &long).await && is_granted(t, &short).await);
    sleep(Duration::from_millis(80)).await;
    let renewal = renewal(&short);
    assert_eq!(t.one.renew(&[renewal]).await.unwrap(), [Outcome::NotOwned]);
    // After the release of the last living reader, the dead reader does not block the writer.
    assert_eq!(release(t, &long).await, FREED);
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

async fn lock_lasts_as_long_as_its_longest_lease(t: &Bench) {
    let short = Claim { ttl: Duration::from_millis(60), ..reader(t, "rw-longest") };
    let [long, next] = [reader(t, "rw-longest"), writer(t, "rw-longest")];
    assert!(is_granted(t, &long).await && is_granted(t, &short).await);
    t.one.renew(&[renewal(&short)]).await.unwrap();
    sleep(Duration::from_millis(80)).await;
    assert!(!is_granted(t, &next).await, "a reader still has the lock");
    let left = t.one.holder(&long.object).await.unwrap().unwrap().remaining().unwrap();
    assert!(left > Duration::from_secs(5), "{left:?}");
    // the lock does not last longer than the leases of the remaining readers
    let short = Claim { ttl: Duration::from_millis(60), ..reader(t, "rw-longest") };
    assert!(is_granted(t, &short).await);
    assert_eq!(release(t, &long).await, FREED);
    sleep(Duration::from_millis(80)).await;
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

fn renewal(claim: &Claim) -> Renewal {
    let Claim { object, owner, share, ttl, .. } = claim.clone();
    Renewal { object, owner, share, ttl: Some(ttl) }
}

async fn renewal_renews_only_current_holds(t: &Bench) {
    let claims = [reader(t, "rw-renew"), reader(t, "rw-renew-2"), reader(t, "rw-renew")];
    for claim in &claims[..2] {
        assert!(is_granted(t, claim).await);
    }
    let outcomes = t.one.renew(&claims.each_ref().map(renewal)).await.unwrap();
    assert_eq!(outcomes, [Outcome::Renewed, Outcome::Renewed, Outcome::NotOwned]);
    for claim in &claims {
        release(t, claim).await;
    }
    let claims = [writer(t, "rw-renew"), writer(t, "rw-renew-2"), writer(t, "rw-renew")];
    for claim in &claims[..2] {
        assert!(is_granted(t, claim).await);
    }
    let outcomes = t.one.renew(&claims.each_ref().map(renewal)).await.unwrap();
    assert_eq!(outcomes, [Outcome::Renewed, Outcome::Renewed, Outcome::NotOwned]);
    for claim in &claims {
        release(t, claim).await;
    }
}

async fn renewal_shortens_the_lease_of_an_only_holder(t: &Bench) {
    const SHORT: Duration = Duration::from_millis(60);
    let short = |claim: &Claim| Renewal { ttl: Some(SHORT), ..renewal(claim) };
    for (held, name) in [(reader(t, "rw-cut"), "rw-cut"), (writer(t, "rw-cut-w"), "rw-cut-w")] {
        assert!(is_granted(t, &held).await);
        assert_eq!(t.one.renew(&[short(&held)]).await.unwrap(), [Outcome::Renewed]);
        sleep(SHORT + Duration::from_millis(20)).await;
        let next = writer(t, name);
        assert!(is_granted(t, &next).await);
        release(t, &next).await;
    }
    // If one reader shortens its lease, the lease of another reader stays.
    let [one, other, next] = [reader(t, "rw-cut"), reader(t, "rw-cut"), writer(t, "rw-cut")];
    assert!(is_granted(t, &one).await && is_granted(t, &other).await);
    assert_eq!(t.one.renew(&[short(&one)]).await.unwrap(), [Outcome::Renewed]);
    sleep(SHORT + Duration::from_millis(20)).await;
    assert!(!is_granted(t, &next).await);
    release(t, &other).await;
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

async fn writer_acquires_a_read_hold_and_keeps_it(t: &Bench) {
    let writes = writer(t, "rw-down");
    let (reads, other, next) = (reader(t, "rw-down"), reader(t, "rw-down"), writer(t, "rw-down"));
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert!(!is_granted(t, &other).await, "the writer still has the lock");
    for claim in [&writes, &reads] {
        let holder = t.other.holder(&claim.object).await.unwrap().unwrap();
        assert_eq!(holder.owner, claim.owner);
    }
    let Verdict::Busy(Taken { holder, .. }) = t.other.acquire(&next, None).await.unwrap() else {
        panic!("the next writer must be refused while there is a writer")
    };
    assert_eq!(
        holder.map(|holder| holder.owner),
        Some(writes.owner.clone()),
        "the reported holder is the writer"
    );
    assert_eq!(release(t, &writes).await, FREED);
    assert!(!is_granted(t, &next).await, "the former writer still has its read hold");
    assert!(is_granted(t, &other).await);
    assert_eq!(release(t, &reads).await, FREED);
    assert_eq!(release(t, &other).await, FREED);

    // now the writer releases its read hold before its write hold
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert_eq!(release(t, &reads).await, FREED);
    assert_eq!(t.one.holder(&reads.object).await.unwrap(), None);
    assert!(!is_granted(t, &other).await);
    assert_eq!(release(t, &writes).await, FREED);
    assert_eq!(t.one.holder(&writes.object).await.unwrap(), None);
}

async fn reads_under_write(t: &Bench, reader: &Claim, writer: &Claim) -> bool {
    t.one.acquire_read_under_write(reader, &writer.owner).await.unwrap() == Verdict::GRANTED
}

async fn writer_may_read_twice_as_separate_holds(t: &Bench) {
    let (writes, next) = (writer(t, "rw-twice"), writer(t, "rw-twice"));
    let [one, other] = [(); 2].map(|()| reader(t, "rw-twice"));
    assert!(is_granted(t, &writes).await);
    assert!(
        reads_under_write(t, &one, &writes).await && reads_under_write(t, &other, &writes).await
    );
    assert_eq!(release(t, &one).await, FREED);
    assert_eq!(release(t, &writes).await, FREED);
    assert_eq!(t.one.renew(&[renewal(&other)]).await.unwrap(), [Outcome::Renewed]);
    assert!(!is_granted(t, &next).await, "a reader still has the lock");
    assert_eq!(release(t, &other).await, FREED);
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

async fn read_under_a_write_hold_needs_the_write_hold(t: &Bench) {
    let (writes, other) = (writer(t, "rw-no-writer"), writer(t, "rw-no-writer"));
    let [reads, late] = [(); 2].map(|()| reader(t, "rw-no-writer"));
    let rejected = t.one.acquire_read_under_write(&reads, &writes.owner).await.unwrap();
    assert_eq!(rejected, Verdict::Busy(Taken::UNKNOWN));
    assert!(is_granted(t, &other).await);
    assert!(!reads_under_write(t, &reads, &writes).await);
    release(t, &other).await;
    let stranger = reader(t, "rw-no-writer");
    assert!(is_granted(t, &stranger).await);
    assert!(
        !reads_under_write(t, &reads, &writes).await,
        "another writer may have had the lock before the reader"
    );
    release(t, &stranger).await;
    // After the writer has released, a repeated request of the reader keeps the read hold, and a
    // new request is rejected.
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    release(t, &writes).await;
    assert!(reads_under_write(t, &reads, &writes).await);
    assert!(!reads_under_write(t, &late, &writes).await);
    release(t, &reads).await;
}

/// The write lease of a dead writer is shorter than the lease of its read hold, which stays.
async fn read_hold_outlives_the_lease_of_its_writer(t: &Bench) {
    let writes = Claim { ttl: Duration::from_secs(3), ..writer(t, "rw-dies") };
    let (reads, next) = (reader(t, "rw-dies"), writer(t, "rw-dies"));
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert_eq!(t.one.renew(&[renewal(&writes)]).await.unwrap(), [Outcome::Renewed]);
    assert_eq!(t.one.recount(&writes, 1, Some(writes.ttl)).await.unwrap(), Outcome::Renewed);
    sleep(Duration::from_millis(3_050)).await;
    assert!(!is_granted(t, &next).await, "a reader still has the lock");
    t.one.force_release(&reads.object).await.unwrap();
}

async fn read_hold_of_a_writer_has_its_own_lease(t: &Bench) {
    // The writer has a shorter lease than its read hold. Renewals of the write hold do not shorten
    // the read hold.
    let writes = Claim { ttl: Duration::from_secs(3), ..writer(t, "rw-own-lease") };
    let (reads, next) = (reader(t, "rw-own-lease"), writer(t, "rw-own-lease"));
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert_eq!(t.one.renew(&[renewal(&writes)]).await.unwrap(), [Outcome::Renewed]);
    assert_eq!(t.one.recount(&writes, 1, Some(writes.ttl)).await.unwrap(), Outcome::Renewed);
    assert_eq!(release(t, &writes).await, FREED);
    sleep(Duration::from_millis(3_050)).await;
    assert!(!is_granted(t, &next).await, "a reader still has the lock");
    assert_eq!(release(t, &reads).await, FREED);

    // The writer has a longer lease than its read hold. After the writer has released, and the read
    // hold has expired, nothing blocks the next client.
    let writes = writer(t, "rw-own-lease");
    let reads = Claim { ttl: Duration::from_millis(60), ..reader(t, "rw-own-lease") };
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert_eq!(release(t, &writes).await, FREED);
    sleep(Duration::from_millis(80)).await;
    assert!(is_granted(t, &next).await);
    assert_eq!(release(t, &next).await, FREED);

    // If the read hold expires before the writer releases, nothing blocks the next client either.
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    sleep(Duration::from_millis(80)).await;
    assert_eq!(release(t, &writes).await, FREED);
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

async fn readers_yield_only_to_earlier_writers(t: &Bench) {
    let after = |waited| Share::ReadAfterWriters { waited };
    let [here, late] = [(); 2].map(|()| reader(t, "rw-order"));
    let writes = writer(t, "rw-order");
    assert!(is_granted(t, &here).await);
    t.queue_by(&writes, Place::Kept).await;
    sleep(Duration::from_millis(20)).await;
    // A repeated request of the writer keeps its position in the order.
    t.queue_by(&writes, Place::Kept).await;
    let came_later = Claim { share: after(2), ..late.clone() };
    let Verdict::Busy(Taken { holder: Some(first), at_most: Some(left), .. }) =
        t.one.acquire(&came_later, None).await.unwrap()
    else {
        panic!("the reader must wait for the earlier writer")
    };
    assert_eq!((first.owner, first.count), (writes.owner.clone(), 0));
    assert!(left > Duration::from_secs(3) && left <= Duration::from_secs(5), "{left:?}");
    let came_before = Claim { share: after(60_000), ..late };
    assert!(is_granted(t, &came_before).await);
    release(t, &came_before).await;
    release(t, &here).await;
    release(t, &writes).await;
}

async fn yielding_readers_let_waiting_writers_acquire_first(t: &Bench) {
    let [here, late, rude] = [(); 3].map(|()| reader(t, "rw-yield"));
    let (here, late) = (Claim { share: YIELDS, ..here }, Claim { share: YIELDS, ..late });
    let writes = writer(t, "rw-yield");
    assert!(is_granted(t, &here).await);
    t.queue_by(&writes, Place::Kept).await;
    let verdict = t.one.acquire(&late, None).await.unwrap();
    assert!(matches!(verdict, Verdict::Busy(Taken { holder: Some(_), .. })), "{verdict:?}");
    assert!(is_granted(t, &here).await, "a repeated request of a holder is granted");
    assert!(is_granted(t, &rude).await);
    release(t, &rude).await;
    release(t, &here).await;
    // after the writer has acquired and released, readers acquire again
    assert_eq!(t.one.acquire(&writes, Some(Place::Kept)).await.unwrap(), Verdict::GRANTED);
    release(t, &writes).await;
    assert!(is_granted(t, &late).await);
    release(t, &late).await;
}

async fn leaving_writer_lets_readers_acquire(t: &Bench) {
    let [here, late] = [(); 2].map(|()| Claim { share: YIELDS, ..reader(t, "rw-gives-up") });
    let writes = writer(t, "rw-gives-up");
    t.other.listen(&late.object);
    t.received(
        &super::Event::Subscribed(late.object.clone(), super::SubscriptionLevel::Releases),
        1,
    )
    .await;
    assert!(is_granted(t, &here).await);
    t.queue_by(&writes, Place::Kept).await;
    assert!(!is_granted(t, &late).await);
    assert!(matches!(release(t, &writes).await, ReleaseReply::NotHeld { holder: Some(_) }));
    t.received(&freed(&late), 1).await;
    assert!(is_granted(t, &late).await);
    release(t, &here).await;
    release(t, &late).await;
    t.other.unlisten(&late.object);
}

async fn release_of_the_last_reader_or_a_writer_notifies_waiters(t: &Bench) {
    let [one, other] = [(); 2].map(|()| reader(t, "rw-notified"));
    let writes = writer(t, "rw-notified");
    t.other.listen(&writes.object);
    t.received(
        &super::Event::Subscribed(writes.object.clone(), super::SubscriptionLevel::Releases),
        1,
    )
    .await;
    assert!(is_granted(t, &one).await && is_granted(t, &other).await);
    release(t, &one).await;
    release(t, &other).await;
    t.received(&freed(&writes), 1).await;
    assert!(is_granted(t, &writes).await);
    release(t, &writes).await;
    t.received(&freed(&writes), 2).await;
    t.other.unlisten(&writes.object);
}

async fn forced_release_affects_one_side(t: &Bench) {
    let (reads, writes) = (reader(t, "rw-force"), writer(t, "rw-force"));
    assert!(is_granted(t, &reads).await);
    assert!(!t.other.force_release(&writes.object).await.unwrap());
    assert_eq!(t.one.holder(&writes.object).await.unwrap(), None);
    let holder = t.one.holder(&reads.object).await.unwrap().unwrap();
    assert_eq!(holder.owner, reads.owner);
    assert!(t.other.force_release(&reads.object).await.unwrap());
    assert!(is_granted(t, &writes).await);
    assert!(!t.other.force_release(&reads.object).await.unwrap());
    let holder = t.one.holder(&writes.object).await.unwrap().unwrap();
    assert_eq!(holder.owner, writes.owner);
    assert!(t.other.force_release(&writes.object).await.unwrap());
    assert_eq!(t.one.holder(&writes.object).await.unwrap(), None);
}

/// Former bug: a forced release of the writer also removed the read hold. The reader still relied
/// on the read hold while another client wrote.
async fn reader_continues_when_another_reader_is_revoked(t: &Bench) {
    let [writes, next] = [(); 2].map(|()| writer(t, "rw-force-writer"));
    let [reads, other] = [(); 2].map(|()| reader(t, "rw-force-writer"));
    t.other.listen(&next.object);
    t.received(
        &super::Event::Subscribed(next.object.clone(), super::SubscriptionLevel::Releases),
        1,
    )
    .await;
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    assert!(t.one.force_release(&writes.object).await.unwrap());
    t.received(&freed(&next), 1).await;
    t.other.unlisten(&next.object);
    assert!(!t.one.force_release(&writes.object).await.unwrap());
    assert_eq!(t.one.renew(&[renewal(&writes)]).await.unwrap(), [Outcome::NotOwned]);
    assert_eq!(t.one.renew(&[renewal(&reads)]).await.unwrap(), [Outcome::Renewed]);
    assert!(!is_granted(t, &next).await && is_granted(t, &other).await);
    assert_eq!(release(t, &other).await, FREED);
    assert_eq!(release(t, &reads).await, FREED);
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

/// Former bug: the store named the read hold as the holder, but could not release it by force.
async fn writer_continues_when_its_other_hold_is_revoked(t: &Bench) {
    let [writes, next] = [(); 2].map(|()| writer(t, "rw-force-reader"));
    let reads = reader(t, "rw-force-reader");
    assert!(is_granted(t, &writes).await && reads_under_write(t, &reads, &writes).await);
    let holder = t.other.holder(&reads.object).await.unwrap().unwrap();
    assert_eq!(holder.owner, reads.owner);
    assert!(t.other.force_release(&reads.object).await.unwrap());
    assert_eq!(t.other.holder(&reads.object).await.unwrap(), None);
    assert!(!t.other.force_release(&reads.object).await.unwrap());
    assert_eq!(t.one.renew(&[renewal(&reads)]).await.unwrap(), [Outcome::NotOwned]);
    assert_eq!(t.one.renew(&[renewal(&writes)]).await.unwrap(), [Outcome::Renewed]);
    assert!(!is_granted(t, &next).await, "the writer still has the lock");
    assert_eq!(release(t, &writes).await, FREED);
    assert!(is_granted(t, &next).await);
    release(t, &next).await;
}

async fn writer_has_a_hold_count_and_reader_has_none(t: &Bench) {
    let (reads, writes) = (reader(t, "rw-count"), writer(t, "rw-count"));
    assert!(is_granted(t, &writes).await);
    assert_eq!(t.one.recount(&writes, 3, None).await.unwrap(), Outcome::Renewed);
    assert_eq!(t.one.held_by(&writes.object, &writes.owner).await.unwrap(), 3);
    let other = writer(t, "rw-count");
    assert_eq!(t.one.recount(&other, 2, None).await.unwrap(), Outcome::NotOwned);
    assert_eq!(t.one.held_by(&writes.object, &writes.owner).await.unwrap(), 3);
    release(t, &writes).await;
    assert!(is_granted(t, &reads).await);
    assert_eq!(t.one.recount(&reads, 3, None).await.unwrap(), Outcome::Renewed);
    assert_eq!(t.one.held_by(&reads.object, &reads.owner).await.unwrap(), 1);
    release(t, &reads).await;
}

async fn many_readers_acquire_and_release(t: &Bench) {
    let readers: Vec<Claim> = (0..40).map(|_| reader(t, "rw-many")).collect();
    let writes = writer(t, "rw-many");
    for reader in &readers {
        assert!(is_granted(t, reader).await);
    }
    for reader in &readers {
        assert!(!is_granted(t, &writes).await);
        assert_eq!(release(t, reader).await, FREED);
    }
    assert!(is_granted(t, &writes).await);
    release(t, &writes).await;
}
