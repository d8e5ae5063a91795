//! Logs in on a new connection, and checks that the server replies as Redis does.

use redis::{Cmd, Value, cmd};

use crate::{
    address::{secret::Secret, settings::Preload, target::Target},
    connect_failure::{self, ConnectFailure},
    health::About,
    pipe::wire::Wire,
    replies,
    session::{about, info::time_of_day},
    shown::shown,
};

/// Sends HELLO and returns the reply, or `None` if the connection ended first. Meanwhile another
/// task must drive the connection.
pub(crate) async fn greet(
    wire: &Wire,
    user: Option<&str>,
    password: Option<&Secret>,
) -> Option<Result<Facts, ConnectFailure>> {
    let has_secret = user.is_some() || password.is_some();
    let mut greeting = cmd("HELLO");
    greeting.arg(3);
    if has_secret {
        let password = password.map(Secret::text);
        let user = user.unwrap_or("default");
        greeting.arg("AUTH").arg(user).arg(password.as_deref().unwrap_or_default());
    }
    Some(match wire.call(&greeting).await.ok()? {
        Value::ServerError(error) => Err(ConnectFailure::of_greeting(&error, has_secret)),
        Value::Map(facts) if protocol(&facts) == Some(3) => Ok(facts),
        _ => Err(ConnectFailure::not_redis("the reply to HELLO is not that of Redis")),
    })
}

/// The fields of a reply to HELLO.
pub(crate) type Facts = Vec<(Value, Value)>;

/// The expected reply.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    /// Any reply, except one that shows that the server is not ready.
    Ready,
    /// Exactly this text.
    Text(&'a str),
    /// This text or a rejection, because the command is optional.
    Courtesy(&'a str),
    /// The reply to INFO, or a rejection.
    Info,
}

/// The credentials, and the commands after the greeting.
#[derive(Debug)]
pub(crate) struct Login<'a> {
    pub(crate) target: &'a Target,
    pub(crate) client_name: &'a str,
    pub(crate) preloads: &'a [Preload],
    /// Whether the server may be one of several. If so, the client accepts only a primary that has
    /// loaded its data.
    pub(crate) among_others: bool,
}

impl Login<'_> {
    /// Logs in on `wire`, which another task must drive meanwhile. Returns the facts about the
    /// server, or `None` if the connection ended first.
    pub(crate) async fn on(&self, wire: &Wire) -> Option<Result<About, ConnectFailure>> {
        let Target { user, password, .. } = self.target;
        let greeted = greet(wire, user.as_deref(), password.as_ref()).await?;
        let met = match greeted.and_then(|facts| self.met(&facts)) {
            Ok(met) => met,
            Err(failure) => return Some(Err(failure)),
        };
        let (commands, wanted): (Vec<_>, Vec<_>) = self.introduction().into_iter().unzip();
        let asked = time_of_day();
        let replies = wire.call_all(&commands).await.ok()?;
        let checked = replies.iter().zip(wanted).try_for_each(|(reply, it)| self.check(reply, it));
        Some(checked.map(|()| about::with_info(met, &replies, asked)))
    }

    /// Parses the facts about the server. Fails if the client does not accept this server.
    fn met(&self, facts: &Facts) -> Result<About, ConnectFailure> {
        let met = about::greeted(facts)?;
        if self.among_others {
            about::must_be_primary(&met)?;
        }
        Ok(met)
    }

    /// Returns the commands after the greeting, each with its expected reply.
    fn introduction(&self) -> Vec<(Cmd, Wanted<'_>)> {
        let words = |words: &[&str]| Cmd::new().arg(words).clone();
        let client = |rest: &[&str]| (words(&[&["CLIENT"], rest].concat()), Wanted::Courtesy("OK"));
        let mut all = vec![];
        if self.target.database != 0 {
            let database = self.target.database.to_string();
            all.push((words(&["SELECT", &database]), Wanted::Text("OK")));
        }
        all.push(client(&["SETNAME", self.client_name]));
        all.push(client(&["SETINFO", "LIB-NAME", "leasehold"]));
        all.push(client(&["SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]));
        all.extend(self.preloads.iter().map(|script| {
            (words(&["SCRIPT", "LOAD", script.text]), Wanted::Courtesy(&script.hash))
        }));
        if self.among_others {
            all.push((words(&["PING"]), Wanted::Ready));
        }
        all.push((words(&["INFO"]), Wanted::Info));
        all
    }

    fn check(&self, reply: &Value, wanted: Wanted<'_>) -> Result<(), ConnectFailure> {
        let text = match wanted {
            Wanted::Text(text) | Wanted::Courtesy(text) => text,
            Wanted::Info => "INFO",
            Wanted::Ready => "PONG",
        };
        match (reply, wanted) {
            // This rejection shows that the server requires a password.
            (Value::ServerError(error), _) if error.code() == "NOAUTH" => {
                Err(ConnectFailure::no_password())
            }
            (Value::ServerError(error), Wanted::Ready)
                if connect_failure::cannot_be_primary(error) =>
            {
                Err(ConnectFailure::of_refusal(error))
            }
            (Value::ServerError(_), Wanted::Courtesy(_) | Wanted::Info | Wanted::Ready) => Ok(()),
            (reply, Wanted::Info) if replies::text(reply).is_some() => Ok(()),
            (Value::ServerError(error), Wanted::Text(_)) => {
                Err(ConnectFailure::of_database(self.target.database, error))
            }
            (reply, _) if is_text_of(reply, text) => Ok(()),
            _ => Err(ConnectFailure::passing(format!(
                "unexpected reply during the login: {} was expected",
                shown(text)
            ))),
        }
    }
}

/// Returns the version of the protocol that the server uses after the greeting.
fn protocol(about: &[(Value, Value)]) -> Option<i64> {
    match replies::field(about, "proto")? {
        Value::Int(version) => Some(*version),
        _ => None,
    }
}

fn is_text_of(reply: &Value, text: &str) -> bool {
    match reply {
        Value::Okay => text == "OK",
        Value::SimpleString(reply) => reply == text,
        Value::BulkString(reply) => reply == text.as_bytes(),
        _ => false,
    }
}
