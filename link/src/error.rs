//! Why a client cannot connect.

use std::{error::Error as StdError, sync::Arc};

/// The underlying cause of an error.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// Why a client cannot connect.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server is unreachable, or rejects the client. `reason` names the cause.
    #[error("cannot connect to {server}: {reason}")]
    Connect {
        /// The address, without user and password.
        server: String,
        /// The cause and its remedy.
        reason: String,
        /// Whether the error is permanent: retries fail until a person changes a setting.
        permanent: bool,
        /// The underlying cause, if there is one.
        source: Option<Cause>,
    },
    /// The call came from outside a tokio runtime.
    #[error("no tokio runtime")]
    NoRuntime,
    /// The URL of a server is invalid. The text names the invalid part.
    #[error("invalid URL: {0}")]
    Url(String),
}
