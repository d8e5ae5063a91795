//! One stream of bytes, which carries the requests of many callers and the replies in the same
//! order.

pub(crate) mod connector;
pub(crate) mod ending;
pub(crate) mod frames;
pub(crate) mod stream;
pub(crate) mod watch;
pub(crate) mod wire;
