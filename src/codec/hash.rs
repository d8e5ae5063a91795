//! HighwayHash with 128 bits, keyed with the constant that Redisson uses. If a synchronizer belongs
//! to a key of a map, the name of the synchronizer contains this hash of the map key.
//!
//! The module implements Google's portable algorithm, without streaming and vector instructions,
//! because only the result has to be the same as in Java.

const KEY: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];

const INIT: [[u64; 4]; 2] = [
    [0xdbe6_d5d5_fe4c_ce2f, 0xa409_3822_299f_31d0, 0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3],
    [0x3bd3_9e10_cb0e_f593, 0xc0ac_f169_b5f1_8a8c, 0xbe54_66cf_34e9_0c6c, 0x4528_21e6_38d0_1377],
];

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the hash of `bytes` in Base64, without padding: 22 characters.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let hash = hash128(bytes);
    let letter = |at: u32| {
        // A letter has six bits. The 22nd letter has only the last two bits of the hash.
        let six = if at < 21 { hash >> (122 - 6 * at) } else { hash << 4 };
        char::from(LETTERS[(six & 0x3f) as usize])
    };
    (0..22).map(letter).collect()
}

pub(crate) fn hash128(bytes: &[u8]) -> u128 {
    let mut state = State::new();
    let (packets, rest) = bytes.as_chunks::<32>();
    packets.iter().for_each(|packet| state.update(packet));
    if !rest.is_empty() {
        state.update_rest(rest);
    }
    state.finish()
}

struct State {
    v0: [u64; 4],
    v1: [u64; 4],
    mul0: [u64; 4],
    mul1: [u64; 4],
}

impl State {
    fn new() -> Self {
        let keyed = |init: [u64; 4], turn| {
            std::array::from_fn(|lane| init[lane] ^ KEY[lane].rotate_left(turn))
        };
        let [mul0, mul1] = INIT;
        Self { v0: keyed(mul0, 0), v1: keyed(mul1, 32), mul0, mul1 }
    }

    fn update(&mut self, packet: &[u8; 32]) {
        let (lanes, _) = packet.as_chunks::<8>();
        self.mix(std::array::from_fn(|lane| u64::from_le_bytes(lanes[lane])));
    }

    fn mix(&mut self, lanes: [u64; 4]) {
        const LOW: u64 = 0xffff_ffff;
        let Self { v0, v1, mul0, mul1 } = self;
        for lane in 0..4 {
            v1[lane] = v1[lane].wrapping_add(mul0[lane]).wrapping_add(lanes[lane]);
            mul0[lane] ^= (v1[lane] & LOW).wrapping_mul(v0[lane] >> 32);
            v0[lane] = v0[lane].wrapping_add(mul1[lane]);
            mul1[lane] ^= (v0[lane] & LOW).wrapping_mul(v1[lane] >> 32);
        }
        zipper(v1, v0);
        zipper(v0, v1);
    }

    /// Mixes the last 1 to 31 bytes, which do not fill a packet.
    fn update_rest(&mut self, rest: &[u8]) {
        let length = rest.len();
        let (size, turn) = (length as u64, length as u32);
        for lane in 0..4 {
            self.v0[lane] = self.v0[lane].wrapping_add((size << 32) + size);
            let (high, low) = ((self.v1[lane] >> 32) as u32, self.v1[lane] as u32);
            let turned = (high.rotate_left(turn), low.rotate_left(turn));
            self.v1[lane] = u64::from(turned.0) << 32 | u64::from(turned.1);
        }
        let (words, odd) = (length & !3, length & 3);
        let mut packet = [0; 32];
        packet[..words].copy_from_slice(&rest[..words]);
        if length & 16 > 0 {
            packet[28..].copy_from_slice(&rest[length - 4..]);
        } else if odd > 0 {
            packet[16] = rest[words];
            packet[17] = rest[words + (odd >> 1)];
            packet[18] = rest[length - 1];
        }
        self.update(&packet);
    }

    fn finish(mut self) -> u128 {
        for _ in 0..6 {
            let [a, b, c, d] = self.v0.map(|lane| lane.rotate_left(32));
            self.mix([c, d, a, b]);
        }
        let half = |at: usize| {
            let v = self.v0[at].wrapping_add(self.mul0[at]);
            v.wrapping_add(self.v1[at + 2]).wrapping_add(self.mul1[at + 2])
        };
        u128::from(half(0)) << 64 | u128::from(half(1))
    }
}

/// Adds the bytes of `from` to `to`, in the order that HighwayHash specifies for its zipper merge.
fn zipper(from: &[u64; 4], to: &mut [u64; 4]) {
    for pair in [0, 2] {
        let (even, odd) = (from[pair], from[pair + 1]);
        let first = ((even & 0xff00_0000) | (odd & 0xff_0000_0000)) >> 24
            | ((even & 0xff00_0000_0000) | (odd & 0x00ff_0000_0000_0000)) >> 16
            | (even & 0xff_0000)
            | (even & 0xff00) << 32
            | (odd & 0xff00_0000_0000_0000) >> 8
            | even << 56;
        let second = ((odd & 0xff00_0000) | (even & 0xff_0000_0000)) >> 24
            | (odd & 0xff_0000)
            | (odd & 0xff00_0000_0000) >> 16
            | (odd & 0xff00) << 24
            | (even & 0x00ff_0000_0000_0000) >> 8
            | (odd & 0xff) << 48
            | (even & 0xff00_0000_0000_0000);
        to[pair] = to[pair].wrapping_add(first);
        to[pair + 1] = to[pair + 1].wrapping_add(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_function_matches_redisson() {
        for (text, expected) in [
            ("", "t6rZwibGo2uy1OSmNVe8pg"),
            ("test1", "sMUTHC2Ql4EaCGlDp3W/MQ"),
            ("test2", "436CZJNgLJy17cg3htdgnw"),
            ("student:001", "DqvoYruF5eyLDrILcprmBw"),
            ("Jack_001", "7pNoDdizVy2xY792MaFv+w"),
            ("0123456789abcdef0123456789abcdef", "08hr0B8iaf3PoSsWAS8sWA"),
            ("0123456789abcdef0123456789abcdef-tail", "JECRSBrgH6IJYiMWASnoAA"),
            ("42", "RE0IojEvPTY8Dofe3IkBNA"),
            ("orders:42", "fz0tUVexy7noilpFp2Juzg"),
            ("\"orders:42\"", "c9nK1ThZlKmy7EZ7WUoTWw"),
        ] {
            assert_eq!(hash(text.as_bytes()), expected, "{text}");
        }
    }
}
