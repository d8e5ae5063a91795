//! The traits of commands, which permissions and faults use.

/// The properties of a command, as a set of bits.
pub(super) type Traits = u16;

/// The command may change data.
pub(super) const WRITE: Traits = 1;
/// The command may take more memory.
pub(super) const GROWS: Traits = 1 << 1;
pub(super) const READ: Traits = 1 << 2;
/// Scripts must not call the command.
pub(super) const NO_SCRIPT: Traits = 1 << 3;
/// The command works while the server loads its data.
pub(super) const LOADING: Traits = 1 << 4;
/// The command works before the login.
pub(super) const NO_AUTH: Traits = 1 << 5;
/// The command works while a script runs for too long.
pub(super) const BUSY: Traits = 1 << 6;
pub(super) const PUBSUB: Traits = 1 << 7;
pub(super) const SCRIPTING: Traits = 1 << 8;
pub(super) const CONNECTION: Traits = 1 << 9;
pub(super) const ADMIN: Traits = 1 << 10;
pub(super) const DANGEROUS: Traits = 1 << 11;
/// A RESP2 subscriber may send the command.
pub(super) const HEARING: Traits = 1 << 12;
/// The command fails while the disk cannot be written, although the command changes no data.
pub(super) const DISK: Traits = 1 << 13;

/// The channels of the command belong to slots.
pub(super) const SHARDED: Traits = 1 << 14;

/// The names of ACL categories, each with its trait.
const CATEGORIES: [(&str, Traits); 7] = [
    ("admin", ADMIN),
    ("connection", CONNECTION),
    ("dangerous", DANGEROUS),
    ("pubsub", PUBSUB),
    ("read", READ),
    ("scripting", SCRIPTING),
    ("write", WRITE),
];

/// Returns the trait of the ACL category with this name.
pub(super) fn category(name: &str) -> Option<Traits> {
    CATEGORIES.iter().find(|(category, _)| *category == name).map(|(_, traits)| *traits)
}
