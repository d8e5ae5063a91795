//! The reply of a process to one call.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// The result of one call: a value or an exception, and its times.
///
/// If the call threw an exception, the methods that read a value panic with this exception.
#[derive(Clone, Debug)]
pub struct Answer {
    outcome: Result<Value, Failure>,
    began_at: SystemTime,
    at: SystemTime,
}

/// An exception that a call threw.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The full name of the class of the exception.
    pub class: String,
    /// The message of the exception, or `null`.
    pub message: String,
}

impl Answer {
    pub(crate) fn read(line: &Value) -> Self {
        let outcome = if line["ok"] == true {
            Ok(line["value"].clone())
        } else {
            Err(Failure { class: text(&line["error"]), message: text(&line["message"]) })
        };
        Self { outcome, began_at: instant(&line["began_at"]), at: instant(&line["at"]) }
    }

    /// Whether `lock` or `tryLock` has acquired the lock.
    #[must_use]
    #[track_caller]
    pub fn acquired(&self) -> bool {
        flag(&self.value()["acquired"])
    }

    /// The duration of `lock` or `tryLock`, rounded down to a millisecond.
    #[must_use]
    #[track_caller]
    pub fn waited(&self) -> Duration {
        Duration::from_millis(whole(&self.value()["waited_ms"]).unsigned_abs())
    }

    /// When `lock` or `tryLock` had acquired the lock.
    #[must_use]
    #[track_caller]
    pub fn acquired_at(&self) -> SystemTime {
        instant(&self.value()["acquired_at"])
    }

    /// The boolean that a call returned.
    #[must_use]
    #[track_caller]
    pub fn is_true(&self) -> bool {
        flag(self.value())
    }

    /// The number that a call returned.
    #[must_use]
    #[track_caller]
    pub fn number(&self) -> i64 {
        whole(self.value())
    }

    /// The text that a call returned.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> &str {
        self.value().as_str().unwrap_or_else(|| panic!("not a text: {}", self.value()))
    }

    /// The exception, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.outcome.as_ref().err()
    }

    /// Whether the call threw an exception whose class has this simple name, such as
    /// `InterruptedException`.
    #[must_use]
    pub fn failed_with(&self, class: &str) -> bool {
        self.failure().is_some_and(|failure| failure.class.rsplit('.').next() == Some(class))
    }

    /// When the call began on its thread.
    #[must_use]
    pub fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// When the call ended.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// The value, as the process sent it.
    #[must_use]
    #[track_caller]
    pub fn value(&self) -> &Value {
        match &self.outcome {
            Ok(value) => value,
            Err(failure) => panic!("the call threw {}: {}", failure.class, failure.message),
        }
    }
}

#[track_caller]
fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| panic!("{value} is not true or false"))
}

#[track_caller]
pub(crate) fn whole(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}

/// Reads a time. Both processes send times as microseconds of the wall clock.
#[track_caller]
fn instant(value: &Value) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(whole(value).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn peer_reply_contains_the_time_and_the_waiting_time_of_a_grant() {
        let answer = Answer::read(&json!({
            "id": 1, "ok": true, "began_at": 1_000_000, "at": 1_031_007,
            "value": {"acquired": true, "waited_ms": 31, "acquired_at": 1_031_000},
        }));

        assert!(answer.acquired());
        assert_eq!(answer.waited(), Duration::from_millis(31));
        assert!(answer.began_at() < answer.acquired_at());
        assert!(answer.acquired_at() < answer.at());
    }

    #[test]
    fn java_exception_is_matched_by_its_simple_class_name() {
        let answer = thrown();

        assert!(answer.failed_with("IllegalMonitorStateException"));
        assert!(!answer.failed_with("MonitorStateException"));
    }

    #[test]
    #[should_panic(expected = "the call threw java.lang.IllegalMonitorStateException: not yours")]
    fn reading_a_java_exception_as_a_value_panics() {
        _ = thrown().is_true();
    }

    fn thrown() -> Answer {
        Answer::read(&json!({
            "id": 1, "ok": false, "began_at": 1, "at": 2,
            "error": "java.lang.IllegalMonitorStateException", "message": "not yours",
        }))
    }
}
