//! The rate limiter, with Redisson's settings, counter and window of acquisitions. The module also
//! has the throttle, which exists only in Leasehold.

use std::{sync::LazyLock, time::Duration};

use redis::Value;
use tokio::time::Instant;

use super::Reply;
use crate::{
    domain::{Failure, LogThrottle, Name, Owner, Pace, Rate, RatePermits},
    store::{
        RECEIPT_KEPT_FOR,
        redis::{
            RedisStore,
            ask::{NOTHING, Request},
            keys, replies,
            scripts::{Script, Scripts, millis, script},
        },
    },
};

static ACQUIRE: LazyLock<Script> = script!("prelude", "acquire");
static AVAILABLE: LazyLock<Script> = script!("prelude", "available");
static RELEASE: LazyLock<Script> = script!("prelude", "release");
static SET: LazyLock<Script> = script!("../receipt", "prelude", "set");
static THROTTLE: LazyLock<Script> = script!("throttle");

/// Each new connection loads these scripts.
pub(super) const SCRIPTS: Scripts = &[&ACQUIRE, &AVAILABLE, &RELEASE, &SET, &THROTTLE];

/// The rate limiter called `name`, for the client called `client`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter<'a> {
    pub(crate) name: &'a Name,
    pub(crate) client: &'a str,
}

/// The reply to a request for permits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Decision {
    Granted,
    /// Enough permits are free after this time, if no other client acquires any.
    Wait(Duration),
    /// No client has set a rate.
    Unset,
    /// The request is for more permits than this rate has.
    Above(u64),
}

/// A change of the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the rate, unless a rate is set.
    SetIfAbsent(Rate),
    /// Sets the rate, and begins a new window.
    Set(Rate),
    /// Changes the rate, if a rate is set. The window stays.
    Update(Rate),
    Delete,
}

/// Returns the member of the window for this number of permits. Redisson makes this member in Lua
/// by `struct.pack('Bc0I', 16, id, n)`.
fn member(it: &RatePermits, permits: u32) -> Vec<u8> {
    [&[16], &it.id.as_bytes()[..], &permits.to_le_bytes()].concat()
}

impl Limiter<'_> {
    /// Returns the two keys of the counter, then the two keys of the permits. The first key of each
    /// pair is for all clients together, and the second key is for this client.
    fn keys(&self) -> [String; 4] {
        let key = |what| keys::suffixed(self.name, what);
        let own = |what| format!("{}:{}", key(what), self.client);
        [key("value"), own("value"), key("permits"), own("permits")]
    }

    /// Acquires these permits, if they are free. After a grant, a repeated request with the same
    /// permits changes nothing.
    pub(crate) async fn acquire(&self, store: &RedisStore, it: &RatePermits) -> Reply<Decision> {
        let [value, own_value, permits, own_permits] = self.keys();
        let others = [&*value, &*own_value, &*permits, &*own_permits];
        let arguments = (it.count(), member(it, it.count()));
        let request = Request::of(self.name, &ACQUIRE, &others, arguments);
        store.ask(request.read(|reply| decision(self.name, reply))).await
    }

    /// Returns how many permits are free, or `None` if no client has set a rate.
    pub(crate) async fn available(&self, store: &RedisStore) -> Reply<Option<u64>> {
        let [value, own_value, permits, own_permits] = self.keys();
        let others = [&*value, &*own_value, &*permits, &*own_permits];
        let request = Request::of(self.name, &AVAILABLE, &others, NOTHING);
        store.ask(request.read(|reply| Ok(u64::try_from(replies::number(reply)?).ok()))).await
    }

    /// Releases the unused permits. If they have left the window, does nothing.
    pub(crate) async fn release(
        &self,
        store: &RedisStore,
        it: &RatePermits,
        unused: u32,
    ) -> Reply<()> {
        let [value, own_value, permits, own_permits] = self.keys();
        let others = [&*value, &*own_value, &*permits, &*own_permits];
        let used = it.count().saturating_sub(unused);
        let rest = if used > 0 { member(it, used) } else { vec![] };
        let arguments = (member(it, it.count()), rest, unused);
        let request = Request::of(self.name, &RELEASE, &others, arguments);
        store.ask(request.read(|reply| replies::number(reply).map(drop))).await
    }

    /// Changes the settings, and returns whether something changed. A repeated request with the
    /// same `receipt` changes nothing, and returns the same reply.
    pub(crate) async fn change(
        &self,
        store: &RedisStore,
        change: Change,
        receipt: &Owner,
    ) -> Reply<bool> {
        let (how, rate) = match change {
            Change::SetIfAbsent(rate) => ("absent", Some(rate)),
            Change::Set(rate) => ("set", Some(rate)),
            Change::Update(rate) => ("update", Some(rate)),
            Change::Delete => ("delete", None),
        };
        let [value, own_value, permits, own_permits] = self.keys();
        let receipt = keys::receipt("rate_limiter", self.name, receipt);
        let others = [&*value, &*own_value, &*permits, &*own_permits, &*receipt];
        let fields = rate.map_or([0; 4], |it| {
            let idle = it.idle_ttl.unwrap_or_default();
            [it.permits, millis(it.interval), u64::from(it.per_client), millis(idle)]
        });
        let arguments = (millis(RECEIPT_KEPT_FOR), how, &fields);
        let request = Request::of(self.name, &SET, &others, arguments);
        store.ask(request.read(|reply| Ok(replies::number(reply)? == 1))).await
    }

    /// Returns the settings, or `None` if no client has set a rate.
    pub(crate) async fn rate(&self, store: &RedisStore) -> Reply<Option<Rate>> {
        let fields = ["rate", "interval", "type", "keepAliveTime"];
        let request = Request::command("HMGET", self.name.as_str(), &fields).about(self.name);
        store.ask(request.read(|reply| read_rate(self.name, reply))).await
    }
}

fn read_rate(name: &Name, reply: &Value) -> Result<Option<Rate>, Failure> {
    let Value::Array(parts) = reply else { return Err(replies::unreadable(reply)) };
    let [rate, interval, kind, idle] = &parts[..] else { return Err(replies::unreadable(reply)) };
    if [rate, interval, kind].contains(&&Value::Nil) {
        return Ok(None);
    }
    let damaged = |_| {
        let words = format!("{name} cannot be read; set the rate again");
        Failure::refused("DAMAGED", words)
    };
    let number = |it| replies::number(it).map(i64::unsigned_abs).map_err(damaged);
    let time = |it| number(it).map(Duration::from_millis);
    Ok(Some(Rate {
        permits: number(rate)?,
        interval: time(interval)?,
        per_client: number(kind)? == 1,
        idle_ttl: Some(time(idle)?).filter(|idle| !idle.is_zero()),
    }))
}

fn decision(name: &Name, reply: &Value) -> Result<Decision, Failure> {
    static AHEAD: LogThrottle = LogThrottle::new();
    let Value::Array(parts) = reply else { return Err(replies::unreadable(reply)) };
    Ok(match parts[..] {
        [Value::Int(0)] => Decision::Granted,
        [Value::Int(-1), _] => Decision::Unset,
        [Value::Int(-2), Value::Int(rate)] => Decision::Above(rate.unsigned_abs()),
        [Value::Int(wait @ 1..), Value::Int(ahead)] => {
            if ahead > 0
                && let Some(times) = AHEAD.once_more(Instant::now())
            {
                tracing::warn!(target: "leasehold", limiter = %name, ahead_ms = ahead, times,
                    "permits with a future date found: clocks of clients and servers differ");
            }
            Decision::Wait(Duration::from_millis(wait.unsigned_abs()))
        }
        _ => return Err(replies::unreadable(reply)),
    })
}

/// Requests these permits of the throttle called `name`. Returns two times: until the permits can
/// be granted (zero if they are granted), and until the whole burst is free.
pub(crate) async fn throttle(
    store: &RedisStore,
    name: &Name,
    it: &RatePermits,
    pace: Pace,
) -> Reply<(Duration, Duration)> {
    let spacing = u64::try_from(pace.spacing.as_micros()).unwrap_or(u64::MAX);
    let arguments = (it.count(), pace.burst, spacing, it.id.simple().to_string());
    let request = Request::script(&THROTTLE, &[keys::throttle(name)], arguments);
    store.ask(request.read(paced)).await
}

fn paced(reply: &Value) -> Result<(Duration, Duration), Failure> {
    let micros = |number: i64| Duration::from_micros(number.max(0).unsigned_abs());
    match reply {
        Value::Array(parts) => match parts[..] {
            [Value::Int(wait), Value::Int(full_in)] => Ok((micros(wait), micros(full_in))),
            _ => Err(replies::unreadable(reply)),
        },
        _ => Err(replies::unreadable(reply)),
    }
}

#[cfg(test)]
mod tests;
