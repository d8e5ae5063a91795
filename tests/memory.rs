//! The store in memory, as users may use it in their own tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use leasehold::{Client, Error, LostReason, MemoryStore, Release, Replicas, Role};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Too short for a timer. A waiter that acquires within this time was notified.
const AT_ONCE: Duration = Duration::from_millis(10);

/// A service that a user might write: it bills one customer after the other, and stops when its
/// lock may be lost.
struct Billing {
    client: Client,
    billed: Arc<AtomicU32>,
}

impl Billing {
    fn new(store: &MemoryStore) -> Self {
        Self { client: Client::with_store(store), billed: Arc::default() }
    }

    /// Bills `customers` customers, one in each minute.
    async fn night_run(&self, customers: u32) -> Result<u32, Error> {
        let lock = self.client.lock("billing/night")?;
        let ran = lock.run(async |held| {
            for _ in 0..customers {
                held.check()?;
                self.billed.fetch_add(1, Ordering::SeqCst);
                sleep(secs(60)).await;
            }
            Ok(customers)
        });
        ran.await?
    }
}

#[tokio::test(start_paused = true)]
async fn hours_of_virtual_time_take_no_real_time() {
    let billing = Billing::new(&MemoryStore::new());
    let start = Instant::now();
    assert_eq!(billing.night_run(8 * 60).await.unwrap(), 480);
    assert_eq!(start.elapsed().as_secs(), 8 * 60 * 60);
}

#[tokio::test(start_paused = true)]
async fn two_instances_of_a_service_exclude_each_other() {
    let store = MemoryStore::new();
    let (one, other) = (Billing::new(&store), Billing::new(&store));
    let start = Instant::now();
    let (first, second) = tokio::join!(one.night_run(10), other.night_run(10));
    assert_eq!((first.unwrap(), second.unwrap()), (10, 10));
    assert!(start.elapsed() >= secs(20 * 60));
}

#[tokio::test(start_paused = true)]
async fn service_stops_within_a_third_of_its_ttl_after_a_loss() {
    // given a service that bills
    let store = MemoryStore::new();
    let billing = Billing::new(&store);
    let (ran, lost_at) = tokio::join!(billing.night_run(480), async {
        sleep(secs(300)).await;

        // when the store loses the lock of the service, as in a failover
        assert!(store.lose("billing/night"));
        Instant::now()
    });

    // then the service stops within a third of the ttl, and returns the reason
    let lost = ran.unwrap_err();
    assert!(matches!(lost, Error::Lost { reason: LostReason::NotOwned, .. }), "{lost}");
    assert!(lost_at.elapsed() <= secs(10) + AT_ONCE, "{:?}", lost_at.elapsed());
    assert!(billing.billed.load(Ordering::SeqCst) <= 6);
}

#[tokio::test(start_paused = true)]
async fn service_survives_a_store_hang_shorter_than_its_ttl() {
    let store = MemoryStore::new();
    let billing = Billing::new(&store);
    let (ran, ()) = tokio::join!(billing.night_run(10), async {
        sleep(secs(100)).await;
        store.stall();
        sleep(secs(15)).await;
        store.resume();
    });
    assert_eq!(ran.unwrap(), 10);
    assert!(billing.client.stats().renewals_failed > 0);
}

#[tokio::test(start_paused = true)]
async fn service_stops_at_a_store_hang_longer_than_its_ttl() {
    let store = MemoryStore::new();
    let billing = Billing::new(&store);
    let (ran, ()) = tokio::join!(billing.night_run(10), async {
        sleep(secs(100)).await;
        store.stall();
    });
    let lost = ran.unwrap_err();
    assert!(matches!(lost, Error::Lost { reason: LostReason::Expired, .. }), "{lost}");
    assert!(billing.billed.load(Ordering::SeqCst) <= 3);
}

#[tokio::test(start_paused = true)]
async fn clients_of_different_stores_do_not_exclude_each_other() {
    let (one, other) = (Client::in_memory(), Client::with_store(&MemoryStore::new()));
    let _guard = one.lock("door").unwrap().acquire().await.unwrap();
    assert!(other.lock("door").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn clone_of_a_store_is_the_same_store() {
    let store = MemoryStore::new();
    let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
    let clone = store.clone();
    let elsewhere = Client::builder().ttl(secs(5)).with_store(&clone).lock("door").unwrap();
    assert!(elsewhere.try_acquire().await.unwrap().is_none());
    assert!(clone.lose("door"));
    assert!(matches!(guard.release().await.unwrap(), Release::NotHeld { .. }));
}

#[tokio::test(start_paused = true)]
async fn locks_outlive_their_client_until_their_lease_ends() {
    // given a process that is killed, so that it never drops its guard
    let store = MemoryStore::new();
    let start = Instant::now();
    let guard = Client::with_store(&store).lock("door").unwrap().lease(secs(20)).acquire().await;
    std::mem::forget(guard);

    // then other clients acquire when the lease ends
    let elsewhere = Client::with_store(&store).lock("door").unwrap();
    assert!(elsewhere.try_acquire().await.unwrap().is_none());
    assert!(elsewhere.acquire().await.unwrap().is_held());
    assert!(start.elapsed() >= secs(20) && start.elapsed() < secs(20) + AT_ONCE);
}

mod lose {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_store_reports_whether_it_lost_a_held_lock() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        assert!(!store.lose("door"));
        let _guard = lock.clone().lease(secs(10)).acquire().await.unwrap();
        assert!(!store.lose("window"));
        assert!(store.lose("door"));
        assert!(!store.lose("door"));

        // and after the end of its lease, the lock is not held, so the store loses no hold
        let _guard = lock.lease(secs(10)).acquire().await.unwrap();
        sleep(secs(11)).await;
        assert!(!store.lose("door"));
    }

    #[tokio::test(start_paused = true)]
    async fn lose_affects_only_the_given_name() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let door = client.lock("door").unwrap().acquire().await.unwrap();
        let window = client.lock("window").unwrap().acquire().await.unwrap();
        store.lose("door");
        sleep(secs(60)).await;
        assert!(!door.is_held());
        assert!(window.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn lose_everything_loses_every_lock() {
        let store = MemoryStore::new();
        let (one, other) = (Client::with_store(&store), Client::with_store(&store));
        let door = one.lock("door").unwrap().acquire().await.unwrap();
        let window = other.lock("window").unwrap().acquire().await.unwrap();
        store.lose_everything();
        assert_eq!(door.lost().await, LostReason::NotOwned);
        assert_eq!(window.lost().await, LostReason::NotOwned);
    }

    #[tokio::test(start_paused = true)]
    async fn loss_of_a_reentered_hold_affects_all_its_guards() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        let again = guard.reenter().await.unwrap();
        store.lose("door");
        assert_eq!(guard.lost().await, LostReason::NotOwned);
        assert!(!again.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn lose_returns_false_for_an_invalid_name() {
        assert!(!MemoryStore::new().lose(""));
    }
}

mod stall {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_times_out_after_three_seconds() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        store.stall();
        let start = Instant::now();
        assert!(matches!(lock.holder().await, Err(Error::Unavailable { .. })));
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    /// Former bug: the error named the holder from an earlier reply, although that holder had
    /// released the lock.
    #[tokio::test(start_paused = true)]
    async fn timeout_of_an_unanswered_request_names_no_holder() {
        let store = MemoryStore::new();
        let (here, there) = (Client::with_store(&store), Client::with_store(&store));
        for pause in [Duration::ZERO, Duration::from_millis(300), secs(1)] {
            let (lock, pool) =
                (here.lock("door").unwrap(), here.expirable_semaphore("pool").unwrap());
            there.expirable_semaphore("pool").unwrap().set_if_absent(1).await.unwrap();
            let guard = there.lock("door").unwrap().acquire().await.unwrap();
            let permit = there.expirable_semaphore("pool").unwrap().acquire().await.unwrap();
            let busy = [
                lock.acquire_within(secs(1)).await.err().unwrap(),
                pool.acquire_within(secs(1)).await.err().unwrap(),
            ];
            assert!(busy.iter().all(Error::is_busy), "{busy:?}");
            guard.release().await.unwrap().into_result().unwrap();
            permit.release().await.unwrap().into_result().unwrap();
            sleep(pause).await;
            store.stall();
            let silent = [
                lock.acquire_within(secs(1)).await.err().unwrap(),
                pool.acquire_within(secs(1)).await.err().unwrap(),
            ];
            store.resume();
            for error in silent {
                assert!(matches!(error, Error::Unavailable { .. }), "{pause:?}: {error:?}");
            }
            sleep(secs(10)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_when_the_store_resumes() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        store.stall();
        let start = Instant::now();
        let (acquired, ()) = tokio::join!(lock.acquire(), async {
            sleep(secs(1)).await;
            store.resume();
        });
        assert!(acquired.unwrap().is_held());
        assert!(start.elapsed() < secs(1) + AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn store_that_was_stalled_twice_resumes_after_one_resume() {
        let store = MemoryStore::new();
        store.stall();
        store.stall();
        for client in [Client::with_store(&store), Client::with_store(&store)] {
            let tried = client.lock("door").unwrap().try_acquire().await;
            assert!(matches!(tried, Err(Error::Unavailable { .. })), "{tried:?}");
        }
        store.resume();
        let lock = Client::with_store(&store).lock("door").unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn leases_end_while_the_store_is_stalled() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        store.stall();
        sleep(secs(31)).await;
        store.resume();
        let elsewhere = Client::with_store(&store).lock("door").unwrap();
        assert!(elsewhere.try_acquire().await.unwrap().is_some());
        assert!(!guard.is_held());
    }
}

mod fail {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_error_keeps_the_code_and_text_of_the_store() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        for (words, code, message) in
            [("ERR unknown command", "ERR", "unknown command"), ("EXECABORT", "EXECABORT", "")]
        {
            store.fail(words);
            let refused = lock.acquire().await.unwrap_err();
            let Error::Refused { name, code: reported, message: also, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!((name.as_str(), &*reported, &*also), ("door", code, message));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn forbidden_and_not_ready_are_separate_errors() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        for code in ["NOPERM", "NOAUTH", "WRONGPASS"] {
            store.fail(code);
            let error = lock.acquire().await.unwrap_err();
            assert!(matches!(&error, Error::Forbidden { code: reported, .. } if reported == code));
            assert!(!error.is_transient() && !error.is_busy(), "{code}");
        }
        for code in ["READONLY", "CLUSTERDOWN", "LOADING", "OOM", "MISCONF"] {
            store.fail(code);
            let error = lock.acquire_within(secs(1)).await.unwrap_err();
            assert!(matches!(&error, Error::NotReady { code: reported, .. } if reported == code));
            assert!(error.is_transient() && !error.is_busy(), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failure_is_retried() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        for words in ["LOADING", "READONLY You can't write", "CLUSTERDOWN", "BUSY", "MISCONF"] {
            store.fail(words);
            let ((), ran) = tokio::join!(
                async {
                    sleep(secs(60)).await;
                    store.heal();
                },
                lock.run(async |_held| words.len()),
            );
            assert_eq!(ran.unwrap(), words.len(), "{words}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hold_expires_when_every_renewal_is_refused() {
        let store = MemoryStore::new();
        let guard = Client::with_store(&store).lock("door").unwrap().acquire().await.unwrap();
        let start = Instant::now();
        store.fail("OOM command not allowed");
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(start.elapsed() > secs(29) && start.elapsed() < secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn healed_store_keeps_its_data() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        let guard = lock.acquire().await.unwrap();
        store.fail("ERR");
        assert!(matches!(lock.holder().await, Err(Error::Refused { .. })));
        store.heal();
        assert_eq!(lock.holder().await.unwrap().unwrap().owner(), guard.owner());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_store_rejects_requests_with_any_given_text() {
        let store = MemoryStore::new();
        let lock = Client::with_store(&store).lock("door").unwrap();
        for words in ["", " ", "🔒 \n"] {
            store.fail(words);
            let tried = lock.try_acquire().await;
            assert!(matches!(tried, Err(Error::Refused { .. })), "{words:?}: {tried:?}");
        }
    }
}

mod health {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn healthy_store_is_ready() {
        let health = Client::in_memory().health().await;
        assert!(health.is_ready() && health.commands_up && health.messages_up, "{health:?}");
        assert_eq!(health.role, Some(Role::Primary));
        assert_eq!(health.server_version.as_deref(), Some("7.0.15"));
        assert_eq!(health.round_trip, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn health_is_prompt_when_the_store_hangs() {
        let store = MemoryStore::new();
        let client = Client::builder().request_timeout(secs(1)).with_store(&store);
        assert!(client.health().await.is_ready());
        store.stall();
        let start = Instant::now();
        let health = client.health().await;
        assert_eq!((start.elapsed(), health.round_trip), (Duration::from_millis(200), None));
        assert!(health.unavailable_reason.unwrap().contains("timed out after 200ms"));
        store.resume();
        assert!(client.health().await.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn hold_is_in_doubt_until_a_renewal_succeeds() {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let _guards = [
            client.lock("one").unwrap().acquire().await.unwrap(),
            client.lock("other").unwrap().acquire().await.unwrap(),
        ];
        store.fail("LOADING Redis is loading the dataset in memory");
        sleep(secs(11)).await;
        let health = client.health().await;
        assert_eq!((health.holds_in_doubt, health.is_ready()), (2, false));
        assert!(health.unavailable_reason.unwrap().contains("LOADING"));
        store.heal();
        sleep(secs(5)).await;
        assert_eq!(client.health().await.holds_in_doubt, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_was_shut_down_is_not_ready() {
        let client = Client::in_memory();
        client.shutdown(secs(1)).await;
        let health = client.health().await;
        assert_eq!(health.unavailable_reason.as_deref(), Some("the client was shut down"));
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_error_has_the_timeout_as_its_source() {
    use std::error::Error as _;

    let store = MemoryStore::new();
    let lock = Client::with_store(&store).lock("door").unwrap();
    assert!(!lock.is_locked().await.unwrap());
    store.stall();
    let error = lock.holder().await.unwrap_err();
    let output = "Redis unavailable for `door`: timed out after 3s; the request may have been \
                  executed, so check the data before repeating a change";
    assert_eq!(error.to_string(), output);
    assert!(error.is_transient());
    assert_eq!(error.source().unwrap().to_string(), "timed out after 3s");
}

#[test]
fn fencing_example_prints_the_documented_result() {
    assert!(testkit::Helper::example("fencing", &[]).wait().success());
}

#[tokio::test(start_paused = true)]
async fn grant_is_released_at_the_timeout_with_too_few_replicas() {
    let store = MemoryStore::new();
    let client = Client::with_store(&store);
    let lock = client.lock("door").unwrap().replicated(Replicas::at_least(2).within(secs(3)));
    store.set_replicas(1);
    let begun = Instant::now();
    let error = lock.acquire().await.unwrap_err();
    assert!(matches!(error, Error::NotReplicated { wanted: 2, got: 1, .. }), "{error:?}");
    assert!(error.is_transient() && !error.is_busy());
    let output = "cannot acquire `door`: only 1 of 2 required replicas acknowledged the \
                  acquisition in time";
    assert!(error.to_string().starts_with(output), "{error}");
    assert!(begun.elapsed() >= secs(3) && begun.elapsed() < secs(3) + AT_ONCE);
    assert!(!lock.is_locked().await.unwrap());

    // a grant that replicas acknowledge before the timeout succeeds
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(secs(2)).await;
        store.set_replicas(2);
    });
    assert_eq!(guard.unwrap().release().await.unwrap(), Release::Released);
    assert_eq!((client.stats().granted, client.stats().held), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn invalid_replica_count_is_refused() {
    let lock = Client::in_memory().lock("door").unwrap();
    let none = lock.clone().replicated(Replicas::at_least(0)).acquire().await;
    assert!(matches!(none, Err(Error::ZeroCount { .. })), "{none:?}");
    let never = Replicas::at_least(1).within(Duration::ZERO);
    let never = lock.clone().replicated(never).acquire().await;
    assert!(matches!(never, Err(Error::Duration(_))), "{never:?}");
    let pool = Client::in_memory().semaphore("pool").unwrap().replicated(Replicas::at_least(0));
    assert!(matches!(pool.acquire(1).await, Err(Error::ZeroCount { .. })));
}

#[tokio::test(start_paused = true)]
async fn grant_that_expires_before_its_replication_is_not_returned() {
    let store = MemoryStore::new();
    let lock = Client::with_store(&store).lock("door").unwrap().lease(secs(1));
    let lock = lock.replicated(Replicas::at_least(1).within(secs(3)));
    let (acquired, ()) = tokio::join!(lock.acquire(), async {
        sleep(secs(2)).await;
        store.set_replicas(1);
    });
    assert!(matches!(acquired, Err(Error::NotReplicated { got: 0, .. })), "{acquired:?}");
}

#[tokio::test(start_paused = true)]
async fn replicated_acquire_ends_at_its_timeout_if_the_store_hangs() {
    let store = MemoryStore::new();
    let lock = Client::with_store(&store).lock("door").unwrap().replicated(Replicas::at_least(1));
    let begun = Instant::now();
    let (acquired, ()) = tokio::join!(lock.acquire_within(secs(2)), async {
        sleep(Duration::from_millis(100)).await;
        store.stall();
    });
    assert!(acquired.is_err() && begun.elapsed() <= secs(2) + AT_ONCE, "{acquired:?}");
    store.resume();
    sleep(secs(1)).await;
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_share_the_acknowledgements_of_their_shared_hold() {
    let store = MemoryStore::new();
    let prices = Client::with_store(&store).read_write_lock("prices").unwrap();
    let read = prices.read().local_handoff(9, secs(60));
    let one = read.acquire().await.unwrap();
    // A task that requires replicas requests their acknowledgement of the shared hold.
    let kept = read.clone().replicated(Replicas::at_least(1));
    assert!(matches!(kept.acquire().await, Err(Error::NotReplicated { .. })));
    assert!(one.is_held() && one.count() == 1);
    store.set_replicas(1);
    let two = kept.acquire().await.unwrap();
    // The hold already has its acknowledgements, so the next task needs no further acknowledgement.
    store.set_replicas(0);
    let three = kept.acquire().await.unwrap();
    assert_eq!((one.owner(), two.owner()), (three.owner(), three.owner()));
}

#[tokio::test(start_paused = true)]
async fn fail_fast_client_does_not_wait_in_an_outage() {
    let store = MemoryStore::new();
    let client = Client::builder().fail_fast(true).with_store(&store);
    let [door, gate] = ["door", "gate"].map(|name| client.lock(name).unwrap());
    let (guard, released) = (door.acquire().await.unwrap(), gate.acquire().await.unwrap());
    store.stall();
    // The client closes a connection that is silent for two command timeouts.
    assert!(gate.holder().await.is_err());
    sleep(secs(3)).await;

    let start = Instant::now();
    let (latch, permits) =
        (client.latch("latch").unwrap(), client.expirable_semaphore("permits").unwrap());
    let errors = [
        gate.acquire().await.unwrap_err(),
        gate.acquire_within(secs(60)).await.unwrap_err(),
        gate.try_acquire().await.unwrap_err(),
        gate.is_locked().await.unwrap_err(),
        gate.force_release().await.unwrap_err(),
        latch.wait().await.unwrap_err(),
        permits.acquire().await.unwrap_err(),
        permits.set_if_absent(1).await.unwrap_err(),
    ];
    for error in errors {
        let Error::Unavailable { reason, .. } = &error else { panic!("{error:?}") };
        assert!(reason.contains("connection lost"), "{error}");
    }
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());

    // Calls fail fast, but the renewal and the background release wait for the store.
    drop(released);
    sleep(secs(15)).await;
    store.resume();
    sleep(secs(15)).await;
    assert!(guard.is_held() && !gate.is_locked().await.unwrap());
    assert_eq!(gate.acquire().await.unwrap().release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn client_waits_for_an_unreachable_store_by_default() {
    let store = MemoryStore::new();
    let lock = Client::with_store(&store).lock("door").unwrap();
    store.stall();
    assert!(lock.holder().await.is_err());
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(secs(20)).await;
        store.resume();
    });
    assert!(guard.unwrap().is_held());
}

/// Former bug: the error did not name this cause. Clients of Redis only logged the cause.
#[tokio::test(start_paused = true)]
async fn timeout_error_says_that_the_permits_are_not_set() {
    let client = Client::in_memory();
    let (permits, semaphore) =
        (client.expirable_semaphore("p").unwrap(), client.semaphore("s").unwrap());
    let cases = [
        permits.acquire_within(secs(1)).await.err().unwrap(),
        semaphore.acquire_within(1, secs(1)).await.err().unwrap(),
    ];
    for error in cases {
        assert!(matches!(error, Error::TimedOut { unset: true, .. }), "{error:?}");
        assert!(error.to_string().ends_with("is not set; call set_if_absent"), "{error}");
    }
    permits.set_if_absent(1).await.unwrap();
    let _guard = permits.acquire().await.unwrap();
    let error = permits.acquire_within(secs(1)).await.err().unwrap();
    assert!(matches!(error, Error::TimedOut { unset: false, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn token_counter_cannot_be_raised_beyond_its_limit() {
    const MOST: u64 = (1 << 53) - 65;
    let lock = Client::in_memory().fenced_lock("orders:42").unwrap();
    for least in [MOST + 1, i64::MAX.unsigned_abs() + 1, u64::MAX] {
        let refused = lock.raise_token(least).await;
        assert!(matches!(refused, Err(Error::TokenTooHigh { most: MOST, .. })), "{refused:?}");
    }
    assert_eq!(lock.acquire().await.unwrap().token(), 1);
    assert_eq!(lock.raise_token(MOST).await.unwrap(), MOST);
    let guard = lock.acquire().await.unwrap();
    assert_eq!((guard.token(), guard.token_i64()), (MOST + 1, MOST.cast_signed() + 1));
}
