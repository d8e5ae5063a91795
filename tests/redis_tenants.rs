//! Several tenants on one server: the permissions of the user of the guide, and the effects of
//! another user with the same permissions.

use crate::common::{
    GUIDE, POLLING, SOON, as_user, channel, commands_of_the_guide, entered, entry, follow, hash,
    ms, permissions_are_exact, queue, queuers, release_guard, secs, subscribers, turns_of,
    until_places, waiter, within, yielded,
};
use futures_util::FutureExt;
use leasehold::{Client, Error, Lock, LockGuard, QuorumClient, Replicas, Script, Value, Write};
use testkit::{Connection, Redis, Reply, eventually};
use tokio::time::{Instant, sleep};

const DOOR: &str = "app:door";

fn door(client: &Client) -> Lock {
    client.lock(DOOR).unwrap()
}

/// The command that creates a user with few permissions, exactly as the guide has it.
fn command_of_the_guide(user: &str) -> Vec<&str> {
    commands_of_the_guide(user).swap_remove(0)
}

/// The patterns of keys and channels in the paragraph of the guide that starts with `begins`.
fn patterns_of_the_guide(begins: &str) -> Vec<&'static str> {
    let (_, from) = GUIDE.split_once(begins).unwrap();
    let (paragraph, _) = from.split_once("\n\n").unwrap();
    paragraph.split('\'').skip(1).step_by(2).collect()
}

/// Creates a user `tenant` with the permissions of the guide, for names that start with `tenant:`.
fn tenant(redis: &Redis, tenant: &str) {
    let words = command_of_the_guide("leasehold").into_iter().map(|word| match word {
        "leasehold" => tenant.to_owned(),
        _ => word.replace("app:", &format!("{tenant}:")),
    });
    follow(redis, &words.collect::<Vec<_>>());
}

/// Opens a connection of a user without the library.
fn raw(redis: &Redis, user: &str) -> Connection {
    let mut connection = Connection::open(redis.port());
    assert_eq!(connection.command(&["AUTH", user, "secret"]).text(), "OK");
    connection
}

fn is_forbidden(reply: &Reply) -> bool {
    let Reply::Error(words) = reply else { return false };
    ["NOPERM", "user executing the script can't", "ACL failure in script"]
        .iter()
        .any(|no| words.contains(no))
}

async fn do_everything(redis: &Redis) {
    let [one, other] = [as_user(redis, "app").await, as_user(redis, "app").await];
    // One client acquires, reenters and releases, and the other client checks.
    let guard = door(&one).ttl(secs(2)).acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    assert_eq!(door(&other).held_by(guard.owner()).await.unwrap(), 2);
    assert!(door(&other).holder().await.unwrap().is_some());
    again.release().await.unwrap().into_result().unwrap();
    sleep(secs(3)).await;
    assert!(guard.is_held());
    release_guard(guard).await;

    // Both clients acquire in turn, by messages and by polling.
    for wait_strategy in [leasehold::WaitStrategy::PubSub, POLLING] {
        for _ in 0..3 {
            let guard = door(&one).acquire().await.unwrap();
            let locks = [door(&other).wait_strategy(wait_strategy), door(&one)];
            let waiting = locks.map(|lock| tokio::spawn(entry(lock, secs(20))));
            sleep(ms(1_500)).await;
            release_guard(guard).await;
            for waiter in waiting {
                waiter.await.unwrap();
            }
        }
    }
    // The remaining cases are a forced release, foreign data, a server that loses its data, and a
    // server that does not reply.
    let guard = door(&one).acquire().await.unwrap();
    assert!(door(&other).force_release().await.unwrap());
    drop(guard);
    redis.command(&["SET", "app:text", "x"]);
    let error = one.lock("app:text").unwrap().try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let fields = ["HMSET", "app:fields"].into_iter().chain(many.iter().map(String::as_str));
    redis.command(&fields.collect::<Vec<_>>());
    assert!(one.lock("app:fields").unwrap().try_acquire().await.unwrap().is_none());
    redis.command(&["SCRIPT", "FLUSH"]);
    let guard = door(&one).acquire().await.unwrap();
    let waiting = waiter(door(&other));
    sleep(secs(8)).await;
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
    sleep(secs(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_of_the_guide_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    tenant(&redis, "app");
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    do_everything(&redis).await;
    permissions_are_exact(&redis, &before, &command_of_the_guide("leasehold"));
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_permissions_suffice_for_fenced_locks() {
    let redis = Redis::start();
    let commands = commands_of_the_guide("leasehold");
    let [plain, _, _, fenced, ..] = &commands[..] else { panic!("{commands:?}") };
    follow(&redis, plain);
    let refused =
        as_user(&redis, "leasehold").await.fenced_lock("app:door").unwrap().acquire().await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    let needs = "the request needs permissions for the keys `app:door`, \
                 `redisson_lock_token:{app:door}`";
    assert!(refused.to_string().contains(needs), "{refused}");
    follow(&redis, fenced);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    let [one, other] = [as_user(&redis, "leasehold").await, as_user(&redis, "leasehold").await];
    let (one, other) =
        (one.fenced_lock("app:door").unwrap(), other.fenced_lock("app:door").unwrap());
    let guard = one.acquire().await.unwrap();
    let first = guard.token();
    let waiting = tokio::spawn(async move { other.acquire().await });
    sleep(ms(1_500)).await;
    guard.release().await.unwrap().into_result().unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > first);
    guard.release().await.unwrap().into_result().unwrap();
    let fenced_lock = as_user(&redis, "leasehold").await.fenced_lock("app:door").unwrap();
    assert_eq!(fenced_lock.raise_token(1041).await.unwrap(), 1041);
    permissions_are_exact(&redis, &before, fenced);
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_for_replicas_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let _replica = Redis::start_replica_of(&redis);
    let commands = commands_of_the_guide("leasehold");
    let replicas = commands.iter().find(|command| command.contains(&"+wait")).unwrap();
    follow(&redis, &commands[0]);
    let one = Replicas::at_least(1).within(SOON);
    let ours = || async { door(&as_user(&redis, "leasehold").await).replicated(one) };
    let refused = ours().await.acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    follow(&redis, replicas);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    release_guard(ours().await.acquire().await.unwrap()).await;
    permissions_are_exact(&redis, &before, replicas);
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_for_permits_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let words = command_of_the_guide("permits");
    follow(&redis, &words);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    let [one, other] = [as_user(&redis, "permits").await, as_user(&redis, "permits").await];
    let [ours, theirs] =
        [&one, &other].map(|client| client.expirable_semaphore("app:seats").unwrap());
    assert!(ours.set_if_absent(2).await.unwrap());
    redis.command(&["PEXPIRE", "app:seats", "600000"]);
    let guard = ours.clone().ttl(secs(3)).acquire_many(2).await.unwrap();
    eventually("the permits are renewed", secs(10), || one.stats().renewals > 0);
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    sleep(secs(7)).await;
    assert!(ours.release_id(guard.ids()[0]).await.unwrap());
    drop(waiting.await.unwrap().unwrap());
    drop(guard);
    let expires = ours.clone().lease(ms(20)).acquire().await.unwrap();
    sleep(ms(100)).await;
    assert_eq!((ours.total().await.unwrap(), ours.available().await.unwrap()), (2, 2));
    assert!(ours.lease_of(expires.ids()[0]).await.unwrap().is_none());
    redis.command(&["SCRIPT", "FLUSH"]);
    ours.add(1).await.unwrap();
    ours.set(1).await.unwrap();
    redis.command(&["LPUSH", "app:list", "x"]);
    let error = one.expirable_semaphore("app:list").unwrap().try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    sleep(secs(4)).await;
    permissions_are_exact(&redis, &before, &words);
    // The user may not use permits of other tenants.
    let theirs = one.expirable_semaphore("evil:seats").unwrap().set(1).await;
    assert!(matches!(theirs, Err(Error::Forbidden { .. })), "{theirs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_for_semaphores_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let words = command_of_the_guide("semaphores");
    follow(&redis, &words);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    let [one, other] = [as_user(&redis, "semaphores").await, as_user(&redis, "semaphores").await];
    let [ours, theirs] = [&one, &other].map(|client| client.semaphore("app:seats").unwrap());
    assert!(ours.set_if_absent(2).await.unwrap());
    let guard = ours.acquire(2).await.unwrap();
    let waiting = tokio::spawn(async move { theirs.acquire(2).await });
    // A long wait also checks the subscription.
    let commands = ["hvals", "ping"];
    let waited_long =
        || commands.iter().all(|command| redis.calls().since(&before).of(command) > 0);
    eventually("the server keeps permits for the longest waiter", secs(30), waited_long);
    guard.release().await.unwrap().into_result().unwrap();
    let guard = waiting.await.unwrap().unwrap();
    redis.command(&["CLIENT", "KILL", "USER", "semaphores"]);
    sleep(secs(1)).await;
    assert!(ours.acquire_within(1, secs(3)).await.unwrap_err().is_busy());
    assert!(ours.acquire(1).now_or_never().is_none(), "the acquisition is cancelled in flight");
    sleep(secs(1)).await;
    guard.release().await.unwrap().into_result().unwrap();
    assert_eq!(ours.available().await.unwrap(), 2);
    redis.command(&["SCRIPT", "FLUSH"]);
    ours.add(1).await.unwrap();
    assert_eq!(ours.drain().await.unwrap(), 3);
    assert!(ours.delete().await.unwrap());
    redis.command(&["LPUSH", "app:list", "x"]);
    let error = one.semaphore("app:list").unwrap().try_acquire(1).await.unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    sleep(secs(4)).await;
    permissions_are_exact(&redis, &before, &words);
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_for_latches_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let words = command_of_the_guide("latches");
    follow(&redis, &words);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    let [one, other] = [as_user(&redis, "latches").await, as_user(&redis, "latches").await];
    let [ours, theirs] = [&one, &other].map(|client| client.latch("app:ready").unwrap());
    assert!(ours.set(2).await.unwrap());
    let waiting = tokio::spawn(async move { theirs.wait().await });
    sleep(secs(7)).await;
    redis.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(ours.count_down().await.unwrap(), 1);
    assert_eq!(ours.count().await.unwrap(), 1);
    ours.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(ours.set(1).await.unwrap() && ours.delete().await.unwrap());
    redis.command(&["LPUSH", "app:list", "x"]);
    let error = one.latch("app:list").unwrap().wait().await.unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    sleep(secs(4)).await;
    permissions_are_exact(&redis, &before, &words);
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_with_data_permission_can_write_under_its_lock() {
    // The permissions suffice for the tenant's own locks.
    let redis = Redis::start();
    tenant(&redis, "app");
    let client = as_user(&redis, "app").await;
    let guard = door(&client).acquire().await.unwrap();
    let fields = Write::hset("app:data", "a", "1");
    guard.write([fields, Write::expire("app:data", secs(9))]).await.unwrap();
    guard.write([Write::delete("app:data")]).await.unwrap();
    redis.command(&["ACL", "LOG", "RESET"]);
    guard.write([Write::set("app:text", "1")]).await.unwrap();
    let seen = Script::new("return redis.call('EXISTS', KEYS[1])").key("app:text");
    assert_eq!(guard.eval(seen).await.unwrap(), Value::Int(1));
    let refused = redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");

    // The user may not write data of other tenants.
    let theirs = guard.write([Write::set("evil:data", "1")]).await;
    assert!(matches!(theirs, Err(Error::Forbidden { .. })), "{theirs:?}");
    release_guard(guard).await;
}

/// A name with braces has other keys and channels than a name without braces.
#[tokio::test(flavor = "multi_thread")]
async fn acl_users_for_braced_names_are_denied_nothing() {
    let redis = Redis::start();
    follow(&redis, &command_of_the_guide("tenant-7"));
    let mut app = command_of_the_guide("leasehold");
    app[2] = "app";
    app.extend(patterns_of_the_guide("If some names with the prefix `app:` also have braces"));
    follow(&redis, &app);
    for (user, name) in [("tenant-7", "{tenant-7}:door"), ("app", "app:{7}:door")] {
        let [one, other] = [as_user(&redis, user).await, as_user(&redis, user).await];
        redis.command(&["ACL", "LOG", "RESET"]);
        for _ in 0..3 {
            let guard = one.lock(name).unwrap().acquire().await.unwrap();
            let waiting = waiter(other.lock(name).unwrap());
            let place = format!("leasehold_lock__queue::{name}");
            eventually("the waiter is in the queue", SOON, || {
                redis.command(&["ZCARD", &place]).number() == 1
            });
            release_guard(guard).await;
            release_guard(entered(waiting).await).await;
        }
        let refused = redis.command(&["ACL", "LOG"]);
        assert!(refused.list().is_empty(), "{user}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_cannot_affect_locks_of_another_tenant() {
    // given a holder, a waiter, and another tenant that knows all names
    let redis = Redis::start();
    tenant(&redis, "app");
    tenant(&redis, "evil");
    let [one, other] = [as_user(&redis, "app").await, as_user(&redis, "app").await];
    let guard = door(&one).acquire().await.unwrap();
    let waiting = waiter(door(&other));
    until_places(&redis, DOOR, 1);
    let mut evil = raw(&redis, "evil");
    let (places, yielded, turns) = (queue(DOOR), yielded(DOOR), turns_of(&other, DOOR));
    let (releases, queuers) = (channel(DOOR), queuers(DOOR));

    // when the other tenant tries to read or write a key
    let mut tried: Vec<Vec<&str>> = vec![
        vec!["PTTL", DOOR],
        vec!["TYPE", DOOR],
        vec!["HGETALL", DOOR],
        vec!["HLEN", DOOR],
        vec!["EXISTS", DOOR],
        vec!["HSCAN", DOOR, "0"],
        vec!["HGET", DOOR, guard.owner().as_str()],
        vec!["HEXISTS", DOOR, guard.owner().as_str()],
        vec!["HSET", DOOR, "evil:1", "1"],
        vec!["HDEL", DOOR, guard.owner().as_str()],
        vec!["DEL", DOOR],
        vec!["PEXPIRE", DOOR, "1"],
        vec!["DEL", &places],
        vec!["PTTL", &places],
        vec!["PEXPIRE", &places, "1"],
        vec!["ZADD", &places, "0", "evil:1"],
        vec!["ZREM", &places, "evil:1"],
        vec!["ZRANGE", &places, "0", "-1"],
        vec!["ZRANGEBYSCORE", &places, "-inf", "+inf"],
        vec!["ZPOPMIN", &places],
        vec!["GET", &yielded],
        vec!["SET", &yielded, "0"],
        vec!["KEYS", "*"],
        vec!["SCAN", "0"],
        vec!["MONITOR"],
        vec!["CLIENT", "LIST"],
        vec!["PUBSUB", "CHANNELS"],
        vec!["PSUBSCRIBE", "*"],
    ];
    // or to delete the key by a script that declares the key, or by a script that does not declare
    // it
    for key in [DOOR, &places] {
        tried.push(vec!["EVAL", "return redis.call('DEL', KEYS[1])", "1", key]);
        tried.push(vec!["EVAL", "return redis.call('DEL', ARGV[1])", "0", key]);
    }
    // or to publish or to subscribe
    let channels = [&releases, &queuers, &turns];
    for channel in channels {
        tried.push(vec!["PUBLISH", channel, "0"]);
        tried.push(vec!["EVAL", "return redis.call('PUBLISH', ARGV[1], '0')", "0", channel]);
        tried.push(vec!["SUBSCRIBE", channel]);
    }
    for words in &tried {
        let reply = evil.command(words);
        assert!(is_forbidden(&reply), "{words:?}: {reply:?}");
    }
    // and a client of the other tenant cannot acquire the lock, neither by its name nor by a name
    // with braces
    let beside = as_user(&redis, "evil").await;
    for name in ["app:door", "{app:door}", "{app:door}evil:x"] {
        let error = beside.lock(name).unwrap().try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{name}: {error:?}");
    }

    // then the lock and the queue have not changed
    assert!(guard.is_held() && !waiting.is_finished());
    assert_eq!(hash(&redis, DOOR), [(guard.owner().to_string(), "1".into())]);
    let released = Instant::now();
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
    assert!(released.elapsed() < ms(900), "{:?}", released.elapsed());
}

// Clients of one tenant.

/// The messages of a client that tries to deceive other clients.
fn forgeries(holder: &LockGuard, waits: &Client) -> Vec<String> {
    let mut all = ["0", "00", "1", "-1", "750", "1e9", "", " ", "\0", "nil", "0\r\n", "true"]
        .map(str::to_owned)
        .to_vec();
    all.push(format!("granted 1 1 {} {DOOR}", holder.owner()));
    all.push(format!("granted 1 1 {}:1 {DOOR}", waits.id()));
    all.push(holder.owner().to_string());
    all.extend([u32::MAX.to_string(), u64::MAX.to_string(), "9".repeat(400), "x".repeat(100_000)]);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_message_grants_and_releases_nothing() {
    // given a holder, a waiter, and a client that has waited before
    let redis = Redis::start();
    tenant(&redis, "app");
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(as_user(&redis, "app").await);
    }
    let guard = door(&clients[0]).acquire().await.unwrap();
    let bystander = waiter(door(&clients[2]));
    until_places(&redis, DOOR, 1);
    bystander.abort();
    let waiting = waiter(door(&clients[1]));
    until_places(&redis, DOOR, 1);
    let asked = redis.calls();

    // when a client with the same permissions publishes all forged messages on all channels
    let mut forger = raw(&redis, "app");
    let mut channels = vec![channel(DOOR), queuers(DOOR)];
    channels.extend(clients.iter().map(|client| turns_of(client, DOOR)));
    let began = Instant::now();
    let mut output = 0;
    while began.elapsed() < secs(2) {
        for message in forgeries(&guard, &clients[1]) {
            for channel in &channels {
                assert!(forger.command(&["PUBLISH", channel, &message]).number() >= 0);
                output += 1;
            }
        }
        // then no forged message has ended the hold, or has made the waiter believe that it holds
        assert!(guard.is_held() && !waiting.is_finished());
        assert_eq!(hash(&redis, DOOR), [(guard.owner().to_string(), "1".into())]);
    }
    let asked = redis.calls().since(&asked).of("evalsha");
    println!("{output} forged messages: {asked} EVALSHA in {:?}", began.elapsed());
    sleep(ms(300)).await;
    assert!(guard.is_held() && !waiting.is_finished());
    release_guard(guard).await;
    release_guard(entered(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_messages_do_not_keep_the_watchdog_busy() {
    // given a subscribed holder, and a client that repeatedly publishes that the lock is free
    let redis = Redis::start();
    tenant(&redis, "app");
    let client = as_user(&redis, "app").await;
    let guard = door(&client).acquire().await.unwrap();
    let waiting = waiter(door(&client));
    eventually("the waiter is subscribed", SOON, || subscribers(&redis, &channel(DOOR)) == 1);
    waiting.abort();
    let mut forger = raw(&redis, "app");
    let dropped = client.lock("app:another").unwrap().acquire().await.unwrap();
    let (asked, began) = (redis.calls(), Instant::now());
    drop(dropped);
    let mut output = 0;
    while began.elapsed() < ms(1_000) {
        assert_eq!(forger.command(&["PUBLISH", &channel(DOOR), "0"]).number(), 1);
        output += 1;
    }

    // then the holder's client checks its lock from time to time, and its background tasks still
    // run
    let (asked, took) = (redis.calls().since(&asked).of("evalsha"), began.elapsed());
    assert!(u128::from(asked) <= took.as_millis() / 25 + 2, "{asked} for {output} in {took:?}");
    assert!(asked > 0 && guard.is_held());
    assert!(hash(&redis, "app:another").is_empty(), "the dropped lock is released meanwhile");
    release_guard(guard).await;
}

/// The owner of the lock, and its remaining time in milliseconds, read by one script.
fn held_by(redis: &Redis) -> (String, i64) {
    let look = "return {redis.call('HKEYS', KEYS[1])[1] or '', redis.call('PTTL', KEYS[1])}";
    let seen = redis.command(&["EVAL", look, "1", DOOR]);
    (seen.list()[0].text().to_owned(), seen.list()[1].number())
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_queue_entry_blocks_less_than_two_seconds() {
    let redis = Redis::start();
    tenant(&redis, "app");
    let clients = [as_user(&redis, "app").await, as_user(&redis, "app").await];
    let [holder, waits] = &clients;
    let mut forger = raw(&redis, "app");
    let mut ear = raw(&redis, "app");
    ear.command(&["SUBSCRIBE", "leasehold_lock__waiter:{app:door}:evil"]);
    // Forged entries look valid. They name a subscribed client, or clients that want the lock, and
    // come before all other entries.
    for forged in [
        &[("1", "evil:1".to_owned())][..],
        &[("1", "evil:1".into()), ("2", "evil:2".into()), ("3", "evil:3".into())],
        &[("1", format!("{}:999999", waits.id())), ("2", format!("{}:999999", holder.id()))],
        &[("-inf", "evil:1".into()), ("-9e15", "evil:2".into())],
        &[("1", "evil:1|1|3153600000000".into()), ("-inf", "evil:1|1|3153600000000".into())],
    ] {
        // given a lock whose release reserves the lock for the next client, and a waiter
        let first = door(waits).acquire().await.unwrap();
        let waiting = waiter(door(holder));
        until_places(&redis, DOOR, 1);
        release_guard(first).await;
        let guard = entered(waiting).await;
        let waiting = waiter(door(waits));
        until_places(&redis, DOOR, 1);

        // when the lock is released while forged entries are before the entry of the waiter
        for (score, place) in forged {
            forger.command(&["ZADD", &queue(DOOR), score, place]);
        }
        let released = Instant::now();
        release_guard(guard).await;
        let (owner, left) = held_by(&redis);
        let reserved = forged.iter().any(|(_, place)| *place == owner);
        assert!(!reserved || left <= 750, "{owner}: {left}");

        // then the waiter acquires soon, and no other client acquires
        let guard = within(SOON, "the waiter acquires", waiting).await.unwrap().unwrap();
        let took = released.elapsed();
        println!("{forged:?}: {took:?}");
        // The waiter was notified, because its own timer takes longer.
        assert!(took < secs(2), "{forged:?}: {took:?}");
        assert_eq!(hash(&redis, DOOR), [(guard.owner().to_string(), "1".into())]);
        assert!(door(holder).try_acquire().await.unwrap().is_none());
        release_guard(guard).await;
        redis.command(&["DEL", &queue(DOOR)]);
        eventually("the lock is free", SOON, || hash(&redis, DOOR).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_users_of_the_guide_may_use_a_quorum_lock() {
    for user in ["leasehold", "everything"] {
        let servers = [(); 3].map(|()| Redis::start());
        let mut clients = vec![];
        for redis in &servers {
            for command in commands_of_the_guide(user) {
                // The first command creates the user, and another command adds the key of quorum
                // locks.
                if command.contains(&"on") || command.contains(&"~leasehold_quorum__since") {
                    follow(redis, &command);
                }
            }
            redis.command(&["ACL", "LOG", "RESET"]);
            clients.push(as_user(redis, user).await);
        }
        let door = QuorumClient::of(clients).unwrap().lock("app:door").unwrap();
        for _ in 0..2 {
            let guard = door.acquire().await.unwrap();
            assert_eq!(guard.release().await.unwrap(), leasehold::Release::Released);
        }
        for redis in &servers {
            assert!(redis.command(&["ACL", "LOG"]).list().is_empty(), "{user}");
        }
    }
}
