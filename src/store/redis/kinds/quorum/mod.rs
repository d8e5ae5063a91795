//! For how long a member of a quorum lock has had its data.

use std::{sync::LazyLock, time::Duration};

use super::Reply;
use crate::store::redis::{
    RedisStore,
    ask::Request,
    keys, replies,
    scripts::{Script, Scripts, script},
};

static DATA_AGE: LazyLock<Script> = script!("data_age");

/// Each new connection loads these scripts.
pub(super) const SCRIPTS: Scripts = &[&DATA_AGE];

/// What a request does with the stored time since which the server has had its data: see
/// `data_age.lua`.
#[derive(Clone, Copy)]
pub(crate) enum DataAge {
    Read,
    Note,
    Trust,
}

/// Returns for how long the server has had its data. Returns `None` if no time is stored, or if the
/// stored time is in the future.
pub(crate) async fn data_age(store: &RedisStore, request: DataAge) -> Reply<Option<Duration>> {
    let how = ["read", "note", "trust"][request as usize];
    let request = Request::script(&DATA_AGE, &[keys::QUORUM_SINCE], how);
    let age = store.ask(request.read(replies::number)).await?;
    Ok(u64::try_from(age).ok().map(Duration::from_millis))
}
