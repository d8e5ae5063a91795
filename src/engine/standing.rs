//! Where one acquisition stands in the queue of a lock.
//!
//! Pure: it is told the time, and what the store said.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    domain::{Lease, Offer, Place, Queueing},
    store::TOLD_AFTER,
};

/// The longest lease of a grant that nobody may be there to take.
pub(super) const LONGEST_OFFER: Duration = Duration::from_secs(5);

/// When to ask again after joining a queue: before this nobody tells us that the
/// lock has gone to another holder.
pub(super) const FIRST_LOOK: Duration = TOLD_AFTER.saturating_add(Duration::from_millis(50));

/// The places of one acquisition: each question asks for the next one.
#[derive(Debug)]
pub(super) struct Standing {
    /// How long a grant to a place lasts.
    offer: Duration,
    /// When the first place was asked for: later ones take over its time.
    joined_at: Option<Instant>,
    /// The place of the last question that was answered, and when it was asked.
    has: Option<(Place, Instant)>,
    /// The place of the last question, and since when it is asked for.
    wants: Option<(Queueing, Instant)>,
}

impl Standing {
    /// Of one who wants the lock for `ttl` at a time.
    pub(super) fn new(ttl: Duration) -> Self {
        Self { offer: ttl.min(LONGEST_OFFER), joined_at: None, has: None, wants: None }
    }

    /// The place to ask for at `now`. One that was not answered is the same
    /// question, asked once more.
    pub(super) fn ask(&mut self, now: Instant) -> Queueing {
        let before = self.has.map(|(place, _)| place);
        let unanswered = self.wants.filter(|(wants, _)| before != Some(wants.place));
        let (wants, since) = unanswered.unwrap_or_else(|| (self.next(before), now));
        self.wants = Some((wants, since));
        wants
    }

    /// A place of its own for the next question: an offer to an earlier one may come
    /// late.
    fn next(&self, before: Option<Place>) -> Queueing {
        let number = before.map_or(1, |before| before.number + 1);
        Queueing { place: Place { number, offer: self.offer }, before }
    }

    /// Notes that the last question was answered with "busy", and so has its place.
    pub(super) fn stands(&mut self) {
        self.has = self.wants.map(|(wants, since)| (wants.place, since));
        self.joined_at = self.joined_at.or_else(|| self.has.map(|(_, since)| since));
    }

    /// Whether we asked last before anybody would have told us to.
    pub(super) fn is_new(&self) -> bool {
        let times = self.has.zip(self.joined_at);
        times.is_some_and(|((_, asked_at), joined_at)| asked_at < joined_at + FIRST_LOOK)
    }

    /// The lease of `offer`, if it is to our place. It was made after we asked for
    /// the place, and so ends later than this.
    pub(super) fn lease_of(&self, offer: &Offer) -> Option<Lease> {
        let (place, asked_at) = self.has.filter(|(place, _)| place.number == offer.number)?;
        Some(Lease::new(asked_at, place.offer))
    }

    /// The place that may have to be given up.
    pub(super) fn stood(&self) -> Option<Queueing> {
        self.wants.map(|(wants, _)| wants)
    }

    /// Notes that no place is left: the lock was granted.
    pub(super) fn leave(&mut self) {
        (self.joined_at, self.has, self.wants) = (None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Name, Owner};

    const TTL: Duration = Duration::from_secs(2);

    fn offer(number: u64) -> Offer {
        let (name, owner) = (Name::new("door").unwrap(), Owner::new("8c6d:1").unwrap());
        Offer { name, owner, number, passes: 1 }
    }

    #[test]
    fn each_answered_question_is_followed_by_one_for_a_place_of_its_own() {
        let (mut standing, now) = (Standing::new(TTL), Instant::now());
        let first = standing.ask(now);
        assert_eq!((first.place.number, first.before), (1, None));

        // not answered, it is asked again as it was
        assert_eq!(standing.ask(now + TTL), first);
        standing.stands();
        let second = standing.ask(now + TTL);
        assert_eq!((second.place.number, second.before), (2, Some(first.place)));
        assert_eq!(standing.stood(), Some(second));
    }

    #[test]
    fn an_offer_counts_from_the_question_that_it_answers() {
        let (mut standing, now) = (Standing::new(TTL), Instant::now());
        standing.ask(now);
        assert_eq!(standing.lease_of(&offer(1)), None, "no place was told yet");
        standing.stands();
        assert_eq!(standing.lease_of(&offer(1)), Some(Lease::new(now, TTL)));

        // and one to an earlier place, or to a later one, is none
        standing.ask(now + TTL);
        standing.stands();
        assert_eq!(standing.lease_of(&offer(1)), None);
        assert_eq!(standing.lease_of(&offer(3)), None);
    }

    #[test]
    fn an_offer_is_never_long() {
        let mut standing = Standing::new(LONGEST_OFFER * 2);
        assert_eq!(standing.ask(Instant::now()).place.offer, LONGEST_OFFER);
    }

    #[test]
    fn who_asks_again_soon_is_still_new() {
        let (mut standing, now) = (Standing::new(TTL), Instant::now());
        let mut asks = |at| {
            standing.ask(at);
            standing.stands();
            standing.is_new()
        };
        assert!(asks(now));
        assert!(asks(now + FIRST_LOOK / 2));
        assert!(!asks(now + FIRST_LOOK));
    }

    #[test]
    fn who_has_left_stands_nowhere() {
        let (mut standing, now) = (Standing::new(TTL), Instant::now());
        standing.ask(now);
        standing.stands();
        standing.leave();
        assert_eq!((standing.stood(), standing.is_new()), (None, false));
        assert_eq!(standing.lease_of(&offer(1)), None);
    }
}
