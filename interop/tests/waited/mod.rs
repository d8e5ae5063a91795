//! Waiters of both languages, while another server replaces the master of their objects.

use std::time::Duration;

use interop::{AT_ONCE, Kind, Pair, Pending, Servers, Thread, Together, Way, wake_up, woken};
use testkit::eventually;

const SECOND: Duration = Duration::from_secs(1);
const WAYS: [Way; 2] = [Way::RustToJava, Way::JavaToRust];

/// A hold of an object, a waiter of each language, and the name of the object.
struct Waited {
    way: Way,
    kind: Kind,
    name: String,
    holder: Thread,
    waiters: [Thread; 2],
    waiting: [Pending; 2],
}

impl Waited {
    /// Acquires, and starts a waiter of each language.
    #[track_caller]
    fn begin<S: Servers>(both: &Together<S>, way: Way, kind: Kind) -> Self {
        let name = format!("{kind} of {way:?}");
        let Pair { holder, waiter, .. } = both.pair_of(&name, way, kind);
        let own = both.pair_of(&format!("own {name}"), way, kind).holder;
        assert!(holder.lock(&name).acquired());
        let waiters = [waiter, own];
        let waiting = waiters.each_ref().map(|waiter| waiter.start_lock(&name));
        both.redis.until_asleep(kind, &name, 2);
        Self { way, kind, name, holder, waiters, waiting }
    }

    /// Releases, and asserts that both waiters acquire, one after the other. Returns the time until
    /// the first waiter acquired.
    #[track_caller]
    fn end(self) -> Duration {
        let [first, second] = self.waiting;
        assert!(!first.is_done() && !second.is_done(), "{}: both waiters wait", self.name);
        let left = self.holder.unlock(&self.name);
        eventually("one waiter has acquired", SECOND * 20, || first.is_done() || second.is_done());
        let (entered, next, by, last) = match first.is_done() {
            true => (first, second, &self.waiters[0], &self.waiters[1]),
            false => (second, first, &self.waiters[1], &self.waiters[0]),
        };
        let delay = wake_up(&left, &entered.wait(SECOND));
        assert!(!next.is_done(), "{}: the other waiter still waits", self.name);
        assert!(by.unlock(&self.name).is_true());
        // A Redisson client that subscribes again may miss the message. In this case, the client
        // waits until the lease has ended.
        assert!(next.wait(SECOND * 45).acquired());
        assert!(last.unlock(&self.name).is_true());
        delay
    }
}

/// Lets `replaced` replace the master. Asserts that holders and waiters of both languages continue
/// at the new master.
#[track_caller]
pub(crate) fn all_go_on_at_the_new_master<S: Servers>(
    redis: S,
    what: &str,
    replaced: impl FnOnce(&S),
) {
    // given holders and waiters of both languages
    let both = Together::on(redis);
    let kinds = [Kind::Lock, Kind::Fenced, Kind::Write];
    let held = WAYS.into_iter().flat_map(|way| kinds.map(|kind| (way, kind)));
    let held: Vec<_> = held.map(|(way, kind)| Waited::begin(&both, way, kind)).collect();
    held.iter().for_each(|it| both.redis.in_step(&it.name));

    // when the master is replaced, then all waiters subscribe at the new master
    replaced(&both.redis);
    for it in &held {
        both.redis.until_asleep(it.kind, &it.name, 2);
        let kept = both.redis.at(&it.name).command(&["EXISTS", &it.name]).number();
        assert_eq!(kept, 1, "{}", it.name);
    }

    // and a release at the new master notifies the waiters
    for it in held {
        let (way, kind) = (it.way, it.kind);
        let delay = it.end();
        assert!(delay < AT_ONCE, "{kind}, {way}: woken after {delay:?}");
        woken(&both.redis.row(kind, what), way, delay);
    }
}
