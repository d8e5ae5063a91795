//! The latch's questions: Redisson's counter and channel.

use std::sync::LazyLock;

use super::{
    InRedis, RedisStore,
    channels::Channels,
    keys, replies,
    scripts::{Script, millis, script},
    slots::slot_of,
};
use crate::{
    domain::{Change, Claim, Failure, Name, Object, Owner, Place, Taken, Verdict},
    store::{
        Answer, RECEIPT_RESTS,
        questions::{Questions, unsupported},
    },
};

pub(super) static SCRIPTS: &[&LazyLock<Script>] = &[&SET, &COUNT_DOWN, &DELETE];

static SET: LazyLock<Script> = script!("receipt", "latch/set");
static COUNT_DOWN: LazyLock<Script> = script!("receipt", "number", "latch/count_down");
static DELETE: LazyLock<Script> = script!("receipt", "number", "latch/delete");

pub(super) struct Latches;

impl InRedis for Latches {
    fn channel(&self, name: &Name) -> String {
        channel(name)
    }
}

impl Questions<RedisStore> for Latches {
    fn acquire<'a>(
        &self,
        store: &'a RedisStore,
        claim: &'a Claim,
        _: Option<Place>,
    ) -> Answer<'a, Verdict> {
        Box::pin(store.ask_latch(claim))
    }

    fn number<'a>(&self, store: &'a RedisStore, object: &'a Object) -> Answer<'a, i64> {
        Box::pin(async move {
            store.is_whole(&object.name).await?;
            store.number_at(&object.name).await
        })
    }

    fn change<'a>(
        &self,
        store: &'a RedisStore,
        object: &'a Object,
        change: Change,
        receipt: &'a Owner,
    ) -> Answer<'a, i64> {
        Box::pin(store.change_latch(object, change, receipt))
    }
}

/// In braces whatever the name is.
fn channel(name: &Name) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

impl RedisStore {
    /// Refuses a latch of which the messages cannot be sent from where it lies.
    async fn is_whole(&self, name: &Name) -> Result<(), Failure> {
        let slot = |key: &str| slot_of(key.as_bytes());
        let apart = || slot(name.as_str()) != slot(&channel(name));
        match self.topology.channels().await? == Channels::Sharded && apart() {
            true => Err(Failure::Unsupported(
                "in a cluster the name of a latch may have no braces: Redisson puts others around \
                 it for the channel, which then lies in another slot",
            )),
            false => Ok(()),
        }
    }

    /// Asks whether a latch is open.
    async fn ask_latch(&self, claim: &Claim) -> Result<Verdict, Failure> {
        self.is_whole(claim.name()).await?;
        Ok(match self.number_at(claim.name()).await? {
            1.. => Verdict::Busy(Taken::UNKNOWN),
            _ => Verdict::GRANTED,
        })
    }

    async fn change_latch(
        &self,
        object: &Object,
        change: Change,
        receipt: &Owner,
    ) -> Result<i64, Failure> {
        self.is_whole(&object.name).await?;
        let (script, count) = match change {
            Change::SetIfAbsent(count) => (&SET, Some(count)),
            Change::CountDown => (&COUNT_DOWN, None),
            Change::Delete => (&DELETE, None),
            _ => return unsupported(object).await,
        };
        let keys = [object.name.as_str(), &keys::receipt("latch", &object.name, receipt)];
        let asked = self.run(script, &keys, |command| {
            if let Some(count) = count {
                command.arg(count);
            }
            command.arg(channel(&object.name)).arg(millis(RECEIPT_RESTS));
        });
        replies::number(&self.explained(&object.name, asked.await).await?)
    }
}
