//! What happened, as the workers said it and the runner saw it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::fence::Gate;

use crate::clock::{Nanos, now};
use crate::fault::HealedFault;
use crate::orders::Mode;
use crate::worker_event::WorkerEvent;

/// All that happened in one run.
#[derive(Debug, Default)]
pub struct Record {
    /// What was asked for, by number.
    pub holds: BTreeMap<u64, Hold>,
    /// Who was killed, or ended, and when.
    pub deaths: BTreeMap<String, Nanos>,
    /// Writes behind the fence, in the order in which they arrived.
    pub writes: Vec<Write>,
    /// What was done to servers, links and processes.
    pub faults: Vec<HealedFault>,
    /// Which latches were opened, and when that began.
    pub opened: BTreeMap<String, Nanos>,
    /// Who has begun.
    pub ready: BTreeMap<String, Nanos>,
    /// Why nothing came of a question, and how often.
    pub refusals: BTreeMap<String, u64>,
    /// Lines that make no sense.
    pub nonsense: Vec<String>,
    /// Holds in the order in which their owners said that they have them.
    entries: Vec<u64>,
    gate: Gate,
}

/// Something that was asked for, and what became of it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Who asked.
    pub process: String,
    /// For what.
    pub name: String,
    /// How.
    pub mode: Mode,
    /// When.
    pub call: Nanos,
    /// When it believed to hold, if it ever did.
    pub entered: Option<Nanos>,
    /// Its token, of a fenced lock.
    pub token: Option<u64>,
    /// When it asked no more, without a hold.
    pub gave_up: Option<Nanos>,
    /// When it began to give back.
    pub leaving: Option<Nanos>,
    /// When it was told that it has given back.
    pub left: Option<Nanos>,
    /// When it believed for the last time, if it has not given back.
    pub lost: Option<Nanos>,
}

/// A write to what a fence guards.
#[derive(Clone, Debug)]
pub struct Write {
    /// The resource.
    pub name: String,
    /// Who wrote.
    pub hold: u64,
    /// By which token.
    pub token: u64,
    /// When it arrived.
    pub at: Nanos,
    /// Whether the gate took it.
    pub accepted: bool,
}

impl Record {
    /// Notes what a process said.
    pub fn note(&mut self, process: &str, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready { at } => {
                self.ready.insert(process.to_owned(), at);
            }
            WorkerEvent::Ask { hold, name, mode, call } => {
                self.holds.insert(hold, Hold::asked(process, name, mode, call));
            }
            WorkerEvent::Enter { hold, at, token } => {
                self.entries.push(hold);
                self.change(hold, |it| (it.entered, it.token) = (Some(at), token));
            }
            WorkerEvent::GaveUp { hold, at, why } => {
                *self.refusals.entry(why).or_default() += 1;
                self.change(hold, |it| it.gave_up = Some(at));
            }
            WorkerEvent::Leaving { hold, at } => self.change(hold, |it| it.leaving = Some(at)),
            WorkerEvent::Left { hold, at } => self.change(hold, |it| it.left = Some(at)),
            WorkerEvent::Lost { hold, at } => self.change(hold, |it| it.lost = Some(at)),
            WorkerEvent::Write { name, hold, token, .. } => {
                let accepted = self.gate.pass(&name, token).is_ok();
                self.writes.push(Write { name, hold, token, at: now(), accepted });
            }
        }
    }

    /// The holds that were entered from `from` on, the first one first.
    pub fn entered_since(&self, from: Nanos) -> Vec<(Nanos, &Hold)> {
        // A line may come late, but not by more than this.
        let enough = from.saturating_sub(LATE);
        let entries = self.entries.iter().rev().map(|it| &self.holds[it]);
        let dated = entries.filter_map(|it| Some((it.entered?, it)));
        let recent = dated.take_while(|(at, _)| *at >= enough);
        let mut found: Vec<_> = recent.filter(|(at, _)| *at > from).collect();
        found.sort_by_key(|(at, _)| *at);
        found
    }

    /// How many holds there were.
    #[must_use]
    pub fn entered(&self) -> usize {
        self.entries.len()
    }

    /// From when until when the owner of a hold believed in it, if it ever did.
    #[must_use]
    pub fn belief(&self, hold: &Hold) -> Option<(Nanos, Nanos)> {
        let from = hold.entered?;
        let died = self.deaths.get(&hold.process).copied();
        let until = [hold.leaving, hold.lost, died].into_iter().flatten().min();
        Some((from, until.unwrap_or(Nanos::MAX)))
    }

    /// What a process that died may have held then, of what has a lease.
    #[must_use]
    pub fn held_by(&self, process: &str) -> BTreeSet<String> {
        let of_it = |it: &&Hold| it.process == process && it.mode == Mode::Exclusive;
        let open = |it: &&Hold| it.entered.is_some() && it.left.is_none() && it.lost.is_none();
        self.holds.values().filter(of_it).filter(open).map(|it| it.name.clone()).collect()
    }

    fn change(&mut self, hold: u64, change: impl FnOnce(&mut Hold)) {
        match self.holds.get_mut(&hold) {
            Some(hold) => change(hold),
            None => self.nonsense.push(format!("nobody asked for hold {hold}")),
        }
    }
}

impl Hold {
    fn asked(process: &str, name: String, mode: Mode, call: Nanos) -> Self {
        Self {
            process: process.to_owned(),
            name,
            mode,
            call,
            entered: None,
            token: None,
            gave_up: None,
            leaving: None,
            left: None,
            lost: None,
        }
    }
}

/// A worker that stands still for long says then what it did before.
const LATE: Nanos = 10_000_000_000;
