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

static DATA_AGE: LazyLock<Script> = script!("data_age");

/// Each new connection loads these scripts.
pub(super) const SCRIPTS: Scripts = &[&DATA_AGE];

/// For how long a server has had its data, and the stored time: see `data_age.lua`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataAge {
    pub(crate) age: Duration,
    since: i64,
}

/// Returns for how long the server has had its data. A new server stores the present time. If the
/// server has stored the time `trusted`, it has always had its data from now on.
pub(crate) async fn data_age(store: &RedisStore, trusted: Option<DataAge>) -> Reply<DataAge> {
    let trusted = trusted.map_or(-1, |trusted| trusted.since);
    let request = Request::script(&DATA_AGE, &[keys::QUORUM_SINCE], trusted);
    store.ask(request.read(read)).await
}

fn read(reply: &Value) -> Result<DataAge, Failure> {
    let Some([age, since]) = reply.as_sequence() else { return Err(replies::unreadable(reply)) };
    let age = Duration::from_millis(replies::number(age)?.unsigned_abs());
    Ok(DataAge { age, since: replies::number(since)? })
}
