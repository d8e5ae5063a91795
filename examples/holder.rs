//! A process that holds a lock. Tests kill or pause this process while it holds the lock.
//!
//! ```text
//! holder URL NAME TTL_IN_MILLISECONDS
//! ```
//!
//! The process prints `waiting`, and then `held OWNER`. The process holds the lock until it reads
//! `release` from stdin. Then it releases the lock, prints `released`, and ends. If the lock is
//! lost, it prints `lost` and the reason, and ends at once.

use std::{error::Error, time::Duration};

use leasehold::{Client, LostReason, Release};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl] = arguments.as_slice() else {
        return Err("usage: holder URL NAME TTL_IN_MILLISECONDS".into());
    };
    let client = Client::connect(url).await?;
    let lock = client.lock(name)?.ttl(Duration::from_millis(ttl.parse()?));

    println!("waiting");
    let guard = lock.acquire().await?;
    println!("held {}", guard.owner());

    let asked_to_release = async {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line == "release" {
                return;
            }
        }
        // Stdin is closed, so the process holds the lock until it is killed.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        reason = guard.lost() => tell_loss(reason),
        () = asked_to_release => match guard.release().await? {
            Release::NotHeld { reason, .. } => tell_loss(reason),
            _ => println!("released"),
        },
    }
    // A blocked read of stdin occupies a thread, and the runtime would wait for this thread.
    std::process::exit(0)
}

fn tell_loss(reason: LostReason) {
    println!("lost {reason:?}");
}
