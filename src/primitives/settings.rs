//! The settings of a lock: kept, checked and written down once, for tasks and for
//! threads alike.

use std::time::Duration;

use super::OnLoss;
use crate::{
    domain::{InvalidDuration, Object, Replicas, Share, WaitBy, checked},
    engine::{
        acquire::{Want, Within},
        grant::{LocalTurns, Terms},
        timing::LONGEST_PATIENCE,
    },
    error::{Error, Result},
};

/// How a lock is waited for and kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) wait_by: WaitBy,
    pub(crate) local_turns: LocalTurns,
    pub(crate) on_loss: OnLoss,
    pub(crate) share: Share,
    pub(crate) replicas: Option<Replicas>,
}

impl Settings {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            lease: None,
            max_hold: None,
            wait_by: WaitBy::default(),
            local_turns: LocalTurns::default(),
            on_loss: OnLoss::default(),
            share: Share::WHOLE,
            replicas: None,
        }
    }

    /// What they mean for `object`, if they can be kept.
    pub(crate) fn want(&self, object: &Object) -> Result<Want> {
        self.want_share(object, self.share)
    }

    /// The same for a part of it.
    pub(crate) fn want_share(&self, object: &Object, share: Share) -> Result<Want> {
        let ttl = match self.lease {
            Some(lease) => checked("lease", lease)?,
            None => checked("ttl", self.ttl)?,
        };
        let max_hold = self.max_hold.map(|most| checked("max_hold", most)).transpose()?;
        if let WaitBy::Polling { first, longest } = self.wait_by {
            checked("first pause of polling", first)?;
            checked("longest pause of polling", longest)?;
        }
        let terms = Terms { renewed: self.lease.is_none(), max_hold, local: self.local_turns };
        let replicas = checked_replicas(object, self.replicas)?;
        let (object, wait_by) = (object.clone(), self.wait_by);
        Ok(Want { object, share, beside: None, ttl, terms, wait_by, replicas })
    }
}

/// Passes a number of replicas that can be waited for.
pub(super) fn checked_replicas(
    object: &Object,
    replicas: Option<Replicas>,
) -> Result<Option<Replicas>> {
    let Some(Replicas { least, within }) = replicas else { return Ok(None) };
    checked("within of replicas", within)?;
    match least {
        0 => Err(Error::Zero { name: object.name.clone() }),
        _ => Ok(replicas),
    }
}

/// Passes a patience that leaves time to ask. It begins now.
pub(crate) fn checked_patience(patience: Duration) -> Result<Within, InvalidDuration> {
    if patience.is_zero() {
        let rule = "more than zero: try_acquire asks once without waiting";
        return Err(InvalidDuration { setting: "patience", given: patience, rule });
    }
    Ok(Within::from_now(patience.min(LONGEST_PATIENCE)))
}

/// The public methods that set them, for a type with a method `set`. Each is shown
/// on what `$kind` of a client of the type `$client` makes.
macro_rules! settings {
    ($client:literal, $kind:literal) => {
        /// Sets how long the lock survives a holder that died. Default: 30 s.
        ///
        /// A living holder renews it in the background, each third of this time.
        /// So this bounds how long others wait after a crash, not how long the
        /// work may take.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let lock = client.", $kind, "(\"orders:42\")?.ttl(Duration::from_secs(10));")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn ttl(self, ttl: Duration) -> Self {
            self.set(|settings| settings.ttl = ttl)
        }

        /// Sets a fixed lease: the lock is **never renewed** and ends after this
        /// time, even if the work goes on. Default: none, it is renewed.
        ///
        /// The guard tells when it has ended. Redisson's `lock(lease, unit)` is the
        /// same.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let lock = client.", $kind, "(\"mails/hourly\")?.lease(Duration::from_secs(30 * 60));")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn lease(self, lease: Duration) -> Self {
            self.set(|settings| settings.lease = Some(lease))
        }

        /// Sets how long the lock may be held at all. Default: without limit.
        ///
        /// A holder that hangs but lives would be renewed for ever. After this time
        /// its hold is over, with [`LostReason::MaxHold`](crate::LostReason::MaxHold),
        /// and is not renewed any more: others enter when its guard goes, or at the
        /// latest one ttl later.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let lock = client.", $kind, "(\"nightly-close\")?.max_hold(Duration::from_secs(60 * 60));")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn max_hold(self, most: Duration) -> Self {
            self.set(|settings| settings.max_hold = Some(most))
        }

        /// Sets how a waiter learns that the lock may be free. Default: by messages.
        ///
        /// A waiter that polls has no place in the queue: it must find the lock free.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let lock = client.", $kind, "(\"orders:42\")?.wait_by(leasehold::WaitBy::Messages);")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn wait_by(self, wait_by: WaitBy) -> Self {
            self.set(|settings| settings.wait_by = wait_by)
        }

        /// Sets how long the lock may stay in this process when it is released while
        /// others wait for it here: for `most` holds after the first one and for
        /// `time`, whichever ends sooner. 10 000 and 10 ms by default.
        ///
        /// Within these bounds a release passes the lock on to the next waiter of
        /// this process without asking the store at all, hundreds of times as fast
        /// as by way of the store. After that those who wait in other processes have
        /// their turn. The store sees one owner all the while, and so does
        /// [`LockGuard::owner`](crate::LockGuard::owner). Only locks without a fixed
        /// lease and with the same ttl are passed on, and only while the next renewal
        /// is not due.
        ///
        /// `most` of 0 gives each release back to the store.
        ///
        /// # Examples
        ///
        /// ```
        /// use std::time::Duration;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let lock = client.", $kind, "(\"orders:42\")?.local_turns(100, Duration::from_millis(5));")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn local_turns(self, most: u32, time: Duration) -> Self {
            self.set(|settings| settings.local_turns = LocalTurns { most, time })
        }
    };
}

/// The setting that threads lack, for the same types.
macro_rules! on_loss {
    ($kind:literal) => {
        /// Sets what [`run`](crate::Lock::run) does with work whose lock is lost. Default:
        /// the work is dropped.
        ///
        /// # Examples
        ///
        /// ```
        /// # fn demo(client: leasehold::Client) -> Result<(), leasehold::Error> {
        #[doc = concat!("let lock = client.", $kind, "(\"orders:42\")?.on_loss(leasehold::OnLoss::Drop);")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn on_loss(self, on_loss: OnLoss) -> Self {
            self.set(|settings| settings.on_loss = on_loss)
        }
    };
}

/// The setting of whatever is granted, which `$set` keeps: a function of the type.
macro_rules! replicated {
    ($client:literal, $kind:literal, $set:expr) => {
        /// Has a grant acknowledged by replicas of the server before the caller has it: so that a
        /// failover to one of these does not forget it. Default: that of the client, or not at all.
        ///
        /// If too few have it in time the grant is taken back, and this is
        /// [`Error::NotReplicated`](crate::Error::NotReplicated). `None` asks no replica.
        ///
        /// It makes a loss less likely, and does not rule it out: **a failover to a replica that
        /// has not acknowledged forgets the grant**. Ask for as many as may be promoted.
        /// Renewals are not waited for. [What holds][holds] is in the guarantees.
        ///
        /// Costs another round trip and that of the servers, on a connection of its own: all who
        /// ask at the same time share them. What goes from task to task of this process was
        /// acknowledged with the first of these grants.
        ///
        /// [holds]: crate::docs::guarantees#replicas-and-failovers
        ///
        /// # Examples
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
        /// # async fn main() -> Result<(), leasehold::Error> {
        /// use leasehold::{Client, Error, MemoryStore, Replicas};
        /// let store = MemoryStore::new();
        /// let lock = Client::sharing(&store).lock("orders:42")?.replicated(Replicas::at_least(2));
        ///
        /// store.set_replicas(2);
        /// lock.acquire().await?.release().await?.done()?;
        ///
        /// store.set_replicas(1);
        /// let refused = lock.acquire().await;
        /// assert!(matches!(refused, Err(Error::NotReplicated { wanted: 2, got: 1, .. })));
        /// assert!(!lock.is_locked().await?);
        /// # Ok(()) }
        /// ```
        ///
        /// Of anything that is granted:
        ///
        /// ```
        /// use leasehold::Replicas;
        #[doc = concat!("# fn demo(client: ", $client, ") -> Result<(), leasehold::Error> {")]
        #[doc = concat!("let ours = client.", $kind, "(\"orders:42\")?.replicated(Replicas::at_least(1));")]
        /// # Ok(()) }
        /// ```
        #[must_use]
        pub fn replicated(self, replicas: impl Into<Option<Replicas>>) -> Self {
            let set: fn(Self, Option<Replicas>) -> Self = $set;
            set(self, replicas.into())
        }
    };
}

pub(crate) use {on_loss, replicated, settings};
