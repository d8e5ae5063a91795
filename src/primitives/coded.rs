//! Converts keys and values to bytes and back, for the objects that have data.

use crate::{
    codec::Codec,
    domain::Name,
    error::{Error, Result},
    store::MAX_VALUE_BYTES,
};

/// Returns the bytes of `value`, which belongs to the object `name`.
pub(super) fn encode<T>(name: &Name, codec: &impl Codec<T>, value: &T) -> Result<Vec<u8>> {
    let bytes = codec.encode(value).map_err(|source| Error::unwritable(name, codec, source))?;
    match bytes.len() <= MAX_VALUE_BYTES {
        true => Ok(bytes),
        false => Err(too_long(name)),
    }
}

/// Returns the value of `bytes`, which the object `name` contained.
pub(super) fn decode<T>(name: &Name, codec: &impl Codec<T>, bytes: &[u8]) -> Result<T> {
    codec.decode(bytes).map_err(|source| Error::undecodable(name, codec, bytes, source))
}

/// Returns the error for a value that is longer than the longest allowed value.
pub(super) fn too_long(name: &Name) -> Error {
    Error::ValueTooLong { name: name.clone(), most: MAX_VALUE_BYTES }
}
