//! The commands by which the server reports its state.

use super::{Call, DANGEROUS, Keys, LOADING, Spec, connection::VERSION, replication};
use crate::{
    core::Core,
    reply::{Answer, Reply},
};

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("info", -1, LOADING | DANGEROUS, Keys::None, info),
    Spec::new("time", 1, LOADING, Keys::None, time),
];

fn time(core: &mut Core, _: &Call<'_>) -> Answer {
    let micros = core.clock();
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    Ok(Reply::bulks([seconds.to_string(), micros.to_string()]))
}

fn server(core: &Core) -> String {
    let (mode, run) = (core.mode(), core.run);
    format!("redis_version:{VERSION}\r\nredis_mode:{mode}\r\nrun_id:{run:040x}\r\n")
}

fn info(core: &mut Core, call: &Call<'_>) -> Answer {
    let sections = [
        ("Server", server(core)),
        ("Clients", format!("connected_clients:{}\r\n", core.connected())),
        ("Memory", "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n".into()),
        ("Replication", replication::section(core)),
    ];
    let wanted = |section: &str| {
        let asked = |at| ["all", "default", "everything", section].iter().any(|it| call.is(at, it));
        call.words.len() == 1 || (1..call.words.len()).any(asked)
    };
    let reported = sections.iter().filter(|(section, _)| wanted(section));
    let reported: Vec<_> =
        reported.map(|(section, text)| format!("# {section}\r\n{text}")).collect();
    Ok(Reply::Verbatim(reported.join("\r\n")))
}
