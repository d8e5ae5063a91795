//! What a client publishes about itself while it has holds that last.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime},
};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// How many names of holds are published: those of the oldest holds.
pub(crate) const MOST_HOLDS: usize = 100;

/// A value ends at the end of its line.
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
    /// The number of the process.
    pub pid: u32,
    holds: Vec<(String, SystemTime)>,
}

impl ClientInfo {
    /// Describes this process, which has no holds yet.
    pub(crate) fn of(application: String, version: String) -> Self {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy().into_owned();
        Self { application, version, host, pid: std::process::id(), holds: vec![] }
    }

    /// Returns since when it holds the object `name`, by the clock of its machine.
    ///
    /// `None` if it holds no such object, if the hold is younger than ten seconds and not yet
    /// published, or if there are a hundred older ones.
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
        self.holds.iter().find(|(held, _)| held == name).map(|(_, since)| *since)
    }

    /// Returns the text for the store, with the oldest of these holds.
    pub(crate) fn text<'a>(&self, holds: impl Iterator<Item = (&'a str, SystemTime)>) -> String {
        let Self { application, version, host, pid, .. } = self;
        let [application, version, host] = [application, version, host].map(|it| encoded(it));
        let mut text =
            format!("application={application}\nversion={version}\nhost={host}\npid={pid}\n");
        let mut holds: Vec<_> = holds.collect();
        holds.sort_by_key(|(_, since)| *since);
        for (name, since) in holds.into_iter().take(MOST_HOLDS) {
            let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let since = since.as_millis().to_string();
            text += &["hold=", &since, " ", &encoded(name), "\n"].concat();
        }
        text
    }

    /// Reads that text. It skips lines that it does not know, and `None` means no text of a client.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let lines = || text.lines().filter_map(|line| line.split_once('='));
        let value = |key| lines().find(|(it, _)| *it == key).map(|(_, value)| decoded(value));
        let hold = |text: &str| {
            let (since, name) = text.split_once(' ')?;
            let since = Duration::from_millis(since.parse().ok()?);
            Some((decoded(name), SystemTime::UNIX_EPOCH.checked_add(since)?))
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

fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, ENCODED).into()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// On one line, whatever the values are.
impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { application, version, host, pid, .. } = self;
        let line = format!("{application} {version} on {host} (pid {pid})");
        f.write_str(&line.replace(char::is_control, " "))
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
    fn client_info_survives_its_text() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let text = info().text([("b\n%", at(9)), ("a =", at(7))].into_iter());
        let read = ClientInfo::read(&format!("later=1\n{text}")).unwrap();
        assert_eq!((read.held_since("b\n%"), read.held_since("a =")), (Some(at(9)), Some(at(7))));
        assert_eq!(ClientInfo { holds: vec![], ..read }, info());
        assert_eq!(info().to_string(), "nightly close 1.4% on web-7 (pid 4711)");
    }

    #[test]
    fn client_info_has_the_oldest_holds() {
        let names: Vec<_> = (0..2 * MOST_HOLDS as u64).rev().map(|it| it.to_string()).collect();
        let at = |name: &str| SystemTime::UNIX_EPOCH + Duration::from_secs(name.parse().unwrap());
        let text = info().text(names.iter().map(|name| (&**name, at(name))));
        let read = ClientInfo::read(&text).unwrap();
        assert!(read.held_since("99").is_some() && read.held_since("100").is_none());
    }

    #[test]
    fn foreign_text_is_no_client_info() {
        for text in ["", "x", "application=a\nversion=b\nhost=c\npid=x\n", "pid=1\n"] {
            assert_eq!(ClientInfo::read(text), None, "{text}");
        }
        let huge = "application=\nversion=\nhost=\npid=1\nhold=99999999999999999999 x\nhold=x\n";
        assert_eq!(ClientInfo::read(huge).unwrap().holds.len(), 0);
    }
}
