//! The nodes of a cluster that have been unreachable for long enough to log a warning. Pure: the
//! caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::hazard::Finding;

/// If a node is back within this time, the client logs only the lost connection.
pub(super) const BLINK: Duration = Duration::from_secs(1);

/// Unreachable nodes.
#[derive(Debug, Default)]
pub(super) struct Absences(Vec<Absence>);

#[derive(Debug)]
struct Absence {
    finding: Finding,
    since: Instant,
    /// Whether a warning was logged.
    logged: bool,
}

impl Absences {
    /// Compares all nodes that are unreachable at `now` with the last check. Returns the findings
    /// to log, and the logged findings that are resolved.
    pub(super) fn seen(
        &mut self,
        unreachable: Vec<Finding>,
        now: Instant,
    ) -> (Vec<Finding>, Vec<Finding>) {
        let mut before = std::mem::take(&mut self.0);
        let mut new = Vec::new();
        for finding in unreachable {
            let known = before.iter().position(|it| it.finding.server == finding.server);
            let known = known.map(|at| before.swap_remove(at));
            let (since, was_logged) = known.map_or((now, false), |it| (it.since, it.logged));
            let logged = was_logged || now >= since + BLINK;
            if logged && !was_logged {
                new.push(finding.clone());
            }
            self.0.push(Absence { finding, since, logged });
        }
        let over = before.into_iter().filter(|it| it.logged).map(|it| it.finding).collect();
        (new, over)
    }

    /// Returns whether an unreachable node was not logged yet.
    pub(super) fn any_unlogged(&self) -> bool {
        self.0.iter().any(|it| !it.logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::Hazard;

    #[test]
    fn absent_node_is_logged_once_and_at_its_return() {
        let start = Instant::now();
        let mut absences = Absences::default();
        let mut seen = |servers: &[&str], millis: u64| {
            let hazard = || Hazard::NodeUnreachable { slots: "slot 1".into(), why: String::new() };
            let unreachable = servers.iter().map(|it| Finding::at(it, hazard())).collect();
            let (new, over) = absences.seen(unreachable, start + Duration::from_millis(millis));
            [new, over].map(|all| all.into_iter().map(|it| it.server).collect::<String>())
        };
        assert_eq!(seen(&["a", "b"], 0), ["", ""]);
        assert_eq!(seen(&["a"], 999), ["", ""], "`b` was reachable again at once");
        assert_eq!(seen(&["a", "b"], 1_000), ["a", ""]);
        assert_eq!(seen(&["b", "a"], 2_000), ["b", ""]);
        assert_eq!(seen(&["b"], 2_001), ["", "a"]);
        assert_eq!(seen(&[], 2_002), ["", "b"]);
        assert_eq!(seen(&["a"], 2_003), ["", ""]);
    }
}
