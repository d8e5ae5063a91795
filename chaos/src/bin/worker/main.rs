//! A worker with Leasehold: it reads its orders from stdin, contends, and writes its events to
//! stdout. The end of stdin kills the process. Its holds stay in Redis until their leases end.

mod contender;
mod event_pipe;
mod guard;
mod latch_waiter;

use std::collections::HashMap;
use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chaos::orders::{Kind, Order, Orders};
use leasehold::Client;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::contender::Contender;
use crate::event_pipe::EventPipe;
use crate::latch_waiter::LatchWaiter;

/// The current name of each object, by its original name.
type Names = Arc<Mutex<HashMap<String, String>>>;

fn now_called(names: &Names, name: &str) -> String {
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    names.get(name).map_or(name, String::as_str).to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = BufReader::new(stdin()).lines();
    let first = lines.next_line().await?.ok_or("the first line is the orders")?;
    let orders: Arc<Orders> = Arc::new(serde_json::from_str(&first)?);
    let ttl = Duration::from_millis(orders.ttl_ms);
    let place = orders.place.clone();
    let builder = Client::builder().ttl(ttl);
    let builder = builder.translate_addresses(move |reports| place.translated(reports));
    let client = builder.connect(&orders.place.url).await?;
    let pipe = EventPipe::new(orders.first_hold);
    let names = Names::default();
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for task in 0..orders.tasks {
        let work = (Arc::clone(&orders), client.clone(), Arc::clone(&pipe), Arc::clone(&names));
        tasks.spawn(Contender::new(task, work).contend(stopped.clone()));
    }
    for latch in orders.objects.iter().filter(|it| it.kind == Kind::Latch) {
        let work = (client.clone(), Arc::clone(&pipe), Arc::clone(&names));
        tasks.spawn(LatchWaiter::new(latch, work).wait_at_each(stopped.clone()));
    }
    pipe.ready();
    obey(&mut lines, &names).await;
    stop.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    client.shutdown(Duration::from_secs(5)).await;
    // A return would wait for the thread of the runtime that is blocked in a read of stdin.
    exit(0)
}

/// Follows orders until the order to stop.
async fn obey(lines: &mut Lines<BufReader<Stdin>>, names: &Names) {
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Order::Rename { name, to }) => {
                names.lock().unwrap_or_else(PoisonError::into_inner).insert(name, to);
            }
            Ok(Order::Stop) => return,
            Err(e) => panic!("`{line}` is not an order: {e}"),
        }
    }
    exit(1)
}
