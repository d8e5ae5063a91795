//! The latch's questions: Redisson's counter and channel.

use super::{RedisStore, keys, millis, replies, scripts};
use crate::{
    domain::{Change, Claim, Failure, Object, Owner, Taken, Verdict},
    store::{RECEIPT_RESTS, unasked},
};

impl RedisStore {
    /// Asks whether a latch is open.
    pub(super) async fn ask_latch(&self, claim: &Claim) -> Result<Verdict, Failure> {
        Ok(match self.number_at(claim.name()).await? {
            1.. => Verdict::Busy(Taken::UNKNOWN),
            _ => Verdict::GRANTED,
        })
    }

    pub(super) async fn change_latch(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        let (script, count) = match change {
            Change::SetIfAbsent(count) => (&scripts::LATCH_SET, Some(count)),
            Change::CountDown => (&scripts::LATCH_COUNT_DOWN, None),
            Change::Delete => (&scripts::LATCH_DELETE, None),
            _ => return unasked(object).await,
        };
        let keys = [object.name.as_str(), &keys::receipt(object, receipt)];
        let asked = self.run(script, &keys, |command| {
            if let Some(count) = count {
                command.arg(count);
            }
            command.arg(keys::channel(object)).arg(millis(RECEIPT_RESTS));
        });
        replies::number(&self.explained(&object.name, asked.await).await?)
    }
}
