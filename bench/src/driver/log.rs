//! The visits to one lock, merged from the logs of all processes. A visit is one hold of a task.

use crate::figures::{jain, percentile};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Visit {
    pub(super) entered_ns: u64,
    /// When the task started to release.
    pub(super) left_ns: u64,
    pub(super) process: usize,
    pub(super) task: u64,
}

/// All visits, sorted by the time of the acquisition.
#[derive(Debug)]
pub(super) struct VisitLog {
    visits: Vec<Visit>,
    processes: usize,
}

impl VisitLog {
    /// Merges the logs of all processes. Each entry of a log is: the task, the time of its
    /// acquisition, and the time when it started to release.
    pub(super) fn of(logs: &[Vec<(u64, u64, u64)>]) -> Self {
        let mut visits: Vec<_> = logs
            .iter()
            .enumerate()
            .flat_map(|(process, log)| {
                log.iter().map(move |&(task, entered_ns, left_ns)| Visit {
                    entered_ns,
                    left_ns,
                    process,
                    task,
                })
            })
            .collect();
        visits.sort_unstable();
        Self { visits, processes: logs.len() }
    }

    /// The number of acquisitions before the previous holder had started to release.
    pub(super) fn overlaps(&self) -> usize {
        let mut empty_at = 0;
        let mut overlaps = 0;
        for visit in &self.visits {
            overlaps += usize::from(visit.entered_ns < empty_at);
            empty_at = empty_at.max(visit.left_ns);
        }
        overlaps
    }

    /// The times from a release of one process to the acquisition by another process.
    pub(super) fn between_processes(&self) -> Vec<u64> {
        let pairs = self.visits.windows(2).filter(|pair| pair[0].process != pair[1].process);
        pairs.map(|pair| pair[1].entered_ns.saturating_sub(pair[0].left_ns)).collect()
    }

    /// The number of acquisitions by another task than the previous holder.
    pub(super) fn hand_overs(&self) -> usize {
        let who = |visit: &Visit| (visit.process, visit.task);
        self.visits.windows(2).filter(|pair| who(&pair[0]) != who(&pair[1])).count()
    }

    /// The number of acquisitions.
    pub(super) fn entries(&self) -> usize {
        self.visits.len()
    }

    /// The number of acquisitions of each process.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.processes];
        for visit in &self.visits {
            shares[visit.process] += 1.0;
        }
        shares
    }

    /// The highest share of a process and the lowest, in percent.
    pub(super) fn luckiest_and_unluckiest(&self) -> (f64, f64) {
        let percent = |entries: f64| entries / self.visits.len() as f64 * 100.0;
        let (least, most) = self
            .shares()
            .into_iter()
            .fold((f64::INFINITY, 0.0), |(least, most), it| (it.min(least), it.max(most)));
        (percent(most), percent(least))
    }

    pub(super) fn jain(&self) -> f64 {
        jain(&self.shares())
    }

    /// The seconds from the first acquisition to the last one.
    pub(super) fn seconds(&self) -> f64 {
        let ends = self.visits.first().zip(self.visits.last());
        ends.map_or(0.0, |(first, last)| (last.entered_ns - first.entered_ns) as f64 / 1e9)
    }
}

/// The 50th and the 99th percentile of `nanos`, in µs.
pub(super) fn p50_and_p99(mut nanos: Vec<u64>) -> (f64, f64) {
    let of = |nanos: &mut [u64], q| percentile(nanos, q) as f64 / 1e3;
    (of(&mut nanos, 0.5), of(&mut nanos, 0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_over_lasts_from_release_to_the_next_acquisition() {
        // The first process acquires twice, and then the second process acquires.
        let log = VisitLog::of(&[vec![(1, 100, 110), (1, 115, 120)], vec![(1, 150, 160)]]);

        assert_eq!(log.between_processes(), [30]);
        assert_eq!(log.overlaps(), 0);
        assert_eq!(log.shares(), [2.0, 1.0]);
    }

    #[test]
    fn hand_over_within_a_process_is_counted_separately() {
        let log = VisitLog::of(&[vec![(1, 0, 1), (2, 2, 3), (2, 4, 5)]]);
        assert_eq!(log.hand_overs(), 1);
        assert_eq!(log.between_processes(), [0; 0]);
    }

    #[test]
    fn acquisition_before_the_previous_release_is_an_overlap() {
        let log = VisitLog::of(&[vec![(1, 100, 200)], vec![(1, 199, 210)], vec![(1, 210, 220)]]);
        assert_eq!(log.overlaps(), 1);
    }

    #[test]
    fn hold_overlaps_each_hold_that_begins_before_its_end() {
        let log = VisitLog::of(&[vec![(1, 0, 100)], vec![(1, 10, 20), (1, 30, 40)]]);
        assert_eq!(log.overlaps(), 2);
    }

    #[test]
    fn process_without_holds_has_the_smallest_share_of_holds() {
        let log = VisitLog::of(&[vec![(1, 0, 1), (1, 2, 3)], vec![]]);
        assert_eq!(log.luckiest_and_unluckiest(), (100.0, 0.0));
        assert_eq!(log.jain(), 0.5);
    }
}
