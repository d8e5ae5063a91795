//! Converts replies of a server to failures and texts, for any request.

use redis::{ServerError, Value};

use crate::{failure::Failure, shown::shown};

/// Codes that some servers show only in the text of a script error. The error itself has the code
/// `ERR`. Each pair is a hidden code, and a text that reveals it.
const HIDDEN: [(&str, &str); 9] = [
    ("MISCONF", "MISCONF"),
    ("NOPERM", "NOPERM"),
    ("NOPERM", "The user executing the script can't"),
    ("NOPERM", "ACL failure in script"),
    ("NOREPLICAS", "NOREPLICAS"),
    ("OOM", "OOM"),
    ("READONLY", "READONLY"),
    // A script deleted a key of a migrating slot, and cannot read that key again at this node.
    ("TRYAGAIN", "to access a non local key"),
    ("WRONGTYPE", "WRONGTYPE"),
];

/// Converts a rejection of the server to a failure.
pub fn refusal(error: &ServerError) -> Failure {
    refused(error.code(), error.details().unwrap_or_default())
}

/// Converts a rejection with this code and this text to a failure.
pub fn refused(code: &str, words: &str) -> Failure {
    // The ending " script: <hash>, on @user_script:8." does not help a caller.
    let words = match words.rsplit_once(" script: ") {
        Some((words, place)) if place.contains("@user_script:") => words,
        _ => words.trim(),
    };
    let text = format!("{code} {words}");
    let (code, words) = behind_its_place(&text).map_or((code, words), code_and_words);
    let hidden = || HIDDEN.into_iter().find(|(_, text)| words.contains(text));
    let code = match code {
        "ERR" => hidden().map_or("ERR", |(code, _)| code),
        code => code,
    };
    match code {
        "CROSSSLOT" => Failure::refused(code, format!("{}: {ONE_SLOT}", shown(words))),
        code => Failure::refused(shown(code), shown(words)),
    }
}

/// Converts the rejection of a command within a script to a failure. `text` is a code and a
/// message.
pub fn refused_within(text: &str) -> Failure {
    let (code, words) = code_and_words(text);
    refused(code, words)
}

/// Splits a rejection into its code and its message.
pub fn code_and_words(text: &str) -> (&str, &str) {
    let text = behind_its_place(text).unwrap_or(text);
    match text.split_once(' ') {
        Some((code, words)) if code.bytes().all(|byte| byte.is_ascii_uppercase()) => (code, words),
        _ => ("ERR", text),
    }
}

/// Returns the part of `text` after a script position. Returns `None` without a position. Redis 6
/// writes `@user_script: 8: -OOM there is no room`.
fn behind_its_place(text: &str) -> Option<&str> {
    let (_, place) = text.rsplit_once("@user_script:")?;
    let (line, words) = place.trim_start().split_once(": ")?;
    line.parse::<u32>().ok()?;
    Some(words.strip_prefix('-').unwrap_or(words))
}

/// The remedy for keys in different slots of a cluster.
const ONE_SLOT: &str = "in a cluster, all keys of a request must be in one slot; begin each key \
                        with the name of the lock in braces, such as `{orders:42}:total` for the \
                        lock `orders:42`";

/// Converts any reply to text, for a log or a search.
pub fn into_text(reply: &Value) -> String {
    match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        other => format!("{other:?}"),
    }
}

/// Returns the text of a reply, if the reply is a text.
#[inline]
#[must_use]
pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// Returns the value of the field `name` in a reply that is a map.
pub(crate) fn field<'a>(fields: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(key, _)| text(key) == Some(name)).map(|(_, value)| value)
}

/// Returns the failure for a reply that has an unexpected form.
#[must_use]
pub fn unreadable(reply: &Value) -> Failure {
    Failure::Unreadable(shown(&format!("{reply:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Former bug: a missing permission was not recognized in the words of some servers.
    #[test]
    fn rejection_within_a_script_is_recognized_by_its_code() {
        let place = "Error running script (call to f_0a): @user_script:8: ";
        for (text, code, words) in [
            (
                "@user_script: 8: The user executing the script can't write",
                "NOPERM",
                "The user executing the script can't write",
            ),
            ("@user_script: 1: -OOM no room", "OOM", "no room"),
            (&format!("ERR {place}@user_script: 8: -READONLY no\r\n"), "READONLY", "no"),
            (&format!("ERR {place}WRONGTYPE no"), "WRONGTYPE", "no"),
            (&format!("ERR {place}ERR syntax error"), "ERR", "syntax error"),
            (
                "ERR ACL failure in script: no script: 0a, on @user_script:1.",
                "NOPERM",
                "ACL failure in script: no",
            ),
            (
                "ERR ACL failure in script: no script: on @user_script:1.",
                "NOPERM",
                "ACL failure in script: no",
            ),
            ("OOM no room script: 0a, on @user_script:1.", "OOM", "no room"),
            (
                "ERR Script attempted to access a non local key",
                "TRYAGAIN",
                "Script attempted to access a non local key",
            ),
            (
                "ERR Attempted to access a non local key",
                "TRYAGAIN",
                "Attempted to access a non local key",
            ),
        ] {
            let (first, rest) = text.split_once(' ').unwrap();
            match refused(first, rest) {
                Failure::Refused { code: actual, message, .. } => {
                    assert_eq!((&*actual, &*message), (code, words), "{text}");
                }
                other => panic!("{other}"),
            }
        }
    }
}
