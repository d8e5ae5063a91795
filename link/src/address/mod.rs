//! URLs, settings and addresses: where the servers are, and the credentials of this client.

pub(crate) mod host_port;
pub(crate) mod resolver;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod target;
pub(crate) mod translation;
pub(crate) mod url;
