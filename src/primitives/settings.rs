//! The settings of a lock: kept, checked and written down once, for tasks and for
//! threads alike.

use std::time::Duration;

use super::OnLoss;
use crate::{
    domain::{InvalidDuration, Object, Share, WaitBy, checked},
    engine::{
        acquire::Want,
        grant::{LocalTurns, Terms},
        timing::LONGEST_PATIENCE,
    },
    error::Result,
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
        let (object, wait_by) = (object.clone(), self.wait_by);
        Ok(Want { object, share, beside: None, ttl, terms, wait_by })
    }
}

/// Passes a patience that leaves time to ask.
pub(super) fn checked_patience(patience: Duration) -> Result<Duration, InvalidDuration> {
    if patience.is_zero() {
        let rule = "more than zero: try_acquire asks once without waiting";
        return Err(InvalidDuration { setting: "patience", given: patience, rule });
    }
    Ok(patience.min(LONGEST_PATIENCE))
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
        /// Who polls takes a place in the queue after a second, and with pauses longer
        /// than 0.25 s never: it then must meet the lock free.
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

pub(crate) use {on_loss, settings};
