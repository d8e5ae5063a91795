//! Workers of a queue that are killed while they work. No job is lost.
//!
//! ```text
//! worker URL                               starts workers, kills them, and counts the jobs
//! worker URL QUEUE TTL_IN_MILLISECONDS     is one of them
//! ```
//!
//! For each element, a worker works for 20 ms, appends the element to the queue `QUEUE:results`,
//! and reports that the element is done. If the worker is killed before this report, another worker
//! claims the element when the ttl has passed. So the results contain each element at least once.

use std::{
    collections::BTreeSet,
    env, io, mem,
    process::{Child, Command, Stdio},
    time::Duration,
};

use leasehold::{Client, Error, Queue};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [url] => show(url).await,
        [url, name, ttl] => work(url, name, Duration::from_millis(ttl.parse()?)).await,
        _ => Err("usage: worker URL [QUEUE TTL_IN_MILLISECONDS]".into()),
    }
}

async fn work(url: &str, name: &str, ttl: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(url).await?;
    let jobs = client.queue::<String>(name)?.ttl(ttl);
    let results = client.queue::<String>(format!("{name}:results"))?;
    loop {
        match do_one(&jobs, &results).await {
            Ok(()) => {}
            Err(Error::Lost { reason, .. }) => println!("claim lost: {reason}"),
            Err(Error::ShutDown) => return Ok(()),
            // the element is set aside, and a warning was logged
            Err(Error::ValueTooLong { .. }) => {}
            // the store may be unreachable, and the job may be done twice
            Err(error) if error.is_transient() => {
                println!("{error}");
                sleep(Duration::from_millis(100)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn do_one(jobs: &Queue<String>, results: &Queue<String>) -> Result<(), Error> {
    let claim = jobs.claim().await?;
    tokio::select! {
        () = sleep(Duration::from_millis(20)) => {}
        reason = claim.lost() => return Err(Error::Lost { name: jobs.name().clone(), reason }),
    }
    results.push(claim.value()).await?;
    claim.done().await?.into_result()
}

/// Kills a worker after every tenth result, until all jobs are done.
async fn show(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(url).await?;
    let name = format!("jobs:{}", client.id());
    let jobs: BTreeSet<String> = (1..=100).map(|number| number.to_string()).collect();
    client.queue::<String>(&*name)?.push_all(&jobs).await?;
    let results = client.queue::<String>(format!("{name}:results"))?;

    let mut workers = [start(url, &name)?, start(url, &name)?, start(url, &name)?];
    let (mut done, mut worked, mut kills) = (BTreeSet::new(), 0, 0);
    while done.len() < jobs.len() {
        let result = results.claim().await?;
        done.insert(result.value().clone());
        result.done().await?.into_result()?;
        worked += 1;
        if worked % 10 == 0 {
            end(mem::replace(&mut workers[kills % 3], start(url, &name)?))?;
            kills += 1;
        }
    }
    workers.into_iter().try_for_each(end)?;
    let (done, jobs) = (done.len(), jobs.len());
    println!("{done} of {jobs} jobs are done after {kills} kills, by {worked} results");
    Ok(())
}

fn start(url: &str, name: &str) -> io::Result<Child> {
    Command::new(env::current_exe()?).args([url, name, "3000"]).stdout(Stdio::null()).spawn()
}

fn end(mut worker: Child) -> io::Result<()> {
    worker.kill()?;
    worker.wait().map(drop)
}
