//! Clients that wait for replicas. While a client waits, the server executes no other command of
//! this client.

use super::{
    Core,
    clients::{Client, Wait},
};
use crate::reply::Reply;

impl Core {
    pub(crate) fn blocked(&mut self, id: u64) -> Option<Wait> {
        self.client(id).and_then(|client| client.blocked)
    }

    /// Ends the wait of a client whose timeout is over.
    pub(crate) fn unblock_late(&mut self, id: u64) {
        let now = self.instant();
        if let Some(wait) = self.blocked(id)
            && wait.until.is_some_and(|until| until <= now)
        {
            self.answer(id, wait);
        }
    }

    /// Ends the wait of clients that have enough replicas.
    pub(crate) fn unblock(&mut self) {
        for (id, wait) in self.all_blocked() {
            if self.acknowledged(wait.offset) >= wait.least {
                self.answer(id, wait);
            }
        }
    }

    /// Ends all waits and disconnects the waiting clients, because this server becomes a replica.
    pub(super) fn unblock_by_force(&mut self) {
        for (id, _) in self.all_blocked() {
            self.say(id, &Reply::error(FORCED));
            if let Some(client) = self.client(id) {
                (client.blocked, client.is_ending) = (None, true);
            }
        }
    }

    fn all_blocked(&self) -> Vec<(u64, Wait)> {
        let wait = |(id, client): (&u64, &Client)| client.blocked.map(|wait| (*id, wait));
        self.clients.all().filter_map(wait).collect()
    }

    fn answer(&mut self, id: u64, wait: Wait) {
        let count = self.acknowledged(wait.offset);
        if let Some(client) = self.client(id) {
            client.blocked = None;
        }
        self.say(id, &Reply::Int(count));
    }
}

const FORCED: &str = "UNBLOCKED force unblock from blocking operation, instance state changed \
    (master -> replica?)";
