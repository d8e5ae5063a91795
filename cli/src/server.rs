//! Finds the server, and connects to it.

use std::{
    convert::Infallible,
    env::{self, VarError},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold::{Client, ClientBuilder, Error};
use tokio::time::sleep;

use crate::{
    args::Server,
    exit::{Exit, USAGE, say},
    signals::{self, Signals},
};

/// How often a waiting process checks whether Redis replies.
const LOOK: Duration = Duration::from_secs(5);

pub(crate) async fn connect(server: &Server) -> Result<Client, Exit> {
    connect_with(server, Client::builder()).await
}

async fn connect_with(server: &Server, settings: ClientBuilder) -> Result<Client, Exit> {
    let Url { text, source } = url(server)?;
    settings.connect(&text).await.map_err(|error| match error {
        Error::Url(reason) => Exit::new(USAGE, format!("read `{source}`: invalid URL: {reason}")),
        error => error.into(),
    })
}

/// Connects with these settings, or returns an error if a signal arrives first.
pub(crate) async fn connect_or_end(
    server: &Server,
    settings: ClientBuilder,
    signals: &mut Signals,
) -> Result<Client, Exit> {
    tokio::select! {
        client = connect_with(server, settings) => client,
        signal = signals.fatal() => {
            Err(signals::ended_by(signal, "connect to server", "nothing was started"))
        }
    }
}

/// Reports each loss and each restoration of the connection to Redis. A process that waits without
/// a timeout needs these reports.
pub(crate) async fn report_outages(client: &Client) -> Infallible {
    let mut was_up = true;
    loop {
        sleep(LOOK).await;
        let health = client.health().await;
        if health.commands_up != was_up {
            was_up = health.commands_up;
            let a_node = || "a node of the cluster does not reply".into();
            say(&match was_up {
                true => "reach server: the server replies again".into(),
                false => {
                    let cause = health.unavailable_reason.unwrap_or_else(a_node);
                    format!("reach server: {cause}; still waiting")
                }
            });
        }
    }
}

/// A URL, and where it was found.
struct Url {
    text: String,
    source: String,
}

impl Url {
    fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?.trim().to_owned();
        Ok(Self { text, source: path.display().to_string() })
    }
}

/// Finds the URL: on the command line, in the environment, or in a file of the user or the machine.
fn url(server: &Server) -> Result<Url, Exit> {
    if let Some(url) = &server.url {
        return match has_password(url) {
            true => Err(Exit::new(
                USAGE,
                "read `--url`: the URL has a password, which every user of this machine can see \
                 in the list of processes; write the URL to a file that only you can read, and \
                 pass its path with --url-file, or set the variable REDIS_URL",
            )),
            false => Ok(Url { text: url.clone(), source: "--url".into() }),
        };
    }
    if let Some(path) = &server.url_file {
        return Url::read(path).map_err(|error| unreadable(path, &error));
    }
    match env::var("REDIS_URL") {
        Ok(text) => return Ok(Url { text, source: "$REDIS_URL".into() }),
        Err(VarError::NotUnicode(_)) => {
            return Err(Exit::new(
                USAGE,
                "read `$REDIS_URL`: the URL is not UTF-8; encode its password",
            ));
        }
        Err(VarError::NotPresent) => {}
    }
    for path in files() {
        match Url::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(|error| unreadable(&path, &error)),
        }
    }
    Err(Exit::new(USAGE, "find server: no URL is given; set REDIS_URL, or use --url or --url-file"))
}

/// Returns the files that are read if neither an option nor `REDIS_URL` has the URL. An empty
/// variable would name a file in the current folder, so an empty variable counts as not set.
fn files() -> impl Iterator<Item = PathBuf> {
    let folder = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let user = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let folders = user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join("leasehold/url"))
}

fn unreadable(path: &Path, error: &io::Error) -> Exit {
    let path = path.display();
    Exit::new(USAGE, format!("read `{path}`: {error}; check its path, its owner and its mode"))
}

/// Returns whether `url` may contain a password: before an `@`, or in an option such as
/// `sentinel_password`.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let before_host = rest.rsplit_once('@').map_or("", |(user, _)| user);
    let mut options = rest.split(['?', '&']).skip(1);
    let is_secret = |option: &str| {
        let name = option.split('=').next().unwrap_or_default();
        name.to_ascii_lowercase().contains("pass")
    };
    before_host.contains(':') || options.any(is_secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_found_in_every_kind_of_url() {
        for url in [
            "redis://:secret@host",
            "redis://user:secret@host:6379/0",
            "redis-cluster://user:secret@one,two",
            "unix:///run/redis.sock?db=1&pass=secret",
            "redis://host/0?sentinel_password=secret",
            "redis://host/0?db=1&SentinelPass=secret",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in ["redis://host:6379/0", "redis://user@host", "unix:///run/redis.sock?db=pass"] {
            assert!(!has_password(url), "{url}");
        }
    }
}
