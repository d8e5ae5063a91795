//! One stream of bytes: requests of many callers in one direction, replies in order in the other.

pub(crate) mod connector;
pub(crate) mod ending;
pub(crate) mod frames;
pub(crate) mod stream;
pub(crate) mod watch;
pub(crate) mod wire;
