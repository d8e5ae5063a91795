//! Valid and invalid settings.

use std::time::Duration;

use leasehold::{Client, Error, Lock, WaitStrategy};

use super::world::{World, door, secs};

async fn refusal(lock: &Lock) -> String {
    let refused = lock.acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Duration(_)), "{refused}");

    // and every other way to acquire fails with the same text
    let text = refused.to_string();
    let within = lock.acquire_within(secs(1)).await.unwrap_err();
    let tried = lock.try_acquire().await.unwrap_err();
    let run = lock.run(async |_| ()).await.unwrap_err();
    for other in [within, tried, run] {
        assert_eq!(other.to_string(), text);
    }
    text
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_too_short_duration_names_setting_and_minimum() {
    let lock = World::new().door();
    let poll = |first, longest| WaitStrategy::Polling { initial: first, max: longest };
    for short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        for (setting, lock) in [
            ("ttl", lock.clone().ttl(short)),
            ("lease", lock.clone().lease(short)),
            ("max_hold", lock.clone().max_hold(short)),
            ("initial interval of polling", lock.clone().wait_strategy(poll(short, secs(1)))),
            ("max interval of polling", lock.clone().wait_strategy(poll(secs(1), short))),
        ] {
            let text = refusal(&lock).await;
            assert!(text.contains(&format!("`{setting}`")), "{setting}: {text}");
            assert!(text.contains("at least 1 ms"), "{setting}: {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_too_long_duration_names_setting_and_maximum() {
    let lock = World::new().door();
    for (setting, lock) in [
        ("ttl", lock.clone().ttl(Duration::MAX)),
        ("lease", lock.clone().lease(Duration::MAX)),
        ("max_hold", lock.clone().max_hold(Duration::MAX)),
    ] {
        let text = refusal(&lock).await;
        assert!(text.contains(&format!("`{setting}`")), "{setting}: {text}");
        assert!(text.contains("at most 100 years"), "{setting}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_ttl_of_the_client_is_refused() {
    let client = Client::builder().ttl(Duration::ZERO).in_memory();
    assert!(refusal(&door(&client)).await.contains("`ttl`"));
}

#[test]
fn invalid_name_is_refused_with_a_remedy() {
    let client = Client::in_memory();
    let too_long = "x".repeat(513);
    for (name, advice) in
        [("", "at least one character"), (&too_long, "512 bytes"), ("a{b", "hash tag")]
    {
        let refused = client.lock(name).unwrap_err();
        assert!(matches!(refused, Error::Name(_)));
        assert!(refused.to_string().contains(advice), "{refused}");
    }
}
