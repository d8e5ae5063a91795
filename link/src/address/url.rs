//! Parses the URL of a server, and names the invalid part in the error.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::{ParseError, Url};

use crate::{
    address::{
        secret::Secret,
        settings::Settings,
        target::{Address, Credentials, Place, Target, Watched},
    },
    error::Error,
};

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_PORT_OF_SENTINELS: u16 = 26379;

/// URL options of other clients. The error for an unknown option names the option only if it is in
/// this list. Any other word may be part of a password.
const OPTIONS_OF_OTHERS: [&str; 17] = [
    "client_name",
    "db",
    "master_name",
    "node",
    "pass",
    "password",
    "protocol",
    "sentinelPassword",
    "sentinelServiceName",
    "sentinelUsername",
    "sentinel_password",
    "sentinel_username",
    "service_name",
    "ssl",
    "timeout",
    "user",
    "username",
];

/// An error quotes no part of a URL with more than this number of bytes.
const SHOWN: usize = 32;

/// The servers that a URL names.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Target),
    /// Some nodes of a cluster, which know the other nodes.
    Cluster(Vec<Target>),
}

/// Parses `url`. A value in `settings` replaces the same value in the URL.
pub(crate) fn servers(url: &str, settings: &Settings) -> Result<Servers, Error> {
    let url = url.trim();
    let one = |url: &str| target(url, settings);
    match url.split_once("://") {
        Some(("redis-cluster" | "valkey-cluster", rest)) => nodes("redis", rest, one),
        Some(("rediss-cluster" | "valkeys-cluster", rest)) => nodes("rediss", rest, one),
        _ => one(url).map(Servers::One),
    }
}

/// Parses the URL of a cluster: `rest` is `user:password@host:port,host:port`.
fn nodes(
    scheme: &str,
    rest: &str,
    one: impl Fn(&str) -> Result<Target, Error>,
) -> Result<Servers, Error> {
    let all = format!("{scheme}://{rest}");
    // `check` runs before the text is split, because a character in a password may look like the
    // end of the password.
    check(&all)?;
    let written = Written::of(&all);
    let Written { credentials, hosts, behind, .. } = &written;
    let node = |host: &&str| one(&format!("{scheme}://{credentials}{host}{behind}"));
    // `each` runs before `node`, because only the error of `each` shows which of several addresses
    // is invalid.
    written.each(scheme)?;
    let nodes = hosts.iter().map(node).collect::<Result<Vec<_>, _>>()?;
    match nodes.iter().any(|node| node.database != 0) {
        true => Err(wrong("a cluster has only database 0; remove the database from the URL")),
        false => Ok(Servers::Cluster(nodes)),
    }
}

/// Parses a `url` that does not name a cluster.
pub(crate) fn target(url: &str, settings: &Settings) -> Result<Target, Error> {
    let url = url.trim();
    check(url)?;
    let written = Written::of(url);
    let mut target = match written.scheme.split_once(['-', '+']) {
        Some((scheme, "sentinel")) => sentinels(&written, with_tls(scheme, url)?, settings),
        _ => one_or_several(&written, url),
    }?;
    target.user = settings.user.clone().or(target.user);
    target.password = settings.password.clone().or(target.password);
    target.database = settings.database.unwrap_or(target.database);
    Ok(target)
}

/// The unparsed parts of a URL. A URL may name several hosts, but the crate `url` accepts only one.
struct Written<'a> {
    scheme: String,
    /// User and password with the `@`, or an empty text.
    credentials: &'a str,
    hosts: Vec<&'a str>,
    /// The path and the options.
    behind: &'a str,
}

impl<'a> Written<'a> {
    fn of(url: &'a str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (place, behind) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (credentials, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
        Self {
            scheme: scheme.to_ascii_lowercase(),
            credentials,
            hosts: hosts.split(',').collect(),
            behind,
        }
    }

    /// Returns one URL for each host. The crate `url` checks host and port only for schemes that
    /// have a host and a port. So the caller passes such a `scheme`.
    fn each(&self, scheme: &str) -> Result<Vec<Url>, Error> {
        let Self { credentials, hosts, behind, .. } = self;
        if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty()) {
            return Err(wrong("a host is missing before or after a comma; write redis://one,two"));
        }
        let alone = |(index, host): (usize, &&str)| {
            let url = Url::parse(&format!("{scheme}://{credentials}{host}{behind}"));
            let url = url.map_err(|error| wrong(explain(error, &self.which(index))))?;
            match url.port() {
                Some(0) => Err(wrong(explain(ParseError::InvalidPort, &self.which(index)))),
                _ => Ok(url),
            }
        };
        hosts.iter().enumerate().map(alone).collect()
    }

    /// Returns a text that names the address by its `index`. The text does not contain the host: if
    /// an `@` is not escaped, the host may be part of the password.
    fn which(&self, index: usize) -> String {
        match self.hosts.len() {
            1 => String::new(),
            _ => format!(" of address {}", index + 1),
        }
    }
}

/// Returns whether `scheme` uses TLS. Fails if the scheme is unknown, or if this build has no TLS.
fn with_tls(scheme: &str, url: &str) -> Result<bool, Error> {
    match scheme {
        "redis" | "valkey" => Ok(false),
        "rediss" | "valkeys" if cfg!(feature = "tls") => Ok(true),
        "rediss" | "valkeys" => {
            Err(wrong("this build has no TLS; enable the feature `tls` of leasehold"))
        }
        other => Err(wrong(unknown_scheme(other, url))),
    }
}

/// Rejects a URL that would not mean what the user intended. For example, a character in the
/// password may end the password early, or may be dropped. The client would then show the rest of
/// the password as another part of the URL.
fn check(url: &str) -> Result<(), Error> {
    if url.contains('#') {
        return Err(wrong(
            "the character `#` is not allowed; in a password write %23, and write the name of the \
             primary as a path: redis-sentinel://host:26379/mymaster",
        ));
    }
    if url.contains(char::is_control) {
        return Err(wrong("control characters, such as a line end, are not allowed; remove them"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme.contains("cluster") {
        return Err(wrong(
            "unknown scheme of a cluster; write redis-cluster://host:port,host:port, or \
             rediss-cluster:// for TLS",
        ));
    }
    if repeats_scheme(rest) {
        return Err(wrong(
            "the scheme is repeated; write the scheme only once, at the start: \
             redis-sentinel://one,two/mymaster",
        ));
    }
    let is_socket = rest.starts_with('/');
    if !is_socket
        && let Some((_, behind)) = rest.split_once(['/', '?'])
        && behind.contains('@')
    {
        return Err(wrong(
            "the characters `/` and `?` are not allowed before `@`; in a password write %2F and %3F",
        ));
    }
    Ok(())
}

/// The known schemes.
const SCHEMES: &str = "use redis, redis-sentinel, redis-cluster, or unix; for TLS rediss, \
                       rediss-sentinel, or rediss-cluster";

fn unknown_scheme(scheme: &str, url: &str) -> String {
    let is_host = !url.contains("://") && !url.contains('@') && url.len() <= SHOWN;
    if is_host {
        return format!("the scheme is missing; write redis://{url}");
    }
    // Without `://`, the text before the `:` may be a user or a password, so the error must not
    // show this text.
    match (url.contains("://") || !url.contains('@')) && scheme.len() <= SHOWN {
        true => format!("unknown scheme `{scheme}`; {SCHEMES}"),
        false => format!("unknown scheme; {SCHEMES}"),
    }
}

/// Returns whether a host after the first one has its own scheme, as in `redis://a,redis://b`.
fn repeats_scheme(rest: &str) -> bool {
    let Some((before, _)) = rest.split_once("://") else { return false };
    let Some((_, last)) = before.rsplit_once(',') else { return false };
    let base = last.split(['-', '+']).next().unwrap_or_default();
    ["redis", "rediss", "valkey", "valkeys"].contains(&base)
}

fn unknown_option(option: &str, instead: &str) -> Error {
    wrong(match OPTIONS_OF_OTHERS.contains(&option) {
        true => format!("unknown option `{option}`; {instead}"),
        false => format!("unknown option; {instead}"),
    })
}

fn wrong(what: impl Into<String>) -> Error {
    Error::Url(what.into())
}

/// Describes a parse error. The text quotes no part of the URL, because any part may contain a
/// password.
fn explain(error: ParseError, which: &str) -> String {
    match error {
        ParseError::EmptyHost => "the host is missing; write redis://host:port".into(),
        ParseError::InvalidPort => format!("the port{which} must be a number from 1 to 65535"),
        ParseError::RelativeUrlWithoutBase => {
            "the scheme is missing; write redis://host:port/database".into()
        }
        other => other.to_string(),
    }
}

/// Returns the target of a URL without sentinels. If the URL names several servers, one of them
/// must be the primary.
fn one_or_several(written: &Written<'_>, url: &str) -> Result<Target, Error> {
    if written.hosts.len() == 1 {
        let parts = Url::parse(url).map_err(|error| wrong(explain(error, &written.which(0))))?;
        return match parts.scheme() {
            "unix" | "redis+unix" | "valkey+unix" => unix(&parts),
            scheme => tcp(&parts, with_tls(scheme, url)?),
        };
    }
    let tls = with_tls(&written.scheme, url)?;
    let each = written.each(&written.scheme)?;
    let first =
        each.first().ok_or_else(|| wrong("the host is missing; write redis://host:port"))?;
    let mut target = tcp(first, tls)?;
    let addresses = addresses(&each, DEFAULT_PORT, tls)?;
    if addresses.len() > 1 {
        target.place = Place::Among(addresses);
    }
    Ok(target)
}

/// Returns the target of a URL that names sentinels.
fn sentinels(written: &Written<'_>, tls: bool, settings: &Settings) -> Result<Target, Error> {
    let each = written.each("redis")?;
    let parts =
        each.first().ok_or_else(|| wrong("the host is missing; write redis://host:port"))?;
    let speak_tls = settings.sentinels_speak_tls.unwrap_or(tls);
    let sentinels = addresses(&each, DEFAULT_PORT_OF_SENTINELS, speak_tls)?;
    let mut path = parts.path().trim_start_matches('/').splitn(2, '/');
    let master = decoded(path.next().unwrap_or_default())?.ok_or_else(|| {
        wrong(
            "the name of the primary that the sentinels watch is missing; write \
             redis-sentinel://host:26379/mymaster",
        )
    })?;
    let mut numbers: Vec<String> = path.map(str::to_owned).filter(|it| !it.is_empty()).collect();
    let mut credentials = Credentials::default();
    for (option, value) in parts.query_pairs() {
        match &*option {
            "db" => numbers.push(value.into_owned()),
            "sentinel_username" => credentials.user = Some(value.into_owned()),
            "sentinel_password" => credentials.password = Some(Secret::from(value.into_owned())),
            other => {
                let instead = "valid options are db, sentinel_username and sentinel_password; write \
                               the name of the primary after the addresses";
                return Err(unknown_option(other, instead));
            }
        }
    }
    if numbers.len() > 1 {
        return Err(wrong("two databases are given; remove one"));
    }
    credentials.user = settings.sentinel.user.clone().or(credentials.user);
    credentials.password = settings.sentinel.password.clone().or(credentials.password);
    let place = Place::Sentinels(Watched { master, sentinels, credentials, tls });
    at(place, parts, numbers.first().map_or("", String::as_str))
}

/// Returns the address of each URL, without duplicates.
fn addresses(each: &[Url], default_port: u16, tls: bool) -> Result<Vec<Address>, Error> {
    let mut addresses = Vec::new();
    for parts in each {
        let address = address(parts, default_port, tls)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn address(parts: &Url, default_port: u16, tls: bool) -> Result<Address, Error> {
    let host = parts.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| wrong("the host is missing; write redis://host:port"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = match parts.port() {
        Some(0) => return Err(wrong("the port must be a number from 1 to 65535")),
        port => port.unwrap_or(default_port),
    };
    Ok(Address::Tcp { host, port, tls })
}

/// Returns the target at `place`, with the credentials of the URL and the database `number`.
fn at(place: Place, parts: &Url, number: &str) -> Result<Target, Error> {
    let user = decoded(parts.username())?;
    let password = decoded(parts.password().unwrap_or_default())?.map(Secret::from);
    Ok(Target { place, user, password, database: database(number)? })
}

fn tcp(parts: &Url, tls: bool) -> Result<Target, Error> {
    let address = address(parts, DEFAULT_PORT, tls)?;
    if let Some((option, _)) = parts.query_pairs().next() {
        return Err(unknown_option(&option, "remove it; a URL of this form has no options"));
    }
    at(Place::At(address), parts, parts.path().trim_matches('/'))
}

fn unix(parts: &Url) -> Result<Target, Error> {
    if parts.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(wrong("a unix URL must not have a host; write unix:///path/to/socket"));
    }
    let path = decoded(parts.path())?.filter(|path| path.starts_with('/') && path != "/");
    let path = path
        .ok_or_else(|| wrong("the path of the socket is missing; write unix:///path/to/socket"))?;
    let place = Place::At(Address::Unix(PathBuf::from(path)));
    let mut target = Target { place, user: None, password: None, database: 0 };
    for (option, value) in parts.query_pairs() {
        match &*option {
            "db" => target.database = database(&value)?,
            "pass" => target.password = Some(Secret::from(value.into_owned())),
            "user" => target.user = Some(value.into_owned()),
            other => return Err(unknown_option(other, "valid options are db, user and pass")),
        }
    }
    Ok(target)
}

fn database(text: &str) -> Result<u32, Error> {
    match text {
        "" => Ok(0),
        text if text.len() > SHOWN => Err(wrong("the database must be a number")),
        text => text.parse().map_err(|_| wrong(format!("the database `{text}` must be a number"))),
    }
}

/// Decodes the percent-encoded characters of `text`. Returns `None` if `text` is empty.
fn decoded(text: &str) -> Result<Option<String>, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded
        .map_err(|_| wrong("user, password or path is not valid UTF-8; use percent-encoding"))?;
    Ok(Some(decoded.into_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Target {
        target_of(url, &Settings::default())
    }

    fn target_of(url: &str, settings: &Settings) -> Target {
        target(url, settings).unwrap()
    }

    fn refused(url: &str) -> String {
        servers(url, &Settings::default()).unwrap_err().to_string()
    }

    #[test]
    fn cluster_url_may_list_several_nodes() {
        let read = |url| match servers(url, &Settings::default()) {
            Ok(Servers::Cluster(nodes)) => nodes,
            other => panic!("{other:?}"),
        };
        let nodes = read("redis-cluster://billing:p%40ss,word@h1:7000,[::1]:7001,h3");
        let at: Vec<_> = nodes.iter().map(|node| node.place.to_string()).collect();
        assert_eq!(at, ["h1:7000", "[::1]:7001", "h3:6379"]);
        for node in nodes {
            assert_eq!(node.user.as_deref(), Some("billing"));
            assert_eq!(node.password, Some(Secret::from("p@ss,word".to_owned())));
        }
        #[cfg(feature = "tls")]
        for node in read("rediss-cluster://h1,h2/0") {
            assert!(matches!(node.place, Place::At(Address::Tcp { tls: true, .. })));
        }
    }

    #[test]
    fn unknown_scheme_error_lists_all_schemes() {
        for url in ["sentinel://a/mymaster", "redis-sentinels://a/mymaster", "http://a"] {
            let words = refused(url);
            for scheme in ["redis-sentinel", "redis-cluster", "rediss-sentinel", "rediss-cluster"] {
                assert!(words.contains(scheme), "{url}: {words}");
            }
        }
    }

    #[test]
    fn url_with_a_repeated_scheme_is_refused() {
        for url in [
            "redis-sentinel://a,redis-sentinel://b/mymaster",
            "redis://a,redis://b",
            "redis://u:p@a:1,redis://u:p@b:2/0",
            "redis-cluster://a,redis-cluster://b",
        ] {
            assert!(refused(url).contains("the scheme is repeated"), "{url}: {}", refused(url));
        }
    }

    #[test]
    fn url_is_parsed_into_address_user_password_and_database() {
        let plain = read("redis://localhost");
        assert_eq!(plain.place.to_string(), "localhost:6379");
        assert_eq!((plain.user, plain.password, plain.database), (None, None, 0));

        let full = read("redis://billing:p%40ss%2Fword@10.0.0.7:7000/3");
        assert_eq!(full.place.to_string(), "10.0.0.7:7000");
        assert_eq!(full.user.as_deref(), Some("billing"));
        assert_eq!(full.password, Some(Secret::from("p@ss/word".to_owned())));
        assert_eq!(full.database, 3);

        assert_eq!(read("redis://:secret@localhost").user, None);
        assert_eq!(read("redis://[::1]:7000").place.to_string(), "[::1]:7000");

        let socket = read("unix:///run/redis.sock?db=2&user=u&pass=p%20w");
        assert_eq!(socket.place, Place::At(Address::Unix("/run/redis.sock".into())));
        assert_eq!((socket.database, socket.user.as_deref()), (2, Some("u")));
        assert_eq!(socket.password, Some(Secret::from("p w".to_owned())));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn url_scheme_rediss_means_tls() {
        for url in ["rediss://localhost", "rediss://a,b", "rediss-sentinel://a,b/mymaster"] {
            let is_tls = |it: &Address| matches!(it, Address::Tcp { tls: true, .. });
            assert!(read(url).place.addresses().iter().all(is_tls), "{url}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn sentinels_use_tls_like_the_servers_unless_a_setting_differs() {
        for (scheme, setting, servers, sentinels) in [
            ("redis", None, false, false),
            ("rediss", None, true, true),
            ("redis", Some(true), false, true),
            ("rediss", Some(false), true, false),
        ] {
            let settings = Settings { sentinels_speak_tls: setting, ..Settings::default() };
            let target = target_of(&format!("{scheme}-sentinel://a,b/mymaster"), &settings);
            let Place::Sentinels(watched) = target.place else { panic!() };
            assert_eq!(watched.tls, servers, "{scheme} {setting:?}");
            let speak = |it: &Address| it.speaks_tls() == sentinels;
            assert!(watched.sentinels.iter().all(speak), "{scheme} {setting:?}");
        }
    }

    #[test]
    fn repeated_address_of_a_url_counts_only_once() {
        let among = read("redis://u:a,b@one,two:7000,[::1]:7001,one:6379/3");
        assert_eq!(among.place.to_string(), "one:6379, two:7000, [::1]:7001");
        assert_eq!((among.user.as_deref(), among.database), (Some("u"), 3));
        assert_eq!(among.password, Some(Secret::from("a,b".to_owned())));
        assert!(matches!(read("redis://one,one:6379").place, Place::At(_)));
        assert_eq!(read("redis://one,two/?").place.to_string(), "one:6379, two:6379");
    }

    fn watched(url: &str) -> (Target, Watched) {
        match read(url) {
            Target { place: Place::Sentinels(watched), user, password, database } => {
                let place = Place::Sentinels(watched.clone());
                (Target { place, user, password, database }, watched)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sentinel_credentials_are_separate_and_optional() {
        let (target, plain) = watched("redis-sentinel://me:mine@s1,s2:5000/my%20master/2");
        assert_eq!(target.place.to_string(), "`my master` of the sentinels s1:26379, s2:5000");
        assert_eq!((target.user.as_deref(), target.database), (Some("me"), 2));
        assert_eq!(plain.credentials, Credentials::default());

        let url = "valkey+sentinel://s1/m?db=4&sentinel_username=eye&sentinel_password=p%26w";
        let (target, sentinels) = watched(url);
        assert_eq!((target.user, target.password, target.database), (None, None, 4));
        assert_eq!(sentinels.credentials.user.as_deref(), Some("eye"));
        assert_eq!(sentinels.credentials.password, Some(Secret::from("p&w".to_owned())));

        let sentinel = Credentials { user: Some("set".into()), password: None };
        let settings = Settings { sentinel, ..Settings::default() };
        let Place::Sentinels(set) = target_of(url, &settings).place else { panic!() };
        assert_eq!(set.credentials.user.as_deref(), Some("set"));
    }

    #[test]
    fn settings_override_the_url() {
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
    fn url_error_names_the_wrong_part() {
        for (url, part) in [
            ("", "scheme"),
            ("localhost", "scheme"),
            ("localhost:6379", "write redis://localhost:6379"),
            ("me:secret@host", "unknown scheme; "),
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
            ("unix://host/path", "not have a host"),
            ("unix:///path?protocol=3", "option `protocol`"),
            ("redis-sentinel://h1:26379,h2:26379", "redis-sentinel://host:26379/mymaster"),
            ("redis-sentinel://h1:26379/", "the name of the primary"),
            ("redis-sentinel://h1,,h2/mymaster", "before or after a comma"),
            ("redis-sentinel:///mymaster", "host"),
            ("redis-sentinel://h1:port,h2/mymaster", "port"),
            ("redis-sentinel://h1:0,h2/mymaster", "port"),
            ("redis-sentinel://h1/mymaster/first", "database `first`"),
            ("redis-sentinel://h1/mymaster/1?db=1", "two databases"),
            ("redis-sentinel://h1/mymaster?master_name=x", "option `master_name`"),
            ("redis-sentinel://h1#mymaster", "redis-sentinel://host:26379/mymaster"),
            ("http-sentinel://h1/mymaster", "unknown scheme `http`"),
            ("redis://h1,/0", "before or after a comma"),
            ("redis://h1,h2/first", "database `first`"),
            ("redis://h1,h2?db=1", "option `db`"),
            ("unix://h1,h2/path", "unknown scheme `unix`"),
            ("redis-cluster://", "host"),
            ("redis-cluster://h1:7000,", "host"),
            ("redis-cluster://h1:7000/2", "only database 0"),
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

    #[test]
    fn invalid_port_error_gives_the_position_of_its_address() {
        for (url, which) in [
            ("redis://u:pw@h1:port", "the port must be a number"),
            ("redis://u:pw@h1,h2:99999/0", "the port of address 2 must be a number"),
            ("redis://u:pw@[::1]:x,h2", "the port of address 1 must be a number"),
            ("redis://u:pw@:x,h2", "host"),
            ("redis://u:p@pw:word", "the port must be a number"),
            ("redis://u:p@pw:word,h2", "the port of address 1 must be a number"),
            ("redis-cluster://u:pw@h1:1,h2:0", "the port of address 2 must be a number"),
            ("redis-cluster://h1:1,h2:x", "the port of address 2 must be a number"),
            ("redis-sentinel://h1,h2,h3:x/main", "the port of address 3 must be a number"),
            ("redis://u:pw", "the port must be a number"),
            ("redis://h:0", "the port must be a number"),
        ] {
            let words = refused(url);
            assert!(words.contains(which) && !words.contains("pw"), "{url}: {words}");
        }
    }

    /// Returns URLs with the password in unusual places, or with unusual characters in the
    /// password.
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
            "redis-sentinel://u:hunter2@h:26379,i/main?db=x",
            "redis-sentinel://h/main?sentinel_password=hunter2&db=x",
            "redis-sentinel://h/main?sentinel_password=hunter2",
            "redis-sentinel://h/main?hunter2",
            "redis-sentinel://u:hunter2@h,",
            "redis://u:hunter2@h,i",
            "redis://u:hunter2@h,i:x",
            "redis://u:x,hunter2@h,i",
            "redis://u,hunter2@h,i/x",
            "hunter2@h,i",
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
                urls.push(format!("redis://u:12{sign}hunter2@h,{host}/0"));
                urls.push(format!("redis-sentinel://u:12{sign}hunter2@h,{host}/main"));
                urls.push(format!("redis-sentinel://{host}/main?sentinel_password=x{sign}hunter2"));
                urls.push(format!("redis-cluster://u:12{sign}hunter2@{host},{host}"));
                urls.push(format!("{sign}redis://u:hunter2@{host}"));
            }
            urls.push(format!("unix:///nowhere?pass=a{sign}hunter2"));
            urls.push(format!("unix:///nowhere?user=u&pass=hunter2{sign}b"));
        }
        urls
    }

    #[test]
    fn url_error_never_shows_the_password() {
        for url in odd_urls() {
            let shown = match servers(&url, &Settings::default()) {
                Ok(Servers::One(target)) => format!("{target:?} {}", target.place),
                Ok(Servers::Cluster(nodes)) => format!("{nodes:?} {}", nodes[0].place),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("hunter2"), "{url:?}: {shown}");
        }
    }
}
