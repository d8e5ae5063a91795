//! A subscription table without subscriptions, for tests that need no subscriptions.

use redis::Value;
use tokio::time::Instant;

use super::{Correction, Delivery, Event, Rejection, SubscriptionTable, Topic};

/// No subscriptions.
#[derive(Debug)]
pub(crate) struct Unwanted;

impl Topic for u16 {
    fn slot(&self) -> u16 {
        *self
    }
}

impl Event for () {
    type Topic = u16;

    fn back() -> Self {}

    fn moved() -> Self {}

    fn unsubscribed(_: u16) -> Self {}
}

impl SubscriptionTable for Unwanted {
    type Topic = u16;
    type Event = ();
    type Log = ();

    fn of(_: &str, _: Delivery) -> Self {
        Self
    }

    fn listen(&mut self, _: &u16) {}

    fn unlisten(&mut self, _: &u16) {}

    fn forget(&mut self, _: &u16) {}

    fn begin(&mut self) {}

    fn end(&mut self) {}

    fn corrections(&mut self) -> Vec<Correction<u16>> {
        Vec::new()
    }

    fn not_done(&mut self, _: &Correction<u16>, _: Rejection, _: Instant) {}

    fn log_denied((): &(), _: &Correction<u16>) {}

    fn retry_denied(&mut self, _: Instant) {}

    fn resubscribe(&mut self) {}

    fn confirmed(&mut self, _: &str, _: bool) -> bool {
        true
    }

    fn received(&mut self, _: &str, _: &Value) {}

    fn is_quiet(&self) -> bool {
        true
    }

    fn next_event(&mut self) -> Option<()> {
        None
    }
}
