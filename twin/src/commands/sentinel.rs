//! The commands of a sentinel. A sentinel supports few other commands.

use super::{ADMIN, Call, DANGEROUS, Keys, Spec};
use crate::{
    core::{
        Core,
        watch::{Sentinel, Watched},
    },
    reply::{Answer, Reply},
};

const TRAITS: u16 = ADMIN | DANGEROUS;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("sentinel|get-master-addr-by-name", 3, TRAITS, Keys::None, address),
    Spec::new("sentinel|master", 3, TRAITS, Keys::None, master),
    Spec::new("sentinel|sentinels", 3, TRAITS, Keys::None, sentinels),
    Spec::new("sentinel|myid", 2, TRAITS, Keys::None, myid),
];

/// The commands of ordinary servers that a sentinel also supports.
pub(super) const COMMON: [&str; 14] = [
    "acl|setuser",
    "acl|whoami",
    "auth",
    "client|getname",
    "client|id",
    "client|setinfo",
    "client|setname",
    "hello",
    "info",
    "ping",
    "publish",
    "role",
    "subscribe",
    "unsubscribe",
];

/// Returns the primary that a command names.
fn named<'a>(core: &'a Core, call: &Call<'_>) -> Option<&'a Watched> {
    core.watched.as_deref().filter(|it| it.name.as_bytes() == call.word(2))
}

fn address(core: &mut Core, call: &Call<'_>) -> Answer {
    let Some(watched) = named(core, call) else { return Ok(Reply::NilList) };
    let at = &watched.primary;
    Ok(Reply::bulks([at.host.clone(), at.port.to_string()]))
}

fn unknown() -> Reply {
    Reply::error("ERR No such master with that name")
}

fn master(core: &mut Core, call: &Call<'_>) -> Answer {
    let watched = named(core, call).ok_or_else(unknown)?;
    let others = watched.sentinels.iter().filter(|it| it.address != core.address).count();
    let at = &watched.primary;
    Ok(facts(&[
        ("name", watched.name.clone()),
        ("ip", at.host.clone()),
        ("port", at.port.to_string()),
        ("flags", "master".into()),
        ("config-epoch", watched.epoch.to_string()),
        ("num-slaves", watched.replicas.to_string()),
        ("num-other-sentinels", others.to_string()),
        ("quorum", watched.quorum.to_string()),
    ]))
}

fn myid(core: &mut Core, _: &Call<'_>) -> Answer {
    let watched = core.watched.as_deref();
    let this = watched.and_then(|it| it.sentinels.iter().find(|it| it.address == core.address));
    this.map(|it| Reply::bulk(&it.id)).ok_or_else(unknown)
}

fn sentinels(core: &mut Core, call: &Call<'_>) -> Answer {
    let watched = named(core, call).ok_or_else(unknown)?;
    let others = watched.sentinels.iter().filter(|it| it.address != core.address);
    Ok(Reply::List(others.map(sentinel).collect()))
}

fn sentinel(other: &Sentinel) -> Reply {
    let (at, id) = (&other.address, &other.id);
    let flags = if other.is_down { "s_down,sentinel" } else { "sentinel" };
    facts(&[
        ("name", id.clone()),
        ("ip", at.host.clone()),
        ("port", at.port.to_string()),
        ("runid", id.clone()),
        ("flags", flags.into()),
    ])
}

fn facts(facts: &[(&str, String)]) -> Reply {
    Reply::Map(facts.iter().map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect())
}
