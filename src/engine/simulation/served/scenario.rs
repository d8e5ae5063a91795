//! The settings of a run.

use std::time::Duration;

use fastrand::Rng;

/// The timeout of a client for a connection and for a reply.
pub(super) const TIMEOUT: Duration = Duration::from_millis(500);

/// The longest pause of a polling waiter. Yield windows of 8 and 16 ms are longer than this pause,
/// so the waiter polls in each of them.
pub(super) const LONGEST_POLL: Duration = Duration::from_millis(4);

/// How many replicas the server reports in a run with acknowledged grants.
pub(super) const REPLICAS: u32 = 1;

/// The kind of a run, which decides which faults may occur.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// No fault, and all clients queue for one lock.
    Crowd,
    /// No fault.
    Calm,
    /// Only failovers and moved slots.
    Switched,
    /// Any fault.
    Rough,
}

/// The faults of this run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) cuts: bool,
    pub(super) stops: bool,
    pub(super) refusals: bool,
    pub(super) losses: bool,
    pub(super) flushes: bool,
    pub(super) forgetting: bool,
    pub(super) permissions: bool,
    pub(super) promotion: bool,
    pub(super) deaths: bool,
    pub(super) pauses: bool,
    pub(super) forger: bool,
    pub(super) suspensions: bool,
    pub(super) runtimes: bool,
    pub(super) shutdowns: bool,
    /// Locks are released by force.
    pub(super) forcing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) kind: Kind,
    pub(super) clients: u32,
    pub(super) workers: u32,
    pub(super) names: u32,
    pub(super) rounds: u32,
    /// The longest pause and the longest usual hold of a worker, in milliseconds.
    pub(super) rest: u64,
    pub(super) hold: u64,
    /// The longest time of a request or a reply on the network, in milliseconds.
    pub(super) delay: u64,
    pub(super) ttl: Duration,
    /// Whether some clients poll.
    pub(super) polling: bool,
    /// The number of clients that have no permission to queue.
    pub(super) outsiders: u32,
    pub(super) redisson: bool,
    pub(super) busy_poller: bool,
    /// Whether each worker acquires again at once after its release.
    pub(super) restless: bool,
    /// The number of replicas of each primary. For some acquisitions, all replicas must acknowledge
    /// the grant.
    pub(super) replicas: u32,
    pub(super) faults: Faults,
}

impl Scenario {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        let scenario = Self::draw_any(chance);
        match scenario.kind == Kind::Calm && chance.u32(..8) == 0 {
            true => scenario.of_two_that_do_not_rest(chance),
            false => scenario,
        }
    }

    /// Makes two clients repeatedly acquire one lock, at a server with no delay. The polling client
    /// finds the lock free only by chance, unless the other client leaves it free for a moment.
    fn of_two_that_do_not_rest(self, chance: &mut Rng) -> Self {
        Self {
            clients: 2,
            workers: 1,
            names: 1,
            rounds: chance.u32(500..=800),
            hold: 40,
            delay: 0,
            polling: true,
            outsiders: 0,
            redisson: false,
            busy_poller: false,
            restless: true,
            ..self
        }
    }

    fn draw_any(chance: &mut Rng) -> Self {
        let kind = match chance.u32(..8) {
            0 => Kind::Crowd,
            1 | 2 => Kind::Calm,
            _ => Kind::Rough,
        };
        let (contended, rough) = (kind == Kind::Crowd, kind == Kind::Rough);
        let mut one_in = |n| !contended && chance.u32(..n) == 0;
        let (polling, outside) = (one_in(3), one_in(4));
        let (redisson, busy_poller) = (one_in(3), one_in(4));
        let most = if rough && chance.u32(..4) == 0 { 60 } else { 2 };
        let busy = contended || redisson || busy_poller;
        Self {
            kind,
            clients: chance.u32(2..=4),
            workers: chance.u32(1..=3),
            names: if contended { 1 } else { chance.u32(1..=2) },
            rounds: chance.u32(if busy { 15..=30 } else { 3..=8 }),
            rest: if busy { 5 } else { 300 },
            hold: if busy { 20 } else { 200 },
            delay: chance.u64(..=most),
            ttl: Duration::from_millis(chance.u64(1_500..=5_000)),
            polling,
            outsiders: u32::from(outside),
            redisson,
            busy_poller,
            restless: false,
            replicas: 0,
            faults: if rough { Faults::draw(chance) } else { Faults::default() },
        }
    }

    // The next three settings derive from `ttl`. They draw no random number, because another draw
    // would change all later random numbers of a seed.

    /// Returns whether locks are fenced. If a fault may lose the tokens of the server, locks are
    /// not fenced, because tokens would start again at 1.
    pub(super) fn is_fenced(&self) -> bool {
        let loses = self.faults.forgetting || self.faults.promotion;
        !loses && self.ttl.as_millis() % 2 == 1
    }

    /// Returns whether holders write under their locks. In a crowd, holders do not write, because
    /// the scripts of a crowd are counted.
    pub(super) fn writes(&self) -> bool {
        self.kind != Kind::Crowd && self.ttl.as_millis() % 3 == 1
    }

    /// Returns whether grants must be acknowledged by replicas that the server only pretends to
    /// have. If the run has a real replica, grants need no such acknowledgement.
    pub(super) fn replicates(&self) -> bool {
        let only_seem = !self.faults.promotion;
        !self.is_calm() && only_seem && self.ttl.as_millis() % 5 == 2
    }

    pub(super) fn is_calm(&self) -> bool {
        matches!(self.kind, Kind::Crowd | Kind::Calm)
    }

    /// Returns whether there are several servers that replace each other.
    pub(super) fn is_deployed(&self) -> bool {
        self.replicas > 0
    }

    /// Returns a time that no lease exceeds. A fixed lease is at most two seconds longer than half
    /// of the *ttl*.
    pub(super) fn lease(&self) -> Duration {
        self.ttl + Duration::from_secs(2)
    }
}

impl Faults {
    fn draw(chance: &mut Rng) -> Self {
        let mut one_in = |n| chance.u32(..n) == 0;
        Self {
            cuts: one_in(2),
            stops: one_in(3),
            refusals: one_in(3),
            losses: one_in(3),
            flushes: one_in(3),
            forgetting: one_in(5),
            permissions: one_in(3),
            promotion: one_in(5),
            deaths: one_in(4),
            pauses: one_in(4),
            forger: one_in(3),
            suspensions: one_in(5),
            runtimes: one_in(4),
            shutdowns: one_in(4),
            forcing: one_in(5),
        }
    }
}
