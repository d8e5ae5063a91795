//! Exclusion while primaries of a cluster are killed. Clients contend for names in all slots, and a
//! referee in this process records their holds.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::common::{cluster::owner, ms, secs, within};
use futures_util::future::join_all;
use leasehold::{Client, Lock, LockGuard, LostReason, Release, Replicas};
use testkit::{Cluster, Redis, eventually};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

/// Within this time, every client acquires again, even on a busy machine. The time is long because
/// a new primary may not have received a release. The new primary then keeps the lock until the
/// lease ends.
const BOUND: Duration = Duration::from_secs(60);

/// A promoted replica has each lease as of the last renewal that it received. So a lease must
/// outlast the failover.
const TTL: Duration = Duration::from_secs(24);

const CLIENTS: usize = 3;
const NAMES: usize = 9;

/// A hold, and the time at which a second holder began to overlap with this hold.
struct Inside {
    guard: Arc<LockGuard>,
    granted: Instant,
    overlapped: Option<Instant>,
}

/// A time in which two holders had the same lock.
#[derive(Debug)]
struct Overlap {
    name: String,
    granted: Instant,
    lasted: Duration,
}

/// Records current and earlier holds.
#[derive(Default)]
struct Referee {
    inside: Mutex<HashMap<String, Vec<Inside>>>,
    overlaps: Mutex<Vec<Overlap>>,
    /// The number of holds, by the name of the lock and the number of the client.
    entered: Mutex<BTreeMap<(String, usize), u64>>,
    /// The names of holds that Redis lost.
    forgotten: Mutex<Vec<String>>,
    /// The names of locks whose release had an unknown result, because of a failover.
    in_doubt: Mutex<Vec<String>>,
}

impl Referee {
    fn enters(&self, contender: usize, guard: &Arc<LockGuard>) {
        let (name, now) = (guard.name().to_string(), Instant::now());
        *self.entered.lock().unwrap().entry((name.clone(), contender)).or_default() += 1;
        let mut inside = self.inside.lock().unwrap();
        let inside = inside.entry(name).or_default();
        for other in inside.iter_mut().filter(|other| other.guard.is_held()) {
            other.overlapped.get_or_insert(now);
        }
        inside.push(Inside { guard: Arc::clone(guard), granted: now, overlapped: None });
    }

    fn leaves(&self, guard: &Arc<LockGuard>) {
        let (name, now) = (guard.name().to_string(), Instant::now());
        let mut inside = self.inside.lock().unwrap();
        let inside = inside.get_mut(&name).expect("the referee knows the name");
        let at = inside
            .iter()
            .position(|it| Arc::ptr_eq(&it.guard, guard))
            .expect("the referee knows the guard");
        let Inside { granted, overlapped, .. } = inside.swap_remove(at);
        if let Some(since) = overlapped {
            self.overlaps.lock().unwrap().push(Overlap { name, granted, lasted: now - since });
        }
    }

    /// Records why a hold of `name` was lost.
    fn receives(&self, name: &str, reason: &LostReason) {
        match reason {
            LostReason::NotOwned => self.forgotten.lock().unwrap().push(name.to_owned()),
            LostReason::InDoubt => self.in_doubt.lock().unwrap().push(name.to_owned()),
            // The lease ended while no primary could renew it.
            reason => assert_eq!(*reason, LostReason::Expired),
        }
    }

    fn entered(&self) -> BTreeMap<(String, usize), u64> {
        self.entered.lock().unwrap().clone()
    }

    /// Waits until each contender for these names has had one more hold.
    async fn all_continue(&self, names: &BTreeSet<String>) -> Duration {
        let (begun, before) = (Instant::now(), self.entered());
        let goes_on = |contender: &(String, usize)| {
            let count = |counts: &BTreeMap<_, u64>| counts.get(contender).copied().unwrap_or(0);
            count(&self.entered()) > count(&before)
        };
        let all = names.iter().flat_map(|name| (0..CLIENTS).map(|client| (name.clone(), client)));
        let mut left: Vec<_> = all.collect();
        while !left.is_empty() {
            left.retain(|contender| !goes_on(contender));
            assert!(begun.elapsed() < BOUND, "these contenders make no progress: {left:?}");
            sleep(ms(10)).await;
        }
        begun.elapsed()
    }
}

/// Acquires `lock` repeatedly. Retries after transient errors.
async fn contends(lock: Lock, number: usize, referee: Arc<Referee>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = match lock.acquire().await {
            Ok(guard) => Arc::new(guard),
            Err(refused) => {
                assert!(refused.is_transient(), "{refused:?}");
                sleep(ms(20)).await;
                continue;
            }
        };
        referee.enters(number, &guard);
        // Some holds last longer than a failover.
        let time = if fastrand::u32(..20) == 0 { secs(3) } else { ms(fastrand::u64(1..100)) };
        tokio::select! {
            () = sleep(time) => {}
            _ = guard.lost() => {}
        }
        referee.leaves(&guard);
        let guard = Arc::into_inner(guard).expect("no other task has the guard");
        if let Ok(Release::NotHeld { name, reason, .. }) = guard.release().await {
            referee.receives(name.as_str(), &reason);
        }
    }
}

/// Clients that contend for locks which require a replica, and for locks which require no replica.
struct Crowd {
    referee: Arc<Referee>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Crowd {
    async fn of(url: &str, replicated: &BTreeSet<String>, plain: &BTreeSet<String>) -> Self {
        let (referee, stop) = (Arc::<Referee>::default(), Arc::<AtomicBool>::default());
        let mut tasks = Vec::new();
        for number in 0..CLIENTS {
            let builder = Client::builder().ttl(TTL).release_timeout(BOUND);
            let client = builder.connect(url).await.unwrap();
            for name in replicated.union(plain) {
                let one = Replicas::at_least(1).within(secs(1));
                let one = replicated.contains(name).then_some(one);
                let lock = client.lock(name).unwrap().replicated(one);
                let (referee, stop) = (Arc::clone(&referee), Arc::clone(&stop));
                tasks.push(tokio::spawn(contends(lock, number, referee, stop)));
            }
        }
        Self { referee, stop, tasks }
    }

    async fn ends(self) {
        self.stop.store(true, Ordering::SeqCst);
        for ended in within(BOUND, "all tasks end", join_all(self.tasks)).await {
            ended.unwrap();
        }
    }
}

fn names(kind: &str) -> BTreeSet<String> {
    (0..NAMES).map(|number| format!("{kind}:{number}")).collect()
}

/// Returns the `names` whose slot is on this node.
fn on(cluster: &Cluster, node: &Redis, names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().filter(|name| owner(cluster, name).port() == node.port()).cloned().collect()
}

/// Kills `master` before its replica has received the last grants. Returns the times at which
/// `master` was isolated and killed.
async fn die_alone(cluster: &Arc<Cluster>, master: &Arc<Redis>, url: &str) -> (Instant, Instant) {
    let replica = cluster.replicas_of(master).remove(0);
    let [from, to] = [master, &replica].map(|node| cluster.name_of(node));
    let alone = Instant::now();
    cluster.links().cut(&from, &to);
    let client = Client::connect(url).await.unwrap();
    let last = client.lock(cluster.key_on(master, "last:")).unwrap().acquire().await.unwrap();
    master.stop();
    let dead = Instant::now();
    cluster.links().heal(&from, &to);
    let is_master = move || replica.command(&["ROLE"]).list()[0].text() == "master";
    let promoted = move || eventually("the replica is promoted", BOUND, is_master);
    spawn_blocking(promoted).await.unwrap();
    assert!(alone.elapsed() < TTL * 2 / 3, "leases must last longer than this failover");
    let reported =
        within(BOUND, "the client reports the loss of the last grant", last.lost()).await;
    assert_eq!(reported, LostReason::NotOwned);
    (alone, dead)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicated_locks_exclude_while_primaries_die() {
    // given names of both kinds on each node, for which clients contend all the time
    let cluster = Arc::new(Cluster::options().links().impatient().start());
    let (replicated, plain) = (names("replicated"), names("plain"));
    let all: BTreeSet<_> = replicated.union(&plain).cloned().collect();
    let url = cluster.url();
    let crowd = Crowd::of(&url, &replicated, &plain).await;
    crowd.referee.all_continue(&all).await;

    for master in cluster.masters().into_iter().take(2) {
        let its = on(&cluster, &master, &all);
        assert!(its.len() >= 3, "{its:?}");

        // when a primary dies, and no replica has received its last grants
        let (alone, dead) = die_alone(&cluster, &master, &url).await;

        // then each contender continues if it needs no replica, or if its node is not affected. All
        // other contenders continue when their node has a replica again
        let alone_suffice: BTreeSet<_> = all.difference(&replicated).cloned().collect();
        let elsewhere = all.difference(&its).cloned().collect();
        let without = alone_suffice.union(&elsewhere).cloned().collect();
        let took = crowd.referee.all_continue(&without).await;
        master.start_again();
        let again = Arc::clone(&cluster);
        spawn_blocking(move || again.wait_until_ok()).await.unwrap();
        let all_took = crowd.referee.all_continue(&all).await;
        println!("after a promotion all go on in {took:?}, with replicas again in {all_took:?}");

        // and only grants without an acknowledgement were lost. The locks of these grants may have
        // had two holders until the client of the first holder noticed the loss
        let forgotten = std::mem::take(&mut *crowd.referee.forgotten.lock().unwrap());
        let may_be = |name: &String| plain.contains(name) && its.contains(name);
        assert!(forgotten.iter().all(may_be), "{forgotten:?}");
        // and only releases at the dead primary have an unknown result
        let in_doubt = std::mem::take(&mut *crowd.referee.in_doubt.lock().unwrap());
        assert!(in_doubt.iter().all(|name| its.contains(name)), "{in_doubt:?}");
        for overlap in crowd.referee.overlaps.lock().unwrap().drain(..) {
            println!("two at once: {overlap:?}");
            let Overlap { name, granted, lasted } = overlap;
            assert!(may_be(&name), "{name}");
            assert!((alone - secs(1)..=dead).contains(&granted) && lasted <= TTL / 3, "{lasted:?}");
        }
    }
    crowd.ends().await;
}
