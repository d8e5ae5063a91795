//! Why there is no connection, in words for a person: one line, no secret, and no
//! words of a stranger that are longer than need be.

use std::{fmt, io};

use redis::ServerError;

use super::{ending::Ending, shown::shown};
use crate::{
    domain::Failure,
    error::{Cause, Error},
};

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectFailure {
    words: String,
    /// Whether it stays until somebody changes something.
    lasting: bool,
    /// Whether somebody has answered, with a no.
    refused: bool,
    /// Whether the server does not know us.
    rejection: Option<Rejection>,
    source: Option<Cause>,
}

/// How a server says that it does not let in who we say we are.
#[derive(Clone, Copy, Debug)]
struct Rejection {
    code: &'static str,
    means: &'static str,
    /// Whether we were let in before, maybe by another server.
    late: bool,
}

const WRONG_PASSWORD: Rejection =
    Rejection { code: "WRONGPASS", means: "user or password is wrong", late: false };
const NO_PASSWORD: Rejection =
    Rejection { code: "NOAUTH", means: "a password is required", late: false };

/// What that may mean where we were let in before.
const MISSING_HERE: &str =
    "; an earlier login succeeded, but users are not replicated; create the user on every server";

impl Rejection {
    /// What to do about it, if that is known.
    fn advice(self) -> &'static str {
        if self.late { MISSING_HERE } else { "" }
    }
}

/// What servers say when they send somebody away who knocks, and what that means.
const SENT_AWAY: [(&str, &str); 4] = [
    ("max number of clients", "the server has too many clients: max number of clients reached"),
    (
        "protected mode",
        "the server is in protected mode: it accepts only local connections; set a password or \
         turn it off",
    ),
    (
        "nknown command",
        "the server does not know HELLO: it is older than Redis 6, or HELLO is renamed",
    ),
    ("nsupported command", "the server does not know HELLO: it may be a proxy"),
];

/// How what is said of a server ends, and how it ends if it is said of a sentinel.
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

/// What to do where somebody is no sentinel.
pub(super) const NAME_SENTINELS: &str = "use addresses of sentinels, or redis://host:port";

impl ConnectFailure {
    /// One that may be gone in a moment.
    pub(super) fn passing(words: impl Into<String>) -> Self {
        Self { words: words.into(), lasting: false, refused: false, rejection: None, source: None }
    }

    /// One that stays until somebody changes something.
    pub(super) fn lasting(words: impl Into<String>) -> Self {
        Self { lasting: true, ..Self::passing(words) }
    }

    fn rejected(rejection: Rejection) -> Self {
        let words = format!("{}: {}{}", rejection.means, rejection.code, rejection.advice());
        Self { rejection: Some(rejection), refused: true, ..Self::lasting(words) }
    }

    /// The same, of one of several servers, after we were let in by one of them.
    pub(super) fn after_earlier_login(self) -> Self {
        match self.rejection {
            Some(rejection) => Self::rejected(Rejection { late: true, ..rejection }),
            None => self,
        }
    }

    /// Whether it stays until somebody changes something.
    pub(super) fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// Whether somebody has answered, with a no.
    pub(super) fn is_refusal(&self) -> bool {
        self.refused
    }

    /// The same, said of `place`: there are others.
    pub(super) fn at(self, place: impl fmt::Display) -> Self {
        Self { words: format!("{place}: {}", self.words), ..self }
    }

    /// The same, if it is the network's, with this hint.
    pub(super) fn unreached(self, hint: Option<String>) -> Self {
        match hint.filter(|_| self.source.is_some()) {
            Some(hint) => Self { words: format!("{}; {hint}", self.words), ..self },
            None => self,
        }
    }

    /// All that is in the way, one thing in each place.
    pub(super) fn of_all(failures: impl IntoIterator<Item = Self>) -> Self {
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

    /// What it is to whoever asks `server`, if that does not let us in.
    pub(super) fn rejection(&self, server: &str) -> Option<Failure> {
        let rejection = self.rejection?;
        let Rejection { code, means, .. } = rejection;
        Some(Failure::refused(code, format!("{server}: {means}{}", rejection.advice())))
    }

    /// What it is to whoever wants to connect to `server`.
    pub(super) fn before(self, server: String) -> Error {
        let Self { words: reason, lasting, source, .. } = self;
        Error::Connect { server, reason, permanent: lasting, source }
    }

    /// The server refuses the greeting that carries user and password. Some repeat
    /// what they do not understand: their words are not shown if there is a secret.
    pub(super) fn of_greeting(error: &ServerError, secret: bool) -> Self {
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

    /// The server wants a password, and there is none.
    pub(super) fn no_password() -> Self {
        Self::rejected(NO_PASSWORD)
    }

    /// The server says this. A missing right stays until somebody gives it.
    pub(super) fn of_refusal(error: &ServerError) -> Self {
        let words = error.details().unwrap_or_default();
        let words = format!("{} {}", shown(error.code()), shown(words));
        Self { lasting: error.code() == "NOPERM", refused: true, ..Self::passing(words) }
    }

    /// The same, of a sentinel: it has settings of its own.
    pub(super) fn of_sentinel(self) -> Self {
        let words = OF_SENTINELS.iter().find_map(|(of_server, of_sentinel)| {
            Some(format!("{}{of_sentinel}", self.words.strip_suffix(of_server)?))
        });
        Self { words: words.unwrap_or(self.words), ..self }
    }

    /// The same, of somebody who may be no sentinel: a server does not say what it is before it
    /// lets us in.
    pub(super) fn of_possible_server(self) -> Self {
        match self.rejection {
            Some(_) => Self {
                words: format!(
                    "{}; or this server is not a Sentinel: {NAME_SENTINELS}",
                    self.words
                ),
                ..self
            },
            None => self,
        }
    }

    /// The server refuses the database with this number.
    pub(super) fn of_database(number: u32, error: &ServerError) -> Self {
        let words = error.details().unwrap_or_default();
        Self::lasting(format!(
            "cannot select database {number}: {} {}",
            shown(error.code()),
            shown(words)
        ))
    }

    /// Something answers that is not what we look for.
    pub(super) fn stranger(why: &str) -> Self {
        Self::lasting(format!("this server is not Redis: {why}"))
    }
}

/// Whether somebody who says this is no primary that works: it copies another, or is only
/// starting. Some servers put a code into the words of a script.
pub(super) fn cannot_be_primary(error: &ServerError) -> bool {
    is_read_only(error) || ["LOADING", "MASTERDOWN"].iter().any(|code| has_code(error, code))
}

/// Whether somebody who says this takes no writes.
pub(super) fn is_read_only(error: &ServerError) -> bool {
    has_code(error, "READONLY")
}

fn has_code(error: &ServerError, code: &str) -> bool {
    let words = error.details().unwrap_or_default();
    error.code() == code || words.contains(&format!("-{code} "))
}

/// Codes that are no repetition of anything.
const PLAIN: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "DENIED", "ERR", "LOADING", "MASTERDOWN", "MISCONF", "NOPERM"];

impl From<Ending> for ConnectFailure {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::HungUp => Self::passing(
                "the server closed the connection at once: it may have too many clients, or use \
                 TLS on this port",
            ),
            // rustls puts the words of the other side's alert here.
            Ending::Broken(how) if how.contains("CertificateRequired") => {
                Self::lasting(format!("TLS: {how}; set client_certificate"))
            }
            Ending::Broken(how) if how.contains("alert") => Self::lasting(format!("TLS: {how}")),
            Ending::Surplus => Self::stranger("it sends more replies than requests"),
            Ending::Unreadable(why) => Self::stranger(&why),
            other => Self::passing(other.to_string()),
        }
    }
}

impl From<io::Error> for ConnectFailure {
    fn from(error: io::Error) -> Self {
        let words = error.to_string();
        Self { source: Some(Cause::of(error)), ..Self::passing(words) }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn combined_failure_is_lasting_only_if_all_parts_are() {
        let passing = || ConnectFailure::passing("no answer").at("a:1");
        let lasting = || ConnectFailure::lasting("NOAUTH").at("b:2");
        let both = ConnectFailure::of_all([passing(), lasting()]);
        assert_eq!(
            (both.to_string().as_str(), both.lasting),
            ("a:1: no answer; b:2: NOAUTH", false)
        );
        assert!(ConnectFailure::of_all([lasting(), lasting()]).lasting);
        assert!(!ConnectFailure::of_all([]).lasting);
    }

    #[test]
    fn combined_failure_is_a_rejection_only_if_all_parts_are() {
        let rejected = || ConnectFailure::no_password();
        let rejection = ConnectFailure::of_all([rejected()]).rejection("a:1").unwrap();
        assert_eq!(rejection.to_string(), "rejected: NOAUTH a:1: a password is required");
        assert!(!rejection.may_pass());
        let here = ConnectFailure::of_all([rejected().after_earlier_login()]);
        let rejection = here.rejection("a:1").unwrap();
        for words in [here.to_string(), rejection.to_string()] {
            assert!(words.contains("NOAUTH") && words.contains("on every server"), "{words}");
        }
        let passing = ConnectFailure::passing("no answer");
        assert!(ConnectFailure::of_all([rejected(), passing]).rejection("a:1").is_none());
        assert!(ConnectFailure::of_all([]).rejection("a:1").is_none());
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
    fn server_words_are_shown_shortened_without_a_secret() {
        let long = format!("ODD a\tb\u{1b}[31m{}", "x".repeat(10_000));
        let failure = ConnectFailure::of_greeting(&server_error(&long), false).to_string();
        assert!(failure.starts_with(r"ODD a\tb\u{1b}[31mxxx") && failure.len() < 300);
    }
}
