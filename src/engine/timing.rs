//! The durations of the engine, and the relations between them.
//!
//! Durations of the store that the engine relies on are in `store/mod.rs`. Defaults of settings are
//! in `limits.rs` and `grant.rs`. The durations of a quorum lock are in `src/quorum`.

use std::time::Duration;

use crate::domain::CENTURY;
use crate::store::{
    HEALTH_CHECK, KNOWN_FOR, PERMITS_KEPT_FOR, QUEUE_KEPT_FOR, RESERVATION, WARNED_AFTER,
};

// Health.

/// A health check returns within 250 ms: the store waits at most 200 ms for its servers, and the
/// other 50 ms are for the rest of the check.
pub(super) const HEALTH_LIMIT: Duration = HEALTH_CHECK.saturating_add(Duration::from_millis(50));

// Waiting.

/// How much later than its timeout `WAIT` may return, because Redis checks this timeout only ten
/// times a second.
pub(super) const LATE_COUNT: Duration = Duration::from_millis(500);

/// The longest wait for a message, because a message may be lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// The longest wait for a message, if the store removes the entry of a waiter that sends no
/// requests.
pub(super) const LONGEST_SEATED_WAIT: Duration = Duration::from_millis(1_500);

/// After a waiter has added its queue entry, it sends its next request after this time, plus a
/// random part of up to a quarter. If the lock was released less than [`WARNED_AFTER`] after the
/// entry, only the first client in the wait queue was notified, and this client may be dead.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The longest wait without a subscription.
pub(super) const LONGEST_WAIT_UNNOTIFIED: Duration = Duration::from_millis(250);

/// If replies are late, a waiter pauses for this multiple of the delay. Otherwise the waiters of
/// very many names would delay the renewals of their client, or of all clients of a server. Two
/// limits bound this pause. All waiters of a client together send at least one request per
/// `LATE_REST`, so that a few waiters are not slowed. Each waiter sends at least one request per
/// `LONGEST_LATE_WAIT`.
pub(super) const LATE_ANSWERS: u32 = 8;
pub(super) const LATE_REST: Duration = Duration::from_micros(400);
pub(super) const LONGEST_LATE_WAIT: Duration = Duration::from_secs(8);

/// After this wait, a waiter without a queue entry reports its waiting time to the store. Other
/// clients then leave free permits to this waiter for a while.
pub(super) const LONG_WAIT_AFTER: Duration = Duration::from_secs(1);

/// While a member of a multi-lock is busy, the multi-lock keeps the members before it, and checks
/// the holder of the busy member every `HOLDER_LOOK_INTERVAL`. When two checks in a row find the
/// same holder, or after `HOLDER_LOOKS` checks, the multi-lock releases the members that it keeps.
pub(crate) const HOLDER_LOOK_INTERVAL: Duration = Duration::from_millis(250);
pub(crate) const HOLDER_LOOKS: u32 = 32;

/// How long a multi-lock that holds a member awaits a reply. The time doubles after a timeout.
pub(crate) const MEMBER_SILENCE: Duration = Duration::from_millis(500);

/// After its timeout, a member of a barrier waits until it has left the barrier, but at most for
/// this time.
pub(super) const LEAVES_WITHIN: Duration = Duration::from_millis(100);

/// If this many notifications in a row have led to requests that were not granted, the waiter
/// follows at most one notification per [`VAIN_REST`], because messages may be forged.
pub(super) const VAIN_QUESTIONS: u32 = 16;
pub(super) const VAIN_REST: Duration = Duration::from_millis(1);

/// How long a name stays known and subscribed after its last waiter.
pub(super) const IDLE_LIFETIME: Duration = Duration::from_secs(2);

/// How long a lock counts as contended after a release that found waiters.
pub(super) const CONTENDED: Duration = Duration::from_secs(1);

/// After a hold of this length, the release checks the wait queue, because the result of the last
/// check is too old.
pub(super) const LONG_HOLD: Duration = Duration::from_millis(50);

/// A release cannot see a busy-polling client. So after a long hold without a known waiter, the
/// client sends no request for a fiftieth of the time of the hold. After short holds, it pauses
/// only once in 16 times, but 16 times as long. The shortest pause is the resolution of timers.
pub(super) const HOLD_BACK_ONE_IN: u32 = 16;
pub(super) const SHORTEST_HOLD_BACK: Duration = Duration::from_millis(1);
pub(super) const LONGEST_HOLD_BACK: Duration = Duration::from_millis(8);

/// When a hold may no longer be shared, a new task waits until the tasks that share it have left,
/// for at most `SHARING_PAST`. Then the new task waits for `SHARING_PAUSE`, in which an excluded
/// waiter may acquire. Without this pause between holds, Redisson's writers would never acquire.
pub(super) const SHARING_PAST: Duration = Duration::from_millis(10);
pub(super) const SHARING_PAUSE: Duration = Duration::from_millis(2);

/// If a hold has lasted for this time, and a task of the same client waits for the lock, the next
/// renewal logs a warning.
pub(super) const OWN_HOLD_LOGGED: Duration = Duration::from_secs(5);

/// If a task does not take a hand-off grant within this time, the next task gets the grant.
pub(super) const HANDOFF_LIMIT: Duration = Duration::from_millis(10);

/// How long the owner of the request slot may do nothing although its request is due. The time
/// counts from the first check that finds the owner idle. When the time is over, the next task in
/// line gets the slot.
pub(super) const REQUESTER_IDLE_LIMIT: Duration = Duration::from_secs(1);

/// How long the owner of the request slot may wait for a reply, which may be late. The time counts
/// from the first check that finds the owner without a reply.
pub(super) const REPLY_IDLE_LIMIT: Duration = Duration::from_secs(5);

// Holding.

/// If a message says that a lock is free, a client that holds the lock checks its hold. The check
/// comes at least this long after the grant, because the message may be about the previous hold. It
/// also comes at least this long after the last check, because there may be very many messages.
pub(super) const ECHO: Duration = Duration::from_millis(25);

/// How long the delay of the last renewal is shown. Prometheus, which usually scrapes once in a
/// minute, must see this delay. After this time, an alert on a late renewal must end, even if no
/// renewal follows.
pub(crate) const LAG_SHOWN: Duration = Duration::from_secs(120);

/// The longest sleep of the watchdog. Timers stop while the machine is suspended, so after a
/// suspension the watchdog may be late by this time.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Holds whose renewal is due within this time are renewed together with the holds due now.
pub(crate) const TOGETHER: Duration = Duration::from_millis(250);

/// The shortest pause after a renewal that failed.
pub(super) const SHORTEST_RETRY: Duration = Duration::from_millis(20);

/// The longest pause before a failed check or renewal is retried. Otherwise, the pause depends on
/// the lease, which may last for a century.
pub(super) const LONGEST_DOUBT: Duration = Duration::from_secs(10);

/// A task that awaits a loss wakes after half of the remaining time, and checks whether the
/// watchdog still runs. If at most this time remains, the task sleeps until the end.
pub(super) const END_IS_NEAR: Duration = Duration::from_millis(20);

// Acquiring and releasing.

/// The pauses before a withdrawal is repeated, because the withdrawn request may be granted late.
pub(super) const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// The pause before a rejected release of permits without a lease is sent again.
pub(super) const REJECTED_RELEASE_PAUSE: Duration = Duration::from_secs(60);

/// A completed release is remembered until another release completes that was sent this much later.
/// A primary that is being replaced may confirm a release that the new primary never receives. A
/// cluster replaces a primary after 15 s, and the other nodes complete more releases meanwhile.
pub(super) const RELEASES_KEPT: Duration = Duration::from_secs(30);

/// The first and the longest pause between requests to a store that is unreachable or not ready, or
/// between votes for a quorum lock.
pub(crate) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(1));

/// How often a shutdown checks whether all holds are released.
pub(super) const RETURN_LOOKS: Duration = Duration::from_millis(5);

/// How late a timer may be, and by how much the store rounds the rest of a lease down.
pub(crate) const NEXT_TICK: Duration = Duration::from_millis(1);

/// The longest timeout. Longer timeouts are shortened to this one, because the range of the clock
/// is limited.
pub(crate) const LONGEST_TIMEOUT: Duration = CENTURY;

/// Returns the longest result of [`spread`](crate::domain::spread) for `time`, in milliseconds.
const fn most(time: Duration) -> u128 {
    time.as_millis() * 5 / 4
}

// A queue entry outlives several requests of its waiter. A subscription outlives the time for which
// a name counts as contended.
const _: () = assert!(QUEUE_KEPT_FOR.as_millis() >= 4 * most(LONGEST_WAIT));
const _: () = assert!(QUEUE_KEPT_FOR.as_millis() >= most(LONGEST_LATE_WAIT) + 3_000);
const _: () = assert!(IDLE_LIFETIME.as_millis() >= CONTENDED.as_millis());
// A subscribed waiter with an expiring entry repeats its request before the store forgets this
// waiter, unless replies are late. A waiter with an entry per task repeats its request in time even
// if replies are late.
const _: () = assert!(KNOWN_FOR.as_millis() >= most(LONGEST_WAIT) + 1_000);
// The subscribed waiter that has waited longest repeats its request before the store forgets this
// waiter, unless replies are late.
const _: () = assert!(PERMITS_KEPT_FOR.as_millis() > most(LONGEST_WAIT));
// A waiter that has waited for less than `WARNED_AFTER` is not warned of a reservation. Such a
// waiter sends its next request by itself, because `FIRST_LOOK` is longer.
const _: () = assert!(FIRST_LOOK.as_millis() > WARNED_AFTER.as_millis());
// A hand-off grant waits for its task for at most a tenth of the time of a reservation.
const _: () = assert!(HANDOFF_LIMIT.as_millis() * 10 <= RESERVATION.as_millis());
