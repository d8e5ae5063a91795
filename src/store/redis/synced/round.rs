//! Those who ask together how many replicas have what they were granted.
//!
//! Pure: it is told the time, and what the server has answered.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    domain::Failure,
    store::redis::{millis, replies},
};

/// Where nobody listens: what is published there is told to replicas, and written nowhere.
const CHANNEL: &str = "leasehold_replication";

/// So long the server waits at least for replicas that do not answer, unless all who ask have
/// less time: who comes meanwhile cannot ask.
const SHORTEST: Duration = Duration::from_millis(200);

/// So long at most.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// One who asks.
#[derive(Debug)]
pub(super) struct Asker {
    /// Finds what was granted to it.
    pub(super) look: Cmd,
    /// So many replicas it wants.
    pub(super) least: u32,
    pub(super) come_at: Instant,
    /// Until then.
    pub(super) until: Instant,
    pub(super) reply: oneshot::Sender<Result<u32, Failure>>,
}

impl Asker {
    /// Tells it, if it still waits.
    fn tell(self, answer: Result<u32, Failure>) {
        drop(self.reply.send(answer));
    }
}

/// Those who ask together, on one connection.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Those whose grant was found, and who wait for replicas.
    waiting: Vec<Asker>,
    /// Those who have come since the last question.
    come: Vec<Asker>,
}

impl Round {
    pub(super) fn joined_by(&mut self, come: Vec<Asker>) {
        self.come.extend(come);
    }

    /// Whether nobody waits for an answer any more.
    pub(super) fn is_over(&mut self) -> bool {
        self.waiting.retain(|asker| !asker.reply.is_closed());
        self.come.retain(|asker| !asker.reply.is_closed());
        self.waiting.is_empty() && self.come.is_empty()
    }

    /// What to ask at `now`. Where nobody has come, replicas are told nothing new: a slow one
    /// need not catch up with more than it was to.
    pub(super) fn question(&self, now: Instant) -> Vec<Cmd> {
        let looks = self.come.iter().map(|asker| asker.look.clone());
        let told = (!self.come.is_empty()).then(|| cmd("PUBLISH").arg(CHANNEL).arg("").clone());
        looks.chain(told).chain([self.wait(now)]).collect()
    }

    /// Waits for as many replicas as anybody wants, until the first of them has no more time.
    /// A question that is asked again waits longer, so that slow replicas are met within one.
    fn wait(&self, now: Instant) -> Cmd {
        let all = || self.waiting.iter().chain(&self.come);
        let most = all().map(|asker| asker.least).max().unwrap_or(1);
        let waited = all().map(|asker| now.saturating_duration_since(asker.come_at)).max();
        let left = all().map(|asker| asker.until.saturating_duration_since(now)).min();
        let time = waited.unwrap_or_default().clamp(SHORTEST, LONGEST);
        // For 0 it would wait for ever.
        let time = millis(time.min(left.unwrap_or_default())).max(1);
        cmd("WAIT").arg(most).arg(time).clone()
    }

    /// Tells what is known by these replies to the question before, which came at `now`.
    pub(super) fn answered(&mut self, replies: Vec<Value>, now: Instant) {
        let mut replies = replies.into_iter();
        let mut reply = || replies.next().unwrap_or(Value::Nil);
        let come = std::mem::take(&mut self.come);
        let asked = !come.is_empty();
        let found: Vec<_> =
            come.into_iter().filter_map(|asker| is_found(asker, &reply())).collect();
        match if asked { answer(&reply(), "PUBLISH") } else { Ok(0) } {
            Ok(_) => self.waiting.extend(found),
            Err(failure) => tell_all(found, &Err(failure)),
        }
        self.counted(answer(&reply(), "WAIT").map_err(of_replica), now);
    }

    /// Nobody is asked for them.
    pub(super) fn refused(&mut self, failure: &Failure) {
        let all = std::mem::take(&mut self.come);
        tell_all(all, &Err(failure.clone()));
    }

    /// So many replicas have all of it at `now`.
    fn counted(&mut self, count: Result<u32, Failure>, now: Instant) {
        let known = |asker: &Asker| match count {
            Ok(count) => count >= asker.least || now >= asker.until,
            Err(_) => true,
        };
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (answered, waiting) = all.partition(known);
        self.waiting = waiting;
        tell_all(answered, &count);
    }
}

fn tell_all(askers: Vec<Asker>, answer: &Result<u32, Failure>) {
    askers.into_iter().for_each(|asker| asker.tell(answer.clone()));
}

/// Passes one whose grant is there, by this reply; others are told.
fn is_found(asker: Asker, reply: &Value) -> Option<Asker> {
    match reply {
        Value::Int(0) | Value::Nil => asker.tell(Ok(0)),
        Value::Int(_) | Value::Double(_) | Value::BulkString(_) => return Some(asker),
        Value::ServerError(error) => asker.tell(Err(replies::refusal(error))),
        other => asker.tell(Err(replies::unreadable(other))),
    }
    None
}

/// The number that this `command` was answered.
fn answer(reply: &Value, command: &'static str) -> Result<u32, Failure> {
    match reply {
        Value::Int(number) => Ok(u32::try_from(*number).unwrap_or(u32::MAX)),
        Value::ServerError(error) => Err(replies::refusal(error).naming(Some(command))),
        other => Err(replies::unreadable(other)),
    }
}

/// A server refuses a sound `WAIT` for want of a right, or since it has become a replica itself,
/// before we asked or meanwhile.
fn of_replica(failure: Failure) -> Failure {
    match failure {
        Failure::Refused { code, message, command }
            if matches!(code.as_str(), "ERR" | "UNBLOCKED") =>
        {
            Failure::Refused { code: "READONLY".into(), message, command }
        }
        failure => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    type Answer = oneshot::Receiver<Result<u32, Failure>>;

    fn asker(least: u32, come_at: Instant) -> (Asker, Answer) {
        let (reply, answer) = oneshot::channel();
        let look = cmd("HEXISTS").arg("door").arg("one:1").clone();
        (Asker { look, least, come_at, until: come_at + SECOND, reply }, answer)
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
    fn all_who_have_come_share_one_question_and_each_has_its_own_answer() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (one, mut ones) = asker(1, now);
        let (two, mut twos) = asker(2, now);
        round.joined_by(vec![one, two]);
        let look = "HEXISTS door one:1";
        let told = "PUBLISH leasehold_replication ";
        assert_eq!(words(&round.question(now)), [look, look, told, "WAIT 2 200"]);

        // when one replica has it, then who wants one knows, and who wants two waits on
        let found = || Value::Int(1);
        round.answered(vec![found(), found(), Value::Int(0), Value::Int(1)], now + SECOND / 5);
        assert_eq!(ones.try_recv().unwrap().unwrap(), 1);
        assert!(twos.try_recv().is_err() && !round.is_over());

        // without anything new for the replicas, and longer
        assert_eq!(words(&round.question(now + SECOND / 2)), ["WAIT 2 500"]);
        round.answered(vec![Value::Int(1)], now + SECOND);
        assert_eq!(twos.try_recv().unwrap().unwrap(), 1);
        assert!(round.is_over());
    }

    #[test]
    fn what_is_not_there_is_acknowledged_by_nobody() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (gone, mut answer) = asker(1, now);
        round.joined_by(vec![gone]);
        round.answered(vec![Value::Int(0), Value::Int(0), Value::Int(2)], now);
        assert_eq!(answer.try_recv().unwrap().unwrap(), 0);
        assert!(round.is_over());
    }

    #[test]
    fn who_has_come_since_is_not_answered_by_the_question_before() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (first, mut firsts) = asker(2, now);
        round.joined_by(vec![first]);
        round.answered(vec![Value::Int(1), Value::Int(0), Value::Int(1)], now);
        let (next, mut nexts) = asker(1, now);
        round.joined_by(vec![next]);
        assert!(firsts.try_recv().is_err() && nexts.try_recv().is_err());
        assert_eq!(round.question(now).len(), 3);
    }

    /// It sends those away who wait, and the next primary may have what they want.
    #[test]
    fn a_primary_that_is_demoted_meanwhile_is_asked_for_again() {
        for words in [&b"-UNBLOCKED force unblock\r\n"[..], b"-ERR WAIT cannot be used\r\n"] {
            let (now, mut round) = (Instant::now(), Round::default());
            let (one, mut answer) = asker(1, now);
            round.joined_by(vec![one]);
            let refused = redis::parse_redis_value(words).unwrap();
            round.answered(vec![Value::Int(1), Value::Int(0), refused], now);
            let failure = answer.try_recv().unwrap().unwrap_err();
            assert!(failure.may_pass(), "{failure}");
        }
    }

    #[test]
    fn who_has_left_is_not_asked_for() {
        let (now, mut round) = (Instant::now(), Round::default());
        let (left, answer) = asker(1, now);
        round.joined_by(vec![left]);
        drop(answer);
        assert!(round.is_over());
    }
}
