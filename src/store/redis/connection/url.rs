//! Reads the URL of a server, and says which part of it is wrong.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::{ParseError, Url};

use super::{
    secret::Secret,
    settings::Settings,
    target::{Address, Target},
};
use crate::error::Error;

const DEFAULT_PORT: u16 = 6379;

/// Reads `url`; what `settings` name themselves goes first.
pub(crate) fn target(url: &str, settings: &Settings) -> Result<Target, Error> {
    if url.contains('#') {
        return Err(wrong("it has a `#`: write %23 if that is part of a password"));
    }
    let parts = Url::parse(url).map_err(|error| wrong(explain(error)))?;
    let mut target = match parts.scheme() {
        "redis" | "valkey" => tcp(&parts, false),
        "rediss" | "valkeys" if cfg!(feature = "tls") => tcp(&parts, true),
        "rediss" | "valkeys" => {
            Err(wrong("this build has no TLS: build leasehold with its feature `tls`"))
        }
        "unix" | "redis+unix" | "valkey+unix" => unix(&parts),
        other => Err(wrong(format!("unknown scheme `{other}`: use redis, rediss or unix"))),
    }?;
    target.user = settings.user.clone().or(target.user);
    target.password = settings.password.clone().or(target.password);
    target.database = settings.database.unwrap_or(target.database);
    Ok(target)
}

fn wrong(what: impl Into<String>) -> Error {
    Error::Url(what.into())
}

/// Says it without the URL, which may hold a password.
fn explain(error: ParseError) -> String {
    match error {
        ParseError::EmptyHost => "it names no host".into(),
        ParseError::InvalidPort => "the port is no number from 1 to 65535".into(),
        ParseError::RelativeUrlWithoutBase => {
            "it has no scheme: write redis://host:port/database".into()
        }
        other => other.to_string(),
    }
}

fn tcp(parts: &Url, tls: bool) -> Result<Target, Error> {
    let host = parts.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| wrong("it names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = match parts.port() {
        Some(0) => return Err(wrong("the port is no number from 1 to 65535")),
        port => port.unwrap_or(DEFAULT_PORT),
    };
    if let Some((option, _)) = parts.query_pairs().next() {
        return Err(wrong(format!(
            "unknown option `{option}`: settings are made by ClientBuilder"
        )));
    }
    Ok(Target {
        address: Address::Tcp { host, port, tls },
        user: decoded(parts.username())?,
        password: decoded(parts.password().unwrap_or_default())?.map(Secret::from),
        database: database(parts.path().trim_matches('/'))?,
    })
}

fn unix(parts: &Url) -> Result<Target, Error> {
    if parts.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(wrong("a socket has a path and no host: write unix:///path/to/socket"));
    }
    let path = decoded(parts.path())?.filter(|path| path != "/");
    let path = path.ok_or_else(|| wrong("it names no socket: write unix:///path/to/socket"))?;
    let mut target = Target {
        address: Address::Unix(PathBuf::from(path)),
        user: None,
        password: None,
        database: 0,
    };
    for (option, value) in parts.query_pairs() {
        match &*option {
            "db" => target.database = database(&value)?,
            "pass" => target.password = Some(Secret::from(value.into_owned())),
            "user" => target.user = Some(value.into_owned()),
            other => return Err(wrong(format!("unknown option `{other}`: use db, user and pass"))),
        }
    }
    Ok(target)
}

fn database(text: &str) -> Result<u32, Error> {
    match text {
        "" => Ok(0),
        text => text.parse().map_err(|_| wrong(format!("the database `{text}` is no number"))),
    }
}

/// `text` without its percent signs; `None` if there is nothing.
fn decoded(text: &str) -> Result<Option<String>, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| wrong("user, password or path is not UTF-8"))?;
    Ok(Some(decoded.into_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Target {
        target(url, &Settings::default()).unwrap()
    }

    fn refused(url: &str) -> String {
        target(url, &Settings::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_url_says_where_and_who() {
        let plain = read("redis://localhost");
        assert_eq!(plain.address.to_string(), "localhost:6379");
        assert_eq!((plain.user, plain.password, plain.database), (None, None, 0));

        let full = read("redis://billing:p%40ss%2Fword@10.0.0.7:7000/3");
        assert_eq!(full.address.to_string(), "10.0.0.7:7000");
        assert_eq!(full.user.as_deref(), Some("billing"));
        assert_eq!(full.password, Some(Secret::from("p@ss/word".to_owned())));
        assert_eq!(full.database, 3);

        assert_eq!(read("redis://:secret@localhost").user, None);
        assert_eq!(read("redis://[::1]:7000").address.to_string(), "[::1]:7000");

        let socket = read("unix:///run/redis.sock?db=2&user=u&pass=p%20w");
        assert_eq!(socket.address, Address::Unix("/run/redis.sock".into()));
        assert_eq!((socket.database, socket.user.as_deref()), (2, Some("u")));
        assert_eq!(socket.password, Some(Secret::from("p w".to_owned())));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn two_s_mean_tls() {
        let Address::Tcp { tls, .. } = read("rediss://localhost").address else { panic!() };
        assert!(tls);
    }

    #[test]
    fn settings_go_before_the_url() {
        let settings = Settings {
            user: Some("me".into()),
            password: Some(Secret::from("mine".to_owned())),
            database: Some(9),
            ..Settings::default()
        };
        let target = target("redis://you:yours@localhost/1", &settings).unwrap();
        assert_eq!((target.user.as_deref(), target.database), (Some("me"), 9));
        assert_eq!(target.password, Some(Secret::from("mine".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, part) in [
            ("", "scheme"),
            ("localhost", "scheme"),
            ("localhost:6379", "unknown scheme `localhost`"),
            ("http://localhost", "unknown scheme `http`"),
            ("redis://", "host"),
            ("redis:///3", "host"),
            ("redis://localhost:port", "port"),
            ("redis://localhost:70000", "port"),
            ("redis://localhost:0", "port"),
            ("redis://localhost/first", "database `first`"),
            ("redis://localhost/-1", "database `-1`"),
            ("redis://localhost?timeout=3", "option `timeout`"),
            ("redis://u:pa#ss@localhost", "%23"),
            ("unix://", "socket"),
            ("unix://host/path", "no host"),
            ("unix:///path?protocol=3", "option `protocol`"),
        ] {
            let words = refused(url);
            assert!(words.starts_with("invalid URL: ") && words.contains(part), "{url}: {words}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in ["redis://u:hunter2@localhost:port", "redis://u:hunter2@localhost?x=1"] {
            assert!(!refused(url).contains("hunter2"));
        }
        let shown = format!("{:?}", read("redis://u:hunter2@localhost"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
