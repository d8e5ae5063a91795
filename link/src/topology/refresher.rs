//! Finds the topology of a cluster: at the start, after a redirect or a lost connection, and every
//! few seconds.
//!
//! One task refreshes the topology. This task starts the next round of requests only after the last
//! round has ended. If replies differ, the reply with the highest epoch counts, because a node that
//! was partitioned has an older epoch.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{Cmd, Value, cmd};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

use super::{
    cluster_state::ClusterState, node::Node, slot_map::NO_CLUSTER, slot_map::SlotMap,
    slot_map::address_shown, slot_map::no_cluster,
};
use crate::{
    address::host_port::HostPort, backoff::spread, channels::Channels, error::Error,
    failure::Failure, mutex::Mutex, pubsub::SubscriptionTable,
};

/// How often the topology is refreshed if nothing requests a refresh.
const SELDOM: Duration = Duration::from_secs(5);

/// The shortest and the longest pause between requested refreshes. Within these limits, the pause
/// is 1 / `PART` of the time since the topology last changed. For example, a failover that takes
/// eight seconds is noticed at most one second late. If a node stays unreachable, the pauses grow.
/// So the refreshes cost the other nodes little.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
const PART: u32 = 8;

/// After this time without a request, the pauses start again with the shortest pause.
const QUIET: Duration = Duration::from_secs(1);

/// The number of connected nodes that get a request at once, and a time. Whenever this time passes
/// without a reply, one more node gets a request.
const ASKED: (usize, Duration) = (2, Duration::from_millis(250));

/// Like `ASKED`, for nodes without a connection.
const VISITED: (usize, Duration) = (3, Duration::from_secs(1));

/// How long other nodes may take to reply, after one node has replied.
const OTHERS: Duration = Duration::from_millis(50);

/// Refreshes the topology in a background task.
#[derive(Debug)]
pub(super) struct TopologyRefresher<T: SubscriptionTable> {
    cluster_state: Arc<ClusterState<T>>,
    seeds: Vec<HostPort>,
    /// How many callers request short intervals, because they wait for a node.
    requests: AtomicUsize,
    running: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
}

/// The topology that one node returns, or why it returns none.
type NodeReply = Result<(SlotMap, Option<Channels>), Error>;

impl<T: SubscriptionTable> TopologyRefresher<T> {
    pub(super) fn new(cluster_state: &Arc<ClusterState<T>>, seeds: Vec<HostPort>) -> Arc<Self> {
        Arc::new(Self {
            cluster_state: Arc::clone(cluster_state),
            seeds,
            requests: AtomicUsize::new(0),
            running: AtomicBool::new(false),
            task: Mutex::default(),
        })
    }

    /// Requests the topology from all seeds, until one seed returns it. The returned future waits
    /// for the other seeds, and logs those that fail.
    pub(super) async fn first_look(&self) -> Result<impl Future<Output = ()> + '_, Error> {
        let mut visits: FuturesUnordered<_> = self.seeds.iter().map(|at| self.visit(at)).collect();
        let mut errors = Vec::new();
        while let Some(maps) = visits.next().await {
            match maps {
                Ok((map, channels)) => {
                    self.adopt_newest(vec![(map, channels)]);
                    errors.iter().for_each(log_seed_failure);
                    return Ok(log_failures(visits));
                }
                Err(error) => errors.push(error),
            }
        }
        let lasts = |error: &Error| matches!(error, Error::Connect { permanent: true, .. });
        match errors.iter().position(lasts) {
            Some(lasting) => Err(errors.swap_remove(lasting)),
            None => Err(of_all(errors)),
        }
    }

    /// Starts the task on the runtime of the caller, if the task does not run. For example, the
    /// runtime of the earlier task may have ended.
    ///
    /// # Errors
    ///
    /// If the caller has no runtime.
    pub(super) fn keep_up(self: &Arc<Self>) -> Result<(), Failure> {
        if self.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let runtime = Handle::try_current().map_err(|_| Failure::NoRuntime)?;
        // The lock is taken before the swap, so that handles are stored in the order in which the
        // tasks start.
        let mut task = self.task.lock();
        if !self.running.swap(true, Ordering::AcqRel) {
            let looking = RunningTask(Arc::clone(self));
            *task = Some(runtime.spawn(async move { looking.0.run().await }).abort_handle());
        }
        Ok(())
    }

    /// Ends the task.
    pub(super) fn end(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }

    /// Refreshes in short intervals until the returned value is dropped.
    pub(super) fn request_refresh(&self) -> RefreshRequest<'_> {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.suspect();
        RefreshRequest(&self.requests)
    }

    /// Lets the task refresh the topology soon.
    pub(super) fn suspect(&self) {
        self.cluster_state.common.hub.suspicion.notify_one();
    }

    async fn run(&self) {
        let mut last_news = Instant::now();
        loop {
            if self.look().await {
                last_news = Instant::now();
            }
            let again = self.cluster_state.check_absences();
            sleep(spread(pause(last_news.elapsed()))).await;
            if self.requests.load(Ordering::Acquire) > 0 {
                continue;
            }
            let rests = Instant::now();
            tokio::select! {
                biased;
                () = self.cluster_state.common.hub.suspicion.notified() => {}
                () = sleep(again.unwrap_or_else(|| spread(SELDOM))) => {}
            }
            if rests.elapsed() >= QUIET {
                last_news = Instant::now();
            }
        }
    }

    /// Refreshes once. Returns whether the topology changed.
    async fn look(&self) -> bool {
        let mut nodes = self.cluster_state.masters();
        let primaries = nodes.len();
        nodes.retain(|(_, node)| node.commands.is_up());
        // A minority of the primaries may be cut off from the others, and then has an old topology.
        let is_minority = 2 * nodes.len() < primaries;
        let mut maps = ask_connected(nodes).await;
        if maps.is_empty() || is_minority {
            maps.extend(self.visit_some().await);
        }
        self.adopt_newest(maps)
    }

    /// Adopts the newest map. Returns whether the topology changed.
    fn adopt_newest(&self, mut maps: Vec<(SlotMap, Option<Channels>)>) -> bool {
        maps.sort_by_cached_key(|(map, _)| (map.epoch, map.covered()));
        let channels: Vec<_> = maps.iter().filter_map(|(_, channels)| *channels).collect();
        self.cluster_state.speaks(&channels);
        maps.pop().is_some_and(|(map, _)| self.cluster_state.adopt(map))
    }

    /// Requests the topology from some nodes, over short connections. A seed comes first, because
    /// if all addresses have changed, only a seed still leads to the cluster.
    async fn visit_some(&self) -> Vec<(SlotMap, Option<Channels>)> {
        let all = visited_in_turn(&self.cluster_state.members(), &self.seeds);
        let visits = all.iter().map(|at| -> BoxFuture<'_, NodeReply> { Box::pin(self.visit(at)) });
        let (maps, error) = gather(visits, VISITED).await;
        if let Some(error) = error.filter(|_| maps.is_empty()) {
            tracing::debug!(target: "leasehold", %error, "no node returned the cluster topology");
            self.cluster_state.note(error.to_string());
        }
        maps
    }

    async fn visit(&self, at: &HostPort) -> NodeReply {
        let dialer = self.cluster_state.node_dialer.dialer(at, None)?;
        let (replies, met) = dialer.ask_once(&questions()).await?;
        read(&replies, at, met.is_alone())
    }
}

/// Requests the topology from `nodes`, to which this client has a connection.
async fn ask_connected<T: SubscriptionTable>(
    mut nodes: Vec<(HostPort, Arc<Node<T>>)>,
) -> Vec<(SlotMap, Option<Channels>)> {
    fastrand::shuffle(&mut nodes);
    let ask = |(at, node): (HostPort, Arc<Node<T>>)| -> BoxFuture<'_, NodeReply> {
        Box::pin(async move {
            let replies = node.commands.call_all(&questions()).await;
            let replies = replies.map_err(|failure| unavailability(&at, &failure, false))?;
            read(&replies, &at, false)
        })
    };
    gather(nodes.into_iter().map(ask), ASKED).await.0
}

/// Waits for all of `visits`, and logs those that fail.
async fn log_failures(mut visits: FuturesUnordered<impl Future<Output = NodeReply>>) {
    while let Some(maps) = visits.next().await {
        if let Err(error) = maps {
            log_seed_failure(&error);
        }
    }
}

/// Logs that a seed returned no topology, although another seed did.
fn log_seed_failure(error: &Error) {
    tracing::warn!(target: "leasehold", %error, "node in the URL returned no topology");
}

/// Combines the failures of all seeds.
fn of_all(mut errors: Vec<Error>) -> Error {
    if errors.len() == 1 {
        return errors.swap_remove(0);
    }
    let words = |error: &Error| match error {
        Error::Connect { server, reason, .. } => format!("{server}: {reason}"),
        other => other.to_string(),
    };
    let reason = errors.iter().map(words).collect::<Vec<_>>().join("; ");
    let source = errors.into_iter().find_map(|error| match error {
        Error::Connect { source, .. } => source,
        _ => None,
    });
    Error::Connect { server: "the cluster".into(), reason, permanent: false, source }
}

/// Sends a request to `at_once` nodes at the same time. Adds one more node after each failure, and
/// whenever `silence` passes without a reply. Returns all replies that come soon after the first
/// reply, and the last error. Each request must end by its own timeout.
async fn gather<'a>(
    mut left: impl Iterator<Item = BoxFuture<'a, NodeReply>>,
    (at_once, silence): (usize, Duration),
) -> (Vec<(SlotMap, Option<Channels>)>, Option<Error>) {
    let (mut maps, mut failed) = (Vec::new(), None);
    let mut asked: FuturesUnordered<_> = left.by_ref().take(at_once).collect();
    let (mut until, mut next) = (None, Instant::now() + silence);
    loop {
        match timeout_at(until.unwrap_or(next), asked.next()).await {
            Ok(Some(Ok(one))) => {
                until.get_or_insert_with(|| Instant::now() + OTHERS);
                maps.push(one);
            }
            Ok(Some(Err(error))) => {
                failed = Some(error);
                if maps.is_empty() {
                    asked.extend(left.next());
                }
            }
            Err(_) if until.is_none() => {
                next = Instant::now() + silence;
                asked.extend(left.next());
            }
            Ok(None) | Err(_) => return (maps, failed),
        }
    }
}

/// Returns all addresses in the order of visits: a seed first, the others at random.
fn visited_in_turn(members: &BTreeSet<HostPort>, seeds: &[HostPort]) -> Vec<HostPort> {
    let all: BTreeSet<_> = members.iter().chain(seeds).cloned().collect();
    let mut all: Vec<_> = all.into_iter().collect();
    fastrand::shuffle(&mut all);
    if let Some(seed) = all.iter().position(|at| seeds.contains(at)) {
        all.swap(0, seed);
    }
    all
}

/// Returns the pause before the next refresh. `without_news` is the time since the topology last
/// changed.
fn pause(without_news: Duration) -> Duration {
    (without_news / PART).clamp(PAUSES.0, PAUSES.1)
}

/// Returns the commands that request the topology. A node without sharded channels rejects the last
/// command. Redisson checks for sharded channels by the same command.
fn questions() -> [Cmd; 3] {
    let ask = |words: &[&str]| cmd(words[0]).arg(&words[1..]).clone();
    [ask(&["CLUSTER", "SLOTS"]), ask(&["CLUSTER", "NODES"]), ask(&["PUBSUB", "SHARDNUMSUB", "0"])]
}

/// Parses the replies of the node at `at`. If `alone`, this node replied that it is not a cluster
/// node.
fn read(replies: &[Value], at: &HostPort, alone: bool) -> NodeReply {
    let unavailability = |failure: &Failure| unavailability(at, failure, alone);
    let [slots, nodes, channels] = replies else {
        return Err(unavailability(&Failure::Unreadable(
            "the server sent fewer replies than requests".into(),
        )));
    };
    let map = SlotMap::read(slots, nodes, at).map_err(|failure| unavailability(&failure))?;
    let channels = match channels {
        Value::ServerError(_) => Channels::Plain,
        _ => Channels::Sharded,
    };
    Ok((map, Some(channels)))
}

/// Explains why the node at `at` returned no topology.
fn unavailability(at: &HostPort, failure: &Failure, alone: bool) -> Error {
    let lacks_a_right = matches!(failure, Failure::Refused { code, .. } if code == "NOPERM");
    // A denied command does not show whether the server has cluster support.
    let none = no_cluster(failure).or_else(|| (alone && lacks_a_right).then_some(NO_CLUSTER));
    let reason = match none {
        Some(none) => none.to_owned(),
        None if lacks_a_right => format!("{failure}; see the ACL page of the guide"),
        None => failure.to_string(),
    };
    let lasting = none.is_some() || !failure.is_temporary();
    Error::Connect { server: address_shown(at), reason, permanent: lasting, source: None }
}

/// A request for short intervals, which ends when this value is dropped.
pub(super) struct RefreshRequest<'a>(&'a AtomicUsize);

impl Drop for RefreshRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The running task. When its runtime ends, this value is dropped, so that another task can start.
struct RunningTask<T: SubscriptionTable>(Arc<TopologyRefresher<T>>);

impl<T: SubscriptionTable> Drop for RunningTask<T> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> HostPort {
        HostPort { host: "10.0.0.1".into(), port }
    }

    /// Former bug: the client visited three of 16 addresses at random. Only the seed led to the
    /// cluster.
    #[test]
    fn topology_refresher_asks_a_node_of_the_url_first() {
        let (members, seeds) = ((1..16).map(at).collect(), [at(99), at(7)]);
        for _ in 0..50 {
            let mut all = visited_in_turn(&members, &seeds);
            assert!(seeds.contains(&all[0]), "{all:?}");
            all.sort();
            assert_eq!(all, [members.iter().cloned().collect(), vec![at(99)]].concat());
        }
    }

    #[test]
    fn refresh_pauses_grow_while_the_topology_is_unchanged() {
        let after = |seconds| pause(Duration::from_secs(seconds));
        assert_eq!(
            [after(0), after(4), after(600)],
            [PAUSES.0, Duration::from_millis(500), PAUSES.1]
        );
    }

    fn silent<'a>() -> BoxFuture<'a, NodeReply> {
        Box::pin(std::future::pending())
    }

    fn answering<'a>() -> BoxFuture<'a, NodeReply> {
        let map = SlotMap::read(&Value::Array(vec![]), &Value::Nil, &at(1)).unwrap();
        Box::pin(async { Ok((map, None)) })
    }

    fn failing<'a>() -> BoxFuture<'a, NodeReply> {
        Box::pin(async { Err(Error::NoRuntime) })
    }

    #[tokio::test(start_paused = true)]
    async fn topology_refresher_asks_more_nodes_when_the_first_nodes_fail() {
        let (long, start) = (Duration::from_secs(5), Instant::now());
        let (maps, _) = gather([failing(), answering()].into_iter(), (1, long)).await;
        assert_eq!((maps.len(), start.elapsed()), (1, Duration::ZERO));

        let three = [silent(), silent(), answering()].into_iter();
        let (maps, _) = gather(three, ASKED).await;
        assert_eq!((maps.len(), start.elapsed()), (1, ASKED.1 + OTHERS));
    }
}
