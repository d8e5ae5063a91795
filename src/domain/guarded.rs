//! Changes that a store executes only while the caller holds a lock.

use std::time::Duration;

/// One change of a key, executed only while the lock is held: see
/// [`LockGuard::write`](crate::LockGuard::write).
///
/// Keys and values are bytes. Pass `&str`, `String`, `Vec<u8>` or the like.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, MemoryStore, Write};
/// let store = MemoryStore::new();
/// let guard = Client::with_store(&store).lock("stock:42")?.acquire().await?;
/// guard.write([Write::set("stock:42:left", "7")]).await?;
/// assert_eq!(store.value("stock:42:left").as_deref(), Some(&b"7"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Write {
    pub(crate) key: Vec<u8>,
    pub(crate) edit: Edit,
    pub(crate) notice: Option<Notice>,
}

/// A message that the store publishes together with the change of a key. In a cluster, the channel
/// of the message belongs to the slot of the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Notice {
    pub(crate) channel: String,
    pub(crate) message: Vec<u8>,
}

/// A change of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Edit {
    Set(Vec<u8>),
    SetField {
        field: Vec<u8>,
        value: Vec<u8>,
    },
    /// Sets the field only if the hash does not have it.
    SetAbsentField {
        field: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveField(Vec<u8>),
    Delete,
    Expire(Duration),
}

impl Write {
    pub(crate) fn new(key: impl Into<Vec<u8>>, edit: Edit) -> Self {
        Self { key: key.into(), edit, notice: None }
    }

    /// Makes the store publish `notice` together with this write.
    pub(crate) fn notifying(self, notice: Option<Notice>) -> Self {
        Self { notice, ..self }
    }

    /// Sets `key` to `value`, as `SET` does. Replaces a value of any type, and removes the TTL of
    /// the key.
    ///
    /// # Examples
    ///
    /// ```
    /// let write = leasehold::Write::set("stock:42:left", "7");
    /// ```
    #[must_use]
    pub fn set(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self::new(key, Edit::Set(value.into()))
    }

    /// Sets one field of the hash `key`, as `HSET` does.
    ///
    /// # Examples
    ///
    /// ```
    /// let write = leasehold::Write::hset("stock:42", "left", "7");
    /// ```
    #[must_use]
    pub fn hset(
        key: impl Into<Vec<u8>>,
        field: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Self {
        Self::new(key, Edit::SetField { field: field.into(), value: value.into() })
    }

    /// Removes one field of the hash `key`, as `HDEL` does.
    ///
    /// # Examples
    ///
    /// ```
    /// let write = leasehold::Write::hdel("stock:42", "left");
    /// ```
    #[must_use]
    pub fn hdel(key: impl Into<Vec<u8>>, field: impl Into<Vec<u8>>) -> Self {
        Self::new(key, Edit::RemoveField(field.into()))
    }

    /// Deletes `key`, which may have any type.
    ///
    /// # Examples
    ///
    /// ```
    /// let write = leasehold::Write::delete("stock:42:left");
    /// ```
    #[must_use]
    pub fn delete(key: impl Into<Vec<u8>>) -> Self {
        Self::new(key, Edit::Delete)
    }

    /// Sets the TTL of `key`, if the key exists. A TTL is at least 1 ms and at most 100 years.
    ///
    /// # Examples
    ///
    /// ```
    /// let write = leasehold::Write::expire("stock:42", std::time::Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn expire(key: impl Into<Vec<u8>>, after: Duration) -> Self {
        Self::new(key, Edit::Expire(after))
    }
}

/// A Lua script of the caller, with its keys and arguments: see
/// [`LockGuard::eval`](crate::LockGuard::eval).
///
/// The script finds its keys in `KEYS` and its arguments in `ARGV`, counted from 1. The key of the
/// lock is not in `KEYS`. Pass every key that the script uses. The server caches each text that it
/// gets, so do not write changing values into the text: pass them as arguments.
///
/// # Examples
///
/// ```
/// use leasehold::Script;
/// let take = Script::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
/// let take_two = take.clone().key("stock:42:left").arg("2");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Script {
    pub(crate) text: String,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl Script {
    /// Makes a script without keys and arguments.
    ///
    /// # Examples
    ///
    /// ```
    /// let script = leasehold::Script::new("return 1");
    /// ```
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), keys: Vec::new(), args: Vec::new() }
    }

    /// Adds a key.
    ///
    /// # Examples
    ///
    /// ```
    /// let script = leasehold::Script::new("return redis.call('GET', KEYS[1])").key("stock:42");
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Adds an argument.
    ///
    /// # Examples
    ///
    /// ```
    /// let script = leasehold::Script::new("return ARGV[1]").arg("7");
    /// ```
    #[must_use]
    pub fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// What the store does if the caller holds the lock.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Executes all writes in this order, or no write if the caller does not hold the lock.
    Writes(Vec<Write>),
    Script(Script),
}

/// The result of a [`Script`].
///
/// Redis converts the values of Lua as in its protocol RESP2. `true` becomes the integer 1. `false`
/// and `nil` become [`Nil`](Self::Nil). A number loses its fraction.
///
/// # Examples
///
/// ```
/// use leasehold::Value;
/// let answer = Value::List(vec![Value::Int(7), Value::Bytes(b"left".to_vec())]);
/// let parts = answer.as_list().unwrap();
/// assert_eq!((parts[0].as_int(), parts[1].as_str()), (Some(7), Some("left")));
/// assert_eq!(parts[0].as_str(), None);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Nil,
    /// An integer.
    Int(i64),
    /// A text or other bytes, such as the reply of `GET`.
    Bytes(Vec<u8>),
    /// A status, such as the `OK` of `SET`.
    Status(String),
    /// A list of values.
    List(Vec<Self>),
}

impl Value {
    /// Returns the integer, if the value is an integer. A text of digits is not an integer.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Value::Int(7).as_int(), Some(7));
    /// ```
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the bytes of [`Bytes`](Self::Bytes) or of a [`Status`](Self::Status).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Value::Bytes(vec![0, 255]).as_bytes(), Some(&[0, 255][..]));
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Returns the bytes or the status as a text, if they are UTF-8.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Value::Status("OK".into()).as_str(), Some("OK"));
    /// ```
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(self.as_bytes()?).ok()
    }

    /// Returns the elements of a list.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Value::List(vec![]).as_list(), Some(&[][..]));
    /// ```
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(parts) => Some(parts),
            _ => None,
        }
    }

    /// Does what [`as_bytes`](Self::as_bytes) does, but consumes the value and copies nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::Value::Bytes(vec![7]).into_bytes(), Some(vec![7]));
    /// ```
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Status(text) => Some(text.into_bytes()),
            _ => None,
        }
    }
}
