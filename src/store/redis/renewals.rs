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

/// The largest number of requests for parts of a rejected batch of renewals. If the server rejects
/// one renewal of a hundred, the other renewals take 14 requests.
const MOST_PARTS: usize = 32;

impl RedisStore {
    /// Adds the field and the new lease of each hold to `request`, and sends the request. Its
    /// script renews all these holds. With a lease of 0, the script only checks the hold.
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

    /// Renews holds of one [`group`](Self::group). If the server rejects the request, renews the
    /// holds one by one, or in smaller parts.
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

    /// Renews each hold by its own request, because the holds are on two nodes while their slot is
    /// migrating.
    async fn renew_each(&self, renewals: &[Renewal]) -> Vec<Outcome> {
        let alone = |one| self.renew_all(std::slice::from_ref(one));
        let answers = join_all(renewals.iter().map(alone)).await.into_iter();
        let known = |answer: Reply<Vec<Outcome>>| answer.ok()?.first().copied();
        answers.map(|answer| known(answer).unwrap_or(Outcome::Unknown)).collect()
    }

    /// Renews the holds in halves, quarters and so on, so that a rejected hold affects only few
    /// other holds. If there are too many parts, the last holds are not renewed. The order of the
    /// halves is random, so that the last holds are not always the same.
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
                // A temporary failure concerns the other renewals, too.
                Err(failure) if failure.is_temporary() => break,
                // This part is one hold, whose renewal the server rejects.
                Err(_) => {}
            }
        }
        outcomes
    }
}
