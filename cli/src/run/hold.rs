//! What `run` holds: a lock of some kind, or a permit.

use std::{future::Future, pin::Pin, time::Duration};

use leasehold::{
    Client, Error, ExpirablePermits, ExpirableSemaphore, Fenced, Guard, Lock, LockGuard,
    LostReason, Owner, Release,
};

use crate::{
    args::Run,
    exit::{DATA, Exit, say},
};

#[derive(Debug)]
pub(crate) enum Hold {
    Lock(LockGuard),
    Fenced(Guard<Lock<Fenced>>),
    Permit(ExpirablePermits),
}

macro_rules! of_each {
    ($hold:expr, $guard:ident => $answer:expr) => {
        match $hold {
            Hold::Lock($guard) => $answer,
            Hold::Fenced($guard) => $answer,
            Hold::Permit($guard) => $answer,
        }
    };
}

impl Hold {
    pub(crate) fn remaining(&self) -> Option<Duration> {
        of_each!(self, guard => guard.remaining())
    }

    pub(crate) fn owner(&self) -> &Owner {
        of_each!(self, guard => guard.owner())
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            Self::Lock(_) | Self::Permit(_) => None,
        }
    }

    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = LostReason>>> {
        of_each!(self, guard => Box::pin(guard.lost()))
    }

    pub(crate) async fn release(self) -> Result<Release, Error> {
        of_each!(self, guard => guard.release().await)
    }
}

/// Acquires what `run` needs. Returns `None` if another owner has it.
pub(crate) async fn acquire(client: &Client, run: &Run) -> Result<Option<Hold>, Exit> {
    let acquired = if let Some(number) = run.permits {
        let semaphore = semaphore(client, &run.name, number).await?;
        permit(&semaphore, run).await.map(|permit| permit.map(Hold::Permit))
    } else if run.fenced {
        lock(&client.fenced_lock(&run.name)?, run).await.map(|guard| guard.map(Hold::Fenced))
    } else {
        lock(&plain(client, run)?, run).await.map(|guard| guard.map(Hold::Lock))
    };
    match acquired {
        Err(Error::TimedOut { .. }) => Ok(None),
        acquired => Ok(acquired?),
    }
}

/// Reports that another owner has the lock, and who that is.
pub(crate) async fn busy(client: &Client, run: &Run) -> Result<u8, Exit> {
    if run.busy_ok {
        return Ok(0);
    }
    let holder = match run.permits {
        Some(_) => None,
        None => plain(client, run)?.holder().await?,
    };
    let name = &run.name;
    let cause = match (holder, run.permits) {
        (Some(holder), _) => format!("held by {holder}"),
        (None, Some(number)) => format!("all {number} permits are held"),
        (None, None) => "it was held".to_owned(),
    };
    say(&format!("acquire `{name}`: {cause}; retry later, or wait longer with -w"));
    Ok(run.conflict_exit_code)
}

fn plain(client: &Client, run: &Run) -> Result<Lock, Error> {
    match (run.shared, run.exclusive) {
        (true, _) => Ok(client.read_write_lock(&run.name)?.read()),
        (_, true) => Ok(client.read_write_lock(&run.name)?.write()),
        _ => client.lock(&run.name),
    }
}

async fn lock<K>(lock: &Lock<K>, run: &Run) -> Result<Option<Guard<Lock<K>>>, Error> {
    match run.wait {
        _ if is_immediate(run) => lock.try_acquire().await,
        Some(wait) => lock.acquire_within(wait).await.map(Some),
        None => lock.acquire().await.map(Some),
    }
}

async fn permit(
    semaphore: &ExpirableSemaphore,
    run: &Run,
) -> Result<Option<ExpirablePermits>, Error> {
    match run.wait {
        _ if is_immediate(run) => semaphore.try_acquire().await,
        Some(wait) => semaphore.acquire_within(wait).await.map(Some),
        None => semaphore.acquire().await.map(Some),
    }
}

fn is_immediate(run: &Run) -> bool {
    run.nonblock || run.wait.is_some_and(|wait| wait.is_zero())
}

/// The semaphore `name`, if it has this number of permits, or had none.
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
                "acquire `{name}`: it has {total} permits, not {number}; use one number for all"
            ),
        )),
    }
}
