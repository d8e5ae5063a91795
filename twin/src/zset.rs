//! Members in the order of their scores.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::number;

#[derive(Clone, Debug, Default)]
pub(super) struct Zset {
    scores: BTreeMap<Vec<u8>, f64>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

/// A score, which is never NaN.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        // `total_cmp` would order -0 before 0, but both are the same score.
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl Zset {
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets a score, and returns the earlier score.
    pub(super) fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let before = self.scores.insert(member.to_vec(), score);
        if let Some(before) = before {
            self.order.remove(&(Score(before), member.to_vec()));
        }
        self.order.insert((Score(score), member.to_vec()));
        before
    }

    /// Removes a member. Returns whether the member existed.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let score = self.scores.remove(member);
        score.is_some_and(|score| self.order.remove(&(Score(score), member.to_vec())))
    }

    pub(super) fn pop_first(&mut self) -> Option<(Vec<u8>, f64)> {
        let (Score(score), member) = self.order.pop_first()?;
        self.scores.remove(&member);
        Some((member, score))
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        self.order.iter().position(|(at, it)| at.0 == score && it == member)
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn ranked(&self) -> impl DoubleEndedIterator<Item = (&Vec<u8>, f64)> {
        self.order.iter().map(|(score, member)| (member, score.0))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    from: Bound,
    to: Bound,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    score: f64,
    excluded: bool,
}

impl Range {
    pub(super) fn read(from: &[u8], to: &[u8]) -> Option<Self> {
        Some(Self { from: Bound::read(from)?, to: Bound::read(to)? })
    }

    pub(super) fn has(self, score: f64) -> bool {
        let above = score > self.from.score || (score == self.from.score && !self.from.excluded);
        let below = score < self.to.score || (score == self.to.score && !self.to.excluded);
        above && below
    }
}

impl Bound {
    fn read(text: &[u8]) -> Option<Self> {
        let (excluded, number) = match text.strip_prefix(b"(") {
            Some(number) => (true, number),
            None => (false, text),
        };
        Some(Self { score: number::double(number)?, excluded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_ranked_by_score_and_then_by_name() {
        let mut set = Zset::default();
        for (member, score) in [("b", 1.0), ("a", 1.0), ("c", -1.0), ("b", 0.0)] {
            set.set(member.as_bytes(), score);
        }
        let names: Vec<_> = set.ranked().map(|(member, _)| member.clone()).collect();
        assert_eq!(names, [b"c", b"b", b"a"]);
        assert_eq!(set.rank(b"b"), Some(1));
        assert!(set.remove(b"b") && !set.remove(b"b"));
        assert_eq!(set.pop_first(), Some((b"c".to_vec(), -1.0)));
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn sorted_set_range_may_exclude_its_bounds() {
        let range = Range::read(b"(1", b"+inf").unwrap();
        assert!(!range.has(1.0) && range.has(1.1) && range.has(f64::INFINITY));
        assert!(Range::read(b"x", b"1").is_none());
    }
}
