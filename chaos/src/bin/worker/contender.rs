//! One task that wants what others want: asks, holds for a short time, gives back, rests.

use std::sync::Arc;
use std::time::Duration;

use chaos::clock::{Nanos, nanos, now};
use chaos::orders::{Kind, Mode, Object, Orders};
use chaos::said::Said;
use fastrand::Rng;
use leasehold::{Client, Error, Replicas};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::guard::Guard;
use crate::voice::Voice;
use crate::{Names, now_called};

/// How long one waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Endless,
    Within(Duration),
    None,
}

impl Patience {
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
    voice: Arc<Voice>,
    names: Names,
    rng: Rng,
}

/// One turn of a contender: what it wants, and what it does with it.
#[derive(Debug)]
struct Wish {
    hold: u64,
    object: Object,
    mode: Mode,
    patience: Patience,
    /// How long it holds.
    stay: Duration,
    /// How long after it has left it writes again, if it does.
    late: Option<Duration>,
}

impl Contender {
    pub(crate) fn new(
        number: u64,
        (orders, client, voice, names): (Arc<Orders>, Client, Arc<Voice>, Names),
    ) -> Self {
        let rng = Rng::with_seed(orders.seed.wrapping_mul(1000) + number);
        Self { orders, client, voice, names, rng }
    }

    pub(crate) async fn contend(mut self, stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let wish = self.wish();
            self.live(&wish).await;
            sleep(Duration::from_millis(self.rng.u64(10..80))).await;
        }
    }

    fn wish(&mut self) -> Wish {
        let wanted: Vec<_> =
            self.orders.objects.iter().filter(|it| it.kind != Kind::Latch).collect();
        let object = self.rng.choice(wanted).expect("there is something to want");
        let stay = match self.rng.u32(0..100) {
            // Longer than a lease: it has to be renewed. Renewals are not waited for at replicas.
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
        let patience = Patience::choose(&mut self.rng);
        let object = object.called(&now_called(&self.names, &object.name));
        Wish { hold: self.voice.next_hold(), object, mode, patience, stay, late }
    }

    async fn live(&mut self, wish: &Wish) {
        let (hold, name) = (wish.hold, wish.object.name.clone());
        self.voice.say(&Said::Ask { hold, name, mode: wish.mode, call: now() });
        // A hold of a fenced lock has a token, and nobody can make one up.
        let may_disobey = self.orders.disobeys && wish.object.kind != Kind::Fenced;
        let disobeys = may_disobey && self.rng.u32(0..30) == 0;
        let granted = if disobeys { Ok(Some(Guard::Nothing)) } else { self.acquire(wish).await };
        let at = now();
        match granted {
            Ok(Some(guard)) => {
                self.voice.say(&Said::Enter { hold, at, token: guard.token() });
                self.stay(wish, guard, at).await;
            }
            Ok(None) => self.voice.say(&Said::GaveUp { hold, at, why: "busy".into() }),
            Err(error) => self.voice.say(&Said::GaveUp { hold, at, why: word(&error) }),
        }
    }

    async fn acquire(&self, wish: &Wish) -> Result<Option<Guard>, Error> {
        let (name, patience) = (&wish.object.name, wish.patience);
        let replicas = wish.object.replicated.then(|| Replicas::at_least(1));
        match wish.object.kind {
            Kind::Lock => {
                let lock = self.client.lock(name)?.replicated(replicas);
                Guard::of_lock(&lock, patience).await
            }
            Kind::Fenced => {
                let lock = self.client.fenced_lock(name)?.replicated(replicas);
                Guard::of_fenced(&lock, patience).await
            }
            Kind::ReadWrite => {
                let both = self.client.read_write_lock(name)?;
                let side = if wish.mode == Mode::Shared { both.read() } else { both.write() };
                Guard::of_lock(&side.replicated(replicas), patience).await
            }
            Kind::Semaphore => {
                let semaphore = self.client.semaphore(name)?.replicated(replicas);
                Guard::of_semaphore(&semaphore, patience).await
            }
            Kind::Permits => {
                let permits = self.client.expirable_semaphore(name)?.replicated(replicas);
                Guard::of_permits(&permits, patience).await
            }
            Kind::Latch => unreachable!("a latch is nothing to hold"),
        }
    }

    /// Holds, and looks now and then whether it does. Each look is dated before it: whoever
    /// is stopped right after one has done nothing since.
    async fn stay(&self, wish: &Wish, guard: Guard, entered: Nanos) {
        let hold = wish.hold;
        let until = entered + nanos(wish.stay);
        let token = guard.token();
        let mut believed = entered;
        loop {
            let at = now();
            self.write(wish, token);
            if !guard.is_held() {
                return self.voice.say(&Said::Lost { hold, at: believed });
            }
            believed = at;
            if at >= until {
                break;
            }
            sleep(Duration::from_nanos(until - at).min(STEP)).await;
        }
        self.voice.say(&Said::Leaving { hold, at: believed });
        match guard.release().await {
            Ok(true) => self.voice.say(&Said::Left { hold, at: now() }),
            Ok(false) | Err(_) => self.voice.say(&Said::Lost { hold, at: believed }),
        }
        if let Some(late) = wish.late {
            sleep(late).await;
            self.write(wish, token);
        }
    }

    /// Writes without a look, as one does who was stopped between the two.
    fn write(&self, wish: &Wish, token: Option<u64>) {
        if let Some(token) = token {
            let (name, hold) = (wish.object.name.clone(), wish.hold);
            self.voice.say(&Said::Write { name, hold, token, at: now() });
        }
    }
}

/// The name of what went wrong, without its details.
fn word(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

/// How often a holder looks whether it holds.
const STEP: Duration = Duration::from_millis(5);
