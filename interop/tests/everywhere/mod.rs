//! What Rust and Java do to each other wherever their objects are.

use interop::{Servers, Together, Way};

use crate::{kinds, rows};

/// A lock that nobody kills or forgets.
#[track_caller]
pub(crate) fn one_holds_and_the_other_waits<S: Servers>(both: &Together<S>) {
    rows::a_waiter_is_woken_by_the_holders_message(both);
    rows::a_lock_without_waiters_is_taken_over_at_once(both);
    rows::try_acquire_returns_at_once(both);
    rows::acquire_within_ends_by_timeout_or_notification(both);
    rows::acquire_within_accepts_a_fixed_lease(both);
    rows::a_lease_ends_by_itself_and_the_waiter_enters(both);
    rows::a_lock_entered_three_times_is_free_after_the_third_release(both);
    rows::a_spin_lock_is_waited_for_by_asking_again(both);
    rows::a_lock_forced_open_wakes_the_other_sides_waiter(both);
}

/// What becomes of leases, with a [`hasty`](rows::hasty) watchdog.
#[track_caller]
pub(crate) fn leases_are_kept_and_end<S: Servers>(both: &Together<S>) {
    rows::a_renewed_lock_outlives_its_ttl_for_as_long_as_it_is_held(both);
    rows::a_leased_lock_is_not_renewed(both);
}

/// What becomes of a lock whose holder or waiter is killed.
#[track_caller]
pub(crate) fn either_side_may_be_killed<S: Servers>(servers: &S)
where
    for<'a> &'a S: Servers,
{
    rows::the_lock_of_a_killed_holder_is_free_when_its_lease_ends(servers);
    for way in [Way::RustToJava, Way::JavaToRust] {
        rows::a_killed_waiter_is_not_missed(servers, way);
    }
}

/// The other kinds.
#[track_caller]
pub(crate) fn every_kind_wakes_the_other<S: Servers>(both: &Together<S>) {
    kinds::readers_and_writers_wake_each_other(both);
    kinds::permits_of_a_semaphore_wake_the_other(both);
    kinds::a_latch_lets_the_other_pass(both);
    kinds::permits_that_expire_go_from_one_to_the_other(both);
}
