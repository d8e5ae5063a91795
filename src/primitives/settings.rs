//! The settings of all primitives, for the async API and for the blocking API.

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

/// How a waiter waits for a lock, and how a client keeps the hold.
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

    /// Returns the request for `object`, or an error if a setting is invalid.
    pub(crate) fn request(&self, object: &Object) -> Result<AcquireRequest> {
        self.request_share(object, self.share)
    }

    /// Does what [`request`](Self::request) does, but for this `share` of the object.
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

/// Returns the request for a share without a lease, such as permits of a semaphore.
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

/// Returns `replicas` if the number and the time limit are valid.
fn checked_replicas(object: &Object, replicas: Option<Replicas>) -> Result<Option<Replicas>> {
    let Some(Replicas { least, within }) = replicas else { return Ok(None) };
    checked("time limit of replicas", within)?;
    match least {
        0 => Err(Error::ZeroCount { name: object.name.clone() }),
        _ => Ok(replicas),
    }
}

/// Returns `permits` if an object of Redisson can have this number of permits.
pub(super) fn possible(name: &Name, permits: u32) -> Result<u32> {
    match permits {
        0..=MOST_PERMITS => Ok(permits),
        _ => Err(Error::TooMany { name: name.clone(), most: MOST_PERMITS }),
    }
}

/// Checks a timeout, and starts it now.
pub(crate) fn checked_timeout(timeout: Duration) -> Result<Deadline, InvalidDuration> {
    if timeout.is_zero() {
        let rule = "more than zero; to try once without waiting, use try_acquire";
        return Err(InvalidDuration { setting: "timeout", given: timeout, rule });
    }
    Ok(Deadline::from_now(timeout.min(LONGEST_TIMEOUT)))
}

/// Writes the public settings of a type that has a method `with`. In the examples, `$client` is the
/// type of the client, and its method `$kind` creates the object.
macro_rules! settings {
    ($client:literal, $kind:literal) => {
        $crate::primitives::settings::lasts!($client, $kind, "hold", "holder");

        /// Sets a fixed lease, which is **never renewed**. Default: none.
        ///
        /// The hold ends after this time, even if the work continues. The guard then reports the
        /// loss. Redisson's `lock(lease, unit)` and `acquire(lease, unit)` do the same.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".lease(Duration::from_secs(60))")]
        #[must_use]
        pub fn lease(self, lease: Duration) -> Self {
            self.with(|settings| settings.lease = Some(lease))
        }

        /// Sets how a waiter notices a release. Default: by pub/sub messages.
        ///
        /// A polling waiter has no queue entry, so no release reserves the lock for it. It acquires
        /// only if the lock is free when its request arrives.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".wait_strategy(leasehold::WaitStrategy::PubSub)")]
        #[must_use]
        pub fn wait_strategy(self, wait_strategy: WaitStrategy) -> Self {
            self.with(|settings| settings.wait_strategy = wait_strategy)
        }

        /// Limits the hand-offs of a grant to other tasks of this process. Default: 10 000
        /// hand-offs, 10 ms.
        ///
        /// A hand-off sends no request, so it is hundreds of times faster than a release and an
        /// acquisition. After `max` hand-offs, or when `time` has passed since the grant, the next
        /// release is sent to the store, and waiters of other processes can acquire. All holds of
        /// one grant have the same owner in the store: see [`Guard::owner`](crate::Guard::owner).
        ///
        /// A hold is handed off only if it has no fixed lease, if the next task wants the same ttl,
        /// and if no renewal is due. Permits whose ids or owner the caller has read are not handed
        /// off. If `max` is 0, there are no hand-offs.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".local_handoff(100, Duration::from_millis(5))")]
        #[must_use]
        pub fn local_handoff(self, max: u32, time: Duration) -> Self {
            self.with(|settings| settings.local_handoff = LocalHandoff { most: max, time })
        }

        /// Sets the reason that operators see for each hold. Default: no reason.
        ///
        /// If the client has an [`application`](crate::ClientBuilder::application), it publishes
        /// the reason of each hold that lasts longer than a second. It publishes at most 128 bytes
        /// of the reason. The reason is shown by [`Holder::reason`](crate::Holder::reason), by the
        /// text of [`Error::TimedOut`](crate::Error::TimedOut), and by `leasehold show`. Any Redis
        /// user that may read the published key can read the reason.
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

/// Writes the settings `ttl` and `max_hold`. `$hold` is the word `hold` or `claim`, and `$holder`
/// is the word `holder` or `worker`.
macro_rules! lasts {
    ($client:literal, $kind:literal, $hold:literal, $holder:literal) => {
        #[doc = concat!("Sets how long a ", $hold, " lasts after its ", $holder, " died. Default: 30 s.")]
        ///
        #[doc = concat!("While the ", $holder, " lives, a background task renews the ", $hold)]
        /// after every third of this time. So the setting limits how long other clients wait after
        /// a crash. It does not limit how long the work may take.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".ttl(Duration::from_secs(10))")]
        #[must_use]
        pub fn ttl(self, ttl: Duration) -> Self {
            self.with(|settings| settings.ttl = ttl)
        }

        #[doc = concat!("Sets the longest time that a ", $hold, " may last. Default: no limit.")]
        ///
        #[doc = concat!("Without a limit, the client renews the ", $hold, " of a hanging ", $holder)]
        /// for ever. With a limit, the client stops the renewals after this time, and
        #[doc = concat!("the ", $hold, " is lost with the reason")]
        /// [`LostReason::MaxHold`](crate::LostReason::MaxHold). Another client can acquire when the
        /// guard or the claim is dropped, or at most one ttl after the limit.
        #[doc = $crate::primitives::settings::setting_example!($client, $kind, ".max_hold(Duration::from_secs(3600))")]
        #[must_use]
        pub fn max_hold(self, most: Duration) -> Self {
            self.with(|settings| settings.max_hold = Some(most))
        }
    };
}

/// Writes the setting `on_loss`. It is not part of `settings!`, because the blocking API does not
/// have this setting.
macro_rules! on_loss {
    ($kind:literal, $run:ident) => {
        #[doc = concat!("Sets what [`", stringify!($run), "`](Self::", stringify!($run),
            ") does with work whose hold is lost. Default: the work is cancelled.")]
        #[doc = $crate::primitives::settings::setting_example!("leasehold::Client", $kind, ".on_loss(leasehold::OnLoss::Cancel)")]
        #[must_use]
        pub fn on_loss(self, on_loss: OnLoss) -> Self {
            self.with(|settings| settings.on_loss = on_loss)
        }
    };
}

/// Writes the setting `replicated`, for all types with holds. `$set` stores the value in the
/// settings.
macro_rules! replicated {
    ($client:literal, $kind:literal, $set:expr) => {
        /// Sets how many replicas must acknowledge a grant. Default: the setting of the client, or
        /// none.
        ///
        /// An acquisition returns after this number of replicas has acknowledged the grant. A
        /// failover to one of these replicas keeps the grant. If too few replicas acknowledge the
        /// grant in time, the client releases it again, and the acquisition returns
        /// [`Error::NotReplicated`](crate::Error::NotReplicated). With `None`, an acquisition does
        /// not wait for replicas.
        ///
        /// The setting makes a loss less likely, but does not rule it out: **a failover to a
        /// replica that has not acknowledged the grant loses the grant**. Require all replicas that
        /// a failover may promote. Renewals do not wait for replicas. [The guarantees][holds] list
        /// the cases.
        ///
        /// With this setting, an acquisition needs one more round trip, on a separate connection
        /// that all callers share. A hand-off within this process needs no new acknowledgement.
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

/// Writes the example of a setting. The method `$kind` of `$client` creates the object of the
/// example.
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

pub(crate) use {lasts, on_loss, replicated, setting_example, settings};
