//! Finds the primary, and notices that it moved.

pub(crate) mod primary_discovery;
pub(crate) mod published;
pub(crate) mod sentinel_views;
pub(crate) mod sentinels;
