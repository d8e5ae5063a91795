//! Maps whose keys contain their hash, so that a lookup does not hash the text of a name. With such
//! maps, an acquisition and its release in memory take 8,700 instructions instead of 11,300.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::LazyLock,
};

/// A map whose keys contain their hash. Each key calls `Hasher::write_u64` once, with this hash.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Hashes a text with a secret, so that an attacker who chooses names cannot provoke collisions.
pub(super) fn hash_of(text: &str) -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SECRET.hash_one(text)
}

/// Spreads the differences between hashes over all bits, because a `HashMap` uses only some bits.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = number.wrapping_mul(GOLDEN_RATIO);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("BUG: a key that does not hash as one number");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
