//! The read-write lock's questions, as scripts. A reader is a field of the lock's hash by its
//! owner, and a key of its own that lives as long as its lease; a writer is `<owner>:write`.

use std::{borrow::Cow, future::Future, time::Duration};

use redis::Value;

use super::{
    RedisStore, keys,
    lock::is_forbidden,
    millis, replies,
    scripts::{self, Script},
};
use crate::{
    domain::{
        Claim, Failure, GivenBack, Holder, Kind, Object, Outcome, Owner, Place, Renewal, Share,
        Taken, Verdict,
    },
    store::KNOWN_FOR,
};

/// What the field of a writer ends with.
const WRITER: &str = ":write";

impl RedisStore {
    pub(super) async fn acquire_to_read(&self, claim: &Claim) -> Result<Verdict, Failure> {
        let Share::Beside { yields: Some(waited) } = claim.share else {
            return self.read(claim, None).await;
        };
        let asked = |knows: bool| self.read(claim, knows.then_some(waited));
        self.among_the_writers(&claim.object, asked).await
    }

    /// Asks to read, and to let those go first who waited to write when one had not yet `waited`.
    async fn read(&self, claim: &Claim, waited: Option<Duration>) -> Result<Verdict, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::reader(name, &claim.owner), &keys::writers(name)];
        let answer = self.run(&scripts::READ, &keys[..2 + usize::from(waited.is_some())], |it| {
            it.arg(claim.owner.as_str()).arg(millis(claim.ttl));
            it.arg(claim.beside.as_ref().map(writer).unwrap_or_default());
            it.arg(waited.map_or(0, |waited| waited.as_millis()));
        });
        verdict(&self.explained(name, answer.await).await?, claim)
    }

    pub(super) async fn acquire_to_write(
        &self,
        claim: &Claim,
        place: Option<Place>,
    ) -> Result<Verdict, Failure> {
        match place {
            Some(_) => {
                self.among_the_writers(&claim.object, |knows| self.write_alone(claim, knows)).await
            }
            None => self.write_alone(claim, false).await,
        }
    }

    /// Asks to write; one that waits may be known to those who come later.
    async fn write_alone(&self, claim: &Claim, waits: bool) -> Result<Verdict, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::writers(name)];
        let answer = self.run(&scripts::WRITE_ALONE, &keys[..1 + usize::from(waits)], |it| {
            it.arg(claim.owner.as_str()).arg(millis(claim.ttl));
            it.arg(writer(&claim.owner)).arg(millis(KNOWN_FOR));
        });
        verdict(&self.explained(name, answer.await).await?, claim)
    }

    /// Asks with the key of those who wait to write, or without it if we have no right to it:
    /// it is for courtesy alone.
    async fn among_the_writers<T, A>(
        &self,
        object: &Object,
        ask: impl Fn(bool) -> A,
    ) -> Result<T, Failure>
    where
        A: Future<Output = Result<T, Failure>>,
    {
        if !self.subscriptions.rights(object).queue {
            return ask(false).await;
        }
        let answer = ask(true).await;
        if !is_forbidden(&answer) {
            return answer;
        }
        // Without it it shows whether the lock is refused, too.
        let answer = ask(false).await?;
        self.subscriptions.queue_refused(object);
        Ok(answer)
    }

    pub(super) async fn stop_reading(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::reader(name, &claim.owner)];
        let answer = self.run(&scripts::LEAVE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(keys::channel(&claim.object));
            command.arg(keys::in_slot(name));
        });
        let reply = self.explained(name, answer.await).await?;
        replies::given_back(&reply, name).map(as_owners)
    }

    pub(super) async fn stop_writing(
        &self,
        claim: &Claim,
        may_have_waited: bool,
    ) -> Result<GivenBack, Failure> {
        match may_have_waited {
            true => self.among_the_writers(&claim.object, |knows| self.unlock(claim, knows)).await,
            false => self.unlock(claim, false).await,
        }
    }

    async fn unlock(&self, claim: &Claim, waited: bool) -> Result<GivenBack, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::writers(name)];
        let answer = self.run(&scripts::UNLOCK, &keys[..1 + usize::from(waited)], |it| {
            it.arg(claim.owner.as_str()).arg(writer(&claim.owner));
            it.arg(keys::channel(&claim.object)).arg(keys::in_slot(name));
            it.arg(u8::from(self.subscriptions.hears_releases(&claim.object)));
        });
        let reply = self.explained(name, answer.await).await?;
        replies::given_back(&reply, name).map(as_owners)
    }

    pub(super) async fn recount_writer(
        &self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        let reply = self.run_on(claim.name(), &scripts::RECOUNT_WRITER, |command| {
            command.arg(writer(&claim.owner)).arg(count).arg(ttl.map_or(0, millis));
        });
        replies::outcome(&reply.await?)
    }

    pub(super) async fn is_reading(
        &self,
        claim: &Claim,
        ttl: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        let Claim { object, owner, share, .. } = claim.clone();
        let outcomes = self.renew_readers(&[Renewal { object, owner, share, ttl }]).await?;
        Ok(outcomes.first().copied().unwrap_or(Outcome::Unknown))
    }

    pub(super) async fn renew_writers(
        &self,
        renewals: &[Renewal],
    ) -> Result<Vec<Outcome>, Failure> {
        let names: Vec<&str> = renewals.iter().map(|it| it.object.name.as_str()).collect();
        let reply = self.run(&scripts::RENEW_WRITERS, &names, |command| {
            for Renewal { owner, ttl, .. } in renewals {
                command.arg(writer(owner)).arg(ttl.map_or(0, millis));
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    pub(super) async fn renew_readers(
        &self,
        renewals: &[Renewal],
    ) -> Result<Vec<Outcome>, Failure> {
        let leases = renewals.iter().map(|it| keys::reader(&it.object.name, &it.owner));
        let leases: Vec<String> = leases.collect();
        let names = renewals.iter().map(|it| it.object.name.as_str());
        let keys: Vec<&str> =
            names.zip(&leases).flat_map(|(name, lease)| [name, lease.as_str()]).collect();
        let reply = self.run(&scripts::RENEW_READERS, &keys, |command| {
            for Renewal { owner, ttl, .. } in renewals {
                command.arg(owner.as_str()).arg(ttl.map_or(0, millis));
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    /// One of those who read, or who writes.
    pub(super) async fn reader_or_writer(
        &self,
        object: &Object,
    ) -> Result<Option<Holder>, Failure> {
        let reply = self.run_on(&object.name, &scripts::INSPECT_MODE, |command| {
            command.arg(mode(object.kind));
        });
        Ok(replies::holder(&reply.await?)?.map(as_owner))
    }

    pub(super) async fn reads_or_writes(
        &self,
        object: &Object,
        owner: &Owner,
    ) -> Result<u32, Failure> {
        match object.kind {
            Kind::Write => {
                let writer = Owner::lossy(&writer(owner));
                self.lock_held_by(object, &writer).await
            }
            _ => self.lock_held_by(object, owner).await,
        }
    }

    pub(super) async fn force_readers_or_writer(&self, object: &Object) -> Result<bool, Failure> {
        let script: &Script = &scripts::FORCE_MODE;
        let reply = self.run_on(&object.name, script, |command| {
            let message = if object.kind == Kind::Write { "1" } else { "0" };
            command.arg(mode(object.kind)).arg(keys::channel(object)).arg(message);
        });
        replies::forced(&reply.await?, &object.name)
    }
}

fn mode(kind: Kind) -> &'static str {
    match kind {
        Kind::Write => "write",
        _ => "read",
    }
}

/// The field by which the claim's owner holds exclusively.
pub(super) fn field(claim: &Claim) -> Cow<'_, str> {
    match claim.object.kind {
        Kind::Write => writer(&claim.owner).into(),
        _ => claim.owner.as_str().into(),
    }
}

/// The field of `owner` as a writer.
fn writer(owner: &Owner) -> String {
    format!("{owner}{WRITER}")
}

/// A grant, who is in the way, or nobody but those who wait to write.
fn verdict(reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
    match reply {
        Value::Array(parts) if parts.len() < 2 => match parts[..] {
            [] => Ok(Verdict::Busy(Taken::UNKNOWN)),
            [Value::Int(left)] => {
                let at_most = u64::try_from(left).ok().map(Duration::from_millis);
                Ok(Verdict::Busy(Taken { holder: None, at_most }))
            }
            _ => Err(replies::unreadable(reply)),
        },
        reply => Ok(match replies::verdict(reply, claim)? {
            Verdict::Busy(taken) => {
                Verdict::Busy(Taken { holder: taken.holder.map(as_owner), ..taken })
            }
            granted => granted,
        }),
    }
}

/// A holder by its owner: a writer's field says more.
fn as_owner(holder: Holder) -> Holder {
    let owner = holder.owner.as_str().strip_suffix(WRITER).map(Owner::lossy);
    Holder { owner: owner.unwrap_or_else(|| holder.owner.clone()), ..holder }
}

fn as_owners(given: GivenBack) -> GivenBack {
    match given {
        GivenBack::NotHeld { holder } => GivenBack::NotHeld { holder: holder.map(as_owner) },
        freed @ GivenBack::Freed(_) => freed,
    }
}
