//! Tests of the bytes that Redisson writes, of windows while the clock jumps, and of invalid data.

use leasehold_twin::Twin;
use redis::{ToRedisArgs, cmd};
use tokio::time::sleep;
use uuid::Uuid;

use super::*;
use crate::domain::Identity;

#[test]
fn limiter_keys_and_members_match_redisson() {
    let keys = |name: &str| Limiter { name: &Name::new(name).unwrap(), client: "8c6d" }.keys();
    let plain = ["{api}:value", "{api}:value:8c6d", "{api}:permits", "{api}:permits:8c6d"];
    assert_eq!(keys("api"), plain);
    assert_eq!(keys("{t}:api")[..2], ["{t}:api:value", "{t}:api:value:8c6d"]);
    let mut it = RatePermits::wanted(3);
    it.id = Uuid::from_bytes([7; 16]);
    assert_eq!(member(&it, 0x0403_0201), [&[16][..], &[7; 16], &[1, 2, 3, 4]].concat());
}

#[test]
fn invalid_limiter_reply_is_a_failure_and_no_grant() {
    let name = Name::new("api").unwrap();
    for odd in [
        Value::Int(0),
        Value::Nil,
        Value::Array(vec![]),
        Value::Array(vec![Value::Int(0), Value::Int(0)]),
        Value::Array(vec![Value::Int(1)]),
        Value::Array(vec![Value::Int(-3), Value::Int(0)]),
    ] {
        assert!(decision(&name, &odd).is_err(), "{odd:?}");
    }
    assert!(paced(&Value::Array(vec![Value::Int(0)])).is_err());
    let fields =
        Value::Array(["10", "x", "0", "0"].map(|it| Value::SimpleString(it.into())).into());
    let failure = read_rate(&name, &fields).unwrap_err();
    assert_eq!(failure.to_string(), "rejected: DAMAGED api cannot be read; set the rate again");
}

const MS: Duration = Duration::from_millis(1);

fn store(twin: &Twin) -> RedisStore {
    RedisStore::simulated(twin, "one")
}

/// Returns a limiter with this rate for all clients together.
async fn limiter<'a>(
    store: &RedisStore,
    name: &'a Name,
    rate: u64,
    interval: Duration,
) -> Limiter<'a> {
    let it = Limiter { name, client: "one" };
    let rate = Rate { permits: rate, ..Rate::per(1, interval) };
    let receipt = Identity::random().fresh_owner();
    assert!(it.change(store, Change::Set(rate), &receipt).await.unwrap());
    it
}

/// Sends a command about `{api}`.
async fn raw(store: &RedisStore, verb: &str, arguments: impl ToRedisArgs) -> Value {
    store.topology.call(b"api", cmd(verb).arg(arguments)).await.unwrap()
}

/// Every grant of a run: the time, the permits, and how many of these permits were not released.
type Grants = Vec<(Instant, RatePermits, u32)>;

/// Checks that no interval has more permits than the rate. The checked interval is 1 ms shorter,
/// because Redis counts in whole milliseconds.
fn check(grants: &Grants, rate: u64, interval: Duration) {
    for (start, ..) in grants {
        let within = grants.iter().filter(|(at, ..)| at >= start && *at < *start + interval - MS);
        let used: u64 = within.map(|(_, _, used)| u64::from(*used)).sum();
        assert!(used <= rate, "{used} of {rate} within {interval:?}");
    }
}

/// Runs one seed. Two clients acquire, release and repeat requests, while the clock of the server
/// is set back.
async fn simulate(seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let (twin, name) = (Twin::new(seed), Name::new("api").unwrap());
    let store = store(&twin);
    let (rate, interval) = (chance.u64(1..9), chance.u32(50..300) * MS);
    let limiter = limiter(&store, &name, rate, interval).await;
    let mut grants = Grants::new();
    for _ in 0..120 {
        sleep(chance.u32(0..60) * MS).await;
        let permits = chance.u32(1..=u32::try_from(rate).unwrap());
        let it = RatePermits::wanted(permits);
        match limiter.acquire(&store, &it).await.unwrap() {
            Decision::Granted => {
                // The client repeats the request, as after a lost reply.
                let free = limiter.available(&store).await.unwrap();
                assert_eq!(limiter.acquire(&store, &it).await.unwrap(), Decision::Granted);
                assert_eq!(limiter.available(&store).await.unwrap(), free);
                grants.push((Instant::now(), it, permits));
            }
            Decision::Wait(wait) => {
                assert!(wait <= interval, "{wait:?}");
                sleep(wait - MS).await;
                let early = limiter.acquire(&store, &it).await.unwrap();
                assert_eq!(early, Decision::Wait(MS), "1 ms of {wait:?} is left");
                sleep(MS).await;
                assert_eq!(limiter.acquire(&store, &it).await.unwrap(), Decision::Granted);
                grants.push((Instant::now(), it, permits));
            }
            decision => panic!("{decision:?}"),
        }
        if chance.u8(0..4) == 0
            && let Some((_, it, used)) = grants.last_mut()
        {
            let unused = chance.u32(1..=*used);
            limiter.release(&store, it, unused).await.unwrap();
            *used -= unused;
        }
        if chance.u8(0..10) == 0 {
            twin.step_clock(-chance.i64(0..600_000) / 1_000 * 1_000);
        }
    }
    assert!(grants.len() > 30, "{}", grants.len());
    check(&grants, rate, interval);
}

#[tokio::test(start_paused = true)]
async fn limiter_grants_at_most_its_rate_in_any_interval() {
    for seed in 0..60 {
        simulate(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn throttle_grants_at_its_pace_for_any_seed() {
    for seed in 0..40 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let (twin, name) = (Twin::new(seed), Name::new("even").unwrap());
        let store = store(&twin);
        let (burst, spacing) = (chance.u32(1..6), chance.u32(1..40) * MS);
        let pace = Pace { spacing, burst };
        let ask = async |it: &RatePermits| throttle(&store, &name, it, pace).await.unwrap();
        let mut grants = Grants::new();
        for _ in 0..100 {
            sleep(chance.u32(0..50) * MS).await;
            let it = RatePermits::wanted(chance.u32(1..=burst));
            let (wait, _) = ask(&it).await;
            if !wait.is_zero() {
                assert!(wait <= burst * spacing, "{wait:?}");
                // The simulated clock moves a little with each request, so `wait` alone may be too
                // short.
                sleep(wait + MS).await;
            }
            let (wait, full_in) = ask(&it).await;
            assert!(wait.is_zero(), "{wait:?}");
            let (wait, same) = ask(&it).await;
            assert!(wait.is_zero() && same <= full_in, "{wait:?} {same:?}");
            let permits = it.count();
            grants.push((Instant::now(), it, permits));
            if chance.u8(0..10) == 0 {
                twin.step_clock(-chance.i64(0..600_000));
            }
        }
        for permits in 1..20 {
            check(&grants, (burst + permits).into(), permits * spacing + MS);
        }
    }
}

/// If the counter outlives the window, Redisson's script fails, and a Redisson limiter never grants
/// its whole rate again.
#[tokio::test(start_paused = true)]
async fn limiter_repairs_a_counter_that_outlives_its_acquisitions() {
    let (twin, name) = (Twin::new(7), Name::new("api").unwrap());
    let store = store(&twin);
    let limiter = limiter(&store, &name, 10, 1_000 * MS).await;
    twin.set_text("{api}:value", b"2");
    assert_eq!(limiter.available(&store).await.unwrap(), Some(10));
    let granted = limiter.acquire(&store, &RatePermits::wanted(10)).await.unwrap();
    assert_eq!(granted, Decision::Granted);
    // After an eviction of the counter, the acquisitions still count.
    assert!(twin.delete("{api}:value"));
    let refused = limiter.acquire(&store, &RatePermits::wanted(1)).await.unwrap();
    assert_eq!(refused, Decision::Wait(1_000 * MS));
}

#[tokio::test(start_paused = true)]
async fn limiter_waits_one_interval_after_the_clock_was_set_back() {
    let (twin, name) = (Twin::new(7), Name::new("api").unwrap());
    let store = store(&twin);
    let limiter = limiter(&store, &name, 1, 1_000 * MS).await;
    limiter.acquire(&store, &RatePermits::wanted(1)).await.unwrap();
    twin.step_clock(-3_600_000_000);
    let it = RatePermits::wanted(1);
    assert_eq!(limiter.acquire(&store, &it).await.unwrap(), Decision::Wait(1_000 * MS));
    sleep(1_000 * MS).await;
    assert_eq!(limiter.acquire(&store, &it).await.unwrap(), Decision::Granted);
}

/// The script cannot distinguish a clock that was set forward from an interval that is over.
#[tokio::test(start_paused = true)]
async fn limiter_frees_permits_once_when_the_clock_is_set_forward() {
    let (twin, name) = (Twin::new(7), Name::new("api").unwrap());
    let store = store(&twin);
    let limiter = limiter(&store, &name, 5, 1_000 * MS).await;
    let take = async || limiter.acquire(&store, &RatePermits::wanted(5)).await.unwrap();
    assert_eq!(take().await, Decision::Granted);
    twin.step_clock(3_600_000_000);
    assert_eq!((take().await, take().await), (Decision::Granted, Decision::Wait(1_000 * MS)));
}

#[tokio::test(start_paused = true)]
async fn limiter_error_names_the_key_of_invalid_data() {
    let (twin, name) = (Twin::new(7), Name::new("api").unwrap());
    let store = store(&twin);
    let old = [&0.5_f32.to_ne_bytes()[..], &3_u32.to_le_bytes()].concat();
    let no_number = ("SET", vec![b"{api}:value".to_vec(), b"many".to_vec()], "{api}:value");
    let old_member = ("ZADD", vec![b"{api}:permits".to_vec(), b"0".to_vec(), old], "{api}:permits");
    let no_rate = ("HSET", ["api", "rate", "x"].map(|it| it.as_bytes().to_vec()).into(), "api");
    for (verb, arguments, key) in [no_number, old_member, no_rate] {
        let limiter = limiter(&store, &name, 10, 1_000 * MS).await;
        let taken = RatePermits::wanted(1);
        limiter.acquire(&store, &taken).await.unwrap();
        raw(&store, verb, &arguments).await;
        let failure = limiter.acquire(&store, &RatePermits::wanted(1)).await.unwrap_err();
        let words = format!("rejected: DAMAGED {key} cannot be read; set the rate again");
        assert_eq!(failure.to_string(), words);
        assert_eq!(limiter.available(&store).await.unwrap_err().to_string(), words);
    }
    limiter(&store, &name, 10, 1_000 * MS).await;
    raw(&store, "SET", &["leasehold_throttle:{even}", "x"]).await;
    let name = Name::new("even").unwrap();
    let pace = Pace::per(1, MS);
    let failure = throttle(&store, &name, &RatePermits::wanted(1), pace).await.unwrap_err();
    assert!(failure.to_string().contains("DAMAGED leasehold_throttle:{even} "), "{failure}");
}
