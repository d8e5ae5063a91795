//! The members of a barrier. A task is a member from its first request until the barrier opens or
//! the task leaves. When a double barrier opens, each member gets a hold.

use std::sync::Arc;

use tokio::time::{Instant, timeout};

use super::AcquireRequest;
use crate::{
    domain::{Claim, Mutex, Object, ReleaseMode, Share},
    engine::{
        Engine,
        grant::{Grant, ReplicationStatus},
        held::Held,
        pending::{PendingRelease, Withdrawal},
        timing::LEAVES_WITHIN,
    },
    error::Error,
    store::{LATEST_EXECUTION, MEMBER_KEPT_FOR, RECEIPT_KEPT_FOR},
};

/// A member of a barrier. If this value is dropped before the opening, the member leaves in the
/// background.
pub(crate) struct Member {
    engine: Arc<Engine>,
    pub(crate) claim: Claim,
    /// When the member sent the last request that got a reply.
    answered: Mutex<Instant>,
    passed: bool,
}

impl Engine {
    /// Creates a member of the barrier `object`, without a request.
    pub(crate) fn join(self: &Arc<Self>, object: &Object) -> Member {
        let (object, owner) = (object.clone(), self.identity.fresh_owner());
        let claim = Claim { object, owner, ttl: MEMBER_KEPT_FOR, share: Share::Nothing };
        let answered = Mutex::new(self.core.clock.now());
        Member { engine: Arc::clone(self), claim, answered, passed: false }
    }

    /// Waits until the dropped members have left, but for at most `LEAVES_WITHIN`. The store counts
    /// a member until it has left.
    pub(crate) async fn members_leave(&self) {
        timeout(LEAVES_WITHIN, self.core.pending.all_completed()).await.ok();
    }
}

impl Member {
    /// Returns the current time if the member may send a request now. After `RECEIPT_KEPT_FOR`
    /// without a reply, the member must not send another request. The barrier may have opened
    /// meanwhile, and the store may have forgotten the idempotency key. A request would then count
    /// as another arrival.
    pub(crate) fn asks(&self) -> Option<Instant> {
        let now = self.engine.core.clock.now();
        let since = now.saturating_duration_since(*self.answered.lock());
        (since < RECEIPT_KEPT_FOR).then_some(now)
    }

    /// Records that the request sent at `asked_at` got a reply.
    pub(crate) fn was_answered(&self, asked_at: Instant) {
        *self.answered.lock() = asked_at;
    }

    /// Records that the barrier has opened for this member.
    pub(crate) fn passes(mut self) {
        self.passed = true;
    }

    /// Makes the hold of this member, after a reply said that the double barrier has opened. The
    /// lease is the `ttl` of `request`.
    pub(crate) fn enters(mut self, request: &AcquireRequest) -> Result<Held, Error> {
        self.passed = true;
        let (engine, answered) = (&self.engine, *self.answered.lock());
        let now = engine.core.clock.now();
        let grant = Grant {
            id: engine.next_grant(),
            claim: Claim { ttl: request.ttl, ..self.claim.clone() },
            leased_at: answered,
            asked_at: answered.into(),
            replication: ReplicationStatus::default(),
            unsure: false,
            contended: false,
            budget: request.terms.local.from(now),
            token: None,
            element: None,
        };
        engine.enter(request, grant, None, now, false)
    }
}

impl Drop for Member {
    /// The store may execute a request in flight after the first withdrawal, so the withdrawal is
    /// repeated a few times.
    fn drop(&mut self) {
        if self.passed {
            return;
        }
        let until = self.engine.core.clock.now() + LATEST_EXECUTION + MEMBER_KEPT_FOR;
        self.engine.core.pending.queue(PendingRelease::Release(Withdrawal {
            claim: self.claim.clone(),
            grant: None,
            mode: ReleaseMode::Leave,
            until,
            looks: Some(0),
            hold: None,
            more: true,
        }));
    }
}
