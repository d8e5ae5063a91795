//! Asks sentinels where the master is, for as long as that may change.
//!
//! All of them are asked at once: each second, when one says that the master has
//! changed, and when somebody looks for it. What one says unasked is a hint to ask it; who
//! is believed is said in `sentinel_views.rs`. Sentinels that others tell of are asked as well, as
//! long as they answer.
//!
//! Each link keeps asking, and the one that has the seat does it for both. No lock is
//! held while anybody is told.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, PushInfo, PushKind, Value, cmd};
use tokio::{
    sync::{Mutex as Seat, Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    about,
    connect_failure::{ConnectFailure, NAME_SENTINELS},
    hazards::{self, SentinelQuorum},
    login::{Facts, greet},
    reach::{Reach, silence},
    sentinel_views::{ReportedPrimary, SentinelViews},
    shown::shown,
    target::{Address, Watched},
    translation::Translation,
    wire::{OnPush, Wire},
};
use crate::domain::{Backoff, Hazard, Mutex};

/// How often each is asked.
const EACH: Duration = Duration::from_secs(1);

/// The first and the longest pause before one that is away is looked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How long one rests that others tell of and that does not answer, before it is
/// forgotten until somebody tells of it again.
const REST: Duration = Duration::from_secs(5);

/// What was said so long ago is not asked for again.
const JUST_NOW: Duration = Duration::from_millis(100);

/// Once most have said where the master is the others have so long to know of a newer failover.
const GRACE: Duration = Duration::from_millis(50);

/// If most do not say it, those who do are believed after so long, or what was said before:
/// one that is wrong may be the first to answer.
const MAJORITY_WAIT: Duration = Duration::from_millis(500);

/// So many are asked at most that others tell of.
const MOST: usize = 16;

/// The sentinels of one master.
pub(super) struct Sentinels {
    watched: Watched,
    /// Whether sentinels speak TLS.
    tls: bool,
    translation: Translation,
    reach: Arc<Reach>,
    client_name: String,
    limit: Duration,
    views: Mutex<SentinelViews>,
    /// Where the master is by the views.
    master: watch::Sender<Option<Address>>,
    /// ReportedPrimary when a sentinel has answered, or cannot.
    answered: Notify,
    /// How often somebody has looked for the master.
    looked_for: watch::Sender<u64>,
    /// The sentinels that others have told of.
    others: Mutex<BTreeMap<String, Address>>,
    /// Of what an address was made by the translation.
    made_of: Mutex<BTreeMap<String, String>>,
    /// Those of them that nobody asks yet.
    new: Mutex<Vec<Address>>,
    there_are_new: Notify,
    seat: Seat<()>,
    /// Whether it was told that none of them says where the master is.
    hazard_logged: AtomicBool,
}

impl Sentinels {
    pub(super) fn new(
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
            views: Mutex::default(),
            master: watch::Sender::default(),
            answered: Notify::new(),
            looked_for: watch::Sender::default(),
            others: Mutex::default(),
            made_of: Mutex::default(),
            new: Mutex::default(),
            there_are_new: Notify::new(),
            seat: Seat::default(),
            hazard_logged: AtomicBool::default(),
        }
    }

    /// Where the master is, by all who answer now. While this waits somebody must
    /// [keep asking](Self::keep_asking).
    pub(super) async fn master(&self) -> Result<Address, ConnectFailure> {
        let now = Instant::now();
        let since = now.checked_sub(JUST_NOW).unwrap_or(now);
        let mut until = None::<Instant>;
        self.looked_for.send_modify(|times| *times += 1);
        loop {
            let answered = self.answered.notified();
            let known = self.master.borrow().clone();
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

    /// Whether all of those in the URL have answered since, or cannot, and whether most of
    /// them have said where the master is.
    fn have_answered(&self, since: Instant) -> (bool, bool) {
        let (views, sentinels) = (self.views.lock(), &self.watched.sentinels);
        let reports = views.reports_since(sentinels, since);
        (views.have_all_answered(sentinels, since), 2 * reports > sentinels.len())
    }

    /// Why nobody says where the master is.
    pub(super) fn failure(&self) -> ConnectFailure {
        self.views.lock().failure(&self.watched.sentinels)
    }

    /// What can hurt locks: there may be too few sentinels.
    pub(super) fn hazards(&self) -> Vec<Hazard> {
        let views = self.views.lock();
        if views.name_no_primary(&self.watched.sentinels) {
            return vec![Hazard::NoSentinel];
        }
        views.quorum(Instant::now()).map(hazards::of_sentinels).unwrap_or_default()
    }

    /// How somebody came to name `address`, and what may be wrong with that. Nothing is where
    /// somebody was `reached` by it.
    pub(super) fn origin(&self, address: &Address, reached: bool) -> Option<String> {
        match self.made_of.lock().get(&address.to_string()) {
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

    /// Waits until the master is another one than that at `address`, and returns where.
    pub(super) async fn another_than(&self, address: &Address) -> Address {
        let mut master = self.master.subscribe();
        loop {
            match &*master.borrow_and_update() {
                Some(other) if other != address => return other.clone(),
                _ => {}
            }
            // The sender is ours.
            drop(master.changed().await);
        }
    }

    /// Waits until the master is another one than it is now, or begins to be known.
    pub(super) async fn news(&self) {
        drop(self.master.subscribe().changed().await);
    }

    /// Asks all sentinels, for ever.
    pub(super) async fn keep_asking(&self) -> Infallible {
        let _seat = self.seat.lock().await;
        // They are among the others.
        self.new.lock().clear();
        let listed = self.watched.sentinels.iter().cloned();
        let mut sessions: FuturesUnordered<_> = listed.map(|it| self.attend(it, true)).collect();
        sessions.extend(self.others.lock().values().cloned().map(|it| self.attend(it, false)));
        loop {
            let new = std::mem::take(&mut *self.new.lock());
            sessions.extend(new.into_iter().map(|it| self.attend(it, false)));
            tokio::select! {
                biased;
                Some(gone) = sessions.next() => self.forget(&gone),
                () = self.there_are_new.notified() => {}
            }
        }
    }

    /// Asks one sentinel: for ever if it is `listed`, else as long as it answers. Returns
    /// which one that was.
    async fn attend(&self, sentinel: Address, listed: bool) -> Address {
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let trouble = self.visit(&sentinel).await.of_sentinel();
            let is_one = !listed || self.views.lock().has_reported(&sentinel);
            let trouble = if is_one { trouble } else { trouble.of_possible_server() };
            let news = self.views.lock().record_failure(&sentinel, trouble.clone(), Instant::now());
            self.answered.notify_waiters();
            self.log_failure(&sentinel, &trouble, news && listed);
            if !listed {
                sleep(REST).await;
                return sentinel;
            }
            if began.elapsed() > PAUSES.1 {
                backoff = Backoff::default();
            }
            let mut looked_for = self.looked_for.subscribe();
            tokio::select! {
                biased;
                () = sleep(backoff.next(PAUSES)) => {}
                _ = looked_for.changed() => {}
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

    /// A sentinel answers, and does not say where the master is: this was not so before, or was
    /// not known.
    fn log_missing_primary(&self, sentinel: &Address, cause: &ConnectFailure) {
        let is_listed = self.watched.sentinels.contains(sentinel);
        let master = shown(&self.watched.master);
        match is_listed {
            true => tracing::warn!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel did not name the primary"),
            false => tracing::debug!(target: "leasehold",
                server = %sentinel, master, %cause, "sentinel did not name the primary"),
        }
        self.log_hazard();
    }

    /// Tells it if none of them says where the master is: the last one need not be in the URL.
    fn log_hazard(&self) {
        let is_new = || !self.hazard_logged.swap(true, Ordering::Relaxed);
        if self.views.lock().name_no_primary(&self.watched.sentinels) && is_new() {
            let (hazard, master) = (Hazard::NoSentinel, shown(&self.watched.master));
            let remedy = hazard.remedy();
            tracing::warn!(target: "leasehold", master, %hazard, remedy, "deployment hazard detected");
        }
    }

    /// One of them says where the master is.
    fn log_hazard_resolved(&self) {
        if self.hazard_logged.swap(false, Ordering::Relaxed) {
            let (hazard, master) = (Hazard::NoSentinel, shown(&self.watched.master));
            tracing::info!(target: "leasehold", master, %hazard, "deployment hazard resolved");
        }
    }

    fn forget(&self, sentinel: &Address) {
        self.others.lock().remove(&sentinel.to_string());
        self.views.lock().forget(sentinel);
    }

    /// Connects to `sentinel` and asks it until that fails. Returns why.
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
                ending = driver => match self.views.lock().is_well(sentinel) {
                    true => ConnectFailure::passing(format!("connection lost: {ending}")),
                    false => ending.into(),
                },
            },
        }
    }

    /// What is told unasked of our master makes us ask.
    fn hints_to(&self, hints: &Arc<Notify>) -> OnPush {
        let (hints, beginning) = (Arc::clone(hints), format!("{} ", self.watched.master));
        Arc::new(move |PushInfo { kind, data }| {
            let is_ours = |it: &Value| text(it).is_some_and(|it| it.starts_with(&beginning));
            if kind == PushKind::Message && data.get(1).is_some_and(is_ours) {
                hints.notify_one();
            }
        })
    }

    /// Logs in, subscribes and asks, until an answer fails to come. Returns why.
    async fn talk(&self, wire: &Wire, sentinel: &Address, hints: &Notify) -> ConnectFailure {
        match timeout(self.limit, self.log_in(wire)).await {
            Err(_) => return silence(self.limit, sentinel),
            Ok(Err(failure)) => return failure,
            Ok(Ok(())) => {}
        }
        let mut looked_for = self.looked_for.subscribe();
        loop {
            let asked_at = Instant::now();
            match timeout(self.limit, wire.call_all(&self.requests())).await {
                Err(_) => return silence(self.limit, sentinel),
                Ok(Err(failure)) => return ConnectFailure::passing(failure.to_string()),
                Ok(Ok(replies)) => self.record_replies(sentinel, &replies),
            }
            tokio::select! {
                biased;
                () = hints.notified() => {}
                _ = looked_for.changed() => {}
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
                "this server is not a Sentinel: {NAME_SENTINELS}"
            )));
        }
        // A courtesy.
        let called = wire.call(cmd("CLIENT").arg("SETNAME").arg(&self.client_name)).await;
        called.map_err(|_| gone())?;
        let subscribed =
            wire.confirm(cmd("SUBSCRIBE").arg("+switch-master"), PushKind::Subscribe).await;
        if let Value::ServerError(error) = subscribed.map_err(|_| gone())? {
            tracing::debug!(target: "leasehold", failure = %error,
                "sentinel rejected the subscription: polling it every second");
        }
        Ok(())
    }

    /// In one write, so that nothing happens in between.
    fn requests(&self) -> [Cmd; 4] {
        let about = |what: &str| cmd("SENTINEL").arg(what).arg(&self.watched.master).clone();
        let id = cmd("SENTINEL").arg("MYID").clone();
        [about("GET-MASTER-ADDR-BY-NAME"), about("MASTER"), about("SENTINELS"), id]
    }

    /// `sentinel` has answered our questions.
    fn record_replies(&self, sentinel: &Address, replies: &[Value]) {
        let [place, master, sentinels, id] = replies else { return };
        let now = Instant::now();
        let report = self.parse_report(place, master);
        let mut views = self.views.lock();
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
        let believed = views.master(self.watched.sentinels.len(), now);
        // Under the lock: another sentinel's later reply must not be overwritten.
        self.master.send_if_modified(|known| {
            let changed = *known != believed;
            *known = believed;
            changed
        });
        drop(views);
        self.answered.notify_waiters();
        match recorded {
            Ok(()) => self.log_hazard_resolved(),
            Err((why, true)) => self.log_missing_primary(sentinel, &why),
            Err((_, false)) => {}
        }
        self.note_others(sentinels);
    }

    /// Where one sentinel says that the master is.
    fn parse_report(
        &self,
        place: &Value,
        master: &Value,
    ) -> Result<ReportedPrimary, ConnectFailure> {
        let called = shown(&self.watched.master);
        let (host, port) = match place {
            Value::Nil => {
                let words = format!("it does not watch a primary `{called}`; see SENTINEL MASTERS");
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
            ConnectFailure::passing(format!("it returned no valid address of `{called}`"))
        })?;
        let epoch = fact(master, "config-epoch").and_then(|it| it.parse().ok()).unwrap_or(0);
        let tls = self.watched.tls;
        let master = self.translation.of(host, port, tls)?;
        self.note_origin(&master, Address::Tcp { host: host.to_owned(), port, tls });
        Ok(ReportedPrimary { master, epoch })
    }

    /// Notes that `told` is reached at `master`.
    fn note_origin(&self, master: &Address, announced: Address) {
        let mut made_of = self.made_of.lock();
        if *master != announced && made_of.len() < MOST {
            made_of.insert(master.to_string(), announced.to_string());
        }
    }

    /// Notes the sentinels that one of them tells of.
    fn note_others(&self, sentinels: &Value) {
        let Value::Array(sentinels) = sentinels else { return };
        for sentinel in sentinels {
            let place = fact(sentinel, "ip").zip(fact(sentinel, "port")).and_then(readable);
            let Some((host, port)) = place else { continue };
            let Ok(address) = self.translation.of(host, port, self.tls) else { continue };
            let mut others = self.others.lock();
            let known = self.watched.sentinels.contains(&address)
                || others.contains_key(&address.to_string());
            if known || others.len() >= MOST {
                continue;
            }
            others.insert(address.to_string(), address.clone());
            drop(others);
            self.new.lock().push(address);
            self.there_are_new.notify_one();
        }
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("watched", &self.watched).finish_non_exhaustive()
    }
}

/// What one sentinel knows of all of them, by what it says of the master and of the others.
fn sentinel_quorum(master: &Value, others: &Value) -> Option<SentinelQuorum> {
    let Value::Array(others) = others else { return None };
    let is_down = |other: &Value| {
        fact(other, "flags").is_some_and(|it| it.split(',').any(|it| it == "s_down"))
    };
    let down = others.iter().filter(|it| is_down(it)).count();
    let quorum = fact(master, "quorum").and_then(|it| it.parse().ok());
    Some(SentinelQuorum { known: others.len() + 1, usable: others.len() + 1 - down, quorum })
}

/// A host and a port as somebody says them, if they can be any.
fn readable<'a>((host, port): (&'a str, &str)) -> Option<(&'a str, u16)> {
    const LONGEST: usize = 255;
    let sound = !host.is_empty()
        && host.len() <= LONGEST
        && !host.contains(|sign: char| sign.is_control() || sign.is_whitespace());
    let port = port.parse().ok().filter(|port| *port != 0)?;
    sound.then_some((host, port))
}

/// One of the facts that a sentinel says of a server.
fn fact<'a>(facts: &'a Value, called: &str) -> Option<&'a str> {
    match facts {
        Value::Map(facts) => {
            let (_, value) = facts.iter().find(|(key, _)| text(key) == Some(called))?;
            text(value)
        }
        Value::Array(facts) => {
            let pair = facts.chunks_exact(2).find(|pair| text(&pair[0]) == Some(called))?;
            text(&pair[1])
        }
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valkey 9 goes on saying so for ever after a failover.
    #[test]
    fn sentinel_that_reports_master_down_counts_as_usable() {
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
