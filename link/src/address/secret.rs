//! A secret that is never logged: a password or a key.

use std::fmt;

/// Bytes that are never logged.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Vec<u8>);

impl Secret {
    #[cfg(feature = "tls")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns a password as text. Passwords are made from text, so the lossy conversion loses
    /// nothing.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
