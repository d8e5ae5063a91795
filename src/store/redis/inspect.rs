//! Reads the objects in Redis, for operators. All commands are plain commands that change nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use leasehold_link::Channels;
use redis::{Cmd, Value, cmd};
use uuid::Uuid;

use super::{RedisStore, Reply, channel_of, client_info, keys, replies};
use crate::domain::{Holder, Inspection, Kind, Name, Object, ObjectKind, Owner, Waiter};

/// The largest number of holders, and of waiters, that are read. A hash with more fields does not
/// count as a lock.
const MOST: i64 = 1_000;

/// The largest number of holders whose client info is read.
const MOST_CLIENTS: usize = 10;

/// A hash of more bytes does not count as a lock, because a thousand holders need about half of
/// these bytes. A reply of 256 KiB would end the connection.
const LARGEST: i64 = 200 * 1024;

/// The reply to `PTTL` if the key does not exist.
const GONE: i64 = -2;

/// The end of the lease that Redisson writes for a permit that never expires.
const NEVER: f64 = 922_337_203_685_477.0;

/// One step of a search at one server.
#[derive(Debug)]
pub(crate) struct Found {
    /// The cursor of the next step. `None` after the last step.
    pub(crate) next: Option<u64>,
    pub(crate) names: Vec<Name>,
}

/// Searches for keys that match `pattern` at the server with this index. Returns `None` if there
/// are fewer servers.
pub(crate) async fn search(
    store: &RedisStore,
    server: usize,
    cursor: u64,
    pattern: &str,
) -> Reply<Option<Found>> {
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(250);
    let Some(reply) = store.topology.call_at(server, &command).await else { return Ok(None) };
    let reply = replies::accepted(reply?)?;
    let Value::Array(parts) = &reply else { return Err(replies::unreadable(&reply)) };
    let [next, Value::Array(keys)] = parts.as_slice() else {
        return Err(replies::unreadable(&reply));
    };
    let next: u64 = parsed(next).ok_or_else(|| replies::unreadable(&reply))?;
    let keys = keys.iter().filter_map(replies::text).filter_map(keys::shown_name);
    let names = keys.filter_map(|name| Name::new(name).ok()).collect();
    Ok(Some(Found { next: Some(next).filter(|next| *next != 0), names }))
}

/// Reads everything about `name`. Returns `None` if Redis has no object of this name.
pub(crate) async fn inspect(store: &RedisStore, name: &Name) -> Reply<Option<Inspection>> {
    let key = name.as_str();
    let first = [on("TYPE", key), on("PTTL", key), cmd("TIME")];
    let [kind, pttl, time] = &all(store, name, &first).await?[..] else { return Ok(None) };
    let now = clock(time).ok_or_else(|| replies::unreadable(time))?;
    let mut found = Inspection {
        name: name.clone(),
        kind: ObjectKind::Lock,
        holders: vec![],
        waiters: vec![],
        subscribers: 0,
        number: None,
        size: None,
        set_aside: 0,
        token: None,
        expires_in: millis(pttl),
        is_left_over: false,
        next_start_in: None,
    };
    let is_object = match replies::text(kind) {
        Some("hash") => {
            if !hash(store, &mut found).await? {
                sized(store, &mut found, ObjectKind::Map, "HLEN").await?;
            }
            true
        }
        Some("set") => {
            sized(store, &mut found, ObjectKind::Set, "SCARD").await?;
            true
        }
        Some("string") => number(store, &mut found, now).await?,
        Some("list") => {
            sized(store, &mut found, ObjectKind::Queue, "LLEN").await?;
            claims(store, &mut found, now).await?;
            true
        }
        Some("none") => {
            claims(store, &mut found, now).await?;
            if found.kind == ObjectKind::Lock {
                members(store, &mut found, now).await?;
            }
            true
        }
        _ => false,
    };
    if !is_object {
        return Ok(None);
    }
    if !matches!(found.kind, ObjectKind::Map | ObjectKind::Set) {
        waiters(store, &mut found, now).await?;
        clients(store, &mut found).await;
    }
    // If the key was deleted between the requests, `found` has none of these values.
    let is_there = !found.holders.is_empty()
        || !found.waiters.is_empty()
        || found.number.is_some()
        || found.size.is_some()
        || found.is_left_over
        || found.next_start_in.is_some()
        || found.kind == ObjectKind::RateLimiter;
    Ok(is_there.then_some(found))
}

/// Reads what the clients of the first holders publish.
async fn clients(store: &RedisStore, found: &mut Inspection) {
    let name = found.name.as_str();
    for holder in found.holders.iter_mut().take(MOST_CLIENTS) {
        // Another program may have written an owner without the id of a client.
        let Ok(client) = client_info::client_of(&holder.owner) else { continue };
        // This request fails if the ACL denies only this key, or if the server of the key is down.
        // The client info is then left out.
        let info = client_info::read(store, &client).await.ok().flatten();
        holder.client = info.map(|info| Arc::new(info.only_of(name, &holder.owner)));
    }
}

/// Reads how many entries or elements a map, a set or a queue has.
async fn sized(
    store: &RedisStore,
    found: &mut Inspection,
    kind: ObjectKind,
    verb: &str,
) -> Reply<()> {
    let name = found.name.clone();
    found.size = parsed(&one(store, &name, on(verb, name.as_str())).await?);
    found.kind = kind;
    found.holders.clear();
    Ok(())
}

/// Reads the claims of a queue, if there are any. An expired claim is included, because it keeps
/// its element until any client claims the next element.
async fn claims(store: &RedisStore, found: &mut Inspection, now: Duration) -> Reply<()> {
    let name = found.name.clone();
    let questions = [on("LLEN", &keys::aside(&name)), scores(&keys::claimants(&name))];
    let [aside, claims] = &all(store, &name, &questions).await?[..] else { return Ok(()) };
    let claims = scored(claims).into_iter().map(|(owner, ends)| {
        let left = seconds(ends / 1_000.0).saturating_sub(now);
        Holder::new(Owner::lossy(&String::from_utf8_lossy(&owner)), 1, Some(left))
    });
    found.holders.extend(claims);
    found.set_aside = parsed(aside).unwrap_or(0);
    if found.set_aside > 0 || !found.holders.is_empty() {
        found.kind = ObjectKind::Queue;
        found.size.get_or_insert(0);
    }
    Ok(())
}

/// Reads the members of a barrier, if there are any. A member whose time is over is left out,
/// because the next arrival removes it.
async fn members(store: &RedisStore, found: &mut Inspection, now: Duration) -> Reply<()> {
    let name = found.name.clone();
    let questions = [
        scores(&keys::members(&name)),
        scores(&keys::inside(&name)),
        start_of(&keys::generation(&name)),
    ];
    let [members, inside, generation] = &all(store, &name, &questions).await?[..] else {
        return Ok(());
    };
    let alive = |(owner, ends): (Vec<u8>, f64)| {
        let left = seconds(ends / 1_000.0).checked_sub(now).filter(|left| !left.is_zero())?;
        Some((Owner::lossy(&String::from_utf8_lossy(&owner)), left))
    };
    for (owner, left) in scored(inside).into_iter().filter_map(alive) {
        found.holders.push(Holder::new(owner, 1, Some(left)));
    }
    for (owner, _) in scored(members).into_iter().filter_map(alive) {
        found.waiters.push(Waiter { owner, waited: None, is_overdue: false });
    }
    if !found.waiters.is_empty() || !found.holders.is_empty() {
        found.kind = ObjectKind::Barrier;
        found.number = parsed(generation);
    }
    Ok(())
}

/// Reads the hash of a lock or a rate limiter. Returns `false` if the hash is neither.
async fn hash(store: &RedisStore, found: &mut Inspection) -> Reply<bool> {
    let (name, key) = (found.name.clone(), found.name.as_str());
    let count = one(store, &name, on("HLEN", key)).await?;
    if parsed::<i64>(&count).is_none_or(|count| count > MOST) {
        return Ok(false);
    }
    if is_too_large(store, &name, key).await? {
        return Ok(false);
    }
    let fields = one(store, &name, on("HGETALL", key)).await?;
    let mut fields: HashMap<_, _> = pairs(&fields).into_iter().collect();
    if ["rate", "interval", "type"].iter().all(|field| fields.contains_key(*field)) {
        found.kind = ObjectKind::RateLimiter;
        return Ok(true);
    }
    let mode = fields.remove("mode");
    found.kind = match mode.as_deref() {
        None => ObjectKind::Lock,
        Some("read") => ObjectKind::ReadLock,
        Some("write") => ObjectKind::WriteLock,
        Some(_) => return Ok(false),
    };
    let mut owners: Vec<_> = fields.into_iter().collect();
    if owners.is_empty() {
        // If the lock was released between the requests, the hash has no fields at all.
        found.is_left_over = mode.is_some();
        return Ok(true);
    }
    owners.sort();
    let readers: Vec<_> = owners.iter().map(|(owner, _)| lease_of(found, owner)).collect();
    let leases = all(store, &name, &readers).await?;
    for ((owner, count), lease) in owners.iter().zip(&leases) {
        let Ok(count) = count.parse() else { return Ok(false) };
        let Some(owner) = owner_of(owner) else { return Ok(false) };
        // The key of this lease has expired, so this owner holds nothing.
        if parsed(lease) == Some(GONE) {
            continue;
        }
        found.holders.push(Holder::new(owner, count, millis(lease)));
    }
    Ok(true)
}

/// Returns whether the reply to `HGETALL key` may be too long.
async fn is_too_large(store: &RedisStore, name: &Name, key: &str) -> Reply<bool> {
    let mut size = cmd("MEMORY");
    size.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
    let size = one(store, name, size).await?;
    Ok(parsed::<i64>(&size).is_some_and(|size| size > LARGEST))
}

/// Returns the command that reads the lease of a holder. The lease of a reader is the TTL of its
/// own key.
fn lease_of(found: &Inspection, owner: &str) -> Cmd {
    let reads = found.kind == ObjectKind::ReadLock
        || found.kind == ObjectKind::WriteLock && !owner.ends_with(":write");
    match reads {
        true => on("PTTL", &keys::reader(&found.name, &Owner::lossy(owner))),
        false => on("PTTL", found.name.as_str()),
    }
}

/// Reads an owner that Redisson or Leasehold wrote. Removes the suffix of a writer.
fn owner_of(field: &str) -> Option<Owner> {
    let owner = field.strip_suffix(":write").unwrap_or(field);
    let (client, _) = owner.split_once(':')?;
    Uuid::parse_str(client).ok()?;
    Owner::new(owner).ok()
}

/// Reads the number of a semaphore or a latch. Returns `false` if the string is not a number.
async fn number(store: &RedisStore, found: &mut Inspection, now: Duration) -> Reply<bool> {
    let name = found.name.clone();
    let holders = keys::holders(&name);
    if is_too_large(store, &name, &holders).await? {
        return Err(replies::refused(
            "ERR",
            &format!("the key {holders} is too large to be read at once"),
        ));
    }
    let questions =
        [start_of(name.as_str()), scores(&keys::leases(&name)), on("HGETALL", &holders)];
    let [text, permits, holders] = &all(store, &name, &questions).await?[..] else {
        return Ok(false);
    };
    found.number = parsed(text);
    found.kind = ObjectKind::Number;
    for (member, end) in scored(permits) {
        found.kind = ObjectKind::ExpirableSemaphore;
        let left = seconds(end / 1_000.0).saturating_sub(now);
        // An expired permit is left out, because the next acquisition removes it.
        if !left.is_zero() {
            let remaining = (end < NEVER).then_some(left);
            found.holders.push(Holder::new(permit(&member), 1, remaining));
        }
    }
    for (owner, count) in pairs(holders) {
        let (owner, count) = (Owner::lossy(&owner), count.parse().unwrap_or(1));
        found.holders.push(Holder::new(owner, count, None));
        found.kind = ObjectKind::Semaphore;
    }
    Ok(found.number.is_some())
}

/// Returns the id of a permit, as Redisson shows it.
fn permit(member: &[u8]) -> Owner {
    let id = Uuid::from_slice(member).map(|id| id.as_simple().to_string());
    Owner::lossy(&id.unwrap_or_else(|_| String::from_utf8_lossy(member).into_owned()))
}

/// Reads the queues, the token, the subscribers, and when `run --once-per` may start its command.
async fn waiters(store: &RedisStore, found: &mut Inspection, now: Duration) -> Reply<()> {
    let name = found.name.clone();
    let numsub = match store.topology.channels().await? {
        Channels::Plain => "NUMSUB",
        Channels::Sharded => "SHARDNUMSUB",
    };
    let mut subscribers = cmd("PUBSUB");
    subscribers.arg(numsub).arg(channel_of(&Object::new(channels(found.kind), name.clone())));
    let fair = on("LRANGE", &keys::fair_queue(&name)).arg(0).arg(MOST - 1).clone();
    let questions = [
        subscribers,
        start_of(&keys::tokens(&name)),
        fair,
        scores(&keys::fair_deadlines(&name)),
        scores(&keys::fair_alive(&name)),
        scores(&keys::queue(&name)),
        scores(&keys::writers(&name)),
        on("PTTL", &keys::started(&name)),
    ];
    let mut replies = store.topology.call_all(name.as_str().as_bytes(), &questions).await?;
    // If the user lacks the permission for the last key, the server rejects only the last command.
    // In this case, `next_start_in` stays unknown.
    found.next_start_in = replies.pop().as_ref().and_then(millis);
    let replies = replies.into_iter().map(replies::accepted).collect::<Reply<Vec<_>>>()?;
    let [subscribers, token, fair, deadlines, alive, queue, writers] = &replies[..] else {
        return Ok(());
    };
    found.subscribers = last_of(subscribers).unwrap_or(0);
    found.token = parsed(token);
    let deadlines: HashMap<_, _> = scored(deadlines).into_iter().collect();
    let alive: HashMap<_, _> = scored(alive).into_iter().collect();
    let is_past = |millis: &f64| seconds(millis / 1_000.0) <= now;
    let Value::Array(fair) = fair else { return Err(replies::unreadable(fair)) };
    if !fair.is_empty() {
        found.kind = ObjectKind::FairLock;
    }
    for member in fair {
        let Value::BulkString(member) = member else { return Err(replies::unreadable(member)) };
        // A waiter of Leasehold has an entry in both maps. A waiter of Redisson has only a
        // deadline.
        let is_overdue =
            deadlines.get(member).is_none_or(is_past) || alive.get(member).is_some_and(is_past);
        let owner = Owner::lossy(&String::from_utf8_lossy(member));
        found.waiters.push(Waiter { owner, waited: None, is_overdue });
    }
    let queue = scored(queue).into_iter().map(|(owner, at)| (owner, at / 1_000_000.0));
    let writers = scored(writers).into_iter().map(|(owner, at)| (owner, at / 1_000.0));
    for (member, came) in queue.chain(writers) {
        let waited = (came > 0.0).then(|| now.saturating_sub(seconds(came)));
        if let Some(owner) = owner_of(&String::from_utf8_lossy(&member)) {
            found.waiters.push(Waiter { owner, waited, is_overdue: false });
        }
    }
    Ok(())
}

/// Returns the kind whose channel announces the releases of an object.
fn channels(kind: ObjectKind) -> Kind {
    match kind {
        ObjectKind::ReadLock | ObjectKind::WriteLock => Kind::Read,
        ObjectKind::Semaphore | ObjectKind::ExpirableSemaphore | ObjectKind::Number => {
            Kind::Semaphore
        }
        ObjectKind::Queue => Kind::Queue,
        ObjectKind::Barrier => Kind::Barrier,
        ObjectKind::Lock
        | ObjectKind::FairLock
        | ObjectKind::RateLimiter
        | ObjectKind::Map
        | ObjectKind::Set => Kind::Lock,
    }
}

fn on(verb: &str, key: &str) -> Cmd {
    cmd(verb).arg(key).clone()
}

/// Returns the command that reads the first 21 bytes of a string, which are enough for a number.
/// Another program may have written a longer string.
fn start_of(key: &str) -> Cmd {
    on("GETRANGE", key).arg(0).arg(20).clone()
}

fn scores(key: &str) -> Cmd {
    on("ZRANGE", key).arg(0).arg(MOST - 1).arg("WITHSCORES").clone()
}

async fn one(store: &RedisStore, name: &Name, command: Cmd) -> Reply<Value> {
    store.call(name.as_str(), &command).await
}

/// Sends `commands` about `name`. If the server rejects one of them, returns only this failure.
async fn all(store: &RedisStore, name: &Name, commands: &[Cmd]) -> Reply<Vec<Value>> {
    let replies = store.topology.call_all(name.as_str().as_bytes(), commands).await?;
    replies.into_iter().map(replies::accepted).collect()
}

/// Reads the reply to `TIME`: the time since 1970.
fn clock(reply: &Value) -> Option<Duration> {
    let Value::Array(parts) = reply else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    Duration::from_secs(parsed(seconds)?).checked_add(Duration::from_micros(parsed(micros)?))
}

/// Converts a score to a time. The score may be infinite.
fn seconds(score: f64) -> Duration {
    Duration::try_from_secs_f64(score).unwrap_or(Duration::MAX)
}

fn millis(pttl: &Value) -> Option<Duration> {
    parsed(pttl).map(Duration::from_millis)
}

fn parsed<T: std::str::FromStr>(reply: &Value) -> Option<T> {
    match reply {
        Value::Int(number) => number.to_string().parse().ok(),
        reply => replies::text(reply)?.parse().ok(),
    }
}

/// Reads the fields of a hash and their values as texts.
fn pairs(reply: &Value) -> Vec<(String, String)> {
    let Value::Map(fields) = reply else { return vec![] };
    fields
        .iter()
        .map(|(field, value)| (replies::into_text(field), replies::into_text(value)))
        .collect()
}

/// Reads the members of a sorted set and their scores.
fn scored(reply: &Value) -> Vec<(Vec<u8>, f64)> {
    let Value::Array(members) = reply else { return vec![] };
    let member = |member: &Value| match member {
        Value::Array(pair) => match pair.as_slice() {
            [Value::BulkString(member), Value::Double(score)] => {
                Some((member.clone(), score.max(0.0)))
            }
            _ => None,
        },
        _ => None,
    };
    members.iter().filter_map(member).collect()
}

/// Reads the number in the reply to `PUBSUB NUMSUB channel`.
fn last_of(reply: &Value) -> Option<u64> {
    match reply {
        Value::Array(parts) => parsed(parts.last()?),
        Value::Map(parts) => parsed(&parts.last()?.1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_recognized_by_its_uuid() {
        let owner = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
        assert_eq!(owner_of(owner).unwrap().as_str(), owner);
        assert_eq!(owner_of(&format!("{owner}:write")).unwrap().as_str(), owner);
        for other in ["total", "until:8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42", "a:1"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
