//! The calls that share one batch of commands, which counts the replicas for all of them.
//!
//! Pure: the caller passes the time, and the replies of the server.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::{sync::oneshot, time::Instant};

use crate::{failure::Failure, millis::millis, replica_ack::Evidence, replies};

/// The shortest timeout of `WAIT`, unless the time of a caller ends earlier. This timeout is short
/// because calls that come during a `WAIT` have to wait for its end.
const SHORTEST: Duration = Duration::from_millis(200);

/// The longest timeout of `WAIT`.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// One waiting call.
#[derive(Debug)]
pub(super) struct Requester {
    /// The write of the caller.
    pub(super) evidence: Evidence,
    /// Whether this server is importing the slot. If so, each command follows an `ASKING`.
    pub(super) importing: bool,
    /// How many replicas the caller requires.
    pub(super) least: u32,
    pub(super) come_at: Instant,
    /// The end of the caller's time.
    pub(super) until: Instant,
    pub(super) reply: oneshot::Sender<Result<u32, Failure>>,
}

impl Requester {
    /// Returns the result to the caller, if the caller still waits.
    fn finish(self, answer: Result<u32, Failure>) {
        drop(self.reply.send(answer));
    }

    /// Returns `question`. If this server is importing the slot, `ASKING` comes first.
    fn asks<'a>(&self, question: &'a Cmd) -> impl Iterator<Item = Cmd> + use<'a> {
        self.importing.then(|| cmd("ASKING")).into_iter().chain([question.clone()])
    }

    /// Takes the reply to one command of this call from `replies`. Skips the reply to `ASKING`, if
    /// there is one.
    fn reply(&self, replies: &mut impl Iterator<Item = Value>) -> Value {
        let before = usize::from(self.importing);
        replies.nth(before).unwrap_or(Value::Nil)
    }
}

/// The calls that share batches on one connection.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Calls whose write was found, and that wait for replicas.
    waiting: Vec<Requester>,
    /// Calls since the last batch.
    new_calls: Vec<Requester>,
}

impl Round {
    pub(super) fn add(&mut self, new_calls: Vec<Requester>) {
        self.new_calls.extend(new_calls);
    }

    /// Returns whether no call waits.
    pub(super) fn is_over(&mut self) -> bool {
        self.waiting.retain(|requester| !requester.reply.is_closed());
        self.new_calls.retain(|requester| !requester.reply.is_closed());
        self.waiting.is_empty() && self.new_calls.is_empty()
    }

    /// Returns the batch to send at `now`. It has a touch of each new write, one `WAIT`, and a
    /// lookup of each write. The writes of earlier calls are not touched again, because a slow
    /// replica would have to execute even more writes.
    pub(super) fn question(&self, now: Instant) -> Vec<Cmd> {
        let touches =
            self.new_calls.iter().flat_map(|requester| requester.asks(&requester.evidence.touch));
        let all = self.waiting.iter().chain(&self.new_calls);
        let looks = all.flat_map(|requester| requester.asks(&requester.evidence.look));
        touches.chain([self.wait(now)]).chain(looks).collect()
    }

    /// Returns a `WAIT` for the highest number of replicas that a caller requires. This `WAIT` ends
    /// before the time of any caller is over. The timeout grows with the time that callers have
    /// waited, so that slow replicas can reply within one `WAIT`.
    fn wait(&self, now: Instant) -> Cmd {
        let all = || self.waiting.iter().chain(&self.new_calls);
        let most = all().map(|requester| requester.least).max().unwrap_or(1);
        let waited = all().map(|requester| now.saturating_duration_since(requester.come_at)).max();
        let left = all().map(|requester| requester.until.saturating_duration_since(now)).min();
        let time = waited.unwrap_or_default().clamp(SHORTEST, LONGEST);
        // A `WAIT` with a timeout of 0 would never end.
        let time = millis(time.min(left.unwrap_or_default())).max(1);
        cmd("WAIT").arg(most).arg(time).clone()
    }

    /// Sends the result to each caller whose result is now certain. `replies` arrived at `now`.
    pub(super) fn answered(&mut self, replies: Vec<Value>, now: Instant) {
        let mut replies = replies.into_iter();
        let (waiting, new_calls) =
            (std::mem::take(&mut self.waiting), std::mem::take(&mut self.new_calls));
        let mut found = |requester: &Requester| is_there(&requester.reply(&mut replies));
        let touched: Vec<_> = new_calls.iter().map(&mut found).collect();
        let count = counted(&replies.next().unwrap_or(Value::Nil));
        let before = waiting.into_iter().map(|requester| (requester, Ok(true)));
        for (requester, touched) in before.chain(new_calls.into_iter().zip(touched)) {
            let found = is_there(&requester.reply(&mut replies));
            let is_there = touched.and_then(|was_there| Ok(was_there && found?));
            self.judge(requester, is_there, &count, now);
        }
    }

    /// Sends the result to one caller, if the result is certain. The result is 0 if the write is
    /// gone. Otherwise, the result is the number of replicas, as soon as there are enough replicas
    /// or the time is over.
    fn judge(
        &mut self,
        requester: Requester,
        is_there: Result<bool, Failure>,
        count: &Result<u32, Failure>,
        now: Instant,
    ) {
        match (is_there, count) {
            (Ok(false), _) => requester.finish(Ok(0)),
            (Ok(true), Ok(count)) if *count < requester.least && now < requester.until => {
                self.waiting.push(requester);
            }
            (Ok(true), count) => requester.finish(count.clone()),
            (Err(failure), _) => requester.finish(Err(failure)),
        }
    }
}

/// Reads from a reply whether the write exists.
fn is_there(reply: &Value) -> Result<bool, Failure> {
    match reply {
        Value::Int(0) | Value::Nil => Ok(false),
        Value::Int(_) | Value::Double(_) | Value::BulkString(_) => Ok(true),
        Value::ServerError(error) => Err(replies::refusal(error)),
        other => Err(replies::unreadable(other)),
    }
}

/// Reads the reply to `WAIT`.
fn counted(reply: &Value) -> Result<u32, Failure> {
    match reply {
        Value::Int(number) => Ok(u32::try_from(*number).unwrap_or(u32::MAX)),
        Value::ServerError(error) => Err(of_replica(replies::refusal(error).naming(Some("WAIT")))),
        other => Err(replies::unreadable(other)),
    }
}

/// Explains a rejected `WAIT`. The permission is missing, or the server has become a replica.
fn of_replica(failure: Failure) -> Failure {
    match failure {
        Failure::Refused { code, message, command }
            if matches!(code.as_str(), "ERR" | "UNBLOCKED") =>
        {
            Failure::Refused { code: "READONLY".into(), message, command }
        }
        Failure::Refused { code, message, command } if code == "NOPERM" => {
            let message = format!("{message}: {TO_WAIT}");
            Failure::Refused { code, message, command }
        }
        failure => failure,
    }
}

/// The remedy for a denied `WAIT`. Only `replicated` locks need this permission.
const TO_WAIT: &str = "`replicated` needs the permission `+wait`; see the ACL page of the guide";

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Answer = oneshot::Receiver<Result<u32, Failure>>;

    fn requester(least: u32, come_at: Instant) -> (Requester, Answer) {
        let (reply, answer) = oneshot::channel();
        let evidence = Evidence { touch: cmd("TOUCH"), look: cmd("LOOK") };
        let until = come_at + SECOND;
        (Requester { evidence, importing: false, least, come_at, until, reply }, answer)
    }

    /// Returns a round with these calls, after the replies to their first batch.
    fn asked(requesters: Vec<Requester>, replies: &[i64], now: Instant) -> Round {
        let mut round = Round::default();
        round.add(requesters);
        round.answered(numbers(replies), now);
        round
    }

    fn numbers(replies: &[i64]) -> Vec<Value> {
        replies.iter().copied().map(Value::Int).collect()
    }

    fn words(question: &[Cmd]) -> Vec<String> {
        let text = |command: &Cmd| {
            let words = command.args_iter().filter_map(|word| match word {
                redis::Arg::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                _ => None,
            });
            words.collect::<Vec<_>>().join(" ")
        };
        question.iter().map(text).collect()
    }

    #[test]
    fn calls_share_one_wait_command_and_get_separate_counts() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (one, mut ones) = requester(1, now);
        let (two, mut twos) = requester(2, now);
        round.add(vec![one, two]);
        let question = ["TOUCH", "TOUCH", "WAIT 2 200", "LOOK", "LOOK"];
        assert_eq!(words(&round.question(now)), question);

        // one replica is enough for the first call, and the second call keeps waiting
        round.answered(numbers(&[1, 1, 1, 1, 1]), now + SECOND / 5);
        assert_eq!(ones.try_recv().unwrap().unwrap(), 1);
        assert!(twos.try_recv().is_err() && !round.is_over());

        // the second batch writes nothing, and waits longer
        assert_eq!(words(&round.question(now + SECOND / 2)), ["WAIT 2 500", "LOOK"]);
        round.answered(numbers(&[1, 1]), now + SECOND);
        assert_eq!(twos.try_recv().unwrap().unwrap(), 1);
        assert!(round.is_over());
    }

    #[test]
    fn grant_that_the_server_lost_is_not_acknowledged() {
        for replies in [[0, 2, 1], [0, 2, 0], [1, 2, 0]] {
            let now = Instant::now();
            let (gone, mut answer) = requester(1, now);
            assert!(asked(vec![gone], &replies, now).is_over());
            assert_eq!(answer.try_recv().unwrap().unwrap(), 0, "{replies:?}");
        }
    }

    /// Former bug: the second batch counted replicas, but did not look up the grant.
    #[test]
    fn grant_lost_during_the_round_is_not_acknowledged() {
        let now = Instant::now();
        let (gone, mut answer) = requester(1, now);
        let mut round = asked(vec![gone], &[1, 0, 1], now);
        assert!(!round.is_over());
        round.answered(numbers(&[1, 0]), now);
        assert_eq!(answer.try_recv().unwrap().unwrap(), 0);
    }

    #[test]
    fn asking_command_precedes_each_request_for_a_migrating_slot() {
        let now = Instant::now();
        let (one, mut ones) = requester(1, now);
        let (other, mut others) = requester(1, now);
        let mut round = Round::default();
        round.add(vec![Requester { importing: true, ..one }, other]);
        let question = ["ASKING", "TOUCH", "TOUCH", "WAIT 1 200", "ASKING", "LOOK", "LOOK"];
        assert_eq!(words(&round.question(now)), question);
        let mut replies = numbers(&[0, 1, 1, 1, 0, 1]);
        replies.push(redis::parse_redis_value(b"-MOVED 7 10.0.0.1:7000\r\n").unwrap());
        round.answered(replies, now);
        assert_eq!(ones.try_recv().unwrap().unwrap(), 1);
        let moved = others.try_recv().unwrap().unwrap_err();
        assert!(moved.to_string().contains("MOVED 7 10.0.0.1:7000"), "{moved}");
    }

    #[test]
    fn later_call_is_not_acknowledged_by_the_current_round() {
        let now = Instant::now();
        let (first, mut firsts) = requester(2, now);
        let mut round = asked(vec![first], &[1, 1, 1], now);
        let (next, mut nexts) = requester(1, now);
        round.add(vec![next]);
        assert!(firsts.try_recv().is_err() && nexts.try_recv().is_err());
        assert_eq!(words(&round.question(now)), ["TOUCH", "WAIT 2 200", "LOOK", "LOOK"]);
    }

    /// A demoted primary unblocks `WAIT`, and the next primary may have the grant.
    #[test]
    fn demotion_during_a_round_is_a_temporary_failure() {
        for words in [&b"-UNBLOCKED force unblock\r\n"[..], b"-ERR WAIT cannot be used\r\n"] {
            let (now, mut round) = (Instant::now(), Round::default());
            let (one, mut answer) = requester(1, now);
            round.add(vec![one]);
            let refused = redis::parse_redis_value(words).unwrap();
            round.answered(vec![Value::Int(1), refused, Value::Int(1)], now);
            let failure = answer.try_recv().unwrap().unwrap_err();
            assert!(failure.is_temporary(), "{failure}");
        }
    }

    #[test]
    fn cancelled_call_is_not_sent() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (left, answer) = requester(1, now);
        round.add(vec![left]);
        drop(answer);
        assert!(round.is_over());
    }
}
