//! The queue and its claims on a real server: keys and messages, faults, deployments and killed
//! workers.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use futures_util::future::join_all;
use leasehold::{Client, Error, LostReason, Queue, Release, Replicas};
use testkit::{Cluster, Connection, Helper, Proxy, Redis, Reply, Sentinels, came_with};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::common::{
    Listener, SOON, client, comes_true, hash, keys, ms, secs, until_subscribed, with_acl, within,
};

const CLAIMS: &str = "leasehold_queue__claims:{jobs}";
const CLAIMANTS: &str = "leasehold_queue__claimants:{jobs}";
const CHANNEL: &str = "leasehold_queue__channel:{jobs}";

fn jobs(client: &Client) -> Queue<String> {
    client.queue("jobs").unwrap()
}

async fn queue(redis: &Redis) -> Queue<String> {
    jobs(&client(redis).await)
}

/// Appends elements as Java does: without a message.
fn java_pushes(redis: &Redis, elements: &[&str]) {
    redis.command(&[&["RPUSH", "jobs"], elements].concat());
}

async fn counts(jobs: &Queue<String>) -> (u64, u64) {
    (jobs.len().await.unwrap(), jobs.claimed().await.unwrap())
}

fn waiting(jobs: &Queue<String>) -> JoinHandle<leasehold::Result<leasehold::Claim<String>>> {
    let jobs = jobs.clone();
    tokio::spawn(async move { jobs.claim().await })
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_have_the_format_of_redisson_and_claims_their_own() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let mut listener = Listener::to(&redis, CHANNEL);
    jobs.push_all(["a", "b"].map(str::to_owned)).await.unwrap();
    java_pushes(&redis, &["c"]);
    assert_eq!(redis.command(&["LRANGE", "jobs", "0", "-1"]).texts(), ["a", "b", "c"]);
    let claim = jobs.claim().await.unwrap();
    let [(owner, taken)] = hash(&redis, CLAIMS).try_into().unwrap();
    assert_eq!(owner, claim.owner().as_str());
    let (time, element) = taken.split_once(':').unwrap();
    assert_eq!((time.len(), element), (16, "a"));
    let now: f64 = redis.command(&["TIME"]).texts()[0].parse().unwrap();
    let ends: f64 = redis.command(&["ZSCORE", CLAIMANTS, &owner]).text().parse().unwrap();
    let left = ends / 1_000.0 - now;
    assert!((28.0..=31.0).contains(&left), "{left}");

    claim.give_back().await.unwrap().into_result().unwrap();
    jobs.claim().await.unwrap().done().await.unwrap().into_result().unwrap();
    assert_eq!(listener.received(), ["0", "0"], "a push, and a return");
    let receipts = |key: &&String| key.starts_with("leasehold_queue__receipt:{jobs}:");
    let left = keys(&redis);
    assert_eq!(left.iter().filter(receipts).count(), 3);
    assert_eq!(left.iter().filter(|key| !receipts(key)).collect::<Vec<_>>(), ["jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn element_without_a_message_is_claimed_soon_at_low_cost() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let waiters: Vec<_> = (0..20).map(|_| waiting(&jobs)).collect();
    until_subscribed(&redis, CHANNEL);
    sleep(SOON).await;

    // Only one of the waiting tasks of a client polls, about four times a second.
    let before = redis.calls();
    sleep(secs(3)).await;
    let asked = redis.calls().since(&before).of("evalsha");
    assert!((8..=18).contains(&asked), "{asked}");

    let pushed = Instant::now();
    java_pushes(&redis, &["a"]);
    comes_true("it is claimed", || !hash(&redis, CLAIMS).is_empty()).await;
    assert!(pushed.elapsed() < ms(600), "{:?}", pushed.elapsed());
    waiters.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_lose_and_repeat_no_element() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let jobs = jobs(&Client::connect(&proxy.url()).await.unwrap());
    for round in 1..=3 {
        let lost = proxy.lost_replies();
        proxy.lose_reply_to("leasehold_queue__receipt");
        jobs.push(&format!("{round}")).await.unwrap();
        assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((1, 0), lost + 1));

        proxy.lose_reply_to("leasehold_queue__claims");
        let claim = jobs.claim().await.unwrap();
        assert_eq!(claim.value(), &round.to_string());
        assert_eq!((counts(&jobs).await, proxy.lost_replies()), ((0, 1), lost + 2));

        proxy.lose_reply_to("leasehold_queue__receipt");
        match round {
            1 => {
                assert_eq!(claim.done().await.unwrap(), Release::Released);
                assert_eq!(counts(&jobs).await, (0, 0));
            }
            2 => {
                assert_eq!(claim.give_back().await.unwrap(), Release::Released);
                assert_eq!(counts(&jobs).await, (1, 0));
                assert_eq!(jobs.pop().await.unwrap().as_deref(), Some("2"));
            }
            // The claim no longer exists. A repeated `done` returns the same result as the first,
            // whose reply is lost.
            _ => {
                redis.command(&["DEL", CLAIMS, CLAIMANTS]);
                let gone = claim.done().await.unwrap();
                let reason = LostReason::NotOwned;
                assert!(matches!(gone, Release::NotHeld { reason: it, .. } if it == reason));
            }
        }
        assert_eq!(proxy.lost_replies(), lost + 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_is_renewed_and_its_loss_is_reported() {
    let redis = Redis::start();
    let jobs = queue(&redis).await.ttl(secs(1));
    jobs.push("a").await.unwrap();
    let claim = jobs.claim().await.unwrap();
    sleep(secs(3)).await;
    assert!(claim.is_held() && jobs.try_claim().await.unwrap().is_none());

    // An operator moves the deadline of the claim into the past. The next request of any client
    // then returns the element to the queue.
    redis.command(&["ZADD", CLAIMANTS, "1", claim.owner().as_str()]);
    let next = jobs.try_claim().await.unwrap().unwrap();
    assert_eq!(within(SOON, "the loss", claim.lost()).await, LostReason::NotOwned);
    assert!(claim.done().await.unwrap().into_result().is_err());
    assert_eq!(next.done().await.unwrap(), Release::Released);
    assert_eq!(counts(&jobs).await, (0, 0));
}

/// A worker may end at the error. A reply with a long element would end the connection, which all
/// callers share.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_elements_are_in_a_list_of_their_own() {
    let redis = Redis::start();
    let long = "x".repeat(300_000);
    java_pushes(&redis, &["x", &long, "7"]);
    let numbers = client(&redis).await.queue::<u32>("jobs").unwrap();
    assert!(matches!(numbers.claim().await, Err(Error::Codec { .. })));
    let error = numbers.claim().await.unwrap_err();
    assert!(error.to_string().contains("element of 300000 bytes is too long"), "{error}");
    let aside = redis.command(&["LRANGE", "leasehold_queue__aside:{jobs}", "0", "-1"]);
    assert_eq!(aside.texts(), ["x", &long]);
    assert_eq!(numbers.pop().await.unwrap(), Some(7));
    assert!(numbers.try_claim().await.unwrap().is_none());
}

/// If Redis rejects a command in the middle of a script, the script neither loses nor hides an
/// element.
#[tokio::test(flavor = "multi_thread")]
async fn denied_commands_lose_no_element() {
    let redis = Redis::start();
    java_pushes(&redis, &["a", "b"]);
    for (number, denied) in ["-lpop", "-hset", "-zadd", "-lindex"].into_iter().enumerate() {
        let rights = ["+@all", denied, "&*", "~*"];
        let limited = jobs(&with_acl(&redis, &format!("limited{number}"), &rights).await);
        let refused = limited.claim().await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden { .. }), "{denied}: {refused}");
        assert_eq!(counts(&queue(&redis).await).await, (2, 0), "{denied}");
    }
    let limited = jobs(&with_acl(&redis, "unending", &["+@all", "-hdel", "&*", "~*"]).await);
    let claim = limited.claim().await.unwrap();
    assert!(matches!(claim.done().await, Err(Error::Forbidden { .. })));
    redis.command(&["SET", "text", "x"]);
    let wrong = client(&redis).await.queue::<String>("text").unwrap().try_claim().await;
    assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
}

/// Takes elements as Java's `take` does, until the queue has been empty for a second.
fn java_takes(port: u16) -> Vec<String> {
    let (mut connection, mut taken) = (Connection::open(port), vec![]);
    loop {
        let reply = connection.command(&["BLPOP", "jobs", "1"]);
        match reply {
            Reply::Nil => return taken,
            reply => taken.push(reply.texts()[1].to_owned()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_blocking_pops_take_each_element_once() {
    const ELEMENTS: usize = 600;
    let redis = Redis::start();
    let clients = [queue(&redis).await, queue(&redis).await];
    // Redis gives an element that is pushed alone to a blocked pop. Elements that are pushed
    // together are left for claims.
    let early: Vec<_> = (0..ELEMENTS / 3).map(|number| format!("early {number}")).collect();
    clients[0].push_all(&early).await.unwrap();
    let worker = |jobs: &Queue<String>| {
        let jobs = jobs.clone();
        tokio::spawn(async move {
            let mut done = vec![];
            while let Ok(claim) = jobs.claim_within(secs(1)).await {
                if done.len() % 5 == 4 {
                    drop(jobs.claim_within(ms(1)).await);
                }
                done.push(claim.value().clone());
                claim.done().await.unwrap().into_result().unwrap();
            }
            done
        })
    };
    let workers: Vec<_> = clients.iter().flat_map(|it| [worker(it), worker(it)]).collect();
    let port = redis.port();
    let java: Vec<_> = (0..3).map(|_| thread::spawn(move || java_takes(port))).collect();
    for number in 0..ELEMENTS / 3 {
        clients[0].push(&format!("rust {number}")).await.unwrap();
        java_pushes(&redis, &[&format!("java {number}")]);
    }
    let (mut all, mut by_claims) = (vec![], 0);
    for worker in workers {
        let done = worker.await.unwrap();
        by_claims += done.len();
        all.extend(done);
    }
    for java in java {
        all.extend(java.join().unwrap());
    }
    assert!((1..ELEMENTS).contains(&by_claims), "{by_claims} by claims");
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (ELEMENTS, ELEMENTS));
    assert_eq!(counts(&clients[0]).await, (0, 0));
}

/// Workers are killed, and so cannot clean up.
#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_lose_no_element() {
    const ELEMENTS: usize = 150;
    const TTL: &str = "1000";
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let elements: Vec<String> = (0..ELEMENTS).map(|number| number.to_string()).collect();
    jobs.push_all(&elements).await.unwrap();
    let start = || Helper::example("worker", &[&redis.url(), "jobs", TTL]);
    let mut workers: Vec<_> = (0..3).map(|_| start()).collect();
    let mut kills = 0;
    while jobs.len().await.unwrap() > ELEMENTS as u64 / 5 {
        // Each worker is killed while it has an element.
        let worker = workers.remove(0);
        let is_claim = |line: &str| line.starts_with("claimed ");
        worker.wait_for_line(is_claim, secs(20));
        sleep(ms(fastrand::u64(..100))).await;
        worker.kill();
        kills += 1;
        workers.push(start());
    }
    let limit = Instant::now() + secs(30);
    while counts(&jobs).await != (0, 0) {
        assert!(Instant::now() < limit, "{:?} are left", counts(&jobs).await);
        sleep(ms(50)).await;
    }
    let mut results = BTreeMap::<String, u32>::new();
    for element in redis.command(&["LRANGE", "jobs:results", "0", "-1"]).texts() {
        *results.entry(element.to_owned()).or_default() += 1;
    }
    let missing: Vec<_> = elements.iter().filter(|it| !results.contains_key(*it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let repeated: u32 = results.values().map(|times| times - 1).sum();
    assert!(kills >= 3 && repeated <= kills, "{repeated} repeated after {kills} kills");
}

#[test]
fn example_shows_that_killed_workers_lose_no_job() {
    let redis = Redis::start();
    let show = Helper::example("worker", &[&redis.url()]);
    let counted = show.wait_for_line(|line| line.contains(" jobs are done after "), secs(60));
    assert!(counted.starts_with("100 of 100 jobs"), "{counted}");
    assert!(show.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_of_a_dead_client_return_when_their_lease_ends() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    let dead = Helper::example("worker", &[&redis.url(), "jobs", "1000"]);
    java_pushes(&redis, &["a"]);
    dead.wait_for_line(|line| line == "claimed a", secs(20));
    dead.kill();
    java_pushes(&redis, &["b"]);
    // No message reports the end of a lease. The waiting client returns the element to the queue
    // when it repeats its request.
    let killed = Instant::now();
    let first = jobs.claim().await.unwrap();
    let second = jobs.claim().await.unwrap();
    assert_eq!((first.value().as_str(), second.value().as_str()), ("b", "a"));
    assert!(killed.elapsed() < secs(3), "{:?}", killed.elapsed());
}

/// Workers of two clients of `url` claim some elements and finish them.
async fn work_off(url: &str) {
    let [one, other] = [Client::connect(url).await.unwrap(), Client::connect(url).await.unwrap()];
    let [one, other] = [one, other].map(|it| it.queue::<u32>("app:jobs").unwrap());
    one.push_all(0..20).await.unwrap();
    let done = join_all((0..20).map(async |number| {
        let claim = if number % 2 == 0 { one.claim().await } else { other.claim().await };
        let claim = claim.unwrap();
        let element = *claim.value();
        claim.done().await.unwrap().into_result().unwrap();
        element
    }));
    let mut done = within(secs(20), "all are done", done).await;
    done.sort_unstable();
    assert_eq!(done, (0..20).collect::<Vec<_>>());
    assert_eq!((one.len().await.unwrap(), one.claimed().await.unwrap()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_works_in_a_cluster() {
    came_with(7, "sharded channels");
    work_off(&Cluster::options().replicas(0).start().url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_outlive_a_failover_of_sentinels() {
    let sentinels = Sentinels::options().replicas(1).start();
    let url = sentinels.url();
    work_off(&url).await;
    let client = Client::connect(&url).await.unwrap();
    let jobs = jobs(&client).replicated(Replicas::at_least(1).within(secs(20)));
    jobs.push_all(["a", "b"].map(str::to_owned)).await.unwrap();
    let claim = jobs.claim().await.unwrap();
    sentinels.fail_over();
    assert_eq!(within(secs(30), "it is done", claim.done()).await.unwrap(), Release::Released);
    let next = within(secs(30), "the next one", jobs.replicated(None).claim()).await.unwrap();
    assert_eq!(next.value(), "b");
    next.done().await.unwrap().into_result().unwrap();
    work_off(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_without_data_loses_claims_and_reports_it() {
    let redis = Redis::start();
    let jobs = queue(&redis).await;
    jobs.push("a").await.unwrap();
    let claim = jobs.claim().await.unwrap();
    let waiter = waiting(&jobs);
    redis.restart();
    assert_eq!(within(secs(15), "the loss", claim.lost()).await, LostReason::NotOwned);
    jobs.push("b").await.unwrap();
    assert_eq!(within(SOON, "b", waiter).await.unwrap().unwrap().value(), "b");
}
