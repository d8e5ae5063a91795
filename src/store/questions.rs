//! What is asked about one kind of object. A store answers each kind by a file of its own, and
//! chooses it in one place.

use std::{future::ready, time::Duration};

use super::Answer;
use crate::domain::{
    Change, Claim, Counts, Failure, GivenBack, Holder, Object, Outcome, Owner, PermitId, Place,
    ReleaseMode, Renewal, Value, Verdict, Work,
};

/// The questions of a [`Store`](super::Store) about one kind of object, as the store `S`
/// answers them.
///
/// A kind writes down only what it is asked. Of the others it says that it does not support
/// them; none of them has a hold to be renewed.
pub(crate) trait Questions<S>: Sync {
    fn acquire<'a>(
        &self,
        store: &'a S,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict>;

    fn acquire_beside<'a>(
        &self,
        _: &'a S,
        claim: &'a Claim,
        _writer: &'a Owner,
    ) -> Answer<'a, Verdict> {
        unsupported(&claim.object)
    }

    fn recount<'a>(
        &self,
        _: &'a S,
        claim: &'a Claim,
        _count: u32,
        _ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        unsupported(&claim.object)
    }

    fn release<'a>(&self, _: &'a S, claim: &'a Claim, _: ReleaseMode) -> Answer<'a, GivenBack> {
        unsupported(&claim.object)
    }

    fn renew<'a>(&self, _: &'a S, renewals: &'a [Renewal]) -> Answer<'a, Vec<Outcome>> {
        Box::pin(ready(Ok(vec![Outcome::NotOurs; renewals.len()])))
    }

    fn guarded<'a>(&self, _: &'a S, claim: &'a Claim, _: &'a Work) -> Answer<'a, Option<Value>> {
        unsupported(&claim.object)
    }

    fn holder<'a>(&self, _: &'a S, object: &'a Object) -> Answer<'a, Option<Holder>> {
        unsupported(object)
    }

    fn held_by<'a>(&self, _: &'a S, object: &'a Object, _: &'a Owner) -> Answer<'a, u32> {
        unsupported(object)
    }

    fn force_release<'a>(&self, _: &'a S, object: &'a Object) -> Answer<'a, bool> {
        unsupported(object)
    }

    fn number<'a>(&self, _: &'a S, object: &'a Object) -> Answer<'a, i64> {
        unsupported(object)
    }

    fn change<'a>(
        &self,
        _: &'a S,
        object: &'a Object,
        _: Change,
        _receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        unsupported(object)
    }

    fn count<'a>(&self, _: &'a S, object: &'a Object) -> Answer<'a, Counts> {
        unsupported(object)
    }

    fn lease<'a>(
        &self,
        _: &'a S,
        object: &'a Object,
        _: PermitId,
        _lease: Option<Duration>,
    ) -> Answer<'a, Option<Duration>> {
        unsupported(object)
    }
}

/// What `object` is does not support this question, or this change.
pub(crate) fn unsupported<'a, T: Send + 'a>(object: &Object) -> Answer<'a, T> {
    Box::pin(ready(Err(Failure::Unsupported(object.kind.unsupported()))))
}
