//! Computes the slot of a key or a channel in a cluster.

pub(crate) const SLOTS: u16 = 16_384;

/// Returns the slot of a key, or of a sharded channel.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// Returns the part of `key` that is hashed: the text in the first braces. Without braces, or with
/// empty braces, the whole key is hashed.
fn tag(key: &[u8]) -> &[u8] {
    let find = |byte, from: &[u8]| from.iter().position(|it| *it == byte);
    let Some(open) = find(b'{', key) else { return key };
    match find(b'}', &key[open + 1..]) {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// Returns the checksum CRC-16/XMODEM, which Redis uses.
fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, byte: &u8| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte))];
    bytes.iter().fold(0, step)
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_slots_match_those_of_redis() {
        // These are the slots that `CLUSTER KEYSLOT` returns.
        for (key, slot) in [
            ("", 0),
            ("foo", 12_182),
            ("123456789", 12_739),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("bar", 5_061),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn slot_is_computed_from_the_first_valid_hash_tag() {
        for (key, tagged) in
            [("a{b", "a{b"), ("a}b", "a}b"), ("}{b}", "b"), ("{}", "{}"), ("{a{b}}", "a{b")]
        {
            assert_eq!(tag(key.as_bytes()), tagged.as_bytes());
        }
    }
}
