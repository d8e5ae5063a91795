//! The order of the grants of fair locks. A wrong order is only counted, and violates no rule,
//! because waiters may queue again after a fault.

use crate::clock::nanos;
use crate::orders::{Kind, Object};
use crate::record::Record;
use std::time::Duration;

/// The number of grants of fair locks, and how many of them overtook an older request that was
/// granted later.
#[must_use]
pub fn overtaking(record: &Record, objects: &[Object]) -> (usize, usize) {
    let (mut all, mut overtook) = (0, 0);
    for object in objects.iter().filter(|it| it.kind == Kind::Fair) {
        let holds = record.holds.values().filter(|it| it.name == object.name);
        let mut granted: Vec<_> = holds.filter_map(|it| Some((it.entered?, it.call))).collect();
        granted.sort_unstable();
        // The loop goes from the last grant to the first. So `oldest` is the oldest request of all
        // later grants.
        let mut oldest = u64::MAX;
        for (_, call) in granted.iter().rev() {
            overtook += usize::from(oldest.saturating_add(nanos(TRAVEL)) < *call);
            oldest = oldest.min(*call);
        }
        all += granted.len();
    }
    (all, overtook)
}

/// If two requests were sent within this time, they may arrive in any order.
const TRAVEL: Duration = Duration::from_millis(20);
