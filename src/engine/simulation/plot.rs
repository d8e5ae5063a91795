//! What kind of story it is, and how soon things have to happen in it.

use std::time::Duration;

use crate::{
    engine::timing::{ECHO, LONGEST_WAIT, LONGEST_WAIT_UNHEARD, LOOK_AGAIN, POLLER_QUEUES},
    store::{COURTESY_TURN, POLLERS_TURN, RESERVATION},
};

/// How long a client waits for an answer.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

/// The longest pause of one who polls.
pub(super) const LONGEST_POLL: Duration = Duration::from_millis(128);

/// How many replicas the store has, and how long they are waited for. More may be wanted.
pub(super) const REPLICAS: u32 = 1;
pub(super) const REPLICAS_WITHIN: Duration = Duration::from_millis(50);

/// How long a client is without a runtime at most.
pub(super) const WITHOUT_RUNTIME: Duration = Duration::from_millis(300);

/// What all locks of a story are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Locks {
    Plain,
    Fenced,
    ReadWrite,
}

/// How bad a network is, in chances of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    pub(super) lose_request: u32,
    pub(super) lose_reply: u32,
    pub(super) double: u32,
    /// Whether a request that is lost is found again, and executed late.
    pub(super) late: bool,
    pub(super) refuse: u32,
    pub(super) lose_message: u32,
    /// The longest delay one way, in milliseconds.
    pub(super) delay: u64,
    /// Whether requests of one client arrive in the order in which they were sent.
    pub(super) in_order: bool,
}

/// What kind of story it is: the calmer, the tighter the bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mood {
    /// Nothing is lost on the way.
    Calm,
    /// The connection for messages is lost now and then.
    Deaf,
    /// Anything is lost.
    Rough,
}

/// What else may happen. In an orderly story nothing does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Troubles {
    /// Clients are paused.
    pub(super) pauses: bool,
    /// Clients die.
    pub(super) deaths: bool,
    /// The store forgets, or locks are forced away.
    pub(super) forgetting: bool,
    /// Clients are shut down.
    pub(super) shutdowns: bool,
    /// Clients lose their runtime, and go on with another.
    pub(super) runtimes: bool,
    /// What clients may do changes.
    pub(super) rights: bool,
    /// Somebody in the store tells clients what is not so.
    pub(super) forgery: bool,
    /// Machines are suspended.
    pub(super) suspensions: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    pub(super) mood: Mood,
    pub(super) weather: Weather,
    pub(super) clients: u32,
    /// How many of them may not queue.
    pub(super) outsiders: u32,
    pub(super) workers: u32,
    pub(super) names: u32,
    pub(super) rounds: u32,
    /// The longest pause of a worker between two rounds, and its longest hold on most
    /// days, in milliseconds.
    pub(super) rest: u64,
    pub(super) hold: u64,
    /// Whether some wait by polling.
    pub(super) polling: bool,
    pub(super) ttl: Duration,
    pub(super) troubles: Troubles,
}

impl Plot {
    pub(super) fn draw(chance: &mut fastrand::Rng) -> Self {
        let mood = match chance.u32(..8) {
            0..3 => Mood::Calm,
            3..5 => Mood::Deaf,
            _ => Mood::Rough,
        };
        let orderly = mood == Mood::Calm && chance.u32(..3) < 2;
        let crowded = orderly && chance.bool();
        let rounds = if crowded { 20..=50 } else { 3..=10 };
        Self {
            mood,
            weather: weather(mood, chance),
            clients: chance.u32(2..=4),
            outsiders: if chance.u32(..4) == 0 { chance.u32(1..=2) } else { 0 },
            workers: chance.u32(1..=3),
            names: if crowded { 1 } else { chance.u32(1..=2) },
            rounds: chance.u32(rounds),
            rest: if crowded { 5 } else { 300 },
            hold: if crowded { 20 } else { 200 },
            polling: chance.u32(..3) == 0,
            ttl: Duration::from_millis(chance.u64(1_500..=5_000)),
            troubles: if orderly { Troubles::default() } else { troubles(chance) },
        }
    }

    /// What the locks are, by a number that is drawn anyway: no story changes with the kinds.
    pub(super) fn locks(&self) -> Locks {
        match self.ttl.as_millis() % 4 {
            0 => Locks::Plain,
            2 => Locks::ReadWrite,
            _ => Locks::Fenced,
        }
    }

    /// Whether holders write under their locks: in one of three, in the same way.
    pub(super) fn writes(&self) -> bool {
        self.ttl.as_millis() % 3 == 1
    }

    /// Whether some want replicas to have what they are granted. Not where they share it: it
    /// would not be seen since when.
    pub(super) fn replicates(&self) -> bool {
        let asks = self.mood == Mood::Rough && self.ttl.as_millis() % 5 == 2;
        asks && self.locks() != Locks::ReadWrite
    }

    /// Whether nothing happens but what the workers do themselves.
    pub(super) fn is_orderly(&self) -> bool {
        let Troubles { pauses, deaths, forgetting, shutdowns, .. } = self.troubles;
        let Troubles { runtimes, rights, forgery, suspensions, .. } = self.troubles;
        let any = pauses || deaths || forgetting || shutdowns;
        self.mood == Mood::Calm && !(any || runtimes || rights || forgery || suspensions)
    }

    /// Whether places may stay whose owners are gone, until the queue goes: nobody withdraws
    /// those of the dead, nor what was asked for before a machine slept.
    pub(super) fn has_ghosts(&self) -> bool {
        self.troubles.deaths || self.troubles.suspensions
    }

    /// How soon things have to happen.
    pub(super) fn bounds(&self) -> Bounds {
        let trip = Duration::from_millis(self.weather.delay);
        let prompt = ECHO + 8 * trip.min(Duration::from_millis(8)) + Duration::from_millis(60);
        let unheard = LONGEST_WAIT.mul_f64(1.25) + 2 * trip + Duration::from_millis(60);
        // A lease may be up to two seconds longer than half of the ttl.
        let lease = self.ttl + Duration::from_secs(2);
        let polling = if self.polling { POLLERS_TURN + LONGEST_POLL * 2 } else { Duration::ZERO };
        let absent = if self.troubles.runtimes { WITHOUT_RUNTIME } else { Duration::ZERO };
        let entered = absent
            + match self.mood {
                Mood::Calm => prompt + polling,
                Mood::Deaf => LONGEST_WAIT_UNHEARD.mul_f64(1.25) + prompt + POLLERS_TURN + polling,
                Mood::Rough => unheard,
            };
        // Readers let those go first who wait to write, and may have gone.
        let courtesy = match self.locks() {
            Locks::ReadWrite => COURTESY_TURN + trip,
            Locks::Plain | Locks::Fenced => Duration::ZERO,
        };
        let (entered, unheard) = (entered + courtesy, unheard + courtesy);
        // A withdrawal may overtake what it withdraws, and looks again later. Where
        // requests are executed much later still, the lease ends what they did.
        let freed = match self.mood {
            Mood::Calm | Mood::Deaf => entered + LOOK_AGAIN[0],
            Mood::Rough => lease + entered,
        };
        // One who is paused learns nothing while its lease lasts.
        let late = self.mood == Mood::Rough || self.troubles.pauses;
        let excused = if late { lease } else { lease / 3 + prompt };
        Bounds {
            entered,
            unheard: unheard.max(entered),
            freed,
            excused: excused.mul_f64(1.02),
            lease,
            told: Duration::from_millis(1_300),
            asked_again: 2 * COMMAND_TIMEOUT + Duration::from_millis(1_600) + absent,
            reserved: Duration::from_secs(1),
            fair: (self.is_orderly() && self.locks() != Locks::ReadWrite)
                .then(|| self.fairness(prompt)),
        }
    }

    /// How long one waits while others have the lock.
    fn fairness(&self, prompt: Duration) -> Fairness {
        let outside = 40 + 10 * self.clients;
        Fairness {
            queueing: if self.outsiders > 0 { outside } else { self.clients + 8 },
            outside,
            polls_from: POLLER_QUEUES,
            polls: 2 * POLLERS_TURN + POLLERS_TURN + prompt,
            before: self.clients,
        }
    }
}

fn weather(mood: Mood, chance: &mut fastrand::Rng) -> Weather {
    if mood != Mood::Rough {
        return Weather { delay: chance.u64(..=8), in_order: true, ..Weather::default() };
    }
    let most = if chance.bool() { 300 } else { 8 };
    Weather {
        lose_request: chance.u32(..=120),
        lose_reply: chance.u32(..=120),
        double: chance.u32(..=100),
        late: false,
        refuse: chance.u32(..=30),
        lose_message: chance.u32(..=300),
        delay: chance.u64(..=most),
        in_order: false,
    }
}

fn troubles(chance: &mut fastrand::Rng) -> Troubles {
    Troubles {
        pauses: chance.u32(..3) == 0,
        deaths: chance.u32(..4) == 0,
        forgetting: chance.u32(..3) == 0,
        shutdowns: chance.u32(..4) == 0,
        runtimes: chance.u32(..4) == 0,
        rights: chance.u32(..4) == 0,
        forgery: chance.u32(..3) == 0,
        suspensions: chance.u32(..5) == 0,
    }
}

/// How soon things have to happen under the weather of a story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// A lock that is free or reserved is entered, if somebody waits for it.
    pub(super) entered: Duration,
    /// The same when nobody can be told that it is free.
    pub(super) unheard: Duration,
    /// A lock of nobody is given back.
    pub(super) freed: Duration,
    /// A loss is told, counted from when it happened or the client ran again.
    pub(super) told: Duration,
    /// Somebody whose hold the store forgot learns of it.
    pub(super) excused: Duration,
    /// The longest lease in the story.
    pub(super) lease: Duration,
    /// A release that was not answered is tried again.
    pub(super) asked_again: Duration,
    /// A lock is reserved for one who does not come.
    pub(super) reserved: Duration,
    /// How long one waits while others have the lock, where nothing disturbs the order.
    pub(super) fair: Option<Fairness>,
}

/// How long each class of waiter waits while others have the lock. Between two grants to
/// its own client: the tasks of one client take turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fairness {
    /// How many grants to other clients pass over one who queues.
    pub(super) queueing: u32,
    /// The same for one who hears of releases and may not queue.
    pub(super) outside: u32,
    /// One who polls has a place after so long.
    pub(super) polls_from: Duration,
    /// Each of those before it costs it so long, and the longest hold.
    pub(super) polls: Duration,
    /// How many of those there may be.
    pub(super) before: u32,
}

const _: () = assert!(RESERVATION.as_millis() < 1_000);
