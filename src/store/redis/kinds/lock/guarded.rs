//! Writes and scripts that run only while a lock is held. One script checks the lock, then writes.

use std::sync::LazyLock;

use leasehold_link::shown;
use redis::{Cmd, Value};

use super::super::Reply;
use crate::{
    domain::{self, Claim, Edit, Failure, Notice, Work, Write},
    store::redis::{
        RedisStore,
        ask::Request,
        keys, replies,
        scripts::{Script, millis, script},
    },
};

pub(super) static WRITE: LazyLock<Script> = script!("write");

/// The text that follows a script of the user. It checks the lock, then runs the script.
const EVAL: &str = include_str!("eval.lua");

/// Returns a script that checks the lock, then runs `text`. Errors have the line numbers of `text`,
/// because `text` begins in the first line.
fn eval(text: &str) -> Script {
    Script::new(format!("local function work(KEYS, ARGV) {text}\nend\n{EVAL}"))
}

/// Rejections that a server sends only for the first write of a script: the code, and the beginning
/// of the text. The code is not enough, because a user's script may itself return an error with
/// this code after a write.
const BEFORE_ALL: [(&str, &str); 6] = [
    ("MISCONF", "Errors writing to the AOF file"),
    ("MISCONF", "Redis is configured to save"),
    ("MISCONF", "Valkey is configured to save"),
    ("NOREPLICAS", "Not enough good replicas"),
    ("OOM", "command not allowed"),
    ("READONLY", "You can't write"),
];

/// Executes `work` if the hash of the lock has this field.
pub(in crate::store::redis::kinds) async fn by_field(
    store: &RedisStore,
    field: &str,
    claim: &Claim,
    work: &Work,
) -> Reply<Option<domain::Value>> {
    done(match work {
        Work::Writes(writes) => write(store, field, claim, writes).await?,
        Work::Script(script) => {
            let text = eval(&script.text);
            let keys = behind(claim, &script.keys);
            let mut request = Request::script(&text, &keys, field).about(claim.name());
            request.command.arg(&script.args[..]);
            store.send(&request).await?
        }
    })
}

/// Executes `writes`. The script publishes all notices before the first write, so that it ends
/// without a write if the ACL denies a notice. Clients receive a notice after the script has ended.
async fn write(store: &RedisStore, field: &str, claim: &Claim, writes: &[Write]) -> Reply<Value> {
    // On the exporting node of a migrating slot, a script cannot write a key again after it has
    // deleted this key. The script would end after some of its writes. To prevent this partial
    // write, the request also names a key that does not exist. The exporting node then rejects the
    // request before the script starts.
    let guard = store.topology.moves_slots() && comes_back(writes);
    let guard = guard.then(|| Write::delete(keys::queue(claim.name()) + ":none"));
    let announced = || writes.iter().filter(|write| write.notice.is_some());
    let notices: Vec<&Notice> = writes.iter().filter_map(|write| write.notice.as_ref()).collect();
    let edits = || writes.iter().chain(&guard);
    let keys = behind(claim, announced().chain(edits()).map(|write| &write.key));
    let mut request = Request::script(&WRITE, &keys, field).about(claim.name());
    for Notice { channel, message } in &notices {
        request.command.arg("NOTICE").arg(channel).arg(&message[..]);
    }
    edits().for_each(|write| tell(&mut request.command, &write.edit));
    let reply = store.send(&request).await;
    store.notify_again(claim.name(), &notices).await;
    reply
}

/// Returns the key of the lock, then `others`.
fn behind<'a>(claim: &'a Claim, others: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<&'a [u8]> {
    let lock = claim.name().as_str().as_bytes();
    [lock].into_iter().chain(others.into_iter().map(Vec::as_slice)).collect()
}

/// Returns whether one of `writes` deletes a key, and a later write writes this key again. The
/// removal of a field may delete a key, too.
fn comes_back(writes: &[Write]) -> bool {
    let is_gone = |write: &Write, before: &[Write]| {
        let deletes = |it: &&Write| matches!(it.edit, Edit::Delete | Edit::RemoveField(_));
        before.iter().filter(deletes).any(|it| it.key == write.key)
    };
    writes.iter().enumerate().any(|(at, write)| is_gone(write, &writes[..at]))
}

/// Adds `edit` in the form that `write.lua` reads.
fn tell(command: &mut Cmd, edit: &Edit) {
    match edit {
        Edit::Set(value) => command.arg("SET").arg(&value[..]).arg(""),
        Edit::SetField { field, value } => command.arg("HSET").arg(&field[..]).arg(&value[..]),
        Edit::SetAbsentField { field, value } => {
            command.arg("HSETNX").arg(&field[..]).arg(&value[..])
        }
        Edit::RemoveField(field) => command.arg("HDEL").arg(&field[..]).arg(""),
        Edit::Delete => command.arg("DEL").arg("").arg(""),
        Edit::Expire(after) => command.arg("PEXPIRE").arg(millis(*after)).arg(""),
    };
}

/// Reads the result. Returns `None` if the owner did not hold the lock.
fn done(reply: Value) -> Result<Option<domain::Value>, Failure> {
    let mut parts = match reply {
        Value::Int(0) => return Ok(None),
        Value::Array(parts) => parts.into_iter(),
        other => return Err(replies::unreadable(&other)),
    };
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Value::Int(1)), answer, None) => value(answer.unwrap_or(Value::Nil)).map(Some),
        (Some(Value::Int(2)), Some(words), Some(verb)) => {
            let refused = replies::refused_within(&replies::into_text(&words));
            Err(refused.naming(Some(&replies::into_text(&verb))))
        }
        (Some(Value::Int(3)), Some(words), _) => Err(half_done(&words)),
        (first, ..) => Err(replies::unreadable(&first.unwrap_or(Value::Nil))),
    }
}

/// Returns the failure of a script that ended with an error. The script may have written something
/// before the error, unless a server sends this error only for the first write.
fn half_done(words: &Value) -> Failure {
    let words = replies::into_text(words);
    let (code, rest) = replies::code_and_words(&words);
    match BEFORE_ALL.iter().any(|(known, begin)| *known == code && rest.starts_with(begin)) {
        true => replies::refused(code, rest),
        false => Failure::Failed(shown(&words)),
    }
}

/// Converts the result of a user's script. If the result contains an error, the script has failed.
fn value(value: Value) -> Result<domain::Value, Failure> {
    use domain::Value as Returned;
    Ok(match value {
        Value::Nil | Value::Boolean(false) => Returned::Nil,
        Value::Int(number) => Returned::Int(number),
        Value::Boolean(true) => Returned::Int(1),
        Value::BulkString(bytes) => Returned::Bytes(bytes),
        Value::VerbatimString { text, .. } => Returned::Bytes(text.into_bytes()),
        Value::Double(number) => Returned::Bytes(number.to_string().into_bytes()),
        Value::SimpleString(text) => Returned::Status(text),
        Value::Okay => Returned::Status("OK".to_owned()),
        Value::Array(parts) | Value::Set(parts) => list(parts)?,
        Value::Map(pairs) => list(pairs.into_iter().flat_map(|(name, part)| [name, part]))?,
        Value::ServerError(error) => {
            let words = format!("{} {}", error.code(), error.details().unwrap_or_default());
            return Err(half_done(&Value::SimpleString(words)));
        }
        other => return Err(replies::unreadable(&other)),
    })
}

fn list(parts: impl IntoIterator<Item = Value>) -> Result<domain::Value, Failure> {
    parts.into_iter().map(value).collect::<Result<_, _>>().map(domain::Value::List)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_twin::Twin;
    use redis::parse_redis_value;

    use super::*;
    use crate::domain::{Object, Owner};

    fn read(reply: &str) -> Result<Option<domain::Value>, Failure> {
        done(parse_redis_value(reply.as_bytes()).unwrap())
    }

    #[test]
    fn reply_of_a_guarded_script_is_converted_to_resp2_types() {
        use domain::Value::{Bytes, Int, List, Nil, Status};
        let returned = |reply: &str| read(&format!("*2\r\n:1\r\n{reply}")).unwrap().unwrap();
        assert_eq!(read("*1\r\n:1\r\n").unwrap(), Some(Nil));
        for (reply, value) in [
            ("_\r\n", Nil),
            ("$-1\r\n", Nil),
            ("#f\r\n", Nil),
            ("#t\r\n", Int(1)),
            (":-7\r\n", Int(-7)),
            ("$2\r\n\0\n\r\n", Bytes(vec![0, 10])),
            ("+OK\r\n", Status("OK".into())),
            ("+QUEUED\r\n", Status("QUEUED".into())),
            (",1.5\r\n", Bytes(b"1.5".to_vec())),
            ("=5\r\ntxt:x\r\n", Bytes(b"x".to_vec())),
            ("*2\r\n:1\r\n*1\r\n_\r\n", List(vec![Int(1), List(vec![Nil])])),
            ("~1\r\n:1\r\n", List(vec![Int(1)])),
            ("%1\r\n+a\r\n:1\r\n", List(vec![Status("a".into()), Int(1)])),
        ] {
            assert_eq!(returned(reply), value, "{reply:?}");
        }
    }

    #[test]
    fn only_a_zero_reply_means_that_the_lock_is_not_held() {
        assert_eq!(read(":0\r\n").unwrap(), None);
        for odd in [":1\r\n", "_\r\n", "*0\r\n", "*1\r\n:0\r\n", "*1\r\n_\r\n", "$1\r\n0\r\n"] {
            let failure = read(odd).unwrap_err();
            assert!(matches!(failure, Failure::Unreadable(_)), "{odd:?}: {failure:?}");
            assert!(failure.may_have_happened(), "{odd:?}");
        }
        assert_eq!(read("*2\r\n:1\r\n:0\r\n").unwrap(), Some(domain::Value::Int(0)));
    }

    #[test]
    fn rejection_shows_whether_a_write_may_have_happened() {
        let failure = |kind, words: &str| read(&format!("*3\r\n:{kind}\r\n+{words}\r\n+HSET\r\n"));
        for (kind, words, nothing_happened) in [
            (2, "NOPERM you may not", true),
            (2, "OOM command not allowed", true),
            (3, "OOM command not allowed", true),
            (3, "READONLY You can't write", true),
            (3, "@user_script: 1: -OOM command not allowed", true),
            (3, "NOPERM you may not", false),
            (3, "user_script:1: there is no ROOM, OOM", false),
            (3, "NOREPLICAS Not enough good replicas to write.", true),
            (3, "MISCONF Errors writing to the AOF file: No space left on device", true),
            (3, "OOM no seats left", false),
            (3, "READONLY mode of the shop", false),
            (3, "MISCONF", false),
            (3, "", false),
        ] {
            let failure = failure(kind, words).unwrap_err();
            let refused = matches!(failure, Failure::Refused { .. });
            assert_eq!(refused, nothing_happened, "{kind} {words}: {failure:?}");
            assert!(refused || matches!(failure, Failure::Failed(_)), "{failure:?}");
        }
        let Failure::Refused { code, command, .. } = failure(2, "NOPERM no").unwrap_err() else {
            panic!()
        };
        assert_eq!((&*code, command.as_deref()), ("NOPERM", Some("HSET")));
        let old = failure(2, "@user_script: 9: -OOM command not allowed").unwrap_err();
        assert!(matches!(old, Failure::Refused { code, .. } if code == "OOM"));
        let inside = read("*2\r\n:1\r\n*2\r\n:7\r\n-MINE no\r\n").unwrap_err();
        assert_eq!(inside.to_string(), "failed in part: MINE no");
    }

    #[tokio::test(start_paused = true)]
    async fn guarded_script_runs_only_for_the_holder_of_the_lock() {
        let twin = Twin::new(7);
        let store = RedisStore::simulated(&twin, "one");
        let claim = |owner: &str| {
            let owner = Owner::new(owner).unwrap();
            Claim::plain(Object::lock("door"), owner, Duration::from_secs(30))
        };
        let (held, other) = (claim("one:1"), claim("one:2"));
        let count = domain::Script::new("return redis.call('INCR', KEYS[1])").key("count");
        let count = Work::Script(count);
        assert_eq!(store.guarded(&held, &count).await.unwrap(), None);
        store.acquire(&held, None).await.unwrap();
        assert_eq!(store.guarded(&other, &count).await.unwrap(), None);
        for times in 1..=2 {
            let counted = store.guarded(&held, &count).await.unwrap();
            assert_eq!(counted, Some(domain::Value::Int(times)));
        }
    }
}
