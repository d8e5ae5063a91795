//! Finds data that is still in Redis after all workers have ended, although it should be gone.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use leasehold::blocking::Client;

use crate::clock::{nanos, now};
use crate::orders::{Kind, Object};
use crate::site::Site;

/// Waits for one lease, and then returns what is left. All locks must be free, all permits must be
/// available, and all other keys must have a TTL. Exceptions are the keys of `what_stays`, and a
/// latch that a failover has closed again.
pub fn look(
    site: &dyn Site,
    client: &Client,
    (objects, closed_again): (&[Object], &BTreeSet<String>),
    ttl: Duration,
) -> Vec<String> {
    let limit = now() + nanos(ttl + GRACE);
    loop {
        // An expired permit becomes free only at the next request for the semaphore. This loop
        // sends such requests.
        let found = [unavailable(client, objects), left(site, objects, closed_again)].concat();
        if found.is_empty() || now() > limit {
            return found;
        }
        sleep(PAUSE);
    }
}

/// Lists the expirable semaphores whose number of free permits is wrong.
fn unavailable(client: &Client, objects: &[Object]) -> Vec<String> {
    let mut found = vec![];
    for Object { name, permits, .. } in objects.iter().filter(|it| it.kind == Kind::Permits) {
        match client.expirable_semaphore(name).and_then(|it| it.available()) {
            Ok(free) if free == i64::from(*permits) => {}
            other => found.push(format!("of {permits} permits `{name}` has {other:?}")),
        }
    }
    found
}

/// Lists the semaphores whose number of free permits is wrong.
pub fn lacking(site: &dyn Site, semaphores: &[Object]) -> Vec<String> {
    let mut found = vec![];
    for Object { name, permits, .. } in semaphores {
        let replies = site.ask_masters(&["GET", name]);
        let mut reports = replies.iter().filter(|it| !it.is_nil() && !it.is_error());
        let left = reports.next().map(|it| it.text().to_owned()).unwrap_or_default();
        if left != permits.to_string() {
            found.push(format!("`{name}` has {left} of {permits} permits"));
        }
    }
    found
}

fn left(site: &dyn Site, objects: &[Object], closed_again: &BTreeSet<String>) -> Vec<String> {
    let locks: BTreeSet<_> =
        objects.iter().filter(|it| !is_number(it)).map(|it| it.name.as_str()).collect();
    let stays: BTreeSet<_> = objects.iter().flat_map(what_stays).collect();
    let replies = site.ask_masters(&["EVAL", KEYS_AND_TIMES, "0"]);
    let mut found = vec![];
    for reply in &replies {
        for pair in reply.texts().chunks_exact(2) {
            let [key, ttl] = pair else { continue };
            if locks.contains(key) {
                if !closed_again.contains(*key) {
                    found.push(format!("`{key}` is still there, for {ttl} ms"));
                }
            } else if ttl.starts_with('-') && !stays.contains(*key) {
                found.push(format!("the key `{key}` is still there, without an end"));
            }
        }
    }
    found
}

fn is_number(object: &Object) -> bool {
    matches!(object.kind, Kind::Semaphore | Kind::Permits)
}

/// The keys of an object that may stay: the token of a fenced lock or an election, the number of
/// permits, and all other keys of a semaphore.
fn what_stays(object: &Object) -> Vec<String> {
    let name = &object.name;
    match object.kind {
        Kind::Lock | Kind::ReadWrite | Kind::Latch | Kind::Fair | Kind::Multi | Kind::Queue => {
            vec![]
        }
        Kind::Fenced | Kind::Election => vec![format!("redisson_lock_token:{{{name}}}")],
        Kind::Semaphore => {
            let own = ["", "__withdrawn", "__patient"];
            let own = own.map(|part| format!("leasehold_semaphore{part}:{{{name}}}"));
            own.into_iter().chain([name.clone()]).collect()
        }
        Kind::Permits => vec![name.clone()],
    }
}

/// All keys, each with its TTL in milliseconds, or -1.
const KEYS_AND_TIMES: &str = "local found = {} \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        found[#found + 1] = key \
        found[#found + 1] = tostring(redis.call('PTTL', key)) \
    end \
    return found";
/// The longest time from the end of a lease until its data is gone.
const GRACE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
