//! The health checks of all nodes of a cluster, combined into one result.

use futures_util::future::join_all;
use redis::cmd;

use super::{cluster::Cluster, node::Node, slot_map::address_shown};
use crate::{
    failure::Failure,
    hazard::Hazard,
    health::{About, Role},
    pubsub::SubscriptionTable,
    replies,
};

impl<T: SubscriptionTable> Cluster<T> {
    /// Checks the health of every node.
    pub(super) async fn check(&self) -> About {
        self.keep_up();
        if !self.cluster_state.has_map() {
            return About::of(Vec::new(), Err(self.cluster_state.failure(0)));
        }
        let nodes = self.cluster_state.masters();
        let checks =
            nodes.iter().map(|(at, node)| node.check(address_shown(at), self.look_at(node)));
        let (mut nodes, looks): (Vec<_>, Vec<_>) = join_all(checks).await.into_iter().unzip();
        nodes.extend(self.cluster_state.undialled());
        About::of(nodes, self.summary(looks))
    }

    /// Combines the results of the nodes. Fails if all checks failed, or if all nodes report that
    /// the cluster is down.
    fn summary(&self, looks: Vec<Result<About, Failure>>) -> Result<About, Failure> {
        let (looks, failures): (Vec<_>, Vec<_>) = looks.into_iter().partition(Result::is_ok);
        let looks: Vec<About> = looks.into_iter().flatten().collect();
        if looks.is_empty() {
            let failure = failures.into_iter().find_map(Result::err);
            return Err(failure.unwrap_or_else(|| self.cluster_state.failure(0)));
        }
        match looks.iter().all(|it| it.cluster_down) {
            true => Err(self.cluster_state.down()),
            false => Ok(together(looks)),
        }
    }

    /// Checks the health of one node, and asks it for the state of the cluster.
    async fn look_at(&self, node: &Node<T>) -> Result<About, Failure> {
        let state = cmd("CLUSTER").arg("INFO").clone();
        // If the node is unreachable, `look` fails at once, and `try_join!` drops the request for
        // the state. Without `try_join!`, this request would wait for a connection.
        let (about, state) =
            tokio::try_join!(node.look(), async { Ok(node.commands.call(&state).await) })?;
        let is_down = state.is_ok_and(|it| replies::into_text(&it).contains("cluster_state:fail"));
        Ok(About { cluster_down: is_down, ..about })
    }
}

/// Combines the reports of the nodes.
fn together(looks: Vec<About>) -> About {
    let all_refuse = looks.iter().all(|it| it.hazards.contains(&Hazard::TooFewReplicas));
    let mut about = About { role: Some(Role::ClusterNode), ..About::default() };
    about.hazards.extend(all_refuse.then_some(Hazard::TooFewReplicas));
    for known in looks {
        about.version = about.version.or(known.version);
        // The most dangerous eviction policy of all nodes counts.
        if about.eviction_policy.as_deref().is_none_or(|it| it == "noeviction") {
            about.eviction_policy = known.eviction_policy.or(about.eviction_policy);
        }
    }
    about
}
