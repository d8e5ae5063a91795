//! Finds the primary, and notices when its address changes.

pub(crate) mod primary_discovery;
pub(crate) mod published;
pub(crate) mod sentinel_views;
pub(crate) mod sentinels;
