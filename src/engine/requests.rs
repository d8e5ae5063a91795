//! Requests that acquire nothing, with their retries and their errors.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::timeout};

use super::{
    Engine,
    introduction::today,
    limits::within,
    retry::{RetryIf, retry_while},
};
use crate::{
    domain::{
        Claim, ClientInfo, Failure, ForcedRelease, Holder, Name, Object, Outcome, Owner,
        ReleaseMode, ReleaseReply, Renewal, WaiterRecord,
    },
    error::{EARLIER_MAY_HAVE_HAPPENED, Error, MAY_HAVE_HAPPENED},
    store::{RECEIPT_KEPT_FOR, RedisStore, audit, client_info},
};

impl Engine {
    /// Sends a request about `name`, with retries until the request timeout ends.
    pub(crate) async fn ask<'a, T, A>(
        &'a self,
        name: &Name,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        self.ask_for(self.limits.request, name, ask).await
    }

    /// Does the same as `ask` for a change with an [idempotency key](Self::receipt). Stops retrying
    /// before the store forgets the key, so that the change takes effect only once.
    pub(crate) async fn change<'a, T, A>(
        &'a self,
        name: &Name,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        self.ask_for(self.limits.request.min(RECEIPT_KEPT_FOR / 2), name, ask).await
    }

    /// Returns a key by which the store recognizes a repeated change.
    pub(crate) fn receipt(&self) -> Owner {
        self.identity.fresh_owner()
    }

    /// Returns `object` for one acquisition. If each waiting task has its own queue entry, the
    /// returned object has a new owner for this task.
    pub(crate) fn for_task(&self, object: &Object) -> Object {
        match object.traits().waiter_record {
            WaiterRecord::EntryPerTask => object.for_task(self.identity.fresh_owner()),
            WaiterRecord::QueueEntry
            | WaiterRecord::ExpiringEntry
            | WaiterRecord::WaitingTime
            | WaiterRecord::Nothing
            | WaiterRecord::Unannounced => object.clone(),
        }
    }

    pub(super) async fn ask_for<'a, T, A>(
        &'a self,
        limit: Duration,
        name: &Name,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let until = self.core.clock.now() + limit;
        let ask = || async {
            match self.unreachable(name) {
                None => ask(&self.core.store).await,
                Some(failure) => Err(failure),
            }
        };
        let given = within(limit, retry_while(self.retry_if(), &self.core.clock, until, ask)).await;
        given.map(|given| given.answer).map_err(|failure| self.error(name, failure))
    }

    /// Sends a `request` about `name`, without a retry.
    async fn send_once<T>(
        &self,
        name: &Name,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        self.reachable(name)?;
        within(self.limits.request, request).await.map_err(|failure| self.error(name, failure))
    }

    /// Returns the function that decides after which failures to retry.
    pub(super) fn retry_if(&self) -> RetryIf {
        match self.limits.fail_fast {
            false => Failure::is_temporary,
            true => Failure::is_temporary_while_reachable,
        }
    }

    /// With `fail_fast`, returns why no request about `name` can reach the store now.
    fn unreachable(&self, name: &Name) -> Option<Failure> {
        if !self.limits.fail_fast {
            return None;
        }
        // The task that reconnects may have ended with its runtime. This call restarts the task,
        // because otherwise the client would fail for ever.
        self.core.store.keep_up();
        self.core.store.unreachable(name)
    }

    /// With `fail_fast`, returns an error if no request about `name` can reach the store now.
    pub(super) fn reachable(&self, name: &Name) -> Result<(), Error> {
        self.unreachable(name).map_or(Ok(()), |failure| Err(Error::about(name, failure)))
    }

    pub(crate) async fn holder(&self, object: &Object) -> Result<Option<Holder>, Error> {
        self.ask(&object.name, |store| store.holder(object)).await
    }

    /// Returns the holder of `object`. If this client publishes client info itself, adds the client
    /// info of the holder.
    pub(crate) async fn known_holder(&self, object: &Object) -> Result<Option<Holder>, Error> {
        let start = self.core.clock.now();
        let Some(mut holder) = self.holder(object).await? else { return Ok(None) };
        if self.info.is_some() {
            let passed = self.core.clock.now().saturating_duration_since(start);
            let left = self.limits.request.saturating_sub(passed);
            match timeout(left, self.client_info(&holder.owner)).await {
                Ok(Ok(info)) => {
                    let of_this_hold =
                        |info: ClientInfo| info.only_of(object.name.as_str(), &holder.owner);
                    holder.client = info.map(of_this_hold).map(Arc::new);
                }
                // The holder is returned without its client info.
                failed => tracing::debug!(target: "leasehold", ?failed,
                    "client info of the holder not read"),
            }
        }
        Ok(Some(holder))
    }

    pub(crate) async fn client_info(&self, owner: &Owner) -> Result<Option<ClientInfo>, Error> {
        let client = client_info::client_of(owner)?;
        self.ask(&client, |store| client_info::read(store, &client)).await
    }

    /// Returns how many times `owner` holds `object` now.
    pub(crate) async fn held_by(&self, object: &Object, owner: &Owner) -> Result<u32, Error> {
        self.ask(&object.name, |store| store.held_by(object, owner)).await
    }

    /// Releases `object` by force. Returns whether `object` had a holder.
    pub(crate) async fn force_release(&self, object: &Object) -> Result<bool, Error> {
        // This request is not retried, because a second request might release the lock of a later
        // holder.
        self.send_once(&object.name, self.core.store.force_release(object)).await
    }

    /// Renews the hold of `claim`. Returns whether the owner still has this hold.
    pub(crate) async fn renew_hold(&self, claim: Claim) -> Result<bool, Error> {
        let Claim { object, owner, ttl, share } = claim;
        let name = object.name.clone();
        let renewals = [Renewal { object, owner, share, ttl: Some(ttl) }];
        let outcomes = self.ask(&name, |store| store.renew(&renewals)).await?;
        match outcomes.as_slice() {
            [Outcome::Renewed] => Ok(true),
            [Outcome::NotOwned] => Ok(false),
            _ => Err(Error::silent(name, "the server sent fewer replies than requests".into())),
        }
    }

    /// Releases the hold of `claim`. Returns whether the owner had this hold.
    pub(crate) async fn release_hold(&self, claim: &Claim) -> Result<bool, Error> {
        // This request is not retried, because a second request would not find the hold that the
        // first request released. The result would then be `false`.
        let release = self.core.store.release(claim, ReleaseMode::HandOver);
        let released = self.send_once(claim.name(), release).await?;
        Ok(matches!(released, ReleaseReply::Freed(_)))
    }

    /// Records that `by` releases the hold of `claim` by force, and then releases the hold. Returns
    /// whether the owner had this hold.
    pub(crate) async fn force_release_hold(&self, claim: &Claim, by: &str) -> Result<bool, Error> {
        let forced = ForcedRelease::new(today(), claim.name(), &claim.owner, by);
        self.send_once(claim.name(), audit::write(&self.core.store, &forced)).await?;
        self.release_hold(claim).await
    }

    pub(crate) async fn forced_releases(&self) -> Result<Vec<ForcedRelease>, Error> {
        let every = Name::new("*")?;
        self.ask(&every, audit::read).await
    }

    /// Returns the error for a failed request about `name`. If no reply came and the store knows
    /// the reason, the error names this reason.
    pub(crate) fn error(&self, name: &Name, failure: Failure) -> Error {
        let is_silence = matches!(failure, Failure::Unanswered(_));
        let unavailability = is_silence.then(|| self.core.store.unavailability(name)).flatten();
        let mut error = Error::about(name, failure);
        if let (Error::Unavailable { reason, .. }, Some(failure)) = (&mut error, unavailability)
            && !reason.contains(&failure.cause())
        {
            // The reason explains more than the missing reply.
            let end = match failure {
                Failure::Unreachable(_) => EARLIER_MAY_HAVE_HAPPENED,
                _ => MAY_HAVE_HAPPENED,
            };
            *reason = failure.cause() + end;
        }
        error
    }
}
