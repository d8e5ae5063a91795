//! One task that contends: it requests, holds for a short time, releases, and pauses.

use std::sync::Arc;
use std::time::Duration;

use chaos::clock::{Nanos, nanos, now};
use chaos::orders::{Kind, Mode, Object, Orders};
use chaos::worker_event::WorkerEvent;
use fastrand::Rng;
use leasehold::{Client, Error, Replicas};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::event_pipe::EventPipe;
use crate::guard::Guard;
use crate::{Names, now_called};

/// The timeout of an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AcquireTimeout {
    Endless,
    Within(Duration),
    None,
}

impl AcquireTimeout {
    pub(crate) const SHORT: Duration = Duration::from_secs(1);

    fn choose(rng: &mut Rng) -> Self {
        match rng.u32(0..20) {
            0 => Self::None,
            1 | 2 => Self::Within(Duration::from_millis(rng.u64(5..50))),
            3..=6 => Self::Within(Duration::from_secs(2)),
            _ => Self::Endless,
        }
    }
}

/// One task of a worker.
#[derive(Debug)]
pub(crate) struct Contender {
    orders: Arc<Orders>,
    client: Client,
    pipe: Arc<EventPipe>,
    names: Names,
    rng: Rng,
}

/// One attempt of a contender: the object, and the use of the hold.
#[derive(Debug)]
struct Attempt {
    hold: u64,
    object: Object,
    mode: Mode,
    max_wait: AcquireTimeout,
    /// How long it holds.
    stay: Duration,
    /// How long after its release it writes once more, if it does.
    late: Option<Duration>,
}

impl Contender {
    pub(crate) fn new(
        number: u64,
        (orders, client, pipe, names): (Arc<Orders>, Client, Arc<EventPipe>, Names),
    ) -> Self {
        let rng = Rng::with_seed(orders.seed.wrapping_mul(1000) + number);
        Self { orders, client, pipe, names, rng }
    }

    pub(crate) async fn contend(mut self, stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let attempt = self.attempt();
            self.live(&attempt).await;
            sleep(Duration::from_millis(self.rng.u64(10..80))).await;
        }
    }

    fn attempt(&mut self) -> Attempt {
        let wanted: Vec<_> =
            self.orders.objects.iter().filter(|it| it.kind != Kind::Latch).collect();
        let object = self.rng.choice(wanted).expect("there is something to want");
        let stay = match self.rng.u32(0..100) {
            // Longer than a lease, so the hold is renewed. Renewals do not wait for replicas.
            0 if !object.replicated => Duration::from_millis(self.orders.ttl_ms * 3 / 2),
            1..=5 => Duration::from_millis(self.rng.u64(100..600)),
            _ => Duration::from_micros(self.rng.u64(500..20_000)),
        };
        let mode = match object.kind {
            Kind::Semaphore | Kind::Permits => Mode::Permit,
            Kind::ReadWrite if self.rng.u32(0..3) > 0 => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let late = (object.kind == Kind::Fenced && self.rng.bool())
            .then(|| Duration::from_millis(self.rng.u64(1..100)));
        let max_wait = AcquireTimeout::choose(&mut self.rng);
        let object = object.called(&now_called(&self.names, &object.name));
        Attempt { hold: self.pipe.next_hold(), object, mode, max_wait, stay, late }
    }

    async fn live(&mut self, attempt: &Attempt) {
        let (hold, name) = (attempt.hold, attempt.object.name.clone());
        self.pipe.send(&WorkerEvent::Ask { hold, name, mode: attempt.mode, call: now() });
        // A hold of a fenced lock has a token, which a disobedient task cannot invent.
        let may_disobey = self.orders.disobeys && attempt.object.kind != Kind::Fenced;
        let disobeys = may_disobey && self.rng.u32(0..30) == 0;
        let granted = if disobeys { Ok(Some(Guard::Nothing)) } else { self.acquire(attempt).await };
        let at = now();
        match granted {
            Ok(Some(guard)) => {
                self.pipe.send(&WorkerEvent::Enter { hold, at, token: guard.token() });
                self.stay(attempt, guard, at).await;
            }
            Ok(None) => self.pipe.send(&WorkerEvent::GaveUp { hold, at, why: "busy".into() }),
            Err(error) => self.pipe.send(&WorkerEvent::GaveUp { hold, at, why: word(&error) }),
        }
    }

    async fn acquire(&self, attempt: &Attempt) -> Result<Option<Guard>, Error> {
        let (name, max_wait) = (&attempt.object.name, attempt.max_wait);
        let replicas = attempt.object.replicated.then(|| Replicas::at_least(1));
        match attempt.object.kind {
            Kind::Lock => {
                let lock = self.client.lock(name)?.replicated(replicas);
                Guard::of_lock(&lock, max_wait).await
            }
            Kind::Fenced => {
                let lock = self.client.fenced_lock(name)?.replicated(replicas);
                Guard::of_fenced(&lock, max_wait).await
            }
            Kind::ReadWrite => {
                let both = self.client.read_write_lock(name)?;
                let side = if attempt.mode == Mode::Shared { both.read() } else { both.write() };
                Guard::of_lock(&side.replicated(replicas), max_wait).await
            }
            Kind::Semaphore => {
                let semaphore = self.client.semaphore(name)?.replicated(replicas);
                Guard::of_semaphore(&semaphore, max_wait).await
            }
            Kind::Permits => {
                let permits = self.client.expirable_semaphore(name)?.replicated(replicas);
                Guard::of_permits(&permits, max_wait).await
            }
            Kind::Latch => unreachable!("a latch is nothing to hold"),
        }
    }

    /// Holds, and checks from time to time whether it still does. Each check is dated before its
    /// request: a process that is suspended right after a check has done nothing since.
    async fn stay(&self, attempt: &Attempt, guard: Guard, entered: Nanos) {
        let hold = attempt.hold;
        let until = entered + nanos(attempt.stay);
        let token = guard.token();
        let mut believed = entered;
        loop {
            let at = now();
            self.write(attempt, token);
            if !guard.is_held() {
                return self.pipe.send(&WorkerEvent::Lost { hold, at: believed });
            }
            believed = at;
            if at >= until {
                break;
            }
            sleep(Duration::from_nanos(until - at).min(STEP)).await;
        }
        self.pipe.send(&WorkerEvent::Leaving { hold, at: believed });
        match guard.release().await {
            Ok(true) => self.pipe.send(&WorkerEvent::Left { hold, at: now() }),
            Ok(false) | Err(_) => self.pipe.send(&WorkerEvent::Lost { hold, at: believed }),
        }
        if let Some(late) = attempt.late {
            sleep(late).await;
            self.write(attempt, token);
        }
    }

    /// Writes without a check, like a process that was suspended between the check and the write.
    fn write(&self, attempt: &Attempt, token: Option<u64>) {
        if let Some(token) = token {
            let (name, hold) = (attempt.object.name.clone(), attempt.hold);
            self.pipe.send(&WorkerEvent::Write { name, hold, token, at: now() });
        }
    }
}

/// The name of the error, without details.
fn word(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

/// The interval of these checks.
const STEP: Duration = Duration::from_millis(5);
