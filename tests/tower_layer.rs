//! The tower layer of the examples: which requests run at the same time, and which requests fail.

#[expect(dead_code, reason = "its `main` is for `cargo run --example tower_layer`")]
#[path = "../examples/tower_layer.rs"]
mod example;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{body::Body, extract::Request, http::StatusCode};
use leasehold::{Client, Error, MemoryStore};
use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use self::example::LockLayer;

const WORK: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(2);

/// A service whose requests are keys. A request with an empty key needs no lock. The service
/// records the highest number of requests that ran at the same time.
#[derive(Clone, Default)]
struct Work {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Work {
    async fn serve(self) -> Result<(), Infallible> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep(WORK).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// Sends the requests at the same time. Each request has its own client of `store`, as if it
    /// came from another process.
    async fn send(&self, store: &MemoryStore, keys: &[&str]) -> Vec<Result<(), BoxError>> {
        let requests = keys.iter().map(|&key| {
            let key_of = |key: &String| (!key.is_empty()).then(|| key.clone());
            let layer = LockLayer::new(Client::with_store(store), TIMEOUT, key_of);
            let work = self.clone();
            let service = service_fn(move |_: String| work.clone().serve());
            tokio::spawn(ServiceBuilder::new().layer(layer).service(service).oneshot(key.into()))
        });
        let mut replies = vec![];
        for request in requests.collect::<Vec<_>>() {
            replies.push(request.await.unwrap());
        }
        replies
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_key_run_one_at_a_time() {
    let (work, store) = (Work::default(), MemoryStore::new());
    let begun = Instant::now();
    let replies = work.send(&store, &["a", "a", "a"]).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert_eq!(work.most(), 1);
    assert!(begun.elapsed() >= 3 * WORK);
}

#[tokio::test(start_paused = true)]
async fn requests_of_different_keys_or_no_key_run_concurrently() {
    for keys in [["a", "b", "c"], ["", "", ""]] {
        let work = Work::default();
        let replies = work.send(&MemoryStore::new(), &keys).await;
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        assert_eq!(work.most(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn request_is_not_served_while_another_client_holds_its_key() {
    let (work, store) = (Work::default(), MemoryStore::new());
    let _guard = Client::with_store(&store).lock("a").unwrap().acquire().await.unwrap();
    let [reply] = &work.send(&store, &["a"]).await[..] else {
        panic!("the service did not return exactly one reply")
    };
    let error = reply.as_ref().unwrap_err().downcast_ref::<Error>().unwrap();
    assert!(error.is_busy(), "{error}");
    assert_eq!(work.most(), 0);
}

#[tokio::test(start_paused = true)]
async fn http_reply_says_why_a_request_did_not_run() {
    let store = MemoryStore::new();
    let app = example::app(Client::with_store(&store));
    let status = async |method: &str| {
        let request = Request::builder().method(method).uri("/accounts/7");
        let request = request.body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status()
    };
    assert_eq!(status("POST").await, StatusCode::OK);
    let elsewhere = Client::with_store(&store).lock("accounts/7").unwrap();
    let guard = elsewhere.acquire().await.unwrap();
    assert_eq!(status("POST").await, StatusCode::CONFLICT);
    assert_eq!(status("GET").await, StatusCode::OK);
    guard.release().await.unwrap().into_result().unwrap();
    store.fail("LOADING the dataset");
    assert_eq!(status("POST").await, StatusCode::SERVICE_UNAVAILABLE);
}
