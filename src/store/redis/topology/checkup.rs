//! What the nodes of a cluster say of themselves, and what that says of all of it.

use futures_util::future::join_all;
use redis::cmd;
use tokio::time::timeout;

use super::{super::replies, cluster::Cluster, node::Node};
use crate::domain::{About, Failure, Hazard, Role};

impl Cluster {
    /// Asks every node what it says of itself.
    pub(super) async fn look(&self) -> Result<About, Failure> {
        self.keep_up();
        if !self.atlas.has_map() {
            return Err(self.atlas.away(0));
        }
        let nodes = self.atlas.masters();
        let looks = join_all(nodes.iter().map(|(_, node)| self.look_at(node))).await;
        let (looks, failures): (Vec<_>, Vec<_>) = looks.into_iter().partition(Result::is_ok);
        let looks: Vec<(About, bool)> = looks.into_iter().flatten().collect();
        if looks.is_empty() {
            let failure = failures.into_iter().find_map(Result::err);
            return Err(failure.unwrap_or_else(|| self.atlas.away(0)));
        }
        match looks.iter().all(|(_, is_down)| *is_down) {
            true => Err(self.atlas.down()),
            false => Ok(together(looks.into_iter().map(|(about, _)| about).collect())),
        }
    }

    /// What a node says of itself, and whether it says that the cluster is down. One that hangs
    /// must not hold up the others.
    async fn look_at(&self, node: &Node) -> Result<(About, bool), Failure> {
        let limit = self.atlas.common.limit / 2;
        let state = cmd("CLUSTER").arg("INFO").clone();
        let looked =
            async { tokio::join!(node.look(&self.atlas.common), node.commands.call(&state)) };
        let late = |_| Failure::unanswered(format!("nothing within {limit:?}"));
        let (about, state) = timeout(limit, looked).await.map_err(late)?;
        Ok((about?, state.is_ok_and(|it| replies::into_text(&it).contains("cluster_state:fail"))))
    }
}

/// What is to be said of all these nodes.
fn together(looks: Vec<About>) -> About {
    let all_refuse = looks.iter().all(|it| it.hazards.contains(&Hazard::TooFewReplicas));
    let mut about = About { role: Some(Role::ClusterNode), ..About::default() };
    about.hazards.extend(all_refuse.then_some(Hazard::TooFewReplicas));
    for known in looks {
        about.version = about.version.or(known.version);
        // The worst of all is what matters.
        if about.eviction_policy.as_deref().is_none_or(|it| it == "noeviction") {
            about.eviction_policy = known.eviction_policy.or(about.eviction_policy);
        }
    }
    about
}
