//! The election, for threads.

use std::{sync::Arc, time::Duration};

use super::{
    face::{ends, returns, sets, waits},
    waiting::Core,
};
use crate::{
    Leader, LockContext, LostReason, Name, Owner, Release, Replicas, RunOutcome,
    error::Result,
    primitives::{self, settings::replicated},
};

/// An [`Election`](crate::Election) for threads.
///
/// # Examples
///
/// ```
/// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
/// let leadership = election.campaign("10.0.0.1:8080")?;
/// leadership.step_down()?.into_result()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    core: Arc<Core>,
    inner: primitives::Election,
}

impl Election {
    pub(super) fn new(core: Arc<Core>, inner: primitives::Election) -> Self {
        Self { core, inner }
    }

    sets! { Election, "let election = client.election(\"scheduler\")?;":
        fn ttl(ttl: Duration); "let election = election.ttl(Duration::from_secs(10));"
    }

    replicated!("leasehold::blocking::Client", "election", |this, replicas| {
        let inner = this.inner.replicated(replicas);
        Self { inner, ..this }
    });

    returns! { Election, "let election = client.election(\"scheduler\")?;":
        fn name() -> &Name; "assert_eq!(election.name().as_str(), \"scheduler\");"
    }

    waits! { Election, "let election = client.election(\"scheduler\")?;":
        fn campaign(value: impl Into<String>) -> Leadership, guard;
            "let leadership = election.campaign(\"10.0.0.1:8080\")?;"

        fn campaign_within(value: impl Into<String>, timeout: Duration) -> Leadership, guard;
            "let leadership = election.campaign_within(\"me\", Duration::from_secs(5))?;"

        fn try_campaign(value: impl Into<String>) -> Option<Leadership> => guard;
            "assert!(election.try_campaign(\"10.0.0.1:8080\")?.is_some());"

        fn leader() -> Option<Leader>; "assert!(election.leader()?.is_none());"
    }

    /// Does what [`Election::lead`](crate::Election::lead) does, but a loss does not stop the work.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if a
    /// task of an async runtime calls this method.
    ///
    /// # Examples
    ///
    /// ```
    /// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
    /// assert_eq!(election.lead("10.0.0.1:8080", |held| held.token())?, Some(1));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lead<T>(
        &self,
        value: impl Into<String>,
        work: impl FnOnce(&LockContext) -> T,
    ) -> Result<T> {
        self.campaign(value)?.run(work).into_result()
    }

    /// Does what [`Election::observe`](crate::Election::observe) does.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if a
    /// task of an async runtime calls this method.
    ///
    /// # Examples
    ///
    /// ```
    /// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
    /// assert!(election.observe()?.next()?.is_none());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn observe(&self) -> Result<Observer> {
        let inner = self.core.wait(async { self.inner.observe() })??;
        Ok(Observer { inner, core: Arc::clone(&self.core) })
    }

    fn guard(&self, inner: primitives::Leadership) -> Leadership {
        Leadership { inner, core: Arc::clone(&self.core) }
    }
}

/// A [`Leadership`](crate::Leadership) for threads. If this value is dropped, the leader steps
/// down.
///
/// A `Leadership` can move to another thread.
///
/// # Examples
///
/// ```
/// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
/// let leadership = election.campaign("10.0.0.1:8080")?;
/// assert!(leadership.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the leader steps down as soon as this is dropped"]
pub struct Leadership {
    // This field must come before `core`, so that Rust drops it first. Its drop starts the release,
    // which the runtime thread still completes after the drop of the last `core`.
    inner: primitives::Leadership,
    core: Arc<Core>,
}

impl Leadership {
    returns! { Leadership, "let it = client.election(\"scheduler\")?.campaign(\"me\")?;":
        fn term() -> u64; "assert_eq!(it.term(), 1);"
        fn is_leader() -> bool; "assert!(it.is_leader());"
        fn context() -> LockContext; "assert!(it.context().is_held());"
        fn owner() -> &Owner; "assert!(it.owner().as_str().starts_with(client.id()));"
        fn name() -> &Name; "assert_eq!(it.name().as_str(), \"scheduler\");"
    }

    waits! { Leadership, "let it = client.election(\"scheduler\")?.campaign(\"me\")?;":
        fn proclaim(value: impl Into<String>) -> (); "it.proclaim(\"ready\")?;"
    }

    ends! { Leadership, "let it = client.election(\"scheduler\")?.campaign(\"me\")?;", "steps down":
        fn step_down(); "it.step_down()?.into_result()?;"
    }

    /// Does what [`Leadership::run`](crate::Leadership::run) does, but a loss does not stop the
    /// work.
    ///
    /// The method never returns [`RunOutcome::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
    /// let outcome = election.campaign("10.0.0.1:8080")?.run(|held| held.is_held());
    /// assert!(outcome.into_result()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&LockContext) -> T) -> RunOutcome<T> {
        let Self { inner, core } = self;
        core.run(&inner.context(), work, inner.into_guard().release_after_run())
    }

    /// Blocks until [`Leadership::lost`](crate::Leadership::lost) returns, and returns its result.
    ///
    /// # Errors
    ///
    /// [`Error::InsideAsync`](crate::Error::InsideAsync) if a task of an async runtime calls this
    /// method.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
    /// let leadership = election.campaign("10.0.0.1:8080")?;
    /// eprintln!("stop: {}", leadership.lost()?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn lost(&self) -> Result<LostReason> {
        self.core.wait(self.inner.lost())
    }
}

/// An [`Observer`](crate::Observer) for threads.
///
/// # Examples
///
/// ```
/// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
/// let mut leaders = election.observe()?;
/// assert!(leaders.next()?.is_none());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct Observer {
    inner: primitives::Observer,
    core: Arc<Core>,
}

impl Observer {
    /// Blocks until [`Observer::next`](crate::Observer::next) returns, and returns its result.
    ///
    /// # Errors
    ///
    /// The errors of the async method, and [`Error::InsideAsync`](crate::Error::InsideAsync) if a
    /// task of an async runtime calls this method.
    ///
    /// # Examples
    ///
    /// ```
    /// let election = leasehold::blocking::Client::in_memory()?.election("scheduler")?;
    /// let mut leaders = election.observe()?;
    /// let leadership = election.campaign("10.0.0.1:8080")?;
    /// assert_eq!(leaders.next()?.unwrap().value(), Some("10.0.0.1:8080"));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[expect(clippy::should_implement_trait, reason = "`next` can fail, and then continue")]
    pub fn next(&mut self) -> Result<Option<Leader>> {
        self.core.wait(self.inner.next())?
    }
}
