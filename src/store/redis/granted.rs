//! A grant, as data for the request that asks its server for acknowledgements.

use std::sync::LazyLock;

use leasehold_link::{Channels, Evidence};
use redis::{Cmd, cmd};

use super::scripts::{Script, script};

static TOUCH: LazyLock<Script> = script!("kinds/touch");

/// Two commands that check whether a grant is still in Redis. If it is not, both reply 0 or nil.
#[derive(Clone, Debug)]
pub(super) struct Granted(pub(super) Evidence);

impl Granted {
    /// A field of the hash under the first of `keys`. The other keys belong to the same grant.
    pub(super) fn field(keys: &[&str], field: &str) -> Self {
        let hash = keys.first().copied().unwrap_or_default();
        let look = cmd("HEXISTS").arg(hash).arg(field).clone();
        Self::new(&TOUCH, keys, field.as_bytes(), look)
    }

    /// A grant that `script` writes again unchanged and `look` finds. The script is sent as text,
    /// because it is short and was not loaded on this connection.
    pub(super) fn new(script: &Script, keys: &[&str], what: &[u8], look: Cmd) -> Self {
        let mut touch = cmd("EVAL");
        touch.arg(script.text(Channels::Plain)).arg(keys.len()).arg(keys).arg(what);
        Self(Evidence { touch, look })
    }

    /// The same, found by another command.
    pub(super) fn found_by(self, look: Cmd) -> Self {
        Self(Evidence { look, ..self.0 })
    }
}
