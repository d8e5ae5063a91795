//! The rules of a run, and their violations.
//!
//! Every rule is a function from the record of a run to its violations.

mod claims;
mod exclusion;
mod fencing;
mod latches;
mod order;
mod sleep;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::clock::{Nanos, nanos};
use crate::fault::HealedFault;
use crate::orders::{Kind, Object};
use crate::record::Record;

pub use latches::closed_again;
pub use order::overtaking;

/// A violation of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// When the violation was seen.
    pub at: Nanos,
    /// What happened, in a sentence.
    pub what: String,
}

/// The result of the referee.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// The violations.
    pub violations: Vec<Violation>,
    /// The times at which two holders overlapped within a [window](windows) that allows overlaps.
    pub excused: Vec<Nanos>,
}

/// Checks all events of these objects, whose leases last for `ttl`.
#[must_use]
pub fn judge(record: &Record, objects: &[Object], ttl: Duration) -> Verdict {
    let mut verdict = Verdict::default();
    for object in objects {
        let windows = windows_of(record, object, ttl);
        let names = holding(objects, object);
        match object.kind {
            Kind::Latch => latches::look(record, object, &windows, &mut verdict),
            Kind::Queue => claims::look(record, object, &windows, &mut verdict),
            // A hold of a multi-lock counts as a hold of each member. So the checks of the members
            // include this hold.
            Kind::Multi => {}
            _ => {
                let beliefs = exclusion::beliefs(record, &names);
                exclusion::look(beliefs, object, &windows, &mut verdict);
            }
        }
        if object.kind != Kind::Latch {
            fencing::look(record, object, &windows, &mut verdict);
            sleep::look(record, (object, &names), ttl, &mut verdict);
        }
    }
    verdict.violations.sort_by_key(|it| it.at);
    verdict
}

/// The names whose holds exclude holds of `object`. These are `object` itself, and each multi-lock
/// that has `object` as a member. If `object` is a multi-lock, these are also its members, and each
/// multi-lock with one of these members.
fn holding<'a>(objects: &'a [Object], object: &'a Object) -> BTreeSet<&'a str> {
    let multis = objects.iter().filter(|it| it.members.contains(&object.name));
    let members = object.members.iter().flat_map(|member| {
        let with_it = objects.iter().filter(|it| it.members.contains(member));
        with_it.map(|it| it.name.as_str()).chain([member.as_str()])
    });
    multis.map(|it| it.name.as_str()).chain(members).chain([object.name.as_str()]).collect()
}

/// The times in which two holders are possible: from the start of a failover until one lease after
/// its end. If the new server has not received a grant, the holder of this grant trusts its hold
/// until the next renewal, and at most for its lease.
#[must_use]
pub fn windows(record: &Record, ttl: Duration) -> Vec<(Nanos, Nanos)> {
    failovers(record).map(|it| window(it, ttl)).collect()
}

/// The [windows] of one object. In a cluster, a failover loses only data of the failed node.
fn windows_of(record: &Record, object: &Object, ttl: Duration) -> Vec<(Nanos, Nanos)> {
    let is_there = |it: &&HealedFault| {
        // Latches and semaphores get a new name after each fault. The nodes of these names are not
        // recorded, so every failover counts.
        let renamed = matches!(object.kind, Kind::Latch | Kind::Semaphore);
        renamed || it.names.as_ref().is_none_or(|names| names.contains(&object.name))
    };
    failovers(record).filter(is_there).map(|it| window(it, ttl)).collect()
}

fn failovers(record: &Record) -> impl Iterator<Item = &HealedFault> {
    record.faults.iter().filter(|it| it.failover)
}

fn window(failover: &HealedFault, ttl: Duration) -> (Nanos, Nanos) {
    (failover.from, failover.healed + nanos(ttl))
}

/// Whether one of the windows contains the whole time from `from` to `until`.
fn within(windows: &[(Nanos, Nanos)], from: Nanos, until: Nanos) -> bool {
    windows.iter().any(|(begin, end)| *begin <= from && until <= *end)
}

/// Within this time after a fault, each worker has repeated its request.
const SETTLED: Duration = Duration::from_secs(2);
/// A restarted replica needs up to this time to catch up. It may be promoted before it has caught
/// up.
const BEHIND: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::orders::Mode;
    use crate::worker_event::WorkerEvent;

    const SECOND: Nanos = 1_000_000_000;
    const TTL: Duration = Duration::from_secs(3);

    /// A record of holds that started and ended at these seconds.
    fn record(name: &str, holds: &[(Mode, Nanos, Nanos)]) -> Record {
        let mut record = Record::default();
        for (hold, (mode, enter, leave)) in (1..).zip(holds) {
            let (name, process) = (name.to_owned(), format!("rust-{hold}"));
            let call = enter * SECOND - 1;
            record.note(&process, WorkerEvent::Ask { hold, name, mode: *mode, call });
            let (at, token, element) = (enter * SECOND, Some(hold), None);
            record.note(&process, WorkerEvent::Enter { hold, at, token, element });
            record.note(&process, WorkerEvent::Leaving { hold, at: leave * SECOND });
            record.note(&process, WorkerEvent::Left { hold, at: leave * SECOND + 1 });
        }
        record
    }

    fn failover(from: Nanos, healed: Nanos) -> HealedFault {
        let [from, healed] = [from * SECOND, healed * SECOND];
        let (fault, failover, names) = (Fault::MasterKilled, true, None);
        HealedFault { fault, from, served: healed, healed, failover, names }
    }

    fn found(record: &Record, object: Object) -> Vec<String> {
        let verdict = judge(record, &[object], TTL);
        verdict.violations.into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn referee_accepts_consecutive_holds() {
        let record = record("a", &[(Mode::Exclusive, 1, 2), (Mode::Exclusive, 2, 3)]);
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")), [""; 0]);
    }

    #[test]
    fn referee_finds_overlapping_holds() {
        let record = record("a", &[(Mode::Exclusive, 1, 3), (Mode::Exclusive, 2, 4)]);
        let found = found(&record, Object::new(Kind::Lock, "a"));
        assert!(
            found[0].starts_with("`a` was held by rust-1 (1) and rust-2 (2) for 1s"),
            "{found:?}"
        );
    }

    #[test]
    fn overlap_after_a_failover_is_a_violation_for_replicated_locks() {
        let mut record = record("a", &[(Mode::Exclusive, 10, 12), (Mode::Exclusive, 11, 12)]);
        record.faults.push(failover(5, 9));
        let verdict = judge(&record, &[Object::new(Kind::Lock, "a")], TTL);
        assert_eq!((verdict.violations.len(), verdict.excused.len()), (0, 1));
        assert_eq!(found(&record, Object::new(Kind::Lock, "a").replicated()).len(), 1);
    }

    /// Former bug: if a new hold conflicted with several holders, the referee excused the first
    /// conflict, and did not check the other conflicts.
    #[test]
    fn referee_checks_each_earlier_hold_that_a_new_hold_overlaps() {
        let both = [(Mode::Shared, 6, 11), (Mode::Shared, 7, 20), (Mode::Exclusive, 10, 20)];
        let mut read = record("a", &both);
        read.faults.push(failover(5, 9));
        assert_eq!(found(&read, Object::new(Kind::ReadWrite, "a")).len(), 1);
        let three = [(Mode::Permit, 6, 20), (Mode::Permit, 7, 11), (Mode::Permit, 8, 20)];
        let mut taken = record("a", &three);
        taken.faults.push(failover(5, 9));
        let of = |permits| found(&taken, Object::new(Kind::Permits, "a").permits(permits)).len();
        assert_eq!((of(1), of(2)), (1, 0));
    }

    #[test]
    fn referee_finds_an_overlap_on_a_node_without_a_failover() {
        let mut record = record("a", &[(Mode::Exclusive, 10, 12), (Mode::Exclusive, 11, 12)]);
        let names = |name: &str| Some([name.to_owned()].into());
        record.faults.push(HealedFault { names: names("b"), ..failover(5, 9) });
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")).len(), 1);
        record.faults.push(HealedFault { names: names("a"), ..failover(5, 9) });
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")), [""; 0]);
    }

    #[test]
    fn referee_finds_an_overlap_that_begins_after_a_failover() {
        let mut record = record("a", &[(Mode::Exclusive, 10, 14), (Mode::Exclusive, 11, 14)]);
        record.faults.push(failover(5, 9));
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")).len(), 1);
    }

    #[test]
    fn referee_accepts_overlapping_readers_and_rejects_a_writer() {
        let readers = [(Mode::Shared, 1, 5), (Mode::Shared, 2, 6)];
        assert_eq!(found(&record("a", &readers), Object::new(Kind::ReadWrite, "a")), [""; 0]);
        let beside = [readers[0], readers[1], (Mode::Exclusive, 5, 7)];
        assert_eq!(found(&record("a", &beside), Object::new(Kind::ReadWrite, "a")).len(), 1);
    }

    #[test]
    fn referee_finds_overlapping_holds_of_a_fair_lock() {
        let record = record("a", &[(Mode::Exclusive, 1, 3), (Mode::Exclusive, 2, 4)]);
        assert_eq!(found(&record, Object::new(Kind::Fair, "a")).len(), 1);
    }

    /// The locks `a` and `b`, a multi-lock of both, and a multi-lock of `b` and `c`.
    fn with_multi() -> [Object; 4] {
        let multi = |name, members: [&str; 2]| Object::multi(name, members.map(str::to_owned));
        let lock = |name| Object::new(Kind::Lock, name);
        [multi("ab", ["a", "b"]), multi("bc", ["b", "c"]), lock("a"), lock("b")]
    }

    /// A record of holds with these names and times.
    fn named(holds: &[(&str, Nanos, Nanos)]) -> Record {
        let mut all = Record::default();
        for (number, (name, enter, leave)) in (1..).zip(holds) {
            let one = record(name, &[(Mode::Exclusive, *enter, *leave)]);
            all.holds.extend(one.holds.into_values().map(|hold| (number, hold)));
        }
        all
    }

    #[test]
    fn referee_finds_an_overlap_of_a_multi_lock_and_its_member() {
        let count = |holds: &[_]| judge(&named(holds), &with_multi(), TTL).violations.len();
        assert_eq!(count(&[("a", 1, 3), ("b", 1, 3), ("ab", 3, 5)]), 0);
        assert_eq!(count(&[("ab", 1, 3), ("a", 2, 4)]), 1);
        assert_eq!(count(&[("b", 1, 3), ("ab", 2, 4)]), 1);
        assert_eq!(count(&[("ab", 1, 3), ("bc", 2, 4)]), 1);
    }

    /// While a member is held, the multi-lock is not free for its waiters.
    #[test]
    fn referee_treats_a_multi_lock_as_held_if_a_member_is_held() {
        let count = |holds: &[_]| {
            let mut record = named(holds);
            record.holds.get_mut(&1).unwrap().call = SECOND;
            judge(&record, &with_multi(), TTL).violations.len()
        };
        assert_eq!(count(&[("ab", 20, 21), ("a", 1, 8), ("b", 8, 19)]), 0);
        assert_eq!(count(&[("ab", 20, 21), ("bc", 1, 19)]), 0);
        assert_eq!(count(&[("ab", 20, 21), ("a", 1, 8)]), 1);
        assert_eq!(count(&[("a", 20, 21), ("ab", 1, 19)]), 0);
    }

    #[test]
    fn referee_finds_a_second_leader_of_one_term() {
        let leader = || Object::new(Kind::Election, "a");
        let mut later = record("a", &[(Mode::Exclusive, 1, 2), (Mode::Exclusive, 3, 4)]);
        assert_eq!(found(&later, leader()), [""; 0]);
        later.holds.get_mut(&2).unwrap().token = Some(1);
        assert!(found(&later, leader())[0].contains("token 1 after 1"));
        let both = record("a", &[(Mode::Exclusive, 1, 3), (Mode::Exclusive, 2, 4)]);
        assert_eq!(found(&both, leader()).len(), 1);
    }

    /// How a claim ends: its element goes back to the queue, its element is done, or its process
    /// dies before the reply.
    #[derive(Clone, Copy, PartialEq)]
    enum Ends {
        Back,
        Done,
        Unanswered,
    }

    /// A record of one pushed element `x`, and of its claims.
    fn claimed(claims: &[(&str, Nanos, Nanos, Ends)]) -> Record {
        let mut record = Record::default();
        let (name, elements) = ("a".to_owned(), vec!["x".to_owned()]);
        record.note("rust-1", WorkerEvent::Pushed { name, elements, at: SECOND });
        for (hold, (process, enter, leave, ends)) in (1..).zip(claims) {
            let (name, mode, call) = ("a".to_owned(), Mode::Claim, enter * SECOND - 1);
            record.note(process, WorkerEvent::Ask { hold, name, mode, call });
            let (at, token, element) = (enter * SECOND, None, Some("x".to_owned()));
            record.note(process, WorkerEvent::Enter { hold, at, token, element });
            let at = leave * SECOND;
            record.note(process, WorkerEvent::Leaving { hold, at });
            match ends {
                Ends::Back => record.note(process, WorkerEvent::Left { hold, at }),
                Ends::Done => record.note(process, WorkerEvent::Done { hold, at }),
                Ends::Unanswered => {}
            }
        }
        record
    }

    fn queue() -> Object {
        Object::new(Kind::Queue, "a")
    }

    #[test]
    fn referee_finds_a_second_claimant_of_an_element() {
        let claims = [("rust-1", 2, 4, Ends::Back), ("rust-2", 4, 5, Ends::Done)];
        assert_eq!(found(&claimed(&claims), queue()), [""; 0]);
        let claims = [("rust-1", 2, 4, Ends::Back), ("rust-2", 3, 5, Ends::Done)];
        let both = found(&claimed(&claims), queue());
        assert!(both[0].contains("rust-1 (1) and rust-2 (2)"), "{both:?}");
        // Another worker may have another element.
        let mut two = claimed(&claims);
        two.holds.get_mut(&1).unwrap().element = Some("y".into());
        assert_eq!(found(&two, queue()), [""; 0]);
    }

    #[test]
    fn referee_finds_an_element_that_is_done_twice() {
        let claims = [("rust-1", 2, 3, Ends::Done), ("rust-2", 20, 21, Ends::Done)];
        let mut twice = claimed(&claims);
        assert!(found(&twice, queue())[0].contains("which rust-1 had done"));
        twice.faults.push(failover(5, 9));
        assert_eq!(
            found(&twice, queue()),
            [""; 0],
            "the new server may not know that the element was done"
        );
        // The process died before the reply, so the element may be done or not.
        let claims = [("rust-1", 2, 3, Ends::Unanswered), ("rust-2", 20, 21, Ends::Done)];
        assert_eq!(found(&claimed(&claims), queue()), [""; 0]);
    }

    #[test]
    fn referee_finds_a_lost_element_of_a_queue() {
        assert_eq!(found(&claimed(&[("drain", 2, 3, Ends::Done)]), queue()), [""; 0]);
        assert_eq!(found(&claimed(&[("rust-1", 2, 3, Ends::Unanswered)]), queue()), [""; 0]);
        for claims in [&[][..], &[("rust-1", 2, 3, Ends::Back)]] {
            let lost = found(&claimed(claims), queue());
            assert!(lost[0].starts_with("`x` of `a` was lost"), "{lost:?}");
        }
        let mut forgotten = claimed(&[]);
        forgotten.faults.push(failover(5, 9));
        assert_eq!(found(&forgotten, queue()), [""; 0], "the new server may not have the element");
    }

    #[test]
    fn referee_accepts_a_failed_redisson_poll_only_during_a_fault() {
        let polls = |at: Nanos| {
            let mut record = claimed(&[]);
            let (name, mode, call) = ("a".to_owned(), Mode::Claim, at * SECOND);
            record.note("java-1", WorkerEvent::Ask { hold: 9, name, mode, call });
            let (at, why) = (call + 1, "RedisTimeoutException".to_owned());
            record.note("java-1", WorkerEvent::GaveUp { hold: 9, at, why });
            record.faults.push(HealedFault { failover: false, ..failover(5, 9) });
            found(&record, queue()).len()
        };
        assert_eq!((polls(2), polls(6), polls(30)), (1, 0, 1));
    }

    #[test]
    fn referee_counts_grants_that_overtake_older_requests() {
        let mut fair = record("a", &[(Mode::Exclusive, 5, 6), (Mode::Exclusive, 7, 8)]);
        let objects = [Object::new(Kind::Fair, "a")];
        assert_eq!(overtaking(&fair, &objects), (2, 0));
        fair.holds.get_mut(&2).unwrap().call = 2 * SECOND;
        assert_eq!(overtaking(&fair, &objects), (2, 1));
    }

    /// The waiters behind a dead Redisson waiter wait until the deadline of the dead waiter.
    #[test]
    fn referee_accepts_a_wait_behind_a_dead_redisson_waiter() {
        let mut fair = record("a", &[(Mode::Exclusive, 12, 13)]);
        fair.holds.get_mut(&1).unwrap().call = SECOND;
        let waits = |fair: &Record| found(fair, Object::new(Kind::Fair, "a")).len();
        assert_eq!(waits(&fair), 1);
        let (name, mode) = ("a".to_owned(), Mode::Exclusive);
        fair.note("java-9", WorkerEvent::Ask { hold: 9, name, mode, call: SECOND });
        fair.deaths.insert("java-9".into(), 2 * SECOND);
        assert_eq!(waits(&fair), 0);
    }

    #[test]
    fn referee_finds_more_held_permits_than_exist() {
        let three = [(Mode::Permit, 1, 5), (Mode::Permit, 2, 6), (Mode::Permit, 3, 7)];
        let permits = |count| Object::new(Kind::Permits, "a").permits(count);
        assert_eq!(found(&record("a", &three), permits(3)), [""; 0]);
        assert_eq!(found(&record("a", &three), permits(2)).len(), 1);
    }

    #[test]
    fn referee_ends_the_holds_of_a_process_at_its_death() {
        let mut record = record("a", &[(Mode::Exclusive, 1, 9), (Mode::Exclusive, 5, 6)]);
        record.deaths.insert("rust-1".into(), 4 * SECOND);
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")), [""; 0]);
    }

    #[test]
    fn referee_finds_a_token_that_does_not_grow() {
        let mut record = record("a", &[(Mode::Exclusive, 1, 2), (Mode::Exclusive, 3, 4)]);
        record.holds.get_mut(&1).unwrap().token = Some(7);
        let found = found(&record, Object::new(Kind::Fenced, "a"));
        assert!(found[0].contains("token 2 after 7"), "{found:?}");
    }

    #[test]
    fn referee_finds_an_accepted_write_of_an_earlier_holder() {
        let holds = [(Mode::Exclusive, 1, 2), (Mode::Exclusive, 3, 4)];
        let mut record = record("a", &holds);
        let write = |record: &mut Record, hold, token, second| {
            let event = WorkerEvent::Write { name: "a".into(), hold, token, at: second * SECOND };
            record.note("rust", event);
        };
        write(&mut record, 2, 2, 3);
        write(&mut record, 1, 1, 4);
        assert_eq!(found(&record, Object::new(Kind::Fenced, "a")), [""; 0]);
        // The gate compares only tokens, so it accepts a forged token that is higher.
        write(&mut record, 1, 9, 5);
        assert_eq!(found(&record, Object::new(Kind::Fenced, "a")).len(), 1);
    }

    #[test]
    fn referee_finds_latch_waits_that_end_too_early_or_too_late() {
        let latch = || Object::new(Kind::Latch, "a");
        let mut record = record("a", &[(Mode::Pass, 3, 3), (Mode::Pass, 4, 4)]);
        record.opened.insert("a".into(), 3 * SECOND);
        assert_eq!(found(&record, latch()), [""; 0]);
        record.opened.insert("a".into(), 4 * SECOND);
        assert!(found(&record, latch())[0].contains("was closed"));
        let waits = WorkerEvent::Ask { hold: 9, name: "a".into(), mode: Mode::Pass, call: SECOND };
        record.opened.insert("a".into(), SECOND);
        record.note("rust-9", waits);
        assert_eq!(
            found(&record, latch()),
            [""; 0],
            "the run may have ended before the waiter passed"
        );
        let (at, token, element) = (20 * SECOND, None, None);
        record.note("rust-9", WorkerEvent::Enter { hold: 9, at, token, element });
        assert!(found(&record, latch())[0].contains("was open"));
    }

    #[test]
    fn referee_accepts_a_latch_that_a_failover_closes_again() {
        let mut record = Record::default();
        for (name, opened) in [("before", 80), ("shortly", 95), ("in", 101), ("after", 110)] {
            record.opened.insert(name.into(), opened * SECOND);
        }
        assert!(closed_again(&record).is_empty());
        record.faults.push(failover(100, 105));
        assert!(closed_again(&record).iter().eq(["in", "shortly"]));
    }

    #[test]
    fn referee_finds_a_waiter_that_sleeps_while_the_lock_is_free() {
        let mut record = record("a", &[(Mode::Exclusive, 1, 2), (Mode::Exclusive, 20, 21)]);
        record.holds.get_mut(&2).unwrap().call = 2 * SECOND;
        let free = found(&record, Object::new(Kind::Lock, "a"));
        assert!(free[0].contains("waited for 17.99"), "{free:?}");
        // The holds of a dead process end only with their leases.
        record.holds.get_mut(&1).unwrap().left = None;
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")).len(), 1);
        record.faults.push(failover(2, 16));
        assert_eq!(found(&record, Object::new(Kind::Lock, "a")), [""; 0]);
    }
}
