//! The rules that need the history of a run.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Name, Owner},
    engine::simulation::gate::Gate,
    primitives::LockContext,
};

/// The longest time for which one client may hand a lock off from task to task: 10 ms, and 2 ms for
/// the differences between clocks.
const LOCAL_TIME: Duration = Duration::from_millis(12);

#[derive(Default)]
pub(super) struct Records {
    /// Clients that were shut down.
    shut: Vec<Gate>,
    /// For each owner: since when its grant has stayed within the client.
    turns: BTreeMap<Owner, Turns>,
    /// The newest token of each name.
    tokens: BTreeMap<Name, u64>,
}

struct Turns {
    begun: Instant,
    /// When the last guard of the owner was dropped.
    left: Option<Instant>,
}

impl Records {
    /// Records an acquisition of `name`. Returns the broken rule, if there is one. Tokens are not
    /// checked if a foreign client `meddles`.
    pub(super) fn acquires(
        &mut self,
        name: &Name,
        holding: &LockContext,
        gate: &Gate,
        meddles: bool,
    ) -> Option<String> {
        let owner = holding.owner();
        let shut = self.is_shut(gate).then(|| format!("{owner} acquires after its shutdown"));
        let token = holding.token().and_then(|token| self.draws(name, token, meddles));
        shut.or(token).or_else(|| self.stays(owner))
    }

    fn draws(&mut self, name: &Name, token: u64, meddles: bool) -> Option<String> {
        let newest = self.tokens.entry(name.clone()).or_default();
        let before = std::mem::replace(newest, token.max(*newest));
        let is_old = token <= before && !meddles;
        is_old.then(|| format!("`{name}` is acquired with token {token} after {before}"))
    }

    /// Returns the broken rule, if a lock stays within one client for too long.
    fn stays(&mut self, owner: &Owner) -> Option<String> {
        let first = || Turns { begun: Instant::now(), left: None };
        let turns = self.turns.entry(owner.clone()).or_insert_with(first);
        let stayed = turns.left? - turns.begun;
        (stayed > LOCAL_TIME).then(|| format!("{owner} stays in its client for {stayed:?}"))
    }

    pub(super) fn leaves(&mut self, owner: &Owner) {
        if let Some(turns) = self.turns.get_mut(owner) {
            turns.left = Some(Instant::now());
        }
    }

    pub(super) fn shuts(&mut self, gate: &Gate) {
        self.shut.push(gate.clone());
    }

    /// Returns whether the client behind `gate` was shut down.
    pub(super) fn is_shut(&self, gate: &Gate) -> bool {
        self.shut.iter().any(|shut| shut.is(gate))
    }
}
