//! What a holder has its store do only while it holds.

use std::time::Duration;

/// One change of a key that is written under a lock: see
/// [`LockGuard::write`](crate::LockGuard::write).
///
/// Keys and values are bytes: `&str`, `String`, `Vec<u8>` and the like.
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
}

/// What becomes of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Edit {
    Set(Vec<u8>),
    SetField { field: Vec<u8>, value: Vec<u8> },
    Delete,
    Expire(Duration),
}

impl Write {
    fn new(key: impl Into<Vec<u8>>, edit: Edit) -> Self {
        Self { key: key.into(), edit }
    }

    /// Sets `key` to `value`, whatever it was. It lives without an end then, as after `SET`.
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

    /// Deletes `key`, of whatever type it is.
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

    /// Has `key` deleted `after` so long, if it is there. From 1 ms to 100 years.
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

/// A Lua script of yours, with its keys and arguments: see
/// [`LockGuard::eval`](crate::LockGuard::eval).
///
/// It finds them in `KEYS` and `ARGV`, counted from 1; the lock's key is not among them. Name
/// every key that it uses. The server keeps each text that it has seen: what changes from call to
/// call belongs into arguments.
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
    /// A script without keys and arguments.
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

/// What a store is to do, if the asker holds.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// All of these in this order, or nothing.
    Writes(Vec<Write>),
    Script(Script),
}

/// What a [`Script`] returned.
///
/// As Redis's older protocol has it: a `true` is the integer 1, a `false` and nothing are
/// [`Nil`](Self::Nil), a number in Lua loses its fraction.
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
    /// Nothing.
    Nil,
    /// An integer.
    Int(i64),
    /// A text or any other bytes, as `GET` gives them.
    Bytes(Vec<u8>),
    /// A status, as the `OK` of `SET`.
    Status(String),
    /// Several of them.
    List(Vec<Self>),
}

impl Value {
    /// The integer, if it is one. A text of digits is not an integer.
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

    /// The bytes, or the text of a status.
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

    /// The same as text, if it is UTF-8.
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

    /// The parts of a list.
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

    /// The bytes themselves, or those of a status.
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
