//! Reads what the servers report about themselves, for operators. All commands are plain commands
//! that change nothing.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use redis::{Cmd, Value, cmd};

use super::{RedisStore, replies};
use crate::domain::{Failure, ServerReport};

/// The timeout of each command.
const ANSWER: Duration = Duration::from_secs(1);

/// If a server has more clients than this, the list of clients is not read. The list might be
/// longer than the longest reply that a connection accepts.
const MOST_CLIENTS: u64 = 500;

const SETTINGS: [&str; 5] = ["timeout", "tcp-keepalive", "save", "appendonly", "appendfsync"];

pub(crate) async fn reports(store: &RedisStore) -> Vec<ServerReport> {
    let mut all = BTreeMap::<String, ServerReport>::new();
    let info = ["INFO", "CLUSTER INFO", "ACL WHOAMI"].map(str::to_owned);
    let settings = SETTINGS.map(|name| format!("CONFIG GET {name}"));
    read(store, &mut all, info.into_iter().chain(settings)).await;
    if all.values().all(has_few_clients) {
        read(store, &mut all, ["CLIENT LIST".to_owned()]).await;
    }
    all.into_values().collect()
}

/// Asks each server whether `user` may call `command`. Returns the reply or the failure of each
/// server.
pub(crate) async fn dry_run(
    store: &RedisStore,
    user: &str,
    command: &[&str],
) -> BTreeMap<String, String> {
    let mut dry_run = cmd("ACL");
    dry_run.arg("DRYRUN").arg(user).arg(command);
    let replies = store.topology.call_each(&dry_run, ANSWER).await;
    let text = |reply: Result<Value, Failure>| text(reply).unwrap_or_else(|failure| failure);
    replies.into_iter().map(|(server, reply)| (server, text(reply))).collect()
}

/// Sends `commands` to each server, and adds the replies to the report of the server.
async fn read(
    store: &RedisStore,
    all: &mut BTreeMap<String, ServerReport>,
    commands: impl IntoIterator<Item = String>,
) {
    let ask =
        async |words: String| (store.topology.call_each(&command(&words), ANSWER).await, words);
    for (replies, words) in join_all(commands.into_iter().map(ask)).await {
        for (server, reply) in replies {
            let report = all.entry(server.clone()).or_default();
            report.server = server;
            add(report, &words, reply);
        }
    }
}

fn command(words: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words.split(' ').collect::<Vec<_>>());
    command
}

fn add(report: &mut ServerReport, words: &str, reply: Result<Value, Failure>) {
    if let (Some(name), Ok(Value::Map(pairs))) = (words.strip_prefix("CONFIG GET "), &reply) {
        let value = pairs.first().map(|(_, value)| replies::into_text(value));
        report.settings.extend(value.map(|value| (name.to_owned(), value)));
        return;
    }
    match text(reply) {
        Err(failure) => drop(report.failures.insert(words.to_owned(), failure)),
        Ok(text) if words == "ACL WHOAMI" => report.user = Some(text),
        Ok(text) if words == "CLIENT LIST" => {
            report.clients = text.lines().map(|line| fields(line.split(' '), '=')).collect();
        }
        Ok(text) => report.info.append(&mut fields(text.lines(), ':')),
    }
}

/// Returns the reply as a text, or the reason why there is no reply.
fn text(reply: Result<Value, Failure>) -> Result<String, String> {
    match reply {
        Ok(Value::ServerError(error)) => Err(replies::refusal(&error).to_string()),
        Ok(Value::Okay) => Ok("OK".into()),
        Ok(reply) => Ok(replies::into_text(&reply)),
        Err(failure) => Err(failure.to_string()),
    }
}

fn fields<'a>(parts: impl Iterator<Item = &'a str>, separator: char) -> BTreeMap<String, String> {
    let parts = parts.filter_map(|part| part.trim_end().split_once(separator));
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn has_few_clients(report: &ServerReport) -> bool {
    let count = report.info.get("connected_clients").and_then(|count| count.parse().ok());
    count.is_none_or(|count: u64| count <= MOST_CLIENTS)
}
