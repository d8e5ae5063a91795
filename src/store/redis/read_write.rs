//! The read-write lock's questions, as scripts. A reader is a field of the lock's hash by its
//! owner, and a key of its own that lives as long as its lease; a writer is `<owner>:write`.

use std::{future::Future, sync::LazyLock, time::Duration};

use redis::{Cmd, Value, cmd};

use super::{
    InRedis, RedisStore,
    granted::Granted,
    keys,
    lock::{is_forbidden, is_split},
    replies,
    scripts::{Script, millis, script},
};
use crate::{
    domain::{
        self, Claim, Failure, GivenBack, Holder, Name, Object, Outcome, Owner, Place, ReleaseMode,
        Renewal, Share, Taken, Verdict, Work,
    },
    store::{Answer, COURTESY_TURN, KNOWN_FOR, questions::Questions},
};

pub(super) static SCRIPTS: &[&LazyLock<Script>] = &[
    &READ,
    &WRITE,
    &LEAVE,
    &UNLOCK,
    &RENEW_READERS,
    &RENEW_WRITERS,
    &RECOUNT_WRITER,
    &INSPECT,
    &FORCE,
];

static READ: LazyLock<Script> = script!("holder", "read_write", "read_write/read");
static WRITE: LazyLock<Script> = script!("holder", "read_write", "read_write/write");
static LEAVE: LazyLock<Script> = script!("holder", "read_write", "read_write/leave");
static UNLOCK: LazyLock<Script> = script!("holder", "read_write", "read_write/unlock");
static RENEW_READERS: LazyLock<Script> = script!("read_write/renew");
static RENEW_WRITERS: LazyLock<Script> = script!("read_write/prolong");
static RECOUNT_WRITER: LazyLock<Script> = script!("read_write/recount");
static INSPECT: LazyLock<Script> = script!("holder", "read_write", "read_write/inspect");
static FORCE: LazyLock<Script> = script!("holder", "read_write", "read_write/force");

/// What the field of a writer ends with.
const WRITER: &str = ":write";

/// The reading side.
pub(super) struct Readers;

impl InRedis for Readers {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }

    fn granted(&self, claim: &Claim) -> Option<Granted> {
        let lease = keys::reader(claim.name(), &claim.owner);
        let look = cmd("EXISTS").arg(&lease).clone();
        let field = Granted::field(&[claim.name().as_str(), &lease], claim.owner.as_str());
        Some(field.found_by(look))
    }
}

impl Questions<RedisStore> for Readers {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.acquire_to_read(claim))
    }

    fn acquire_beside<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        writer: &'a Owner,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.read(claim, None, Some(writer)))
    }

    /// Those who share it are one reader to the store.
    fn recount<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        Box::pin(store.is_reading(claim, ttl))
    }

    fn release<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        Box::pin(store.stop_reading(claim))
    }

    fn renew<'a>(
        &self,
        store: &'a RedisStore,
        renewals: &'a [Renewal],
    ) -> Answer<'a, Vec<Outcome>> {
        Box::pin(store.renew_readers(renewals))
    }

    fn holder<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, Option<Holder>> {
        Box::pin(store.holder_in("read", object))
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
        Box::pin(store.force_out_of("read", "0", object))
    }
}

/// The writing side.
pub(super) struct Writers;

impl InRedis for Writers {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }

    fn granted(&self, claim: &Claim) -> Option<Granted> {
        Some(Granted::field(&[claim.name().as_str()], &writer(&claim.owner)))
    }
}

impl Questions<RedisStore> for Writers {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.acquire_to_write(claim, place))
    }

    fn recount<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Answer<'a, Outcome> {
        Box::pin(store.recount_writer(claim, count, ttl))
    }

    fn release<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        Box::pin(store.stop_writing(claim, mode != ReleaseMode::Broadcast))
    }

    fn renew<'a>(
        &self,
        store: &'a RedisStore,
        renewals: &'a [Renewal],
    ) -> Answer<'a, Vec<Outcome>> {
        Box::pin(store.renew_writers(renewals))
    }

    fn guarded<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        work: &'a Work,
    ) -> Answer<'a, Option<domain::Value>> {
        Box::pin(async move { store.guarded_by(&writer(&claim.owner), claim, work).await })
    }

    fn holder<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, Option<Holder>> {
        Box::pin(store.holder_in("write", object))
    }

    fn held_by<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        Box::pin(store.writer_held_by(object, owner))
    }

    fn force_release<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, bool> {
        Box::pin(store.force_out_of("write", "1", object))
    }
}

/// Both sides share it.
fn channel(name: &Name) -> String {
    keys::redissons("redisson_rwlock", name)
}

impl RedisStore {
    async fn acquire_to_read(&self, claim: &Claim) -> Result<Verdict, Failure> {
        let Share::Behind { waited } = claim.share else {
            return self.read(claim, None, None).await;
        };
        let asked = |knows: bool| self.read(claim, knows.then_some(waited), None);
        self.among_the_writers(&claim.object, asked).await
    }

    /// Asks to read, behind those who wanted to write when one had not yet `waited`, or beside
    /// one who writes.
    async fn read(
        &self,
        claim: &Claim,
        waited: Option<u32>,
        beside: Option<&Owner>,
    ) -> Result<Verdict, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::reader(name, &claim.owner), &keys::writers(name)];
        let more = |it: &mut Cmd| {
            it.arg(claim.owner.as_str()).arg(millis(claim.ttl));
            it.arg(beside.map(writer).unwrap_or_default()).arg(waited.unwrap_or_default());
            it.arg(millis(COURTESY_TURN));
        };
        let keys = &keys[..2 + usize::from(waited.is_some())];
        let answer = self.run_or_tell(&READ, keys, more, waited.is_some());
        verdict(&self.explained(name, answer.await).await?, claim)
    }

    async fn acquire_to_write(
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
        let more = |it: &mut Cmd| {
            it.arg(claim.owner.as_str()).arg(millis(claim.ttl));
            it.arg(writer(&claim.owner)).arg(millis(KNOWN_FOR));
        };
        let answer = self.run_or_tell(&WRITE, &keys[..1 + usize::from(waits)], more, waits);
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
        if !self.topology.rights(object).queue {
            return ask(false).await;
        }
        let answer = ask(true).await;
        if !is_forbidden(&answer) && !is_split(&answer) {
            return answer;
        }
        // Without it it shows whether the lock is refused, too.
        let alone = ask(false).await?;
        if !is_split(&answer) {
            self.topology.queue_refused(object);
        }
        Ok(alone)
    }

    async fn stop_reading(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        let name = claim.name();
        let keys = [name.as_str(), &keys::reader(name, &claim.owner)];
        let answer = self.run(&LEAVE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(channel(name));
            command.arg(keys::in_slot(name));
        });
        let reply = self.explained(name, answer.await).await?;
        replies::given_back(&reply, name).map(as_owners)
    }

    async fn stop_writing(
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
        let more = |it: &mut Cmd| {
            it.arg(claim.owner.as_str()).arg(writer(&claim.owner));
            it.arg(channel(name)).arg(keys::in_slot(name));
            it.arg(u8::from(self.topology.hears_releases(&claim.object)));
        };
        let answer = self.run_or_tell(&UNLOCK, &keys[..1 + usize::from(waited)], more, waited);
        let reply = self.explained(name, answer.await).await?;
        replies::given_back(&reply, name).map(as_owners)
    }

    async fn recount_writer(
        &self,
        claim: &Claim,
        count: u32,
        ttl: Option<Duration>,
    ) -> Result<Outcome, Failure> {
        let reply = self.run_on(claim.name(), &RECOUNT_WRITER, |command| {
            command.arg(writer(&claim.owner)).arg(count).arg(ttl.map_or(0, millis));
        });
        replies::outcome(&reply.await?)
    }

    async fn is_reading(&self, claim: &Claim, ttl: Option<Duration>) -> Result<Outcome, Failure> {
        let Claim { object, owner, share, .. } = claim.clone();
        let outcomes = self.renew_readers(&[Renewal { object, owner, share, ttl }]).await?;
        Ok(outcomes.first().copied().unwrap_or(Outcome::Unknown))
    }

    async fn renew_writers(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let names: Vec<&str> = renewals.iter().map(|it| it.object.name.as_str()).collect();
        let reply = self.run_together(&RENEW_WRITERS, &names, |command| {
            for Renewal { owner, ttl, .. } in renewals {
                command.arg(writer(owner)).arg(ttl.map_or(0, millis));
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    async fn renew_readers(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let leases = renewals.iter().map(|it| keys::reader(&it.object.name, &it.owner));
        let leases: Vec<String> = leases.collect();
        let names = renewals.iter().map(|it| it.object.name.as_str());
        let keys: Vec<&str> =
            names.zip(&leases).flat_map(|(name, lease)| [name, lease.as_str()]).collect();
        let reply = self.run_together(&RENEW_READERS, &keys, |command| {
            for Renewal { owner, ttl, .. } in renewals {
                command.arg(owner.as_str()).arg(ttl.map_or(0, millis));
            }
        });
        match (renewals, reply.await) {
            ([one], reply) if is_split(&reply) => Ok(vec![self.renew_reader_apart(one).await?]),
            (_, reply) => replies::outcomes(&reply?, renewals.len()),
        }
    }

    /// Renews one whose lock and lease lie on two nodes, each by itself. Whoever stops reading
    /// in between leaves a lease of nobody, which ends.
    async fn renew_reader_apart(&self, renewal: &Renewal) -> Result<Outcome, Failure> {
        let Renewal { object, owner, ttl, .. } = renewal;
        let looked = self.prolong_lock_of_reader(object, owner, 0).await?;
        if looked != Outcome::Renewed || !self.lease_lives_on(object, owner, *ttl).await? {
            return Ok(Outcome::NotOurs);
        }
        self.prolong_lock_of_reader(object, owner, ttl.map_or(0, millis)).await
    }

    /// The script of the writers asks about one field of the lock, whoever's it is.
    async fn prolong_lock_of_reader(
        &self,
        object: &Object,
        owner: &Owner,
        ttl: u64,
    ) -> Result<Outcome, Failure> {
        let reply = self.run_on(&object.name, &RENEW_WRITERS, |command| {
            command.arg(owner.as_str()).arg(ttl);
        });
        let outcomes = replies::outcomes(&reply.await?, 1)?;
        Ok(outcomes.into_iter().next().unwrap_or(Outcome::Unknown))
    }

    /// Prolongs the lease of a reader, or only looks at it. Whether there was one.
    async fn lease_lives_on(
        &self,
        object: &Object,
        owner: &Owner,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        let lease = keys::reader(&object.name, owner);
        let reply = match ttl.map(|ttl| millis(ttl).to_string()) {
            Some(ttl) => self.ask_about(&object.name, "PEXPIRE", &[&lease, &ttl]).await?,
            None => self.ask_about(&object.name, "EXISTS", &[&lease]).await?,
        };
        Ok(reply == Value::Int(1))
    }

    /// One of those who are in this mode.
    async fn holder_in(&self, mode: &str, object: &Object) -> Result<Option<Holder>, Failure> {
        let reply = self.run_on(&object.name, &INSPECT, |command| {
            command.arg(mode);
        });
        Ok(replies::holder(&reply.await?)?.map(as_owner))
    }

    async fn writer_held_by(&self, object: &Object, owner: &Owner) -> Result<u32, Failure> {
        self.lock_held_by(object, &Owner::lossy(&writer(owner))).await
    }

    /// Takes out all who are on this side, and says so by this `message`.
    async fn force_out_of(
        &self,
        mode: &str,
        message: &str,
        object: &Object,
    ) -> Result<bool, Failure> {
        let reply = self.run_on(&object.name, &FORCE, |command| {
            command.arg(mode).arg(channel(&object.name)).arg(message);
            command.arg(keys::in_slot(&object.name));
        });
        replies::freed(&reply.await?, &object.name)
    }
}

/// The field of `owner` as a writer.
fn writer(owner: &Owner) -> String {
    format!("{}{WRITER}", owner.as_str())
}

/// A grant, who is in the way or waits to write, or nobody.
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
