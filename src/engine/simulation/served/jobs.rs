//! The record of the elements of a queue, each of which is pushed once.

use std::collections::{BTreeMap, BTreeSet};

/// The elements, by their known state.
#[derive(Default)]
pub(super) struct Jobs {
    /// The elements that may be in the queue, and whether their push was confirmed.
    pushed: BTreeMap<String, bool>,
    /// The elements that are certainly done.
    done: BTreeSet<String>,
    /// How many calls of `done` for this element have an unknown result.
    unsure: BTreeMap<String, u32>,
}

impl Jobs {
    /// Notes that the element may be in the queue, and whether its push is confirmed.
    pub(super) fn is_pushed(&mut self, element: &str, confirmed: bool) {
        self.pushed.insert(element.to_owned(), confirmed);
    }

    /// Returns the broken rule, if this element cannot be in the queue.
    pub(super) fn is_taken(&self, element: &str) -> Option<String> {
        let wrong = self.done.contains(element) || !self.pushed.contains_key(element);
        wrong.then(|| format!("{element} is taken, but it is done or was never pushed"))
    }

    /// Notes that the claimant of the element begins to report it as done.
    pub(super) fn may_be_done(&mut self, element: &str) {
        *self.unsure.entry(element.to_owned()).or_default() += 1;
    }

    /// Notes the reply to such a report. Returns the broken rule, if the element is done twice.
    pub(super) fn is_done(&mut self, element: &str, done: bool) -> Option<String> {
        self.unsure.entry(element.to_owned()).and_modify(|unsure| *unsure -= 1);
        let twice = done && !self.done.insert(element.to_owned());
        twice.then(|| format!("{element} is done twice"))
    }

    /// Returns the broken rule, if an element is neither done nor `left` in the queue.
    pub(super) fn are_whole(&self, left: &BTreeSet<String>) -> Result<(), String> {
        let maybe = |it: &str| self.unsure.get(it).is_some_and(|unsure| *unsure > 0);
        let known = |it: &String| left.contains(it) || self.done.contains(it) || maybe(it);
        let mut lost = self.pushed.iter().filter(|(it, confirmed)| **confirmed && !known(it));
        lost.next().map_or(Ok(()), |(element, _)| Err(format!("{element} is lost")))
    }
}
