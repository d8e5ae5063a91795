//! `leasehold elect`: of all candidates, at most one leads and runs its command.
//!
//! A leader runs its command as `run` does, in the three processes that `run/mod.rs` describes.

mod status;

use std::{io, time::Duration};

use leasehold::{Client, Election, Leadership};
use tokio::{spawn, time::sleep};

use self::status::Status;
use crate::{
    args::{Elect, Server},
    exit::{Exit, LOST, say},
    http,
    inspect::write,
    run::{Job, farewell, finish, grace, hold::Hold, is_in_foreground, supervise},
    server,
    signals::{self, Signals},
};

/// The pause after a rejection before the client reads the leader again.
const AGAIN: Duration = Duration::from_secs(10);

pub(crate) async fn elect(server: &Server, elect: &Elect) -> Result<u8, Exit> {
    if elect.observe {
        return observe(server, elect).await;
    }
    let (name, ttl) = (elect.name.clone(), elect.ttl);
    let job = Job { name, words: elect.command.clone(), ttl, grace: grace(elect.grace, ttl)? };
    let in_terminal = is_in_foreground();
    let mut signals = Signals::catch(in_terminal)?;
    let value = elect.value.clone().unwrap_or_else(host_and_process);
    let status = Status::default();
    if let Some(address) = elect.http {
        spawn(http::serve(http::listen(address).await?, status.clone()));
    }
    let client = server::connect_or_end(server, Client::builder(), &mut signals).await?;
    let election = client.election(&elect.name)?.ttl(ttl);
    if elect.http.is_some() {
        follow(&election, status.clone())?;
    }
    let led = tokio::select! {
        led = election.campaign(&value) => led.map_err(Exit::from),
        signal = signals.fatal() => {
            let operation = format!("campaign in `{}`", elect.name);
            Err(signals::ended_by(signal, &operation, "this candidate did not lead"))
        }
        never = server::report_outages(&client) => match never {},
    };
    let result = match led {
        Ok(leadership) => {
            status.lead(&leadership, &value);
            lead(elect, &job, leadership, &status, &mut signals, in_terminal).await
        }
        Err(exit) => Err(exit),
    };
    farewell(&client).await;
    result
}

/// Runs the command as the leader. Without a command, this process leads until it gets a signal.
async fn lead(
    elect: &Elect,
    job: &Job,
    leadership: Leadership,
    status: &Status,
    signals: &mut Signals,
    in_terminal: bool,
) -> Result<u8, Exit> {
    if !job.words.is_empty() {
        let hold = Hold::Leader(leadership);
        let ended = supervise(job, &hold, signals, in_terminal).await?;
        return finish(job, ended, hold.release().await);
    }
    let printed = write(&status.line(elect.json));
    printed.map_err(|error| Exit::os("write", "stdout", &error))?;
    tokio::select! {
        reason = leadership.lost() => Err(Exit::new(
            LOST,
            format!("lead `{}`: leadership lost: {reason}; start the candidate again", job.name),
        )),
        signal = signals.fatal() => {
            leadership.step_down().await?.into_result()?;
            Ok(signals::code(signal))
        }
    }
}

/// Prints each leader, until the reader of stdout is gone.
async fn observe(server: &Server, elect: &Elect) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    let mut leaders = client.election(&elect.name)?.observe()?;
    let status = Status::default();
    loop {
        status.see(leaders.next().await?);
        match write(&status.line(elect.json)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            written => written.map_err(|error| Exit::os("write", "stdout", &error))?,
        }
    }
}

/// Keeps `status` up to date in the background.
fn follow(election: &Election, status: Status) -> Result<(), Exit> {
    let mut leaders = election.observe()?;
    spawn(async move {
        loop {
            match leaders.next().await {
                Ok(leader) => status.see(leader),
                Err(error) => {
                    say(&error.to_string());
                    sleep(AGAIN).await;
                }
            }
        }
    });
    Ok(())
}

fn host_and_process() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
