//! What one client listens to.

use std::{collections::HashSet, sync::Weak};

use crate::{
    domain::{Object, Waits},
    store::{Hears, Subscriber},
};

/// What one client listens to.
#[derive(Default)]
pub(super) struct Listening {
    /// Whether it cannot be told anything.
    pub(super) deaf: bool,
    /// Whether it may not queue.
    pub(super) queueless: bool,
    pub(super) objects: HashSet<Object>,
    pub(super) subscriber: Option<Weak<dyn Subscriber>>,
}

impl Listening {
    /// What it hears of `object`.
    pub(super) fn hears(&self, object: &Object) -> Hears {
        match object.manner().waits {
            Waits::Queued if !self.queueless => Hears::Turns,
            _ => Hears::Releases,
        }
    }

    /// Whom to tell of `name`, if it can be told.
    pub(super) fn subscriber(&self, object: &Object) -> Option<Weak<dyn Subscriber>> {
        let heard = !self.deaf && self.objects.contains(object);
        self.subscriber.clone().filter(|subscriber| heard && subscriber.strong_count() > 0)
    }
}
