//! What clients publish about themselves, on a real server.

use std::process;

use crate::common::{client, commands_of_the_guide, follow, hash, keys, pttl, secs};
use leasehold::Client;
use testkit::Redis;
use tokio::time::sleep;

async fn named(redis: &Redis) -> Client {
    Client::builder().application("orders", "1.4.2").connect(&redis.url()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn lasting_hold_publishes_its_client_by_one_set() {
    let redis = Redis::start();
    let (holder, other) = (named(&redis).await, client(&redis).await);
    let guard = holder.lock("door").unwrap().acquire().await.unwrap();
    let key = format!("leasehold_client__info:{{{}}}", holder.id());
    sleep(secs(4)).await;

    // given Java's keys as they are without it
    assert_eq!(keys(&redis), ["door", &key]);
    assert!((20_000..=30_000).contains(&pttl(&redis, &key)));
    let owner = guard.owner().to_string();
    assert_eq!(hash(&redis, "door"), [(owner, "1".to_owned())]);
    assert_eq!(redis.calls().of("set"), 1);

    // then another client reads it, and an operator
    let owner = other.lock("door").unwrap().holder().await.unwrap().unwrap().owner().clone();
    let info = other.client_info(&owner).await.unwrap().unwrap();
    assert_eq!((&*info.application, &*info.version, info.pid), ("orders", "1.4.2", process::id()));
    let held = info.held_since("door").unwrap().elapsed().unwrap();
    assert!((secs(3)..secs(60)).contains(&held), "{held:?}");
    let found = other.inspect("door").await.unwrap().unwrap();
    assert_eq!(found.client_of(&owner), Some(&info));
    assert!(!info.host.is_empty() && info.to_string().starts_with("orders 1.4.2 on "));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_permission_publishes_nothing_and_holds() {
    let redis = Redis::start();
    let commands = commands_of_the_guide("leasehold");
    let is_for_info = |words: &&Vec<&str>| words.contains(&"~leasehold_client__info:*");
    let allowed = commands.iter().find(is_for_info).unwrap();
    follow(&redis, &commands[0]);
    for permitted in [false, true] {
        if permitted {
            follow(&redis, allowed);
            redis.command(&["ACL", "LOG", "RESET"]);
        }
        let builder = Client::builder().application("orders", "1");
        let builder = builder.credentials("leasehold", "secret");
        let holder = builder.connect(&redis.url()).await.unwrap();
        let lock = holder.lock("app:door").unwrap().ttl(secs(3));
        let guard = lock.acquire().await.unwrap();
        sleep(secs(4)).await;
        assert!(guard.is_held());
        assert_eq!(keys(&redis).len(), if permitted { 2 } else { 1 });
        if permitted {
            assert!(holder.client_info(guard.owner()).await.unwrap().is_some());
        }
        guard.release().await.unwrap().into_result().unwrap();
    }
    let refused = redis.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
}
