//! One type for the guards of objects of all kinds.

use leasehold::{
    Claim, Error, ExpirablePermits, FencedGuard, Leadership, LockGuard, MultiGuard, Release,
    SemaphoreGuard,
};

#[derive(Debug)]
pub(crate) enum Guard {
    Lock(LockGuard),
    Fenced(FencedGuard),
    Multi(MultiGuard),
    Leader(Leadership),
    Semaphore(SemaphoreGuard),
    Permits(ExpirablePermits),
    Claim {
        claim: Claim<String>,
        /// Whether the claim ends by giving the element back, instead of reporting it as done.
        goes_back: bool,
    },
    /// A disobedient task acts as a holder, but has sent no request. For a queue, the task has an
    /// element that was given back.
    Nothing {
        element: Option<String>,
    },
}

/// How the end of a hold was confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Released,
    Done,
    /// The hold was lost before the release.
    Lost,
}

impl Guard {
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token()),
            Self::Leader(leadership) => Some(leadership.term()),
            _ => None,
        }
    }

    pub(crate) fn element(&self) -> Option<String> {
        match self {
            Self::Claim { claim, .. } => Some(claim.value().clone()),
            Self::Nothing { element } => element.clone(),
            _ => None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_held(),
            Self::Fenced(guard) => guard.is_held(),
            Self::Multi(guard) => guard.is_held(),
            Self::Leader(leadership) => leadership.is_leader(),
            Self::Semaphore(guard) => guard.is_held(),
            Self::Permits(guard) => guard.is_held(),
            Self::Claim { claim, .. } => claim.is_held(),
            Self::Nothing { .. } => true,
        }
    }

    pub(crate) async fn release(self) -> Result<End, Error> {
        let released = match self {
            Self::Lock(guard) => guard.release().await?,
            Self::Fenced(guard) => guard.release().await?,
            Self::Multi(guard) => {
                let lost = guard.release().await.into_result().is_err();
                return Ok(if lost { End::Lost } else { End::Released });
            }
            Self::Leader(leadership) => leadership.step_down().await?,
            Self::Semaphore(guard) => guard.release().await?,
            Self::Permits(guard) => guard.release().await?,
            Self::Claim { claim, goes_back: true } => claim.give_back().await?,
            Self::Claim { claim, goes_back: false } => {
                let is_lost = matches!(claim.done().await?, Release::NotHeld { .. });
                return Ok(if is_lost { End::Lost } else { End::Done });
            }
            Self::Nothing { .. } => return Ok(End::Released),
        };
        Ok(if matches!(released, Release::NotHeld { .. }) { End::Lost } else { End::Released })
    }
}
