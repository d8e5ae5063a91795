//! The names of keys and channels. Redisson uses some of these names. Only Leasehold uses the rest.

use crate::domain::{Name, Owner};

/// Returns the key of the last fencing token of `name`: Redisson's counter, which has no TTL.
pub(super) fn tokens(name: &Name) -> String {
    redissons("redisson_lock_token", name)
}

/// Returns the key of the client info of the client with the id `client`.
pub(super) fn client_info(client: &Name) -> String {
    own("leasehold_client__info", client)
}

/// Returns the key that expires with the lease of `owner`, a reader of `name`.
pub(super) fn reader(name: &Name, owner: &Owner) -> String {
    format!("{}:{}:rwlock_timeout:1", in_slot(name), owner.as_str())
}

/// Returns whether `key` is the key that expires with the lease of a reader of `name`.
#[cfg(feature = "testing")]
pub(super) fn is_reader(key: &str, name: &Name) -> bool {
    key.strip_prefix(&in_slot(name)).is_some_and(|rest| rest.contains(":rwlock_timeout:"))
}

/// Returns the key of the waiting writers of `name`. Redisson does not use this key.
pub(super) fn writers(name: &Name) -> String {
    own("leasehold_rwlock__writers", name)
}

/// Returns the channel on which Redisson's local caches of the map `name` learn which entries
/// changed.
pub(crate) fn topic(name: &Name) -> String {
    suffixed(name, "topic")
}

/// Returns the name of a synchronizer of one entry of the map `name`, or of one element of the set
/// `name`: `{NAME}:HASH:what`.
pub(crate) fn of_entry(name: &Name, hash: &str, what: &str) -> String {
    suffixed(name, &[hash, ":", what].concat())
}

/// Returns a key or channel that Redisson derives from `name` by a suffix, such as
/// `{door}:timeout`.
pub(super) fn suffixed(name: &Name, suffix: &str) -> String {
    [&in_slot(name), ":", suffix].concat()
}

/// Returns the beginning of keys that Redisson derives from `name` by a suffix, such as `{door}` in
/// `{door}:timeout`.
pub(super) fn in_slot(name: &Name) -> String {
    match name.as_str().contains('{') {
        true => name.as_str().to_owned(),
        // `concat` is faster than `format!`. With `format!`, this function took 4 % of the
        // instructions of an acquisition and its release.
        false => ["{", name.as_str(), "}"].concat(),
    }
}

/// Returns the key of the held permits of `name`, with the end of each lease.
pub(super) fn leases(name: &Name) -> String {
    suffixed(name, "timeout")
}

/// Returns the channel to which queued clients of `name` subscribe. The channel has no messages,
/// because scripts only count its subscribers.
pub(super) fn queuers(name: &Name) -> String {
    own("leasehold_lock__channel", name)
}

/// Returns the key of the wait queue of the lock `name`.
pub(super) fn queue(name: &Name) -> String {
    own("leasehold_lock__queue", name)
}

/// Returns the key with the time of the last yield window of `name`.
pub(super) fn yielded(name: &Name) -> String {
    own("leasehold_lock__yield", name)
}

/// Returns the prefix of the channel that notifies one client.
pub(super) fn waiters(name: &Name) -> String {
    own("leasehold_lock__waiter", name) + ":"
}

/// Returns the channel that notifies the client `id`.
pub(super) fn waiter(name: &Name, id: &str) -> String {
    waiters(name) + id
}

/// Returns the key of the queue of the fair lock `name`, which is Redisson's list.
pub(super) fn fair_queue(name: &Name) -> String {
    redissons("redisson_lock_queue", name)
}

/// Returns the key with the time at which Redisson drops each waiter of the fair lock `name`.
pub(super) fn fair_deadlines(name: &Name) -> String {
    redissons("redisson_lock_timeout", name)
}

/// Returns the key that stores until when each waiter of Leasehold for the fair lock `name` counts
/// as alive.
pub(super) fn fair_alive(name: &Name) -> String {
    own("leasehold_fair__alive", name)
}

/// Returns the key of the holders of permits of the semaphore `name`.
pub(super) fn holders(name: &Name) -> String {
    own("leasehold_semaphore", name)
}

/// Returns the key of the owners that withdrew a request for permits of `name`. Such a request may
/// still be in flight.
pub(super) fn withdrawn(name: &Name) -> String {
    own("leasehold_semaphore__withdrawn", name)
}

/// Returns the key of the longest waiter for permits of `name`.
pub(super) fn longest_waiter(name: &Name) -> String {
    own("leasehold_semaphore__longest_waiter", name)
}

/// The key that stores since when a server of a quorum has had data.
pub(super) const QUORUM_SINCE: &str = "leasehold_quorum__since";

/// The key of the list of the last releases by force, of all names.
pub(super) const FORCED: &str = "leasehold_audit__forced";

/// Returns the key of the record that the leader of the election `name` writes.
pub(super) fn leader(name: &Name) -> String {
    own("leasehold_election", name)
}

/// Returns the channel on which leaders of `name` announce their records.
pub(super) fn leaders(name: &Name) -> String {
    own("leasehold_election__channel", name)
}

/// Returns the key of the members that wait at the barrier `name`.
pub(super) fn members(name: &Name) -> String {
    own("leasehold_barrier__members", name)
}

/// Returns the key of the members inside the double barrier `name`.
pub(super) fn inside(name: &Name) -> String {
    own("leasehold_barrier__inside", name)
}

/// Returns the key of the counter of openings of the barrier `name`.
pub(super) fn generation(name: &Name) -> String {
    own("leasehold_barrier__generation", name)
}

/// Returns the channel on which scripts announce openings of the barrier `name`.
pub(super) fn openings(name: &Name) -> String {
    own("leasehold_barrier__channel", name)
}

/// Returns the prefix of the idempotency keys of members for which the barrier `name` has opened.
pub(super) fn passed(name: &Name) -> String {
    own("leasehold_barrier__receipt", name) + ":"
}

/// Returns the key of the claimed elements of the queue `name`, by owner.
pub(super) fn claims(name: &Name) -> String {
    own("leasehold_queue__claims", name)
}

/// Returns the key with the end of the lease of each claim of the queue `name`.
pub(super) fn claimants(name: &Name) -> String {
    own("leasehold_queue__claimants", name)
}

/// Returns the key of the elements of the queue `name` that were set aside, because they are
/// unreadable or too long.
pub(super) fn aside(name: &Name) -> String {
    own("leasehold_queue__aside", name)
}

/// Returns the name of a queue, if `key` has claims or set-aside elements of the queue.
fn queue_of(key: &str) -> Option<&str> {
    let rest = key.strip_prefix("leasehold_queue__")?;
    let own = ["claims:", "claimants:", "aside:"].iter().find_map(|it| rest.strip_prefix(it))?;
    name_in(own)
}

/// Returns the name of a barrier, if `key` has the members of the barrier.
fn barrier_of(key: &str) -> Option<&str> {
    let rest = key.strip_prefix("leasehold_barrier__")?;
    name_in(["members:", "inside:"].iter().find_map(|it| rest.strip_prefix(it))?)
}

/// Returns the key that expires when `leasehold run --once-per` may start its command again.
pub(super) fn started(name: &Name) -> String {
    own("leasehold_run__started", name)
}

/// Returns the name in `key`, if [`started`] made the key.
pub(super) fn started_of(key: &str) -> Option<&str> {
    name_in(key.strip_prefix("leasehold_run__started:")?)
}

/// Returns the name in a key of [`own`]. `rest` is the key without its prefix and the first colon.
fn name_in(rest: &str) -> Option<&str> {
    match rest.strip_prefix(':') {
        Some(name) => Some(name),
        None => rest.strip_prefix('{')?.strip_suffix('}'),
    }
}

/// Returns the name under which a search lists `key`. Some objects may have only a helper key: the
/// waiters of a fair lock, the claims of a queue, the members of a barrier, or the record of a
/// command.
pub(super) fn shown_name(key: &str) -> Option<&str> {
    if let Some(name) = queue_of(key).or_else(|| barrier_of(key)).or_else(|| started_of(key)) {
        return Some(name);
    }
    if let Some(name) = key.strip_prefix("redisson_lock_queue:") {
        let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        return Some(inner.filter(|name| !name.contains('{')).unwrap_or(name));
    }
    (!is_derived(key)).then_some(key)
}

/// Returns whether the key belongs to an object with another name than the key.
fn is_derived(key: &str) -> bool {
    let of_a_tag = key.split_once('}').is_some_and(|(_, rest)| {
        [":timeout", ":permits", ":value"].iter().any(|it| rest.contains(it))
    });
    let of_a_prefix = ["redisson_", "leasehold_"].iter().any(|it| key.starts_with(it));
    of_a_prefix || key.contains(":rwlock_timeout:") || of_a_tag
}

/// Returns the channel on which scripts announce new and returned elements of the queue `name`.
pub(super) fn pushes(name: &Name) -> String {
    own("leasehold_queue__channel", name)
}

/// Returns the key with the time at which the whole burst of the throttle `name` is free again.
pub(super) fn throttle(name: &Name) -> String {
    own("leasehold_throttle", name)
}

/// Returns the idempotency key of a change of the object `name`, whose kind is `kind`.
pub(super) fn receipt(kind: &str, name: &Name, receipt: &Owner) -> String {
    format!("{}:{receipt}", own(&format!("leasehold_{kind}__receipt"), name))
}

/// Returns a key or channel of Redisson in the slot of `name`. As in Redisson, the names `door` and
/// `{door}` have the same key or channel.
pub(super) fn redissons(prefix: &str, name: &Name) -> String {
    [prefix, ":", &in_slot(name)].concat()
}

/// Returns a key or channel of Leasehold in the slot of `name`, unique to this name: for example
/// `PREFIX:{door}` for `door`, and `PREFIX::{door}` for `{door}`.
fn own(prefix: &str, name: &Name) -> String {
    let name = name.as_str();
    match name.contains('{') {
        true => [prefix, "::", name].concat(),
        // `concat` is faster than `format!`. With `format!`, the four keys of a release took a
        // tenth of its instructions.
        false => [prefix, ":{", name, "}"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        domain::{Kind, Object},
        store::redis::channel_of,
    };

    const NAMES: [&str; 8] =
        ["orders", "{t}:orders", "a{b}c", "a{b}c{d", "{a}}", "{{a}", "{orders}", "ключ"];

    #[test]
    fn channel_name_matches_redisson() {
        let of = |name| channel_of(&Object::lock(name));
        assert_eq!(of("orders:42"), "redisson_lock__channel:{orders:42}");
        assert_eq!(of("{tenant}:orders"), "redisson_lock__channel:{tenant}:orders");
        assert_eq!(of("a b\n"), "redisson_lock__channel:{a b\n}");
    }

    #[test]
    fn semaphore_and_latch_channels_match_redisson() {
        let of = |kind, name| channel_of(&Object::of(kind, name));
        assert_eq!(of(Kind::Semaphore, "pool"), "redisson_sc:{pool}");
        assert_eq!(of(Kind::Semaphore, "{t}:pool"), "redisson_sc:{t}:pool");
        assert_eq!(of(Kind::Latch, "start"), "redisson_countdownlatch__channel__{start}");
        assert_eq!(of(Kind::Latch, "{t}:start"), "redisson_countdownlatch__channel__{{t}:start}");
    }

    #[test]
    fn permit_keys_and_channels_match_redisson() {
        let of = |name| Object::of(Kind::Permits, name);
        assert_eq!(channel_of(&of("printers")), "redisson_sc:{printers}");
        assert_eq!(channel_of(&of("{hall}:printers")), "redisson_sc:{hall}:printers");
        assert_eq!(leases(&of("printers").name), "{printers}:timeout");
        assert_eq!(leases(&of("{hall}:printers").name), "{hall}:printers:timeout");
    }

    #[test]
    fn fair_lock_uses_redissons_keys_and_channels() {
        for (name, slot) in [("door", "{door}"), ("{t}:door", "{t}:door")] {
            let object = Object::of(Kind::Fair, name);
            assert_eq!(fair_queue(&object.name), format!("redisson_lock_queue:{slot}"));
            assert_eq!(fair_deadlines(&object.name), format!("redisson_lock_timeout:{slot}"));
            let seated = object.for_task(Owner::lossy("id:7"));
            assert_eq!(channel_of(&seated), format!("redisson_lock__channel:{slot}:id:7"));
        }
    }

    #[test]
    fn all_keys_of_a_name_are_in_one_slot() {
        for name in NAMES {
            let object = Object::lock(name);
            let name = &object.name;
            let owner = Owner::lossy("id:1");
            let sides = channel_of(&Object { kind: Kind::Read, ..object.clone() });
            for key in [
                channel_of(&object),
                sides,
                queuers(name),
                queue(name),
                yielded(name),
                tokens(name),
                waiter(name, "id"),
                reader(name, &owner),
                writers(name),
                fair_queue(name),
                fair_deadlines(name),
                fair_alive(name),
                channel_of(&Object::new(Kind::Fair, name.clone()).for_task(owner)),
            ] {
                assert_eq!(tag(name.as_str()), tag(&key), "{name}");
            }
            let permits = Object::of(Kind::Permits, name.as_str());
            let semaphore = Object::of(Kind::Semaphore, name.as_str());
            let id = Owner::new("id:1").unwrap();
            for key in [
                channel_of(&semaphore),
                channel_of(&permits),
                leases(name),
                receipt("permits", name, &id),
                holders(name),
                withdrawn(name),
                longest_waiter(name),
                receipt("semaphore", name, &id),
                receipt("latch", name, &id),
                throttle(name),
                leader(name),
                leaders(name),
                members(name),
                inside(name),
                generation(name),
                openings(name),
                passed(name),
                claims(name),
                claimants(name),
                aside(name),
                pushes(name),
                receipt("queue", name, &id),
            ] {
                assert_eq!(tag(name.as_str()), tag(&key), "{name}");
            }
        }
    }

    #[test]
    fn different_names_share_no_leasehold_key() {
        let names = NAMES.map(|name| Name::new(name).unwrap());
        let of_locks = |name: &Name| {
            let waiters = [waiter(name, "id"), waiter(name, "x")].into_iter();
            let rest = [queue(name), yielded(name), queuers(name), writers(name), fair_alive(name)];
            waiters.chain(rest).collect::<Vec<_>>()
        };
        let of_semaphores = |name: &Name| [holders(name), withdrawn(name), longest_waiter(name)];
        let all: BTreeSet<String> = names
            .iter()
            .flat_map(|name| of_locks(name).into_iter().chain(of_semaphores(name)))
            .collect();
        assert_eq!(all.len(), 10 * NAMES.len());
    }

    #[test]
    fn inspection_does_not_list_derived_keys_as_names() {
        for key in [
            "redisson_lock_timeout:{door}",
            "leasehold_barrier__generation:{door}",
            "{door}:8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:1:rwlock_timeout:1",
            "{pool}:timeout",
            "{api}:value",
            "{api}:permits:8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10",
        ] {
            assert_eq!(shown_name(key), None, "{key}");
        }
        for key in ["door", "{tenant}:door", "timeout", "a:value"] {
            assert_eq!(shown_name(key), Some(key));
        }
        for (key, name) in [("{door}", "door"), ("{tenant}:door", "{tenant}:door")] {
            assert_eq!(shown_name(&format!("redisson_lock_queue:{key}")), Some(name));
        }
        for key in [
            "leasehold_run__started:{door}",
            "leasehold_queue__claims:{door}",
            "leasehold_barrier__members:{door}",
            "leasehold_barrier__inside:{door}",
        ] {
            assert_eq!(shown_name(key), Some("door"));
        }
        assert_eq!(shown_name("leasehold_run__started::{t}:door"), Some("{t}:door"));
    }

    #[test]
    fn queue_name_is_found_from_each_key_that_outlives_its_list() {
        for text in NAMES {
            let name = Name::new(text).unwrap();
            for key in [claims(&name), claimants(&name), aside(&name)] {
                assert_eq!(queue_of(&key), Some(text));
            }
            assert_eq!(queue_of(&receipt("queue", &name, &Owner::lossy("id:1"))), None);
        }
    }

    /// Returns the part that Redis hashes: the text in the first braces. If this text is empty,
    /// Redis hashes the whole key.
    fn tag(key: &str) -> &str {
        let Some((_, after)) = key.split_once('{') else { return key };
        match after.split_once('}') {
            Some((tag, _)) if !tag.is_empty() => tag,
            _ => key,
        }
    }
}
