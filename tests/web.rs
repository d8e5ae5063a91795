//! The web service of the examples: its replies.

#[expect(dead_code, reason = "its `main` is for `cargo run --example web`")]
#[path = "../examples/web.rs"]
mod example;

use std::{net::SocketAddr, time::Duration};

use leasehold::{Client, MemoryStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);

/// The service with its own store, and another client of that store.
struct Service {
    address: SocketAddr,
    store: MemoryStore,
    client: Client,
    elsewhere: Client,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = MemoryStore::new();
        let (client, elsewhere) = (Client::with_store(&store), Client::with_store(&store));
        let (stop, stopped) = oneshot::channel::<()>();
        let until = async { drop(stopped.await) };
        let serving = tokio::spawn(example::serve(listener, client.clone(), until));
        Self { address, store, client, elsewhere, stop: Some(stop), serving }
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let text = format!("{request} HTTP/1.1\r\nHost: us\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Returns the status and the whole reply to `request`.
    async fn ask(&self, request: &str) -> (u16, String) {
        answer(self.send(request).await).await
    }

    async fn until_held(&self, order: &str) {
        let lock = self.elsewhere.lock(order).unwrap();
        let held = async {
            while !lock.is_locked().await.unwrap() {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, held).await.unwrap();
    }
}

async fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer}")), answer)
}

#[tokio::test]
async fn order_is_processed_unless_its_lock_is_held() {
    let service = Service::start().await;
    let (status, answer) = service.ask("POST /orders/42").await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.ends_with("billed 42\n"), "{answer}");

    let _guard = service.elsewhere.lock("orders:42").unwrap().acquire().await.unwrap();
    let (status, answer) = service.ask("POST /orders/42").await;
    assert_eq!(status, 409, "{answer}");
    assert!(answer.ends_with("another request works on it\n"), "{answer}");
}

#[tokio::test]
async fn failed_store_makes_the_service_unavailable() {
    let service = Service::start().await;
    for (words, expected) in [
        ("LOADING the dataset", 503),
        ("OOM command not allowed", 503),
        ("NOPERM no permission", 500),
    ] {
        service.store.fail(words);
        let (status, answer) = service.ask("POST /orders/42").await;
        assert_eq!(status, expected, "{words}: {answer}");
        assert!(!answer.contains("NOPERM"), "{answer}");
    }
    service.store.heal();
    assert_eq!(service.ask("POST /orders/42").await.0, 200);
}

#[tokio::test]
async fn disconnected_client_releases_its_lock() {
    let service = Service::start().await;
    let stream = service.send("POST /orders/42").await;
    service.until_held("orders:42").await;
    drop(stream);
    let lock = service.elsewhere.lock("orders:42").unwrap();
    let guard = lock.acquire_within(SOON).await.unwrap();
    assert!(guard.release().await.unwrap().into_result().is_ok());
}

#[tokio::test]
async fn metrics_are_served() {
    let service = Service::start().await;
    assert_eq!(service.ask("POST /orders/42").await.0, 200);
    let (status, answer) = service.ask("GET /metrics").await;
    assert_eq!(status, 200);
    assert!(
        answer.contains("\nleasehold_hold_duration_seconds_count{outcome=\"released\"} 1\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn service_is_ready_while_locks_can_be_acquired() {
    let service = Service::start().await;
    assert_eq!(service.ask("GET /ready").await.0, 200);
    service.store.fail("LOADING the dataset");
    let (status, answer) = service.ask("GET /ready").await;
    assert_eq!(status, 503, "{answer}");
    assert!(!answer.contains("LOADING"), "{answer}");
    service.store.heal();
    assert_eq!(service.ask("GET /ready").await.0, 200);
}

#[tokio::test]
async fn request_in_flight_finishes_before_shutdown() {
    let mut service = Service::start().await;
    let stream = service.send("POST /orders/42").await;
    service.until_held("orders:42").await;
    service.stop.take().unwrap().send(()).unwrap();
    assert_eq!(answer(stream).await.0, 200);

    timeout(SOON, service.serving).await.unwrap().unwrap().unwrap();
    assert_eq!(service.client.stats().held, 0);
    assert!(service.elsewhere.lock("orders:42").unwrap().try_acquire().await.unwrap().is_some());
}
