//! What was granted, as the server that has granted it is asked about it for its replicas.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

use super::{
    channels::Channels,
    scripts::{Script, script},
};

static TOUCH: LazyLock<Script> = script!("touch");
static TOUCH_PERMIT: LazyLock<Script> = script!("permits/touch");

/// Two questions about what was granted. To what is not there the answer is 0, or nothing.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// Writes it as it is, so that replicas are told of something behind it.
    pub(super) touch: Cmd,
    /// Finds it, and writes nothing.
    pub(super) look: Cmd,
}

impl Granted {
    /// A field of the hash that lies under the first of `keys`. The others are more of it.
    pub(super) fn field(keys: &[&str], field: &str) -> Self {
        let hash = keys.first().copied().unwrap_or_default();
        let look = cmd("HEXISTS").arg(hash).arg(field).clone();
        Self { touch: touch(&TOUCH, keys, field.as_bytes()), look }
    }

    /// The permit called `id`, of those that are held under `key`.
    pub(super) fn permit(key: &str, id: &[u8]) -> Self {
        let look = cmd("ZSCORE").arg(key).arg(id).clone();
        Self { touch: touch(&TOUCH_PERMIT, &[key], id), look }
    }

    /// The same, found by another question.
    pub(super) fn found_by(self, look: Cmd) -> Self {
        Self { look, ..self }
    }
}

/// By text: on the connection that asks nobody has loaded it, and it is short.
fn touch(script: &Script, keys: &[&str], what: &[u8]) -> Cmd {
    let mut command = script.by_text(keys.len(), Channels::Plain);
    command.arg(keys).arg(what);
    command
}
