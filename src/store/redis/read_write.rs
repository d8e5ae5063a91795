//! The read-write lock's questions, as scripts. A reader is a field of the lock's hash by its
//! owner, and a key of its own that lives as long as its lease; a writer is `<owner>:write`.

use std::{borrow::Cow, time::Duration};

use redis::Value;

use super::{
    RedisStore, keys, millis, replies,
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
        let name = claim.name();
        let yields = claim.share == Share::Beside { yields: true };
        let keys = [name.as_str(), &keys::reader(name, &claim.owner), &keys::writers(name)];
        let answer = self.run(&scripts::READ, &keys[..2 + usize::from(yields)], |command| {
            command.arg(claim.owner.as_str()).arg(millis(claim.ttl)).arg(writer(&claim.owner));
        });
        verdict(&self.explained(name, answer.await).await?, claim)
    }

    pub(super) async fn acquire_to_write(
        &self,
        claim: &Claim,
        place: Option<Place>,
    ) -> Result<Verdict, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::writers(name)];
        let answer =
            self.run(&scripts::WRITE_ALONE, &keys[..1 + usize::from(place.is_some())], |it| {
                it.arg(claim.owner.as_str()).arg(millis(claim.ttl));
                it.arg(writer(&claim.owner)).arg(millis(KNOWN_FOR));
            });
        verdict(&self.explained(name, answer.await).await?, claim)
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
        let name = claim.name();
        let keys = [name.as_str(), &keys::writers(name)];
        let answer = self.run(&scripts::UNLOCK, &keys[..1 + usize::from(may_have_waited)], |it| {
            it.arg(claim.owner.as_str()).arg(writer(&claim.owner));
            it.arg(keys::channel(&claim.object));
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
        let reply = self.run_on(claim.name(), &scripts::RECOUNT, |command| {
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
        let reply = self.run(&scripts::RENEW, &names, |command| {
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
        Value::Array(nobody) if nobody.is_empty() => Ok(Verdict::Busy(Taken::UNKNOWN)),
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
