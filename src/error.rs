//! Why an operation failed.

use std::{error::Error as StdError, fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    codec::{self, CodecError},
    domain::{
        Failure, Holder, InvalidDuration, InvalidName, InvalidOwner, InvalidPermitId, LostReason,
        Name, Owner, Refusal, in_millis,
    },
};

/// The last words of the reason of [`Error::Unavailable`], if a request was sent and got no reply.
pub(crate) const MAY_HAVE_HAPPENED: &str =
    "; the request may have been executed, so check the data before repeating a change";

/// The last words of the reason of [`Error::Unavailable`], if an earlier request may have got no
/// reply, and the store is unreachable now.
pub(crate) const EARLIER_MAY_HAVE_HAPPENED: &str = "; if an earlier attempt was sent, it may have been executed, so check the data before \
     repeating a change";

/// The result of an operation on a lock.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
///
/// Each variant needs a different reaction of the caller.
///
/// If another owner holds a lock, [`try_acquire`](crate::Lock::try_acquire) returns `Ok(None)`, not
/// an error.
///
/// Most callers need two methods. [`is_busy`](Self::is_busy) returns true if another owner has the
/// lock. [`is_transient`](Self::is_transient) returns true if a retry can help, for example if the
/// store is unreachable. [The guide](crate::docs::guide::errors_and_settings#errors) has a table of
/// all variants.
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
///     Ok(_) => unreachable!("the lock is held"),
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
    /// A codec cannot write a value of `name`, or cannot read a value that another codec wrote.
    ///
    /// If the codec cannot write a value, nothing happened. If a change returns the earlier value,
    /// and the codec cannot read that value, the change has happened.
    #[error("cannot convert a value of `{name}` with codec {codec}: {source}; {remedy}")]
    Codec {
        /// The map, the set or the queue.
        name: Name,
        /// The codec that cannot convert the value.
        codec: String,
        /// The remedy. If the codec cannot read a value, the remedy names the codec that probably
        /// wrote it.
        remedy: String,
        /// Why the codec cannot convert the value.
        source: CodecError,
    },

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
        /// The source of the error, if there is one.
        source: Option<Cause>,
    },

    /// Two members of a multi-lock exclude each other, such as the two sides of one read-write
    /// lock. A multi-lock of these two members would wait for itself.
    #[error("invalid multi-lock: two members named `{name}` exclude each other; remove one member")]
    ConflictingMembers {
        /// The name that the two members have in common.
        name: Name,
    },

    /// A setting does not allow this duration.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),

    /// The store denied access to `name`: a permission is missing, or the password is wrong.
    ///
    /// Nothing happened. A retry helps only after the password or the permissions were corrected.
    /// In a cluster, the message names the node that rejects the login.
    #[error(
        "access to `{name}` denied: {}; check the password and the ACL permissions of the Redis \
         user",
        words(code, message, command.as_deref())
    )]
    Forbidden {
        /// The name of the lock or of another primitive.
        name: Name,
        /// The first word of the rejection: `NOPERM`, `NOAUTH` or `WRONGPASS`.
        code: String,
        /// The rest of the rejection. If the user lacks the permission for a key, this text also
        /// lists the keys of the request.
        message: String,
        /// The rejected command, if it is known.
        command: Option<String>,
    },

    /// A task of an async runtime called the blocking API. The call would block all other tasks of
    /// its thread. In a task, use the async API or `tokio::task::spawn_blocking`.
    #[error(
        "cannot use the blocking API: this thread runs async tasks; use the async API or \
         spawn_blocking"
    )]
    InsideAsync,

    /// The hold of `name` ended before the call, or while the work ran.
    ///
    /// If [`run`](crate::Lock::run) returns this error, the work was cancelled, or completed
    /// without the lock. [`LockGuard::run`](crate::LockGuard::run) returns which of the two
    /// happened.
    #[error("hold of `{name}` ended: {reason}; check the result of the work")]
    Lost {
        /// The name that is no longer held.
        name: Name,
        /// Why the hold ended.
        reason: LostReason,
    },

    /// The timeout elapsed before enough members had arrived at the barrier `name`. The caller has
    /// left the barrier, or leaves it in the background if the store did not reply within 100 ms.
    #[error(
        "timed out after {waited:?} waiting at the barrier `{name}`: only {arrived} of {parties} \
         members arrived{}; start the missing members, or use a longer timeout",
        listed(members)
    )]
    MembersMissing {
        /// The barrier.
        name: Name,
        /// How long the caller waited, rounded down to milliseconds.
        waited: Duration,
        /// How many members had arrived at the last request, including the caller.
        arrived: u32,
        /// How many members must arrive to open the barrier.
        parties: u32,
        /// At most 16 of the members that had arrived.
        members: Vec<Owner>,
    },

    /// The timeout elapsed before all other members had left the double barrier `name`. The caller
    /// has left the barrier.
    #[error(
        "timed out after {waited:?} waiting to leave the barrier `{name}`: {count} still inside{}",
        listed(members)
    )]
    MembersInside {
        /// The double barrier.
        name: Name,
        /// How long the caller waited, rounded down to milliseconds.
        waited: Duration,
        /// How many members were inside at the last request.
        count: u32,
        /// At most 16 of the members that were inside.
        members: Vec<Owner>,
    },

    /// The text is not a valid name.
    #[error("invalid name: {0}")]
    Name(#[from] InvalidName),

    /// Your script failed while it ran, or the server rejected one of several writes.
    ///
    /// Writes before the failure **stay**, because Redis has no rollback.
    #[error(
        "guarded write under the lock `{name}` failed in part: {message}; check the data, because \
         writes before the failure stay"
    )]
    PartialWrite {
        /// The lock that is held.
        name: Name,
        /// The error of the server or of the script.
        message: String,
    },

    /// A multi-lock without members.
    #[error("invalid multi-lock: the list of locks is empty; pass at least one lock")]
    NoMembers,

    /// The call needs a tokio runtime, but its thread has no runtime.
    #[error(
        "cannot use the async API: this thread has no tokio runtime; call from a runtime, or use \
         the blocking API"
    )]
    NoRuntime,

    /// The caller passed a guard that does not hold the writers' side of `name`.
    #[error(
        "cannot acquire the read lock of `{name}`: the passed guard does not hold the write lock \
         of `{name}`; pass the guard of the write lock"
    )]
    NotWriting {
        /// The read-write lock.
        name: Name,
    },

    /// This thread holds the readers' side of `name` and tried to acquire the writers' side. The
    /// thread would wait for itself.
    ///
    /// Release the readers' side first, then acquire the writers' side. Then read the data again,
    /// because another holder may have written in between.
    #[error(
        "cannot acquire the write lock of `{name}`: this thread holds the read lock; release the \
         read guard first"
    )]
    UpgradeNotSupported {
        /// The read-write lock.
        name: Name,
    },

    /// This thread holds the plain lock `name`, whose holds have no tokens. The fenced lock `name`
    /// cannot re-enter such a hold. Acquire the fenced lock first.
    #[error(
        "cannot acquire the fenced lock `{name}`: this thread holds a plain lock of this name, \
         which has no token; acquire the fenced lock first"
    )]
    NoToken {
        /// The name of the lock.
        name: Name,
    },

    /// Too few replicas acknowledged the grant of `name` in time, so the client released the grant.
    /// See [`Lock::replicated`](crate::Lock::replicated).
    #[error(
        "cannot acquire `{name}`: only {got} of {wanted} required replicas acknowledged the \
         acquisition in time, so the acquisition was undone; check the replicas, or require fewer"
    )]
    NotReplicated {
        /// The name of the lock.
        name: Name,
        /// How many replicas had to acknowledge the grant.
        wanted: u32,
        /// How many replicas acknowledged the grant, according to the last reply of the server.
        got: u32,
    },

    /// Too few permits of a rate limiter or a throttle will be free within the timeout of the
    /// caller. The call returns this error at once, without waiting.
    #[error(
        "rate of `{name}` used up: too few permits will be free within the timeout; retry after \
         {retry_after:?}"
    )]
    RateLimited {
        /// The name of the limiter.
        name: Name,
        /// After this time, enough permits will be free, unless another client acquires some.
        retry_after: Duration,
    },

    /// No client has set a rate, or Redis has removed it because the limiter got no request during
    /// its `idle_ttl`.
    #[error("cannot acquire permits of `{name}`: no rate is set; call set_if_absent")]
    RateNotSet {
        /// The name of the limiter.
        name: Name,
    },

    /// The server replies, but is not ready: it is starting, in a failover, read-only, or out of
    /// memory.
    ///
    /// Nothing happened. An acquisition retries, and returns this error only when its timeout ends.
    /// If the server is out of memory (`OOM`), the acquisition fails at once, because waiting frees
    /// no memory.
    #[error(
        "Redis not ready for `{name}`: {}; {}",
        words(code, message, command.as_deref()),
        not_ready_remedy(code)
    )]
    NotReady {
        /// The name of the lock or of another primitive.
        name: Name,
        /// The first word of the rejection, such as `READONLY` or `LOADING`.
        code: String,
        /// The rest of the rejection.
        message: String,
        /// The rejected command, if it is known.
        command: Option<String>,
    },

    /// The text is not a valid owner.
    #[error("invalid owner: {0}")]
    Owner(#[from] InvalidOwner),

    /// The text is not a valid id of a permit.
    #[error("invalid permit id: {0}")]
    PermitId(#[from] InvalidPermitId),

    /// The store rejected the request, and no other variant matches. See the field `message`.
    ///
    /// Nothing happened, and a retry does not help.
    #[error("request for `{name}` rejected: {}", words(code, message, command.as_deref()))]
    Refused {
        /// The name of the lock or of another primitive.
        name: Name,
        /// The first word of the rejection, such as `ERR`.
        code: String,
        /// The rest of the rejection.
        message: String,
        /// The rejected command, if it is known.
        command: Option<String>,
    },

    /// The text of a script for [`LockGuard::eval`](crate::LockGuard::eval) is invalid. The field
    /// has the reason.
    #[error("invalid script: {0}")]
    Script(String),

    /// The client was [shut down](crate::Client::shutdown).
    #[error("call rejected: this client was shut down; create another client")]
    ShutDown,

    /// More permits or elements than one call, or one semaphore, may have.
    #[error("invalid count for `{name}`: the maximum is {most}; use a smaller count")]
    TooMany {
        /// The name of the lock or of another primitive.
        name: Name,
        /// The maximum.
        most: u32,
    },

    /// The timeout elapsed while another owner held `name`, while too few permits were free, while a
    /// latch was closed, or while a queue was empty.
    #[error("timed out after {waited:?} waiting for `{name}`{}", why(holder.as_ref(), *by_this_client, *unset))]
    TimedOut {
        /// The name that the caller waited for.
        name: Name,
        /// How long the caller waited, rounded down to milliseconds.
        waited: Duration,
        /// The holder at the last request. A holder with a count of 0 does not hold `name`, but
        /// will be the next to acquire it. `None` for permits and latches, because the
        /// store does not return their holders, and for quorum locks.
        holder: Option<Holder>,
        /// Whether another guard of this client holds `name`. If so, the task may have waited for
        /// itself. The field is `false` if the other guard was released, and the store has not yet
        /// processed the release. Always `false` for quorum locks.
        by_this_client: bool,
        /// Whether the number of permits was unset at the last request. If so, call
        /// `set_if_absent`.
        unset: bool,
    },

    /// The counter of tokens cannot be raised to this number, because too few tokens would be left.
    ///
    /// Nothing happened. See [`FencedLock::raise_token`](crate::FencedLock::raise_token).
    #[error(
        "cannot raise the token of `{name}`: the given number exceeds {most}; check the source of \
         this number"
    )]
    TokenTooHigh {
        /// The fenced lock.
        name: Name,
        /// The maximum to which the counter can be raised.
        most: u64,
    },

    /// The store is unreachable, or did not reply in time.
    ///
    /// The operation **may have happened**, or may still happen. If an acquisition returns this
    /// error, a background task withdraws it. If a change such as
    /// [`Latch::count_down`](crate::Latch::count_down) returns this error, a second call may change
    /// the data a second time.
    #[error("Redis unavailable for `{name}`: {reason}")]
    Unavailable {
        /// The name of the lock or of another primitive.
        name: Name,
        /// The cause, as far as it is known.
        reason: String,
        /// The cause as an error, if there is one. `reason` already names this cause.
        source: Option<Cause>,
    },

    /// This store, or this primitive, does not support the operation. Nothing happened.
    #[error("unsupported operation: {what}")]
    Unsupported {
        /// The operation and the remedy.
        what: &'static str,
    },

    /// The URL of a server is invalid. The field names the part that is wrong.
    #[error("invalid URL: {0}")]
    Url(String),

    /// A value is too long, such as the value of a leader, or a key or an element of a collection.
    /// All callers share one connection. A reply with a longer value would delay the other callers,
    /// or end the connection.
    #[error(
        "{what} too long for `{name}`: the maximum is {most} bytes; store the value elsewhere, and \
         use a reference to it"
    )]
    ValueTooLong {
        /// The name of the object.
        name: Name,
        /// What is too long, such as ``value of `42` ``.
        what: String,
        /// The greatest length in bytes.
        most: usize,
    },

    /// The key `name` has another Redis type than this primitive needs. The key was not changed.
    #[error(
        "cannot use the name `{name}`: the Redis key of this name is a {found}; choose another name"
    )]
    WrongType {
        /// The name, which is also the key.
        name: Name,
        /// The type that Redis reports, such as `string` or `list`. It is `key of another type` if
        /// the ACL denies the command `TYPE`, and `text, not a number` for a text where a number is
        /// needed.
        found: String,
    },

    /// A number of permits, the count of a latch or a number of replicas is 0.
    #[error("invalid count for `{name}`: the minimum is 1; use a larger count")]
    ZeroCount {
        /// The name of the object.
        name: Name,
    },
}

/// Returns the end of a timeout message: the cause, if it is known, and the remedy.
fn why(holder: Option<&Holder>, by_this_client: bool, unset: bool) -> String {
    let cause = match holder {
        None if unset => return ": the number of permits is not set; call set_if_absent".into(),
        None => String::new(),
        Some(Holder { owner, count: 0, .. }) => {
            format!(": the waiting writer {owner} is first in the queue")
        }
        Some(holder) if by_this_client => {
            return format!(
                ": held by another guard of this client, {holder}; release that guard first, or \
                 use a longer timeout"
            );
        }
        Some(holder) => format!(": held by {holder}"),
    };
    cause + "; retry later, or use a longer timeout"
}

/// Formats the members for the end of a message, such as `: a, b`.
fn listed(members: &[Owner]) -> String {
    let separator = |at| if at == 0 { ": " } else { ", " };
    members.iter().enumerate().map(|(at, it)| format!("{}{it}", separator(at))).collect()
}

/// Returns the text of a rejection. If the text does not name the command, appends the command.
fn words(code: &str, message: &str, command: Option<&str>) -> String {
    let text = format!("{code} {message}");
    match command {
        Some(command) if !text.to_ascii_uppercase().contains(command) => {
            format!("{} (command {command})", text.trim())
        }
        _ => text.trim().to_owned(),
    }
}

/// Returns the remedy for a server that is not ready. A read-only server may be a replica that the
/// client uses by mistake.
fn not_ready_remedy(code: &str) -> &'static str {
    match code {
        "READONLY" => "retry, or connect to the primary",
        "OOM" => "free memory, or raise maxmemory",
        _ => "retry later",
    }
}

/// Converts an error of the connections to an error for callers.
impl From<leasehold_link::Error> for Error {
    fn from(error: leasehold_link::Error) -> Self {
        match error {
            leasehold_link::Error::Connect { server, reason, permanent, source } => {
                Self::Connect { server, reason, permanent, source: source.map(Cause) }
            }
            leasehold_link::Error::Url(what) => Self::Url(what),
            leasehold_link::Error::NoRuntime => Self::NoRuntime,
        }
    }
}

impl Error {
    /// Returns whether the store works, but the object is not available now.
    ///
    /// For example, another owner has the lock, a rate is used up, or members of a barrier are
    /// missing.
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
        matches!(
            self,
            Self::TimedOut { .. }
                | Self::RateLimited { .. }
                | Self::MembersMissing { .. }
                | Self::MembersInside { .. }
        )
    }

    /// Returns whether a retry can help, because the store is unreachable or not ready.
    ///
    /// [`NotReplicated`](Self::NotReplicated) is transient, because replicas come back.
    /// [`Connect`](Self::Connect) is transient, too, unless its field `permanent` is set, such as
    /// for a wrong password. A wrong address looks like a server that is still starting, so limit
    /// the number of retries.
    ///
    /// **If a change returned [`Unavailable`](Self::Unavailable), it may have happened.** A second
    /// call may change the data a second time, for example a second
    /// [`Latch::count_down`](crate::Latch::count_down), [`Semaphore::add`](crate::Semaphore::add),
    /// [`Queue::push`](crate::Queue::push), [`Set::pop`](crate::Set::pop) or
    /// [`LockGuard::eval`](crate::LockGuard::eval). Call such a method again only if a second
    /// change does no harm.
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
            Self::NotReady { .. } | Self::NotReplicated { .. } | Self::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// Returns whether an acquisition returns this error at once, because waiting does not help.
    pub(crate) fn ends_wait(&self) -> bool {
        !self.is_transient() || matches!(self, Self::NotReady { code, .. } if code == "OOM")
    }

    /// Returns the error for a caller whose request about `name` failed.
    pub(crate) fn about(name: &Name, failure: Failure) -> Self {
        let mut reason = failure.cause();
        if failure.may_have_happened() {
            reason += MAY_HAVE_HAPPENED;
        }
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

    /// Returns the error for a value of `name` that `codec` cannot write.
    pub(crate) fn unwritable(name: &Name, codec: &impl fmt::Debug, source: CodecError) -> Self {
        let remedy = "pass another value or use another codec".to_owned();
        Self::Codec { name: name.clone(), codec: format!("{codec:?}"), remedy, source }
    }

    /// Returns the error for `bytes` of `name` that `codec` cannot read.
    pub(crate) fn undecodable(
        name: &Name,
        codec: &impl fmt::Debug,
        bytes: &[u8],
        source: CodecError,
    ) -> Self {
        let codec = format!("{codec:?}");
        let remedy = codec::remedy(&codec, bytes);
        Self::Codec { name: name.clone(), codec, remedy, source }
    }

    /// Returns the error of a timeout without a known holder of `name`.
    pub(crate) fn timed_out(name: Name, waited: Duration) -> Self {
        let waited = in_millis(waited);
        Self::TimedOut { name, waited, holder: None, by_this_client: false, unset: false }
    }

    /// Returns `Unavailable` with this `reason`, and without a source.
    pub(crate) fn silent(name: Name, reason: String) -> Self {
        Self::Unavailable { name, reason, source: None }
    }
}

/// The source of an error, of any type. Cheap to clone.
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
