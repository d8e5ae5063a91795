//! One connection, which is restored when it is lost. Start with `link.rs`.

pub(crate) mod dial;
pub(crate) mod link;
pub(crate) mod report;
pub(crate) mod supervisor;
pub(crate) mod watcher;
