//! Polls the sentinels for the address of the primary, because the address may change.
//!
//! The client sends requests to all sentinels at once: each second, when a sentinel publishes a new
//! primary, and when a caller needs the primary. A published message only triggers requests,
//! because the address comes from the replies. `sentinel_views.rs` decides which reply counts. The
//! client also polls sentinels that are not in the URL but that other sentinels list. If such a
//! sentinel no longer replies, the client stops polling it.
//!
//! Each link runs this code, but only the link that holds the lock `asking` sends requests, for all
//! links. The mutex `known` guards what is known of the sentinels. The address of the primary is
//! published while `known` is held, so that an older decision never overwrites a newer one. All
//! other notifications are sent after `known` is released.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, PushInfo, PushKind, Value, cmd};
use tokio::{
    sync::{Mutex as TurnLock, Notify},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    address::{
        target::{Address, Watched},
        translation::Translation,
    },
    backoff::Backoff,
    connect_failure::{ConnectFailure, NAME_SENTINELS},
    discovery::{
        published::Published,
        sentinel_views::{ReportedPrimary, SentinelViews},
    },
    hazard::Hazard,
    mutex::Mutex,
    pipe::wire::{OnPush, Wire},
    replies::{field, text},
    session::{
        about,
        hazards::{self, SentinelQuorum},
        login::{Facts, greet},
        reach::{Reach, silence},
    },
    shown::shown,
};

/// The interval between two requests to a sentinel.
const EACH: Duration = Duration::from_secs(1);

/// The first and the longest pause before the client connects again to an unreachable sentinel.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How long the client remembers an unreachable sentinel that is not in the URL. After this time,
/// the client forgets the sentinel until another sentinel lists it again.
const REST: Duration = Duration::from_secs(5);

/// A caller that needs the primary accepts replies that are at most this old.
const JUST_NOW: Duration = Duration::from_millis(100);

/// How long the client waits for the other sentinels, after most sentinels have replied. The others
/// may report a newer failover.
const GRACE: Duration = Duration::from_millis(50);

/// How long the client waits for the replies of a majority. The first reply may come from a
/// sentinel that has an old address. After this time, the client uses the replies so far, or the
/// earlier address.
const MAJORITY_WAIT: Duration = Duration::from_millis(500);

/// The highest number of polled sentinels that are not in the URL.
const MOST: usize = 16;

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    watched: Watched,
    /// Whether the sentinels use TLS.
    tls: bool,
    translation: Translation,
    reach: Arc<Reach>,
    client_name: String,
    limit: Duration,
    known: Mutex<Known>,
    /// The address of the primary, according to `views`.
    master: Published<Option<Address>>,
    /// Notified when a sentinel has replied or failed.
    answered: Notify,
    /// Notified when a caller needs the primary.
    looked_for: Notify,
    /// Notified when a sentinel lists a sentinel that this client did not know.
    there_are_new: Notify,
    asking: TurnLock<()>,
}

/// What is known of the sentinels.
#[derive(Default)]
struct Known {
    views: SentinelViews,
    /// Sentinels that are not in the URL, but that other sentinels list.
    others: BTreeMap<String, Address>,
    /// The announced address for each address that the translation returned.
    made_of: BTreeMap<String, String>,
    /// Whether the client logged that no sentinel names the primary.
    hazard_logged: bool,
}

impl Sentinels {
    pub(crate) fn new(
        watched: Watched,
        translation: Translation,
        reach: Arc<Reach>,
        client_name: String,
        limit: Duration,
    ) -> Self {
        let tls = watched.sentinels.iter().any(Address::speaks_tls);
        Self {
            watched,
            tls,
            translation,
            reach,
            client_name,
            limit,
            known: Mutex::default(),
            master: Published::default(),
            answered: Notify::new(),
            looked_for: Notify::new(),
            there_are_new: Notify::new(),
            asking: TurnLock::default(),
        }
    }

    /// Requests the address of the primary from all sentinels, and returns it. Meanwhile another
    /// task must run [`keep_asking`](Self::keep_asking).
    pub(crate) async fn master(&self) -> Result<Address, ConnectFailure> {
        let now = Instant::now();
        let since = now.checked_sub(JUST_NOW).unwrap_or(now);
        let mut until = None::<Instant>;
        self.looked_for.notify_waiters();
        loop {
            let answered = self.answered.notified();
            let known = self.master.read(Option::clone);
            let (all, most) = self.have_answered(since);
            if all {
                return known.ok_or_else(|| self.failure());
            }
            if known.is_some() {
                let end = Instant::now() + if most { GRACE } else { MAJORITY_WAIT };
                until = Some(until.map_or(end, |until| until.min(end)));
            }
            tokio::select! {
                biased;
                () = answered => {}
                () = sleep_until(until.unwrap_or(now)), if until.is_some() => {
                    return known.ok_or_else(|| self.failure());
                }
            }
        }
    }

    /// Returns two facts about the sentinels of the URL in the time after `since`. The first is
    /// whether all have replied or failed. The second is whether most have named a primary.
    fn have_answered(&self, since: Instant) -> (bool, bool) {
        let (known, sentinels) = (self.known.lock(), &self.watched.sentinels);
        let reports = known.views.reports_since(sentinels, since);
        (known.views.have_all_answered(sentinels, since), 2 * reports > sentinels.len())
    }

    /// Returns why no sentinel names the primary.
    pub(crate) fn failure(&self) -> ConnectFailure {
        self.known.lock().views.failure(&self.watched.sentinels)
    }

    /// Returns the hazards of the sentinels: too few sentinels, or none that names the primary.
    pub(crate) fn hazards(&self) -> Vec<Hazard> {
        let views = &self.known.lock().views;
        if views.name_no_primary(&self.watched.sentinels) {
            return vec![Hazard::NoSentinel];
        }
        views.quorum(Instant::now()).map(hazards::of_sentinels).unwrap_or_default()
    }

    /// Returns where `address` comes from, as a hint why it may be wrong. Returns `None` if the
    /// address was not translated and a server was `reached` there.
    pub(crate) fn origin(&self, address: &Address, reached: bool) -> Option<String> {
        match self.known.lock().made_of.get(&address.to_string()) {
            Some(announced) => {
                Some(format!("translate_addresses returned this address for {}", shown(announced)))
            }
            None if reached => None,
            None => Some(
                "the sentinels announced this address; if it is unreachable for this client, see \
                 translate_addresses"
                    .into(),
            ),
        }
    }

    /// Waits until the primary has another address than `address`, and returns the new address.
    pub(super) async fn another_than(&self, address: &Address) -> Address {
        self.master.until(|it| it.clone().filter(|other| other != address)).await
    }

    /// Waits until the address of the primary changes or becomes known.
    pub(crate) async fn until_changed(&self) {
        let before = self.master.read(Option::clone);
        self.master.until(|it| (*it != before).then_some(())).await;
    }

    /// Polls all sentinels. Never returns.
    pub(super) async fn keep_asking(&self) -> Infallible {
        let _asking = self.asking.lock().await;
        let listed = self.watched.sentinels.iter().cloned();
        let mut sessions: FuturesUnordered<_> =
            listed.map(|it| self.poll_sentinel(it, true)).collect();
        let mut asked = BTreeSet::new();
        loop {
            let mut others: Vec<_> = self.known.lock().others.values().cloned().collect();
            others.retain(|it| asked.insert(it.to_string()));
            sessions.extend(others.into_iter().map(|it| self.poll_sentinel(it, false)));
            tokio::select! {
                biased;
                Some(gone) = sessions.next() => {
                    asked.remove(&gone.to_string());
                    self.forget(&gone);
                }
                () = self.there_are_new.notified() => {}
            }
        }
    }

    /// Polls one sentinel. If the URL lists the sentinel, never returns. Otherwise, returns the
    /// address of the sentinel after a failure and a pause.
    async fn poll_sentinel(&self, sentinel: Address, listed: bool) -> Address {
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let trouble = self.visit(&sentinel).await.of_sentinel();
            let is_one = !listed || self.known.lock().views.has_reported(&sentinel);
            let trouble = if is_one { trouble } else { trouble.of_possible_server() };
            let now = Instant::now();
            let news = self.known.lock().views.record_failure(&sentinel, trouble.clone(), now);
            self.answered.notify_waiters();
            self.log_failure(&sentinel, &trouble, news && listed);
            if !listed {
                sleep(REST).await;
                return sentinel;
            }
            if began.elapsed() > PAUSES.1 {
                backoff = Backoff::default();
            }
            tokio::select! {
                biased;
                () = sleep(backoff.next(PAUSES)) => {}
                () = self.looked_for.notified() => {}
            }
        }
    }

    fn log_failure(&self, sentinel: &Address, cause: &ConnectFailure, loudly: bool) {
        let master = shown(&self.watched.master);
        match (loudly, cause.is_refusal()) {
            (true, true) => tracing::warn!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel rejected this client"),
            (true, false) => tracing::warn!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel unreachable"),
            (false, true) => tracing::debug!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel rejected this client"),
            (false, false) => tracing::debug!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel unreachable"),
        }
        self.log_hazard();
    }

    /// Logs that a sentinel replied without a primary. The caller has checked that this failure is
    /// new.
    fn log_missing_primary(&self, sentinel: &Address, cause: &ConnectFailure) {
        let is_listed = self.watched.sentinels.contains(sentinel);
        let master = shown(&self.watched.master);
        match is_listed {
            true => tracing::warn!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel returned no address of the primary"),
            false => tracing::debug!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel returned no address of the primary"),
        }
        self.log_hazard();
    }

    /// Logs a hazard if no sentinel names the primary. This function is called after each failure
    /// of a sentinel, even if the sentinel is not in the URL.
    fn log_hazard(&self) {
        if self.known.lock().newly_lacks_primary(&self.watched.sentinels) {
            let (hazard, master) = (Hazard::NoSentinel, shown(&self.watched.master));
            let remedy = hazard.remedy();
            tracing::warn!(target: "leasehold", master, %hazard, remedy, "deployment hazard detected");
        }
    }

    fn forget(&self, sentinel: &Address) {
        let mut known = self.known.lock();
        known.others.remove(&sentinel.to_string());
        known.views.forget(sentinel);
    }

    /// Connects to `sentinel` and polls it until a request fails. Returns the failure.
    async fn visit(&self, sentinel: &Address) -> ConnectFailure {
        let hints = Arc::new(Notify::new());
        let opened = self.reach.open(sentinel, Some(self.hints_to(&hints)));
        let Ok(opened) = timeout(self.limit, opened).await else {
            return silence(self.limit, sentinel);
        };
        match opened {
            Err(failure) => failure,
            Ok((wire, driver)) => tokio::select! {
                biased;
                trouble = self.talk(&wire, sentinel, &hints) => trouble,
                ending = driver => match self.known.lock().views.is_well(sentinel) {
                    true => ConnectFailure::passing(format!("connection lost: {ending}")),
                    false => ending.into(),
                },
            },
        }
    }

    /// Returns a receiver of pushes. If a sentinel publishes a change of this primary, the receiver
    /// triggers a request.
    fn hints_to(&self, hints: &Arc<Notify>) -> OnPush {
        let (hints, beginning) = (Arc::clone(hints), format!("{} ", self.watched.master));
        Arc::new(move |PushInfo { kind, data }| {
            let is_ours = |it: &Value| text(it).is_some_and(|it| it.starts_with(&beginning));
            if kind == PushKind::Message && data.get(1).is_some_and(is_ours) {
                hints.notify_one();
            }
        })
    }

    /// Logs in, subscribes, and polls until a request fails. Returns the failure.
    async fn talk(&self, wire: &Wire, sentinel: &Address, hints: &Notify) -> ConnectFailure {
        match timeout(self.limit, self.log_in(wire)).await {
            Err(_) => return silence(self.limit, sentinel),
            Ok(Err(failure)) => return failure,
            Ok(Ok(())) => {}
        }
        loop {
            // `looked_for` is created before the request, so that a caller who comes before the
            // reply also counts.
            let looked_for = self.looked_for.notified();
            let asked_at = Instant::now();
            match timeout(self.limit, wire.call_all(&self.requests())).await {
                Err(_) => return silence(self.limit, sentinel),
                Ok(Err(failure)) => return ConnectFailure::passing(failure.to_string()),
                Ok(Ok(replies)) => self.record_replies(sentinel, &replies),
            }
            tokio::select! {
                biased;
                () = hints.notified() => {}
                () = looked_for => {}
                () = sleep_until(asked_at + EACH) => {}
            }
        }
    }

    async fn log_in(&self, wire: &Wire) -> Result<(), ConnectFailure> {
        let gone = || ConnectFailure::passing("the connection ended");
        let credentials = &self.watched.credentials;
        let greeted = greet(wire, credentials.user.as_deref(), credentials.password.as_ref());
        let facts: Facts = greeted.await.ok_or_else(gone)??;
        if !about::is_sentinel(&facts) {
            return Err(ConnectFailure::lasting(format!(
                "this server is not a Sentinel; {NAME_SENTINELS}"
            )));
        }
        let called = wire.call(cmd("CLIENT").arg("SETNAME").arg(&self.client_name)).await;
        called.map_err(|_| gone())?;
        let subscribed =
            wire.confirm(cmd("SUBSCRIBE").arg("+switch-master"), PushKind::Subscribe).await;
        if let Value::ServerError(error) = subscribed.map_err(|_| gone())? {
            tracing::debug!(target: "leasehold", failure = %error,
                "sentinel rejected the subscription: polling this sentinel every second");
        }
        Ok(())
    }

    /// Returns the requests to one sentinel. The client sends them in one write, so that no
    /// failover can happen between the replies.
    fn requests(&self) -> [Cmd; 4] {
        let about = |what: &str| cmd("SENTINEL").arg(what).arg(&self.watched.master).clone();
        let id = cmd("SENTINEL").arg("MYID").clone();
        [about("GET-MASTER-ADDR-BY-NAME"), about("MASTER"), about("SENTINELS"), id]
    }

    fn record_replies(&self, sentinel: &Address, replies: &[Value]) {
        let [place, master, sentinels, id] = replies else { return };
        let now = Instant::now();
        let report = self.parse_report(place, master);
        let mut known = self.known.lock();
        let views = &mut known.views;
        let recorded =
            report.map(|report| views.record_report(sentinel, report, now)).map_err(|why| {
                let is_news = views.record_unknown(sentinel, why.clone(), now);
                (why, is_news)
            });
        views.record_quorum(
            sentinel,
            sentinel_quorum(master, sentinels),
            text(id).map(str::to_owned),
        );
        let followed = views.master(self.watched.sentinels.len(), now);
        // `known` is still locked, so that this decision never overwrites a later decision from the
        // reply of another sentinel.
        self.master.set(followed);
        let is_resolved = recorded.is_ok() && std::mem::take(&mut known.hazard_logged);
        drop(known);
        self.answered.notify_waiters();
        match recorded {
            Ok(()) if is_resolved => {
                let (hazard, master) = (Hazard::NoSentinel, shown(&self.watched.master));
                tracing::info!(target: "leasehold", master, %hazard, "deployment hazard resolved");
            }
            Ok(()) => {}
            Err((why, true)) => self.log_missing_primary(sentinel, &why),
            Err((_, false)) => {}
        }
        self.note_others(sentinels);
    }

    /// Parses the address of the primary that one sentinel returned.
    fn parse_report(
        &self,
        place: &Value,
        master: &Value,
    ) -> Result<ReportedPrimary, ConnectFailure> {
        let called = shown(&self.watched.master);
        let (host, port) = match place {
            Value::Nil => {
                let words = format!(
                    "this sentinel does not watch a primary named `{called}`; see SENTINEL MASTERS"
                );
                return Err(ConnectFailure::lasting(words));
            }
            Value::ServerError(error) => return Err(ConnectFailure::of_refusal(error)),
            Value::Array(parts) => match parts.as_slice() {
                [host, port] => (text(host), text(port)),
                _ => (None, None),
            },
            _ => (None, None),
        };
        let (host, port) = host.zip(port).and_then(readable).ok_or_else(|| {
            ConnectFailure::passing(format!(
                "this sentinel returned no valid address of `{called}`"
            ))
        })?;
        let epoch = fact(master, "config-epoch").and_then(|it| it.parse().ok()).unwrap_or(0);
        let tls = self.watched.tls;
        let master = self.translation.of(host, port, tls)?;
        self.note_origin(&master, Address::Tcp { host: host.to_owned(), port, tls });
        Ok(ReportedPrimary { master, epoch })
    }

    /// Records that the translation returned `master` for `announced`.
    fn note_origin(&self, master: &Address, announced: Address) {
        let made_of = &mut self.known.lock().made_of;
        if *master != announced && made_of.len() < MOST {
            made_of.insert(master.to_string(), announced.to_string());
        }
    }

    /// Records the sentinels that one sentinel lists.
    fn note_others(&self, sentinels: &Value) {
        let Value::Array(sentinels) = sentinels else { return };
        for sentinel in sentinels {
            let place = fact(sentinel, "ip").zip(fact(sentinel, "port")).and_then(readable);
            let Some((host, port)) = place else { continue };
            let Ok(address) = self.translation.of(host, port, self.tls) else { continue };
            let mut known = self.known.lock();
            let is_known = self.watched.sentinels.contains(&address)
                || known.others.contains_key(&address.to_string());
            if is_known || known.others.len() >= MOST {
                continue;
            }
            known.others.insert(address.to_string(), address);
            drop(known);
            self.there_are_new.notify_one();
        }
    }
}

impl Known {
    /// Returns whether the client must log that no sentinel names the primary. If so, marks the
    /// hazard as logged.
    fn newly_lacks_primary(&mut self, sentinels: &[Address]) -> bool {
        let is_new = self.views.name_no_primary(sentinels) && !self.hazard_logged;
        self.hazard_logged |= is_new;
        is_new
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("watched", &self.watched).finish_non_exhaustive()
    }
}

/// Counts the sentinels that one sentinel lists, and how many of them it considers up.
fn sentinel_quorum(master: &Value, others: &Value) -> Option<SentinelQuorum> {
    let Value::Array(others) = others else { return None };
    let is_down = |other: &Value| {
        fact(other, "flags").is_some_and(|it| it.split(',').any(|it| it == "s_down"))
    };
    let down = others.iter().filter(|it| is_down(it)).count();
    let quorum = fact(master, "quorum").and_then(|it| it.parse().ok());
    Some(SentinelQuorum { known: others.len() + 1, usable: others.len() + 1 - down, quorum })
}

/// Parses a host and a port that a sentinel announced. Returns `None` if one of them is invalid.
fn readable<'a>((host, port): (&'a str, &str)) -> Option<(&'a str, u16)> {
    const LONGEST: usize = 255;
    let sound = !host.is_empty()
        && host.len() <= LONGEST
        && !host.contains(|sign: char| sign.is_control() || sign.is_whitespace());
    let port = port.parse().ok().filter(|port| *port != 0)?;
    sound.then_some((host, port))
}

/// Returns the value of one field in the reply of a sentinel.
fn fact<'a>(facts: &'a Value, called: &str) -> Option<&'a str> {
    match facts {
        Value::Map(facts) => text(field(facts, called)?),
        Value::Array(facts) => {
            let pair = facts.chunks_exact(2).find(|pair| text(&pair[0]) == Some(called))?;
            text(&pair[1])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valkey 9 keeps the flag `master_down` for ever after a failover.
    #[test]
    fn sentinel_with_the_flag_master_down_counts_as_usable() {
        let others = ["sentinel", "sentinel,master_down", "s_down,sentinel,disconnected"];
        let others = others.iter().map(|flags| map_of("flags", flags)).collect();
        let counted = sentinel_quorum(&map_of("quorum", "2"), &Value::Array(others));
        assert_eq!(counted, Some(SentinelQuorum { known: 4, usable: 3, quorum: Some(2) }));
    }

    fn map_of(fact: &str, value: &str) -> Value {
        Value::Map(vec![(text_of(fact), text_of(value))])
    }

    fn text_of(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }
}
