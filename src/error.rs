//! Why an operation did not happen.

use std::time::Duration;

use crate::domain::{
    Failure, Holder, InvalidDuration, InvalidName, InvalidOwner, LostReason, Name,
};

/// The result of an operation on a lock.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not happen.
///
/// One variant per thing a caller can *do differently about*, not per place it
/// can come from.
///
/// That a lock is held by somebody else is an answer rather than an error:
/// [`try_acquire`](crate::Lock::try_acquire) returns `Ok(None)` for it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::{Client, Error};
///
/// let client = Client::in_memory();
/// let guard = client.lock("door")?.acquire().await?;
///
/// match client.lock("door")?.acquire_within(Duration::from_secs(5)).await {
///     Ok(_) => unreachable!("it is held"),
///     Err(Error::TimedOut { holder: Some(holder), .. }) => {
///         assert_eq!(holder.owner(), guard.owner());
///     }
///     Err(other) => return Err(other),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be connected to. Says which part was wrong.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// The address, without user and password.
        server: String,
        /// What went wrong, and what to do about it.
        reason: String,
    },

    /// A duration that the store cannot keep.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),

    /// The blocking API was called from a task of an async runtime, where it
    /// would stop every other task of that thread. Use the async API there, or
    /// `tokio::task::spawn_blocking`.
    #[error(
        "the blocking API must not be called from async code: use the async API, or spawn_blocking"
    )]
    InsideAsync,

    /// The hold on `name` had ended before.
    #[error("the hold on `{name}` is over: {reason}")]
    Lost {
        /// What we no longer hold.
        name: Name,
        /// Why.
        reason: LostReason,
    },

    /// The name given to a lock is not one we can store.
    #[error("invalid name: {0}")]
    Name(#[from] InvalidName),

    /// Called outside of a tokio runtime.
    #[error("leasehold needs a tokio runtime: call it from one, or use the blocking API")]
    NoRuntime,

    /// The text given for an owner cannot be one.
    #[error("invalid owner: {0}")]
    Owner(#[from] InvalidOwner),

    /// The store refused, in its own words. Nothing happened.
    #[error("the store refused to work on `{name}`: {}", format!("{code} {message}").trim())]
    Refused {
        /// What was asked for.
        name: Name,
        /// The first word of the refusal, such as `NOPERM` or `OOM`.
        code: String,
        /// The rest of it.
        message: String,
    },

    /// The client was [shut down](crate::Client::shutdown).
    #[error("the client was shut down")]
    ShutDown,

    /// The caller's patience ran out while somebody else held `name`.
    #[error("`{name}` was still held after {waited:?}{}", by(holder.as_ref()))]
    TimedOut {
        /// What we were waiting for.
        name: Name,
        /// How long we waited, rounded down to milliseconds.
        waited: Duration,
        /// Who held it when we last asked.
        holder: Option<Holder>,
    },

    /// The store could not be reached, or did not answer.
    ///
    /// The operation **may have happened**, or happen yet. An acquisition that
    /// fails this way is withdrawn in the background.
    #[error("the store did not answer about `{name}`: {reason}")]
    Unavailable {
        /// What was asked for.
        name: Name,
        /// What is known about it.
        reason: String,
    },

    /// The URL of a server cannot be used. Says which part of it is wrong.
    #[error("invalid URL: {0}")]
    Url(String),

    /// Under `name` lies something that is not a lock. It was left alone.
    #[error("`{name}` is no lock but a {found} in Redis: choose another name")]
    WrongType {
        /// The name of the lock, and of the key.
        name: Name,
        /// What Redis says it is: `string`, `list`, …
        found: String,
    },
}

fn by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

impl Error {
    /// What `failure` means to somebody who asked about `name`.
    pub(crate) fn about(name: &Name, failure: Failure) -> Self {
        let name = name.clone();
        match failure {
            Failure::NoRuntime => Self::NoRuntime,
            Failure::Refused { code, message } => Self::Refused { name, code, message },
            Failure::WrongType { found } => Self::WrongType { name, found },
            other => Self::Unavailable { name, reason: other.to_string() },
        }
    }
}
