//! The set, on the store in memory and in virtual time.

use leasehold::{Client, Error, MemoryStore};

const KEY: &str = "42";

#[tokio::test(start_paused = true)]
async fn set_has_each_element_once() {
    let store = MemoryStore::new();
    let [one, other] = [(); 2].map(|()| Client::with_store(&store).set::<String>("seen").unwrap());
    assert!(one.insert(KEY).await.unwrap() && !other.insert(KEY).await.unwrap());
    assert!(one.insert_all_if_none(&[]).await.unwrap());
    let many: Vec<_> = (0..4_001).map(|n: u32| n.to_string()).collect();
    let refused = one.insert_all_if_none(&many).await.unwrap_err();
    assert!(matches!(refused, Error::TooMany { most: 4_000, .. }), "{refused}");
    assert!(!one.insert_all_if_none(&many[..4_000]).await.unwrap());
    assert_eq!(other.pop().await.unwrap().as_deref(), Some(KEY));
    assert!(one.insert_all_if_none(&many[..4_000]).await.unwrap());
    assert_eq!(other.len().await.unwrap(), 4_000);
}

#[tokio::test(start_paused = true)]
async fn members_are_read_page_by_page() {
    let (elements, all) =
        (Client::in_memory().set::<u32>("elements").unwrap(), Vec::from_iter(0..300));
    assert!(elements.insert_all_if_none(&all).await.unwrap());
    let mut members = elements.members().await.unwrap();
    members.sort_unstable();
    assert_eq!(members, all);
}
