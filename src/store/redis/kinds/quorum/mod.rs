//! What a server of a quorum knows of a name, apart from its lock: for how long it has known it.

use std::{sync::LazyLock, time::Duration};

use redis::Value;

use super::Reply;
use crate::{
    domain::{Failure, Name},
    store::redis::{
        RedisStore,
        ask::Request,
        keys, replies,
        scripts::{Script, Scripts, millis, script},
    },
};

static KNOWN: LazyLock<Script> = script!("known");

/// They are loaded when a connection is made.
pub(super) const SCRIPTS: Scripts = &[&KNOWN];

/// How long a server remembers an unused name, unless the lease is longer.
const RESTS: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns for how long the server has known `name`, whose leases last `ttl`. `None` if it knows
/// it only from now on.
pub(crate) async fn known_for(
    store: &RedisStore,
    name: &Name,
    ttl: Duration,
) -> Reply<Option<Duration>> {
    ask(store, name, ttl, false).await
}

/// Notes that the server always knew `name`.
pub(crate) async fn trust(store: &RedisStore, name: &Name, ttl: Duration) -> Reply<()> {
    ask(store, name, ttl, true).await.map(drop)
}

async fn ask(
    store: &RedisStore,
    name: &Name,
    ttl: Duration,
    trusted: bool,
) -> Reply<Option<Duration>> {
    let rest = RESTS.max(ttl.saturating_mul(2));
    let arguments = (millis(rest), u8::from(trusted));
    let request = Request::script(&KNOWN, &[keys::known_since(name)], arguments);
    store.ask(request.read(duration)).await
}

fn duration(reply: &Value) -> Result<Option<Duration>, Failure> {
    Ok(u64::try_from(replies::number(reply)?).ok().map(Duration::from_millis))
}
