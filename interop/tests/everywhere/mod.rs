//! Tests for every deployment. Each test adds a row to the table of results.

use interop::{Servers, Together, Way};

use crate::{kinds, rows};

/// Runs the tests in which no lease expires and no process is killed.
#[track_caller]
pub(crate) fn one_holds_and_the_other_waits<S: Servers>(both: &Together<S>) {
    rows::release_message_wakes_a_waiter_of_the_other_language(both);
    rows::released_lock_is_free_for_the_other_language_at_once(both);
    rows::try_acquire_returns_at_once_if_the_other_language_holds_it(both);
    rows::acquire_within_ends_by_timeout_or_notification(both);
    rows::acquire_within_accepts_a_fixed_lease(both);
    rows::waiter_acquires_when_a_lease_ends(both);
    rows::lock_held_three_times_is_free_after_three_releases(both);
    rows::rust_waiter_polls_a_java_spin_lock(both);
    rows::forced_release_wakes_the_waiter_of_the_other_language(both);
}

/// Runs the tests about leases. These tests need a [`hasty`](rows::hasty) watchdog.
#[track_caller]
pub(crate) fn leases_are_kept_and_end<S: Servers>(both: &Together<S>) {
    rows::held_lock_is_renewed_beyond_its_ttl_in_both_languages(both);
    rows::lock_with_a_fixed_lease_is_not_renewed(both);
}

/// Runs the tests in which a holder or a waiter is killed.
#[track_caller]
pub(crate) fn either_side_may_be_killed<S: Servers>(servers: &S)
where
    for<'a> &'a S: Servers,
{
    rows::lock_of_a_killed_holder_is_free_when_its_lease_ends(servers);
    for way in [Way::RustToJava, Way::JavaToRust] {
        rows::killed_waiter_blocks_no_other_waiter(servers, way);
    }
}

/// Runs the tests of kinds other than locks.
#[track_caller]
pub(crate) fn every_kind_wakes_the_other<S: Servers>(both: &Together<S>) {
    kinds::readers_and_writers_wake_each_other(both);
    kinds::permits_of_a_semaphore_wake_the_other(both);
    kinds::a_latch_lets_the_other_pass(both);
    kinds::permits_that_expire_go_from_one_to_the_other(both);
}
