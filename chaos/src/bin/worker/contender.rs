//! One task that contends: it acquires, holds for a short time, releases, and pauses.

use std::sync::Arc;
use std::time::Duration;

use chaos::clock::{Nanos, nanos, now};
use chaos::orders::{Kind, Mode, Object, Orders};
use chaos::worker_event::WorkerEvent;
use fastrand::Rng;
use leasehold::{Client, Error, Queue, Replicas};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::event_pipe::EventPipe;
use crate::guard::{End, Guard};
use crate::{Names, now_called};

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

#[derive(Debug)]
pub(crate) struct Contender {
    orders: Arc<Orders>,
    client: Client,
    pipe: Arc<EventPipe>,
    names: Names,
    rng: Rng,
}

/// One attempt: the object, and what the contender does with the hold.
#[derive(Debug)]
struct Attempt {
    hold: u64,
    object: Object,
    mode: Mode,
    max_wait: AcquireTimeout,
    /// How long the contender holds the object.
    stay: Duration,
    /// How long after its release the contender writes once more. `None` for no late write.
    late: Option<Duration>,
    /// The number of elements that the contender appends to a queue before it claims one.
    pushes: u64,
    /// Whether the contender gives the claimed element back to the queue.
    goes_back: bool,
}

/// Acquires by the method that fits the timeout.
macro_rules! acquire {
    ($lock:expr, $max_wait:expr, $guard:expr) => {
        match $max_wait {
            AcquireTimeout::Endless => Some($lock.acquire().await?),
            AcquireTimeout::Within(time) => Some($lock.acquire_within(time).await?),
            AcquireTimeout::None => $lock.try_acquire().await?,
        }
        .map($guard)
    };
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
            self.live(attempt).await;
            sleep(Duration::from_millis(self.rng.u64(10..80))).await;
        }
    }

    fn attempt(&mut self) -> Attempt {
        let wanted: Vec<_> =
            self.orders.objects.iter().filter(|it| it.kind != Kind::Latch).collect();
        let object =
            self.rng.choice(wanted).expect("the orders contain an object that can be acquired");
        let stay = match self.rng.u32(0..100) {
            // This time is longer than a lease, so the client must renew the hold. Renewals do not
            // wait for replicas, so a promoted replica may have an older lease. Therefore
            // replicated objects are held briefly.
            0 if !object.replicated => Duration::from_millis(self.orders.ttl_ms * 3 / 2),
            1..=5 => Duration::from_millis(self.rng.u64(100..600)),
            _ => Duration::from_micros(self.rng.u64(500..20_000)),
        };
        let mode = match object.kind {
            Kind::Semaphore | Kind::Permits => Mode::Permit,
            Kind::ReadWrite if self.rng.u32(0..3) > 0 => Mode::Shared,
            Kind::Queue => Mode::Claim,
            _ => Mode::Exclusive,
        };
        let late = (object.has_tokens() && self.rng.bool())
            .then(|| Duration::from_millis(self.rng.u64(1..100)));
        let max_wait = AcquireTimeout::choose(&mut self.rng);
        // Redisson workers poll elements, but never append any. So each attempt appends one or two
        // elements, and claims one.
        let (pushes, goes_back) = (self.rng.u64(1..=2), self.rng.u32(0..5) == 0);
        let object = object.called(&now_called(&self.names, &object.name));
        let hold = self.pipe.next_hold();
        Attempt { hold, object, mode, max_wait, stay, late, pushes, goes_back }
    }

    async fn live(&mut self, mut attempt: Attempt) {
        let (hold, name) = (attempt.hold, attempt.object.name.clone());
        self.pipe.send(&WorkerEvent::Ask { hold, name, mode: attempt.mode, call: now() });
        // A disobedient task gets no token. So it disobeys only at objects without tokens.
        let may_disobey = self.orders.disobeys && !attempt.object.has_tokens();
        let granted = if may_disobey && self.rng.u32(0..10) == 0 {
            // This time is long enough to overlap with another holder.
            attempt.stay = DISOBEYS;
            self.disobey(&attempt).await
        } else {
            self.acquire(&attempt).await
        };
        let at = now();
        match granted {
            Ok(Some(guard)) => {
                let (token, element) = (guard.token(), guard.element());
                self.pipe.send(&WorkerEvent::Enter { hold, at, token, element });
                self.stay(&attempt, guard, at).await;
            }
            Ok(None) => self.pipe.send(&WorkerEvent::GaveUp { hold, at, why: "busy".into() }),
            Err(error) => self.pipe.send(&WorkerEvent::GaveUp { hold, at, why: word(&error) }),
        }
    }

    async fn acquire(&self, attempt: &Attempt) -> Result<Option<Guard>, Error> {
        let (name, max_wait) = (&attempt.object.name, attempt.max_wait);
        let replicas = attempt.object.replicated.then(|| Replicas::at_least(1));
        Ok(match attempt.object.kind {
            Kind::Lock => {
                let lock = self.client.lock(name)?.replicated(replicas);
                acquire!(lock, max_wait, Guard::Lock)
            }
            Kind::Fair => {
                let lock = self.client.fair_lock(name)?.replicated(replicas);
                acquire!(lock, max_wait, Guard::Lock)
            }
            Kind::Fenced => {
                let lock = self.client.fenced_lock(name)?.replicated(replicas);
                acquire!(lock, max_wait, Guard::Fenced)
            }
            Kind::Multi => {
                let lock = self.client.multi_lock(&attempt.object.members)?;
                acquire!(lock, max_wait, Guard::Multi)
            }
            Kind::ReadWrite => {
                let both = self.client.read_write_lock(name)?;
                let side = if attempt.mode == Mode::Shared { both.read() } else { both.write() };
                acquire!(side.replicated(replicas), max_wait, Guard::Lock)
            }
            Kind::Permits => {
                let permits = self.client.expirable_semaphore(name)?.replicated(replicas);
                acquire!(permits, max_wait, Guard::Permits)
            }
            Kind::Semaphore => self.acquire_permit(attempt, replicas).await?,
            Kind::Election => self.campaign(attempt, replicas).await?,
            Kind::Queue => self.claim(attempt, replicas).await?,
            Kind::Latch => unreachable!("a latch cannot be held"),
        })
    }

    /// A semaphore never gets the permits of a killed process back. So no task waits for a permit
    /// without a timeout.
    async fn acquire_permit(
        &self,
        attempt: &Attempt,
        replicas: Option<Replicas>,
    ) -> Result<Option<Guard>, Error> {
        let semaphore = self.client.semaphore(&attempt.object.name)?.replicated(replicas);
        Ok(match attempt.max_wait {
            AcquireTimeout::None => semaphore.try_acquire(1).await?,
            _ => Some(semaphore.acquire_within(1, AcquireTimeout::SHORT).await?),
        }
        .map(Guard::Semaphore))
    }

    async fn campaign(
        &self,
        attempt: &Attempt,
        replicas: Option<Replicas>,
    ) -> Result<Option<Guard>, Error> {
        let election = self.client.election(&attempt.object.name)?.replicated(replicas);
        let value = &*self.orders.process;
        Ok(match attempt.max_wait {
            AcquireTimeout::Endless => Some(election.campaign(value).await?),
            AcquireTimeout::Within(time) => Some(election.campaign_within(value, time).await?),
            AcquireTimeout::None => election.try_campaign(value).await?,
        }
        .map(Guard::Leader))
    }

    /// Pushes some elements, and claims one. Redisson workers may have polled all elements, so no
    /// task waits without a timeout.
    async fn claim(
        &self,
        attempt: &Attempt,
        replicas: Option<Replicas>,
    ) -> Result<Option<Guard>, Error> {
        let queue = self.client.queue(&attempt.object.name)?.replicated(replicas);
        self.push(attempt, &queue).await?;
        let claim = match attempt.max_wait {
            AcquireTimeout::None => queue.try_claim().await?,
            _ => Some(queue.claim_within(AcquireTimeout::SHORT).await?),
        };
        Ok(claim.map(|claim| Guard::Claim { claim, goes_back: attempt.goes_back }))
    }

    async fn push(&self, attempt: &Attempt, queue: &Queue<String>) -> Result<(), Error> {
        let element = |number| format!("{}-{number}", attempt.hold);
        let elements: Vec<_> = (0..attempt.pushes).map(element).collect();
        queue.push_all(&elements).await?;
        let name = attempt.object.name.clone();
        self.pipe.send(&WorkerEvent::Pushed { name, elements, at: now() });
        Ok(())
    }

    /// Acts as a holder, but sends no request. For a queue, takes an element that was given back.
    async fn disobey(&self, attempt: &Attempt) -> Result<Option<Guard>, Error> {
        if attempt.object.kind != Kind::Queue {
            return Ok(Some(Guard::Nothing { element: None }));
        }
        let Some(guard) = self.acquire(attempt).await? else { return Ok(None) };
        let element = guard.element();
        drop(guard);
        Ok(Some(Guard::Nothing { element }))
    }

    /// Holds the object, and checks repeatedly whether the hold has ended. If a check fails, the
    /// hold is recorded as ended when the last successful check began, because the process may have
    /// been suspended right after that check.
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
            Ok(End::Released) => self.pipe.send(&WorkerEvent::Left { hold, at: now() }),
            Ok(End::Done) => self.pipe.send(&WorkerEvent::Done { hold, at: now() }),
            // The element may be done, so this error is not recorded as a loss.
            Err(_) if attempt.mode == Mode::Claim => {}
            Ok(End::Lost) | Err(_) => self.pipe.send(&WorkerEvent::Lost { hold, at: believed }),
        }
        if let Some(late) = attempt.late {
            sleep(late).await;
            self.write(attempt, token);
        }
    }

    /// Writes without a check, like a process that was suspended between its check and its write.
    fn write(&self, attempt: &Attempt, token: Option<u64>) {
        if let Some(token) = token {
            let (name, hold) = (attempt.object.name.clone(), attempt.hold);
            self.pipe.send(&WorkerEvent::Write { name, hold, token, at: now() });
        }
    }
}

/// The name of the error, without its details.
fn word(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

/// How long a disobedient task acts as a holder.
const DISOBEYS: Duration = Duration::from_millis(500);
/// The interval between two checks of a hold.
const STEP: Duration = Duration::from_millis(5);
