//! The ids and the numbers of permits.

use std::fmt;

use uuid::Uuid;

use super::{Owner, Share};

/// Maximum number of permits of one claim. The granting script calls a command for each permit. If
/// the permits expire together, Redisson's scripts pass all of them to Lua's `unpack`, which takes
/// at most 8,000 values.
pub(crate) const MOST_AT_ONCE: u32 = 7_000;

/// Maximum number of permits of a semaphore, because Java counts them in an `int`.
pub(crate) const MOST_PERMITS: u32 = i32::MAX.unsigned_abs();

/// The id of one permit: 16 bytes, shown as 32 hex digits like in Redisson.
///
/// An id of Leasehold starts with the first half of the client's UUID, so it shows which client has
/// the permit. The rest is the number of the acquisition and the index of the permit.
///
/// # Examples
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), leasehold::Error> {
/// let client = leasehold::Client::in_memory();
/// let permits = client.expirable_semaphore("printers")?;
/// permits.set(1).await?;
/// let guard = permits.acquire().await?;
/// let id = guard.ids()[0].to_string();
/// assert!(id.starts_with(&client.id()[..8]));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PermitId(Uuid);

impl PermitId {
    /// Makes the id of a permit from `text`, such as an id in the log of a Java process.
    ///
    /// # Errors
    ///
    /// [`InvalidPermitId`] unless `text` is 32 hex digits.
    ///
    /// # Examples
    ///
    /// ```
    /// let id = leasehold::PermitId::new("0f1e2d3c4b5a69788796a5b4c3d2e1f0")?;
    /// assert_eq!(id.to_string(), "0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    /// assert!(leasehold::PermitId::new("1234").is_err());
    /// # Ok::<(), leasehold::InvalidPermitId>(())
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidPermitId> {
        let text = text.as_ref();
        let id = Uuid::parse_str(text).ok().filter(|_| text.len() == 32);
        id.map(Self).ok_or(InvalidPermitId { bytes: text.len() })
    }

    /// Returns the id of permit number `place` of `owner`.
    fn of(owner: &Owner, place: u16) -> Self {
        let (client, number) = owner.bits();
        Self(Uuid::from_u64_pair(client, number << 16 | u64::from(place)))
    }

    /// Returns the id as it is in Redis.
    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// Returns the ids of the permits that `owner` requests or has. The ids depend only on the owner
/// and the number of permits, so the store recognizes a repeated request.
pub(crate) fn permits_of(owner: &Owner, share: Share) -> impl Iterator<Item = PermitId> {
    let count = match share {
        Share::Units(count) => u16::try_from(count).unwrap_or(u16::MAX),
        Share::Whole { .. }
        | Share::Read
        | Share::ReadAfterWriters { .. }
        | Share::Nothing
        | Share::Element(_) => 0,
    };
    (0..count).map(|place| PermitId::of(owner, place))
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(self.0.as_simple(), f)
    }
}

/// Why a text cannot be the id of a permit.
///
/// # Examples
///
/// ```
/// let refused = leasehold::PermitId::new("1234").unwrap_err();
/// let text = "the id of a permit has 32 hex digits, but this text has 4 bytes";
/// assert_eq!(refused.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the id of a permit has 32 hex digits, but this text has {bytes} bytes")]
pub struct InvalidPermitId {
    bytes: usize,
}

/// How many permits of a semaphore are free, and how many are held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    /// The number is negative if more permits are held than the total allows.
    pub(crate) free: i64,
    pub(crate) held: i64,
    /// Whether a client has set the total.
    pub(crate) set: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::Identity;

    #[test]
    fn each_permit_has_a_unique_id() {
        let (one, other) = (Identity::random(), Identity::random());
        let owners = [one.fresh_owner(), one.fresh_owner(), other.fresh_owner()];
        let ids = owners.iter().flat_map(|owner| permits_of(owner, Share::Units(300)));
        assert_eq!(ids.collect::<BTreeSet<_>>().len(), 900);
    }

    #[test]
    fn permit_id_is_derived_from_its_client_and_owner_number() {
        let identity = Identity::of("8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10");
        let owner = identity.fresh_owner();
        let ids: Vec<_> = permits_of(&owner, Share::Units(2)).collect();
        let shown = ids.iter().map(PermitId::to_string).collect::<Vec<_>>();
        assert_eq!(shown[0], "8c6d6a350c0a4a4f0000000000010000");
        assert_eq!(shown[1], "8c6d6a350c0a4a4f0000000000010001");
        assert!(permits_of(&owner, Share::Units(3)).take(2).eq(ids.iter().copied()));
        assert_eq!(PermitId::new(&shown[1]), Ok(ids[1]));
    }

    #[test]
    fn permit_id_given_by_a_caller_has_32_hex_digits() {
        for odd in ["", "1234", "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10", &"g".repeat(32)] {
            assert_eq!(PermitId::new(odd), Err(InvalidPermitId { bytes: odd.len() }));
        }
    }
}
