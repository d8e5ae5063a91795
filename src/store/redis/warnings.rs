//! Warns of what can hurt locks, once of each kind.

use std::mem::{Discriminant, discriminant};

use crate::domain::{About, Finding, Hazard, Mutex};

/// What was warned of.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    told: Mutex<Vec<Discriminant<Hazard>>>,
    /// Whether nodes of a cluster are what is looked for. What each of them is says their map.
    of_nodes: bool,
}

impl Warnings {
    pub(super) fn of_nodes() -> Self {
        Self { of_nodes: true, ..Self::default() }
    }

    /// What can hurt locks on a server that says this of itself.
    pub(super) fn findings(&self, about: &About) -> Vec<Finding> {
        let on_the_map = |it: &Hazard| matches!(it, Hazard::Replica | Hazard::ClusterNode);
        let hazards = about.hazards.iter().filter(|it| !(self.of_nodes && on_the_map(it)));
        hazards.map(|it| Finding::at(&about.server, it.clone())).collect()
    }

    /// Warns of what was not warned of before.
    pub(super) fn tell(&self, findings: &[Finding]) {
        // That no sentinel answers is told each time when the last one goes.
        let others = findings.iter().filter(|it| it.hazard != Hazard::NoSentinel);
        others.filter(|it| self.is_new(&it.hazard)).for_each(say);
    }

    /// Whether it is time to warn of this, and then it is done.
    fn is_new(&self, hazard: &Hazard) -> bool {
        let (mut told, kind) = (self.told.lock(), discriminant(hazard));
        let new = !told.contains(&kind);
        if new {
            told.push(kind);
        }
        new
    }
}

fn say(Finding { server, hazard }: &Finding) {
    let remedy = hazard.remedy();
    match hazard {
        Hazard::Unseen { .. } => tracing::debug!(target: "leasehold",
            server, %hazard, remedy, "a look at the server is refused"),
        _ => tracing::warn!(target: "leasehold", server, %hazard, remedy, "this can hurt locks"),
    }
}
