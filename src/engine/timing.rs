//! Every duration of the engine, and how they relate.
//!
//! Those of the store, which the engine counts on, stand in `store/mod.rs`; defaults of
//! settings, in `limits.rs` and `grant.rs`.

use std::time::Duration;

use crate::domain::CENTURY;
use crate::store::{
    HEALTH_CHECK, KNOWN_FOR, PATIENT_RESTS, QUEUE_RESTS, RESERVATION, WARNED_AFTER,
};

// Health.

/// A health check returns within this time: a little after the store gives its servers up.
pub(crate) const HEALTH_ANSWER: Duration = HEALTH_CHECK.saturating_add(Duration::from_millis(50));

// Waiting.

/// How much later than it was to a store may say how many replicas have a grant: Redis looks
/// at its clock ten times a second.
pub(crate) const LATE_COUNT: Duration = Duration::from_millis(500);

/// The longest wait for a message: one may have been lost on the way.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// When a waiter looks first after it has come to a queue, and up to a quarter later.
/// Before this the store does not tell it that the lock has gone to another one.
pub(crate) const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The longest wait without a subscription.
pub(crate) const LONGEST_WAIT_UNHEARD: Duration = Duration::from_millis(250);

/// After a late reply, a waiter waits for so many times as long before it asks again: else those
/// who wait for very many names keep a client, or a server, from what keeps the holds. But all
/// together still ask once in this time, so that few are as prompt as ever; and each asks as often
/// as this.
pub(crate) const LATE_ANSWERS: u32 = 8;
pub(crate) const LATE_REST: Duration = Duration::from_micros(400);
pub(crate) const LONGEST_LATE_WAIT: Duration = Duration::from_secs(8);

/// After this wait, other clients leave free permits to a waiter without a queue entry, for a
/// while.
pub(crate) const PATIENT_AFTER: Duration = Duration::from_secs(1);

/// How many notifications in a row a waiter follows in vain; then no
/// more than one in [`VAIN_REST`]. Messages may be forged.
pub(crate) const VAIN_QUESTIONS: u32 = 16;
pub(crate) const VAIN_REST: Duration = Duration::from_millis(1);

/// How long a name stays known and subscribed after its last waiter.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// How long a lock counts as contended after a release that found waiters.
pub(crate) const CONTENDED: Duration = Duration::from_secs(1);

/// A release after so long looks for a queue: what the last one found is known no more.
pub(crate) const LONG_HOLD: Duration = Duration::from_millis(50);

/// Other clients cannot see a busy-polling client. So after a long hold its client leaves the lock
/// alone for a fiftieth of that time, if no other waiter is known; after one in so many of the
/// shorter holds, for all of them. Timers know no less than the shortest rest.
pub(crate) const RESTS_ONE_IN: u32 = 16;
pub(crate) const SHORTEST_REST: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_REST: Duration = Duration::from_millis(8);

/// A task that comes so soon after a hold could be shared last, and finds it still there, asks for
/// one of its own after so long: one by one those who share it leave, and one who wants what it
/// excludes may enter. With no gap between two holds Redisson's writers never do.
pub(crate) const SHARING_PAST: Duration = Duration::from_millis(10);
pub(crate) const SHARING_RESTS: Duration = Duration::from_millis(2);

/// A hold that has lasted for so long, and is waited for by its own client, is logged
/// when it is renewed.
pub(crate) const OWN_HOLD_TOLD: Duration = Duration::from_secs(5);

/// So soon a task takes the grant that was handed to it, or it goes on to the next.
pub(crate) const HANDOFF_RESTS: Duration = Duration::from_millis(10);

/// An owner of the request slot that was notified, or has slept until its time, and does nothing
/// for so long after a task has seen that, loses the slot to the next in line: it is not polled.
pub(crate) const ASKER_RESTS: Duration = Duration::from_secs(1);

/// The same of one who asks: its answer may be late.
pub(crate) const ANSWER_RESTS: Duration = Duration::from_secs(5);

// Holding.

/// For so long after it was entered, or asked about, a hold does not trust messages that its
/// lock is free: they may be about the hold before it, and there may be very many.
pub(crate) const ECHO: Duration = Duration::from_millis(25);

/// The longest sleep of the watchdog. Timers stand still while the machine is suspended;
/// this is how late they may be after that.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Holds that are due this soon are renewed along with those that are due.
pub(crate) const TOGETHER: Duration = Duration::from_millis(250);

/// The shortest pause after a renewal that failed.
pub(crate) const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// The longest one: a lease may be a century long, and its hold gone.
pub(crate) const LONGEST_DOUBT: Duration = Duration::from_secs(10);

/// A task that awaits a loss checks half-way to it whether the watchdog still runs, but not when
/// so little is left.
pub(crate) const END_IS_NEAR: Duration = Duration::from_millis(20);

// Asking and giving back.

/// When to look again for a grant that arrives after it was withdrawn.
pub(crate) const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// The pause before a rejected release of permits without a lease is sent again.
pub(crate) const REFUSED_RESTS: Duration = Duration::from_secs(60);

/// How long completed releases are remembered, while others follow. In this time, a primary that
/// is replaced may confirm a release that the next one never receives. A cluster replaces a
/// primary after 15 s, while the other nodes complete more releases.
pub(crate) const RELEASES_KEPT: Duration = Duration::from_secs(30);

/// The pauses between requests to a store that is unreachable or not ready.
pub(crate) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(1));

/// How often a shutdown checks whether all holds are released.
pub(crate) const RETURN_LOOKS: Duration = Duration::from_millis(5);

/// How late timers are, and by how much a remaining lease is rounded down.
pub(crate) const NEXT_TICK: Duration = Duration::from_millis(1);

/// The timeout that replaces one beyond the range of the clock.
pub(crate) const LONGEST_PATIENCE: Duration = CENTURY;

/// The most that [`spread`](crate::domain::spread) makes of `time`.
const fn most(time: Duration) -> u128 {
    time.as_millis() * 5 / 4
}

// A place outlives several looks of its waiter, and a name is listened to for longer than
// it is known to be contended.
const _: () = assert!(QUEUE_RESTS.as_millis() >= 4 * most(LONGEST_WAIT));
const _: () = assert!(QUEUE_RESTS.as_millis() >= most(LONGEST_LATE_WAIT) + 3_000);
const _: () = assert!(LINGER.as_millis() >= CONTENDED.as_millis());
// A known waiter asks again before it is forgotten.
const _: () = assert!(KNOWN_FOR.as_millis() >= most(LONGEST_WAIT) + 1_000);
// The longest waiter asks before it is forgotten.
const _: () = assert!(PATIENT_RESTS.as_millis() > most(LONGEST_WAIT));
// A waiter too young to be warned still makes its first look.
const _: () = assert!(FIRST_LOOK.as_millis() > WARNED_AFTER.as_millis());
// A grant in transit rests only briefly.
const _: () = assert!(HANDOFF_RESTS.as_millis() * 10 <= RESERVATION.as_millis());
