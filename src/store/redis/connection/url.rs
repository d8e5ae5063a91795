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

/// Options that other clients have in their URLs: these are named when they are met.
/// Another one may be a part of a password.
const OPTIONS_OF_OTHERS: [&str; 8] =
    ["client_name", "db", "pass", "password", "protocol", "ssl", "timeout", "user"];

/// So much of a URL is shown at most.
const SHOWN: usize = 32;

/// What a URL names.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Target),
    /// Some nodes of a cluster, who know the others.
    Cluster(Vec<Target>),
}

/// Reads `url`; what `settings` name themselves goes first.
pub(crate) fn servers(url: &str, settings: &Settings) -> Result<Servers, Error> {
    let url = url.trim();
    let one = |url: &str| target(url, settings);
    match url.split_once("://") {
        Some(("redis-cluster" | "valkey-cluster", rest)) => nodes("redis", rest, one),
        Some(("rediss-cluster" | "valkeys-cluster", rest)) => nodes("rediss", rest, one),
        _ => one(url).map(Servers::One),
    }
}

/// Reads `user:password@host:port,host:port`.
fn nodes(
    scheme: &str,
    rest: &str,
    one: impl Fn(&str) -> Result<Target, Error>,
) -> Result<Servers, Error> {
    // First as a whole: a sign in a password may be taken for the end of it.
    check(&format!("{scheme}://{rest}"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let node = |host: &str| one(&format!("{scheme}://{user}{host}{path}"));
    let nodes = hosts.split(',').map(node).collect::<Result<Vec<_>, _>>()?;
    match nodes.iter().any(|node| node.database != 0) {
        true => Err(wrong("a cluster has no databases but 0")),
        false => Ok(Servers::Cluster(nodes)),
    }
}

/// Reads `url`, of one server.
pub(crate) fn target(url: &str, settings: &Settings) -> Result<Target, Error> {
    let url = url.trim();
    check(url)?;
    let parts = Url::parse(url).map_err(|error| wrong(explain(error)))?;
    let mut target = match parts.scheme() {
        "redis" | "valkey" => tcp(&parts, false),
        "rediss" | "valkeys" if cfg!(feature = "tls") => tcp(&parts, true),
        "rediss" | "valkeys" => {
            Err(wrong("this build has no TLS: build leasehold with its feature `tls`"))
        }
        "unix" | "redis+unix" | "valkey+unix" => unix(&parts),
        other => Err(wrong(unknown_scheme(other, url))),
    }?;
    target.user = settings.user.clone().or(target.user);
    target.password = settings.password.clone().or(target.password);
    target.database = settings.database.unwrap_or(target.database);
    Ok(target)
}

/// Refuses what would be read otherwise than it is meant: a sign in a password may
/// end it, or be left out, and then the rest of the password is taken for something
/// that is shown.
fn check(url: &str) -> Result<(), Error> {
    if url.contains('#') {
        return Err(wrong("it has a `#`: write %23 if that is part of a password"));
    }
    if url.contains(char::is_control) {
        return Err(wrong("it has a control character, such as the end of a line"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme.contains("sentinel") {
        return Err(wrong("Sentinel is not supported yet: name one Redis server"));
    }
    if scheme.contains("cluster") {
        return Err(wrong(
            "write redis-cluster://host:port,host:port, or rediss-cluster:// for TLS",
        ));
    }
    let is_socket = rest.starts_with('/');
    if !is_socket
        && let Some((_, behind)) = rest.split_once(['/', '?'])
        && behind.contains('@')
    {
        return Err(wrong(
            "it has a `/` or a `?` before an `@`: write %2F and %3F if they are part of a password, \
             or set the password by ClientBuilder",
        ));
    }
    Ok(())
}

fn unknown_scheme(scheme: &str, url: &str) -> String {
    // Without the slashes it may be a user, or a password.
    match (url.contains("://") || !url.contains('@')) && scheme.len() <= SHOWN {
        true => format!("unknown scheme `{scheme}`: use redis, rediss or unix"),
        false => "unknown scheme: use redis, rediss or unix".into(),
    }
}

fn unknown_option(option: &str, instead: &str) -> Error {
    wrong(match OPTIONS_OF_OTHERS.contains(&option) {
        true => format!("unknown option `{option}`: {instead}"),
        false => format!("unknown option: {instead}"),
    })
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
        return Err(unknown_option(&option, "settings are made by ClientBuilder"));
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
    let path = decoded(parts.path())?.filter(|path| path.starts_with('/') && path != "/");
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
            other => return Err(unknown_option(other, "use db, user and pass")),
        }
    }
    Ok(target)
}

fn database(text: &str) -> Result<u32, Error> {
    match text {
        "" => Ok(0),
        text if text.len() > SHOWN => Err(wrong("the database is no number")),
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
        servers(url, &Settings::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        let read = |url| match servers(url, &Settings::default()) {
            Ok(Servers::Cluster(nodes)) => nodes,
            other => panic!("{other:?}"),
        };
        let nodes = read("redis-cluster://billing:p%40ss,word@h1:7000,[::1]:7001,h3");
        let at: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
        assert_eq!(at, ["h1:7000", "[::1]:7001", "h3:6379"]);
        for node in nodes {
            assert_eq!(node.user.as_deref(), Some("billing"));
            assert_eq!(node.password, Some(Secret::from("p@ss,word".to_owned())));
        }
        #[cfg(feature = "tls")]
        for node in read("rediss-cluster://h1,h2/0") {
            assert!(matches!(node.address, Address::Tcp { tls: true, .. }));
        }
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
            ("redis-sentinel://h1:26379,h2:26379/mymaster", "not supported yet"),
            ("rediss+sentinel://h1:26379/mymaster", "not supported yet"),
            ("redis-cluster://", "host"),
            ("redis-cluster://h1:7000,", "host"),
            ("redis-cluster://h1:7000/2", "no databases"),
            ("redis-cluster://h1:7000?database=2", "unknown option"),
            ("redis-cluster://h1:port,h2", "port"),
            ("redis+cluster://h1:7000", "redis-cluster://"),
            ("rediss-clusters://h1:7000", "rediss-cluster://"),
            ("redis://u:p/w@localhost", "%2F"),
            ("redis://u:p?w@localhost", "%3F"),
            ("redis://u:p\nw@localhost", "control character"),
        ] {
            let words = refused(url);
            assert!(words.starts_with("invalid URL: ") && words.contains(part), "{url}: {words}");
        }
    }

    /// URLs with a password in all odd places, and with each odd sign in it.
    fn odd_urls() -> Vec<String> {
        let mut urls: Vec<String> = [
            "redis://u:hunter2@localhost:port",
            "redis://u:hunter2@localhost?x=1",
            "redis://u:1/hunter2@h",
            "redis://u:1?hunter2@h",
            "redis://u:1#hunter2@h",
            "redis://u:6379/hunter2@10.0.0.1:6379/0",
            "u:hunter2@localhost",
            "hunter2:x@h",
            "hunter2@localhost:6379",
            "redis:u:hunter2@localhost",
            "redis:/u:hunter2@localhost",
            "redis:///u:hunter2@localhost",
            "redis//u:hunter2@localhost",
            "://u:hunter2@localhost",
            "unix:///x?pass=hunter2&pass=",
            "unix:///x?pass=a&hunter2",
            "unix:///x?hunter2",
            "unix://u:hunter2@/x",
            "unix:///x?pass=hunter2&db=x",
            "unix:u:hunter2@/x",
            "redis://u:hunter2@h:0x1",
            "redis://u:hunter2@ex%20ample",
            "redis://u:hunter2@exa mple",
            "redis://u:hunter2@[::1",
            "redis://u:hunter2@[::g]",
            "redis://u:hunter2@h\\x",
            "redis://u:%ff%fe:hunter2@h",
            "redis://u:hunter2@",
            "redis://u:hunter2@/0",
            "redis-sentinel://u:hunter2@h:26379/main",
            "redis-cluster://u:hunter2@h:1,u:hunter2@h:2",
            "redis-cluster://u:hunter2@h:1,hunter2@:2",
            "redis-cluster://u:hun,ter2@h:port",
            "http://u:hunter2@h",
        ]
        .map(str::to_owned)
        .into();
        for sign in (0_u8..=127).map(char::from).chain("é🔒\u{202e}".chars()) {
            for host in ["127.0.0.1:1", "localhost", "[::1]:1"] {
                urls.push(format!("redis://u:12{sign}hunter2@{host}"));
                urls.push(format!("redis://u:hunter2{sign}12@{host}"));
                urls.push(format!("redis://:6379{sign}hunter2@{host}/0"));
                urls.push(format!("redis://u{sign}:hunter2@{host}/0"));
                urls.push(format!("redis://u:hunter2@{host}/0{sign}"));
                urls.push(format!("redis://u:hunter2@{host}?{sign}"));
                urls.push(format!("rediss://u:12{sign}hunter2@{host}"));
                urls.push(format!("redis-cluster://u:12{sign}hunter2@{host},{host}"));
                urls.push(format!("{sign}redis://u:hunter2@{host}"));
            }
            urls.push(format!("unix:///nowhere?pass=a{sign}hunter2"));
            urls.push(format!("unix:///nowhere?user=u&pass=hunter2{sign}b"));
        }
        urls
    }

    #[test]
    fn a_password_is_never_shown_whatever_the_url() {
        for url in odd_urls() {
            let shown = match servers(&url, &Settings::default()) {
                Ok(Servers::One(target)) => format!("{target:?} {}", target.address),
                Ok(Servers::Cluster(nodes)) => format!("{nodes:?} {}", nodes[0].address),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("hunter2"), "{url:?}: {shown}");
        }
    }
}
