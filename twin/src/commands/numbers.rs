//! Counters, as strings and as fields of hashes.

use super::NO_INTEGER;
use crate::{number, reply::Reply};

/// Returns the number in `text` plus `by`.
pub(super) fn added(
    text: Option<&Vec<u8>>,
    by: i64,
    not_a_number: &'static str,
) -> Result<i64, Reply> {
    let number = text.map_or(Some(0), |text| number::integer(text));
    let number = number.ok_or_else(|| Reply::error(not_a_number))?;
    number.checked_add(by).ok_or_else(|| Reply::error("ERR increment or decrement would overflow"))
}

/// Returns the number that `DECRBY` adds.
pub(super) fn negated(by: i64) -> Result<i64, Reply> {
    by.checked_neg().ok_or_else(|| Reply::error("ERR decrement would overflow"))
}

/// Like [`added`], for the value of a key.
pub(super) fn added_to_text(text: Option<&Vec<u8>>, by: i64) -> Result<i64, Reply> {
    added(text, by, NO_INTEGER)
}
