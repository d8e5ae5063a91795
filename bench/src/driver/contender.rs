//! The libraries that are measured.

use crate::report::board::{LIMIT, OURS};

/// The language of a contender, which decides what program drives the library.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Language {
    Go,
    Java,
    Rust,
}

/// A library: its name for the worker, and its column of the table.
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
/// Plain Redis commands: the lower limit of the cost of acquiring and releasing.
pub(super) const RAW: Contender = contender("raw", LIMIT, Language::Rust);
/// A mutex: the lower limit of waiting in one process.
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

pub(super) const FAIR: [Contender; 2] = both("leasehold-fair", "redisson-fair");
pub(super) const MULTI: [Contender; 2] = both("leasehold-multi", "redisson-multi");
pub(super) const QUORUM: [Contender; 2] = both("leasehold-quorum", "redisson-quorum");
pub(super) const MAP: [Contender; 2] = both("leasehold-map", "redisson-map");
pub(super) const SET: [Contender; 2] = both("leasehold-set", "redisson-set");
const QUEUES: [Contender; 2] = both("leasehold-queue", "redisson-queue");
/// Queues with claims. In rsmq, a claim is a message that is hidden for a time.
pub(super) const QUEUE: [Contender; 3] =
    [QUEUES[0], QUEUES[1], contender("rsmq", "rsmq", Language::Rust)];
/// Redisson has no election, so its candidates acquire a fenced lock.
pub(super) const ELECTION: [Contender; 2] = both("leasehold-election", "redisson-fenced");

/// Returns the contenders for one kind of object: Leasehold and Redisson. Each kind of object has
/// its own workers.
const fn both(ours: &'static str, theirs: &'static str) -> [Contender; 2] {
    [contender(ours, OURS, Language::Rust), contender(theirs, "Redisson", Language::Java)]
}

/// Locks of Leasehold that a replica must acknowledge, and the lower limit of their cost.
pub(super) const REPLICATED: [Contender; 2] = [
    contender("leasehold-replicated", OURS, Language::Rust),
    contender("raw-wait", LIMIT, Language::Rust),
];

/// Plain locks of Leasehold, with and without other locks of the client that wait for replicas.
pub(super) const UNREPLICATED: [Contender; 2] = [
    contender("leasehold-beside", OURS, Language::Rust),
    contender("leasehold", LIMIT, Language::Rust),
];

pub(super) const RIVALS: [Contender; 5] = [REDISSON, RSLOCK, RLOCK, REDSYNC, REDISLOCK];

/// Returns Leasehold, then `limit` if there is one, and then the rivals.
pub(super) fn with_rivals(limit: Option<Contender>) -> Vec<Contender> {
    [LEASEHOLD].into_iter().chain(limit).chain(RIVALS).collect()
}
