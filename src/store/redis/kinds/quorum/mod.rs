//! For how long a member of a quorum lock has had its data.

use std::{sync::LazyLock, time::Duration};

use super::Reply;
use crate::store::redis::{
    RedisStore,
    ask::Request,
    keys, replies,
    scripts::{Script, Scripts, script},
};

static KNOWN: LazyLock<Script> = script!("known");

/// Each new connection loads these scripts.
pub(super) const SCRIPTS: Scripts = &[&KNOWN];

/// Returns for how long the server has had its data. Returns `None` if no client has written the
/// time to this data. `how` is `look`, or it changes the time: see the script.
pub(crate) async fn known_for(store: &RedisStore, how: &str) -> Reply<Option<Duration>> {
    let request = Request::script(&KNOWN, &[keys::QUORUM_SINCE], how);
    let known = store.ask(request.read(replies::number)).await?;
    Ok(u64::try_from(known).ok().map(Duration::from_millis))
}
