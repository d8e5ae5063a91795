//! The order of the faults, which the seed decides.

use fastrand::Rng;

use crate::fault::Fault;

/// Yields faults without end. Each cycle has every fault once, in a new order.
#[derive(Clone, Debug)]
pub struct Plot {
    faults: Vec<Fault>,
    left: Vec<Fault>,
    rng: Rng,
}

impl Plot {
    /// The faults in the order of this seed.
    #[must_use]
    pub fn new(faults: &[Fault], seed: u64) -> Self {
        Self { faults: faults.to_vec(), left: vec![], rng: Rng::with_seed(seed) }
    }

    /// The next fault, and random numbers for its details.
    pub fn next_fault(&mut self) -> (Fault, Rng) {
        if self.left.is_empty() {
            self.left.clone_from(&self.faults);
            self.rng.shuffle(&mut self.left);
        }
        (self.left.pop().expect("the list of faults is not empty"), self.rng.fork())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_repeats_faults_and_each_fault_is_equally_frequent() {
        let faults = [Fault::LinksCut, Fault::WorkerKilled, Fault::ServerKilled];
        let faults_of = |seed| {
            let mut plot = Plot::new(&faults, seed);
            (0..6).map(|_| plot.next_fault()).map(|(it, mut rng)| (it, rng.u64(..))).collect()
        };
        let (first, again): (Vec<_>, Vec<_>) = (faults_of(31), faults_of(31));
        assert_eq!(first, again);
        assert_ne!(first, faults_of(32));
        for fault in faults {
            assert_eq!(first.iter().filter(|(it, _)| *it == fault).count(), 2);
        }
    }
}
