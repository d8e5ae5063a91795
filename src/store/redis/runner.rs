//! Sends requests, and turns rejections into failures. If the server denies a key that a request
//! does not need, the client sends the request again without this key. The crate `leasehold-link`
//! follows redirects, and sends the text of a script that the server does not know.

use std::{future::Future, time::Duration};

use redis::{Cmd, ToRedisArgs, Value, cmd};
use tokio::time::Instant;

use super::{
    RedisStore, Reply,
    ask::{Ask, NOTHING, Read, Request},
    kinds::InRedis,
    replies,
    scripts::Script,
};
use crate::{
    domain::{Failure, Name, Notice, Object, Taken, Verdict},
    metrics,
};

impl RedisStore {
    /// Sends `ask`, and reads the reply.
    pub(super) async fn ask<T>(&self, ask: Ask<'_, impl Read<T>>) -> Reply<T> {
        (ask.read)(&self.send(&ask.request).await?)
    }

    /// Sends `request`. Returns the reply of the server. If the reply is a rejection, returns a
    /// failure.
    pub(super) async fn send(&self, request: &Request<'_>) -> Reply<Value> {
        let is_refused = |reply: &Value| matches!(reply, Value::ServerError(_));
        let sent = self.topology.send(request);
        match metrics::timed(|| request.name(), sent, is_refused).await? {
            Value::ServerError(error) => {
                let refused = request.refused(&error);
                match request.subject() {
                    Some(name) => Err(Box::pin(self.explained(name, refused)).await),
                    None => Err(refused),
                }
            }
            reply => Ok(reply),
        }
    }

    /// Sends a plain `command` about `key`. If the reply is a rejection, returns a failure.
    pub(super) async fn call(&self, key: &str, command: &Cmd) -> Reply<Value> {
        replies::accepted(self.topology.call(key.as_bytes(), command).await?)
    }

    /// If `failure` is due to a wrong type, adds the type of the key `name`.
    pub(super) async fn explained(&self, name: &Name, failure: Failure) -> Failure {
        let Failure::Refused { code, .. } = &failure else { return failure };
        match &**code {
            "WRONGTYPE" => {
                let key = name.as_str();
                match self.topology.call(key.as_bytes(), cmd("TYPE").arg(key)).await {
                    // The ACL denies `TYPE`.
                    Ok(Value::ServerError(_)) => {
                        Failure::WrongType { found: "key of another type".to_owned() }
                    }
                    Ok(found) => Failure::WrongType { found: replies::into_text(&found) },
                    Err(unknown) => unknown,
                }
            }
            replies::NO_NUMBER => replies::no_number(),
            _ => failure,
        }
    }

    /// Sends the request with the key of the waiters of `object`. If the server denies this key, or
    /// another node has it, sends the request again without this key.
    pub(super) async fn with_waiters<T, A>(
        &self,
        object: &Object,
        ask: impl Fn(bool) -> A,
    ) -> Reply<T>
    where
        A: Future<Output = Reply<T>>,
    {
        if !self.permissions(object).queue {
            return ask(false).await;
        }
        let answer = ask(true).await;
        if !replies::is_forbidden(&answer) && !replies::is_split(&answer) {
            return answer;
        }
        // If the server also rejects this request, the key of the waiters was not the reason.
        let alone = ask(false).await?;
        if !replies::is_split(&answer) {
            self.queue_refused(object);
        }
        Ok(alone)
    }

    /// Runs a `script` that changes an object of this kind. Returns the number in its reply.
    pub(super) async fn apply<K: InRedis>(
        &self,
        name: &Name,
        script: &Script,
        others: &[&str],
        arguments: impl ToRedisArgs,
    ) -> Reply<i64> {
        let request = Request::of(name, script, others, arguments);
        self.announced::<K, _>(name, self.ask(request.read(replies::number))).await
    }

    /// Returns `reply`. If the message of the script reached no client because the slot is
    /// migrating, publishes another message that wakes the waiters.
    pub(super) async fn announced<K: InRedis, T>(
        &self,
        name: &Name,
        reply: impl Future<Output = Reply<T>>,
    ) -> Reply<T> {
        let reply = reply.await;
        if self.topology.is_to_be_published_again(name.as_str().as_bytes()) {
            Box::pin(self.wake::<K>(name)).await;
        }
        reply
    }

    /// Publishes `notices` about `name` again if they reached no client because the slot is
    /// migrating.
    pub(super) async fn notify_again(&self, name: &Name, notices: &[&Notice]) {
        if notices.is_empty() || !self.topology.is_to_be_published_again(name.as_str().as_bytes()) {
            return;
        }
        let Ok(channels) = self.topology.channels().await else { return };
        for Notice { channel, message } in notices {
            let mut publish = cmd(channels.publish());
            publish.arg(channel).arg(&message[..]);
            let reply = self.topology.call(name.as_str().as_bytes(), &publish).await;
            tracing::debug!(target: "leasehold", map = %name, ?reply,
                "notice to Java caches published again: the slot is migrating");
        }
    }

    /// Publishes a message that makes all waiters send a request. If the message fails, the waiters
    /// send a request later, by their timers.
    async fn wake<K: InRedis>(&self, name: &Name) {
        let Ok(channels) = self.topology.channels().await else { return };
        if !K::wakes_now(self, name).await {
            return;
        }
        let mut publish = cmd(channels.publish());
        publish.arg(K::channel(name)).arg(K::WAKES);
        let reply = self.topology.call(name.as_str().as_bytes(), &publish).await;
        tracing::debug!(target: "leasehold", lock = %name, ?reply,
            "release notification published again: the slot is migrating");
    }

    /// Returns the number under `name`, or 0 if it is unset.
    pub(super) async fn number_at(&self, name: &Name) -> Reply<i64> {
        let request = Request::command("GET", name.as_str(), NOTHING).about(name);
        self.ask(request.read(replies::number_there)).await
    }

    /// Parses `{pttl}`, the reply if no permit is free or the queue has no element.
    pub(super) fn busy(&self, reply: &Value, name: &Name) -> Reply<Verdict> {
        const UNSET: i64 = -2;
        let Value::Array(parts) = reply else { return Err(replies::unreadable(reply)) };
        let [Value::Int(millis)] = parts[..] else { return Err(replies::unreadable(reply)) };
        let unset = millis == UNSET;
        if unset && let Some(times) = self.unset.once_more(Instant::now()) {
            tracing::warn!(target: "leasehold", lock = %name, times,
                "number of permits not set: call set_if_absent");
        }
        let at_most = u64::try_from(millis).ok().map(Duration::from_millis);
        Ok(Verdict::Busy(Taken { at_most, unset, ..Taken::UNKNOWN }))
    }
}
