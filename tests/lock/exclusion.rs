//! At most one task holds the lock at a time.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use leasehold::{Client, MemoryStore, Release};

use super::world::{World, door, leave, millis, secs};

#[tokio::test(start_paused = true)]
async fn two_clients_exclude_each_other() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    assert!(world.other_door().try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_client_exclude_each_other() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    assert!(world.door().try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn task_that_acquires_twice_waits_for_itself() {
    let world = World::new();
    let _guard = world.door().acquire().await.unwrap();
    let again = timeout(secs(300), world.door().acquire()).await;
    assert!(again.is_err());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_many_clients_exclude_each_other() {
    // given three clients with twenty tasks each
    let store = MemoryStore::new();
    let clients: Vec<_> = (0..3).map(|_| Client::with_store(&store)).collect();
    let (inside, rounds) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks = clients.iter().flat_map(|client| (0..20).map(|_| door(client)));
    let tasks = tasks.map(|lock| {
        let (inside, rounds) = (Arc::clone(&inside), Arc::clone(&rounds));
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            // then no other task holds the lock at the same time
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            sleep(millis(7)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            rounds.fetch_add(1, Ordering::SeqCst);
            guard.release().await.unwrap()
        })
    });

    // and each task acquires once
    let released = join_all(tasks.collect::<Vec<_>>()).await;
    assert!(released.iter().all(|it| matches!(it, Ok(Release::Released))));
    assert_eq!(rounds.load(Ordering::SeqCst), 60);
}

#[tokio::test(start_paused = true)]
async fn different_names_do_not_exclude_each_other() {
    let world = World::new();
    let _door = world.door().acquire().await.unwrap();
    let window = world.one.lock("window").unwrap();
    assert!(window.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn lock_and_its_clone_exclude_each_other() {
    let lock = World::new().door();
    let _guard = lock.clone().acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn each_acquisition_has_a_new_owner_with_the_id_of_the_client() {
    let world = World::new();
    let mut owners = HashSet::new();
    for _ in 0..10 {
        let guard = world.door().acquire().await.unwrap();
        assert!(guard.owner().as_str().starts_with(&format!("{}:", world.one.id())));
        owners.insert(guard.owner().clone());
        leave(guard).await;
    }
    assert_eq!(owners.len(), 10);
    assert_ne!(world.one.id(), world.other.id());
}

#[tokio::test(start_paused = true)]
async fn locks_with_different_names_of_any_text_are_independent() {
    let client = Client::in_memory();
    let long = "x".repeat(512);
    let names = ["a", "a ", "a\n", "a\0", "ключ", "🔒", "{tenant}:a", &long];
    let mut guards = Vec::new();
    for name in names {
        let guard = client.lock(name).unwrap().try_acquire().await.unwrap().unwrap();
        assert_eq!(guard.name().as_str(), name);
        guards.push(guard);
    }
    assert_eq!(client.stats().held, names.len() as u64);
}
