//! Who waits for which lock, how long a lock is of no use to them, and who is passed over.
//!
//! Pure: it is told what is so, and when.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{gate::Gate, plot::Bounds};
use crate::domain::{Name, Owner};

/// How one who waits learns that it may ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// It has a place in the queue, and hears when its turn comes.
    Queues,
    /// It asks now and then, or stands behind one of its own client who does.
    Polls,
    /// It hears of releases, and may not queue.
    Outside,
    /// Its client may not queue and polls besides.
    Neither,
}

/// What use a lock is to those who wait for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Use {
    /// Somebody has it.
    Held(Owner),
    Free,
    /// It was left to somebody who has not asked for it.
    Reserved(Owner),
    /// It was granted to somebody who does not want it any more, or not yet.
    OfNobody(Owner),
}

/// What else is known when a lock is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    pub(super) now: Instant,
    /// How many clients are dead, or were paused lately.
    pub(super) stopped: u32,
    /// Whether who had it last gave it back, so that others were told.
    pub(super) given_back: bool,
    /// Whether whose it is cannot give it back.
    pub(super) helpless: bool,
}

#[derive(Default)]
pub(super) struct Waiting {
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
    names: BTreeMap<Name, Watched>,
}

struct Waiter {
    who: String,
    name: Name,
    gate: Gate,
    class: Class,
    since: Instant,
    /// Since when no other task of its client has entered.
    first_since: Instant,
    /// How many grants to other clients there were since then.
    passed_over: u32,
    /// How long others had it at most.
    longest: Duration,
}

/// One lock.
struct Watched {
    used: Use,
    since: Instant,
    /// Since when it is free or reserved, and whether nobody was told.
    unheld: Option<(Instant, bool)>,
    /// Until when those who wait may not know.
    quiet_until: Instant,
}

impl Waiting {
    /// Somebody begins to wait. Returns its number.
    pub(super) fn begins(
        &mut self,
        who: &str,
        name: &Name,
        gate: &Gate,
        class: Class,
        now: Instant,
    ) -> u64 {
        self.next += 1;
        let waiter = Waiter {
            who: who.to_owned(),
            name: name.clone(),
            gate: gate.clone(),
            class,
            since: now,
            first_since: now,
            passed_over: 0,
            longest: Duration::ZERO,
        };
        self.waiters.insert(self.next, waiter);
        self.next
    }

    pub(super) fn ends(&mut self, number: u64) {
        self.waiters.remove(&number);
    }

    /// The process behind `gate` waits for nothing any more.
    pub(super) fn dies(&mut self, gate: &Gate) {
        self.waiters.retain(|_, waiter| !waiter.gate.is(gate));
    }

    /// Those who wait for `name` may not know for `time` that it is free.
    pub(super) fn nobody_hears(&mut self, name: &Name, until: Instant) {
        let Some(watched) = self.names.get_mut(name) else { return };
        watched.quiet_until = watched.quiet_until.max(until);
    }

    /// The client behind `gate` entered `name`: with a grant of its own, or with one that
    /// it had already.
    pub(super) fn entered(&mut self, name: &Name, gate: &Gate, again: bool, now: Instant) {
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.name == *name) {
            if waiter.gate.is(gate) {
                (waiter.passed_over, waiter.first_since) = (0, now);
                waiter.longest = Duration::ZERO;
            } else if !again {
                waiter.passed_over += 1;
            }
        }
    }

    /// Who had `name` when it was last looked at.
    pub(super) fn last(&self, name: &Name) -> Option<&Owner> {
        match &self.names.get(name)?.used {
            Use::Free => None,
            Use::Held(owner) | Use::Reserved(owner) | Use::OfNobody(owner) => Some(owner),
        }
    }

    /// Since when `name` is of no use, or of another one.
    pub(super) fn since(&self, name: &Name) -> Option<Instant> {
        let watched = self.names.get(name)?;
        Some(watched.unheld.map_or(watched.since, |(since, _)| since))
    }

    /// Looks at `name`. Returns the rule that is broken, if one is.
    pub(super) fn look(
        &mut self,
        name: &Name,
        used: Use,
        bounds: &Bounds,
        how: Circumstances,
    ) -> Option<String> {
        self.note(name, used, how);
        self.not_reserved(name, bounds, how)
            .or_else(|| self.not_idle(name, bounds, how))
            .or_else(|| self.not_passed_over(name, bounds, how))
    }

    fn note(&mut self, name: &Name, used: Use, how: Circumstances) {
        let now = how.now;
        let watched = self.names.entry(name.clone()).or_insert_with(|| Watched {
            used: used.clone(),
            since: now,
            unheld: None,
            quiet_until: now,
        });
        if watched.used != used {
            (watched.used, watched.since) = (used, now);
        }
        match &watched.used {
            Use::Held(_) | Use::OfNobody(_) => watched.unheld = None,
            Use::Free | Use::Reserved(_) => {
                let (_, silent) = watched.unheld.get_or_insert((now, false));
                let came_now = watched.since == now && watched.used == Use::Free;
                *silent |= came_now && !how.given_back;
            }
        }
        if let Use::Held(_) = watched.used {
            let held = now - watched.since;
            let waiters = self.waiters.values_mut().filter(|waiter| waiter.name == *name);
            waiters.for_each(|waiter| waiter.longest = waiter.longest.max(held));
        }
    }

    /// Who does not come keeps the others out for a second at most.
    fn not_reserved(&self, name: &Name, bounds: &Bounds, how: Circumstances) -> Option<String> {
        let watched = self.names.get(name)?;
        let Use::Reserved(owner) = &watched.used else { return None };
        let too_long = how.now > watched.since + bounds.reserved;
        too_long.then(|| format!("`{name}` is reserved for {owner}, who does not come"))
    }

    /// A lock that is free, or of nobody, does not stay so while somebody waits.
    fn not_idle(&self, name: &Name, bounds: &Bounds, how: Circumstances) -> Option<String> {
        let watched = self.names.get(name)?;
        let (since, limit) = match (&watched.used, watched.unheld) {
            (Use::OfNobody(_), _) if how.helpless => {
                (watched.since, bounds.freed + bounds.lease + bounds.unheard)
            }
            (Use::OfNobody(_), _) => (watched.since, bounds.freed),
            (_, Some((since, silent))) => {
                let limit = if silent { bounds.unheard } else { bounds.entered };
                (since, limit + how.stopped * Duration::from_secs(1))
            }
            (_, None) => return None,
        };
        let ready = |waiter: &&Waiter| waiter.name == *name;
        let waited = self.waiters.values().filter(ready);
        let ready_since = |waiter: &Waiter| waiter.since.max(waiter.gate.opens());
        let waiter = waited.min_by_key(|waiter| ready_since(waiter))?;
        let since = since.max(ready_since(waiter)).max(watched.quiet_until);
        let (who, used) = (&waiter.who, &watched.used);
        let too_long = how.now > since + limit;
        too_long.then(|| format!("{who} waits for `{name}`, which is {used:?}, for {limit:?}"))
    }

    /// Nobody waits for longer than its class has to.
    fn not_passed_over(&self, name: &Name, bounds: &Bounds, how: Circumstances) -> Option<String> {
        let fair = bounds.fair?;
        let unfair = |waiter: &&Waiter| match waiter.class {
            Class::Queues => waiter.passed_over > fair.queueing,
            Class::Outside => waiter.passed_over > fair.outside,
            Class::Polls => {
                let each = fair.polls + waiter.longest;
                how.now > waiter.first_since + fair.polls_from + (fair.before + 1) * each
            }
            Class::Neither => false,
        };
        let waiter = self.waiters.values().filter(|it| it.name == *name).find(unfair)?;
        Some(format!(
            "{}, who waits for `{name}`, was passed over {} times, in {:?}",
            waiter.who,
            waiter.passed_over,
            how.now - waiter.first_since
        ))
    }
}
