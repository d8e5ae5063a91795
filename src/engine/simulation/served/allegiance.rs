//! Whose clients stay with a server that another one has replaced.
//!
//! | rule | broken when |
//! |---|---|
//! | a replaced server is left | a connection of a client to it outlives the replacement by some seconds |

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    peer::Peer,
    plot::{Kind, Plot},
    site::Site,
};

/// Connections to servers that are not in charge, and since when.
pub(super) struct Allegiance {
    stays: Duration,
    strays: BTreeMap<(String, u64), Instant>,
    /// Clients that cannot know better, and until when.
    excused: BTreeMap<String, Instant>,
}

impl Allegiance {
    pub(super) fn of(site: &Site, plot: &Plot) -> Self {
        let stays = match (site, plot.kind) {
            // A node to which a slot was on its way is kept for a while, and the map is looked at
            // seldom where nothing is asked.
            (Site::Nodes(..), _) => Duration::from_secs(24),
            (_, Kind::Switched) => Duration::from_secs(1),
            _ => Duration::from_secs(4),
        };
        Self { stays, strays: BTreeMap::new(), excused: BTreeMap::new() }
    }

    /// A client hears of nothing for so long.
    pub(super) fn excuse(&mut self, client: &str, lasts: Duration) {
        let until = Instant::now() + lasts;
        let known = self.excused.entry(client.to_owned()).or_insert(until);
        *known = until.max(*known);
    }

    /// Looks whether a client stays where it must not.
    pub(super) fn look(&mut self, site: &Site, peers: &[Arc<Peer>]) -> Result<(), String> {
        let (mut before, now) = (std::mem::take(&mut self.strays), Instant::now());
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
                self.strays.insert(key, since);
            }
        }
        Ok(())
    }
}
