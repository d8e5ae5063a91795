//! What is known of the past, and the rules about it.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{Name, Owner},
    engine::simulation::gate::Gate,
    primitives::LockContext,
};

/// How long a lock goes from task to task of one client, with a little for the clock.
const LOCAL_TIME: Duration = Duration::from_millis(12);

#[derive(Default)]
pub(super) struct Records {
    /// Clients that were shut down.
    shut: Vec<Gate>,
    /// The turns of each owner, which its client passes from task to task.
    turns: BTreeMap<Owner, Turns>,
    /// The newest token of each name that somebody entered with.
    tokens: BTreeMap<Name, u64>,
}

struct Turns {
    begun: Instant,
    /// When the last guard of the owner went.
    left: Option<Instant>,
}

impl Records {
    /// Somebody enters `name`. Returns the rule that this breaks; nothing is known of tokens
    /// where somebody else `meddles`.
    pub(super) fn enters(
        &mut self,
        name: &Name,
        holding: &LockContext,
        gate: &Gate,
        meddles: bool,
    ) -> Option<String> {
        let owner = holding.owner();
        let shut = self.is_shut(gate).then(|| format!("{owner} enters after its shutdown"));
        let token = holding.token().and_then(|token| self.draws(name, token, meddles));
        shut.or(token).or_else(|| self.stays(owner))
    }

    fn draws(&mut self, name: &Name, token: u64, meddles: bool) -> Option<String> {
        let newest = self.tokens.entry(name.clone()).or_default();
        let before = std::mem::replace(newest, token.max(*newest));
        let is_old = token <= before && !meddles;
        is_old.then(|| format!("`{name}` is entered with token {token} after {before}"))
    }

    /// A lock does not stay within one client for long.
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

    /// Whether the client behind `gate` was shut down.
    pub(super) fn is_shut(&self, gate: &Gate) -> bool {
        self.shut.iter().any(|shut| shut.is(gate))
    }
}
