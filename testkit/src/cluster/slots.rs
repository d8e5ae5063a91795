//! The slot of a key.

pub(super) const SLOTS: u16 = 16_384;

/// Returns the slot of a key: the CRC16 of the text in its first braces, or of the whole key.
pub(super) fn slot_of(key: &str) -> u16 {
    crc16(tag(key).as_bytes()) % SLOTS
}

/// Returns the text in the first braces, or the whole key if there is none.
fn tag(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC16/XMODEM: polynomial 0x1021, not reflected, initial value zero.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_checksum_matches_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn hash_tag_is_the_first_nonempty_text_in_braces() {
        assert_eq!(tag("{user1000}.following"), "user1000");
        assert_eq!(tag("foo{}{bar}"), "foo{}{bar}");
        assert_eq!(tag("foo{{bar}}zap"), "{bar");
        assert_eq!(tag("foo{bar}{zap}"), "bar");
        assert_eq!(tag("foo{bar"), "foo{bar");
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
    }
}
