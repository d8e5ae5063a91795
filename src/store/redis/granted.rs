//! The commands about a grant that `leasehold_link` needs to count the replicas with this grant.

use std::sync::LazyLock;

use leasehold_link::{Channels, Evidence};
use redis::{Cmd, cmd};

use super::scripts::{Script, script};

static TOUCH: LazyLock<Script> = script!("kinds/touch");

/// Two commands about a grant. One command writes the grant again, and the other command checks
/// whether it exists. If Redis no longer has the grant, both commands reply 0 or nil.
#[derive(Clone, Debug)]
pub(super) struct Granted(pub(super) Evidence);

impl Granted {
    /// Returns the commands about a grant that is a field of the hash `keys[0]`. The other keys
    /// belong to the same grant.
    pub(super) fn field(keys: &[&str], field: &str) -> Self {
        let hash = keys.first().copied().unwrap_or_default();
        let look = cmd("HEXISTS").arg(hash).arg(field).clone();
        Self::new(&TOUCH, keys, field.as_bytes(), look)
    }

    /// Returns the commands about a grant that `script` writes again, unchanged, and that `look`
    /// checks. `EVAL` sends the text of the script, because the text is short, and this connection
    /// has not loaded the script.
    pub(super) fn new(script: &Script, keys: &[&str], what: &[u8], look: Cmd) -> Self {
        let mut touch = cmd("EVAL");
        touch.arg(script.text(Channels::Plain)).arg(keys.len()).arg(keys).arg(what);
        Self(Evidence { touch, look })
    }

    /// Returns the same commands, but with `look` as the command that checks the grant.
    pub(super) fn found_by(self, look: Cmd) -> Self {
        Self(Evidence { look, ..self.0 })
    }
}
