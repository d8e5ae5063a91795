//! The owner of a hold.

use std::{
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::Uuid;

use super::name::on_one_line;

/// The maximum length of an owner, in bytes.
const MAX_BYTES: usize = 512;

/// The owner of a hold: `<client uuid>:<number>`, as Redisson writes it.
///
/// Every grant of the store has its own owner, so two tasks of one process exclude each other like
/// two processes. If a task hands the lock off to another task of its process, the owner stays the
/// same. An owner in Redis may have another form. In Redisson, the number is the id of a thread.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let lock = client.lock("orders:42")?;
/// let guard = lock.acquire().await?;
/// assert!(lock.held_by(guard.owner()).await? == 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Makes an owner from `text`, such as an owner in the log of a Java process.
    ///
    /// # Errors
    ///
    /// [`InvalidOwner`] if `text` is empty or longer than 512 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// let java = leasehold::Owner::new("8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42")?;
    /// assert!(java.as_str().ends_with(":42"));
    /// # Ok::<(), leasehold::InvalidOwner>(())
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidOwner> {
        match text.as_ref() {
            t if t.is_empty() || t.len() > MAX_BYTES => Err(InvalidOwner { bytes: t.len() }),
            t => Ok(Self(t.into())),
        }
    }

    /// Makes an owner from a text of the store. Shortens a long text, and replaces an empty text by
    /// `?`.
    pub(crate) fn lossy(text: &str) -> Self {
        let end = (0..=text.len().min(MAX_BYTES)).rev().find(|end| text.is_char_boundary(*end));
        let cut = end.map_or("", |end| &text[..end]);
        Self(if cut.is_empty() { "?" } else { cut }.into())
    }

    /// Returns the first half of the client's UUID, and the number of the acquisition in 48 bits.
    /// The ids of permits contain both.
    pub(super) fn bits(&self) -> (u64, u64) {
        let (client, number) = self.0.rsplit_once(':').unwrap_or_else(|| (&self.0, "0"));
        let client = match Uuid::parse_str(client) {
            Ok(uuid) => uuid.as_u64_pair().0,
            Err(_) => BuildHasherDefault::<DefaultHasher>::default().hash_one(client),
        };
        (client, number.parse::<u64>().unwrap_or(0) & 0xffff_ffff_ffff)
    }

    /// Returns the owner as it is in Redis.
    ///
    /// # Examples
    ///
    /// ```
    /// let owner = leasehold::Owner::new("client:1")?;
    /// assert_eq!(owner.as_str(), "client:1");
    /// # Ok::<(), leasehold::InvalidOwner>(())
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Shows the owner on one line: newlines and other control characters are escaped.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on_one_line(&self.0, f)
    }
}

/// Why a text cannot be an owner.
///
/// # Examples
///
/// ```
/// let refused = leasehold::Owner::new("").unwrap_err();
/// assert_eq!(refused.to_string(), "an owner has 1 to 512 bytes, but this text has 0");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("an owner has 1 to 512 bytes, but this text has {bytes}")]
pub struct InvalidOwner {
    bytes: usize,
}

/// The UUID of a client, and the number of its last acquisition.
#[derive(Debug)]
pub(crate) struct Identity {
    client: Arc<str>,
    last: AtomicU64,
}

impl Identity {
    pub(crate) fn random() -> Self {
        Self::of(Uuid::new_v4().to_string())
    }

    pub(crate) fn of(client: impl Into<Arc<str>>) -> Self {
        Self { client: client.into(), last: AtomicU64::new(0) }
    }

    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// Returns whether `owner` belongs to this client.
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        owner.as_str().strip_prefix(&*self.client).is_some_and(|rest| rest.starts_with(':'))
    }

    /// Returns an owner that no other acquisition has.
    pub(crate) fn fresh_owner(&self) -> Owner {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // `format!` would take 900 more instructions. An acquisition and its release in memory take
        // 8,700 instructions.
        let text = [&*self.client, ":", &number.to_string()].concat();
        Owner(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_one_client_differ_and_have_redissons_form() {
        let identity = Identity::random();
        let (first, second) = (identity.fresh_owner(), identity.fresh_owner());
        assert_ne!(first, second);

        let (client, number) = first.as_str().rsplit_once(':').unwrap();
        assert_eq!(client, identity.client());
        assert_eq!(client, Uuid::parse_str(client).unwrap().hyphenated().to_string());
        assert_eq!(number.parse::<i64>(), Ok(1));
    }

    #[test]
    fn client_recognizes_its_own_owners() {
        let (identity, other) = (Identity::of("a"), Identity::of("ab"));
        assert!(identity.is_of(&identity.fresh_owner()));
        assert!(!identity.is_of(&other.fresh_owner()));
        assert!(!identity.is_of(&Owner::new("a").unwrap()));
    }

    /// Former bug: a hash field of another program put newlines into errors and logs.
    #[test]
    fn owner_is_printed_on_one_line() {
        let owner = Owner::new("a\nb\u{1b}[31m").unwrap();
        assert_eq!(owner.to_string(), r"a\nb\u{1b}[31m");
        assert_eq!(owner.as_str(), "a\nb\u{1b}[31m");
    }

    #[test]
    fn owner_text_of_1_to_512_bytes_is_valid() {
        assert_eq!(Owner::new("x").unwrap().as_str(), "x");
        assert_eq!(Owner::new(""), Err(InvalidOwner { bytes: 0 }));
        assert_eq!(Owner::new("x".repeat(513)), Err(InvalidOwner { bytes: 513 }));
    }
}
