//! Makes one connection to the primary and logs in, or returns why the attempt failed.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::{
    address::target::Place, channels::Channels, error::Error, hazard::Finding, health::About,
    pipe::connector::Connector,
};
use crate::{
    address::{
        settings::{OnLoss, Preload, Settings},
        target::{Address, Target},
    },
    connect_failure::ConnectFailure,
    discovery::primary_discovery::PrimaryDiscovery,
    pipe::{
        ending::Ending,
        wire::{OnPush, Wire},
    },
    session::{
        about,
        login::{Login, greet},
        reach::{Driver, Reach, silence},
    },
};

/// How long the other addresses may take to reply, after a primary has replied. In this time, the
/// client finds out whether a second server is also a primary.
const GRACE: Duration = Duration::from_millis(50);

/// How long the other addresses may take to reply, after one server has failed. A server that is
/// not the primary counts as failed.
const REPLY_WAIT: Duration = Duration::from_secs(1);

/// A connection, the future that carries its bytes, and the server that it leads to.
pub(super) struct Dialled {
    pub(crate) wire: Arc<Wire>,
    pub(crate) driver: Driver,
    pub(crate) address: Address,
    pub(crate) about: About,
}

/// The purpose of a connection.
pub(super) struct Purpose {
    /// Receives the messages that the server pushes.
    pub(crate) on_push: OnPush,
    /// Whether the connection carries commands, including scripts.
    pub(crate) commands: bool,
}

/// Finds one server, whose address may change, and connects to it.
#[derive(Debug)]
pub(crate) struct Dialer {
    target: Target,
    discovery: PrimaryDiscovery,
    reach: Arc<Reach>,
    client_name: String,
    preloads: Vec<Preload>,
    limit: Duration,
    /// Whether another node of the same cluster has accepted the login.
    earlier_login: bool,
    /// Counts lost connections.
    on_loss: OnLoss,
}

impl Dialer {
    /// Returns a dialer for `target`, whose connections are named after `client_id`. Connections
    /// for commands load the scripts in `preloads`.
    pub(crate) fn new(
        target: Target,
        settings: &Settings,
        client_id: &str,
        preloads: Vec<Preload>,
    ) -> Result<Self, Error> {
        let reach = Reach::to(&target.place, settings)?;
        Self::by(reach, target, settings, client_id, preloads)
    }

    /// Like [`new`](Self::new), but opens streams by `reach`, which other dialers also use.
    pub(crate) fn by(
        reach: Arc<Reach>,
        target: Target,
        settings: &Settings,
        client_id: &str,
        preloads: Vec<Preload>,
    ) -> Result<Self, Error> {
        let client_name = format!("leasehold:{client_id}");
        reach.can_reach(&target.place)?;
        let place = target.place.clone();
        let discovery = PrimaryDiscovery::of(place, settings, &reach, &client_name)?;
        let limit = settings.connect_timeout;
        let earlier_login = false;
        let on_loss = settings.on_loss;
        Ok(Self { target, discovery, reach, client_name, preloads, limit, earlier_login, on_loss })
    }

    /// Returns a dialer for a simulated server.
    pub(crate) fn simulated(connector: Connector, settings: &Settings, client_id: &str) -> Self {
        let host = "simulated".to_owned();
        let place = Place::At(Address::Tcp { host, port: 6379, tls: false });
        let discovery = PrimaryDiscovery::new(place.clone(), None);
        let (user, password) = (settings.user.clone(), settings.password.clone());
        Self {
            target: Target { place, user, password, database: 0 },
            discovery,
            reach: Reach::simulated(connector),
            client_name: format!("leasehold:{client_id}"),
            preloads: (settings.scripts)(Channels::Plain),
            limit: settings.connect_timeout,
            earlier_login: false,
            on_loss: settings.on_loss,
        }
    }

    /// Records that another node of the cluster has accepted the login.
    pub(crate) fn after_earlier_login(self) -> Self {
        Self { earlier_login: true, ..self }
    }

    pub(crate) fn discovery(&self) -> &PrimaryDiscovery {
        &self.discovery
    }

    pub(crate) fn lost(&self, server: &str, traffic: &'static str) {
        (self.on_loss)(server, traffic);
    }

    /// Returns the address of the server, or the sentinels that name its address.
    pub(crate) fn place(&self) -> String {
        self.discovery.to_string()
    }

    /// Returns the hazards that the search for the server found.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let place = self.place();
        self.discovery.hazards().into_iter().map(|it| Finding::at(&place, it)).collect()
    }

    /// Returns whether `other` dials the same addresses.
    pub(crate) fn has_same_target(&self, other: &Self) -> bool {
        self.target.place == other.target.place
    }

    /// Returns whether the address of the server may change.
    pub(crate) fn may_change(&self) -> bool {
        self.discovery.may_change()
    }

    /// Checks the roles of the servers at the other addresses, and records the primaries.
    pub(crate) async fn check_other_addresses(&self) {
        let others = self.discovery.other_addresses();
        let asked = join_all(others.iter().map(|it| self.is_primary(it))).await;
        let is_one = |(address, is_primary): (&Address, Option<bool>)| {
            let address = address.to_string();
            is_primary.unwrap_or_else(|| self.discovery.is_other(&address)).then_some(address)
        };
        self.discovery.found(others.into_iter().zip(asked).filter_map(is_one).collect());
    }

    /// Returns whether the server at `address` is a primary. If the connection fails, returns
    /// false. Returns `None` after the timeout, because the server may be a primary that other
    /// clients can still reach.
    async fn is_primary(&self, address: &Address) -> Option<bool> {
        let met = timeout(self.limit, self.meet(address)).await.ok()?;
        Some(met.is_some_and(|it| about::must_be_primary(&it).is_ok()))
    }

    /// Connects, sends the greeting and disconnects.
    async fn meet(&self, address: &Address) -> Option<About> {
        let (wire, mut driver) = self.reach.open(address, None).await.ok()?;
        let greeted = greet(&wire, self.target.user.as_deref(), self.target.password.as_ref());
        tokio::select! {
            biased;
            greeted = greeted => about::greeted(&greeted?.ok()?).ok(),
            _ = &mut driver => None,
        }
    }

    /// Finds the server, connects, and logs in for `purpose`, within the connect timeout. A
    /// connection for commands also loads the scripts.
    pub(super) async fn dial(&self, purpose: &Purpose) -> Result<Dialled, ConnectFailure> {
        let dialled = tokio::select! {
            biased;
            dialled = self.find(purpose) => dialled,
            never = self.discovery.keep_informed() => match never {},
        };
        if let Ok(dialled) = &dialled {
            self.discovery.connected(&dialled.about);
        }
        dialled
    }

    /// Returns the error of a connection attempt that ended with `failure`.
    pub(crate) fn error(&self, failure: ConnectFailure) -> Error {
        failure.before(self.discovery.to_string())
    }

    async fn find(&self, purpose: &Purpose) -> Result<Dialled, ConnectFailure> {
        let until = Instant::now() + self.limit;
        loop {
            let Ok(now) = timeout_at(until, self.discovery.now()).await else {
                return Err(self.discovery.failure().unwrap_or_else(|| self.silence(&[])));
            };
            let addresses = now?;
            let found = timeout_at(until, self.primary(&addresses, purpose));
            tokio::select! {
                biased;
                found = found => return found.unwrap_or_else(|_| Err(self.silence(&addresses))),
                _ = self.discovery.leaves(&addresses) => {}
            }
        }
    }

    /// Connects, sends `commands` and disconnects, within the connect timeout. Returns the replies
    /// and the server.
    pub(crate) async fn ask_once(&self, commands: &[Cmd]) -> Result<(Vec<Value>, About), Error> {
        let purpose = Purpose { on_push: Arc::new(|_| {}), commands: false };
        let Dialled { wire, mut driver, about, .. } =
            self.dial(&purpose).await.map_err(|it| self.error(it))?;
        let asked = async {
            tokio::select! {
                biased;
                Ok(replies) = wire.call_all(commands) => Ok(replies),
                ending = &mut driver => Err(ConnectFailure::from(ending)),
            }
        };
        let late = |_| Err(self.silence(self.target.place.addresses()));
        let asked = timeout(self.limit, asked).await.unwrap_or_else(late);
        asked.map(|replies| (replies, about)).map_err(|failure| self.error(failure))
    }

    /// Returns the failure for servers at `addresses` that have not replied in time.
    fn silence(&self, addresses: &[Address]) -> ConnectFailure {
        let silent = |it: &Address| match self.discovery.origin(it) {
            Some(origin) => {
                ConnectFailure::passing(format!("{}; {origin}", silence(self.limit, it)))
            }
            None => silence(self.limit, it),
        };
        let silences = addresses.iter().map(|it| self.located(it, silent(it)));
        ConnectFailure::of_all(silences)
    }

    /// Adds `address` to the failure if the address of the server may change.
    fn located(&self, address: &Address, failure: ConnectFailure) -> ConnectFailure {
        match self.discovery.may_change() {
            true => failure.at(address),
            false => failure,
        }
    }

    /// Connects to all `addresses` at once, and returns the connection to the primary.
    async fn primary(
        &self,
        addresses: &[Address],
        purpose: &Purpose,
    ) -> Result<Dialled, ConnectFailure> {
        let asks = addresses.iter().map(|it| self.connect(it, purpose));
        let mut asked: FuturesUnordered<_> = asks.collect();
        let (mut found, mut failures) = (None::<Dialled>, vec![]);
        let (began, mut deadline) = (Instant::now(), None);
        loop {
            let answer = tokio::select! {
                biased;
                answer = asked.next() => answer,
                () = sleep_until(deadline.unwrap_or(began)), if deadline.is_some() => None,
            };
            match (answer, &found) {
                (None, _) => break,
                (Some(Ok(other)), Some(one)) => return Err(two(one, &other)),
                (Some(Ok(one)), None) => {
                    deadline = Some(Instant::now() + GRACE);
                    found = Some(one);
                }
                (Some(Err(failure)), _) => {
                    deadline.get_or_insert_with(|| Instant::now() + REPLY_WAIT);
                    failures.push(failure);
                }
            }
        }
        if !asked.is_empty() {
            failures.push(ConnectFailure::passing("other addresses do not reply"));
        }
        found.ok_or_else(|| ConnectFailure::of_all(failures))
    }

    async fn connect(
        &self,
        address: &Address,
        purpose: &Purpose,
    ) -> Result<Dialled, ConnectFailure> {
        let connected = self.log_in(address, purpose).await;
        connected.map_err(|failure| self.located(address, failure))
    }

    async fn log_in(
        &self,
        address: &Address,
        purpose: &Purpose,
    ) -> Result<Dialled, ConnectFailure> {
        let opened = self.reach.open(address, Some(Arc::clone(&purpose.on_push))).await;
        let (wire, mut driver) =
            opened.map_err(|failure| failure.unreached(self.discovery.origin(address)))?;
        let Self { target, client_name, .. } = self;
        let preloads = if purpose.commands { self.preloads.as_slice() } else { &[] };
        let among_others = self.discovery.may_change();
        let login = Login { target, client_name, preloads, among_others };
        let earlier_login = self.earlier_login || self.discovery.has_accepted_login();
        let (address, server) = (address.clone(), address.to_string());
        tokio::select! {
            biased;
            Some(met) = login.on(&wire) => match met {
                Ok(about) => {
                    Ok(Dialled { wire, driver, address, about: About { server, ..about } })
                }
                Err(failure) if earlier_login => Err(failure.after_earlier_login()),
                Err(failure) => Err(failure),
            },
            ending = &mut driver => Err(Ending::into(ending)),
        }
    }
}

/// Returns the failure if two servers are both primaries. The client cannot know which of them to
/// use.
fn two(one: &Dialled, other: &Dialled) -> ConnectFailure {
    ConnectFailure::passing(format!(
        "{} and {} are both primaries; demote one of them, or use only one address",
        one.address, other.address
    ))
}
