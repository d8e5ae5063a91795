//! Counts the replicas that have executed a write, on a separate connection to each server.
//!
//! `WAIT` blocks its connection, and counts the replicas that have the writes of that same
//! connection. For this reason, the client makes a third connection to the server, at the first
//! use.
//!
//! Each batch on this connection has three steps. First, the batch repeats each write as a touch. A
//! replica that acknowledges the touch has also executed the earlier write. Then the batch sends
//! `WAIT`. Last, the batch looks up each write. The touch and the lookup both show that this server
//! has the write. Without these steps, the client would not notice a moved address, another
//! primary, or a migrated slot.
//!
//! One batch at a time serves all calls: see [`Round`]. Calls that come during a batch share the
//! next batch. One mutex guards the queued calls. No other lock is taken while this mutex is held.

mod round;

use std::{convert::Infallible, fmt, future::pending, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use redis::Cmd;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use self::round::{LONGEST, Requester, Round};
use crate::{
    connection::{dial::Dialer, link::Link, watcher::Watcher},
    failure::Failure,
    mutex::Mutex,
    pipe::wire::Wire,
};

/// Two commands that check whether a write is still in Redis. If the write is gone, both commands
/// return 0 or nil.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Writes the same data again, so that replicas receive another write after the first write.
    pub touch: Cmd,
    /// Finds the data without a write.
    pub look: Cmd,
}

/// Counts acknowledgements of replicas.
pub(super) struct ReplicaAck {
    link: Link,
    new_calls: Arc<NewCalls>,
}

impl ReplicaAck {
    /// Makes no connection yet.
    pub(super) fn new(dialer: &Arc<Dialer>, command_timeout: Duration) -> Self {
        // `WAIT` blocks for up to `LONGEST`. This time must not count as a missing reply.
        let limit = command_timeout + LONGEST;
        let new_calls = Arc::<NewCalls>::default();
        let watcher = Arc::<NewCalls>::clone(&new_calls);
        Self { link: Link::new(Arc::clone(dialer), watcher, limit), new_calls }
    }

    /// Returns how many replicas have executed the write. Returns as soon as there are `least`
    /// replicas, or when the time is over. Returns 0 if the write is gone.
    pub(super) async fn ask(
        &self,
        evidence: Evidence,
        importing: bool,
        least: u32,
        within: Duration,
    ) -> Result<u32, Failure> {
        self.link.keep_up()?;
        let (reply, mut answer) = oneshot::channel();
        let come_at = Instant::now();
        let until = come_at + within;
        self.new_calls.add(Requester { evidence, importing, least, come_at, until, reply });
        let answered = match timeout_at(until, &mut answer).await {
            Ok(answered) => answered,
            Err(_) if !self.link.is_up() => return Err(self.link.failure()),
            // Redis checks timeouts of `WAIT` ten times a second, so its reply may be late.
            Err(_) => answer.await,
        };
        answered.unwrap_or_else(|_| {
            let failure = self.link.state.connect_failure();
            Err(Failure::unanswered(failure.unwrap_or_else(|| "the connection was lost".into())))
        })
    }

    /// Ends the connection, even if it is healthy.
    pub(super) fn cut(&self) {
        self.link.cut();
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.link.state.reconnects()
    }
}

impl fmt::Debug for ReplicaAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synced").field("link", &self.link).finish_non_exhaustive()
    }
}

/// The waiting calls, for the task of the connection.
#[derive(Default)]
struct NewCalls {
    requesters: Mutex<Vec<Requester>>,
    notifier: Notify,
}

impl NewCalls {
    fn add(&self, requester: Requester) {
        let mut requesters = self.requesters.lock();
        // Without a connection, no task takes the queued calls, so this function removes cancelled
        // calls.
        requesters.retain(|requester| !requester.reply.is_closed());
        requesters.push(requester);
        drop(requesters);
        self.notifier.notify_one();
    }

    /// Serves all calls, batch by batch. If this future is dropped, the waiting calls fail, because
    /// their result is unknown.
    async fn serve(&self, wire: &Wire) -> Infallible {
        let mut round = Round::default();
        loop {
            round.add(std::mem::take(&mut *self.requesters.lock()));
            if round.is_over() {
                self.notifier.notified().await;
                continue;
            }
            match wire.call_all(&round.question(Instant::now())).await {
                Ok(replies) => round.answered(replies, Instant::now()),
                // The connection has ended, so its task will drop this future.
                Err(_) => pending().await,
            }
        }
    }
}

impl Watcher for NewCalls {
    fn traffic(&self) -> &'static str {
        "replication"
    }

    fn serve<'a>(&'a self, wire: &'a Wire) -> BoxFuture<'a, Infallible> {
        Box::pin(self.serve(wire))
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Redis, eventually};
    use tokio::{task::JoinHandle, time::sleep};

    use super::*;
    use redis::cmd;

    use crate::address::{settings::Settings, url::target};

    const SOON: Duration = Duration::from_secs(5);

    fn replica_ack(redis: &Redis) -> Arc<ReplicaAck> {
        let settings = Settings::default();
        let target = target(&redis.url(), &settings).unwrap();
        let dialer = Dialer::new(target, &settings, "tests", vec![]).unwrap();
        Arc::new(ReplicaAck::new(&Arc::new(dialer), Duration::from_secs(3)))
    }

    /// Writes `name`, and waits until one replica has it.
    fn ask(replica_ack: &Arc<ReplicaAck>, name: &str) -> JoinHandle<Result<u32, Failure>> {
        let replica_ack = Arc::clone(replica_ack);
        let touch = "redis.call('HSET', KEYS[1], ARGV[1], '1') return 1";
        let touch = cmd("EVAL").arg(touch).arg(1).arg(name).arg("one").clone();
        let look = cmd("HEXISTS").arg(name).arg("one").clone();
        let evidence = Evidence { touch, look };
        tokio::spawn(async move { replica_ack.ask(evidence, false, 1, SOON).await })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn call_during_a_wait_command_joins_the_next_wait_command() {
        let master = Redis::start();
        let replica = Redis::start_replica_of(&master);
        let replica_ack = replica_ack(&master);
        replica.pause();
        let before = master.calls();
        master.command(&["HSET", "one", "one", "1"]);
        let one = ask(&replica_ack, "one");
        eventually("the primary has received `WAIT`", SOON, || {
            master.calls().since(&before).of("wait") > 0
        });
        master.command(&["HSET", "other", "one", "1"]);
        let other = ask(&replica_ack, "other");
        sleep(Duration::from_millis(50)).await;
        replica.resume();
        assert_eq!(one.await.unwrap().unwrap(), 1);
        assert_eq!(other.await.unwrap().unwrap(), 1);
        assert_eq!(replica.command(&["EXISTS", "other"]).number(), 1);
        assert_eq!(master.calls().since(&before).of("eval"), 2);
    }
}
