//! The codec that does not change bytes.

use super::{Codec, CodecError};

/// Writes and reads bytes as they are, like `ByteArrayCodec` of Redisson.
///
/// # Examples
///
/// ```
/// use leasehold::codec::{Bytes, Codec};
/// assert_eq!(Bytes.encode(&vec![0, 255])?, [0, 255]);
/// let bytes: Vec<u8> = Bytes.decode(&[0, 255])?;
/// assert_eq!(bytes, [0, 255]);
/// # Ok::<(), leasehold::codec::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bytes;

impl<T: AsRef<[u8]> + From<Vec<u8>>> Codec<T> for Bytes {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        Ok(value.as_ref().to_vec())
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        Ok(bytes.to_vec().into())
    }
}
