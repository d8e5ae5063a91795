//! The questions about permits that expire, as scripts.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{RedisStore, keys, millis, replies, scripts, scripts::Script, unasked};
use crate::{
    domain::{
        Change, Claim, Counts, Failure, GivenBack, Object, Others, Outcome, Owner, PermitId,
        Renewal, Verdict, permits_of,
    },
    store::RECEIPT_RESTS,
};

impl RedisStore {
    pub(super) async fn acquire_leased(&self, claim: &Claim) -> Result<Verdict, Failure> {
        let reply = self.run_on_leased(&claim.object, &scripts::PERMITS_ACQUIRE, |command| {
            command.arg(millis(claim.ttl)).arg(keys::channel(&claim.object));
            permits_of(&claim.owner, claim.share).for_each(|id| {
                command.arg(id.as_bytes());
            });
        });
        replies::leased(&reply.await?, claim)
    }

    pub(super) async fn release_leased(&self, claim: &Claim) -> Result<GivenBack, Failure> {
        let reply = self.run_on_leased(&claim.object, &scripts::PERMITS_RELEASE, |command| {
            command.arg(keys::channel(&claim.object));
            permits_of(&claim.owner, claim.share).for_each(|id| {
                command.arg(id.as_bytes());
            });
        });
        Ok(match replies::all_were_held(&reply.await?, claim.name())? {
            true => GivenBack::Freed(Others::Nobody),
            false => GivenBack::NotHeld { holder: None },
        })
    }

    pub(super) async fn renew_leased(&self, renewals: &[Renewal]) -> Result<Vec<Outcome>, Failure> {
        let held: Vec<String> =
            renewals.iter().map(|renewal| keys::leases(&renewal.object.name)).collect();
        let held: Vec<&str> = held.iter().map(String::as_str).collect();
        let reply = self.run(&scripts::PERMITS_RENEW, &held, |command| {
            for Renewal { owner, share, ttl, .. } in renewals {
                let ids: Vec<PermitId> = permits_of(owner, *share).collect();
                command.arg(ttl.map_or(0, millis)).arg(ids.len());
                ids.iter().for_each(|id| {
                    command.arg(id.as_bytes());
                });
            }
        });
        replies::outcomes(&reply.await?, renewals.len())
    }

    pub(super) async fn count_leased(&self, object: &Object) -> Result<Counts, Failure> {
        let reply = self.run_on_leased(object, &scripts::PERMITS_COUNT, |command| {
            command.arg(keys::channel(object));
        });
        replies::counts(&reply.await?)
    }

    pub(super) async fn permit_lease(
        &self,
        object: &Object,
        id: PermitId,
        lease: Option<Duration>,
    ) -> Result<Option<Duration>, Failure> {
        let reply = self.run_on_leased(object, &scripts::PERMITS_LEASE, |command| {
            command.arg(keys::channel(object)).arg(id.as_bytes()).arg(lease.map_or(0, millis));
        });
        Ok(match replies::number(&reply.await?)? {
            0 => None,
            left => Some(u64::try_from(left).map_or(Duration::MAX, Duration::from_millis)),
        })
    }

    pub(super) async fn change_leased(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        if matches!(change, Change::Drain | Change::CountDown | Change::Delete) {
            return unasked(object).await;
        }
        let name = &object.name;
        let keys = [name.as_str(), &keys::leases(name), &keys::receipt(object, receipt)];
        let answer = self.run(&scripts::PERMITS_CHANGE, &keys, |command| {
            match change {
                Change::Set(count) => command.arg("set").arg(count),
                Change::SetIfAbsent(count) => command.arg("set_if_absent").arg(count),
                Change::Add(count) => command.arg("add").arg(count),
                Change::GiveBack(id) => command.arg("give_back").arg(id.as_bytes()),
                Change::Drain | Change::CountDown | Change::Delete => command,
            };
            command.arg(keys::channel(object)).arg(millis(RECEIPT_RESTS));
        });
        replies::number(&self.explained(name, answer.await).await?)
    }

    async fn run_on_leased(
        &self,
        object: &Object,
        script: &Script,
        more: impl Fn(&mut Cmd),
    ) -> Result<Value, Failure> {
        let keys = [object.name.as_str(), &keys::leases(&object.name)];
        let answer = self.run(script, &keys, more).await;
        self.explained(&object.name, answer).await
    }
}
