//! For how long a member of a quorum lock has had its data.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::Reply;
use crate::{
    domain::Failure,
    store::redis::{
        RedisStore,
        ask::Request,
        keys, replies,
        scripts::{Script, Scripts, script},
    },
};

static KNOWN: LazyLock<Script> = script!("known");

/// Each new connection loads these scripts.
pub(super) const SCRIPTS: Scripts = &[&KNOWN];

/// Returns for how long the server has had its data. Returns `None` if no client has called
/// [`note`] or [`trust`] for this data.
pub(crate) async fn known_for(store: &RedisStore) -> Reply<Option<Duration>> {
    ask(store, "look").await
}

/// Records that the server has had its data since now, unless a time is already recorded.
pub(crate) async fn note(store: &RedisStore) -> Reply<()> {
    ask(store, "note").await.map(drop)
}

/// Records that the server always had its data.
pub(crate) async fn trust(store: &RedisStore) -> Reply<()> {
    ask(store, "trust").await.map(drop)
}

async fn ask(store: &RedisStore, how: &str) -> Reply<Option<Duration>> {
    let request = Request::script(&KNOWN, &[keys::QUORUM_SINCE], how);
    store.ask(request.read(duration)).await
}

fn duration(reply: &Value) -> Result<Option<Duration>, Failure> {
    Ok(u64::try_from(replies::number(reply)?).ok().map(Duration::from_millis))
}
