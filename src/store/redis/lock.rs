//! The lock's questions, as commands and scripts.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Value};

use super::{
    InRedis, RedisStore,
    channels::Channels,
    granted::Granted,
    keys, replies,
    scripts::{Script, millis, roomy, script},
};
use crate::{
    domain::{
        self, Change, Claim, Failure, GivenBack, Holder, Name, Object, Others, Outcome, Owner,
        Place, ReleaseMode, Renewal, Verdict, Work,
    },
    store::{
        Answer, LATER, POLLERS_TURN, QUEUE_RESTS, RESERVATION, SOON, WARNED_AFTER,
        questions::{Questions, unsupported},
    },
};

pub(super) static SCRIPTS: &[&LazyLock<Script>] =
    &[&ACQUIRE, &FORCE_RELEASE, &HAND_OVER, &INSPECT, &RAISE_TOKEN, &RECOUNT, &RENEW];

static ACQUIRE: LazyLock<Script> = script!("holder", "lock/acquire");
static FORCE_RELEASE: LazyLock<Script> = script!("lock/force_release");
static HAND_OVER: LazyLock<Script> = script!("holder", "lock/hand_over");
static INSPECT: LazyLock<Script> = script!("holder", "lock/inspect");
static RAISE_TOKEN: LazyLock<Script> = script!("lock/raise_token");
static RECOUNT: LazyLock<Script> = script!("lock/recount");
static RENEW: LazyLock<Script> = script!("lock/renew");

pub(super) struct Locks;

impl InRedis for Locks {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }

    fn granted(&self, claim: &Claim) -> Option<Granted> {
        let tokens = (claim.tokens() > 0).then(|| keys::tokens(claim.name()));
        let keys: Vec<_> = [claim.name().as_str()].into_iter().chain(tokens.as_deref()).collect();
        Some(Granted::field(&keys, claim.owner.as_str()))
    }
}

impl Questions<RedisStore> for Locks {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.acquire_lock(claim, place))
    }

    fn recount<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        Box::pin(store.recount_lock(claim, count, ttl))
    }

    fn release<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        Box::pin(store.release_lock(claim, mode))
    }

    fn renew<'a>(
        &self,
        store: &'a RedisStore,
        renewals: &'a [Renewal],
    ) -> Answer<'a, Vec<Outcome>> {
        Box::pin(store.renew_locks(renewals))
    }

    fn guarded<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        work: &'a Work,
    ) -> Answer<'a, Option<domain::Value>> {
        Box::pin(store.guarded_by(claim.owner.as_str(), claim, work))
    }

    fn holder<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, Option<Holder>> {
        Box::pin(store.holder_of_lock(object))
    }

    fn held_by<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        Box::pin(store.lock_held_by(object, owner))
    }

    fn force_release<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, bool> {
        Box::pin(store.force_release_lock(object))
    }

    fn change<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        change: Change,
        _receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        match change {
            Change::RaiseToken(least) => Box::pin(store.raise_token(object, least)),
            _ => unsupported(object),
        }
    }
}

fn channel(name: &Name) -> String {
    keys::redissons("redisson_lock__channel", name)
}

impl RedisStore {
    async fn acquire_lock(&self, claim: &Claim, place: Option<Place>) -> Result<Verdict, Failure> {
        match place {
            Some(place) => Box::pin(self.acquire_queueing(claim, place)).await,
            None => self.acquire_alone(claim).await,
        }
    }

    /// Asks for a lock: with a place in its queue, and with tokens, if they are wanted.
    async fn ask(&self, claim: &Claim, place: Option<&str>) -> Result<Value, Failure> {
        let (name, fenced) = (claim.name(), claim.tokens() > 0);
        let queue = place.map(|_| keys::queue(name));
        let tokens = fenced.then(|| keys::tokens(name));
        let (lock, count) =
            (name.as_str(), if fenced { 3 } else { 1 + usize::from(place.is_some()) });
        let keys = [lock, queue.as_deref().unwrap_or(lock), tokens.as_deref().unwrap_or(lock)];
        let more = |command: &mut Cmd| {
            command.arg(claim.owner.as_str()).arg(millis(claim.ttl));
            if count > 1 {
                command.arg(place.unwrap_or_default()).arg(millis(QUEUE_RESTS));
            }
            if fenced {
                command.arg(claim.tokens());
            }
        };
        let answer = self.run_or_tell(&ACQUIRE, &keys[..count], more, place.is_some());
        self.explained(claim.name(), answer.await).await
    }

    /// Asks for a lock, and for a place in its queue if it is busy.
    async fn acquire_queueing(&self, claim: &Claim, place: Place) -> Result<Verdict, Failure> {
        let place = match place {
            Place::Kept | Place::Waited(_) => "kept",
            Place::Listening => "listening",
            Place::Polling => "polling",
        };
        if !self.topology.rights(&claim.object).queue {
            return self.acquire_alone(claim).await;
        }
        let reply = Box::pin(self.ask(claim, Some(place))).await;
        if !is_forbidden(&reply) && !is_split(&reply) {
            let reply = reply?;
            if place_was_refused(&reply) {
                self.topology.queue_refused(&claim.object);
            }
            return replies::verdict(&reply, claim);
        }
        // Without a queue it shows whether the lock is refused, too.
        let verdict = self.acquire_alone(claim).await?;
        if !is_split(&reply) {
            self.topology.queue_refused(&claim.object);
        }
        Ok(verdict)
    }

    async fn acquire_alone(&self, claim: &Claim) -> Result<Verdict, Failure> {
        replies::verdict(&self.ask(claim, None).await?, claim)
    }

    /// Gives a lock back to the next in its queue, or to everybody if we may not queue.
    async fn hand_over(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        if !self.topology.rights(&claim.object).queue {
            return Box::pin(self.release_openly(claim)).await;
        }
        let keys = [claim.name().as_str(), &keys::queue(claim.name())];
        let more = |command: &mut Cmd| {
            command.arg(claim.owner.as_str());
            command.arg(channel(claim.name())).arg(keys::queuers(claim.name()));
            command.arg(keys::waiters(claim.name()));
            command.arg(millis(RESERVATION)).arg(millis(POLLERS_TURN));
            command.arg(millis(WARNED_AFTER)).arg(millis(SOON)).arg(millis(LATER));
        };
        let asked = self.run_or_tell(&HAND_OVER, &keys, more, true);
        let reply = self.explained(claim.name(), Box::pin(asked).await).await;
        if !is_forbidden(&reply) && !is_split(&reply) {
            return replies::given_back(&reply?, claim.name());
        }
        let given = Box::pin(self.release_openly(claim)).await?;
        if !is_split(&reply) {
            self.topology.queue_refused(&claim.object);
        }
        Ok(given)
    }

    /// Gives a lock back to whoever asks first, by two commands that travel together:
    /// a script around them would cost as much again.
    ///
    /// Both are sent whatever becomes of the first, so that asking again makes up for
    /// a message that was lost. One too many wakes waiters for nothing.
    async fn release_openly(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        let mut free = roomy("HDEL");
        free.arg(claim.name().as_str()).arg(claim.owner.as_str());
        let announce = |channels: Channels| {
            let mut announce = roomy(channels.publish());
            announce.arg(channel(claim.name())).arg("0");
            announce
        };
        let key = claim.name().as_str().as_bytes();
        let replies = self.topology.call_then_say(key, free, announce).await?;
        let freed = match replies.first() {
            Some(Value::ServerError(error)) => Err(replies::refusal(error).naming(Some("HDEL"))),
            freed => is_freed(freed.unwrap_or(&Value::Nil)),
        };
        if !self.explained(claim.name(), freed).await? {
            return Ok(GivenBack::NotHeld { holder: self.successor(&claim.object).await });
        }
        let ears = replies.get(1).map_or(Ok(0), |reply| ears(reply, claim.name()))?;
        // Where nobody listens, nothing is looked up.
        let others = ears > 0 && ears > i64::from(self.topology.hears_releases(&claim.object));
        Ok(GivenBack::Freed(match others {
            true => Others::Listeners,
            false => Others::Nobody,
        }))
    }

    /// Who has a lock that is not ours any more, if the server tells.
    async fn successor(&self, object: &Object) -> Option<Holder> {
        // That it is not ours is answered: asking all over again would only hide it.
        self.holder_of_lock(object).await.unwrap_or_else(|failure| {
            tracing::debug!(target: "leasehold", lock = %object.name, %failure,
                "a release found another holder, or none: not known which");
            None
        })
    }

    async fn recount_lock(
        &self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        let reply = self.run_on(claim.name(), &RECOUNT, |command| {
            command.arg(claim.owner.as_str()).arg(count).arg(ttl.map_or(0, millis));
        });
        replies::outcome(&reply.await?)
    }

    async fn release_lock(&self, claim: &Claim, mode: ReleaseMode) -> Result<GivenBack, Failure> {
        match mode {
            ReleaseMode::Broadcast => self.release_openly(claim).await,
            ReleaseMode::HandOver | ReleaseMode::Forget | ReleaseMode::Leave => {
                Box::pin(self.hand_over(claim)).await
            }
        }
    }

    async fn renew_locks(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let names: Vec<&str> =
            renewals.iter().map(|renewal| renewal.object.name.as_str()).collect();
        let reply = self.run_together(&RENEW, &names, |command| {
            for Renewal { owner, ttl, .. } in renewals {
                command.arg(owner.as_str()).arg(ttl.map_or(0, millis));
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    async fn holder_of_lock(&self, object: &Object) -> Result<Option<Holder>, Failure> {
        let reply = self.run_on(&object.name, &INSPECT, |_| {}).await?;
        replies::holder(&reply)
    }

    pub(super) async fn lock_held_by(
        &self,
        object: &Object,
        owner: &Owner,
    ) -> Result<u32, Failure> {
        let field = [object.name.as_str(), owner.as_str()];
        replies::count(&self.ask_about(&object.name, "HGET", &field).await?)
    }

    async fn force_release_lock(&self, object: &Object) -> Result<bool, Failure> {
        let channel = channel(&object.name);
        let reply = self.run_on(&object.name, &FORCE_RELEASE, |command| {
            command.arg(&channel);
        });
        replies::freed(&reply.await?, &object.name)
    }

    /// Raises the counter of tokens. Asked again it raises nothing, so it needs no receipt.
    async fn raise_token(&self, object: &Object, least: u64) -> Result<i64, Failure> {
        let keys = [keys::tokens(&object.name)];
        let reply = self.run(&RAISE_TOKEN, &keys, |command| {
            command.arg(least);
        });
        replies::number(&reply.await?)
    }
}

/// Whether the server did not let us.
pub(super) fn is_forbidden<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Refused { code, .. }) if code == "NOPERM")
}

/// Whether the keys lay on two nodes, their slot being on its way: ask about the lock alone.
pub(super) fn is_split<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Refused { code, .. }) if code == "TRYAGAIN")
}

/// Whether an answer to one who waits says that the server refused it a place.
fn place_was_refused(reply: &Value) -> bool {
    matches!(reply, Value::Array(parts) if parts.len() == 4)
}

/// Whether a hold was there to be deleted.
fn is_freed(reply: &Value) -> Result<bool, Failure> {
    match reply {
        Value::Int(deleted) => Ok(*deleted == 1),
        other => Err(replies::unreadable(other)),
    }
}

/// How many clients a message went to.
fn ears(reply: &Value, name: &Name) -> Result<i64, Failure> {
    match reply {
        Value::Int(ears) => Ok(*ears),
        Value::ServerError(_) => {
            replies::warn_unannounced(name);
            Ok(0)
        }
        other => Err(replies::unreadable(other)),
    }
}
