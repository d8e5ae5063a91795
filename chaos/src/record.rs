//! The events of a run, from the workers and from the runner.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::fence::Gate;

use crate::clock::{Nanos, now};
use crate::fault::HealedFault;
use crate::orders::Mode;
use crate::worker_event::WorkerEvent;

/// All events of one run.
#[derive(Debug, Default)]
pub struct Record {
    /// The requested holds, granted or not, by their numbers.
    pub holds: BTreeMap<u64, Hold>,
    /// The processes that were killed or have ended, and when.
    pub deaths: BTreeMap<String, Nanos>,
    /// The elements of queues, and when the store confirmed each push.
    pub pushed: Vec<Push>,
    /// The writes to the resources of fenced locks, in the order in which they arrived.
    pub writes: Vec<Write>,
    /// The faults of servers, links and processes.
    pub faults: Vec<HealedFault>,
    /// The latches that were opened, and when the opening started.
    pub opened: BTreeMap<String, Nanos>,
    /// The workers that have started, and when.
    pub ready: BTreeMap<String, Nanos>,
    /// The errors of requests, and how often each error occurred.
    pub refusals: BTreeMap<String, u64>,
    /// Lines of workers that could not be parsed.
    pub nonsense: Vec<String>,
    /// The granted holds, in the order of their reports.
    entries: Vec<u64>,
    gate: Gate,
}

/// A request, and its result.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The name of the worker.
    pub process: String,
    /// The name of the object.
    pub name: String,
    /// The mode of the hold.
    pub mode: Mode,
    /// When the worker sent the request.
    pub call: Nanos,
    /// When the worker started to believe that it held the object. `None` if the worker never
    /// believed this.
    pub entered: Option<Nanos>,
    /// The token, if the object has tokens.
    pub token: Option<u64>,
    /// The claimed element, if the object is a queue.
    pub element: Option<String>,
    /// Whether the store has confirmed that the element is done.
    pub done: bool,
    /// When the worker gave up without a hold.
    pub gave_up: Option<Nanos>,
    /// When the worker started to release.
    pub leaving: Option<Nanos>,
    /// When the worker received the reply to the release.
    pub left: Option<Nanos>,
    /// The last time at which the worker believed that it held the object, if it did not release.
    pub lost: Option<Nanos>,
}

/// An element of a queue.
#[derive(Clone, Debug)]
pub struct Push {
    /// The name of the queue.
    pub name: String,
    /// The element.
    pub element: String,
    /// When the store confirmed the push.
    pub at: Nanos,
}

/// A write to the resource of a fence.
#[derive(Clone, Debug)]
pub struct Write {
    /// The name of the resource.
    pub name: String,
    /// The number of the hold under which the process wrote.
    pub hold: u64,
    /// The token of the write.
    pub token: u64,
    /// When the write arrived.
    pub at: Nanos,
    /// Whether the gate accepted the write.
    pub accepted: bool,
}

impl Record {
    /// Records an event of a process.
    pub fn note(&mut self, process: &str, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready { at } => {
                self.ready.insert(process.to_owned(), at);
            }
            WorkerEvent::Ask { hold, name, mode, call } => {
                self.holds.insert(hold, Hold::asked(process, name, mode, call));
            }
            WorkerEvent::Enter { hold, at, token, element } => {
                self.entries.push(hold);
                let granted = (Some(at), token, element);
                self.change(hold, |it| (it.entered, it.token, it.element) = granted);
            }
            WorkerEvent::GaveUp { hold, at, why } => {
                *self.refusals.entry(why).or_default() += 1;
                self.change(hold, |it| it.gave_up = Some(at));
            }
            WorkerEvent::Leaving { hold, at } => self.change(hold, |it| it.leaving = Some(at)),
            WorkerEvent::Left { hold, at } => self.change(hold, |it| it.left = Some(at)),
            WorkerEvent::Done { hold, at } => {
                self.change(hold, |it| (it.left, it.done) = (Some(at), true));
            }
            WorkerEvent::Pushed { name, elements, at } => {
                let pushed =
                    elements.into_iter().map(|element| Push { name: name.clone(), element, at });
                self.pushed.extend(pushed);
            }
            WorkerEvent::Lost { hold, at } => self.change(hold, |it| it.lost = Some(at)),
            WorkerEvent::Write { name, hold, token, .. } => {
                let accepted = self.gate.pass(&name, token).is_ok();
                self.writes.push(Write { name, hold, token, at: now(), accepted });
            }
        }
    }

    /// The holds that were granted after `from`, sorted by the time of the grant.
    pub fn entered_since(&self, from: Nanos) -> Vec<(Nanos, &Hold)> {
        // A report may arrive late, but at most by `LATE`.
        let enough = from.saturating_sub(LATE);
        let entries = self.entries.iter().rev().map(|it| &self.holds[it]);
        let dated = entries.filter_map(|it| Some((it.entered?, it)));
        let recent = dated.take_while(|(at, _)| *at >= enough);
        let mut found: Vec<_> = recent.filter(|(at, _)| *at > from).collect();
        found.sort_by_key(|(at, _)| *at);
        found
    }

    /// The number of granted holds.
    #[must_use]
    pub fn entered(&self) -> usize {
        self.entries.len()
    }

    /// The time in which the worker believed that it held the object. `None` if the worker never
    /// believed this.
    #[must_use]
    pub fn belief(&self, hold: &Hold) -> Option<(Nanos, Nanos)> {
        let from = hold.entered?;
        let died = self.deaths.get(&hold.process).copied();
        let until = [hold.leaving, hold.lost, died].into_iter().flatten().min();
        Some((from, until.unwrap_or(Nanos::MAX)))
    }

    /// The names of the exclusive holds that a process may have had when it died. Until their
    /// leases end, no other process can acquire these names.
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
            element: None,
            done: false,
            gave_up: None,
            leaving: None,
            left: None,
            lost: None,
        }
    }
}

/// The longest delay of a report. A suspended worker sends its reports only after it continues.
const LATE: Nanos = 10_000_000_000;
