//! How keys and values become bytes in Redis.
//!
//! Redis stores only bytes. If the codec in Rust writes the same bytes as the codec in Java, both
//! languages can share a value:
//!
//! | codec in Java | codec in Rust |
//! |---|---|
//! | `StringCodec`, `LongCodec`, `IntegerCodec` | [`Text`], the default |
//! | `ByteArrayCodec`, Protobuf | [`Bytes`] |
//! | the default of Redisson, for texts and numbers | [`Kryo5Text`] |
//! | `TypedJsonJacksonCodec` | `Json`, with the feature `serde` |
//! | `JsonJacksonCodec` | `TaggedJson`, with the feature `serde` |
//!
//! For new data in a map, use `Text` for keys and `Json` for values in Rust. In Java, use `new
//! CompositeCodec(StringCodec.INSTANCE, new TypedJsonJacksonCodec(String.class, Order.class))`.
//!
//! Redis compares bytes, so for Redis two values are equal only if their bytes are equal. So both
//! languages must write the same bytes for keys, for elements of sets, and for values that Redis
//! compares.
//!
//! # Examples
//!
//! A codec of your own:
//!
//! ```
//! use leasehold::codec::{Codec, CodecError};
//!
//! /// A number of four bytes.
//! #[derive(Clone, Debug)]
//! struct BigEndian;
//!
//! impl Codec<u32> for BigEndian {
//!     fn encode(&self, value: &u32) -> Result<Vec<u8>, CodecError> {
//!         Ok(value.to_be_bytes().to_vec())
//!     }
//!
//!     fn decode(&self, bytes: &[u8]) -> Result<u32, CodecError> {
//!         Ok(u32::from_be_bytes(bytes.try_into().map_err(CodecError::new)?))
//!     }
//! }
//!
//! assert_eq!(BigEndian.decode(&BigEndian.encode(&7)?)?, 7);
//! # Ok::<(), CodecError>(())
//! ```

mod bytes;
pub(crate) mod hash;
#[cfg(feature = "serde")]
mod json;
mod kryo;
mod remedy;
mod text;

use std::fmt;

#[cfg(feature = "serde")]
pub use self::json::{Json, TaggedJson};
pub(crate) use self::remedy::remedy;
pub use self::{bytes::Bytes, kryo::Kryo5Text, text::Text};

/// Converts values of type `T` to bytes, and bytes to values.
///
/// A codec must have no mutable state, so that all its clones write the same bytes. Errors show its
/// `Debug` text as the name of the codec. The [module](self) has an example.
pub trait Codec<T>: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns the bytes of `value`.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if this codec cannot write the value.
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError>;

    /// Returns the value of `bytes`.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if another codec wrote `bytes`, or if `bytes` are a value of another type.
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError>;
}

/// A value that the codec `C` can write as a `T`.
///
/// Such a value is a `T`, or a `str` if `T` is `String`, or a `[u8]` if `T` is `Vec<u8>`.
///
/// Methods that take a key or an element accept all these types, like the methods of `HashMap`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::Error> {
/// let totals = leasehold::Client::in_memory().map::<String, u32>("totals")?;
/// totals.insert("42", &7).await?;
/// assert_eq!(totals.get(&"42".to_owned()).await?, Some(7));
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(message = "codec `{C}` cannot encode `{Self}` as a `{T}`")]
pub trait Encode<T, C> {
    /// Returns the bytes that `codec` writes.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if the codec cannot write the value.
    fn encode_by(&self, codec: &C) -> Result<Vec<u8>, CodecError>;
}

impl<T, C: Codec<T>> Encode<T, C> for T {
    fn encode_by(&self, codec: &C) -> Result<Vec<u8>, CodecError> {
        codec.encode(self)
    }
}

impl<C: Codec<String>> Encode<String, C> for str {
    fn encode_by(&self, codec: &C) -> Result<Vec<u8>, CodecError> {
        codec.encode(&self.to_owned())
    }
}

impl<C: Codec<Vec<u8>>> Encode<Vec<u8>, C> for [u8] {
    fn encode_by(&self, codec: &C) -> Result<Vec<u8>, CodecError> {
        codec.encode(&self.to_owned())
    }
}

/// Why a codec cannot write or read a value.
///
/// # Examples
///
/// ```
/// let error = leasehold::codec::CodecError::new("the number is negative");
/// assert_eq!(error.to_string(), "the number is negative");
/// ```
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(String);

impl CodecError {
    /// Creates an error from its cause.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::codec::CodecError;
    /// let number = "x".parse::<u8>().map_err(CodecError::new);
    /// assert_eq!(number.unwrap_err().to_string(), "invalid digit found in string");
    /// ```
    pub fn new(cause: impl fmt::Display) -> Self {
        Self(cause.to_string())
    }
}
