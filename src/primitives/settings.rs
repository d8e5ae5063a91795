//! The settings of all primitives, for tasks and for threads.

use std::{sync::Arc, time::Duration};

use super::OnLoss;
use crate::{
    domain::{
        CENTURY, InvalidDuration, MOST_PERMITS, Name, Object, Replicas, Share, WaitStrategy,
        checked,
    },
    engine::{
        acquire::{AcquireRequest, Deadline},
        grant::{LocalHandoff, Terms},
        timing::LONGEST_TIMEOUT,
    },
    error::{Error, Result},
};

/// How a waiter waits for a lock, and how a holder keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) wait_strategy: WaitStrategy,
    pub(crate) local_handoff: LocalHandoff,
    pub(crate) on_loss: OnLoss,
    pub(crate) share: Share,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) reason: Option<Arc<str>>,
}

impl Settings {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            lease: None,
            max_hold: None,
            wait_strategy: WaitStrategy::default(),
            local_handoff: LocalHandoff::default(),
            on_loss: OnLoss::default(),
            share: Share::WHOLE,
            replicas: None,
            reason: None,
        }
    }

    /// Returns the request that these settings make for `object`, if they are valid.
    pub(crate) fn request(&self, object: &Object) -> Result<AcquireRequest> {
        self.request_share(object, self.share)
    }

    /// Returns the request for this share of `object`.
    pub(crate) fn request_share(&self, object: &Object, share: Share) -> Result<AcquireRequest> {
        let ttl = match self.lease {
            Some(lease) => checked("lease", lease)?,
            None => checked("ttl", self.ttl)?,
        };
        let max_hold = self.max_hold.map(|most| checked("max_hold", most)).transpose()?;
        if let WaitStrategy::Polling { initial: first, max: longest } = self.wait_strategy {
            checked("initial interval of polling", first)?;
            checked("max interval of polling", longest)?;
        }
        let terms = Terms { renewed: self.lease.is_none(), max_hold, local: self.local_handoff };
        let replicas = checked_replicas(object, self.replicas)?;
        let (object, wait_strategy) = (object.clone(), self.wait_strategy);
        let (writer, reason) = (None, self.reason.clone());
        Ok(AcquireRequest { object, share, writer, ttl, terms, wait_strategy, replicas, reason })
    }
}

/// Returns the request for a share that has no lease.
pub(super) fn request_without_lease(
    object: &Object,
    share: Share,
    replicas: Option<Replicas>,
) -> Result<AcquireRequest> {
    let terms = Terms { renewed: false, max_hold: None, local: LocalHandoff::default() };
    let replicas = checked_replicas(object, replicas)?;
    let (object, ttl, wait_strategy) = (object.clone(), CENTURY, WaitStrategy::PubSub);
    let (writer, reason) = (None, None);
    Ok(AcquireRequest { object, share, writer, ttl, terms, wait_strategy, replicas, reason })
}

/// Checks a number of replicas.
fn checked_replicas(object: &Object, replicas: Option<Replicas>) -> Result<Option<Replicas>> {
    let Some(Replicas { least, within }) = replicas else { return Ok(None) };
    checked("time limit of replicas", within)?;
    match least {
        0 => Err(Error::ZeroCount { name: object.name.clone() }),
        _ => Ok(replicas),
    }
}

/// Checks a number of permits.
pub(super) fn possible(name: &Name, permits: u32) -> Result<u32> {
    match permits {
        0..=MOST_PERMITS => Ok(permits),
        _ => Err(Error::TooMany { name: name.clone(), most: MOST_PERMITS }),
    }
}

/// Checks a timeout, which begins now.
pub(crate) fn checked_timeout(timeout: Duration) -> Result<Deadline, InvalidDuration> {
    if timeout.is_zero() {
        let rule = "more than zero; to try once without waiting, use try_acquire";
        return Err(InvalidDuration { setting: "timeout", given: timeout, rule });
    }
    Ok(Deadline::from_now(timeout.min(LONGEST_TIMEOUT)))
}

/// The public settings of a type with a method `with`. `$client` is the type of the client and
/// `$kind` the method that makes the object of the examples.
macro_rules! settings {
    ($client:literal, $kind:literal) => {
        /// Sets how long a hold survives a holder that died. Default: 30 s.
        ///
        /// A background task renews the hold every third of this time while its holder lives.
        /// This setting therefore bounds how long others wait after a crash, not how long the
        /// work may take.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".ttl(Duration::from_secs(10))")]
        #[must_use]
        pub fn ttl(self, ttl: Duration) -> Self {
            self.with(|settings| settings.ttl = ttl)
        }

        /// Sets a fixed lease, which is **never renewed**. Default: none.
        ///
        /// The hold ends after this time, even if the work continues, and the guard reports the
        /// loss. Redisson's `lock(lease, unit)` and `acquire(lease, unit)` do the same.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".lease(Duration::from_secs(60))")]
        #[must_use]
        pub fn lease(self, lease: Duration) -> Self {
            self.with(|settings| settings.lease = Some(lease))
        }

        /// Sets the longest time that a hold may last. Default: no limit.
        ///
        /// Without a limit, a holder that hangs but lives is renewed for ever. After this time
        /// the hold is lost with [`LostReason::MaxHold`](crate::LostReason::MaxHold) and is not
        /// renewed any more. Others acquire when its guard is dropped, at the latest one ttl
        /// later.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".max_hold(Duration::from_secs(3600))")]
        #[must_use]
        pub fn max_hold(self, most: Duration) -> Self {
            self.with(|settings| settings.max_hold = Some(most))
        }

        /// Sets how a waiter learns of a release. Default: by pub/sub messages.
        ///
        /// A waiter that polls has no queue entry: it acquires only if the lock is free at its
        /// request.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".wait_strategy(leasehold::WaitStrategy::PubSub)")]
        #[must_use]
        pub fn wait_strategy(self, wait_strategy: WaitStrategy) -> Self {
            self.with(|settings| settings.wait_strategy = wait_strategy)
        }

        /// Sets how often and how long the lock may pass from task to task of this process.
        /// Default: 10 000 holds, 10 ms.
        ///
        /// A release hands the hold to the next waiter of this process without a request, which is
        /// hundreds of times as fast. This ends `max` holds or `time` after the first hold,
        /// whichever is sooner. Then waiters of other processes acquire. The store sees one owner
        /// all this time, and so does [`Guard::owner`](crate::Guard::owner).
        ///
        /// Only holds without a fixed lease and with the same ttl are passed on, and only before
        /// their next renewal is due. Permits are not passed on once their ids or their owner
        /// were read. A `max` of 0 sends each release to the store.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".local_handoff(100, Duration::from_millis(5))")]
        #[must_use]
        pub fn local_handoff(self, max: u32, time: Duration) -> Self {
            self.with(|settings| settings.local_handoff = LocalHandoff { most: max, time })
        }

        /// Sets why holds are acquired, for operators. Default: no reason.
        ///
        /// A client with an [`application`](crate::ClientBuilder::application) publishes the reason
        /// with each hold that lasts for a second, up to 128 bytes of it. Others see it in
        /// [`Holder::reason`](crate::Holder::reason), in the text of
        /// [`Error::TimedOut`](crate::Error::TimedOut), and in `leasehold show`. Everyone who may
        /// read the published key can read it.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".reason(\"nightly close\")")]
        #[must_use]
        pub fn reason(self, reason: impl AsRef<str>) -> Self {
            self.with(|settings| settings.reason = Some(reason.as_ref().into()))
        }

        $crate::primitives::settings::replicated!($client, $kind, |this, replicas| {
            this.with(|settings| settings.replicas = replicas)
        });
    };
}

/// The setting that the blocking API lacks, for the same types.
macro_rules! on_loss {
    ($kind:literal, $run:ident) => {
        #[doc = concat!("Sets what [`", stringify!($run), "`](Self::", stringify!($run),
            ") does with work whose hold is lost. Default: it cancels it.")]
        #[doc = $crate::primitives::settings::setting_example!("leasehold::Client", $kind, ".on_loss(leasehold::OnLoss::Cancel)")]
        #[must_use]
        pub fn on_loss(self, on_loss: OnLoss) -> Self {
            self.with(|settings| settings.on_loss = on_loss)
        }
    };
}

/// The setting `replicated`, for all types with holds. `$set` stores it.
macro_rules! replicated {
    ($client:literal, $kind:literal, $set:expr) => {
        /// Sets how many replicas must acknowledge a grant. Default: that of the client, or none.
        ///
        /// The call returns after this number of replicas has acknowledged the grant, so a failover
        /// to one of them keeps it. If too few acknowledge it in time, the grant is released, and
        /// the call returns [`Error::NotReplicated`](crate::Error::NotReplicated). With `None`, the
        /// call does not wait for replicas.
        ///
        /// This makes a loss less likely and does not rule it out: **a failover to a replica that
        /// has not acknowledged forgets the grant**. Require as many replicas as may be promoted.
        /// Renewals do not wait for replicas. [The guarantees][holds] list the cases.
        ///
        /// It costs one more round trip, on a separate connection that concurrent callers share. A
        /// grant that is handed off within this process is acknowledged once.
        ///
        /// [holds]: crate::docs::guarantees#replicas-and-failovers
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".replicated(leasehold::Replicas::at_least(1))")]
        #[must_use]
        pub fn replicated(self, replicas: impl Into<Option<Replicas>>) -> Self {
            let set: fn(Self, Option<Replicas>) -> Self = $set;
            set(self, replicas.into())
        }
    };
}

/// The example of a setting. `$kind` is the method of `$client` that creates the object.
macro_rules! setting_example {
    ($client:literal, $kind:literal, $setting:literal) => {
        concat!(
            "\n# Examples\n\n```\n# #[allow(unused_imports)] use std::time::Duration;\n",
            "# fn demo(client: ",
            $client,
            ") -> Result<(), leasehold::Error> {\n",
            "let it = client.",
            $kind,
            "(\"orders:42\")?",
            $setting,
            ";\n# Ok(()) }\n```"
        )
    };
}

pub(crate) use {on_loss, replicated, setting_example, settings};
