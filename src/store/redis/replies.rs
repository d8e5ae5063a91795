//! What Redis answers, in our words.

use std::time::Duration;

use redis::{ServerError, Value};

use super::connection::shown;
use crate::{
    domain::{Failure, GivenBack, Holder, Name, Offer, Others, Outcome, Owner, Verdict},
    store::Wake,
};

/// Codes that some servers hide in the text of a script's error, and the text
/// that shows them.
const HIDDEN: [(&str, &str); 7] = [
    ("MISCONF", "MISCONF"),
    ("NOPERM", "NOPERM"),
    ("NOPERM", "The user executing the script can't"),
    ("NOREPLICAS", "NOREPLICAS"),
    ("OOM", "OOM"),
    ("READONLY", "READONLY"),
    ("WRONGTYPE", "WRONGTYPE"),
];

/// What a refusal of the server means.
pub(super) fn refusal(error: &ServerError) -> Failure {
    let words = error.details().unwrap_or_default();
    // " script: <hash>, on @user_script:8." is of no use to a caller.
    let words = words.split(" script: ").next().unwrap_or(words).trim();
    let hidden = || HIDDEN.into_iter().find(|(_, text)| words.contains(text));
    let code = match error.code() {
        "ERR" => hidden().map_or("ERR", |(code, _)| code),
        code => code,
    };
    Failure::refused(shown(code), shown(words))
}

/// Whether the server does not know the script.
pub(super) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

pub(super) fn verdict(reply: &Value) -> Result<Verdict, Failure> {
    match reply {
        Value::Int(1) => Ok(Verdict::Granted),
        other => holder(other)?.map(Verdict::Busy).ok_or_else(|| unreadable(reply)),
    }
}

/// What `lua/lock/hand_over.lua` says.
pub(super) fn given_back(reply: &Value) -> Result<GivenBack, Failure> {
    match reply {
        Value::Int(1) => Ok(GivenBack::Freed(Others::Nobody)),
        Value::Int(2) => {
            warn_unannounced();
            Ok(GivenBack::Freed(Others::Nobody))
        }
        Value::Int(3) => Ok(GivenBack::Freed(Others::Outsiders)),
        other => Ok(GivenBack::NotHeld { holder: holder(other)? }),
    }
}

/// Whether a hold was there to be deleted.
pub(super) fn is_freed(reply: &Value) -> Result<bool, Failure> {
    match reply {
        Value::Int(deleted) => Ok(*deleted == 1),
        other => Err(unreadable(other)),
    }
}

/// How many clients a message went to.
pub(super) fn ears(reply: &Value) -> Result<i64, Failure> {
    match reply {
        Value::Int(ears) => Ok(*ears),
        Value::ServerError(_) => {
            warn_unannounced();
            Ok(0)
        }
        other => Err(unreadable(other)),
    }
}

pub(super) fn outcome(reply: &Value) -> Result<Outcome, Failure> {
    match reply {
        Value::Int(0) => Ok(Outcome::NotOurs),
        Value::Int(1) => Ok(Outcome::Renewed),
        other => Err(unreadable(other)),
    }
}

/// One outcome for each of `asked` renewals.
pub(super) fn outcomes(reply: &Value, asked: usize) -> Result<Vec<Outcome>, Failure> {
    match reply {
        Value::Array(replies) if replies.len() == asked => replies.iter().map(outcome).collect(),
        other => Err(unreadable(other)),
    }
}

/// Whether a forced release freed anything.
pub(super) fn forced(reply: &Value) -> Result<bool, Failure> {
    match reply {
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        Value::Int(2) => {
            warn_unannounced();
            Ok(true)
        }
        other => Err(unreadable(other)),
    }
}

fn warn_unannounced() {
    tracing::warn!(target: "leasehold",
        "the server refuses to announce a release: waiters notice when they ask again");
}

/// A hold count; none is 0.
pub(super) fn count(reply: &Value) -> Result<u32, Failure> {
    match reply {
        Value::Nil => Ok(0),
        other => text(other).and_then(|it| it.parse().ok()).ok_or_else(|| unreadable(other)),
    }
}

/// `{}` or `{pttl, {owner, count, …}}`.
pub(super) fn holder(reply: &Value) -> Result<Option<Holder>, Failure> {
    let Value::Array(parts) = reply else { return Err(unreadable(reply)) };
    let (pttl, fields) = match parts.as_slice() {
        [] => return Ok(None),
        [Value::Int(pttl), Value::Array(fields)] => (*pttl, fields),
        _ => return Err(unreadable(reply)),
    };
    // Redisson's read-write lock keeps its mode beside its owners.
    let owner = fields.chunks_exact(2).find(|pair| text(&pair[0]) != Some("mode"));
    let [owner, count] = owner.unwrap_or_default() else { return Err(unreadable(reply)) };
    let owner = text(owner).and_then(|it| Owner::new(it).ok()).ok_or_else(|| unreadable(reply))?;
    Ok(Some(Holder {
        owner,
        count: self::count(count)?,
        remaining: u64::try_from(pttl).ok().map(Duration::from_millis),
    }))
}

/// What a message to this client says: see `lua/lock/hand_over.lua`.
pub(super) fn news(message: &Value) -> Option<Wake> {
    let news = text(message).and_then(|words| first(words).or_else(|| granted(words)));
    if news.is_none() {
        let message = shown(&format!("{message:?}"));
        tracing::warn!(target: "leasehold", message, "a message to this client cannot be read");
    }
    news
}

fn first(words: &str) -> Option<Wake> {
    Some(Wake::Released(Name::new(words.strip_prefix("first ")?).ok()?))
}

fn granted(words: &str) -> Option<Wake> {
    let mut words = words.strip_prefix("granted ")?.splitn(4, ' ');
    let number = words.next()?.parse().ok()?;
    let passes = words.next()?.parse().ok()?;
    let owner = Owner::new(words.next()?).ok()?;
    let name = Name::new(words.next()?).ok()?;
    Some(Wake::Granted(Offer { name, owner, number, passes }))
}

/// A reply that is only shown or searched.
pub(super) fn into_text(reply: &Value) -> String {
    match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        other => format!("{other:?}"),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn unreadable(reply: &Value) -> Failure {
    Failure::Unreadable(shown(&format!("{reply:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn held(pttl: i64, fields: &[&str]) -> Value {
        let fields = fields.iter().map(|field| bulk(field)).collect();
        Value::Array(vec![Value::Int(pttl), Value::Array(fields)])
    }

    #[test]
    fn a_holder_is_read_whoever_it_is() {
        let read = |pttl, fields: &[&str]| holder(&held(pttl, fields)).unwrap().unwrap();
        let java = read(1_500, &["8c6d:42", "3"]);
        assert_eq!((java.owner.as_str(), java.count), ("8c6d:42", 3));
        assert_eq!(java.remaining, Some(Duration::from_millis(1_500)));

        assert_eq!(read(-1, &["x", "1"]).remaining, None);
        assert_eq!(
            read(5, &["mode", "write", "8c6d:42:write", "1"]).owner.as_str(),
            "8c6d:42:write"
        );
        assert_eq!(holder(&Value::Array(vec![])).unwrap(), None);
    }

    #[test]
    fn a_message_to_us_is_read_or_passed_over() {
        let offer = Offer {
            name: Name::new("a b\n").unwrap(),
            owner: Owner::new("8c6d:42").unwrap(),
            number: 3,
            passes: 64,
        };
        assert_eq!(news(&bulk("granted 3 64 8c6d:42 a b\n")), Some(Wake::Granted(offer)));
        let name = Name::new("a b").unwrap();
        assert_eq!(news(&bulk("first a b")), Some(Wake::Released(name)));
        for odd in ["", "0", "first ", "granted", "granted x 1 o n", "granted 1 1 o", "granted 1"] {
            assert_eq!(news(&bulk(odd)), None, "{odd}");
        }
        assert_eq!(news(&Value::Int(1)), None);
    }

    #[test]
    fn what_cannot_be_read_is_a_failure_and_not_a_panic() {
        let odd = [
            Value::Nil,
            Value::Int(7),
            Value::Array(vec![Value::Int(1)]),
            held(1, &[]),
            held(1, &["mode", "read"]),
            held(1, &["owner", "many"]),
            held(1, &["", "1"]),
        ];
        for reply in odd {
            let failure = verdict(&reply).unwrap_err();
            assert!(matches!(failure, Failure::Unreadable(_)), "{reply:?}");
        }
        assert!(outcomes(&Value::Array(vec![Value::Int(1)]), 2).is_err());
        assert!(outcome(&bulk("1")).is_err());
    }
}
