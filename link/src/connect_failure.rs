//! Why there is no connection, as a text for a person. The text is one line and contains no secret.
//! A long quotation from a server is cut.

use std::{fmt, io, sync::Arc};

use redis::ServerError;

use crate::{
    error::{Cause, Error},
    failure::{Failure, in_words},
    pipe::ending::Ending,
    shown::shown,
};

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectFailure {
    words: String,
    /// Whether the failure lasts until a person changes a setting.
    lasting: bool,
    /// Whether a server replied with a rejection.
    refused: bool,
    /// The rejection, if the server rejected the credentials.
    rejection: Option<Rejection>,
    source: Option<Cause>,
}

/// How a server rejects the credentials of this client.
#[derive(Clone, Copy, Debug)]
struct Rejection {
    code: &'static str,
    means: &'static str,
    /// Whether an earlier login succeeded, maybe at another server.
    late: bool,
}

const WRONG_PASSWORD: Rejection =
    Rejection { code: "WRONGPASS", means: "user or password is wrong", late: false };
const NO_PASSWORD: Rejection =
    Rejection { code: "NOAUTH", means: "a password is required", late: false };

/// The likely cause of a rejected login, if an earlier login succeeded.
const MISSING_HERE: &str =
    "; an earlier login succeeded, but users are not replicated; create the user on every server";

impl Rejection {
    /// Returns the remedy, or an empty text if none is known.
    fn advice(self) -> &'static str {
        if self.late { MISSING_HERE } else { "" }
    }
}

/// Texts by which a server rejects a new connection, and their meaning.
const SENT_AWAY: [(&str, &str); 4] = [
    ("max number of clients", "the server has too many clients: max number of clients reached"),
    (
        "protected mode",
        "the server is in protected mode: the server accepts only local connections; set a \
         password or turn protected mode off",
    ),
    (
        "nknown command",
        "the server does not know HELLO: it is older than Redis 6, or the command HELLO is renamed",
    ),
    ("nsupported command", "the server does not know HELLO: it may be a proxy"),
];

/// The ending of a failure text for a server, and the ending that replaces it for a sentinel.
const OF_SENTINELS: [(&str, &str); 7] = [
    (
        "user or password is wrong: WRONGPASS",
        "user or password is wrong: WRONGPASS; check sentinel_password and sentinel_username",
    ),
    ("a password is required: NOAUTH", "a password is required: NOAUTH; set sentinel_password"),
    (
        "set ca_certificates to the authority of the server",
        "set sentinel_ca_certificates to the authority of the sentinels",
    ),
    ("set client_certificate", "set sentinel_client_certificate"),
    (
        "the server does not use TLS on this port",
        "the sentinel does not use TLS on this port; check sentinel_tls",
    ),
    ("does this port use TLS?", "does this port use TLS? Check sentinel_tls"),
    ("or use TLS on this port", "or use TLS on this port; check sentinel_tls"),
];

/// The remedy if an address belongs to a server that is not a sentinel.
pub(crate) const NAME_SENTINELS: &str = "use addresses of sentinels, or redis://host:port";

impl ConnectFailure {
    /// Returns a temporary failure.
    pub(crate) fn passing(words: impl Into<String>) -> Self {
        Self { words: words.into(), lasting: false, refused: false, rejection: None, source: None }
    }

    /// Returns a failure that stays until a person changes a setting.
    pub(crate) fn lasting(words: impl Into<String>) -> Self {
        Self { lasting: true, ..Self::passing(words) }
    }

    fn rejected(rejection: Rejection) -> Self {
        let words = format!("{}: {}{}", rejection.means, rejection.code, rejection.advice());
        Self { rejection: Some(rejection), refused: true, ..Self::lasting(words) }
    }

    /// If the login was rejected, adds the hint that an earlier login succeeded.
    pub(crate) fn after_earlier_login(self) -> Self {
        match self.rejection {
            Some(rejection) => Self::rejected(Rejection { late: true, ..rejection }),
            None => self,
        }
    }

    /// Returns whether the failure lasts until a person changes a setting.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// Returns whether a server replied with a rejection.
    pub(crate) fn is_refusal(&self) -> bool {
        self.refused
    }

    /// Puts `place` in front of the text, to show which of several servers failed.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { words: format!("{place}: {}", self.words), ..self }
    }

    /// Adds `hint` if the network caused the failure.
    pub(crate) fn unreached(self, hint: Option<String>) -> Self {
        match hint.filter(|_| self.source.is_some()) {
            Some(hint) => Self { words: format!("{}; {hint}", self.words), ..self },
            None => self,
        }
    }

    /// Combines the failures of several servers.
    pub(crate) fn of_all(failures: impl IntoIterator<Item = Self>) -> Self {
        let all: Vec<_> = failures.into_iter().collect();
        let lasting = !all.is_empty() && all.iter().all(|it| it.lasting);
        let words: Vec<_> = all.iter().map(|it| it.words.as_str()).collect();
        let words = words.join("; ");
        let rejections: Option<Vec<_>> = all.iter().map(|it| it.rejection).collect();
        let rejection = rejections.and_then(|all| all.first().copied());
        let refused = all.iter().all(|it| it.refused);
        let source = all.into_iter().find_map(|it| it.source);
        Self { words, lasting, refused, rejection, source }
    }

    /// Returns the failure of a request to `server`, if `server` rejected the login.
    pub(crate) fn rejection(&self, server: &str) -> Option<Failure> {
        let rejection = self.rejection?;
        let Rejection { code, means, .. } = rejection;
        Some(Failure::refused(code, format!("{server}: {means}{}", rejection.advice())))
    }

    /// Returns the error of a connection attempt to `server`. If there is only one sentinel, the
    /// error names the address of that sentinel only once.
    pub(crate) fn before(self, server: String) -> Error {
        let Self { words, lasting, source, .. } = self;
        let reason = match words.split_once(": ") {
            Some((place, rest)) if is_the_only_sentinel(place, &server) => rest.to_owned(),
            _ => words,
        };
        Error::Connect { server, reason, permanent: lasting, source }
    }

    /// Returns the failure for a server that rejects HELLO, which carries user and password. Some
    /// servers repeat text that they do not understand. So if HELLO contained a `secret`, the
    /// failure does not quote the text of the server.
    pub(crate) fn of_greeting(error: &ServerError, secret: bool) -> Self {
        let words = error.details().unwrap_or_default();
        let known = SENT_AWAY.iter().find(|(part, _)| words.contains(part));
        let failure = match (error.code(), known) {
            ("WRONGPASS", _) => Self::rejected(WRONG_PASSWORD),
            ("NOAUTH", _) => Self::no_password(),
            ("NOPROTO", _) => Self::lasting("the server is older than Redis 6: NOPROTO"),
            (_, Some((_, meaning))) => Self::passing(*meaning),
            (code, None) if PLAIN.contains(&code) && secret => {
                Self::passing(format!("the server rejected the login: {code}"))
            }
            (_, None) if secret => Self::passing("the server rejected the login"),
            (code, None) => Self::passing(format!("{} {}", shown(code), shown(words)).trim()),
        };
        Self { refused: true, ..failure }
    }

    /// Returns the failure for a server that requires a password, although this client has none.
    pub(crate) fn no_password() -> Self {
        Self::rejected(NO_PASSWORD)
    }

    /// Returns the failure for a server that rejects a command with `error`. A missing permission
    /// is a lasting failure, because a person has to grant it.
    pub(crate) fn of_refusal(error: &ServerError) -> Self {
        let words = error.details().unwrap_or_default();
        let words = format!("{} {}", shown(error.code()), shown(words));
        Self { lasting: error.code() == "NOPERM", refused: true, ..Self::passing(words) }
    }

    /// Returns the same failure with a text that names the settings for sentinels.
    pub(crate) fn of_sentinel(self) -> Self {
        let words = OF_SENTINELS.iter().find_map(|(of_server, of_sentinel)| {
            Some(format!("{}{of_sentinel}", self.words.strip_suffix(of_server)?))
        });
        Self { words: words.unwrap_or(self.words), ..self }
    }

    /// If the login was rejected, adds that the server may not be a sentinel. Before a successful
    /// login, a server does not reveal whether it is a sentinel.
    pub(crate) fn of_possible_server(self) -> Self {
        match self.rejection {
            Some(_) => Self {
                words: format!(
                    "{}; if this server is not a Sentinel, {NAME_SENTINELS}",
                    self.words
                ),
                ..self
            },
            None => self,
        }
    }

    /// Returns the failure for a server that rejects the database `number`.
    pub(crate) fn of_database(number: u32, error: &ServerError) -> Self {
        let words = error.details().unwrap_or_default();
        Self::lasting(format!(
            "cannot select database {number}: {} {}",
            shown(error.code()),
            shown(words)
        ))
    }

    /// Returns the failure for a peer that replies but is not Redis. `why` describes the reply.
    pub(crate) fn not_redis(why: &str) -> Self {
        Self::lasting(format!("this server is not Redis: {why}"))
    }
}

/// Returns whether `error` shows that the server is not a working primary. Such a server is a
/// replica, or is still loading its data. If a script failed, some servers put the error code only
/// into the text.
pub(crate) fn cannot_be_primary(error: &ServerError) -> bool {
    is_read_only(error) || ["LOADING", "MASTERDOWN"].iter().any(|code| has_code(error, code))
}

/// Returns whether `error` shows that the server accepts no writes.
pub(crate) fn is_read_only(error: &ServerError) -> bool {
    has_code(error, "READONLY")
}

fn has_code(error: &ServerError, code: &str) -> bool {
    let words = error.details().unwrap_or_default();
    error.code() == code || words.contains(&format!("-{code} "))
}

/// The codes that a failure may quote even if the request contained a password. Any other code may
/// be a part of the request, which the server repeats.
const PLAIN: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "DENIED", "ERR", "LOADING", "MASTERDOWN", "MISCONF", "NOPERM"];

impl From<Ending> for ConnectFailure {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::HungUp => Self::passing(
                "the server closed the connection at once: the server may have too many clients, \
                 or use TLS on this port",
            ),
            // rustls puts the TLS alert of the server into this text.
            Ending::Broken(how) if how.contains("CertificateRequired") => {
                Self::lasting(format!("TLS: {how}; set client_certificate"))
            }
            Ending::Broken(how) if how.contains("alert") => Self::lasting(format!("TLS: {how}")),
            Ending::Surplus => Self::not_redis("the server sent more replies than requests"),
            Ending::Unreadable(why) => Self::not_redis(&why),
            other => Self::passing(other.to_string()),
        }
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        let words = in_words(&error);
        Self { source: Some(Arc::new(error)), ..Self::passing(words) }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Returns whether the text `server` names one sentinel, and `place` is its address.
fn is_the_only_sentinel(place: &str, server: &str) -> bool {
    server.strip_suffix(place).is_some_and(|before| before.ends_with(" of the sentinels "))
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn combined_failure_is_permanent_only_if_all_its_parts_are() {
        let passing = || ConnectFailure::passing("no reply").at("a:1");
        let lasting = || ConnectFailure::lasting("NOAUTH").at("b:2");
        let both = ConnectFailure::of_all([passing(), lasting()]);
        assert_eq!(
            (both.to_string().as_str(), both.lasting),
            ("a:1: no reply; b:2: NOAUTH", false)
        );
        assert!(ConnectFailure::of_all([lasting(), lasting()]).lasting);
        assert!(!ConnectFailure::of_all([]).lasting);
    }

    #[test]
    fn combined_failure_is_a_rejection_only_if_all_its_parts_are() {
        let rejected = || ConnectFailure::no_password();
        let rejection = ConnectFailure::of_all([rejected()]).rejection("a:1").unwrap();
        assert_eq!(rejection.to_string(), "rejected: NOAUTH a:1: a password is required");
        assert!(!rejection.is_temporary());
        let here = ConnectFailure::of_all([rejected().after_earlier_login()]);
        let rejection = here.rejection("a:1").unwrap();
        for words in [here.to_string(), rejection.to_string()] {
            assert!(words.contains("NOAUTH") && words.contains("on every server"), "{words}");
        }
        let passing = ConnectFailure::passing("no reply");
        assert!(ConnectFailure::of_all([rejected(), passing]).rejection("a:1").is_none());
        assert!(ConnectFailure::of_all([]).rejection("a:1").is_none());
    }

    /// Former bug: the error named the address of the only sentinel twice.
    #[test]
    fn connect_error_names_the_only_sentinel_once() {
        let of = |server: &str| {
            ConnectFailure::passing("no reply").at("a:1").before(server.into()).to_string()
        };
        assert_eq!(
            of("`main` of the sentinels a:1"),
            "cannot connect to `main` of the sentinels a:1: no reply"
        );
        let two = of("`main` of the sentinels b:1, a:1");
        assert!(two.ends_with("b:1, a:1: a:1: no reply"), "{two}");
    }

    #[test]
    fn sentinel_failure_names_sentinel_settings() {
        for (how, setting) in [
            (ConnectFailure::no_password(), "sentinel_password"),
            (ConnectFailure::rejected(WRONG_PASSWORD), "sentinel_password and sentinel_username"),
            (Ending::Broken("CertificateRequired".into()).into(), "sentinel_client_certificate"),
            (Ending::HungUp.into(), "sentinel_tls"),
        ] {
            let words = how.of_sentinel().to_string();
            assert!(words.ends_with(setting), "{words}");
        }
    }

    #[test]
    fn refused_connection_has_the_same_text_on_connect_and_request() {
        let refused = || io::Error::from_raw_os_error(111);
        let failure = ConnectFailure::from(refused());
        assert_eq!(failure.to_string(), Failure::unreachable(refused()).cause());
        assert_eq!(failure.to_string(), "no server listens at the address (connection refused)");
    }

    fn server_error(words: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{words}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn connect_failure_never_repeats_the_password() {
        for words in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `hunter2`, ",
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'hunter2' ",
            "ERR unsupported command 'HELLO' hunter2",
            "ERR Protocol error: hunter2",
            "hunter2 hunter2",
            "WRONGPASS hunter2",
            "NOAUTH hunter2",
            "NOPROTO hunter2",
            "DENIED hunter2",
        ] {
            let failure = ConnectFailure::of_greeting(&server_error(words), true).to_string();
            assert!(!failure.contains("hunter2") && !failure.is_empty(), "{words}: {failure}");
        }
    }

    #[test]
    fn server_text_is_shortened_and_has_no_secret() {
        let long = format!("ODD a\tb\u{1b}[31m{}", "x".repeat(10_000));
        let failure = ConnectFailure::of_greeting(&server_error(&long), false).to_string();
        assert!(failure.starts_with(r"ODD a\tb\u{1b}[31mxxx") && failure.len() < 300);
    }
}
