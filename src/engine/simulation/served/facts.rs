//! Two rules about the data of the server. The server must have each hold on which a client relies.
//! The server may grant a fair lock only to the head of the wait queue.

use std::{future::Future, time::Duration};

use leasehold_twin::Twin;
use tokio::time::sleep;

use super::site::Site;
use crate::{Result, domain::Kind, engine::held::Watch};

/// Repeats a request until it succeeds, with a `pause` after each failure.
pub(super) async fn until_known<T, F: Future<Output = Result<T>>>(
    pause: Duration,
    ask: impl Fn() -> F,
) -> T {
    loop {
        if let Ok(answer) = ask().await {
            return answer;
        }
        sleep(pause).await;
    }
}

/// Returns the broken rule, if a client relies on a hold that no server has.
pub(super) fn untrue(site: &Site, watch: &Watch) -> Option<String> {
    let claim = watch.claim();
    let (name, owner) = (claim.name(), claim.owner.as_str());
    let (key, field) = match claim.object.kind {
        Kind::Fair | Kind::Lock | Kind::Read | Kind::Election => {
            (name.to_string(), owner.to_owned())
        }
        Kind::Write => (name.to_string(), format!("{owner}:write")),
        Kind::Semaphore => (format!("leasehold_semaphore:{{{name}}}"), owner.to_owned()),
        Kind::Queue => (format!("leasehold_queue__claims:{{{name}}}"), owner.to_owned()),
        Kind::DoubleBarrier => {
            let inside = site.master().zset(&format!("leasehold_barrier__inside:{{{name}}}"));
            let known = inside.unwrap_or_default();
            let is_inside = known.iter().any(|(member, _)| member == owner);
            return (!is_inside)
                .then(|| format!("{owner} believes to be inside `{name}`: {known:?}"));
        }
        Kind::Permits | Kind::Latch | Kind::Barrier => return None,
    };
    // While a slot moves, either primary may have the hold, and a promoted replica may have an old
    // copy of the lock. So it suffices that any primary has the hold.
    let known: Vec<_> = site.masters().iter().filter_map(|it| it.hash(&key)).collect();
    let has_hold = known.iter().any(|it| it.contains_key(&field));
    (!has_hold).then(|| format!("{owner} believes in `{name}`: {known:?}"))
}

/// The wait queue of a fair lock, as computed from the commands.
#[derive(Default)]
struct Queue {
    owners: Vec<String>,
    /// The last owner that was removed from the head of the wait queue.
    left: Option<String>,
}

impl Queue {
    /// Follows `command`. Returns the broken rule, if the command grants the lock to an owner that
    /// was not the first in the wait queue.
    fn sees(&mut self, lock: &str, command: &str) -> Option<String> {
        let queue = format!("redisson_lock_queue:{{{lock}}}");
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["RPUSH", key, owner] if key == queue => self.owners.push(owner.to_owned()),
            ["LREM", key, _, owner] if key == queue => {
                self.left = self.owners.first().filter(|head| *head == owner).cloned();
                self.owners.retain(|it| it != owner);
            }
            ["HSET", key, owner, _] if key == lock => {
                let first = self.owners.is_empty() || self.left.as_deref() == Some(owner);
                return (!first).then(|| format!("{owner} passes {:?}", self.owners));
            }
            _ => {}
        }
        None
    }
}

/// Watches each command about the fair lock `lock` at `server`.
pub(super) fn watch_order(
    server: &Twin,
    lock: &'static str,
    breaks: impl Fn(String) + Send + 'static,
) {
    let mut queue = Queue::default();
    server.watch(move |it| {
        // A rejected command changes nothing.
        let rule = || queue.sees(lock, &it.command());
        if let Some(rule) = (!it.reply().starts_with('-')).then(rule).flatten() {
            breaks(rule);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judge_reports_a_fair_lock_granted_out_of_order() {
        let mut queue = Queue::default();
        let mut sees = |command: &str| queue.sees("gate", command);
        assert_eq!(sees("HSET gate a:1 1"), None);
        for owner in ["b:1", "c:1", "d:1"] {
            assert_eq!(sees(&format!("RPUSH redisson_lock_queue:{{gate}} {owner}")), None);
        }
        assert_eq!(sees("LREM redisson_lock_queue:{gate} 0 b:1"), None);
        assert_eq!(sees("HSET gate b:1 1"), None);
        assert_eq!(sees("LREM redisson_lock_queue:{gate} 0 d:1"), None);
        assert!(sees("HSET gate d:1 1").is_some());
        assert!(sees("HSET gate e:1 1").is_some());
    }
}
