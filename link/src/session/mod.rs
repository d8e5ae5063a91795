//! Opens a stream to an address, logs in, and reads what the server reports about itself.

pub(crate) mod about;
pub(crate) mod hazards;
pub(crate) mod info;
pub(crate) mod login;
pub(crate) mod reach;
#[cfg(feature = "tls")]
pub(crate) mod tls;
