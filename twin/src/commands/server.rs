//! What the server tells of itself.

use std::time::Duration;

use super::{ADMIN, Call, DANGEROUS, Keys, LOADING, NO_SCRIPT, Spec, connection::VERSION};
use crate::{
    core::Core,
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("info", -1, LOADING | DANGEROUS, Keys::None, info),
    Spec::new("role", 1, NO_SCRIPT | LOADING | ADMIN | DANGEROUS, Keys::None, role),
    Spec::new("time", 1, LOADING, Keys::None, time),
    Spec::new("wait", 3, NO_SCRIPT, Keys::None, wait),
];

fn wait(core: &mut Core, call: &Call<'_>) -> Answer {
    if core.is_replica() {
        return Err(Reply::error(WAIT_AT_REPLICA));
    }
    let replicas = usize::try_from(call.integer(1)?).unwrap_or_default();
    let millis = super::number::integer(call.word(2)).ok_or_else(|| Reply::error(NO_TIMEOUT))?;
    let millis = u64::try_from(millis).map_err(|_| Reply::error("ERR timeout is negative"))?;
    let patience = (millis > 0).then(|| Duration::from_millis(millis));
    core.wait_for_replicas(call.client, replicas, patience)
}

const NO_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
const WAIT_AT_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note \
    that since Redis 4.0 if a replica is configured to be writable (which is not the default) \
    writes to replicas are just local and are not propagated.";

fn time(core: &mut Core, _: &Call<'_>) -> Answer {
    let micros = core.clock();
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    Ok(Reply::bulks([seconds.to_string(), micros.to_string()]))
}

fn role(core: &mut Core, _: &Call<'_>) -> Answer {
    Ok(Reply::List(match core.is_replica() {
        false => vec![Reply::bulk("master"), Reply::Int(0), Reply::List(vec![])],
        true => vec![
            Reply::bulk("slave"),
            Reply::bulk("127.0.0.1"),
            Reply::Int(6379),
            Reply::bulk("connected"),
            Reply::Int(0),
        ],
    }))
}

fn info(core: &mut Core, call: &Call<'_>) -> Answer {
    let role = if core.is_replica() { "slave" } else { "master" };
    let sections = [
        ("Server", format!("redis_version:{VERSION}\r\nredis_mode:standalone\r\n")),
        ("Clients", format!("connected_clients:{}\r\n", core.connected())),
        ("Memory", "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n".into()),
        ("Replication", format!("role:{role}\r\n")),
    ];
    let wanted = |section: &str| {
        let asked = |at| ["all", "default", "everything", section].iter().any(|it| call.is(at, it));
        call.words.len() == 1 || (1..call.words.len()).any(asked)
    };
    let told = sections.iter().filter(|(section, _)| wanted(section));
    let told: Vec<_> = told.map(|(section, text)| format!("# {section}\r\n{text}")).collect();
    Ok(Reply::Verbatim(told.join("\r\n")))
}
