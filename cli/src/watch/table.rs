//! The objects that are watched, and the differences between two samples of each object. The
//! functions are pure: each time is a parameter, counted from the start of the process.
//!
//! The size of the table is bounded: `MOST` objects, the first `SHOWN` holders and waiters of each,
//! the last `EVENTS` events and the last `BINS` rounds. If the server has more objects, the table
//! keeps odd objects first, and then the objects with the most waiters. All other objects are only
//! counted.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use leasehold::Name;

pub(crate) const MOST: usize = 1_000;
const SHOWN: usize = 100;
const EVENTS: usize = 500;
const BINS: usize = 600;

/// How long an object without holders and waiters stays in the table.
const LINGERS: Duration = Duration::from_secs(30);

/// The time over which rates are averaged, in seconds.
const AVERAGED: f64 = 10.0;

const NOT_RENEWED: &str = "lease ends soon, not renewed";

/// What one read found about an object.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: Name,
    /// `None` if there is no such object.
    pub(crate) kind: Option<String>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) waiters: Vec<Waiting>,
    /// The number of all waiters.
    pub(crate) waiting: usize,
    pub(crate) number: Option<i64>,
    pub(crate) token: Option<u64>,
    pub(crate) odd: Vec<&'static str>,
    pub(crate) error: Option<String>,
}

impl Seen {
    pub(crate) fn absent(name: Name) -> Self {
        Self {
            name,
            kind: None,
            holders: vec![],
            waiters: vec![],
            waiting: 0,
            number: None,
            token: None,
            odd: vec![],
            error: None,
        }
    }

    fn is_free(&self) -> bool {
        self.holders.is_empty() && self.waiting == 0 && self.error.is_none()
    }

    fn rank(&self) -> Rank {
        (self.error.is_some() || !self.odd.is_empty(), self.waiting)
    }
}

/// A holder, as one read found it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) remaining: Option<Duration>,
    /// The process, the host and the reason, if its client publishes them.
    pub(crate) process: Option<String>,
}

/// How urgently an operator should see an object: whether it is odd, and its number of waiters.
type Rank = (bool, usize);

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: Name,
    pub(crate) kind: String,
    pub(crate) holders: Vec<Holding>,
    /// The number of all holders.
    pub(crate) held: usize,
    pub(crate) waiters: Vec<Waiting>,
    /// The number of all waiters.
    pub(crate) waiting: usize,
    pub(crate) number: Option<i64>,
    pub(crate) token: Option<u64>,
    pub(crate) odd: Vec<&'static str>,
    pub(crate) error: Option<String>,
    pub(crate) read_at: Duration,
    /// How many grants per second the samples have shown, as an average.
    pub(crate) rate: f64,
    free_since: Option<Duration>,
    /// The last pass that has counted the object.
    counted: Option<u64>,
}

impl Row {
    fn rank(&self) -> Rank {
        (self.error.is_some() || !self.odd.is_empty(), self.waiting)
    }

    /// Returns how long the object has been held, by the holder with the oldest hold. This hold may
    /// have begun before this process first saw it.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        let since = self.holders.iter().map(|it| it.since).min()?;
        Some(self.read_at.saturating_sub(since))
    }

    /// Returns the longest known wait.
    pub(crate) fn waited(&self) -> Option<Duration> {
        self.waiters.iter().filter_map(|it| it.waited).max()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) owner: String,
    pub(crate) remaining: Option<Duration>,
    pub(crate) process: Option<String>,
    /// When the hold was first seen.
    pub(crate) since: Duration,
    /// Whether the grant was seen. Otherwise the hold may be older than `since`.
    pub(crate) is_exact: bool,
    /// The longest remaining time of the lease that a sample has shown.
    longest: Option<Duration>,
}

impl Holding {
    /// Returns whether the lease runs down without a renewal. A watchdog renews when two thirds of
    /// the lease are left, so less than one third means that renewals fail.
    fn is_not_renewed(&self) -> bool {
        self.remaining.zip(self.longest).is_some_and(|(left, longest)| left < longest / 3)
    }

    /// Returns whether the hold expired during `gap`, the time since the last sample. If at least
    /// half of the lease was left at the last sample, the client was renewing the lease. The end of
    /// such a hold counts as a release.
    fn has_expired(&self, gap: Duration) -> bool {
        let is_renewed = |left: Duration| self.longest.is_some_and(|it| left >= it / 2);
        self.remaining.is_some_and(|left| left <= gap && !is_renewed(left))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) owner: String,
    pub(crate) waited: Option<Duration>,
    pub(crate) is_overdue: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) name: Name,
    pub(crate) change: Change,
    pub(crate) owner: String,
    /// The shortest time that the hold may have lasted.
    pub(crate) held: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    Granted,
    Released,
    /// The lease ended without a release.
    Expired,
    /// This process released the hold by force.
    Forced,
}

impl Change {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Forced => "forced",
        }
    }

    pub(crate) fn is_loss(self) -> bool {
        matches!(self, Self::Expired | Self::Forced)
    }
}

/// The changes of one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    pub(crate) at: Duration,
    pub(crate) granted: u64,
    pub(crate) released: u64,
    pub(crate) lost: u64,
}

/// What a pass over the keys has counted. `SCAN` may return a key twice, so objects that are not in
/// the table may count twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) names: usize,
    pub(crate) kinds: BTreeMap<String, usize>,
    pub(crate) held: usize,
    pub(crate) waiting: usize,
    pub(crate) odd: usize,
}

impl Tally {
    pub(crate) fn objects(&self) -> usize {
        self.kinds.values().sum()
    }

    fn add(&mut self, kind: &str, is_held: bool, waiting: usize, is_odd: bool) {
        match self.kinds.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.kinds.insert(kind.to_owned(), 1)),
        }
        self.held += usize::from(is_held);
        self.waiting += waiting;
        self.odd += usize::from(is_odd);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: HashMap<Name, Row>,
    /// The lowest rank in a full table. An object with this rank or a lower rank is only counted.
    floor: Option<Rank>,
    events: VecDeque<Event>,
    history: VecDeque<Bin>,
    bin: Bin,
    lost: u64,
    whole: Option<Tally>,
    current: Tally,
    /// The number of the current pass.
    pass: u64,
}

impl Table {
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    pub(crate) fn history(&self) -> impl Iterator<Item = &Bin> {
        self.history.iter()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn tally(&self) -> &Tally {
        self.whole.as_ref().unwrap_or(&self.current)
    }

    /// Returns the names of all rows, beginning with the row that was read least recently.
    pub(crate) fn longest_unread(&self) -> Vec<Name> {
        let mut rows: Vec<_> = self.rows.values().collect();
        rows.sort_by_key(|row| row.read_at);
        rows.into_iter().map(|row| row.name.clone()).collect()
    }

    pub(crate) fn count_names(&mut self, names: usize) {
        self.current.names += names;
    }

    /// Counts an object that was read since `began`, unless this pass has already counted it.
    /// Returns false if the object must be read first.
    pub(crate) fn count_known(&mut self, name: &Name, began: Duration) -> bool {
        let Some(row) = self.rows.get_mut(name) else { return false };
        if row.counted == Some(self.pass) {
            return true;
        }
        if row.read_at < began {
            return false;
        }
        row.counted = Some(self.pass);
        if row.free_since.is_none() {
            self.current.add(&row.kind, row.held > 0, row.waiting, row.rank().0);
        }
        true
    }

    pub(crate) fn count(&mut self, seen: &Seen) {
        if let Some(kind) = &seen.kind {
            self.current.add(kind, !seen.holders.is_empty(), seen.waiting, seen.rank().0);
        }
        if let Some(row) = self.rows.get_mut(&seen.name) {
            row.counted = Some(self.pass);
        }
    }

    pub(crate) fn end_pass(&mut self) {
        self.whole = Some(std::mem::take(&mut self.current));
        self.pass += 1;
    }

    pub(crate) fn restart_pass(&mut self) {
        self.current = Tally::default();
        self.pass += 1;
    }

    /// Updates the row of an object with what was read at `now`.
    pub(crate) fn update(&mut self, seen: &Seen, now: Duration) {
        match self.rows.remove(&seen.name) {
            Some(row) => {
                let row = self.changed(row, seen, now);
                self.rows.insert(row.name.clone(), row);
            }
            None if seen.is_free() && seen.odd.is_empty() => {}
            None => self.add(seen, now),
        }
    }

    /// Adds an object. If the table is full, the new object replaces an object with a lower rank.
    fn add(&mut self, seen: &Seen, now: Duration) {
        if self.rows.len() >= MOST {
            if self.floor.is_some_and(|floor| seen.rank() <= floor) {
                return;
            }
            let lowest = self.rows.values().min_by_key(|row| row.rank());
            let Some((name, rank)) = lowest.map(|row| (row.name.clone(), row.rank())) else {
                return;
            };
            self.floor = Some(rank);
            if seen.rank() <= rank {
                return;
            }
            self.rows.remove(&name);
        }
        // If the table had all objects before, the hold is new. During the first pass, or after
        // some objects were left out, the hold may be old.
        let is_new = self.whole.is_some() && self.floor.is_none();
        let mut row = Row {
            name: seen.name.clone(),
            kind: String::new(),
            holders: vec![],
            held: 0,
            waiters: vec![],
            waiting: 0,
            number: None,
            token: seen.token,
            odd: vec![],
            error: None,
            read_at: now,
            rate: 0.0,
            free_since: None,
            counted: None,
        };
        if is_new {
            row = self.changed(row, seen, now);
        } else {
            row.holders =
                seen.holders.iter().take(SHOWN).map(|it| holding(it, now, false)).collect();
            fill(&mut row, seen, now);
        }
        self.rows.insert(row.name.clone(), row);
    }

    /// Compares a row with a new sample of its object, and records the differences.
    fn changed(&mut self, mut row: Row, seen: &Seen, now: Duration) -> Row {
        let gap = now.saturating_sub(row.read_at);
        let mut granted = 0;
        // If the row has only some of the holders, this code cannot know which holders are new.
        let is_known = seen.holders.len() <= SHOWN && row.held <= SHOWN && seen.error.is_none();
        if is_known {
            let mut before: HashMap<_, _> =
                row.holders.drain(..).map(|it| (it.owner.clone(), it)).collect();
            let mut news = vec![];
            for holder in &seen.holders {
                match before.remove(&holder.owner) {
                    Some(held) => row.holders.push(Holding {
                        remaining: holder.remaining,
                        process: holder.process.clone(),
                        longest: held.longest.max(holder.remaining),
                        ..held
                    }),
                    None => news.push(holder),
                }
            }
            for gone in before.into_values() {
                let expired = gone.has_expired(gap);
                let change = if expired { Change::Expired } else { Change::Released };
                let held = now.saturating_sub(gone.since);
                self.record(&row.name, change, &gone.owner, Some(held), now);
            }
            for holder in news {
                granted += 1;
                self.record(&row.name, Change::Granted, &holder.owner, None, now);
                row.holders.push(holding(holder, now, true));
            }
        } else if seen.error.is_none() {
            row.holders =
                seen.holders.iter().take(SHOWN).map(|it| holding(it, now, false)).collect();
        }
        // Each grant of a fenced lock raises its token. So the token also shows the grants between
        // two samples.
        let tokens = seen.token.zip(row.token).map_or(0, |(new, old)| new.saturating_sub(old));
        let unseen = tokens.saturating_sub(granted);
        self.bin.granted += unseen;
        row.rate = averaged(row.rate, granted + unseen, gap);
        fill(&mut row, seen, now);
        row
    }

    fn record(
        &mut self,
        name: &Name,
        change: Change,
        owner: &str,
        held: Option<Duration>,
        at: Duration,
    ) {
        match change {
            Change::Granted => self.bin.granted += 1,
            Change::Released => self.bin.released += 1,
            Change::Expired | Change::Forced => {
                self.bin.lost += 1;
                self.lost += 1;
            }
        }
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        let (name, owner) = (name.clone(), owner.to_owned());
        self.events.push_back(Event { at, name, change, owner, held });
    }

    /// Records a release by force. If a round has already recorded an ordinary release of this
    /// hold, changes the event of that release.
    pub(crate) fn forced(&mut self, name: &Name, owner: &str, now: Duration) {
        let row = self.rows.get_mut(name);
        let held = row.and_then(|row| {
            let at = row.holders.iter().position(|it| it.owner == owner)?;
            row.held -= 1;
            Some(row.holders.remove(at))
        });
        if let Some(held) = held {
            let held = now.saturating_sub(held.since);
            self.record(name, Change::Forced, owner, Some(held), now);
            return;
        }
        let mut last = self.events.iter_mut().rev();
        let released = last.find(|it| it.name == *name && it.owner == owner);
        if let Some(event) = released.filter(|it| it.change == Change::Released) {
            event.change = Change::Forced;
            self.bin.lost += 1;
            self.lost += 1;
        }
    }

    /// Ends a round. Removes the objects that have been free for `LINGERS`.
    pub(crate) fn end_round(&mut self, now: Duration) {
        self.rows.retain(|_, row| row.free_since.is_none_or(|since| now < since + LINGERS));
        if self.rows.len() < MOST {
            self.floor = None;
        }
        if self.history.len() == BINS {
            self.history.pop_front();
        }
        self.history.push_back(Bin { at: now, ..std::mem::take(&mut self.bin) });
    }
}

fn holding(holder: &Holder, now: Duration, is_exact: bool) -> Holding {
    let Holder { owner, remaining, process } = holder.clone();
    Holding { owner, remaining, process, since: now, is_exact, longest: remaining }
}

/// Copies the facts that need no comparison into a row.
fn fill(row: &mut Row, seen: &Seen, now: Duration) {
    row.error.clone_from(&seen.error);
    row.read_at = now;
    if seen.error.is_some() {
        return;
    }
    if let Some(kind) = &seen.kind {
        row.kind.clone_from(kind);
    }
    (row.held, row.waiting) = (seen.holders.len(), seen.waiting);
    row.waiters = seen.waiters.iter().take(SHOWN).cloned().collect();
    row.number = seen.number;
    row.token = seen.token.or(row.token);
    row.odd.clone_from(&seen.odd);
    if row.holders.iter().any(Holding::is_not_renewed) {
        row.odd.push(NOT_RENEWED);
    }
    row.free_since = match seen.is_free() && row.odd.is_empty() {
        true => row.free_since.or(Some(now)),
        false => None,
    };
}

/// Returns the rate after `count` more events in `gap`. The rate is an average in which older
/// events count less.
fn averaged(rate: f64, count: u64, gap: Duration) -> f64 {
    let gap = gap.as_secs_f64().max(0.001);
    let kept = (-gap / AVERAGED).exp();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of events between two samples is small"
    )]
    let current = count as f64 / gap;
    rate * kept + current * (1.0 - kept)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    Trouble,
    Waiters,
    Held,
    Rate,
    Name,
}

impl Order {
    pub(crate) const ALL: [Self; 5] =
        [Self::Trouble, Self::Waiters, Self::Held, Self::Rate, Self::Name];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Waiters => "waiters",
            Self::Held => "held",
            Self::Rate => "rate",
            Self::Name => "name",
        }
    }

    /// Sorts rows, the most urgent first.
    pub(crate) fn sort(self, rows: &mut [&Row]) {
        rows.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        match self {
            Self::Trouble => rows.sort_by_key(|row| Reverse((row.rank(), row.held))),
            Self::Waiters => rows.sort_by_key(|row| Reverse((row.waiting, row.waited()))),
            Self::Held => rows.sort_by_key(|row| Reverse(row.held_for())),
            Self::Rate => rows.sort_by(|a, b| b.rate.total_cmp(&a.rate)),
            Self::Name => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn held(of: &str, holders: &[(&str, Option<u64>)]) -> Seen {
        let holders = holders.iter().map(|(owner, left)| Holder {
            owner: (*owner).to_owned(),
            remaining: left.map(secs),
            process: None,
        });
        Seen { kind: Some("lock".into()), holders: holders.collect(), ..Seen::absent(name(of)) }
    }

    /// Returns a table after its first pass.
    fn table() -> Table {
        let mut table = Table::default();
        table.end_pass();
        table
    }

    fn changes(table: &Table) -> Vec<(&str, Change)> {
        table.events().map(|it| (it.owner.as_str(), it.change)).collect()
    }

    #[test]
    fn hold_found_in_the_first_pass_is_not_shown_as_a_grant() {
        let mut table = Table::default();
        table.update(&held("door", &[("a", Some(30))]), secs(0));
        assert_eq!(changes(&table), []);
        table.end_pass();
        table.update(&held("gate", &[("b", Some(30))]), secs(1));
        assert_eq!(changes(&table), [("b", Change::Granted)]);
        let rows: HashMap<_, _> = table.rows().map(|it| (it.name.as_str(), it)).collect();
        assert!(!rows["door"].holders[0].is_exact && rows["gate"].holders[0].is_exact);
    }

    #[test]
    fn watch_distinguishes_released_holds_from_expired_holds() {
        for (left, change) in [
            // The lease would have lasted longer, so a release ended the hold.
            (20, Change::Released),
            // The lease was not renewed, and ended between the samples.
            (1, Change::Expired),
        ] {
            let mut table = table();
            table.update(&held("door", &[("a", Some(30))]), secs(0));
            table.update(&held("door", &[("a", Some(left))]), secs(29));
            table.update(&Seen::absent(name("door")), secs(31));
            assert_eq!(changes(&table), [("a", Change::Granted), ("a", change)]);
            assert_eq!(table.lost(), u64::from(change == Change::Expired));
            assert_eq!(table.events().last().unwrap().held, Some(secs(31)));
        }
    }

    #[test]
    fn watch_shows_a_release_when_a_short_renewed_hold_ends() {
        let mut table = table();
        for at in 0..5 {
            table.update(&held("door", &[("a", Some(1))]), secs(at));
        }
        table.update(&Seen::absent(name("door")), secs(5));
        assert_eq!(changes(&table).last(), Some(&("a", Change::Released)));
    }

    #[test]
    fn hold_is_marked_when_its_lease_is_not_renewed() {
        let mut table = table();
        let mut odd_at = |at, left| {
            table.update(&held("door", &[("a", Some(left))]), secs(at));
            table.rows().next().unwrap().odd.clone()
        };
        assert_eq!(odd_at(0, 30), Vec::<&str>::new());
        assert_eq!(odd_at(15, 15), Vec::<&str>::new());
        assert_eq!(odd_at(25, 5), [NOT_RENEWED]);
        assert_eq!(odd_at(26, 30), Vec::<&str>::new());
    }

    #[test]
    fn token_difference_counts_the_grants_between_two_samples() {
        let mut table = table();
        let with = |token, owner| Seen { token: Some(token), ..held("door", &[(owner, None)]) };
        table.update(&with(5, "a"), secs(0));
        table.update(&with(15, "b"), secs(1));
        table.end_round(secs(1));
        assert_eq!(table.history().last().unwrap().granted, 1 + 10);
        let rate = table.rows().next().unwrap().rate;
        assert!((0.9..1.1).contains(&rate), "ten in a second, averaged over ten: {rate}");
    }

    #[test]
    fn forced_release_is_a_loss_if_its_record_follows_the_release() {
        for is_read_before in [false, true] {
            let mut table = table();
            table.update(&held("door", &[("a", None), ("b", None)]), secs(0));
            let after = held("door", &[("b", None)]);
            if is_read_before {
                table.update(&after, secs(1));
            }
            table.forced(&name("door"), "a", secs(1));
            table.update(&after, secs(2));
            let last: Vec<_> = changes(&table).into_iter().skip(2).collect();
            assert_eq!(last, [("a", Change::Forced)]);
            assert_eq!(table.lost(), 1);
        }
    }

    #[test]
    fn full_table_keeps_objects_with_problems_or_waiters() {
        let mut table = table();
        for number in 0..3 * MOST {
            let seen = held(&format!("lock:{number}"), &[("a", Some(30))]);
            table.update(&seen, secs(0));
            table.count(&seen);
        }
        let odd = Seen { odd: vec!["hold never expires"], ..held("odd", &[("a", None)]) };
        let contended = Seen { waiting: 9, ..held("contended", &[("a", Some(30))]) };
        let wide = |it: usize| Holder { owner: it.to_string(), ..Holder::default() };
        let wide = (0..5 * SHOWN).map(wide).collect();
        let crowd = Seen { waiting: 1, holders: wide, ..held("crowd", &[]) };
        for seen in [odd, contended, crowd] {
            table.update(&seen, secs(0));
        }
        assert_eq!(table.rows().count(), MOST);
        let kept = |of: &str| table.rows().find(|row| row.name.as_str() == of);
        assert!(kept("odd").is_some() && kept("contended").is_some());
        let crowd = kept("crowd").unwrap();
        assert_eq!((crowd.holders.len(), crowd.held), (SHOWN, 5 * SHOWN));
        table.end_pass();
        assert_eq!((table.tally().objects(), table.tally().held), (3 * MOST, 3 * MOST));
        for at in 0..2_000 {
            let owner = at.to_string();
            table.update(&held("contended", &[(&owner, Some(30))]), secs(at));
            table.end_round(secs(at));
        }
        assert_eq!((table.events().count(), table.history().count()), (EVENTS, BINS));
    }

    #[test]
    fn object_that_scan_returns_twice_counts_once() {
        let mut table = table();
        let door = held("door", &[("a", Some(30))]);
        for _ in 0..2 {
            table.update(&door, secs(0));
            table.count(&door);
            // `SCAN` returns the object again in this pass, before and after another read of it.
            assert!(table.count_known(&door.name, secs(1)));
            assert!(table.count_known(&door.name, secs(0)));
            table.end_pass();
            assert_eq!(table.tally().objects(), 1);
            assert!(!table.count_known(&door.name, secs(1)), "the next pass reads it");
        }
    }

    #[test]
    fn free_object_leaves_the_table_after_a_while() {
        let mut table = table();
        table.update(&held("door", &[("a", Some(30))]), secs(0));
        for (at, rows) in [(1, 1), (30, 1), (31, 0)] {
            table.update(&Seen::absent(name("door")), secs(at));
            table.end_round(secs(at));
            assert_eq!(table.rows().count(), rows, "after {at} s");
        }
        assert_eq!(changes(&table).last(), Some(&("a", Change::Released)));
    }

    #[test]
    fn unreadable_object_keeps_its_last_known_state() {
        let mut table = table();
        table.update(&held("door", &[("a", Some(30))]), secs(0));
        let error = Some("WRONGTYPE".to_owned());
        table.update(&Seen { error, ..Seen::absent(name("door")) }, secs(1));
        let row = table.rows().next().unwrap();
        assert_eq!((row.held, row.error.as_deref()), (1, Some("WRONGTYPE")));
        table.update(&held("door", &[("a", Some(30))]), secs(2));
        assert_eq!(changes(&table), [("a", Change::Granted)]);
    }
}
