//! The faults that the servers of a run may have.

use std::time::Duration;

use fastrand::Rng;
use leasehold_twin::Delay;

use super::scenario::{Kind, Scenario};

/// The longest pause of a client, in milliseconds.
pub(super) const LONGEST_PAUSE: u64 = 8_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerFaults {
    /// How far replicas lag behind, and how long gossip takes, in milliseconds.
    lag: u64,
    gossip: u64,
    pub(super) agreed: bool,
    pub(super) moves: bool,
    pub(super) killed: bool,
    pub(super) behind: bool,
    pub(super) hung: bool,
    pub(super) isolated: bool,
    pub(super) parted: bool,
    pub(super) stale: bool,
    pub(super) restarts: bool,
    pub(super) cuts: bool,
    pub(super) late: bool,
    pub(super) replicas: bool,
    pub(super) sentinels: bool,
    pub(super) down: bool,
    pub(super) losses: bool,
    pub(super) flushes: bool,
    pub(super) deaths: bool,
    pub(super) pauses: bool,
}

impl ServerFaults {
    pub(super) fn draw(scenario: &Scenario, chance: &mut Rng) -> Self {
        let (switched, rough) = (scenario.kind == Kind::Switched, scenario.kind == Kind::Rough);
        let lag = if chance.bool() { 0 } else { chance.u64(1..=100) };
        let gossip = if chance.bool() { 0 } else { chance.u64(1..=300) };
        let mut one_in = |n| rough && chance.u32(..n) == 0;
        Self {
            lag,
            gossip: if rough { gossip } else { 0 },
            agreed: switched || one_in(2),
            moves: switched || one_in(2),
            killed: one_in(2),
            hung: one_in(3),
            isolated: one_in(3),
            parted: one_in(5),
            stale: one_in(4),
            restarts: one_in(3),
            cuts: one_in(3),
            late: one_in(4),
            replicas: one_in(3),
            sentinels: switched || one_in(2),
            down: one_in(6),
            losses: one_in(5),
            flushes: one_in(4),
            deaths: one_in(6),
            pauses: one_in(6),
            behind: one_in(2),
        }
    }

    pub(super) fn lag(&self) -> Delay {
        if self.lag == 0 { Delay::None } else { Delay::UpTo(Duration::from_millis(self.lag)) }
    }

    pub(super) fn gossip(&self) -> Duration {
        Duration::from_millis(self.gossip)
    }
}
