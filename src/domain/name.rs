//! The name of a lock or another object. [`Name::new`] checks it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::hashed::hash_of;

/// The maximum length of a name, in bytes.
const MAX_BYTES: usize = 512;

/// The prefix of Leasehold's own keys. A lock with such a name could have the same key as the queue
/// of another lock.
const RESERVED: &str = "leasehold_";

/// The name of a lock or another object: its key in Redis, which is the same for Java and Rust.
///
/// Any text of 1 to 512 bytes is valid, even with spaces, newlines and letters of any alphabet.
/// Braces must form a hash tag of Redis Cluster, as in `{tenant-7}:orders`. Names that begin with
/// `leasehold_` are reserved.
///
/// # Examples
///
/// ```
/// use leasehold::{InvalidName, Name};
///
/// assert_eq!(Name::new("orders:42")?.as_str(), "orders:42");
/// assert_eq!(Name::new(""), Err(InvalidName::Empty));
/// # Ok::<(), InvalidName>(())
/// ```
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(Arc<Text>);

/// A text and its hash. The hash is computed once, because a client looks up a name more often than
/// it makes a name.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Text {
    text: Box<str>,
    hash: u64,
}

impl Name {
    /// Makes a name from `text`.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if `text` is empty, is longer than 512 bytes, begins with `leasehold_` as
    /// Leasehold's own keys do, or has braces that are not a hash tag. With such braces, the lock
    /// and the channel of its releases would be in different slots of a cluster.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{InvalidName, Name};
    ///
    /// assert!(Name::new("{tenant-7}:orders").is_ok());
    /// assert_eq!(Name::new("orders}"), Err(InvalidName::Brace));
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        match text.as_ref() {
            "" => Err(InvalidName::Empty),
            t if t.len() > MAX_BYTES => Err(InvalidName::TooLong { bytes: t.len() }),
            t if t.starts_with(RESERVED) => Err(InvalidName::Reserved),
            t if t.contains(['{', '}']) && !starts_a_hash_tag(t) => Err(InvalidName::Brace),
            t => Ok(Self(Arc::new(Text { text: t.into(), hash: hash_of(t) }))),
        }
    }

    /// Returns the text of the name.
    ///
    /// # Examples
    ///
    /// ```
    /// let name = leasehold::Name::new("orders:42")?;
    /// assert_eq!(name.as_str().len(), 9);
    /// # Ok::<(), leasehold::InvalidName>(())
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

/// Returns whether the first brace of `text` opens a tag that is not empty.
fn starts_a_hash_tag(text: &str) -> bool {
    let Some((before, after)) = text.split_once('{') else { return false };
    !before.contains('}') && after.find('}').is_some_and(|end| end > 0)
}

impl Name {
    /// Returns the hash of the text, which depends on a secret of this process.
    pub(super) fn hashed(&self) -> u64 {
        self.0.hash
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Shows the name on one line: control characters and invisible characters are escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on_one_line(self.as_str(), f)
    }
}

/// Writes `text` on one line. Escapes newlines and other control characters, and characters that
/// are invisible or change the direction of the text.
pub(super) fn on_one_line(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.chars().try_for_each(|c| match c.is_control() || is_hidden(c) {
        true => write!(f, "{}", c.escape_default()),
        false => write!(f, "{c}"),
    })
}

const fn is_hidden(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Why a text cannot be the name of a lock.
///
/// # Examples
///
/// ```
/// let refused = leasehold::Name::new("x".repeat(600)).unwrap_err();
/// assert_eq!(refused, leasehold::InvalidName::TooLong { bytes: 600 });
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The text has braces that are not a hash tag, as in `a{b`, `a}b` or `a{}b`.
    #[error(
        "a name may have braces only as a hash tag, as in `{{tenant}}:orders`; remove other braces"
    )]
    Brace,
    /// The text has no characters.
    #[error("a name needs at least one character")]
    Empty,
    /// The text begins with the reserved prefix `leasehold_`.
    #[error(
        "a name must not begin with `leasehold_`: this prefix is reserved; choose another name"
    )]
    Reserved,
    /// The text is longer than 512 bytes.
    #[error("a name has at most 512 bytes, but this name has {bytes}; use a hash of the name")]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_without_braces_is_a_valid_name() {
        for text in ["a", " ", "a b", "\n", "\0", "ключ", "🔒", &"x".repeat(512)] {
            assert_eq!(Name::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn name_with_braces_is_valid_only_with_an_unambiguous_hash_tag() {
        for good in ["{a}", "{a}b", "a{b}c", "a{b}c{d", "{a}}", "{{a}"] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["{", "}", "a{b", "a}b", "{}", "a{}b", "{}{a}", "}{a}", "a}b{c}"] {
            assert_eq!(Name::new(bad), Err(InvalidName::Brace), "{bad}");
        }
    }

    #[test]
    fn name_with_the_reserved_prefix_is_refused() {
        for reserved in ["leasehold_lock__queue:{door}", "leasehold_", "leasehold_x"] {
            assert_eq!(Name::new(reserved), Err(InvalidName::Reserved), "{reserved}");
        }
        for free in ["leasehold", "my:leasehold_lock__queue:{door}", "Leasehold_x"] {
            assert!(Name::new(free).is_ok(), "{free}");
        }
    }

    #[test]
    fn name_that_is_too_long_in_bytes_is_refused() {
        let name = "ä".repeat(257);
        assert_eq!(Name::new(name), Err(InvalidName::TooLong { bytes: 514 }));
    }

    #[test]
    fn name_is_printed_on_one_line() {
        let name = Name::new("a\nb\0ä\u{202e}").unwrap();
        assert_eq!(name.to_string(), r"a\nb\u{0}ä\u{202e}");
    }
}
