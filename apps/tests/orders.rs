//! The service `orders` with a real Redis and a real PostgreSQL.

#[expect(dead_code, reason = "its `main` is for `cargo run --bin orders`")]
#[path = "../src/bin/orders.rs"]
mod app;

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::StatusCode,
};
use leasehold::Client;
use sqlx::PgPool;
use testkit::{Postgres, Redis, eventually};
use tower::ServiceExt;

use self::app::Shop;

const SOON: Duration = Duration::from_secs(10);

struct World {
    redis: Redis,
    postgres: Postgres,
}

impl World {
    /// Starts Redis, and PostgreSQL with one order, whose total is 10.
    fn with_one_order() -> Self {
        let postgres = Postgres::start();
        postgres.sql(app::TABLE);
        postgres.sql("INSERT INTO orders VALUES (42, 10)");
        Self { redis: Redis::start(), postgres }
    }

    /// Creates another instance of the service, as if it ran in another process.
    async fn shop(&self, work: Duration) -> Shop {
        let rows = PgPool::connect(&self.postgres.url()).await.unwrap();
        Shop { locks: Client::connect(&self.redis.url()).await.unwrap(), rows, work }
    }

    fn total_and_token(&self) -> String {
        self.postgres.sql("SELECT total, token FROM orders WHERE id = 42")
    }
}

async fn post(shop: Shop, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method("POST").uri(path).body(Body::empty()).unwrap();
    let reply = shop.app().oneshot(request).await.unwrap();
    let status = reply.status();
    let body = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_service_instances_lose_no_amount_added_to_an_order() {
    let world = World::with_one_order();
    let mut requests = vec![];
    for shop in [world.shop(Duration::ZERO).await, world.shop(Duration::ZERO).await] {
        requests.extend((0..5).map(|_| tokio::spawn(post(shop.clone(), "/orders/42/add/1"))));
    }
    for request in requests {
        let (status, body) = request.await.unwrap();
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    assert!(world.total_and_token().starts_with("20|"), "{}", world.total_and_token());
}

#[tokio::test(flavor = "multi_thread")]
async fn late_write_of_an_old_hold_is_refused() {
    // given a request that has read the order, and whose lock is lost
    let world = World::with_one_order();
    let slow = world.shop(Duration::from_secs(3)).await;
    let late = tokio::spawn(post(slow, "/orders/42/add/5"));
    eventually("the request has read the order", SOON, || world.total_and_token() == "10|1");
    let shop = world.shop(Duration::ZERO).await;
    assert!(shop.locks.lock("orders:42").unwrap().force_release().await.unwrap());

    // when another request writes the order, then the first request cannot write it
    assert_eq!(post(shop, "/orders/42/add/1").await, (StatusCode::OK, "11\n".into()));
    let (status, body) = late.await.unwrap();
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert_eq!(world.total_and_token(), "11|2");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_order_and_unreachable_redis_are_errors() {
    let world = World::with_one_order();
    let shop = world.shop(Duration::ZERO).await;
    assert_eq!(post(shop, "/orders/7/add/1").await.0, StatusCode::CONFLICT);

    let locks = Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
    let shop = Shop { locks, ..world.shop(Duration::ZERO).await };
    assert_eq!(post(shop, "/orders/42/add/1").await.0, StatusCode::SERVICE_UNAVAILABLE);
}
