//! The commands about a connection: login, user, protocol, name and database.

use super::{
    ADMIN, BUSY, CONNECTION, Call, DANGEROUS, DISK, HEARING, Keys, LOADING, NO_AUTH, NO_SCRIPT,
    SYNTAX, Spec,
};
use crate::{
    core::Core,
    number,
    reply::{Answer, Protocol, Reply},
};

const LOGIN: u16 = NO_SCRIPT | LOADING | NO_AUTH | BUSY | CONNECTION;
const CLIENT: u16 = NO_SCRIPT | LOADING | CONNECTION;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("acl|setuser", -3, ADMIN | DANGEROUS | NO_SCRIPT | LOADING, Keys::None, setuser),
    Spec::new("acl|whoami", 2, NO_SCRIPT | LOADING, Keys::None, whoami),
    Spec::new("auth", -2, LOGIN, Keys::None, auth),
    Spec::new("client|getname", 2, CLIENT, Keys::None, getname),
    Spec::new("client|id", 2, CLIENT, Keys::None, id),
    Spec::new("client|setinfo", 4, CLIENT, Keys::None, |_, _| Ok(Reply::OK)),
    Spec::new("client|setname", 3, CLIENT, Keys::None, setname),
    Spec::new("echo", 2, LOADING | CONNECTION, Keys::None, echo),
    Spec::new("hello", -1, LOGIN, Keys::None, hello),
    Spec::new("ping", -1, CONNECTION | HEARING | DISK, Keys::None, ping),
    Spec::new("select", 2, LOADING | CONNECTION, Keys::None, select),
];

fn ping(core: &mut Core, call: &Call<'_>) -> Answer {
    if call.words.len() > 2 {
        return call.arity();
    }
    let client = core.client(call.client);
    let old = client.is_some_and(|client| client.protocol == Protocol::Resp2);
    if old && core.listens(call.client) {
        return Ok(Reply::List(vec![Reply::bulk("pong"), Reply::bulk(call.word(1))]));
    }
    Ok(match call.words {
        [_, text] => Reply::bulk(text),
        _ => Reply::Status("PONG".into()),
    })
}

fn echo(_: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::bulk(call.word(1)))
}

fn select(core: &mut Core, call: &Call<'_>) -> Answer {
    let wanted = i32::try_from(call.integer(1)?).map_err(|_| Reply::error(NO_INT))?;
    let wanted = usize::try_from(wanted).ok();
    let wanted = wanted.filter(|wanted| *wanted < core.databases());
    call.db.set(wanted.ok_or_else(|| Reply::error("ERR DB index is out of range"))?);
    Ok(Reply::OK)
}

const NO_INT: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";

fn id(_: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::Int(i64::try_from(call.client).unwrap_or(i64::MAX)))
}

fn getname(core: &mut Core, call: &Call<'_>) -> Answer {
    let name = core.client(call.client).map(|client| client.name.clone());
    Ok(Reply::or_nil(name.filter(|name| !name.is_empty())))
}

fn setname(core: &mut Core, call: &Call<'_>) -> Answer {
    named(core, call, call.word(2))
}

fn named(core: &mut Core, call: &Call<'_>, name: &[u8]) -> Answer {
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let words = "ERR Client names cannot contain spaces, newlines or special characters.";
        return Err(Reply::error(words));
    }
    if let Some(client) = core.client(call.client) {
        client.name = String::from_utf8_lossy(name).into_owned();
    }
    Ok(Reply::OK)
}

fn auth(core: &mut Core, call: &Call<'_>) -> Answer {
    match call.words.len() {
        2 if core.user("default").has_no_password() => Err(Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        )),
        2 => core.log_in(call.client, "default", &call.text(1)),
        3 => core.log_in(call.client, &call.text(1), &call.text(2)),
        _ => Err(Reply::error(SYNTAX)),
    }
}

fn whoami(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::or_nil(core.client(call.client).map(|client| client.user.clone())))
}

fn setuser(core: &mut Core, call: &Call<'_>) -> Answer {
    let rules: Vec<String> = (3..call.words.len()).map(|at| call.text(at)).collect();
    core.set_user(&call.text(2), rules.iter().map(String::as_str)).map(|()| Reply::OK)
}

fn hello(core: &mut Core, call: &Call<'_>) -> Answer {
    let protocol = asked_protocol(call)?;
    let (mut login, mut name) = (None, None);
    let mut at = 2;
    while at < call.words.len() {
        let left = call.words.len() - at - 1;
        if call.is(at, "AUTH") && left >= 2 {
            login = Some((call.text(at + 1), call.text(at + 2)));
            at += 2;
        } else if call.is(at, "SETNAME") && left >= 1 {
            name = Some(call.word(at + 1));
            at += 1;
        } else {
            let option = call.text(at);
            return Err(Reply::error(format!("ERR Syntax error in HELLO option '{option}'")));
        }
        at += 1;
    }
    if let Some((user, password)) = login {
        core.log_in(call.client, &user, &password)?;
    }
    if !core.is_logged_in(call.client) {
        return Err(Reply::error(UNKNOWN));
    }
    if let Some(name) = name {
        named(core, call, name)?;
    }
    if let (Some(protocol), Some(client)) = (protocol, core.client(call.client)) {
        client.protocol = protocol;
    }
    Ok(greeting(core, call))
}

fn asked_protocol(call: &Call<'_>) -> Result<Option<Protocol>, Reply> {
    let Some(version) = call.words.get(1) else { return Ok(None) };
    let odd = Reply::Error("ERR Protocol version is not an integer or out of range".into());
    match number::integer(version).ok_or(odd)? {
        2 => Ok(Some(Protocol::Resp2)),
        3 => Ok(Some(Protocol::Resp3)),
        _ => Err(Reply::error("NOPROTO unsupported protocol version")),
    }
}

fn greeting(core: &mut Core, call: &Call<'_>) -> Reply {
    let new = core.client(call.client).is_some_and(|it| it.protocol == Protocol::Resp3);
    let reported = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let role = if core.is_replica() { "replica" } else { "master" };
    let mode = core.mode();
    let id = i64::try_from(call.client).unwrap_or(i64::MAX);
    Reply::Map(vec![
        reported("server", "redis"),
        reported("version", VERSION),
        (Reply::bulk("proto"), Reply::Int(if new { 3 } else { 2 })),
        (Reply::bulk("id"), Reply::Int(id)),
        reported("mode", mode),
        reported("role", role),
        (Reply::bulk("modules"), Reply::List(vec![])),
    ])
}

/// The version of Redis that this server imitates.
pub(super) const VERSION: &str = "7.0.15";

const UNKNOWN: &str = "NOAUTH HELLO must be called with the client already authenticated, \
    otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
    and select the RESP protocol version at the same time";
