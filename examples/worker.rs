//! A worker of a queue, to be killed while it works.
//!
//! ```text
//! worker URL QUEUE TTL_IN_MILLISECONDS
//! ```
//!
//! For each element it says `claimed ELEMENT`, works for 20 ms, appends the element to the queue
//! `QUEUE:results`, and says that it is done. If it is killed in between, another worker claims the
//! element when the ttl is over. So an element may be in the results twice, but is never missing.

use std::{error::Error, time::Duration};

use leasehold::{Client, Release};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl] = arguments.as_slice() else {
        return Err("usage: worker URL QUEUE TTL_IN_MILLISECONDS".into());
    };
    let client = Client::connect(url).await?;
    let jobs = client.queue::<String>(name)?.ttl(Duration::from_millis(ttl.parse()?));
    let results = client.queue::<String>(format!("{name}:results"))?;
    loop {
        let claim = jobs.claim().await?;
        println!("claimed {}", claim.value());
        tokio::select! {
            () = sleep(Duration::from_millis(20)) => {}
            reason = claim.lost() => {
                println!("stopped: {reason}");
                continue;
            }
        }
        results.push(claim.value()).await?;
        let element = claim.value().clone();
        match claim.done().await? {
            Release::Released => println!("done {element}"),
            lost => println!("another worker does {element} again: {lost:?}"),
        }
    }
}
