//! What our releases have told of others who wait, and how we make room for them.
//!
//! Who gives a lock back and wants it again at once is there before anybody who
//! has to hear of it first. So it gives it back in turn the next time, to those
//! who queue, and holds its question back for a moment for those who do not.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::clock::Clock;
use crate::domain::{Map, Name, Others};

/// For so long a lock counts as sought after a release that found it so.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What those who do not queue need to hear of a release and to ask: a thread of
/// Java half a millisecond to one.
const HEAD_START: Duration = Duration::from_millis(2);

/// So many names are remembered. More of them at once have their turns by chance.
const MOST: usize = 1_024;

/// The names that others are known to want.
#[derive(Debug)]
pub(crate) struct Courtesy {
    clock: Clock,
    names: Mutex<Map<Name, Seen>>,
    /// Whether there are any: most clients never meet another one.
    some: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    sought: Others,
}

impl Courtesy {
    pub(crate) fn new(clock: &Clock) -> Arc<Self> {
        let (clock, names, some) = (clock.clone(), Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { clock, names, some })
    }

    /// Notes what a release of `name` found.
    pub(crate) fn note(&self, name: &Name, sought: Others) {
        if sought == Others::Nobody {
            return;
        }
        let now = self.clock.now();
        let mut names = self.names();
        let known = names.contains_key(name);
        if !known && names.len() >= MOST {
            names.retain(|_, seen| now < seen.at + REMEMBERED);
        }
        if known || names.len() < MOST {
            names.insert(name.clone(), Seen { at: now, sought });
            self.some.store(true, Ordering::Relaxed);
        }
    }

    /// Whether others want `name`, as far as we have heard lately.
    pub(crate) fn is_sought(&self, name: &Name) -> bool {
        self.seen(name).is_some()
    }

    /// For how long those who do not queue may still ask for `name` first.
    pub(crate) fn head_start(&self, name: &Name) -> Option<Duration> {
        let seen = self.seen(name).filter(|seen| seen.sought == Others::Outsiders)?;
        let left = (seen.at + HEAD_START).saturating_duration_since(self.clock.now());
        Some(left).filter(|left| !left.is_zero())
    }

    fn seen(&self, name: &Name) -> Option<Seen> {
        if !self.some.load(Ordering::Relaxed) {
            return None;
        }
        let mut names = self.names();
        let seen = *names.get(name)?;
        if self.clock.now() < seen.at + REMEMBERED {
            return Some(seen);
        }
        names.remove(name);
        self.some.store(!names.is_empty(), Ordering::Relaxed);
        None
    }

    fn names(&self) -> MutexGuard<'_, Map<Name, Seen>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::advance;

    use super::*;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_sought_for_a_while_after_a_release_that_found_it_so() {
        let (courtesy, door) = (Courtesy::new(&Clock::new()), name("door"));
        courtesy.note(&door, Others::Nobody);
        assert!(!courtesy.is_sought(&door));

        courtesy.note(&door, Others::Listeners);
        assert!(courtesy.is_sought(&door));
        assert!(!courtesy.is_sought(&name("window")));

        advance(REMEMBERED).await;
        assert!(!courtesy.is_sought(&door));
        assert!(courtesy.names().is_empty(), "what is past is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn only_those_who_do_not_queue_need_a_head_start() {
        let (courtesy, door) = (Courtesy::new(&Clock::new()), name("door"));
        courtesy.note(&door, Others::Listeners);
        assert_eq!(courtesy.head_start(&door), None);

        courtesy.note(&door, Others::Outsiders);
        assert_eq!(courtesy.head_start(&door), Some(HEAD_START));
        advance(HEAD_START).await;
        assert_eq!(courtesy.head_start(&door), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_start_is_as_short_when_the_machine_has_slept() {
        thread_local! {
            static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        }
        let (courtesy, door) = (Courtesy::new(&Clock::with(|| SLEPT.get())), name("door"));
        SLEPT.set(Duration::from_secs(3_600));
        courtesy.note(&door, Others::Outsiders);
        assert_eq!(courtesy.head_start(&door), Some(HEAD_START));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_known_is_remembered_though_there_is_no_room_for_others() {
        let (courtesy, door) = (Courtesy::new(&Clock::new()), name("door"));
        courtesy.note(&door, Others::Listeners);
        for n in 0..MOST {
            courtesy.note(&name(&format!("door:{n}")), Others::Listeners);
        }
        courtesy.note(&door, Others::Outsiders);
        assert_eq!(courtesy.head_start(&door), Some(HEAD_START));
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_grow_without_end() {
        let courtesy = Courtesy::new(&Clock::new());
        let note_many = || {
            for n in 0..2 * MOST {
                courtesy.note(&name(&format!("door:{n}")), Others::Listeners);
            }
        };
        note_many();
        assert_eq!(courtesy.names().len(), MOST);

        // what is past makes room
        advance(REMEMBERED).await;
        note_many();
        assert_eq!(courtesy.names().len(), MOST);
        assert!(courtesy.is_sought(&name("door:0")));
    }
}
