//! Why an operation did not happen.

use std::{error::Error as StdError, fmt, ops::Deref, sync::Arc, time::Duration};

use crate::domain::{
    Failure, Holder, InvalidDuration, InvalidName, InvalidOwner, InvalidPermitId, LostReason, Name,
    Refusal,
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
/// Most callers need two questions: [`is_busy`](Self::is_busy), somebody else
/// has the lock, and [`is_transient`](Self::is_transient), the store is away for
/// now. [The guide](crate::docs::guide::errors_and_settings#errors) has a table of all variants.
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
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot connect to the server. `reason` names the cause.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// The address, without user and password.
        server: String,
        /// The cause and its remedy.
        reason: String,
        /// Whether a retry cannot help: the user, password, database, certificates or server are
        /// wrong.
        permanent: bool,
        /// The error below it, if there is one.
        source: Option<Cause>,
    },

    /// A duration that the store cannot keep.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),

    /// The store does not let this client work on `name`: a right is missing, or
    /// the password is not the right one any more. Nothing happened, and it stays
    /// so until somebody changes that. In a cluster it names the node that does not
    /// let us in.
    #[error(
        "access to `{name}` denied: {}; check the password and the permissions of the user",
        words(code, message, command.as_deref())
    )]
    Forbidden {
        /// What was asked for.
        name: Name,
        /// The first word of the refusal: `NOPERM`, `NOAUTH` or `WRONGPASS`.
        code: String,
        /// The rest of it; and of a refusal about keys, which keys the request needs.
        message: String,
        /// The command that was refused, where that is known.
        command: Option<String>,
    },

    /// The blocking API was called from a task of an async runtime, where it
    /// would stop every other task of that thread. Use the async API there, or
    /// `tokio::task::spawn_blocking`.
    #[error("cannot block this thread: it runs async tasks; use the async API, or spawn_blocking")]
    InsideAsync,

    /// The hold on `name` had ended before. Of work under
    /// [`run`](crate::Lock::run) it means that the work was stopped, or was done
    /// without the lock: [`LockGuard::run`](crate::LockGuard::run) tells which.
    #[error("hold of `{name}` ended: {reason}")]
    Lost {
        /// What we no longer hold.
        name: Name,
        /// Why.
        reason: LostReason,
    },

    /// The name given to a lock is not one we can store.
    #[error("invalid name: {0}")]
    Name(#[from] InvalidName),

    /// A script of yours failed while it ran, or the server refused one of several writes.
    ///
    /// Earlier writes **stay**, because Redis undoes nothing.
    #[error(
        "guarded write under `{name}` failed in part: {message}; check the data, because \
         earlier writes stay"
    )]
    PartialWrite {
        /// The lock that is held.
        name: Name,
        /// The error of the server or of the script.
        message: String,
    },

    /// Called outside of a tokio runtime.
    #[error(
        "cannot run: this thread has no tokio runtime; call it from one, or use the blocking API"
    )]
    NoRuntime,

    /// A guard was to read beside one that writes `name`, and does not write it.
    #[error(
        "cannot read `{name}` with this guard: it does not write `{name}`; pass the guard of its \
         writer"
    )]
    NotWriting {
        /// The read-write lock.
        name: Name,
    },

    /// This thread holds `name` to read and acquires it to write: it would wait for itself.
    ///
    /// Release the readers' side first. Check the data again once the thread writes, because
    /// another holder may have written in between.
    #[error("cannot acquire `{name}` to write: this thread reads it; release that guard first")]
    UpgradeNotSupported {
        /// The read-write lock.
        name: Name,
    },

    /// This thread holds `name` by a plain lock, so that the hold has no token, and acquired it
    /// again by a fenced one. Acquire it by the fenced lock first.
    #[error(
        "cannot fence `{name}`: this thread holds it by a plain lock, without a token; acquire \
         the fenced lock first"
    )]
    NoToken {
        /// What is held.
        name: Name,
    },

    /// Fewer replicas than were wanted have acknowledged the grant of `name` in time. It was taken
    /// back: others may enter. See [`Lock::replicated`](crate::Lock::replicated).
    #[error(
        "cannot acquire `{name}`: only {got} of {wanted} replicas acknowledged the grant in \
         time, so it was released; check the replicas, or require fewer"
    )]
    NotReplicated {
        /// What was granted.
        name: Name,
        /// So many replicas were to acknowledge it.
        wanted: u32,
        /// So many have, as far as the server has said.
        got: u32,
    },

    /// The server is there, but not ready for this: it starts, fails over, takes
    /// no writes, or is full. Nothing happened.
    ///
    /// Who waits for a lock waits this out as well, and gets this error only when
    /// patience ends. A full server (`OOM`) is told at once: waiting makes no room.
    #[error("store not ready for `{name}`: {}; retry later", words(code, message, command.as_deref()))]
    NotReady {
        /// What was asked for.
        name: Name,
        /// The first word of the refusal, such as `READONLY` or `LOADING`.
        code: String,
        /// The rest of it.
        message: String,
        /// The command that was refused, where that is known.
        command: Option<String>,
    },

    /// The text given for an owner cannot be one.
    #[error("invalid owner: {0}")]
    Owner(#[from] InvalidOwner),

    /// The text given for the id of a permit is none.
    #[error("invalid permit id: {0}")]
    PermitId(#[from] InvalidPermitId),

    /// The store refused for another reason, told in its own words. Nothing
    /// happened, and asking again will not help.
    #[error("request for `{name}` rejected: {}", words(code, message, command.as_deref()))]
    Refused {
        /// What was asked for.
        name: Name,
        /// The first word of the refusal, such as `ERR`.
        code: String,
        /// The rest of it.
        message: String,
        /// The command that was refused, where that is known.
        command: Option<String>,
    },

    /// A text that cannot be run as a script under a lock. Says why.
    #[error("invalid script: {0}")]
    Script(String),

    /// The client was [shut down](crate::Client::shutdown).
    #[error("the client was shut down")]
    ShutDown,

    /// More permits than one acquisition can have, or than there can be.
    #[error("invalid count for `{name}`: it must be at most {most}")]
    TooMany {
        /// What was asked for.
        name: Name,
        /// So many there can be.
        most: u32,
    },

    /// The timeout elapsed while another owner held `name`, permits were missing, or a latch was
    /// closed.
    #[error("timed out after {waited:?} waiting for `{name}`{}", why(holder.as_ref(), *by_this_client, *unset))]
    TimedOut {
        /// The name that the caller waited for.
        name: Name,
        /// How long the caller waited, rounded down to milliseconds.
        waited: Duration,
        /// The holder at the last request, or the earlier writer with a count of 0. The store does
        /// not return the holders of permits and latches.
        holder: Option<Holder>,
        /// Whether another guard of this client holds it: a task that acquires what it holds waits
        /// for itself. `false` if that guard was released and the store has not processed it.
        by_this_client: bool,
        /// Whether no client had set the number of permits at the last request: `set_if_absent`
        /// sets it.
        unset: bool,
    },

    /// A counter of tokens cannot be raised so high: the lock could grant nothing after it.
    /// Nothing happened. See [`FencedLock::raise_token`](crate::FencedLock::raise_token).
    #[error(
        "cannot raise the token of `{name}`: the number exceeds {most}; check where it comes \
         from"
    )]
    TokenTooHigh {
        /// The fenced lock.
        name: Name,
        /// The greatest number that its counter can be raised to.
        most: u64,
    },

    /// The store could not be reached, or did not answer.
    ///
    /// The operation **may have happened**, or happen yet. An acquisition that
    /// fails this way is withdrawn in the background. A change that counts, as
    /// [`Latch::count_down`](crate::Latch::count_down), is counted again by a second call.
    #[error("store unavailable for `{name}`: {reason}")]
    Unavailable {
        /// What was asked for.
        name: Name,
        /// What is known about it.
        reason: String,
        /// The error of the network or the system behind it, if there is one.
        source: Option<Cause>,
    },

    /// The store of this client cannot do that: a cluster has no latch whose name has braces.
    /// Nothing happened.
    #[error("unsupported operation: {what}")]
    Unsupported {
        /// What it cannot do.
        what: &'static str,
    },

    /// The URL of a server cannot be used. Says which part of it is wrong.
    #[error("invalid URL: {0}")]
    Url(String),

    /// Under `name` lies something else than was asked for. It was left alone.
    #[error("wrong type of `{name}`: the key is a {found}; choose another name")]
    WrongType {
        /// The name, and the key.
        name: Name,
        /// The type that Redis reports: `string`, `list`, …; `key of another type` if `TYPE` is
        /// forbidden; or `text that is no number`.
        found: String,
    },

    /// A number of permits, the count of a latch or a number of replicas is 0.
    #[error("invalid count for `{name}`: it must be at least 1")]
    ZeroCount {
        /// The name of the object.
        name: Name,
    },
}

/// What kept the caller waiting, as far as the store returned it.
fn why(holder: Option<&Holder>, by_this_client: bool, unset: bool) -> String {
    match holder {
        None if unset => ": the number of permits was never set; call set_if_absent".into(),
        None => String::new(),
        Some(Holder { owner, count: 0, .. }) => format!(": the writer {owner} queued earlier"),
        Some(holder) if by_this_client => format!(": held by this client itself, {holder}"),
        Some(holder) => format!(": held by {holder}"),
    }
}

/// The words of a refusal. The command is added unless they name it.
fn words(code: &str, message: &str, command: Option<&str>) -> String {
    let said = format!("{code} {message}");
    match command {
        Some(command) if !said.to_ascii_uppercase().contains(command) => {
            format!("{} (command {command})", said.trim())
        }
        _ => said.trim().to_owned(),
    }
}

impl Error {
    /// Whether somebody else has the lock: it is well, and taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use std::time::Duration;
    /// let lock = leasehold::Client::in_memory().lock("door")?;
    /// let guard = lock.acquire().await?;
    /// let error = lock.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    /// assert!(error.is_busy() && !error.is_transient());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether the store is away or not ready: the same may do in a while, with
    /// nothing changed here.
    ///
    /// [`NotReplicated`](Self::NotReplicated) is among them: replicas come back. So is
    /// [`Connect`](Self::Connect) unless it is `permanent`, as a wrong
    /// password is: a server that is still starting looks like that; so does a wrong
    /// address, so try it a few times and not for ever.
    ///
    /// **A change that ended in [`Unavailable`](Self::Unavailable) may have happened**, and a second
    /// call is a second change: [`Latch::count_down`](crate::Latch::count_down),
    /// [`Semaphore::add`](crate::Semaphore::add), [`ExpirableSemaphore::add`](crate::ExpirableSemaphore::add),
    /// [`LockGuard::eval`](crate::LockGuard::eval). Of these this says only that the store was away.
    /// What is once as good as twice may be asked for again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
    /// let store = leasehold::MemoryStore::new();
    /// let lock = leasehold::Client::with_store(&store).lock("door")?;
    /// store.fail("OOM command not allowed");
    /// assert!(lock.acquire().await.unwrap_err().is_transient());
    /// store.fail("NOPERM no permission");
    /// assert!(!lock.acquire().await.unwrap_err().is_transient());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { permanent, .. } => !permanent,
            _ => matches!(
                self,
                Self::NotReady { .. } | Self::NotReplicated { .. } | Self::Unavailable { .. }
            ),
        }
    }

    /// What `failure` means to somebody who asked about `name`.
    pub(crate) fn about(name: &Name, failure: Failure) -> Self {
        let reason = failure.to_string();
        // The error says itself that there was no answer.
        let reason = reason.strip_prefix("no reply: ").unwrap_or(&reason).to_owned();
        let name = name.clone();
        match failure {
            Failure::NoRuntime => Self::NoRuntime,
            Failure::Refused { code, message, command } if code == "MOVED" => {
                let message =
                    format!("{message}: this server is a node of a cluster; use redis-cluster://");
                Self::Refused { name, code, message, command }
            }
            Failure::Refused { code, message, command } => match Refusal::of(&code) {
                Refusal::Forbidden => Self::Forbidden { name, code, message, command },
                Refusal::Lasting => Self::Refused { name, code, message, command },
                Refusal::NotReady => Self::NotReady { name, code, message, command },
            },
            Failure::WrongType { found } => Self::WrongType { name, found },
            Failure::Unanswered(source) | Failure::Unreachable(source) => {
                Self::Unavailable { name, reason, source: Some(Cause(source)) }
            }
            Failure::Unreadable(_) => Self::silent(name, reason),
            Failure::Failed(message) => Self::PartialWrite { name, message },
            Failure::Unsupported(what) => Self::Unsupported { what },
        }
    }

    /// Nothing is known about `name` but the `reason`.
    pub(crate) fn silent(name: Name, reason: String) -> Self {
        Self::Unavailable { name, reason, source: None }
    }
}

/// The error behind an error, of whatever type it is. Cheap to clone.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let store = leasehold::MemoryStore::new();
/// let lock = leasehold::Client::with_store(&store).lock("door")?;
/// store.stall();
/// let error = lock.holder().await.unwrap_err();
/// let leasehold::Error::Unavailable { source: Some(cause), .. } = &error else { panic!() };
/// assert_eq!(std::error::Error::source(&error).unwrap().to_string(), cause.to_string());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Cause(Arc<dyn StdError + Send + Sync>);

impl Cause {
    pub(crate) fn of(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl Deref for Cause {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
