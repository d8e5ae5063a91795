//! Every duration of the engine, and their relations.
//!
//! The durations of the store, which the engine relies on, are in `store/mod.rs`. Defaults of
//! settings are in `limits.rs` and `grant.rs`.

use std::time::Duration;

use crate::domain::CENTURY;
use crate::store::{
    HEALTH_CHECK, KNOWN_FOR, LONGEST_WAITER_RESTS, QUEUE_RESTS, RESERVATION, WARNED_AFTER,
};

// Health.

/// A health check returns within this time: a little after the store stops waiting for its servers.
pub(crate) const HEALTH_ANSWER: Duration = HEALTH_CHECK.saturating_add(Duration::from_millis(50));

// Waiting.

/// How much later than its timeout `WAIT` may return, because Redis checks this timeout only ten
/// times a second.
pub(crate) const LATE_COUNT: Duration = Duration::from_millis(500);

/// The longest wait for a message, because a message may be lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The longest wait for a message of a waiter whose queue entry expires without further requests.
pub(crate) const LONGEST_SEATED_WAIT: Duration = Duration::from_millis(1_500);

/// When a waiter sends its first request after the one that added its queue entry; up to a quarter
/// later. Until then, no message reports that another client has acquired the lock.
pub(crate) const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The longest wait without a subscription.
pub(crate) const LONGEST_WAIT_UNNOTIFIED: Duration = Duration::from_millis(250);

/// If replies are late, a waiter pauses for this multiple of the delay. Otherwise the waiters of
/// very many names would delay the renewals of a client or of a server. Two limits follow. All
/// waiters together send at least one request in the first time, so that few waiters are not
/// slowed. Each waiter sends at least one request in the second time.
pub(crate) const LATE_ANSWERS: u32 = 8;
pub(crate) const LATE_REST: Duration = Duration::from_micros(400);
pub(crate) const LONGEST_LATE_WAIT: Duration = Duration::from_secs(8);

/// After this wait, other clients leave free permits to a waiter without a queue entry, for a
/// while.
pub(crate) const LONG_WAIT_AFTER: Duration = Duration::from_secs(1);

/// How often, and for how long at most, a multi-lock checks the holder of a busy member while it
/// keeps other members. If the holder has not changed, it releases these members.
pub(crate) const HOLDER_LOOK_RESTS: Duration = Duration::from_millis(250);
pub(crate) const HOLDER_LOOKS: u32 = 32;

/// How long a multi-lock awaits a reply at first while it holds members that others may want.
pub(crate) const MEMBER_SILENCE: Duration = Duration::from_millis(500);

/// How many notifications in a row a waiter follows without a grant. Then it follows at most one in
/// each [`VAIN_REST`], because messages may be forged.
pub(crate) const VAIN_QUESTIONS: u32 = 16;
pub(crate) const VAIN_REST: Duration = Duration::from_millis(1);

/// How long a name stays known and subscribed after its last waiter.
pub(crate) const IDLE_LIFETIME: Duration = Duration::from_secs(2);

/// How long a lock counts as contended after a release that found waiters.
pub(crate) const CONTENDED: Duration = Duration::from_secs(1);

/// A release after a longer hold checks for a queue, because the result of the last check is too
/// old.
pub(crate) const LONG_HOLD: Duration = Duration::from_millis(50);

/// Other clients cannot see a busy-polling client. So after a long hold without a known waiter, the
/// client sends no request for a fiftieth of the time of the hold. Of shorter holds, one of this
/// number is followed by a pause for all of them. The shortest pause is the resolution of timers.
pub(crate) const HOLD_BACK_ONE_IN: u32 = 16;
pub(crate) const SHORTEST_HOLD_BACK: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_HOLD_BACK: Duration = Duration::from_millis(8);

/// After a hold may no longer be shared, a new task waits for at most this time until the tasks
/// that share it have left, and then for the second time, in which an excluded waiter may acquire.
/// Without this pause between holds, Redisson's writers would never acquire.
pub(crate) const SHARING_PAST: Duration = Duration::from_millis(10);
pub(crate) const SHARING_RESTS: Duration = Duration::from_millis(2);

/// If a hold has lasted for this time, and a task of its own client waits for it, the next renewal
/// logs it.
pub(crate) const OWN_HOLD_LOGGED: Duration = Duration::from_secs(5);

/// A task that does not take a hand-off grant within this time loses it to the next one.
pub(crate) const HANDOFF_RESTS: Duration = Duration::from_millis(10);

/// How long the owner of the request slot may do nothing after its notification or its timer, from
/// when another task has noticed this. Then it is not polled, and loses the slot to the next in
/// line.
pub(crate) const ASKER_RESTS: Duration = Duration::from_secs(1);

/// The same for a task that waits for a reply, which may be late.
pub(crate) const ANSWER_RESTS: Duration = Duration::from_secs(5);

// Holding.

/// For this time after a grant or a check, a hold does not trust messages that its lock is free.
/// They may be about the hold before it, and there may be very many.
pub(crate) const ECHO: Duration = Duration::from_millis(25);

/// The longest sleep of the watchdog. Timers stop while the machine is suspended, and may be this
/// late afterwards.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Holds that are due within this time are renewed together with those that are due now.
pub(crate) const TOGETHER: Duration = Duration::from_millis(250);

/// The shortest pause after a renewal that failed.
pub(crate) const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// The longest time of doubt, because a lease may last for a century after its holder has died.
pub(crate) const LONGEST_DOUBT: Duration = Duration::from_secs(10);

/// A task that awaits a loss checks at half of the remaining time whether the watchdog still runs,
/// but not if less than this time remains.
pub(crate) const END_IS_NEAR: Duration = Duration::from_millis(20);

// Acquiring and releasing.

/// When to check again for a grant that arrives after its withdrawal.
pub(crate) const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// The pause before a rejected release of permits without a lease is sent again.
pub(crate) const REFUSED_RESTS: Duration = Duration::from_secs(60);

/// How long completed releases are remembered, while others follow. During this time, a primary
/// that is being replaced may confirm a release that the new one never receives. A cluster replaces
/// a primary after 15 s, and the other nodes complete more releases meanwhile.
pub(crate) const RELEASES_KEPT: Duration = Duration::from_secs(30);

/// The pauses between requests to a store that is unreachable or not ready.
pub(crate) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(1));

/// How often a shutdown checks whether all holds are released.
pub(crate) const RETURN_LOOKS: Duration = Duration::from_millis(5);

/// How late timers are, and by how much a remaining lease is rounded down.
pub(crate) const NEXT_TICK: Duration = Duration::from_millis(1);

/// The timeout that replaces one beyond the range of the clock.
pub(crate) const LONGEST_TIMEOUT: Duration = CENTURY;

/// The longest time that [`spread`](crate::domain::spread) makes of `time`.
const fn most(time: Duration) -> u128 {
    time.as_millis() * 5 / 4
}

// A queue entry outlives several requests of its waiter. A subscription outlives the time for which
// a name counts as contended.
const _: () = assert!(QUEUE_RESTS.as_millis() >= 4 * most(LONGEST_WAIT));
const _: () = assert!(QUEUE_RESTS.as_millis() >= most(LONGEST_LATE_WAIT) + 3_000);
const _: () = assert!(IDLE_LIFETIME.as_millis() >= CONTENDED.as_millis());
// A known waiter repeats its request before it is forgotten, and so does a waiter with a seat,
// however late replies are.
const _: () = assert!(KNOWN_FOR.as_millis() >= most(LONGEST_WAIT) + 1_000);
// The longest waiter repeats its request before it is forgotten.
const _: () = assert!(LONGEST_WAITER_RESTS.as_millis() > most(LONGEST_WAIT));
// A waiter that gets no message yet still sends its first request.
const _: () = assert!(FIRST_LOOK.as_millis() > WARNED_AFTER.as_millis());
// A hand-off grant waits only briefly.
const _: () = assert!(HANDOFF_RESTS.as_millis() * 10 <= RESERVATION.as_millis());
