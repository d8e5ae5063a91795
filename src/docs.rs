//! The pages that are not about one item.
//!
//! Every Rust example in them is compiled and run by `cargo test`, on the store
//! in this process. The same pages lie in `docs/` of the repository.

#[doc = include_str!("../docs/comparison.md")]
pub mod comparison {}

#[doc = include_str!("../docs/dependencies.md")]
pub mod dependencies {}

#[doc = include_str!("../docs/design.md")]
pub mod design {}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

/// The README is no page of its own, but its example is compiled like theirs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
