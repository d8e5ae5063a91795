//! What may happen to the servers of a story.

use std::time::Duration;

use fastrand::Rng;
use leasehold_twin::Delay;

use super::plot::{Kind, Plot};

/// What may happen in a story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardships {
    /// How far replicas are behind, and how long news is on its way, in milliseconds.
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

impl Hardships {
    pub(super) fn draw(plot: &Plot, chance: &mut Rng) -> Self {
        let (switched, rough) = (plot.kind == Kind::Switched, plot.kind == Kind::Rough);
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
