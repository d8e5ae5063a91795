//! Keys and values as bytes, for the objects that have data.

use crate::{
    codec::Codec,
    domain::Name,
    error::{Error, Result},
};

/// Returns the bytes of `value`, which belongs to the object `name`.
pub(super) fn encode<T>(name: &Name, codec: &impl Codec<T>, value: &T) -> Result<Vec<u8>> {
    codec.encode(value).map_err(|source| Error::unwritable(name, codec, source))
}

/// Returns the value of `bytes`, which the object `name` has.
pub(super) fn decode<T>(name: &Name, codec: &impl Codec<T>, bytes: &[u8]) -> Result<T> {
    codec.decode(bytes).map_err(|source| Error::undecodable(name, codec, bytes, source))
}
