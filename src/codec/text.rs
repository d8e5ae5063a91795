//! Plain text, as Redisson's `StringCodec` writes it.

use std::{fmt, str::FromStr};

use super::{Codec, CodecError};

/// Writes the `Display` text of a value, and reads it with `FromStr`. This is the default codec.
///
/// In Java, use `StringCodec` for texts, and `LongCodec` or `IntegerCodec` for whole numbers. An
/// `f64` has the text of Rust's `Display`. Java may write the same number as another text.
///
/// # Examples
///
/// ```
/// use leasehold::codec::{Codec, Text};
/// assert_eq!(Text.encode(&42)?, b"42");
/// let name: String = Text.decode(b"test1")?;
/// assert_eq!(name, "test1");
/// # Ok::<(), leasehold::codec::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Text;

impl<T: fmt::Display + FromStr<Err: fmt::Display>> Codec<T> for Text {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        Ok(value.to_string().into_bytes())
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        let text = str::from_utf8(bytes).map_err(CodecError::new)?;
        text.parse().map_err(CodecError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_codec_matches_the_string_codec_of_redisson() {
        for (bytes, value) in [("", ""), ("test1", "test1"), ("é🔒", "é🔒")] {
            assert_eq!(Text.encode(&value.to_owned()).unwrap(), bytes.as_bytes());
            assert_eq!(Codec::<String>::decode(&Text, bytes.as_bytes()).unwrap(), value);
        }
        assert_eq!(Text.encode(&-42_i64).unwrap(), b"-42");
        assert_eq!(Codec::<i64>::decode(&Text, b"-42").unwrap(), -42);
        assert_eq!(Text.encode(&true).unwrap(), b"true");
    }

    #[test]
    fn text_codec_rejects_bytes_that_are_not_a_value_of_its_type() {
        let kryo = Codec::<String>::decode(&Text, &[3, b't', b'e', 0xf4]).unwrap_err();
        assert!(kryo.to_string().contains("utf-8"), "{kryo}");
        let number = Codec::<u8>::decode(&Text, b"300").unwrap_err();
        assert!(number.to_string().contains("too large"), "{number}");
    }
}
