//! The shortest possible times on this machine, for comparison.

use super::Bench;
use crate::{
    driver::{
        contender::RAW,
        worker::{Answer, Worker},
    },
    job::{Delays, Job},
    report::board::{Case, LIMIT},
};

const GROUP: &str = "The machine: one message, one round trip";

const COUNT: usize = 400;

pub(super) fn run(bench: &mut Bench) {
    match Pair::start(bench) {
        Ok(mut pair) => {
            for _ in 0..bench.settings.rounds {
                let measured = pair.measure();
                note(bench, measured);
            }
        }
        Err(why) => bench.board.failed(message(), LIMIT, &why),
    }
}

fn note(bench: &mut Bench, measured: Answer<Found>) {
    match measured {
        Ok(found) => {
            bench.board.note(message(), LIMIT, found.message_us);
            bench.board.note(round_trip(), LIMIT, found.round_trip_us);
        }
        Err(why) => bench.board.failed(message(), LIMIT, &why),
    }
}

fn message() -> Case {
    Case::less(GROUP, "PUBLISH to the subscriber in another process, median", "µs")
}

fn round_trip() -> Case {
    Case::less(GROUP, "PING and its reply over loopback, median", "µs")
}

/// Two processes: one sends messages, and the other receives them.
pub(super) struct Pair {
    sender: Worker,
    receiver: Worker,
}

/// Median times.
pub(super) struct Found {
    pub(super) message_us: f64,
    pub(super) round_trip_us: f64,
}

impl Pair {
    pub(super) fn start(bench: &Bench) -> Answer<Self> {
        let start = || bench.launch.start(RAW).and_then(Worker::ready);
        Ok(Self { sender: start()?, receiver: start()? })
    }

    pub(super) fn measure(&mut self) -> Answer<Found> {
        let channel = "limits".to_owned();
        self.receiver.send(&Job::Listen { channel: channel.clone(), count: COUNT })?;
        self.sender.ask::<Delays>(&Job::Publish { channel, count: COUNT })?;
        let messages: Delays = self.receiver.answer()?;
        let replies: Delays = self.sender.ask(&Job::Ping { count: COUNT })?;
        let micros = |delays: Delays| delays.p50_ns as f64 / 1e3;
        Ok(Found { message_us: micros(messages), round_trip_us: micros(replies) })
    }
}
