//! A primary with its replicas, and the sentinels that watch the primary.
//!
//! A failover happens when the test commands it. Each sentinel learns of the failover after the
//! delay of the [`gossip`](Sentinels::gossip). A sentinel that is stopped, dead or isolated learns
//! of the failover as soon as it can.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::sleep;

use super::{
    Twin,
    commands::SENTINEL_TABLE,
    core::{
        replica,
        watch::{Sentinel, Watched},
    },
    delay::Delay,
    faults::Cut,
    net::Net,
};

/// A primary, its replicas and its sentinels. A clone is a handle of the same servers.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use leasehold_twin::{Delay, Net, Sentinels};
///
/// let watched = Sentinels::start(&Net::new(7), 3, 1, Delay::None);
/// watched.fail_over().unwrap();
/// assert!(watched.servers()[0].is_replica());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Sentinels(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    servers: Vec<Twin>,
    sentinels: Vec<Twin>,
    addresses: Vec<String>,
    truth: Mutex<Truth>,
}

#[derive(Debug)]
struct Truth {
    watched: Watched,
    primary: usize,
    gossip: Delay,
    lag: Delay,
    random: fastrand::Rng,
}

impl Sentinels {
    /// The name that the sentinels use for the primary.
    pub const NAME: &str = "mymaster";

    /// Creates this number of `sentinels`, and a primary with this number of `replicas`. The
    /// replicas receive writes after `lag`.
    #[must_use]
    pub fn start(net: &Net, sentinels: usize, replicas: usize, lag: Delay) -> Self {
        let servers: Vec<_> =
            (1..=replicas + 1).map(|at| net.start(&format!("10.0.2.{at}:6379"))).collect();
        servers.iter().skip(1).for_each(|it| it.follow(&servers[0], lag));
        let addresses: Vec<_> = (1..=sentinels).map(|at| format!("10.0.3.{at}:26379")).collect();
        let sentinels: Vec<_> = addresses.iter().map(|at| net.start(at)).collect();
        let mut random = fastrand::Rng::with_seed(net.seed());
        let mut known = |it: &Twin| Sentinel {
            id: format!("{:032x}{:08x}", random.u128(..), random.u32(..)),
            address: it.core().address.clone(),
            is_down: false,
        };
        let watched = Watched {
            version: 0,
            name: Self::NAME.into(),
            primary: servers[0].core().address.clone(),
            replicas,
            epoch: 0,
            quorum: sentinels.len() / 2 + 1,
            sentinels: sentinels.iter().map(&mut known).collect(),
        };
        sentinels.iter().for_each(|it| it.core().table = &SENTINEL_TABLE);
        let truth = Truth { watched, primary: 0, gossip: Delay::None, lag, random };
        let inner = Inner { servers, sentinels, addresses, truth: Mutex::new(truth) };
        let deployment = Self(Arc::new(inner));
        deployment.spread();
        deployment
    }

    /// Returns the addresses of the sentinels.
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Returns the sentinels, in the order of their addresses.
    pub fn sentinels(&self) -> &[Twin] {
        &self.0.sentinels
    }

    /// Returns the servers. The server that was the first primary comes first.
    pub fn servers(&self) -> &[Twin] {
        &self.0.servers
    }

    /// Returns the primary.
    pub fn primary(&self) -> Twin {
        self.0.servers[self.truth().primary].clone()
    }

    /// Sets how long a change travels to each sentinel from now on.
    pub fn gossip(&self, delay: Delay) {
        self.truth().gossip = delay;
    }

    /// Promotes a replica with its current data, and disconnects the clients of the replica. As
    /// soon as the other servers learn of the failover, they follow the new primary and disconnect
    /// their clients. Returns the new primary, or `None` if no replica runs and can reach the other
    /// servers.
    pub fn fail_over(&self) -> Option<Twin> {
        let mut truth = self.truth();
        let (old, lag) = (truth.primary, truth.lag);
        let runs = |at: &usize| self.0.servers[*at].core().faults.is_among_others();
        let new = (0..self.0.servers.len()).filter(|at| *at != old).find(runs)?;
        let promoted = self.0.servers[new].clone();
        truth.primary = new;
        truth.watched.primary = promoted.core().address.clone();
        truth.watched.epoch += 1;
        drop(truth);
        replica::promote(&promoted.shared, false);
        promoted.cut(Cut::Whole, |_| true);
        for (at, server) in self.0.servers.iter().enumerate().filter(|(at, _)| *at != new) {
            let (deployment, server, primary) = (self.clone(), server.clone(), promoted.clone());
            let demote = move || {
                // If there was a newer failover meanwhile, the server ignores this failover.
                if deployment.truth().primary == new {
                    server.follow(&primary, lag);
                    server.cut(Cut::Whole, |_| true);
                }
            };
            self.when_reached(&self.0.servers[at], demote);
        }
        self.spread();
        Some(promoted)
    }

    /// Marks a sentinel as down, or as up, in the state of the other sentinels.
    pub fn set_down(&self, sentinel: usize, is_down: bool) {
        self.truth().watched.sentinels[sentinel].is_down = is_down;
        self.spread();
    }

    /// Sends a change to all sentinels.
    fn spread(&self) {
        let mut truth = self.truth();
        truth.watched.version += 1;
        let watched = Arc::new(truth.watched.clone());
        drop(truth);
        for sentinel in &self.0.sentinels {
            let (twin, watched) = (sentinel.clone(), Arc::clone(&watched));
            self.when_reached(sentinel, move || twin.core().watches(&watched));
        }
    }

    /// Calls a function as soon as gossip has reached a server.
    fn when_reached(&self, server: &Twin, work: impl FnOnce() + Send + 'static) {
        let mut truth = self.truth();
        let gossip = truth.gossip;
        let delay = gossip.draw(&mut truth.random);
        drop(truth);
        if delay.is_zero() && server.core().faults.is_among_others() {
            return work();
        }
        let server = server.clone();
        tokio::spawn(async move {
            sleep(delay).await;
            server.shared.among_others().await;
            work();
        });
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.0.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
