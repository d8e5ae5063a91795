//! Converts keys, values and elements to bytes and back, for maps, sets and queues.

use leasehold_link::shown;

use crate::{
    codec::{Codec, Encode},
    domain::Name,
    error::{Error, Result},
    store::MAX_VALUE_BYTES,
};

/// Encodes `value` for the object `name`. If the bytes are too long, the text of the error contains
/// `what`, such as `element`, and `of`, which is the key of the value. If `of` is `None`, the text
/// contains the beginning of the value instead of the key.
pub(super) fn encode<T, C: Codec<T>>(
    name: &Name,
    codec: &C,
    value: &(impl Encode<T, C> + ?Sized),
    what: &str,
    of: Option<&[u8]>,
) -> Result<Vec<u8>> {
    let bytes = value.encode_by(codec).map_err(|source| Error::unwritable(name, codec, source))?;
    match bytes.len() <= MAX_VALUE_BYTES {
        true => Ok(bytes),
        false => Err(too_long(name, called(what, of.unwrap_or(&bytes)))),
    }
}

/// Decodes `bytes`, which the store returned for the object `name`.
pub(super) fn decode<T>(name: &Name, codec: &impl Codec<T>, bytes: &[u8]) -> Result<T> {
    codec.decode(bytes).map_err(|source| Error::undecodable(name, codec, bytes, source))
}

/// Returns the error for a key, a value or an element that is too long.
pub(super) fn too_long(name: &Name, what: String) -> Error {
    Error::ValueTooLong { name: name.clone(), what, most: MAX_VALUE_BYTES }
}

/// Returns the text for a key, a value or an element in an error. The text consists of `what` and
/// the beginning of `bytes`.
pub(super) fn called(what: &str, bytes: &[u8]) -> String {
    format!("{what} `{}`", shown(&String::from_utf8_lossy(bytes)))
}

/// Implements `Clone` and `Debug` for an object with elements. `derive` would do so only if the
/// element types `$of` implement these traits.
macro_rules! traits {
    ($type:ident<$($of:ident),+; $($codec:ident: $by:ident),+>, $($field:ident),+) => {
        impl<$($of,)+ $($by: Clone),+> Clone for $type<$($of,)+ $($by),+> {
            fn clone(&self) -> Self {
                let Self { $($field,)+ $($codec,)+ of } = self;
                Self { $($field: $field.clone(),)+ $($codec: $codec.clone(),)+ of: *of }
            }
        }

        impl<$($of,)+ $($by: std::fmt::Debug),+> std::fmt::Debug for $type<$($of,)+ $($by),+> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                shown.field("name", self.name())$(.field(stringify!($codec), &self.$codec))+;
                shown.finish_non_exhaustive()
            }
        }
    };
}

pub(super) use traits;
