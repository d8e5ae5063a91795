//! The pages that are not about one item.
//!
//! Every Rust example in them is compiled and run by `cargo test`, on the store
//! in this process. The same pages lie in `docs/` of the repository, where links
//! lead to files: the first line of each module leads them to modules instead.

/// [design]: design
/// [performance]: performance
#[doc = include_str!("../docs/comparison.md")]
pub mod comparison {}

/// [design]: design#the-redis-client
#[doc = include_str!("../docs/dependencies.md")]
pub mod dependencies {}

/// [protocol]: protocol
/// [architecture]: https://github.com/leasehold/leasehold/blob/main/ARCHITECTURE.md
/// [comparison]: comparison
/// [performance]: performance
#[doc = include_str!("../docs/design.md")]
pub mod design {}

/// [guide]: guide
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

/// [guarantees]: guarantees
/// [wire]: protocol
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

/// [design]: design
#[doc = include_str!("../docs/migrating-from-redisson.md")]
pub mod migrating_from_redisson {}

/// [design]: design
/// [throughput]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/throughput.svg
/// [hand-overs]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/hand-overs.svg
/// [commands]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/commands.svg
/// [in-process]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/in-process.svg
/// [watchdog-client]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/watchdog-client.svg
/// [names-16]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/names-16.svg
/// [waiting]: https://raw.githubusercontent.com/leasehold/leasehold/main/docs/plots/waiting.svg
#[doc = include_str!("../docs/performance.md")]
pub mod performance {}

/// [guarantees]: guarantees
#[doc = include_str!("../docs/protocol.md")]
pub mod protocol {}

/// The README is no page of its own, but its example is compiled like theirs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
