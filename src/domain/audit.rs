//! The record of a release by force.

use std::time::{Duration, SystemTime};

use super::{
    Name, Owner,
    client_info::{decoded, encoded, in_utc},
};

/// The maximum length of the field `by` of a record, in characters.
const LONGEST_BY: usize = 256;

/// The record of a hold that a client released by force: see [`Lock::force_release_owner`].
///
/// The client writes the record before the release. So the hold may have ended by itself before the
/// release, or the release may have failed.
///
/// [`Lock::force_release_owner`]: crate::Lock::force_release_owner
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let lock = client.lock("orders:42")?;
/// let guard = lock.acquire().await?;
/// lock.force_release_owner(guard.owner(), "root on web-7").await?;
/// let last = &client.forced_releases().await?[0];
/// assert_eq!((&*last.name, &*last.by), ("orders:42", "root on web-7"));
/// assert_eq!(last.owner, guard.owner().as_str());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ForcedRelease {
    /// When the client wrote the record, by the clock of its machine.
    pub at: SystemTime,
    /// The name of the lock.
    pub name: String,
    /// The owner of the hold.
    pub owner: String,
    /// How the caller described itself.
    pub by: String,
}

impl ForcedRelease {
    pub(crate) fn new(at: SystemTime, name: &Name, owner: &Owner, by: &str) -> Self {
        let by = by.chars().take(LONGEST_BY).collect();
        Self { at, name: name.as_str().to_owned(), owner: owner.as_str().to_owned(), by }
    }

    /// Returns the text for the store: four fields, separated by tabs.
    pub(crate) fn text(&self) -> String {
        let millis = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let [name, owner, by] = [&self.name, &self.owner, &self.by].map(|field| encoded(field));
        format!("{millis}\t{name}\t{owner}\t{by}")
    }

    /// Reads the text that [`text`](Self::text) wrote. Returns `None` for a text of another
    /// program.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut fields = text.split('\t');
        let millis = Duration::from_millis(fields.next()?.parse().ok()?);
        let at = SystemTime::UNIX_EPOCH.checked_add(millis)?;
        let mut field = || fields.next().map(decoded);
        Some(Self { at, name: field()?, owner: field()?, by: field()? })
    }

    /// Returns the field `at` as a text, such as `2026-11-25 14:03:11 UTC`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn demo(forced: leasehold::ForcedRelease) {
    /// println!("{}: `{}` was released by {}", forced.time(), forced.name, forced.by);
    /// # }
    /// ```
    #[must_use]
    pub fn time(&self) -> String {
        in_utc(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_release_record_is_read_back_from_its_text() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        let (name, owner) = (Name::new("a\tb%").unwrap(), Owner::lossy("java\n:1"));
        let forced = ForcedRelease::new(at, &name, &owner, "root\ton é");
        assert_eq!(ForcedRelease::read(&forced.text()), Some(forced));
        let long = ForcedRelease::new(at, &name, &owner, &"é".repeat(2 * LONGEST_BY));
        assert_eq!(long.by.chars().count(), LONGEST_BY);
    }

    #[test]
    fn foreign_text_is_not_read_as_a_forced_release() {
        for text in ["", "x\ta\tb\tc", "1\ta\tb", "99999999999999999999\ta\tb\tc"] {
            assert_eq!(ForcedRelease::read(text), None, "{text}");
        }
    }
}
