//! Rules about connections that clients must close.
//!
//! | rule | broken when |
//! |---|---|
//! | a replaced server is left | a client still has a connection to this server some seconds after its replacement |
//! | silence is noticed | a client keeps a subscribed connection on which no bytes arrive |

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold_twin::Connection;
use tokio::time::Instant;

use super::{
    peer::Peer,
    scenario::{Kind, Scenario},
    site::Site,
};

/// A connection: its server, and its number at this server.
type Key = (String, u64);

/// A client must close a silent connection within this time.
pub(super) const SILENCE: Duration = Duration::from_secs(7);

/// The connections that clients must close, and since when.
pub(super) struct StaleConnections {
    stays: Duration,
    stale: BTreeMap<Key, Instant>,
    silent: BTreeMap<Key, Instant>,
    /// Clients that cannot know that a server was replaced, and until when.
    excused: BTreeMap<String, Instant>,
}

impl StaleConnections {
    pub(super) fn of(site: &Site, scenario: &Scenario) -> Self {
        let stays = match (site, scenario.kind) {
            // Without requests, a client rarely refreshes the topology of a cluster, so it may keep
            // a connection to a replaced node for a while.
            (Site::Nodes(..), _) => Duration::from_secs(24),
            (_, Kind::Switched) => Duration::from_secs(1),
            _ => Duration::from_secs(4),
        };
        let (stale, silent, excused) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { stays, stale, silent, excused }
    }

    /// Records that for `lasts`, `client` cannot notice the replacement of a server.
    pub(super) fn excuse(&mut self, client: &str, lasts: Duration) {
        let until = Instant::now() + lasts;
        let known = self.excused.entry(client.to_owned()).or_insert(until);
        *known = until.max(*known);
    }

    /// Records that no byte will arrive on the subscribed connections that a client has now.
    pub(super) fn silences(&mut self, site: &Site, client: &str) {
        let now = Instant::now();
        for server in site.all() {
            let of_client = server.connections().into_iter().filter(|it| is_of(it, client));
            let listening = of_client.filter(|it| !it.channels.is_empty());
            self.silent.extend(listening.map(|it| ((server.address(), it.id), now)));
        }
    }

    /// Checks that no client keeps a connection that it must close.
    pub(super) fn check(&mut self, site: &Site, peers: &[Arc<Peer>]) -> Result<(), String> {
        self.check_silent(site, peers)?;
        self.check_stale(site, peers)
    }

    fn check_silent(&mut self, site: &Site, peers: &[Arc<Peer>]) -> Result<(), String> {
        if self.silent.is_empty() {
            return Ok(());
        }
        let (before, now) = (std::mem::take(&mut self.silent), Instant::now());
        for server in site.all() {
            let (address, hangs) = (server.address(), site.is_hung(&server));
            for connection in server.connections() {
                let key = (address.clone(), connection.id);
                let peer = peers.iter().find(|it| is_of(&connection, &it.id) && !it.is_dead());
                let (Some(since), Some(peer)) = (before.get(&key), peer) else { continue };
                if !hangs && now > peer.gate.opens().max(*since) + SILENCE {
                    return Err(format!("{} keeps a silent connection to {address}", peer.id));
                }
                // A server notices a closed connection only when it no longer hangs.
                self.silent.insert(key, if hangs { now } else { *since });
            }
        }
        Ok(())
    }

    fn check_stale(&mut self, site: &Site, peers: &[Arc<Peer>]) -> Result<(), String> {
        let (mut before, now) = (std::mem::take(&mut self.stale), Instant::now());
        let replicas = (0..site.shards()).flat_map(|shard| site.replicas(shard));
        for server in replicas.filter(|it| !site.is_hung(it)) {
            let address = server.address();
            for connection in server.connections() {
                let peer = peers.iter().find(|it| it.id == connection.user && !it.is_dead());
                let Some(peer) = peer else { continue };
                let key = (address.clone(), connection.id);
                let since = before.remove(&key).unwrap_or(now);
                let excused = self.excused.get(&peer.id).copied().unwrap_or(since);
                if now > since.max(excused).max(peer.gate.opens()) + self.stays {
                    return Err(format!("{} stays with {address}, which is replaced", peer.id));
                }
                self.stale.insert(key, since);
            }
        }
        Ok(())
    }
}

fn is_of(connection: &Connection, client: &str) -> bool {
    connection.user == client || connection.host == client
}
