//! Renews many holds by one request.

use futures_util::future::join_all;
use redis::ToRedisArgs;

use super::{
    RedisStore, Reply,
    ask::Request,
    kinds::{InRedis, by_kind},
    replies::{self, is_split},
    scripts::millis,
};
use crate::domain::{Failure, Kind, Outcome, Owner, Renewal};

/// The highest number of parts in which a rejected batch of renewals is repeated. To find one
/// rejected renewal of a hundred takes 14.
const MOST_PARTS: usize = 32;

impl RedisStore {
    /// Sends `request`, whose script renews all these holds. Adds the field and the new lease of
    /// each. A lease of 0 only checks the hold.
    pub(super) async fn renew_by<'a, F: ToRedisArgs>(
        &self,
        mut request: Request<'_>,
        renewals: &'a [Renewal],
        field: fn(&'a Owner) -> F,
    ) -> Reply<Vec<Outcome>> {
        for Renewal { owner, ttl, .. } in renewals {
            request.command.arg(field(owner)).arg(ttl.map_or(0, millis));
        }
        let request = request.reporting_split(renewals.len() > 1);
        self.ask(request.read(|reply| replies::outcomes(reply, renewals.len()))).await
    }

    /// Renews holds that can be renewed together: see `RedisStore::group`.
    pub(super) async fn renew_or_halve(&self, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        match self.renew_all(renewals).await {
            answer if is_split(&answer) && renewals.len() > 1 => {
                Ok(self.renew_each(renewals).await)
            }
            Err(failure @ Failure::Refused { .. })
                if !failure.is_temporary() && renewals.len() > 1 =>
            {
                Ok(Box::pin(self.renew_in_parts(renewals)).await)
            }
            answer => answer,
        }
    }

    async fn renew_all(&self, renewals: &[Renewal]) -> Reply<Vec<Outcome>> {
        let Some(first) = renewals.first() else { return Ok(Vec::new()) };
        by_kind!(first.object.kind, K => Box::pin(K::renew(self, renewals)).await)
    }

    /// Renews each separately, because while their slot is migrating, they are on two nodes.
    async fn renew_each(&self, renewals: &[Renewal]) -> Vec<Outcome> {
        let alone = |one| self.renew_all(std::slice::from_ref(one));
        let answers = join_all(renewals.iter().map(alone)).await.into_iter();
        let known = |answer: Reply<Vec<Outcome>>| answer.ok()?.first().copied();
        answers.map(|answer| known(answer).unwrap_or(Outcome::Unknown)).collect()
    }

    /// Renews in halves, so that a rejected hold affects few others. The order of the halves is
    /// random, so that no hold always comes after a rejected one.
    async fn renew_in_parts(&self, renewals: &[Renewal]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Unknown; renewals.len()];
        let mut parts: Vec<_> = std::iter::once(0..renewals.len()).collect();
        for _ in 0..MOST_PARTS {
            let Some(part) = parts.pop() else { break };
            match self.renew_all(&renewals[part.clone()]).await {
                Ok(known) => outcomes[part].copy_from_slice(&known),
                Err(failure) if !failure.is_temporary() && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                    if fastrand::bool() {
                        let last = parts.len() - 1;
                        parts.swap(last - 1, last);
                    }
                }
                // Either the other renewals would fail, too, or this is the rejected one.
                Err(failure) if failure.is_temporary() => break,
                Err(_) => {}
            }
        }
        outcomes
    }
}
