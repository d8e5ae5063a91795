//! The record of the entries of a map in one simulation: see `objects.rs`.

use std::collections::{BTreeMap, BTreeSet};

/// The record of the counter, of the computed values, and of the values that replace each other.
#[derive(Default)]
pub(super) struct Entries {
    /// How many writes to the counter were confirmed. Each write adds one.
    counted: u64,
    /// How many writes have an unknown result.
    unsure: u64,
    /// The value that each computation returned to its first caller.
    computed: BTreeMap<u32, String>,
    /// The values that may have been inserted, and whether their insertion was confirmed.
    inserted: BTreeMap<String, bool>,
    /// The values that a later insertion has replaced, according to its reply.
    replaced: BTreeSet<String>,
}

impl Entries {
    /// Returns the lowest value that the counter may have.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Records that a task begins to write the counter.
    pub(super) fn may_be_counted(&mut self) {
        self.unsure += 1;
    }

    /// Records the reply to a write of the counter.
    pub(super) fn is_counted(&mut self, counted: bool) {
        self.unsure -= 1;
        self.counted += u64::from(counted);
    }

    /// Returns the broken rule, if an earlier caller got a different value of this computation.
    pub(super) fn is_computed(&mut self, number: u32, value: &str) -> Option<String> {
        let first = self.computed.entry(number).or_insert_with(|| value.to_owned());
        (first != value).then(|| format!("{number} was computed as {first} and as {value}"))
    }

    /// Records that a task begins to insert this value, which is unique.
    pub(super) fn may_be_inserted(&mut self, value: &str) {
        self.inserted.insert(value.to_owned(), false);
    }

    /// Records the reply to an insertion, with the value that the insertion replaced. Returns the
    /// broken rule, if that value cannot have been in the map.
    pub(super) fn is_inserted(&mut self, value: &str, before: Option<String>) -> Option<String> {
        self.inserted.insert(value.to_owned(), true);
        let before = before?;
        let odd = !self.inserted.contains_key(&before) || before == value;
        (odd || !self.replaced.insert(before.clone()))
            .then(|| format!("{value} replaced {before}, which was not there"))
    }

    /// Returns the broken rule, if the map cannot have these values at the end.
    pub(super) fn end_with(&self, counter: u64, last: Option<&String>) -> Result<(), String> {
        let Self { counted, unsure, .. } = self;
        if !(*counted..=counted + unsure).contains(&counter) {
            return Err(format!("{counter} after {counted} writes, and {unsure} that may be"));
        }
        let is_missing = |it: &&String| Some(*it) != last && !self.replaced.contains(*it);
        let (sure, unsure): (Vec<_>, Vec<_>) =
            self.inserted.iter().partition(|(_, confirmed)| **confirmed);
        let missing = sure.iter().map(|(value, _)| *value).filter(is_missing).count();
        // If a value is missing, the reply to the insertion that replaced it may have been lost.
        match missing > unsure.len() {
            true => Err(format!("{missing} values vanished, but {} replies", unsure.len())),
            false => Ok(()),
        }
    }
}
