//! The semaphore's questions, as scripts. Redisson has the counter and the channel; who has
//! how many permits is our own.

use redis::{Value, cmd};

use super::{RedisStore, keys, millis, replies, scripts};
use crate::{
    domain::{
        Change, Claim, Failure, GivenBack, Object, Others, Outcome, Owner, Place, ReleaseMode,
        Renewal, Verdict,
    },
    store::{LATEST, PATIENT_RESTS, PATIENT_TURN, RECEIPT_RESTS, unasked},
};

impl RedisStore {
    pub(super) async fn acquire_permits(
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
        let asked = self.run(&scripts::SEMAPHORE_ACQUIRE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(claim.units());
            command.arg(&waited).arg(millis(PATIENT_RESTS)).arg(millis(PATIENT_TURN));
            command.arg(keys::channel(&claim.object));
        });
        replies::permits(&self.explained(name, asked.await).await?, claim)
    }

    pub(super) async fn release_permits(
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
        let asked = self.run(&scripts::SEMAPHORE_RELEASE, &keys, |command| {
            command.arg(claim.owner.as_str()).arg(keys::channel(&claim.object));
            command.arg(millis(LATEST)).arg(mode);
        });
        let reply = self.explained(name, asked.await).await?;
        Ok(match replies::forced(&reply, name)? {
            true => GivenBack::Freed(Others::Nobody),
            false => GivenBack::NotHeld { holder: None },
        })
    }

    /// Looks whether each owner has its permits: they have no lease to renew.
    pub(super) async fn look_at_semaphores(
        &self,
        renewals: &[Renewal],
    ) -> Result<Vec<Outcome>, Failure> {
        let look = |renewal: &Renewal| {
            let holders = keys::holders(&renewal.object.name);
            cmd("HEXISTS").arg(holders).arg(renewal.owner.as_str()).clone()
        };
        let looks: Vec<_> = renewals.iter().map(look).collect();
        let replies = self.commands.call_all(&looks).await?;
        let outcome = |reply: &Value| match reply {
            Value::ServerError(error) => Err(replies::refusal(error).naming(Some("HEXISTS"))),
            reply => replies::outcome(reply),
        };
        replies.iter().map(outcome).collect()
    }

    /// How many permits `owner` has.
    pub(super) async fn permits_of(&self, object: &Object, owner: &Owner) -> Result<u32, Failure> {
        let field = [&keys::holders(&object.name), owner.as_str()];
        replies::count(&self.ask_about(&object.name, "HGET", &field).await?)
    }

    pub(super) async fn change_semaphore(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        let (name, channel) = (&object.name, keys::channel(object));
        let (receipt, holders) = (keys::receipt(object, receipt), keys::holders(name));
        let keys = [name.as_str(), &receipt, &holders];
        let (script, keys, permits) = match change {
            Change::SetIfAbsent(permits) => {
                (&scripts::SEMAPHORE_SET, &keys[..], Some(i64::from(permits)))
            }
            Change::Add(permits) => (&scripts::SEMAPHORE_ADD, &keys[..2], Some(permits)),
            Change::Drain => (&scripts::SEMAPHORE_DRAIN, &keys[..2], None),
            Change::Delete => (&scripts::SEMAPHORE_DELETE, &keys[..], None),
            _ => return unasked(object).await,
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
