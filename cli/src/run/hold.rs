//! The hold of `run`: a lock of some kind, a permit, or the leadership of an election.

use std::{convert::Infallible, future::Future, pin::Pin, time::Duration};

use leasehold::{
    Client, Error, ExpirablePermits, ExpirableSemaphore, Fenced, Guard, Holder, Leadership, Lock,
    LockGuard, LostReason, Name, Owner, Release,
};
use tokio::time::sleep;
use uuid::Uuid;

use super::period;
use crate::{
    args::{Run, Side, Waiting},
    exit::{DATA, Exit, say},
};

/// The interval at which a waiter sets the number of permits again, in case Redis has lost its
/// data.
const SET_AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) enum Hold {
    Lock(LockGuard),
    Fenced(Guard<Lock<Fenced>>),
    Permit(ExpirablePermits),
    Leader(Leadership),
}

macro_rules! of_each {
    ($hold:expr, $guard:ident => $answer:expr) => {
        match $hold {
            Hold::Lock($guard) => $answer,
            Hold::Fenced($guard) => $answer,
            Hold::Permit($guard) => $answer,
            Hold::Leader($guard) => $answer,
        }
    };
}

impl Hold {
    pub(crate) fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Lock(guard) => guard.remaining(),
            Self::Fenced(guard) => guard.remaining(),
            Self::Permit(permit) => permit.remaining(),
            Self::Leader(leadership) => leadership.context().remaining(),
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        of_each!(self, guard => guard.owner())
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            Self::Leader(leadership) => Some(leadership.term()),
            Self::Lock(_) | Self::Permit(_) => None,
        }
    }

    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = LostReason>>> {
        of_each!(self, guard => Box::pin(guard.lost()))
    }

    pub(crate) async fn release(self) -> Result<Release, Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Fenced(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Leader(leadership) => leadership.step_down().await,
        }
    }

    /// Leaves the hold of a lock in Redis. A permit or a leadership is released in the background
    /// instead.
    pub(crate) fn forget(self) {
        match self {
            Self::Lock(guard) => guard.forget(),
            Self::Fenced(guard) => guard.forget(),
            Self::Permit(_) | Self::Leader(_) => {}
        }
    }

    /// Leaves the hold of `lock` in Redis, with a lease of `left`.
    pub(super) async fn leave(self, lock: &Lock, left: Duration) -> Result<Release, Error> {
        let owner = self.owner().clone();
        self.forget();
        match lock.renew_owner(&owner, left).await? {
            true => Ok(Release::StillHeld { count: 1 }),
            false => Ok(Release::NotHeld {
                name: lock.name().clone(),
                reason: LostReason::NotOwned,
                holder: None,
            }),
        }
    }
}

#[derive(Debug)]
pub(super) enum Acquired {
    Hold(Hold),
    /// Another owner holds the lock, or all permits are held.
    Busy,
    /// A command has already started in this period. The value is the rest of the period.
    Done(Duration),
}

/// Acquires what `run` needs: a lock or a permit. With `--once-per`, also records the start of the
/// command.
pub(super) async fn acquire(client: &Client, run: &Run) -> Result<Acquired, Exit> {
    let (name, waiting) = (&run.name, &run.waiting);
    if let Some(number) = run.permits {
        let mut semaphore = semaphore(client, name, number).await?;
        if let Some(reason) = &run.reason {
            semaphore = semaphore.reason(reason);
        }
        let permit = tokio::select! {
            permit = permit(&semaphore, waiting) => permit?,
            failed = keep_number(&semaphore, number) => match failed? {},
        };
        Ok(permit.map_or(Acquired::Busy, |permit| Acquired::Hold(Hold::Permit(permit))))
    } else if run.fenced {
        let fenced = because(client.fenced_lock(name)?, run);
        begun(run, lock(&fenced, waiting).await?, Hold::Fenced).await
    } else {
        begun(run, lock(&lock_of(client, run)?, waiting).await?, Hold::Lock).await
    }
}

async fn begun<K>(
    run: &Run,
    guard: Option<Guard<Lock<K>>>,
    hold: fn(Guard<Lock<K>>) -> Hold,
) -> Result<Acquired, Exit> {
    let Some(guard) = guard else { return Ok(Acquired::Busy) };
    let left = match run.once_per {
        Some(period) => period::begin(&guard, period).await?,
        None => None,
    };
    match left {
        Some(left) => {
            guard.release().await?.into_result()?;
            Ok(Acquired::Done(left))
        }
        None => Ok(Acquired::Hold(hold(guard))),
    }
}

/// Returns the lock that the options of `run` describe.
pub(super) fn lock_of(client: &Client, run: &Run) -> Result<Lock, Error> {
    let lock = match run.fair {
        true => client.fair_lock(&run.name)?,
        false => of_side(client, &run.name, &run.side)?,
    };
    Ok(because(lock, run))
}

/// Returns the same lock, with the reason of `run`.
fn because<K>(lock: Lock<K>, run: &Run) -> Lock<K> {
    match &run.reason {
        Some(reason) => lock.reason(reason),
        None => lock,
    }
}

/// Reports that all permits are held, or which other owner holds the lock.
pub(crate) async fn busy(client: &Client, run: &Run) -> Result<u8, Exit> {
    match run.permits {
        _ if run.busy_ok => Ok(0),
        Some(number) => {
            let name = &run.name;
            let remedy = run.waiting.remedy();
            say(&format!("acquire `{name}`: all {number} permits are held; {remedy}"));
            Ok(run.waiting.conflict_exit_code)
        }
        None => is_held(client, &lock_of(client, run)?, &run.waiting).await,
    }
}

/// Reports who holds `lock`, and returns the exit code.
pub(crate) async fn is_held(client: &Client, lock: &Lock, waiting: &Waiting) -> Result<u8, Exit> {
    let name = lock.name();
    let holder = match lock.holder().await? {
        None => reader(client, name).await?,
        holder => holder,
    };
    let (cause, remedy) = match holder {
        None => ("another client held it".into(), waiting.remedy()),
        Some(holder) if is_of_a_lock(holder.owner()) => {
            (format!("held by {holder}"), waiting.remedy())
        }
        Some(holder) => (
            format!("held by {holder}, but this is not the owner of a lock"),
            "choose another name if the key belongs to another program",
        ),
    };
    say(&format!("acquire `{name}`: {cause}; {remedy}"));
    Ok(waiting.conflict_exit_code)
}

/// Returns a reader of `name`. The write side of a read-write lock reports only the writer.
async fn reader(client: &Client, name: &Name) -> Result<Option<Holder>, Exit> {
    match client.inspect(name).await {
        Ok(found) => Ok(found.and_then(|found| found.holders.into_iter().next())),
        // The reader is only named in a message, so a missing permission is not an error.
        Err(Error::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether `owner` begins with a UUID and a colon, as the owners of all clients do.
fn is_of_a_lock(owner: &Owner) -> bool {
    let client = owner.as_str().split_once(':').map(|(client, _)| client);
    client.is_some_and(|client| Uuid::parse_str(client).is_ok())
}

/// Returns the lock `name`, or a side of a read-write lock.
pub(crate) fn of_side(client: &Client, name: &str, side: &Side) -> Result<Lock, Error> {
    match (side.shared, side.exclusive) {
        (true, _) => Ok(client.read_write_lock(name)?.read()),
        (_, true) => Ok(client.read_write_lock(name)?.write()),
        _ => client.lock(name),
    }
}

/// Acquires `lock`. Returns `None` if another owner holds the lock.
pub(crate) async fn lock<K>(
    lock: &Lock<K>,
    waiting: &Waiting,
) -> Result<Option<Guard<Lock<K>>>, Error> {
    or_busy(match waiting.timeout() {
        Some(Duration::ZERO) => lock.try_acquire().await,
        Some(timeout) => lock.acquire_within(timeout).await.map(Some),
        None => lock.acquire().await.map(Some),
    })
}

async fn permit(
    semaphore: &ExpirableSemaphore,
    waiting: &Waiting,
) -> Result<Option<ExpirablePermits>, Error> {
    or_busy(match waiting.timeout() {
        Some(Duration::ZERO) => semaphore.try_acquire().await,
        Some(timeout) => semaphore.acquire_within(timeout).await.map(Some),
        None => semaphore.acquire().await.map(Some),
    })
}

fn or_busy<T>(acquired: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match acquired {
        Err(Error::TimedOut { .. }) => Ok(None),
        acquired => acquired,
    }
}

/// Returns the semaphore `name`. If the semaphore has no number of permits, sets `number`. Fails if
/// the semaphore has another number.
async fn semaphore(client: &Client, name: &str, number: u32) -> Result<ExpirableSemaphore, Exit> {
    let semaphore = client.expirable_semaphore(name)?;
    if semaphore.set_if_absent(number).await? {
        return Ok(semaphore);
    }
    match semaphore.total().await? {
        total if total == i64::from(number) => Ok(semaphore),
        total => Err(Exit::new(
            DATA,
            format!(
                "acquire `{name}`: the semaphore has {total} permits, not {number}; use the same \
                 number in all calls"
            ),
        )),
    }
}

/// Sets the number of permits again if Redis has lost its data. Without the number, all commands
/// would wait for ever. Returns only if a request fails and a retry cannot succeed.
async fn keep_number(semaphore: &ExpirableSemaphore, number: u32) -> Result<Infallible, Error> {
    loop {
        sleep(SET_AGAIN).await;
        match semaphore.set_if_absent(number).await {
            Err(error) if !error.is_transient() => return Err(error),
            _ => {}
        }
    }
}
