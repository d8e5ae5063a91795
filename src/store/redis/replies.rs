//! Parses the replies that several kinds of objects share. The code of a request parses all other
//! replies.

use std::{collections::BTreeSet, num::NonZero, time::Duration};

pub(super) use leasehold_link::replies::{
    code_and_words, into_text, refusal, refused, refused_within, text, unreadable,
};
use leasehold_link::shown;
use redis::Value;
use tokio::time::Instant;

use crate::domain::{
    Claim, Failure, Holder, LogThrottle, Name, Outcome, Owner, ReleaseReply, RemoteWaiters, Verdict,
};

/// Returns the reply, or a failure if the reply is a rejection.
pub(super) fn accepted(reply: Value) -> Result<Value, Failure> {
    match reply {
        Value::ServerError(error) => Err(refusal(&error)),
        reply => Ok(reply),
    }
}

/// Returns whether the server does not know the script.
pub(super) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// Returns whether the server denied permission.
pub(super) fn is_forbidden<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Refused { code, .. }) if code == "NOPERM")
}

/// Returns whether the keys of the request are on two nodes, because their slot is migrating.
pub(super) fn is_split<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Refused { code, .. }) if code == "TRYAGAIN")
}

/// Parses the reply to the acquisition of `claim`. A grant contains the owner, so no reply to
/// another request can be mistaken for this grant.
pub(super) fn verdict(reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    let is_own = |granted: &Value| text(granted) == Some(claim.owner.as_str());
    let fenced = claim.tokens() > 0;
    match reply {
        granted if is_own(granted) && !fenced => Ok(Verdict::GRANTED),
        Value::Array(parts) if parts.len() == 2 => match parts[..] {
            [ref granted, Value::Int(token @ 1..)] if is_own(granted) && fenced => {
                Ok(Verdict::Granted { token: NonZero::new(token.unsigned_abs()), element: None })
            }
            _ => Err(unreadable(reply)),
        },
        other => holder(other)?
            .map(|holder| Verdict::Busy(holder.into()))
            .ok_or_else(|| unreadable(reply)),
    }
}

/// Parses a number. A missing number is 0. A text that is not a number is a failure.
pub(super) fn number(reply: &Value) -> Result<i64, Failure> {
    match reply {
        Value::Nil => Ok(0),
        Value::Int(number) => Ok(*number),
        other => text(other).and_then(|it| it.parse().ok()).ok_or_else(|| unreadable(other)),
    }
}

/// Parses the value of a key as a number. If the value is not a number, the failure says so.
pub(super) fn number_there(reply: &Value) -> Result<i64, Failure> {
    match (number(reply), reply) {
        (Err(_), Value::BulkString(_)) => Err(no_number()),
        (number, _) => number,
    }
}

/// The code by which `kinds/number.lua` and `kinds/permits/prelude.lua` report a text that is not a
/// number.
pub(super) const NO_NUMBER: &str = "NONUMBER";

/// Returns the failure if a key has a text that is not a number. The failure does not show the
/// text, because it is data of another program.
pub(super) fn no_number() -> Failure {
    Failure::WrongType { found: "text, not a number".to_owned() }
}

/// Adds the `keys` of a request to its rejection, if the user lacks the permission for a key.
pub(super) fn naming_keys(refused: Failure, keys: &[impl AsRef<[u8]>]) -> Failure {
    match refused {
        Failure::Refused { code, message, command }
            if code == "NOPERM" && message.contains(" key") =>
        {
            let needs = format!("the request needs permissions for the keys {}", listed(keys));
            let message = format!("{message}; {needs}; see the ACL page of the guide");
            Failure::Refused { code, message, command }
        }
        other => other,
    }
}

/// Returns a text with the first keys, and with the number of the other keys.
fn listed(keys: &[impl AsRef<[u8]>]) -> String {
    const LISTED: usize = 5;
    let quoted = |key: &[u8]| format!("`{}`", shown(&String::from_utf8_lossy(key)));
    let mut seen = BTreeSet::new();
    let keys: Vec<_> = keys.iter().map(AsRef::as_ref).filter(|key| seen.insert(*key)).collect();
    let listed: Vec<_> = keys.iter().take(LISTED).map(|key| quoted(key)).collect();
    match keys.len().saturating_sub(LISTED) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Parses the reply to a release of a lock, in the form of `kinds/lock/hand_over.lua`.
pub(super) fn release_reply(reply: &Value, name: &Name) -> Result<ReleaseReply, Failure> {
    match reply {
        Value::Int(0) => Ok(ReleaseReply::Freed(RemoteWaiters::Nobody)),
        Value::Int(-1) => {
            warn_unannounced(name);
            Ok(ReleaseReply::Freed(RemoteWaiters::Nobody))
        }
        Value::Int(gap @ 2..=1_000) => {
            Ok(ReleaseReply::Freed(RemoteWaiters::Outsiders(lasting(*gap))))
        }
        Value::Array(parts) => match parts[..] {
            [Value::Int(gap @ 1..=1_000)] => {
                Ok(ReleaseReply::Freed(RemoteWaiters::Next(lasting(gap))))
            }
            _ => Ok(ReleaseReply::NotHeld { holder: holder(reply)? }),
        },
        other => Err(unreadable(other)),
    }
}

fn lasting(gap: i64) -> Duration {
    Duration::from_millis(gap.unsigned_abs())
}

pub(super) fn outcome(reply: &Value) -> Result<Outcome, Failure> {
    match reply {
        Value::Int(0) => Ok(Outcome::NotOwned),
        Value::Int(1) => Ok(Outcome::Renewed),
        Value::Int(millis @ 2..) => Ok(Outcome::Held(Duration::from_millis(millis.unsigned_abs()))),
        other => Err(unreadable(other)),
    }
}

/// Parses the reply to `asked` renewals. Returns one outcome for each renewal.
pub(super) fn outcomes(reply: &Value, asked: usize) -> Result<Vec<Outcome>, Failure> {
    match reply {
        Value::Array(replies) if replies.len() == asked => replies.iter().map(outcome).collect(),
        other => Err(unreadable(other)),
    }
}

/// Parses the reply to a release that notifies all waiters. Returns whether the release
/// ended a hold.
pub(super) fn freed(reply: &Value, name: &Name) -> Result<bool, Failure> {
    match reply {
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        Value::Int(2) => {
            warn_unannounced(name);
            Ok(true)
        }
        other => Err(unreadable(other)),
    }
}

/// Logs that the server denied a release message. A throttle limits these logs, because the server
/// may deny the message of each release.
pub(super) fn warn_unannounced(name: &Name) {
    static UNANNOUNCED: LogThrottle = LogThrottle::new();
    if let Some(releases) = UNANNOUNCED.once_more(Instant::now()) {
        tracing::warn!(target: "leasehold", lock = %name, releases,
            "release notification denied by the ACL: waiters notice the release at their next \
             request");
    }
}

/// Parses a hold count. A missing count is 0. A text that is not a number counts as 1.
pub(super) fn count(reply: &Value) -> Result<u32, Failure> {
    match reply {
        Value::Nil => Ok(0),
        Value::BulkString(_) => Ok(text(reply).and_then(|it| it.parse().ok()).unwrap_or(1)),
        other => Err(unreadable(other)),
    }
}

/// Parses the holder in a reply: `{}` for none, or `{pttl, owner, count}`.
pub(super) fn holder(reply: &Value) -> Result<Option<Holder>, Failure> {
    let Value::Array(parts) = reply else { return Err(unreadable(reply)) };
    let (pttl, owner, count) = match parts.as_slice() {
        [] => return Ok(None),
        [Value::Int(pttl), Value::BulkString(owner), count] => (*pttl, owner, count),
        [Value::Int(pttl), Value::BulkString(owner), count, Value::Int(1)] => (*pttl, owner, count),
        _ => return Err(unreadable(reply)),
    };
    // Another program may have written the owner in any form. Leasehold only logs and compares it.
    let owner = Owner::lossy(&String::from_utf8_lossy(owner));
    let remaining = u64::try_from(pttl).ok().map(Duration::from_millis);
    Ok(Some(Holder::new(owner, self::count(count)?, remaining)))
}

/// Returns how long to wait before the next request, from the milliseconds in a notification. For
/// an unknown message, returns zero.
pub(super) fn ask_after(message: &Value) -> Duration {
    const LONGEST: Duration = Duration::from_secs(1);
    let millis = text(message).filter(|text| text.len() <= 6).and_then(|text| text.parse().ok());
    millis.map_or(Duration::ZERO, |millis| Duration::from_millis(millis).min(LONGEST))
}

/// Returns whether a release message states that the head of the queue was notified.
pub(super) fn queue_was_notified(message: &Value) -> bool {
    text(message) == Some("00")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Object, Share};

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn held(pttl: i64, owner: &str, count: &str) -> Value {
        Value::Array(vec![Value::Int(pttl), bulk(owner), bulk(count)])
    }

    #[test]
    fn denied_keys_are_named_up_to_a_limit() {
        let named = |words: &str, keys: &[&str]| match naming_keys(refused("NOPERM", words), keys) {
            Failure::Refused { message, .. } => message,
            other => panic!("{other}"),
        };
        let words = "No permissions to access a key";
        let guide = "; see the ACL page of the guide";
        let needs = |keys: &str| {
            format!("{words}; the request needs permissions for the keys {keys}{guide}")
        };
        assert_eq!(named(words, &["a", "b:{a}"]), needs("`a`, `b:{a}`"));
        assert_eq!(named(words, &["a"; 9]), needs("`a`"));
        let eight = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(named(words, &eight), needs("`a`, `b`, `c`, `d`, `e` and 3 more"));
        let cut = format!("`{}…`", "k".repeat(200));
        assert_eq!(named(words, &[&"k".repeat(512)]), needs(&cut));
        let command = "this user has no permissions to run the 'get' command";
        assert_eq!(named(command, &["a"]), command);
    }

    #[test]
    fn holder_reply_is_parsed_into_owner_hold_count_and_lease() {
        let read = |pttl, owner, count| holder(&held(pttl, owner, count)).unwrap().unwrap();
        let java = read(1_500, "8c6d:42", "3");
        assert_eq!((java.owner.as_str(), java.count), ("8c6d:42", 3));
        assert_eq!(java.remaining, Some(Duration::from_millis(1_500)));

        assert_eq!(read(-1, "x", "1").remaining, None);
        assert_eq!(holder(&Value::Array(vec![])).unwrap(), None);
    }

    #[test]
    fn holder_with_an_invalid_owner_text_counts_as_holder() {
        let read = |owner: &[u8], count| {
            let owner = Value::BulkString(owner.to_vec());
            let odd = Value::Array(vec![Value::Int(1), owner, bulk(count)]);
            holder(&odd).unwrap().unwrap()
        };
        assert_eq!(read(b"x\xff", "1").owner.as_str(), "x\u{fffd}");
        assert_eq!(read(b"", "1").owner.as_str(), "?");
        assert_eq!(read(&[0xff; 300], "1").owner.as_str(), "\u{fffd}".repeat(170));
        assert_eq!(read("€".repeat(200).as_bytes(), "1").owner.as_str(), "€".repeat(170));
        for count in ["-1", "many", "", "99999999999"] {
            assert_eq!(read(b"x", count).count, 1, "{count}");
        }
    }

    fn claim(owner: &str, tokens: u32) -> Claim {
        let (object, owner) = (Object::lock("door"), Owner::new(owner).unwrap());
        let share = Share::Whole { tokens };
        Claim { object, owner, ttl: Duration::from_secs(30), share }
    }

    #[test]
    fn grant_reply_is_valid_only_for_its_owner() {
        let (mine, yours) = (claim("8c6d:42", 0), claim("8c6d:43", 0));
        let grant = bulk("8c6d:42");
        assert_eq!(verdict(&grant, &mine).unwrap(), Verdict::GRANTED);
        assert!(verdict(&grant, &yours).is_err());
        assert!(verdict(&Value::Int(1), &mine).is_err());
        assert!(verdict(&Value::Array(vec![grant]), &mine).is_err());
    }

    #[test]
    fn grant_has_a_token_only_if_requested() {
        let (plain, fenced, other) = (claim("8c6d:42", 0), claim("8c6d:42", 2), claim("x:1", 2));
        let granted = |token| Value::Array(vec![bulk("8c6d:42"), token]);
        let token = NonZero::new(7);
        assert_eq!(
            verdict(&granted(Value::Int(7)), &fenced).unwrap(),
            Verdict::Granted { token, element: None }
        );
        for (reply, claim) in [
            (bulk("8c6d:42"), &fenced),
            (granted(Value::Int(0)), &fenced),
            (granted(Value::Int(-7)), &fenced),
            (granted(bulk("7")), &fenced),
            (granted(Value::Int(7)), &plain),
            (granted(Value::Int(7)), &other),
        ] {
            let failure = verdict(&reply, claim).unwrap_err();
            assert!(matches!(failure, Failure::Unreadable(_)), "{reply:?}");
        }
    }

    #[test]
    fn notification_sets_only_the_time_of_the_next_request() {
        let after = |words: &str| ask_after(&bulk(words));
        assert_eq!(after("0"), Duration::ZERO);
        assert_eq!(after("16"), Duration::from_millis(16));
        assert_eq!(after("999999"), Duration::from_secs(1));
        for odd in ["", "-1", "granted 1 1 8c6d:1 door", "18446744073709551616", "1e9"] {
            assert_eq!(after(odd), Duration::ZERO, "{odd}");
        }
        assert_eq!(ask_after(&Value::Int(1)), Duration::ZERO);
        assert!(queue_was_notified(&bulk("00")) && !queue_was_notified(&bulk("0")));
    }

    #[test]
    fn release_reply_is_parsed() {
        let freed = |others| ReleaseReply::Freed(others);
        let release_reply = |reply: &Value| release_reply(reply, &Object::lock("door").name);
        assert_eq!(release_reply(&Value::Int(0)).unwrap(), freed(RemoteWaiters::Nobody));
        let (gap, array) = (Duration::from_millis(4), |gap| Value::Array(vec![Value::Int(gap)]));
        assert_eq!(release_reply(&Value::Int(4)).unwrap(), freed(RemoteWaiters::Outsiders(gap)));
        assert_eq!(release_reply(&array(4)).unwrap(), freed(RemoteWaiters::Next(gap)));
        for odd in [Value::Int(1_001), array(1_001), array(0), Value::Nil] {
            assert!(release_reply(&odd).is_err(), "{odd:?}");
        }
        let gone = release_reply(&Value::Array(vec![])).unwrap();
        assert_eq!(gone, ReleaseReply::NotHeld { holder: None });
    }

    #[test]
    fn unreadable_reply_is_a_failure() {
        let odd = [
            Value::Nil,
            Value::Int(7),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![bulk("x"), bulk("1")]),
            Value::Array(vec![Value::Int(1), Value::Int(2), bulk("1")]),
            Value::Array(vec![Value::Int(1), bulk("x"), Value::Int(1)]),
        ];
        let claim = claim("8c6d:42", 0);
        for reply in odd {
            let failure = verdict(&reply, &claim).unwrap_err();
            assert!(matches!(failure, Failure::Unreadable(_)), "{reply:?}");
        }
        assert!(outcomes(&Value::Array(vec![Value::Int(1)]), 2).is_err());
        assert!(outcome(&bulk("1")).is_err());
    }
}
