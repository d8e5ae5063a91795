//! The map and the set on a real server: their keys, their costs, and faults.

use crate::common::{
    GUIDE, SOON, as_user, client, commands_of_the_guide, follow, hash, keys, ms,
    permissions_are_exact, pttl, within,
};
use leasehold::{Client, Error, Result};
use testkit::{Proxy, Redis};
use tokio::time::sleep;

const KEY: &str = "42";

/// Creates the user of maps as the guide describes, and returns the command for this.
fn user_of_maps(redis: &Redis) -> Vec<&'static str> {
    let words = commands_of_the_guide("maps").swap_remove(0);
    follow(redis, &words);
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn map_is_a_redis_hash_and_set_is_a_redis_set() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let orders = client.map::<String, u32>("orders").unwrap();
    orders.insert(KEY, &7).await.unwrap();
    orders.insert_many(&[("43".to_owned(), 8)]).await.unwrap();
    assert_eq!(hash(&redis, "orders"), [("42".into(), "7".into()), ("43".into(), "8".into())]);
    let seen = client.set::<String>("seen").unwrap();
    seen.insert(KEY).await.unwrap();
    assert_eq!(redis.command(&["SMEMBERS", "seen"]).list()[0].text(), "42");
    // Each idempotency key has a TTL.
    for key in keys(&redis).iter().filter(|key| key.contains("__receipt")) {
        let rest = pttl(&redis, key);
        assert!((1..=60_000).contains(&rest), "{key}: {rest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_map_change_returns_the_result_of_the_first_try() {
    let redis = Redis::start();
    let proxy = Proxy::before(redis.port());
    let client = Client::builder().command_timeout(ms(500)).connect(&proxy.url()).await.unwrap();
    let orders = client.map::<String, u32>("orders").unwrap();
    let seen = client.set::<String>("seen").unwrap();
    async fn retried<T>(proxy: &Proxy, change: impl Future<Output = Result<T>>) -> T {
        proxy.lose_reply_to("EVALSHA");
        within(SOON, "the second try", change).await.unwrap()
    }
    orders.insert(KEY, &7).await.unwrap();
    assert_eq!(retried(&proxy, orders.insert(KEY, &8)).await, Some(7));
    assert_eq!(retried(&proxy, orders.add(KEY, 1)).await, 9);
    assert!(retried(&proxy, orders.remove_if(KEY, &9)).await);
    assert!(retried(&proxy, seen.insert(KEY)).await);
    assert_eq!(retried(&proxy, seen.pop()).await.as_deref(), Some(KEY));
    let both = [KEY, "43"].map(str::to_owned);
    assert!(retried(&proxy, seen.insert_all_if_none(&both)).await);
    assert!(retried(&proxy, seen.remove(KEY)).await);
    assert_eq!(proxy.lost_replies(), 7);
    assert_eq!((orders.len().await.unwrap(), seen.len().await.unwrap()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn map_entry_expires_after_its_ttl() {
    let redis = Redis::start_with_field_ttls();
    let orders = client(&redis).await.map::<String, u32>("orders").unwrap();
    orders.insert_for(KEY, &7, ms(60_000)).await.unwrap();
    let ttl = || redis.command(&["HPTTL", "orders", "FIELDS", "1", "42"]).list()[0].number();
    assert!((50_000..=60_000).contains(&ttl()), "{}", ttl());
    assert_eq!(orders.add(KEY, 1).await.unwrap(), 8);
    assert!(ttl() > 0);
    assert_eq!(orders.insert(KEY, &9).await.unwrap(), Some(8));
    assert_eq!(ttl(), -1);
    orders.insert_for(KEY, &10, ms(20)).await.unwrap();
    sleep(ms(40)).await;
    assert_eq!(orders.get(KEY).await.unwrap(), None);
    // Valkey 9 counts the entry until it removes it.
    let removed = async {
        while orders.len().await.unwrap() > 0 {
            sleep(ms(10)).await;
        }
    };
    within(SOON, "the server removes the entry", removed).await;
}

/// Tries to change a map and a set of this name. Returns the errors.
async fn failed_changes(client: &Client, name: &str) -> Vec<Error> {
    let map = client.map::<String, u32>(name).unwrap();
    vec![
        map.insert(KEY, &7).await.unwrap_err(),
        map.insert_many(&[(KEY.to_owned(), 7)]).await.unwrap_err(),
        map.add(KEY, 7).await.unwrap_err(),
        client.set::<String>(name).unwrap().insert(KEY).await.unwrap_err(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn key_of_another_type_is_reported() {
    let redis = Redis::start();
    let client = client(&redis).await;
    redis.command(&["SET", "text", "x"]);
    let mut errors = failed_changes(&client, "text").await;
    let map = client.map::<String, u32>("text").unwrap();
    errors.push(map.get(KEY).await.unwrap_err());
    errors.push(map.stream().next().await.unwrap_err());
    errors.push(client.set::<String>("text").unwrap().pop().await.unwrap_err());
    for error in errors {
        let is_text = matches!(&error, Error::WrongType { found, .. } if found == "string");
        assert!(is_text, "{error}");
    }
    assert_eq!(redis.command(&["GET", "text"]).text(), "x");
    assert_eq!(keys(&redis), ["text"]);
}

/// Former bug: a denied write left its idempotency key. A repetition of the request then returned
/// the reply in this key.
#[tokio::test(flavor = "multi_thread")]
async fn denied_map_change_leaves_no_idempotency_key() {
    let redis = Redis::start();
    user_of_maps(&redis);
    redis.command(&["ACL", "SETUSER", "maps", "-hset", "-hincrby", "-sadd"]);
    for error in failed_changes(&as_user(&redis, "maps").await, "app:data").await {
        assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    }
    assert_eq!(keys(&redis), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_user_for_maps_has_exactly_the_needed_permissions() {
    let redis = Redis::start();
    let mut words = user_of_maps(&redis);
    redis.command(&["ACL", "LOG", "RESET"]);
    let before = redis.calls();
    let client = as_user(&redis, "maps").await;
    let orders = client.map::<String, u32>("app:orders").unwrap();
    orders.insert(KEY, &7).await.unwrap();
    orders.insert_many(&[(KEY.to_owned(), 8)]).await.unwrap();
    assert_eq!(orders.get(KEY).await.unwrap(), Some(8));
    assert!(orders.contains(KEY).await.unwrap());
    assert_eq!(orders.add(KEY, 1).await.unwrap(), 9);
    assert_eq!(orders.len().await.unwrap(), 1);
    assert!(orders.stream().next().await.unwrap().is_some());
    orders.remove(KEY).await.unwrap();
    let seen = client.set::<String>("app:seen").unwrap();
    assert!(seen.insert(KEY).await.unwrap());
    assert!(seen.contains(KEY).await.unwrap());
    assert_eq!(seen.members().await.unwrap(), [KEY]);
    assert_eq!(seen.pop().await.unwrap().as_deref(), Some(KEY));
    assert_eq!(seen.len().await.unwrap(), 0);
    redis.command(&["SCRIPT", "FLUSH"]);
    redis.command(&["SET", "app:text", "x"]);
    let text = client.map::<String, u32>("app:text").unwrap();
    assert!(matches!(text.get(KEY).await, Err(Error::WrongType { .. })));
    assert!(client.health().await.round_trip.is_some());
    // The user needs `del` only after a change that the ACL denies.
    words.retain(|word| *word != "+del");
    permissions_are_exact(&redis, &before, &words);
}

/// If the change came first, Java's local caches would keep old values.
#[tokio::test(flavor = "multi_thread")]
async fn change_without_permission_to_notify_caches_does_not_happen() {
    let redis = Redis::start();
    let url = redis.user("silent", &["~*", "+@all", "resetchannels"]);
    let client = Client::connect(&url).await.unwrap();
    let orders = client.map::<String, u32>("orders").unwrap();
    orders.insert(KEY, &7).await.unwrap();
    let notifying = orders.clone().notify_local_caches(true);
    let error = notifying.insert(KEY, &8).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    assert!(notifying.remove(KEY).await.is_err());
    assert_eq!(orders.get(KEY).await.unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn acl_users_for_maps_can_lock_map_keys() {
    let redis = Redis::start();
    user_of_maps(&redis);
    let once = ["on", ">secret", "resetkeys", "resetchannels", "-@all", "leasehold"];
    let mut lock = commands_of_the_guide("leasehold").swap_remove(0);
    lock.retain(|word| !once.contains(word));
    lock.insert(2, "maps");
    let (_, from) = GUIDE.split_once("The lock of a key or an element").unwrap();
    let (paragraph, _) = from.split_once("\n\n").unwrap();
    let quoted = paragraph.split('`').skip(1).step_by(2).map(|it| it.trim_matches('\''));
    // Redis 7.0 has no `HPEXPIRE`, and Redis 6.2 has no `SPUBLISH`. This test needs neither.
    let unneeded = ["+hpexpire", "+spublish"];
    lock.extend(quoted.filter(|it| it.starts_with(['~', '&', '+']) && !unneeded.contains(it)));
    follow(&redis, &lock);
    follow(&redis, &commands_of_the_guide("everything")[0]);
    for user in ["maps", "everything"] {
        redis.command(&["ACL", "LOG", "RESET"]);
        let one = as_user(&redis, user).await.map::<String, u32>("app:orders").unwrap();
        let other = as_user(&redis, user).await.map("app:orders").unwrap();
        let [one, other] = [one, other].map(|orders| orders.notify_local_caches(true));
        let guard = one.lock(KEY).unwrap().acquire().await.unwrap();
        let computing = tokio::spawn(async move {
            other.get_or_insert_with(KEY, SOON, async || Ok::<_, Error>(7)).await
        });
        sleep(ms(1_500)).await;
        guard.release().await.unwrap().into_result().unwrap();
        assert_eq!(computing.await.unwrap().unwrap(), 7);
        assert_eq!(one.remove(KEY).await.unwrap(), Some(7));
        let refused = redis.command(&["ACL", "LOG"]);
        assert!(refused.list().is_empty(), "{user}: {refused:?}");
    }
}
