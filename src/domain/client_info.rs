//! What a client publishes in Redis about itself, while it has a hold that lasts longer than a
//! second.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime},
};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::{Owner, name::on_one_line};

/// Maximum number of holds that a client publishes. It publishes the oldest holds.
pub(crate) const MOST_HOLDS: usize = 100;

/// The maximum length of a published reason, in bytes.
const LONGEST_REASON: usize = 128;

const SECONDS_PER_DAY: u64 = 86_400;

/// Control characters are encoded, because a newline ends a value and a tab begins a reason.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// What a client publishes about itself: see
/// [`ClientBuilder::application`](crate::ClientBuilder::application).
///
/// # Examples
///
/// ```
/// # fn demo(info: leasehold::ClientInfo) {
/// // orders 1.4.2 on web-7 (pid 4711), since 300 s
/// let since = info.held_since("nightly close").and_then(|since| since.elapsed().ok());
/// println!("{info}, since {} s", since.unwrap_or_default().as_secs());
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The name of the application.
    pub application: String,
    /// The version of the application.
    pub version: String,
    /// The name of the host.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
    holds: Vec<Published>,
}

/// A hold that a client has published.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Published {
    name: String,
    /// The owner of the hold, without the id of the client.
    number: String,
    since: SystemTime,
    reason: Option<String>,
}

/// A hold that a client is going to publish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldInfo<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) since: SystemTime,
    pub(crate) reason: Option<&'a str>,
}

impl ClientInfo {
    /// Describes this process, which has no holds yet.
    pub(crate) fn of(application: String, version: String) -> Self {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy().into_owned();
        Self { application, version, host, pid: std::process::id(), holds: vec![] }
    }

    /// Returns when this client acquired the object `name`, by the clock of its machine.
    ///
    /// Returns `None` if the client does not hold the object, or has a hundred older holds. Also
    /// returns `None` if the client has not yet published the hold, which takes up to ten seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(info: leasehold::ClientInfo) {
    /// println!("held since {:?}", info.held_since("orders:42"));
    /// # }
    /// ```
    #[must_use]
    pub fn held_since(&self, name: &str) -> Option<SystemTime> {
        self.hold(name).map(|hold| hold.since)
    }

    /// Returns the [`reason`](crate::Lock::reason) for which this client holds the object `name`.
    ///
    /// Returns `None` if the hold has no reason, or if [`held_since`](Self::held_since) returns
    /// `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(info: leasehold::ClientInfo) {
    /// println!("held for {}", info.reason("orders:42").unwrap_or("an unknown reason"));
    /// # }
    /// ```
    #[must_use]
    pub fn reason(&self, name: &str) -> Option<&str> {
        self.hold(name)?.reason.as_deref()
    }

    fn hold(&self, name: &str) -> Option<&Published> {
        self.holds.iter().find(|hold| hold.name == name)
    }

    /// Keeps only the hold of `name` by `owner`, if it is published.
    pub(crate) fn only_of(mut self, name: &str, owner: &Owner) -> Self {
        let number = number(owner.as_str());
        self.holds.retain(|hold| hold.name == name && hold.number == number);
        self.holds.truncate(1);
        self
    }

    /// Returns the beginning and the reason of the hold that [`only_of`](Self::only_of) kept.
    pub(crate) fn only_hold(&self) -> Option<(SystemTime, Option<&str>)> {
        self.holds.first().map(|hold| (hold.since, hold.reason.as_deref()))
    }

    /// Returns the text for the store, with the oldest of these holds.
    pub(crate) fn text<'a>(&self, holds: impl Iterator<Item = HoldInfo<'a>>) -> String {
        let Self { application, version, host, pid, .. } = self;
        let [application, version, host] = [application, version, host].map(|it| encoded(it));
        let mut text =
            format!("application={application}\nversion={version}\nhost={host}\npid={pid}\n");
        let mut holds: Vec<_> = holds.collect();
        holds.sort_by_key(|hold| hold.since);
        for HoldInfo { name, owner, since, reason } in holds.into_iter().take(MOST_HOLDS) {
            let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let since = since.as_millis().to_string();
            let number = encoded(number(owner));
            text += &["hold=", &since, " ", &number, " ", &encoded(name)].concat();
            if let Some(reason) = reason {
                text += &["\t", &encoded(cut(reason))].concat();
            }
            text += "\n";
        }
        text
    }

    /// Reads the text that [`text`](Self::text) wrote, and skips unknown lines. Returns `None` if
    /// no client wrote this text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let lines = || text.lines().filter_map(|line| line.split_once('='));
        let value = |key| lines().find(|(it, _)| *it == key).map(|(_, value)| decoded(value));
        let hold = |text: &str| {
            let (since, rest) = text.split_once(' ')?;
            let (number, rest) = rest.split_once(' ')?;
            let (name, reason) = match rest.split_once('\t') {
                Some((name, reason)) => (name, Some(decoded(reason))),
                None => (rest, None),
            };
            let since = Duration::from_millis(since.parse().ok()?);
            let since = SystemTime::UNIX_EPOCH.checked_add(since)?;
            Some(Published { name: decoded(name), number: decoded(number), since, reason })
        };
        let holds = lines().filter(|(key, _)| *key == "hold");
        Some(Self {
            application: value("application")?,
            version: value("version")?,
            host: value("host")?,
            pid: value("pid")?.parse().ok()?,
            holds: holds.filter_map(|(_, text)| hold(text)).take(MOST_HOLDS).collect(),
        })
    }
}

/// Returns the part of an owner after the id of the client. The id contains no colon.
fn number(owner: &str) -> &str {
    owner.split_once(':').map_or(owner, |(_, number)| number)
}

/// Cuts `reason` to at most `LONGEST_REASON` bytes, at the end of a character.
fn cut(reason: &str) -> &str {
    let end =
        (0..=reason.len().min(LONGEST_REASON)).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}

pub(super) fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the date and the time of `moment`, such as `2026-11-25 14:03:11 UTC`.
pub(crate) fn in_utc(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, time) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    // This calculation uses years that begin in March, so a leap day is the last day of its year.
    // The calendar repeats after 400 years, which are one era.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + later;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Shows one line: control characters and invisible characters are escaped.
impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { application, version, host, pid, .. } = self;
        on_one_line(&format!("{application} {version} on {host} (pid {pid})"), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ClientInfo {
        let [application, version, host] = ["nightly\nclose", "1.4%", "web-7"].map(str::to_owned);
        ClientInfo { application, version, host, pid: 4711, holds: vec![] }
    }

    #[test]
    fn client_info_is_read_back_from_its_text() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let hold =
            |name, seconds, reason| HoldInfo { name, owner: "c:1", since: at(seconds), reason };
        let holds = [hold("b\n%", 9, Some("nightly\tclose\n%")), hold("a =", 7, None)];
        let read =
            ClientInfo::read(&format!("later=1\n{}", info().text(holds.into_iter()))).unwrap();
        assert_eq!((read.reason("b\n%"), read.reason("a =")), (Some("nightly\tclose\n%"), None));
        assert_eq!((read.held_since("b\n%"), read.held_since("a =")), (Some(at(9)), Some(at(7))));
        assert_eq!(ClientInfo { holds: vec![], ..read }, info());
        assert_eq!(info().to_string(), r"nightly\nclose 1.4% on web-7 (pid 4711)");
    }

    #[test]
    fn client_info_lists_only_the_oldest_holds() {
        let names: Vec<_> = (0..2 * MOST_HOLDS as u64).rev().map(|it| it.to_string()).collect();
        let at = |name: &str| SystemTime::UNIX_EPOCH + Duration::from_secs(name.parse().unwrap());
        let hold = |name| HoldInfo { name, owner: "c:1", since: at(name), reason: None };
        let text = info().text(names.iter().map(|name| hold(name)));
        let read = ClientInfo::read(&text).unwrap();
        assert!(read.held_since("99").is_some() && read.held_since("100").is_none());
    }

    #[test]
    fn client_info_of_one_owner_has_only_its_hold() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let hold =
            |owner, since| HoldInfo { name: "a", owner, since: at(since), reason: Some(owner) };
        let text = info().text([hold("c:1", 7), hold("c:2", 9)].into_iter());
        let only = |owner| {
            let only = ClientInfo::read(&text).unwrap().only_of("a", &Owner::new(owner).unwrap());
            only.only_hold().map(|(since, reason)| (since, reason.unwrap().to_owned()))
        };
        assert_eq!(only("c:2"), Some((at(9), "c:2".to_owned())));
        assert_eq!(only("c:3"), None);
    }

    #[test]
    fn long_reason_is_cut_to_its_maximum_length() {
        let reason = format!("a{}", "é".repeat(LONGEST_REASON));
        let hold = HoldInfo {
            name: "a",
            owner: "c:1",
            since: SystemTime::UNIX_EPOCH,
            reason: Some(&reason),
        };
        let read = ClientInfo::read(&info().text([hold].into_iter())).unwrap();
        let published = read.reason("a").unwrap();
        assert_eq!(published.len(), LONGEST_REASON - 1);
        assert!(reason.starts_with(published));
    }

    #[test]
    fn time_in_client_info_is_printed_as_date_and_time() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_827_696, "2000-02-29 12:34:56 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(in_utc(moment), text);
        }
    }

    #[test]
    fn foreign_text_is_not_read_as_client_info() {
        for text in ["", "x", "application=a\nversion=b\nhost=c\npid=x\n", "pid=1\n"] {
            assert_eq!(ClientInfo::read(text), None, "{text}");
        }
        let huge = "application=\nversion=\nhost=\npid=1\nhold=99999999999999999999 x\nhold=x\n";
        assert_eq!(ClientInfo::read(huge).unwrap().holds.len(), 0);
    }
}
