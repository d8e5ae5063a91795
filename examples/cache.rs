//! A cache that all processes share. For each key, only one process sends a request to a slow
//! service.
//!
//! **The entries have no TTL, so the map grows, and keeps each price for ever**, unless a client
//! removes the price. Remove old entries with `remove`, or insert values with `insert_for`.
//!
//! Run this example in two terminals with the same `REDIS_URL`. Without `REDIS_URL`, the two
//! "processes" are two tasks of this process.

use std::time::Duration;

use leasehold::{Client, Error, Map, MemoryStore};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Error> {
    // If a process dies during its request to the service, another process sends the request after
    // 3 s. The timeout of the waiting processes is longer than 3 s.
    let builder = || Client::builder().ttl(Duration::from_secs(3));
    let (one, other) = match std::env::var("REDIS_URL") {
        Ok(url) => (builder().connect(&url).await?, builder().connect(&url).await?),
        Err(_) => {
            let store = MemoryStore::new();
            (builder().with_store(&store), builder().with_store(&store))
        }
    };
    let (first, second) = tokio::join!(
        show_prices("one", one.map("prices")?),
        show_prices("other", other.map("prices")?),
    );
    first.and(second)
}

async fn show_prices(process: &str, prices: Map<String, u64>) -> Result<(), Error> {
    for product in ["apples", "pears", "plums"] {
        // If another process has already sent the request, this call waits for the result for 5 s.
        let timeout = Duration::from_secs(5);
        let ask = || ask_the_service(process, product);
        let price = prices.get_or_insert_with(product, timeout, ask).await?;
        println!("{process:>5}: {product} cost {price} cents");
    }
    Ok(())
}

/// Asks the service for the price. If the lock of the product is lost meanwhile, this future is
/// dropped, and nothing is inserted.
async fn ask_the_service(process: &str, product: &str) -> Result<u64, Error> {
    println!("{process:>5}: asking for {product}");
    sleep(Duration::from_millis(300)).await;
    Ok(10 * product.len() as u64)
}
