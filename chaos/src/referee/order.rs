//! The order of the grants of fair locks. It is counted, and no rule: after a fault waiters may queue
//! again.

use crate::clock::nanos;
use crate::orders::{Kind, Object};
use crate::record::Record;
use std::time::Duration;

/// The grants of fair locks, and how many of them overtook an older request that was granted later.
#[must_use]
pub fn overtaking(record: &Record, objects: &[Object]) -> (usize, usize) {
    let (mut all, mut overtook) = (0, 0);
    for object in objects.iter().filter(|it| it.kind == Kind::Fair) {
        let holds = record.holds.values().filter(|it| it.name == object.name);
        let mut granted: Vec<_> = holds.filter_map(|it| Some((it.entered?, it.call))).collect();
        granted.sort_unstable();
        // From the last grant on, the oldest request of all later grants is known.
        let mut oldest = u64::MAX;
        for (_, call) in granted.iter().rev() {
            overtook += usize::from(oldest.saturating_add(nanos(TRAVEL)) < *call);
            oldest = oldest.min(*call);
        }
        all += granted.len();
    }
    (all, overtook)
}

/// Requests that were sent within this time may arrive in any order.
const TRAVEL: Duration = Duration::from_millis(20);
