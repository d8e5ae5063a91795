//! What kind of story it is.

use std::time::Duration;

use fastrand::Rng;

/// How long a client waits for a connection, and for an answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The longest pause of a polling waiter: it does not miss the longer yield windows.
pub(super) const LONGEST_POLL: Duration = Duration::from_millis(4);

/// How many replicas acknowledge what is written where some want them.
pub(super) const REPLICAS: u32 = 1;

/// What may happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Nothing; and all clients queue for one lock.
    Crowd,
    /// Nothing.
    Calm,
    /// Another server takes over, or has a slot by now, and nothing else.
    Switched,
    /// Anything.
    Rough,
}

/// Which troubles there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Troubles {
    pub(super) cuts: bool,
    pub(super) stops: bool,
    pub(super) refusals: bool,
    pub(super) losses: bool,
    pub(super) flushes: bool,
    pub(super) forgetting: bool,
    pub(super) rights: bool,
    pub(super) promotion: bool,
    pub(super) deaths: bool,
    pub(super) pauses: bool,
    pub(super) forger: bool,
    pub(super) suspensions: bool,
    pub(super) runtimes: bool,
    pub(super) shutdowns: bool,
    /// Locks are freed by force.
    pub(super) forcing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) kind: Kind,
    pub(super) clients: u32,
    pub(super) workers: u32,
    pub(super) names: u32,
    pub(super) rounds: u32,
    /// The longest pause of a worker and its longest hold on most days, in milliseconds.
    pub(super) rest: u64,
    pub(super) hold: u64,
    /// The longest way to the server and back, in milliseconds each.
    pub(super) delay: u64,
    pub(super) ttl: Duration,
    /// Whether some poll.
    pub(super) polling: bool,
    /// How many of the clients may not queue.
    pub(super) outsiders: u32,
    pub(super) redisson: bool,
    pub(super) spinner: bool,
    /// Whether who gives back comes back at once.
    pub(super) restless: bool,
    /// How many replicas each server has: some want all of them to acknowledge a grant.
    pub(super) replicas: u32,
    pub(super) troubles: Troubles,
}

impl Plot {
    pub(super) fn draw(chance: &mut Rng) -> Self {
        let plot = Self::draw_any(chance);
        match plot.kind == Kind::Calm && chance.u32(..8) == 0 {
            true => plot.of_two_that_do_not_rest(chance),
            false => plot,
        }
    }

    /// Two clients that want one lock all the time, at a server next door: who polls meets
    /// it free by chance alone, unless the other one sees to it.
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
            spinner: false,
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
        let (crowd, rough) = (kind == Kind::Crowd, kind == Kind::Rough);
        let mut one_in = |n| !crowd && chance.u32(..n) == 0;
        let (polling, outside) = (one_in(3), one_in(4));
        let (redisson, spinner) = (one_in(3), one_in(4));
        let most = if rough && chance.u32(..4) == 0 { 60 } else { 2 };
        let busy = crowd || redisson || spinner;
        Self {
            kind,
            clients: chance.u32(2..=4),
            workers: chance.u32(1..=3),
            names: if crowd { 1 } else { chance.u32(1..=2) },
            rounds: chance.u32(if busy { 15..=30 } else { 3..=8 }),
            rest: if busy { 5 } else { 300 },
            hold: if busy { 20 } else { 200 },
            delay: chance.u64(..=most),
            ttl: Duration::from_millis(chance.u64(1_500..=5_000)),
            polling,
            outsiders: u32::from(outside),
            redisson,
            spinner,
            restless: false,
            replicas: 0,
            troubles: if rough { Troubles::draw(chance) } else { Troubles::default() },
        }
    }

    // By a number that is drawn anyway: what is drawn after it stays as it is.

    /// Whether locks are fenced. Not where tokens are lost, and begin again.
    pub(super) fn is_fenced(&self) -> bool {
        let loses = self.troubles.forgetting || self.troubles.promotion;
        !loses && self.ttl.as_millis() % 2 == 1
    }

    /// Whether holders write under their locks. Not in a crowd, whose scripts are counted.
    pub(super) fn writes(&self) -> bool {
        self.kind != Kind::Crowd && self.ttl.as_millis() % 3 == 1
    }

    /// Whether holders want replicas to have what they were granted. Not where there is a real
    /// one besides.
    pub(super) fn replicates(&self) -> bool {
        let only_seem = !self.troubles.promotion;
        !self.is_calm() && only_seem && self.ttl.as_millis() % 5 == 2
    }

    pub(super) fn is_calm(&self) -> bool {
        matches!(self.kind, Kind::Crowd | Kind::Calm)
    }

    /// Whether there are several servers, which take the place of each other.
    pub(super) fn is_deployed(&self) -> bool {
        self.replicas > 0
    }

    /// A lease may be up to two seconds longer than half of the ttl.
    pub(super) fn lease(&self) -> Duration {
        self.ttl + Duration::from_secs(2)
    }
}

impl Troubles {
    fn draw(chance: &mut Rng) -> Self {
        let mut one_in = |n| chance.u32(..n) == 0;
        Self {
            cuts: one_in(2),
            stops: one_in(3),
            refusals: one_in(3),
            losses: one_in(3),
            flushes: one_in(3),
            forgetting: one_in(5),
            rights: one_in(3),
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
