//! Releases locks by force, for `unlock --force`, `top` and `ui`.

use std::{env, process};

use leasehold::{Client, Error, Holder, Inspection, Lock, Name, ObjectKind};

use crate::{
    exit::{ABSENT, DATA, Exit},
    inspect::as_text,
};

pub(crate) const QUESTION: &str =
    "The holders work on until they notice the loss. Release by force?";

/// A held lock, and the holders that the user was shown. A release by force ends only the holds of
/// these holders.
#[derive(Debug)]
pub(crate) struct Forcible {
    found: Inspection,
    /// The lock, or both sides of a read-write lock, because a writer may also be a reader.
    locks: Vec<Lock>,
}

impl Forcible {
    /// Finds the holders of `name`. Fails if the lock cannot be released by force.
    pub(crate) async fn find(client: &Client, name: &str) -> Result<Self, Exit> {
        let free =
            |remedy| Exit::new(ABSENT, format!("unlock `{name}`: the lock is free; {remedy}"));
        let found = client.inspect(name).await?.ok_or_else(|| free("nothing was released"))?;
        let locks = match found.kind {
            ObjectKind::Lock => vec![client.lock(name)?],
            ObjectKind::FairLock => vec![client.fair_lock(name)?],
            ObjectKind::ReadLock | ObjectKind::WriteLock => {
                let sides = client.read_write_lock(name)?;
                vec![sides.read(), sides.write()]
            }
            kind => {
                let remedy = "only a lock can be released by force; see docs/guide/runbook.md";
                return Err(Exit::new(
                    DATA,
                    format!("unlock `{name}`: the object is of the kind {kind}; {remedy}"),
                ));
            }
        };
        if found.holders.is_empty() {
            let is_left_over = found.is_left_over;
            return Err(free(if is_left_over { "delete its key" } else { "nothing was released" }));
        }
        Ok(Self { found, locks })
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

    /// Returns each holder that was shown, together with each lock that it may hold.
    fn holds(&self) -> Vec<(&Holder, &Lock)> {
        let of = |holder| self.locks.iter().map(move |lock| (holder, lock));
        self.found.holders.iter().flat_map(of).collect()
    }

    /// Releases the holds of the holders that were shown. Calls `released` for each holder that
    /// still held the lock. Each release is recorded for an audit, and published. `how` describes
    /// the command, such as `unlock --force`.
    pub(crate) async fn release(
        &self,
        how: &str,
        mut released: impl FnMut(&Holder),
    ) -> Result<(), Exit> {
        let (mut count, by, name) = (0, by(how), self.name());
        for (holder, lock) in self.holds() {
            match end(lock, holder, &by).await {
                Ok(true) => {
                    count += 1;
                    released(holder);
                }
                Ok(false) => {}
                Err(error) if count == 0 => return Err(error.into()),
                Err(error) => {
                    let all = self.found.holders.len();
                    let text = format!("unlock `{name}`: only {count} of {all} released: {error}");
                    return Err(Exit::new(Exit::from(error).code, text));
                }
            }
        }
        match count {
            0 => {
                let text = format!(
                    "unlock `{name}`: the holders released the lock meanwhile; use `leasehold show` \
                     to see the present ones"
                );
                Err(Exit::new(ABSENT, text))
            }
            _ => Ok(()),
        }
    }
}

/// Releases the hold of `holder` and records the release. If `holder` has no hold, records nothing.
async fn end(lock: &Lock, holder: &Holder, by: &str) -> Result<bool, Error> {
    let owner = holder.owner();
    Ok(lock.held_by(owner).await? > 0 && lock.force_release_owner(owner, by).await?)
}

/// Returns the text for the audit record: the user, the machine, the process and the command.
fn by(how: &str) -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    format!("{user} on {host} (pid {}), {how}", process::id())
}
