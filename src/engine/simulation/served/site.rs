//! Where the server is: another one may take its place.

use std::sync::{Arc, Mutex};

use leasehold_twin::{Delay, Twin};

/// The address of the server that is in charge.
#[derive(Clone, Debug)]
pub(super) struct Site(Arc<Mutex<Servers>>);

#[derive(Debug)]
struct Servers {
    master: Twin,
    replica: Option<Twin>,
}

impl Site {
    pub(super) fn new(master: Twin, replica: Option<Twin>) -> Self {
        Self(Arc::new(Mutex::new(Servers { master, replica })))
    }

    /// Who is in charge.
    pub(super) fn master(&self) -> Twin {
        self.0.lock().unwrap().master.clone()
    }

    /// All servers there are.
    pub(super) fn all(&self) -> Vec<Twin> {
        let servers = self.0.lock().unwrap();
        [Some(servers.master.clone()), servers.replica.clone()].into_iter().flatten().collect()
    }

    /// Gives a user these rights, wherever it goes.
    pub(super) fn user(&self, name: &str, rules: &str) {
        self.all().iter().for_each(|server| server.user(name, rules));
    }

    pub(super) fn delay(&self, requests: Delay, replies: Delay) {
        self.all().iter().for_each(|server| server.delay(requests, replies));
    }

    /// The replica takes over. Returns the one before, or `None` if there is no replica.
    pub(super) fn promote(&self) -> Option<Twin> {
        let mut servers = self.0.lock().unwrap();
        let replica = servers.replica.take()?;
        replica.promote();
        let before = std::mem::replace(&mut servers.master, replica);
        servers.replica = Some(before.clone());
        Some(before)
    }
}
