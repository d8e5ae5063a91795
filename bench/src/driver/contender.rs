//! Who is measured.

use crate::report::board::{LIMIT, OURS};

/// The language that a contender is written in, and so the program that drives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Language {
    Go,
    Java,
    Rust,
}

/// A library, as its worker knows it and as the table shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Contender {
    pub(super) library: &'static str,
    pub(super) column: &'static str,
    pub(super) language: Language,
}

const fn contender(library: &'static str, column: &'static str, language: Language) -> Contender {
    Contender { library, column, language }
}

pub(super) const LEASEHOLD: Contender = contender("leasehold", OURS, Language::Rust);
/// The limit of what a pair costs.
pub(super) const RAW: Contender = contender("raw", LIMIT, Language::Rust);
/// The limit of what waiting in one process can be.
pub(super) const MUTEX: Contender = contender("mutex", LIMIT, Language::Rust);
pub(super) const REDISSON: Contender = contender("redisson", "Redisson", Language::Java);
pub(super) const RSLOCK: Contender = contender("rslock", "rslock", Language::Rust);
pub(super) const RLOCK: Contender = contender("rlock", "rlock", Language::Rust);
pub(super) const REDSYNC: Contender = contender("redsync", "redsync", Language::Go);
pub(super) const REDISLOCK: Contender = contender("redislock", "redislock", Language::Go);

pub(super) const FENCED: [Contender; 2] = both("leasehold-fenced", "redisson-fenced");
pub(super) const READING: [Contender; 2] = both("leasehold-read", "redisson-read");
pub(super) const SEMAPHORE: [Contender; 2] = both("leasehold-semaphore", "redisson-semaphore");
pub(super) const PERMITS: [Contender; 2] = both("leasehold-permits", "redisson-permits");
pub(super) const LIMITER: [Contender; 2] = both("leasehold-limiter", "redisson-limiter");

/// One object of ours, and Redisson's. Each kind has workers of its own.
const fn both(ours: &'static str, theirs: &'static str) -> [Contender; 2] {
    [contender(ours, OURS, Language::Rust), contender(theirs, "Redisson", Language::Java)]
}

/// Ours, if a replica has to have what was granted, and the limit of that.
pub(super) const REPLICATED: [Contender; 2] = [
    contender("leasehold-replicated", OURS, Language::Rust),
    contender("raw-wait", LIMIT, Language::Rust),
];

/// Plain locks of ours, beside others of the same client that wait for replicas, and alone.
pub(super) const UNREPLICATED: [Contender; 2] = [
    contender("leasehold-beside", OURS, Language::Rust),
    contender("leasehold", LIMIT, Language::Rust),
];

pub(super) const RIVALS: [Contender; 5] = [REDISSON, RSLOCK, RLOCK, REDSYNC, REDISLOCK];

/// Ours, then `limit`, then the rivals.
pub(super) fn with_rivals(limit: Option<Contender>) -> Vec<Contender> {
    [LEASEHOLD].into_iter().chain(limit).chain(RIVALS).collect()
}
