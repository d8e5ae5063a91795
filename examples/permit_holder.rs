//! A process that holds a permit. Tests kill this process while it holds the permit.
//!
//! ```text
//! permit_holder URL NAME TTL_IN_MILLISECONDS
//! ```
//!
//! The process prints `held ID`, and holds the permit until it is killed.

use std::{error::Error, time::Duration};

use leasehold::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl] = arguments.as_slice() else {
        return Err("usage: permit_holder URL NAME TTL_IN_MILLISECONDS".into());
    };
    let client = Client::connect(url).await?;
    let permits = client.expirable_semaphore(name)?.ttl(Duration::from_millis(ttl.parse()?));
    let guard = permits.acquire().await?;
    println!("held {}", guard.ids()[0]);
    println!("lost {:?}", guard.lost().await);
    Ok(())
}
