//! The message that makes each `RLocalCachedMap` in Java drop entries of its local cache.

use crate::{
    codec::hash::hash128,
    domain::{Name, Notice},
    store::keys::topic,
};

/// The first byte of a message that lists changed entries.
const INVALIDATE: u8 = 1;

/// The id of the map that sends the message. In Java, each map has a random id, and ignores
/// messages with its own id. So all Java maps process a message with an id of zeros.
const SENDER: [u8; 16] = [0; 16];

/// Returns the message which reports that entries of the map `name` have changed. `keys` are the
/// encoded keys of these entries.
pub(super) fn invalidation<'a>(name: &Name, keys: impl IntoIterator<Item = &'a [u8]>) -> Notice {
    let hashes: Vec<_> = keys.into_iter().map(|key| hash128(key).to_be_bytes()).collect();
    let count = u32::try_from(hashes.len()).unwrap_or(u32::MAX).to_be_bytes();
    let message = [&[INVALIDATE], &SENDER[..], &count, hashes.as_flattened()].concat();
    Notice { channel: topic(name), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_cache_invalidation_contains_hashes_of_keys() {
        let notice = invalidation(&Name::new("orders").unwrap(), [&b"test1"[..], b"42"]);
        assert_eq!(notice.channel, "{orders}:topic");
        assert_eq!(notice.message.len(), 1 + 16 + 4 + 2 * 16);
        assert_eq!(notice.message[..21], [&[1][..], &[0; 16], &[0, 0, 0, 2]].concat());
        // The name of the lock of the key `test1` contains the same hash, in Base64:
        // `sMUTHC2Ql4EaCGlDp3W/MQ`.
        assert_eq!(notice.message[21..25], [0xb0, 0xc5, 0x13, 0x1c]);
        let tagged = invalidation(&Name::new("a{b}c").unwrap(), [&b"42"[..]]);
        assert_eq!(tagged.channel, "a{b}c:topic");
    }
}
