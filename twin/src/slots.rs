//! In which slot of a cluster a key lies.

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: of what stands between its first braces, if that is anything.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC16 of XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_one_tag_share_a_slot() {
        assert_eq!((slot_of(b"123456789"), slot_of(b"foo")), (12_739, 12_182));
        assert_eq!(slot_of(b"{foo}.bar"), slot_of(b"foo"));
        assert_ne!(slot_of(b"{}foo"), slot_of(b"foo"));
    }
}
