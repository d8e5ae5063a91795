//! `leasehold lock`, `renew`, `unlock` and `wait`, for scripts. A hold of `leasehold lock` outlives
//! the process that acquired it. The token of such a hold is its owner in Redis.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    time::Duration,
};

use leasehold::{Client, Error, Holder, ObjectKind, Owner};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    args::{Lock, Renew, Server, Side, Unlock, Wait},
    exit::{ABSENT, DATA, Exit, LOST, USAGE, say},
    force::{Forcible, QUESTION},
    inspect::write,
    run::{
        VERSION, farewell,
        hold::{self, Hold},
    },
    server,
    signals::{self, Signals},
};

/// The interval at which `wait` checks the object.
const LOOK: Duration = Duration::from_millis(500);

/// The shortest time between two checks, even if a lease is about to end.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn lock(server: &Server, lock: &Lock) -> Result<u8, Exit> {
    // Without these handlers, a signal could leave a hold whose token was not printed.
    let mut signals = Signals::catch(true)?;
    // Without an application name, the client would not read the client info of a holder.
    let settings = Client::builder().application("leasehold lock", VERSION);
    let client = server::connect_or_end(server, settings, &mut signals).await?;
    let wanted = hold::of_side(&client, &lock.name, &lock.side)?.lease(lock.ttl);
    let acquired = tokio::select! {
        acquired = acquire(&client, lock, &wanted) => acquired.map_err(Exit::from),
        signal = signals.fatal() => {
            let operation = format!("acquire `{}`", lock.name);
            Err(signals::ended_by(signal, &operation, "it is not held"))
        }
        never = server::report_outages(&client) => match never {},
    };
    let failed = match acquired {
        Ok(Some(hold)) => match hand_out(lock, hold).await {
            Ok(()) => return Ok(0),
            Err(exit) => Err(exit),
        },
        Ok(None) => hold::is_held(&client, &wanted, &lock.waiting).await,
        Err(exit) => Err(exit),
    };
    farewell(&client).await;
    failed
}

/// Acquires `wanted`, or with `--fenced` the fenced lock of the same name. Returns `None` if
/// another owner holds the lock.
async fn acquire(
    client: &Client,
    lock: &Lock,
    wanted: &leasehold::Lock,
) -> Result<Option<Hold>, Error> {
    match lock.fenced {
        true => {
            let fenced = client.fenced_lock(&lock.name)?.lease(lock.ttl);
            Ok(hold::lock(&fenced, &lock.waiting).await?.map(Hold::Fenced))
        }
        false => Ok(hold::lock(wanted, &lock.waiting).await?.map(Hold::Lock)),
    }
}

/// Prints the token of a hold, and leaves the hold in Redis. If the token cannot be printed,
/// releases the hold.
async fn hand_out(lock: &Lock, hold: Hold) -> Result<(), Exit> {
    match write(&(description(lock, &hold) + "\n")) {
        Ok(()) => {
            hold.forget();
            Ok(())
        }
        Err(error) => {
            hold.release().await?.into_result()?;
            Err(Exit::os("write", "stdout", &error))
        }
    }
}

fn description(lock: &Lock, hold: &Hold) -> String {
    let (owner, fence) = (hold.owner().as_str(), hold.token());
    if lock.json {
        let lease = lock.ttl.as_millis() as u64;
        let name = &lock.name;
        return json!({ "name": name, "token": owner, "fence": fence, "lease_ms": lease })
            .to_string();
    }
    let fence = fence.map(|fence| format!(" {fence}")).unwrap_or_default();
    format!("{owner}{fence}")
}

pub(crate) async fn renew(server: &Server, renew: &Renew) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    let lock = of_same_side(&client, "renew", &renew.name, &renew.side).await?;
    match lock.renew_owner(&owner(&renew.token)?, renew.ttl).await? {
        true => Ok(0),
        false => Err(ended("renew", &renew.name)),
    }
}

pub(crate) async fn unlock(server: &Server, unlock: &Unlock) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    let Some(token) = &unlock.token else { return force(&client, unlock).await };
    let lock = of_same_side(&client, "unlock", &unlock.name, &unlock.side).await?;
    match lock.release_owner(&owner(token)?).await? {
        true => Ok(0),
        false => Err(ended("unlock", &unlock.name)),
    }
}

/// Returns the lock `name`, or the requested side of the read-write lock `name`. Fails if `name` is
/// a read-write lock and no side is requested. A request for a plain lock would change only a part
/// of the data of a read-write lock.
async fn of_same_side(
    client: &Client,
    operation: &str,
    name: &str,
    side: &Side,
) -> Result<leasehold::Lock, Exit> {
    if !side.shared && !side.exclusive {
        match client.inspect(name).await {
            Ok(Some(found))
                if matches!(found.kind, ObjectKind::ReadLock | ObjectKind::WriteLock) =>
            {
                let text = format!(
                    "{operation} `{name}`: the name is a read-write lock; add -s for its read \
                     lock, or -x for its write lock"
                );
                return Err(Exit::new(DATA, text));
            }
            // If the Redis user may not inspect the object, this check is skipped.
            Ok(_) | Err(Error::Forbidden { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(hold::of_side(client, name, side)?)
}

fn owner(token: &str) -> Result<Owner, Exit> {
    Owner::new(token).map_err(|error| {
        Exit::new(
            USAGE,
            format!("read token: {error}; pass the token that `leasehold lock` printed"),
        )
    })
}

fn ended(operation: &str, name: &str) -> Exit {
    let cause = "the hold has ended: the lease ended, or the lock was released";
    Exit::new(LOST, format!("{operation} `{name}`: {cause}; check the result of the work"))
}

/// Releases the holds that the user was shown. If another client acquires the lock before the user
/// confirms, that client keeps the lock.
async fn force(client: &Client, unlock: &Unlock) -> Result<u8, Exit> {
    let name = &unlock.name;
    let held = Forcible::find(client, name).await?;
    if !unlock.yes && !is_confirmed(&held)? {
        return Err(Exit::new(
            ABSENT,
            format!("unlock `{name}`: the release was not confirmed; the lock is still held"),
        ));
    }
    let reason = unlock.reason.as_ref().map(|reason| format!(", reason {reason:?}"));
    let how = format!("unlock --force{}", reason.unwrap_or_default());
    let released =
        |holder: &Holder| say(&format!("unlock `{name}`: released by force, was held by {holder}"));
    held.release(&how, released).await?;
    Ok(0)
}

/// Shows the holders, and returns whether the user confirms the release by force.
fn is_confirmed(held: &Forcible) -> Result<bool, Exit> {
    let name = held.name();
    if !io::stdin().is_terminal() {
        return Err(Exit::new(
            USAGE,
            format!(
                "unlock `{name}`: a confirmation needs a terminal; add --yes to release without it"
            ),
        ));
    }
    let failed = |error: io::Error| Exit::os("ask", "terminal", &error);
    write!(io::stderr(), "{}{QUESTION} [y/N] ", held.text()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

pub(crate) async fn wait(server: &Server, wait: &Wait) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    tokio::select! {
        ended = until_free(&client, wait) => ended,
        never = server::report_outages(&client) => match never {},
    }
}

async fn until_free(client: &Client, wait: &Wait) -> Result<u8, Exit> {
    let until = wait.waiting.timeout().map(|timeout| Instant::now() + timeout);
    loop {
        let holder = match client.inspect(&wait.name).await {
            Ok(found) => {
                // A claim whose lease has ended stays in Redis until the next claim.
                let mut holders = found.into_iter().flat_map(|found| found.holders);
                let holds = |it: &Holder| it.remaining() != Some(Duration::ZERO);
                let Some(holder) = holders.find(holds) else { return Ok(0) };
                Ok(holder)
            }
            Err(error) if error.is_transient() => Err(error),
            Err(error) => return Err(error.into()),
        };
        let left = holder.as_ref().ok().and_then(Holder::remaining);
        let rests = sleep(left.map_or(LOOK, |left| left.clamp(SHORTEST_LOOK, LOOK)));
        let is_over = match until {
            Some(until) => timeout_at(until, rests).await.is_err(),
            None => {
                rests.await;
                false
            }
        };
        if is_over {
            let (name, holder, remedy) = (&wait.name, holder?, wait.waiting.remedy());
            say(&format!("wait for `{name}`: held by {holder}; {remedy}"));
            return Ok(wait.waiting.conflict_exit_code);
        }
    }
}
