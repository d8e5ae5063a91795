//! Why a client cannot connect.

use std::{error::Error as StdError, sync::Arc};

/// The source of an error, of any type.
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
        /// Whether a retry cannot help: a person has to change a setting.
        permanent: bool,
        /// The source of the error, if there is one.
        source: Option<Cause>,
    },
    /// The call came from outside a tokio runtime.
    #[error("no tokio runtime")]
    NoRuntime,
    /// The URL of a server is invalid. The field names the part that is wrong.
    #[error("invalid URL: {0}")]
    Url(String),
}
