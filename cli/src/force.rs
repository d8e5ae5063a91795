//! Releases locks by force, for `unlock --force`, `top` and `ui`.

use std::{env, process};

use leasehold::{Client, Holder, Inspection, Lock, Name, ObjectKind};

use crate::{
    exit::{ABSENT, DATA, Exit},
    inspect::as_text,
};

pub(crate) const QUESTION: &str =
    "The holders work on until they notice. Release the lock by force?";

/// A held lock, with the holders that the user was shown. A release by force ends only their holds.
#[derive(Debug)]
pub(crate) struct Forcible {
    found: Inspection,
    lock: Lock,
}

impl Forcible {
    /// Finds the holders of `name`. Fails if the lock cannot be released by force.
    pub(crate) async fn find(client: &Client, name: &str) -> Result<Self, Exit> {
        let found = client.inspect(name).await?.filter(|found| !found.holders.is_empty());
        let Some(found) = found else {
            let text = format!("unlock `{name}`: the lock is free; nothing was released");
            return Err(Exit::new(ABSENT, text));
        };
        let lock = match found.kind {
            ObjectKind::Lock => client.lock(name)?,
            ObjectKind::FairLock => client.fair_lock(name)?,
            ObjectKind::ReadLock => client.read_write_lock(name)?.read(),
            ObjectKind::WriteLock => client.read_write_lock(name)?.write(),
            kind => {
                let remedy = "only a lock can be released by force";
                return Err(Exit::new(
                    DATA,
                    format!("unlock `{name}`: the object is of the kind {kind}; {remedy}"),
                ));
            }
        };
        Ok(Self { found, lock })
    }

    /// Keeps only the holders with these owners.
    pub(crate) fn only(mut self, owners: &[String]) -> Self {
        self.found.holders.retain(|it| owners.iter().any(|owner| owner == it.owner().as_str()));
        self
    }

    pub(crate) fn name(&self) -> &Name {
        &self.found.name
    }

    /// Returns the holders and the waiters, as `show` prints them.
    pub(crate) fn text(&self) -> String {
        as_text(&self.found)
    }

    /// Releases the holders that were shown, and returns those that still held the lock. Records
    /// each release for an audit, and publishes it. `how` names the command, and perhaps its user.
    pub(crate) async fn release(&self, how: &str) -> Result<Vec<&Holder>, Exit> {
        let (mut released, by) = (vec![], by(how));
        for holder in &self.found.holders {
            if self.lock.force_release_owner(holder.owner(), &by).await? {
                released.push(holder);
            }
        }
        match released.is_empty() {
            true => {
                let text = format!(
                    "unlock `{}`: the holders released the lock meanwhile; use `leasehold show` to \
                     see the present ones",
                    self.name()
                );
                Err(Exit::new(ABSENT, text))
            }
            false => Ok(released),
        }
    }
}

/// Returns a text that names the user, the machine, the process and the command. The end of a long
/// reason is cut off.
fn by(how: &str) -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    format!("{user} on {host} (pid {}), {how}", process::id())
}
