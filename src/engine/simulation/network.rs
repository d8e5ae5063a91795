//! A store behind a network that loses, delays and doubles.
//!
//! A request is a packet: once it is sent it travels by itself, whether or not
//! its sender still waits. So it may be executed long after it was given up.

use std::{
    collections::BTreeSet,
    fmt,
    future::{Future, ready},
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::{
    gate::Gate,
    oracle::Oracle,
    plot::{COMMAND_TIMEOUT, Weather},
};
use crate::{
    domain::{
        About, Change, Claim, Counts, Failure, GivenBack, Holder, Object, Outcome, Owner, PermitId,
        Place, ReleaseMode, Renewal, Replicas, Value, Verdict, Work,
    },
    store::{Answer, Event, Store, Subscriber, memory::Session},
};

/// One client's network.
pub(super) struct Network {
    store: Arc<Session>,
    weather: Weather,
    chance: Mutex<fastrand::Rng>,
    oracle: Arc<Oracle>,
    line: Arc<Line>,
    /// When the last request arrives that was sent.
    arrives_at: Mutex<Instant>,
    /// Whether somebody in the store tells the client to ask, each time that it has.
    floods: Arc<AtomicBool>,
    _arriving: Arc<dyn Subscriber>,
}

/// When a request is executed that was lost and is found again, at the earliest: nobody looks
/// for it any more.
const LATE: Duration = Duration::from_secs(8);

type Asked<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

impl Network {
    pub(super) fn new(
        store: Session,
        weather: Weather,
        mut chance: fastrand::Rng,
        oracle: Arc<Oracle>,
        gate: Gate,
    ) -> Arc<Self> {
        let line_chance = Mutex::new(chance.fork());
        let line = Arc::new(Line { state: Mutex::default(), weather, chance: line_chance, gate });
        let arriving: Arc<dyn Subscriber> = Arc::new(Arriving(Arc::downgrade(&line)));
        let store = Arc::new(store);
        store.tell(Arc::downgrade(&arriving));
        let chance = Mutex::new(chance);
        let floods = Arc::default();
        Arc::new(Self {
            store,
            weather,
            chance,
            oracle,
            line,
            arrives_at: Mutex::new(Instant::now()),
            floods,
            _arriving: arriving,
        })
    }

    /// Loses the connection for messages for a while.
    pub(super) async fn deafen(&self, time: Duration) {
        let wanted = {
            let mut state = self.line.state.lock().unwrap();
            state.down = true;
            state.wanted.clone()
        };
        self.store.deafen(true);
        wanted.iter().for_each(|object| self.store.unlisten(object));
        self.line.pass_on(Event::SubscriptionsLost);
        sleep(time).await;
        let wanted = {
            let mut state = self.line.state.lock().unwrap();
            if state.cut {
                return;
            }
            state.down = false;
            state.wanted.clone()
        };
        self.store.deafen(false);
        wanted.iter().for_each(|object| self.store.listen(object));
    }

    /// Cuts the client off for good: its process is gone.
    pub(super) fn cut(&self) {
        let mut state = self.line.state.lock().unwrap();
        (state.down, state.cut) = (true, true);
        state.wanted.iter().for_each(|object| self.store.unlisten(object));
        self.store.deafen(true);
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.line.state.lock().unwrap().down
    }

    /// Whether the client may queue, from now on.
    pub(super) fn may_queue(&self, may: bool) {
        self.store.may_queue(may);
        let state = self.line.state.lock().unwrap();
        let heard = state.wanted.iter().filter(|_| !state.down).cloned();
        let heard: Vec<Object> = heard.collect();
        drop(state);
        // What is heard now is said anew.
        heard.iter().for_each(|object| self.store.listen(object));
    }

    /// Tells the client what somebody in the store makes up.
    pub(super) fn forge(&self, event: Event) {
        self.line.pass_on(event);
    }

    /// From now on somebody in the store tells the client to ask, each time that it has;
    /// or no longer.
    pub(super) fn floods(&self, does: bool) {
        self.floods.store(does, Ordering::Relaxed);
    }

    fn happens(&self, per_mille: u32) -> bool {
        self.chance.lock().unwrap().u32(..1_000) < per_mille
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(self.chance.lock().unwrap().u64(..=self.weather.delay))
    }

    /// How long a request takes that is sent now. Where nothing is lost they stay in
    /// order, as on one connection.
    fn there(&self) -> Duration {
        let delay = self.delay();
        if !self.weather.in_order {
            return delay;
        }
        let (mut last, now) = (self.arrives_at.lock().unwrap(), Instant::now());
        *last = match *last > now {
            true => (now + delay).max(*last + Duration::from_millis(1)),
            false => now + delay,
        };
        *last - now
    }

    /// Sends a request about `name` on its way, and waits for the reply.
    fn send<T: Send + 'static>(
        &self,
        object: Option<&Object>,
        ask: impl Fn(Arc<Session>) -> Asked<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.carry(object, self.weather.double, ask)
    }

    /// The same; so many of a thousand are doubled.
    fn carry<T: Send + 'static>(
        &self,
        object: Option<&Object>,
        double: u32,
        ask: impl Fn(Arc<Session>) -> Asked<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let object = object.cloned();
        let trouble = move || object.iter().for_each(|object| self.oracle.trouble(object));
        if self.happens(self.weather.refuse) {
            return Box::pin(async move {
                sleep(Duration::from_millis(1)).await;
                trouble();
                Err(Failure::refused("LOADING", "the data set is loaded"))
            });
        }
        let (reply_to, reply) = oneshot::channel();
        let lost = self.happens(self.weather.lose_request);
        let unanswered = self.happens(self.weather.lose_reply);
        let late = (lost && self.weather.late).then(|| LATE + self.delay() * 20);
        let again = self.happens(double).then(|| self.delay() * 20);
        let (there, back) = (self.there(), self.delay());
        let (store, oracle) = (Arc::clone(&self.store), Arc::clone(&self.oracle));
        tokio::spawn(async move {
            sleep(there).await;
            if lost {
                if let Some(late) = late {
                    sleep(late).await;
                    drop(ask(store).await);
                }
                return;
            }
            let answer = ask(Arc::clone(&store)).await;
            oracle.look();
            if let Some(later) = again {
                tokio::spawn(async move {
                    sleep(later).await;
                    drop(ask(store).await);
                    oracle.look();
                });
            }
            sleep(back).await;
            if !unanswered {
                drop(reply_to.send(answer));
            }
        });
        Box::pin(async move {
            match timeout(COMMAND_TIMEOUT, reply).await {
                Ok(Ok(answer)) => answer,
                // Who is not answered waits until it must give up.
                Ok(Err(_)) => {
                    sleep(COMMAND_TIMEOUT).await;
                    trouble();
                    Err(Failure::unanswered("the connection was lost"))
                }
                Err(elapsed) => {
                    trouble();
                    Err(Failure::unanswered(elapsed))
                }
            }
        })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("weather", &self.weather).finish_non_exhaustive()
    }
}

impl Network {
    /// A question to acquire, as one in the queue or beside one who writes.
    fn ask<'a>(
        &'a self,
        claim: &'a Claim,
        place: Option<Place>,
        beside: Option<Owner>,
    ) -> Answer<'a, Verdict> {
        self.oracle.asking(&claim.owner, &claim.object);
        let (asked, oracle) = (claim.clone(), Arc::clone(&self.oracle));
        let (floods, line) = (Arc::clone(&self.floods), Arc::clone(&self.line));
        self.send(Some(&claim.object), move |store| {
            let (claim, oracle, beside) = (asked.clone(), Arc::clone(&oracle), beside.clone());
            let (floods, line) = (Arc::clone(&floods), Arc::clone(&line));
            Box::pin(async move {
                let verdict = match &beside {
                    None => store.acquire(&claim, place).await,
                    Some(writer) => store.acquire_beside(&claim, writer).await,
                };
                oracle.aside(|| format!("{} asks, {place:?}: {verdict:?}", claim.owner));
                if let Ok(Verdict::Granted { .. }) = verdict {
                    oracle.granted(&claim.owner);
                }
                if floods.load(Ordering::Relaxed) {
                    let ask = Event::Ask { object: claim.object.clone(), after: Duration::ZERO };
                    tokio::spawn(async move { line.pass_on(ask) });
                }
                verdict
            })
        })
    }
}

impl Store for Network {
    fn acquire<'a>(&'a self, claim: &'a Claim, place: Option<Place>) -> Answer<'a, Verdict> {
        self.ask(claim, place, None)
    }

    fn acquire_beside<'a>(&'a self, claim: &'a Claim, writer: &'a Owner) -> Answer<'a, Verdict> {
        self.ask(claim, None, Some(writer.clone()))
    }

    fn recount<'a>(
        &'a self,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        let asked = claim.clone();
        self.send(Some(&claim.object), move |store| {
            let claim = asked.clone();
            Box::pin(async move { store.recount(&claim, count, ttl).await })
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, mode: ReleaseMode) -> Answer<'a, GivenBack> {
        self.oracle.releasing(&claim.owner);
        let (asked, oracle) = (claim.clone(), Arc::clone(&self.oracle));
        self.send(Some(&claim.object), move |store| {
            let (claim, oracle) = (asked.clone(), Arc::clone(&oracle));
            Box::pin(async move {
                let given = store.release(&claim, mode).await;
                oracle.aside(|| format!("{} gives back, {mode:?}: {given:?}", claim.owner));
                if let Ok(GivenBack::Freed(_)) = given {
                    oracle.given_back(&claim.owner);
                }
                given
            })
        })
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        self.oracle.renewing(renewals);
        let renewals = renewals.to_vec();
        self.send(None, move |store| {
            let renewals = renewals.clone();
            Box::pin(async move { store.renew(&renewals).await })
        })
    }

    fn replicated<'a>(&'a self, claim: &'a Claim, replicas: Replicas) -> Answer<'a, u32> {
        self.oracle.asks_replicas(&claim.owner);
        let asked = claim.clone();
        self.send(Some(&claim.object), move |store| {
            let claim = asked.clone();
            Box::pin(async move { store.replicated(&claim, replicas).await })
        })
    }

    /// Nobody asks for it twice, and so it is not doubled.
    fn guarded<'a>(&'a self, claim: &'a Claim, work: &'a Work) -> Answer<'a, Option<Value>> {
        let (asked, work, oracle) = (claim.clone(), work.clone(), Arc::clone(&self.oracle));
        let hold = self.oracle.last_hold(&claim.owner);
        self.carry(Some(&claim.object), 0, move |store| {
            let (claim, work, oracle) = (asked.clone(), work.clone(), Arc::clone(&oracle));
            Box::pin(async move {
                let done = store.guarded(&claim, &work).await;
                oracle.aside(|| format!("{} writes: {done:?}", claim.owner));
                if let Ok(Some(_)) = done {
                    oracle.written(&claim.owner, hold);
                }
                done
            })
        })
    }

    fn holder<'a>(&'a self, object: &'a Object) -> Answer<'a, Option<Holder>> {
        let asked = object.clone();
        self.send(Some(object), move |store| {
            let object = asked.clone();
            Box::pin(async move { store.holder(&object).await })
        })
    }

    fn held_by<'a>(&'a self, object: &'a Object, owner: &'a Owner) -> Answer<'a, u32> {
        let asked = (object.clone(), owner.clone());
        self.send(Some(object), move |store| {
            let (object, owner) = asked.clone();
            Box::pin(async move { store.held_by(&object, &owner).await })
        })
    }

    fn force_release<'a>(&'a self, object: &'a Object) -> Answer<'a, bool> {
        let asked = object.clone();
        self.send(Some(object), move |store| {
            let object = asked.clone();
            Box::pin(async move { store.force_release(&object).await })
        })
    }

    fn number<'a>(&'a self, object: &'a Object) -> Answer<'a, i64> {
        let asked = object.clone();
        self.send(Some(object), move |store| {
            let object = asked.clone();
            Box::pin(async move { store.number(&object).await })
        })
    }

    fn change<'a>(
        &'a self,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        let asked = (object.clone(), receipt.clone());
        self.send(Some(object), move |store| {
            let (object, receipt) = asked.clone();
            Box::pin(async move { store.change(&object, change, &receipt).await })
        })
    }

    fn count<'a>(&'a self, object: &'a Object) -> Answer<'a, Counts> {
        let asked = object.clone();
        self.send(Some(object), move |store| {
            let object = asked.clone();
            Box::pin(async move { store.count(&object).await })
        })
    }

    fn lease<'a>(
        &'a self,
        object: &'a Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        let asked = object.clone();
        self.send(Some(object), move |store| {
            let object = asked.clone();
            Box::pin(async move { store.lease(&object, id, lease).await })
        })
    }

    fn listen(&self, object: &Object) {
        self.line.state.lock().unwrap().wanted.insert(object.clone());
        // The subscription takes its time.
        let (store, object, delay) = (Arc::clone(&self.store), object.clone(), self.delay());
        let line = Arc::clone(&self.line);
        tokio::spawn(async move {
            sleep(delay).await;
            if line.carries(&object) {
                store.listen(&object);
            }
        });
    }

    fn unlisten(&self, object: &Object) {
        self.line.state.lock().unwrap().wanted.remove(object);
        self.store.unlisten(object);
    }

    fn tell(&self, subscriber: Weak<dyn Subscriber>) {
        self.line.state.lock().unwrap().subscriber = Some(subscriber);
    }

    fn look(&self) -> Answer<'_, About> {
        self.send(None, |store| Box::pin(async move { store.look().await }))
    }
}

/// The connection that carries messages.
struct Line {
    state: Mutex<LineState>,
    weather: Weather,
    chance: Mutex<fastrand::Rng>,
    gate: Gate,
}

#[derive(Default)]
struct LineState {
    subscriber: Option<Weak<dyn Subscriber>>,
    wanted: BTreeSet<Object>,
    down: bool,
    /// Whether it will never be up again.
    cut: bool,
}

impl Line {
    fn carries(&self, object: &Object) -> bool {
        let state = self.state.lock().unwrap();
        !state.down && state.wanted.contains(object)
    }

    fn pass_on(&self, event: Event) {
        let subscriber = self.state.lock().unwrap().subscriber.as_ref().and_then(Weak::upgrade);
        if let Some(subscriber) = subscriber {
            subscriber.hear(event);
        }
    }

    /// How long a message takes, if it arrives at all.
    fn fate(&self, event: &Event) -> Option<Duration> {
        let mut chance = self.chance.lock().unwrap();
        let is_release = matches!(event, Event::Freed { .. } | Event::Ask { .. });
        let lost = is_release && chance.u32(..1_000) < self.weather.lose_message;
        let delay = Duration::from_millis(chance.u64(..=self.weather.delay));
        (!lost && !self.state.lock().unwrap().down).then_some(delay)
    }
}

/// What the store tells goes over the line, and takes its time.
struct Arriving(Weak<Line>);

impl Subscriber for Arriving {
    fn hear(&self, event: Event) {
        let Some(line) = self.0.upgrade() else { return };
        let Some(delay) = line.fate(&event) else { return };
        tokio::spawn(async move {
            sleep(delay).await;
            // Who is paused finds it in its socket later.
            line.gate.pass(ready(())).await;
            if !line.state.lock().unwrap().down {
                line.pass_on(event);
            }
        });
    }
}
