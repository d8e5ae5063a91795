//! The commands about replication, and the replication section of `INFO`.

use std::time::Duration;

use super::{ADMIN, Call, DANGEROUS, Keys, LOADING, NO_SCRIPT, Spec};
use crate::{
    core::{Core, clients::Wait},
    number,
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("role", 1, NO_SCRIPT | LOADING | ADMIN | DANGEROUS, Keys::None, role),
    Spec::new("wait", 3, NO_SCRIPT, Keys::None, wait),
];

fn role(core: &mut Core, _: &Call<'_>) -> Answer {
    let offset = i64::try_from(core.offset()).unwrap_or(i64::MAX);
    if let Some((address, is_up)) = core.leader() {
        return Ok(Reply::List(vec![
            Reply::bulk("slave"),
            Reply::bulk(&address.host),
            Reply::Int(address.port.into()),
            Reply::bulk(if is_up { "connected" } else { "connect" }),
            Reply::Int(if is_up { offset } else { -1 }),
        ]));
    }
    let online = core.followers().into_iter().filter(|it| it.is_online);
    let replicas = online.map(|it| {
        let (host, port) = (it.address.host, it.address.port.to_string());
        Reply::bulks([host, port, it.offset.to_string()])
    });
    let replicas = Reply::List(replicas.collect());
    Ok(Reply::List(vec![Reply::bulk("master"), Reply::Int(offset), replicas]))
}

/// Returns the replication section of `INFO`.
pub(super) fn section(core: &Core) -> String {
    let offset = core.offset();
    let mut lines = Vec::new();
    match core.leader() {
        None => lines.push("role:master".into()),
        Some((address, is_up)) => lines.extend([
            "role:slave".into(),
            format!("master_host:{}", address.host),
            format!("master_port:{}", address.port),
            format!("master_link_status:{}", if is_up { "up" } else { "down" }),
            format!("slave_read_repl_offset:{offset}"),
            format!("slave_repl_offset:{offset}"),
            "slave_priority:100".into(),
            "slave_read_only:1".into(),
        ]),
    }
    let followers = core.followers();
    lines.push(format!("connected_slaves:{}", followers.len()));
    for (at, it) in followers.iter().enumerate() {
        let (host, port) = (&it.address.host, it.address.port);
        let state = if it.is_online { "online" } else { "wait_bgsave" };
        let (offset, lag) = (it.offset, it.lag.as_secs());
        lines.push(format!(
            "slave{at}:ip={host},port={port},state={state},offset={offset},lag={lag}"
        ));
    }
    lines.extend([
        "master_failover_state:no-failover".into(),
        format!("master_repl_offset:{offset}"),
    ]);
    lines.join("\r\n") + "\r\n"
}

fn wait(core: &mut Core, call: &Call<'_>) -> Answer {
    if core.is_replica() {
        return Err(Reply::error(NO_MASTER));
    }
    let least = call.integer(1)?;
    let millis = number::integer(call.word(2)).ok_or_else(|| Reply::error(ODD_TIME))?;
    let millis = u64::try_from(millis).map_err(|_| Reply::error("ERR timeout is negative"))?;
    let Some(offset) = core.client(call.client).map(|client| client.written) else {
        return Ok(Reply::Said);
    };
    let count = core.acknowledged(offset);
    if count >= least {
        return Ok(Reply::Int(count));
    }
    let until = match millis {
        0 => None,
        millis => core.instant().checked_add(Duration::from_millis(millis)),
    };
    if let Some(client) = core.client(call.client) {
        client.blocked = Some(Wait { least, offset, until });
    }
    core.ask_replicas();
    Ok(Reply::Said)
}

const ODD_TIME: &str = "ERR timeout is not an integer or out of range";
const NO_MASTER: &str = "ERR WAIT cannot be used with replica instances. Please also note that \
    since Redis 4.0 if a replica is configured to be writable (which is not the default) writes \
    to replicas are just local and are not propagated.";
