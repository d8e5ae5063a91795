//! Waits for a change of an object that the task does not acquire, for example for a new leader of
//! an election. Each task that waits in this way sends its own requests, after each message and by
//! a timer.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

use super::pacing::Paced;
pub(crate) use crate::engine::contention::Follower;
use crate::{
    domain::{Failure, Object, spread},
    engine::{Engine, timing::LONGEST_WAIT},
    error::Error,
    store::RedisStore,
};

impl Engine {
    /// Receives the messages about `object` for as long as the returned value lives.
    pub(crate) fn follow(&self, object: &Object) -> Result<Follower, Error> {
        self.ready()?;
        Ok(self.contention.follow(object))
    }

    /// Sends requests until a reply is [`Paced::Now`]. The first request is sent at once. Each
    /// later request is sent after a message to `follower`, or after the pause in the last reply.
    /// This pause is at most about [`LONGEST_WAIT`]. While the store is unreachable, one request is
    /// repeated for at most `limit`.
    pub(crate) async fn follow_up<'a, T, A>(
        &'a self,
        follower: &mut Follower,
        limit: Duration,
        ask: impl Fn(&'a RedisStore) -> A,
    ) -> Result<T, Error>
    where
        A: Future<Output = Result<Paced<T>, Failure>>,
    {
        loop {
            self.ready()?;
            follower.asks();
            // The request is boxed, so that the future of a waiter is small.
            let asked = Box::pin(self.ask_for(limit, &follower.object().name, &ask));
            let rest = match self.unless_closed(asked).await?? {
                Paced::Now(answer) => return Ok(answer),
                Paced::After(rest) => rest.min(spread(LONGEST_WAIT)),
            };
            self.unless_closed(follower.until_notified(Instant::now() + rest)).await?;
        }
    }
}
