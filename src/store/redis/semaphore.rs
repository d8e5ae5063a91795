//! The semaphore's questions, as scripts. Redisson has the counter and the channel; who has
//! how many permits is our own.

use std::sync::LazyLock;

use redis::{Value, cmd};

use super::{
    InRedis, RedisStore,
    granted::Granted,
    keys, replies,
    scripts::{Script, millis, script},
};
use crate::{
    domain::{
        Change, Claim, Failure, GivenBack, Name, Object, Others, Outcome, Owner, Place,
        ReleaseMode, Renewal, Verdict,
    },
    store::{
        Answer, LATEST, PATIENT_RESTS, PATIENT_TURN, RECEIPT_RESTS,
        questions::{Questions, unsupported},
    },
};

pub(super) static SCRIPTS: &[&LazyLock<Script>] =
    &[&ACQUIRE, &RELEASE, &SET, &ADD, &DRAIN, &DELETE];

static ACQUIRE: LazyLock<Script> = script!("number", "semaphore/acquire");
static RELEASE: LazyLock<Script> = script!("semaphore/release");
static SET: LazyLock<Script> = script!("receipt", "semaphore/set_if_absent");
static ADD: LazyLock<Script> = script!("receipt", "number", "semaphore/add");
static DRAIN: LazyLock<Script> = script!("receipt", "number", "semaphore/drain");
static DELETE: LazyLock<Script> = script!("receipt", "number", "semaphore/delete");

pub(super) struct Semaphores;

impl InRedis for Semaphores {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }

    fn granted(&self, claim: &Claim) -> Option<Granted> {
        Some(Granted::field(&[&keys::holders(claim.name())], claim.owner.as_str()))
    }
}

impl Questions<RedisStore> for Semaphores {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        place: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.acquire_semaphore(claim, place))
    }

    fn release<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        mode: ReleaseMode,
    ) -> Answer<'a, GivenBack> {
        Box::pin(store.release_semaphore(claim, mode))
    }

    fn renew<'a>(
        &self,
        store: &'a RedisStore,
        renewals: &'a [Renewal],
    ) -> Answer<'a, Vec<Outcome>> {
        Box::pin(store.look_at_semaphores(renewals))
    }

    fn held_by<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        owner: &'a Owner,
    ) -> Answer<'a, u32> {
        Box::pin(store.semaphore_held_by(object, owner))
    }

    fn number<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, i64> {
        Box::pin(store.number_at(&object.name))
    }

    fn change<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        Box::pin(store.change_semaphore(object, change, receipt))
    }
}

fn channel(name: &Name) -> String {
    keys::redissons("redisson_sc", name)
}

impl RedisStore {
    async fn acquire_semaphore(
        &self,
        claim: &Claim,
        place: Option<Place>,
    ) -> Result<Verdict, Failure> {
        let name = claim.name();
        let waited = match place {
            Some(Place::Waited(time)) => millis(time).to_string(),
            _ => String::new(),
        };
        let [holders, withdrawn, patient] = beside(claim);
        let keys = [name.as_str(), &holders, &withdrawn, &patient];
        let asked = self.run(&ACQUIRE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(claim.units());
            command.arg(&waited).arg(millis(PATIENT_RESTS)).arg(millis(PATIENT_TURN));
            command.arg(channel(name));
        });
        self.semaphore_verdict(&self.explained(name, asked.await).await?, claim)
    }

    /// What a question for permits was answered: their owner, or `{pttl}`.
    fn semaphore_verdict(&self, reply: &Value, claim: &Claim) -> Result<Verdict, Failure> {
        match reply {
            granted if replies::text(granted) == Some(claim.owner.as_str()) => Ok(Verdict::GRANTED),
            Value::Array(parts) => match parts[..] {
                [Value::Int(pttl)] => Ok(Verdict::Busy(self.taken(claim.name(), pttl))),
                _ => Err(replies::unreadable(reply)),
            },
            other => Err(replies::unreadable(other)),
        }
    }

    async fn release_semaphore(
        &self,
        claim: &Claim,
        mode: ReleaseMode,
    ) -> Result<GivenBack, Failure> {
        let name = claim.name();
        let mode = match mode {
            ReleaseMode::Forget => "forget",
            ReleaseMode::Leave => "leave",
            ReleaseMode::Broadcast | ReleaseMode::HandOver => "back",
        };
        let [holders, withdrawn, patient] = beside(claim);
        let keys = [name.as_str(), &holders, &withdrawn, &patient];
        let asked = self.run(&RELEASE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(channel(name));
            command.arg(millis(LATEST)).arg(mode);
        });
        let reply = self.explained(name, asked.await).await?;
        Ok(match replies::freed(&reply, name)? {
            true => GivenBack::Freed(Others::Nobody),
            false => GivenBack::NotHeld { holder: None },
        })
    }

    /// Looks whether each owner has its permits: they have no lease to renew.
    async fn look_at_semaphores(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let look = |renewal: &Renewal| {
            let holders = keys::holders(&renewal.object.name);
            cmd("HEXISTS").arg(holders).arg(renewal.owner.as_str()).clone()
        };
        let looks: Vec<_> = renewals.iter().map(look).collect();
        let Some(first) = renewals.first() else { return Ok(Vec::new()) };
        let key = first.object.name.as_str().as_bytes();
        let replies = self.topology.call_all(key, &looks).await?;
        let outcome = |reply: &Value| match reply {
            Value::ServerError(error) => Err(replies::refusal(error).naming(Some("HEXISTS"))),
            reply => replies::outcome(reply),
        };
        replies.iter().map(outcome).collect()
    }

    /// How many permits `owner` has.
    async fn semaphore_held_by(&self, object: &Object, owner: &Owner) -> Result<u32, Failure> {
        let field = [&keys::holders(&object.name), owner.as_str()];
        replies::count(&self.ask_about(&object.name, "HGET", &field).await?)
    }

    async fn change_semaphore(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        let name = &object.name;
        let channel = channel(name);
        let (receipt, holders) = (keys::receipt("semaphore", name, receipt), keys::holders(name));
        let keys = [name.as_str(), &receipt, &holders];
        let (script, keys, permits) = match change {
            Change::SetIfAbsent(permits) => (&SET, &keys[..], Some(i64::from(permits))),
            Change::Add(permits) => (&ADD, &keys[..2], Some(permits)),
            Change::Drain => (&DRAIN, &keys[..2], None),
            Change::Delete => (&DELETE, &keys[..], None),
            _ => return unsupported(object).await,
        };
        let asked = self.run(script, keys, |command| {
            if let Some(permits) = permits {
                command.arg(permits).arg(&channel);
            }
            command.arg(millis(RECEIPT_RESTS));
        });
        replies::number(&self.explained(name, asked.await).await?)
    }
}

/// The keys beside the counter: who has permits, who has withdrawn, who waits longest.
fn beside(claim: &Claim) -> [String; 3] {
    [keys::holders(claim.name()), keys::withdrawn(claim.name()), keys::patient(claim.name())]
}
