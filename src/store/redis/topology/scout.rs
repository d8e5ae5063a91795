//! Finds out who is where in a cluster: at the beginning, when something is not where it was
//! looked for, and seldom on its own.
//!
//! One task, one look at a time. Of several answers the one is believed of whoever knows of the
//! newest change: a node that was cut off, or has not been told yet, knows less.

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
    super::{channels::Channels, connection::HostPort},
    atlas::Atlas,
    map::{Map, NO_CLUSTER, address_shown, no_cluster},
};
use crate::{
    domain::{Backoff, Failure, Mutex, spread},
    error::Error,
};

/// How often it looks when nothing is suspected.
const SELDOM: Duration = Duration::from_secs(5);

/// The first and the longest pause while somebody waits for a node that is away.
const HURRIED: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// The shortest pause otherwise: many may suspect the same.
const REST: Duration = Duration::from_millis(50);

/// How long those are waited for to whom there is a connection, and those who are visited.
const AT_HAND: Duration = Duration::from_millis(250);
const ON_A_VISIT: Duration = Duration::from_secs(1);

/// How long others are waited for after the first answer.
const OTHERS: Duration = Duration::from_millis(50);

/// So many nodes are asked in one look; so many others are visited if none of them answers.
const ASKED: usize = 5;
const VISITED: usize = 3;

/// Looks for the nodes.
#[derive(Debug)]
pub(super) struct Scout {
    atlas: Arc<Atlas>,
    seeds: Vec<HostPort>,
    /// How many wait for a node that is away.
    hurried: AtomicUsize,
    running: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
}

/// What one node says, or why it does not.
type Said = Result<(Map, Option<Channels>), Error>;

impl Scout {
    pub(super) fn new(atlas: &Arc<Atlas>, seeds: Vec<HostPort>) -> Arc<Self> {
        Arc::new(Self {
            atlas: Arc::clone(atlas),
            seeds,
            hurried: AtomicUsize::new(0),
            running: AtomicBool::new(false),
            task: Mutex::default(),
        })
    }

    /// Asks all seeds, until one says who is where. What is returned waits for the others, and
    /// tells of those that do not say it.
    pub(super) async fn first_look(&self) -> Result<impl Future<Output = ()> + '_, Error> {
        let mut visits: FuturesUnordered<_> = self.seeds.iter().map(|at| self.visit(at)).collect();
        let mut errors = Vec::new();
        while let Some(said) = visits.next().await {
            match said {
                Ok((map, channels)) => {
                    self.believe(vec![(map, channels)]);
                    errors.iter().for_each(tell_of_seed);
                    return Ok(told_of(visits));
                }
                Err(error) => errors.push(error),
            }
        }
        let lasts = |error: &Error| matches!(error, Error::Connect { lasting: true, .. });
        match errors.iter().position(lasts) {
            Some(lasting) => Err(errors.swap_remove(lasting)),
            None => Err(of_all(errors)),
        }
    }

    /// Sees to it that somebody looks, on the runtime of the caller if that of the one before
    /// is gone.
    ///
    /// # Errors
    ///
    /// If there is no runtime.
    pub(super) fn keep_up(self: &Arc<Self>) -> Result<(), Failure> {
        if self.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let runtime = Handle::try_current().map_err(|_| Failure::NoRuntime)?;
        // Locked before: whoever looks next is noted next.
        let mut task = self.task.lock();
        if !self.running.swap(true, Ordering::AcqRel) {
            let looking = Looking(Arc::clone(self));
            *task = Some(runtime.spawn(async move { looking.0.run().await }).abort_handle());
        }
        Ok(())
    }

    /// Looks no more.
    pub(super) fn end(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }

    /// Has it look quickly, as long as what is returned lives.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::AcqRel);
        self.suspect();
        Hurry(self)
    }

    /// Has it look soon.
    pub(super) fn suspect(&self) {
        self.atlas.common.hub.suspicion.notify_one();
    }

    async fn run(&self) {
        let mut backoff = Backoff::default();
        loop {
            self.look().await;
            let again = self.atlas.look_for_the_away();
            if self.hurried.load(Ordering::Acquire) > 0 {
                sleep(backoff.next(HURRIED)).await;
                continue;
            }
            backoff = Backoff::default();
            sleep(REST).await;
            tokio::select! {
                () = self.atlas.common.hub.suspicion.notified() => {}
                () = sleep(again.unwrap_or_else(|| spread(SELDOM))) => {}
            }
        }
    }

    /// Looks once.
    async fn look(&self) {
        let mut maps = self.ask_the_living().await;
        if maps.is_empty() {
            maps = self.visit_some().await;
        }
        self.believe(maps);
    }

    /// Believes whoever knows most.
    fn believe(&self, mut said: Vec<(Map, Option<Channels>)>) {
        said.sort_by_cached_key(|(map, _)| (map.epoch, map.covered()));
        let channels: Vec<_> = said.iter().filter_map(|(_, channels)| *channels).collect();
        self.atlas.speaks(&channels);
        if let Some((map, _)) = said.pop() {
            self.atlas.adopt(map);
        }
    }

    /// What those say to whom there is a connection.
    async fn ask_the_living(&self) -> Vec<(Map, Option<Channels>)> {
        let mut nodes = self.atlas.masters();
        nodes.retain(|(_, node)| node.commands.is_up());
        fastrand::shuffle(&mut nodes);
        nodes.truncate(ASKED);
        let ask = |(at, node): (HostPort, Arc<super::node::Node>)| -> BoxFuture<'_, Said> {
            Box::pin(async move {
                let replies = node.commands.call_all(&questions()).await;
                let replies = replies.map_err(|failure| in_the_way(&at, &failure, false))?;
                read(&replies, &at, false)
            })
        };
        gather(nodes.into_iter().map(ask).collect(), AT_HAND).await.0
    }

    /// What some say who are visited for that.
    async fn visit_some(&self) -> Vec<(Map, Option<Channels>)> {
        let all: BTreeSet<HostPort> =
            self.atlas.members().into_iter().chain(self.seeds.iter().cloned()).collect();
        let mut all: Vec<HostPort> = all.into_iter().collect();
        fastrand::shuffle(&mut all);
        all.truncate(VISITED);
        let visits = all.iter().map(|at| -> BoxFuture<'_, Said> { Box::pin(self.visit(at)) });
        let (said, error) = gather(visits.collect(), ON_A_VISIT).await;
        if let Some(error) = error.filter(|_| said.is_empty()) {
            tracing::debug!(target: "leasehold", %error, "nobody says who is where in the cluster");
            self.atlas.note(error.to_string());
        }
        said
    }

    async fn visit(&self, at: &HostPort) -> Said {
        let dialer = self.atlas.way.dialer(at, None)?;
        let (replies, met) = dialer.ask_once(&questions()).await?;
        read(&replies, at, met.is_alone())
    }
}

/// Waits for all of `visits`, and tells of those in vain.
async fn told_of(mut visits: FuturesUnordered<impl Future<Output = Said>>) {
    while let Some(said) = visits.next().await {
        if let Err(error) = said {
            tell_of_seed(&error);
        }
    }
}

/// One of the seeds does not say who is where, and another one does.
fn tell_of_seed(error: &Error) {
    tracing::warn!(target: "leasehold", %error, "a node in the URL says nothing of the cluster");
}

/// What is in the way at each of the seeds.
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
    Error::Connect { server: "the cluster".into(), reason, lasting: false, source }
}

/// All that come soon after the first, and the last error.
async fn gather(
    mut asked: FuturesUnordered<BoxFuture<'_, Said>>,
    at_most: Duration,
) -> (Vec<(Map, Option<Channels>)>, Option<Error>) {
    let (mut said, mut failed) = (Vec::new(), None);
    let mut until = Instant::now() + at_most;
    while let Ok(Some(one)) = timeout_at(until, asked.next()).await {
        match one {
            Ok(one) => {
                if said.is_empty() {
                    until = until.min(Instant::now() + OTHERS);
                }
                said.push(one);
            }
            Err(error) => failed = Some(error),
        }
    }
    (said, failed)
}

/// What a node is asked. The last one it answers if it knows channels that lie in slots:
/// Redisson asks the same.
fn questions() -> [Cmd; 3] {
    let ask = |words: &[&str]| cmd(words[0]).arg(&words[1..]).clone();
    [ask(&["CLUSTER", "SLOTS"]), ask(&["CLUSTER", "NODES"]), ask(&["PUBSUB", "SHARDNUMSUB", "0"])]
}

/// Reads what the node at `at` was asked. `alone`: it has said that it is no node of a cluster.
fn read(replies: &[Value], at: &HostPort, alone: bool) -> Said {
    let in_the_way = |failure: &Failure| in_the_way(at, failure, alone);
    let [slots, nodes, channels] = replies else {
        return Err(in_the_way(&Failure::Unreadable("too few replies".into())));
    };
    let map = Map::read(slots, nodes, at).map_err(|failure| in_the_way(&failure))?;
    let channels = match channels {
        Value::ServerError(_) => Channels::Plain,
        _ => Channels::Sharded,
    };
    Ok((map, Some(channels)))
}

/// What `failure` means to who wants to know of the node at `at` who is where.
fn in_the_way(at: &HostPort, failure: &Failure, alone: bool) -> Error {
    let lacks_a_right = matches!(failure, Failure::Refused { code, .. } if code == "NOPERM");
    // Who may not ask is not told that there is no cluster.
    let none = no_cluster(failure).or_else(|| (alone && lacks_a_right).then_some(NO_CLUSTER));
    let reason = match none {
        Some(none) => none.to_owned(),
        None if lacks_a_right => format!("{failure}: see the guide on permissions"),
        None => failure.to_string(),
    };
    let lasting = none.is_some() || !failure.may_pass();
    Error::Connect { server: address_shown(at), reason, lasting, source: None }
}

/// While it lives the scout looks quickly.
pub(super) struct Hurry<'a>(&'a Scout);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.hurried.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whoever looks now. When its runtime is gone another one may.
struct Looking(Arc<Scout>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}
