//! Wanted and confirmed subscriptions, and the requests that make the two equal.
//!
//! The table does no I/O, and its caller passes the current time. The reply to a request comes on
//! the same connection. If the connection ends before the reply, the next connection subscribes to
//! everything again, so a lost reply does no harm.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use leasehold_link::{Channels, Delivery, Rejection, SubscriptionTable, Topic};
use tokio::time::Instant;

use super::{
    super::{channel_of, keys, replies, slot_of_name},
    permissions::{Denials, Denied, Permissions},
    warned::Warned,
};
use crate::{
    domain::{Kind, Map, Object, WaiterRecord},
    store::{Event, SubscriptionLevel},
};

/// The wanted subscriptions of one client, and their states.
#[derive(Debug)]
pub(in crate::store::redis) struct Table {
    client: String,
    delivery: Delivery,
    objects: Map<Object, WantedName>,
    channels: HashMap<String, Channel>,
    /// Channels whose state may differ from the wanted state.
    outdated: BTreeSet<String>,
    refusals: Denials,
    /// The events that were not sent yet, in order.
    events: VecDeque<Event>,
}

/// A name for which this client waits.
#[derive(Debug, Default)]
struct WantedName {
    channels: Vec<String>,
    /// Whether `channels` includes the channel for notifications of this client alone.
    turns: bool,
    /// The subscription level in the last event about this name.
    level: SubscriptionLevel,
}

#[derive(Debug)]
struct Channel {
    meaning: Meaning,
    state: State,
    /// The names that use this channel. `door` and `{door}` share their release channel.
    objects: BTreeSet<Object>,
}

/// The meaning of a message on a channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meaning {
    Released,
    /// A leader announced its record.
    Changed,
    /// The channel carries no messages, because scripts only count its subscribers.
    Nothing,
    Ask,
}

impl Channel {
    fn is_wanted(&self) -> bool {
        !self.objects.is_empty()
    }
}

/// Returns whether waiters for `object` have queue entries.
fn is_queued(object: &Object) -> bool {
    object.traits().waiter_record == WaiterRecord::QueueEntry
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Off,
    Asked,
    On,
    Leaving,
}

impl SubscriptionTable for Table {
    type Topic = Object;
    type Event = Event;
    type Log = Warned;

    fn of(client: &str, delivery: Delivery) -> Self {
        Self {
            client: client.to_owned(),
            delivery,
            objects: Map::default(),
            channels: HashMap::new(),
            outdated: BTreeSet::new(),
            refusals: Denials::default(),
            events: VecDeque::new(),
        }
    }

    fn listen(&mut self, object: &Object) {
        if !self.objects.contains_key(object) {
            self.objects.insert(object.clone(), WantedName::default());
        }
        self.want(object);
        // If an earlier waiter has already subscribed, the new waiter still needs an event about
        // the subscription level.
        let level = self.objects.get(object).map(|wanted| wanted.level).unwrap_or_default();
        if level != SubscriptionLevel::Nothing {
            self.events.push_back(Event::Subscribed(object.clone(), level));
        }
    }

    fn unlisten(&mut self, object: &Object) {
        if let Some(wanted) = self.objects.remove(object) {
            self.give_up(object, wanted.channels);
        }
    }

    fn forget(&mut self, object: &Object) {
        self.unlisten(object);
        self.events.retain(|event| match event {
            Event::Subscribed(of, _)
            | Event::Freed { object: of, .. }
            | Event::Changed { object: of }
            | Event::Ask { object: of, .. } => of != object,
            Event::SubscriptionsLost | Event::Back | Event::Moved => true,
        });
    }

    fn begin(&mut self) {
        self.refusals.clear();
        let objects: BTreeSet<Object> = self.objects.keys().cloned().collect();
        objects.iter().for_each(|object| self.want(object));
    }

    fn end(&mut self) {
        let unsubscribed = |(object, wanted): (&Object, &mut WantedName)| {
            (std::mem::take(&mut wanted.level) != SubscriptionLevel::Nothing)
                .then(|| object.clone())
        };
        // The set is sorted, so all simulations with the same seed have the same order of events.
        let lost: BTreeSet<Object> = self.objects.iter_mut().filter_map(unsubscribed).collect();
        self.channels.clear();
        match self.delivery {
            Delivery::Alone => self.events.push_back(Event::SubscriptionsLost),
            Delivery::Nodes(_) => {
                let lost = lost
                    .into_iter()
                    .map(|object| Event::Subscribed(object, SubscriptionLevel::Nothing));
                self.events.extend(lost);
            }
        }
    }

    fn corrections(&mut self) -> Vec<Correction> {
        let mut subscribe: BTreeMap<Object, Vec<String>> = BTreeMap::new();
        let mut unsubscribe: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for name in std::mem::take(&mut self.outdated) {
            let Some(channel) = self.channels.get_mut(&name) else { continue };
            match (channel.objects.first(), channel.state) {
                (Some(_), State::On) => {}
                (None, State::Off) => drop(self.channels.remove(&name)),
                (Some(user), State::Off) => {
                    channel.state = State::Asked;
                    subscribe.entry(user.clone()).or_default().push(name);
                }
                (None, State::On) => {
                    channel.state = State::Leaving;
                    unsubscribe.entry(self.delivery.together(&name)).or_default().push(name);
                }
                // The reply to the pending request decides whether another request is needed.
                (_, State::Asked | State::Leaving) => {}
            }
        }
        let of = |subscribe, channels| Correction { subscribe, channels };
        let mut all: Vec<_> =
            subscribe.into_iter().map(|(object, channels)| of(Some(object), channels)).collect();
        all.extend(unsubscribe.into_values().map(|channels| of(None, channels)));
        all
    }

    fn not_done(&mut self, asked: &Correction, refusal: Rejection, now: Instant) {
        let before = match asked.subscribe.is_some() || refusal == Rejection::Elsewhere {
            true => State::Off,
            false => State::On,
        };
        for channel in &asked.channels {
            self.is_now(channel, before);
        }
        match (refusal, &asked.subscribe) {
            (Rejection::Passing, _) => {}
            // `resubscribe` requests these channels again when the owner of the slot is known.
            (Rejection::Elsewhere, _) => {
                let is_wanted = |it: &str| self.channels.get(it).is_some_and(Channel::is_wanted);
                self.outdated.retain(|it| !asked.channels.contains(it) || !is_wanted(it));
            }
            (Rejection::Forbidden, Some(object)) => self.refused(object, needs(asked), now),
            // If the server denies a request to unsubscribe, the client does not repeat it.
            (Rejection::Forbidden, None) => {
                self.outdated.retain(|it| !asked.channels.contains(it));
            }
        }
    }

    fn retry_denied(&mut self, now: Instant) {
        self.refusals.forget(now).iter().for_each(|object| self.want(object));
    }

    fn resubscribe(&mut self) {
        let off = self.channels.iter().filter(|(_, it)| it.state == State::Off && it.is_wanted());
        self.outdated.extend(off.map(|(name, _)| name.clone()));
    }

    fn confirmed(&mut self, channel: &str, on: bool) -> bool {
        self.is_now(channel, if on { State::On } else { State::Off });
        self.channels.get(channel).is_none_or(|it| it.is_wanted() == on)
    }

    fn received(&mut self, channel: &str, message: &redis::Value) {
        let Some(entry) = self.channels.get(channel) else { return };
        let names = entry.objects.iter().cloned();
        match entry.meaning {
            Meaning::Released => {
                let queue_notified = replies::queue_was_notified(message);
                self.events.extend(names.map(|object| Event::Freed { object, queue_notified }));
            }
            Meaning::Ask => {
                let after = replies::ask_after(message);
                self.events.extend(names.map(|object| Event::Ask { object, after }));
            }
            Meaning::Changed => {
                self.events.extend(names.map(|object| Event::Changed { object }));
            }
            Meaning::Nothing => {}
        }
    }

    fn is_quiet(&self) -> bool {
        self.channels.is_empty()
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn log_denied(log: &Warned, asked: &Correction) {
        if let Some(object) = &asked.subscribe {
            log.warn_once(needs(asked), object);
        }
    }
}

impl Table {
    pub(super) fn permissions(&self, object: &Object) -> Permissions {
        let permissions = self.refusals.permissions(object);
        let unknown = self.delivery == Delivery::Nodes(Channels::Plain) && is_queued(object);
        match unknown {
            true => Permissions { queue: false, own_channels: false, ..permissions },
            false => permissions,
        }
    }

    /// Records that the server denies `what` for `object`.
    pub(super) fn refused(&mut self, object: &Object, what: Denied, now: Instant) {
        self.refusals.note(object, what, now);
        self.want(object);
    }

    /// Returns whether this client receives the releases of `object`.
    pub(super) fn is_subscribed_to_releases(&self, object: &Object) -> bool {
        self.channels.get(&channel_of(object)).is_some_and(|it| it.state == State::On)
    }

    /// Sets the wanted channels of `object` to the channels that the ACL allows.
    fn want(&mut self, object: &Object) {
        let wanted = self.wanted(object);
        let Some(name) = self.objects.get_mut(object) else { return };
        name.turns = wanted.iter().any(|(_, meaning)| *meaning == Meaning::Ask);
        let before = std::mem::take(&mut name.channels);
        name.channels = wanted.iter().map(|(channel, _)| channel.clone()).collect();
        let gone = before.into_iter().filter(|it| !wanted.iter().any(|(kept, _)| kept == it));
        let gone = gone.collect();
        self.give_up(object, gone);
        for (channel, meaning) in wanted {
            let fresh = || Channel { meaning, state: State::Off, objects: BTreeSet::new() };
            let entry = self.channels.entry(channel.clone()).or_insert_with(fresh);
            entry.objects.insert(object.clone());
            self.outdated.insert(channel);
        }
        self.update(object);
    }

    fn wanted(&self, object: &Object) -> Vec<(String, Meaning)> {
        let Permissions { queue, own_channels, releases } = self.permissions(object);
        let mut wanted = Vec::new();
        if releases {
            wanted.push((channel_of(object), Meaning::Released));
        }
        if releases && queue && own_channels && is_queued(object) {
            wanted.push((keys::queuers(&object.name), Meaning::Nothing));
            wanted.push((keys::waiter(&object.name, &self.client), Meaning::Ask));
        }
        if releases
            && self.refusals.permissions(object).own_channels
            && object.kind == Kind::Election
        {
            wanted.push((keys::leaders(&object.name), Meaning::Changed));
        }
        wanted
    }

    fn give_up(&mut self, object: &Object, channels: Vec<String>) {
        for channel in channels {
            if let Some(entry) = self.channels.get_mut(&channel) {
                entry.objects.remove(object);
                self.outdated.insert(channel);
            }
        }
    }

    fn is_now(&mut self, channel: &str, state: State) {
        let Some(entry) = self.channels.get_mut(channel) else { return };
        entry.state = state;
        self.outdated.insert(channel.to_owned());
        let objects = entry.objects.clone();
        objects.iter().for_each(|object| self.update(object));
    }

    /// Adds an event if the subscription level of `object` has changed.
    fn update(&mut self, object: &Object) {
        let Some(wanted) = self.objects.get_mut(object) else { return };
        let is_on = |it: &String| self.channels.get(it).is_some_and(|it| it.state == State::On);
        let level = match wanted.channels.len() {
            0 => SubscriptionLevel::Nothing,
            _ if !wanted.channels.iter().all(is_on) => SubscriptionLevel::Nothing,
            _ if wanted.turns => SubscriptionLevel::Turns,
            _ => SubscriptionLevel::Releases,
        };
        if std::mem::replace(&mut wanted.level, level) != level {
            self.events.push_back(Event::Subscribed(object.clone(), level));
        }
    }
}

/// Returns the permission that counts as missing if the server denies `asked`. If some channels
/// exist only in Leasehold, the server may have denied only these channels. So the client requests
/// the other channels again.
fn needs(asked: &Correction) -> Denied {
    let releases = asked.subscribe.as_ref().map(channel_of);
    match asked.channels.iter().all(|it| Some(it) == releases.as_ref()) {
        true => Denied::Releases,
        false => Denied::OwnChannels,
    }
}

/// A request that subscribes to channels of an object, or unsubscribes from channels.
type Correction = leasehold_link::Correction<Object>;

impl Topic for Object {
    fn slot(&self) -> u16 {
        slot_of_name(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::Value;

    use super::*;

    fn name(name: &str) -> Object {
        Object::lock(name)
    }

    fn table() -> Table {
        let mut table = Table::of("id", Delivery::Alone);
        table.begin();
        table
    }

    /// Confirms all requests of `table`.
    fn done(table: &mut Table) {
        for asked in table.corrections() {
            confirmed(table, &asked);
        }
    }

    fn confirmed(table: &mut Table, asked: &Correction) {
        for channel in &asked.channels {
            table.confirmed(channel, asked.subscribe.is_some());
        }
    }

    fn events_of(table: &mut Table) -> Vec<Event> {
        std::iter::from_fn(|| table.next_event()).collect()
    }

    /// Returns a table with a full subscription to `door`.
    fn subscribed_table() -> Table {
        let mut table = table();
        table.listen(&name("door"));
        done(&mut table);
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("door"), SubscriptionLevel::Turns)]
        );
        table
    }

    #[test]
    fn subscription_is_requested_once_and_reported_when_complete() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        assert_eq!((asked.subscribe.as_ref(), asked.channels.len()), (Some(&name("door")), 3));
        assert_eq!(table.corrections(), []);
        for channel in &asked.channels {
            assert_eq!(events_of(&mut table), []);
            table.confirmed(channel, true);
        }
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("door"), SubscriptionLevel::Turns)]
        );
        assert_eq!(table.corrections(), []);
        assert!(table.is_subscribed_to_releases(&name("door")));
    }

    #[test]
    fn outage_is_reported_and_then_all_names_are_subscribed_again() {
        let mut table = subscribed_table();
        table.end();
        assert_eq!(events_of(&mut table), [Event::SubscriptionsLost]);
        assert!(!table.is_subscribed_to_releases(&name("door")));
        table.begin();
        done(&mut table);
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("door"), SubscriptionLevel::Turns)]
        );
    }

    #[test]
    fn temporarily_rejected_subscription_is_requested_again() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.not_done(&asked, Rejection::Passing, Instant::now());
        let [again] = table.corrections().try_into().unwrap();
        assert_eq!(asked, again);
        assert_eq!(events_of(&mut table), []);
    }

    #[test]
    fn denied_subscription_removes_one_permission_for_a_while() {
        let (mut table, now) = (table(), Instant::now());
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.not_done(&asked, Rejection::Forbidden, now);
        let [less] = table.corrections().try_into().unwrap();
        assert_eq!(less.channels, [channel_of(&name("door"))]);
        confirmed(&mut table, &less);
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("door"), SubscriptionLevel::Releases)]
        );

        table.retry_denied(now + Duration::from_secs(29));
        assert_eq!(table.corrections(), []);
        table.retry_denied(now + Duration::from_secs(31));
        done(&mut table);
        assert_eq!(
            events_of(&mut table).last(),
            Some(&Event::Subscribed(name("door"), SubscriptionLevel::Turns))
        );
    }

    /// Former bug: after a denied queue, a denied subscription removed the wrong permission.
    #[test]
    fn late_rejection_removes_only_the_permission_of_its_request() {
        let (mut table, now) = (table(), Instant::now());
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.refused(&name("door"), Denied::Queue, now);
        table.not_done(&asked, Rejection::Forbidden, now);
        done(&mut table);
        assert!(table.is_subscribed_to_releases(&name("door")));
    }

    #[test]
    fn denied_unsubscribe_is_not_repeated() {
        let mut table = subscribed_table();
        table.unlisten(&name("door"));
        let [leaves] = table.corrections().try_into().unwrap();
        table.not_done(&leaves, Rejection::Forbidden, Instant::now());
        assert_eq!(table.corrections(), []);

        // a new waiter receives messages at once
        table.listen(&name("door"));
        assert_eq!(table.corrections(), []);
        assert_eq!(
            events_of(&mut table).last(),
            Some(&Event::Subscribed(name("door"), SubscriptionLevel::Turns))
        );
    }

    #[test]
    fn names_share_a_channel_until_the_last_name_unsubscribes() {
        let (mut table, shared) = (subscribed_table(), channel_of(&name("door")));
        table.listen(&name("{door}"));
        done(&mut table);
        events_of(&mut table);
        table.received(&shared, &Value::BulkString(b"00".to_vec()));
        assert_eq!(events_of(&mut table).len(), 2, "both names are notified");

        table.unlisten(&name("door"));
        done(&mut table);
        table.received(&shared, &Value::BulkString(b"0".to_vec()));
        let freed = Event::Freed { object: name("{door}"), queue_notified: false };
        assert_eq!(events_of(&mut table), [freed]);
        table.unlisten(&name("{door}"));
        done(&mut table);
        assert!(table.corrections().is_empty() && table.is_quiet());
    }

    #[test]
    fn subscriptions_are_requested_again_after_a_loss() {
        let mut table = table();
        table.listen(&name("door"));
        let [old] = table.corrections().try_into().unwrap();
        table.end();
        table.begin();
        let [new] = table.corrections().try_into().unwrap();
        assert_eq!(new, old);
        assert_eq!(table.corrections(), [], "the subscription is already requested");
    }

    #[test]
    fn name_requested_again_during_its_unsubscribe_is_resubscribed() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.unlisten(&name("door"));
        assert_eq!(table.corrections(), []);
        confirmed(&mut table, &asked);
        let [leaves] = table.corrections().try_into().unwrap();
        table.listen(&name("door"));
        confirmed(&mut table, &leaves);
        done(&mut table);
        assert_eq!(
            events_of(&mut table).last(),
            Some(&Event::Subscribed(name("door"), SubscriptionLevel::Turns))
        );
    }

    #[test]
    fn lost_node_reports_each_of_its_names_as_unsubscribed() {
        let mut table = Table::of("id", Delivery::Nodes(Channels::Sharded));
        table.begin();
        table.listen(&name("door"));
        table.listen(&name("window"));
        done(&mut table);
        events_of(&mut table);
        table.end();
        let unsubscribed = |it| Event::Subscribed(name(it), SubscriptionLevel::Nothing);
        let lost = events_of(&mut table);
        assert!(
            lost.len() == 2
                && lost.contains(&unsubscribed("door"))
                && lost.contains(&unsubscribed("window"))
        );
    }

    #[test]
    fn subscription_is_requested_again_when_the_slot_has_moved() {
        let mut table = Table::of("id", Delivery::Nodes(Channels::Sharded));
        table.begin();
        table.listen(&name("door"));
        done(&mut table);
        events_of(&mut table);
        // the slot moves to another node, and the server ends the subscriptions without a request
        for channel in [channel_of(&name("door")), keys::queuers(&name("door").name)] {
            assert!(!table.confirmed(&channel, false), "the subscription is still wanted");
        }
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("door"), SubscriptionLevel::Nothing)]
        );
        let [asked] = table.corrections().try_into().unwrap();
        assert_eq!(asked.channels.len(), 2);
        table.not_done(&asked, Rejection::Elsewhere, Instant::now());
        assert_eq!(table.corrections(), []);
        table.resubscribe();
        assert_eq!(table.corrections(), [asked]);

        // and a subscription that the client no longer wants ends
        table.unlisten(&name("door"));
        let [left] = table.corrections().try_into().unwrap();
        assert_eq!(left.channels, [keys::waiter(&name("door").name, "id")]);
        table.not_done(&left, Rejection::Elsewhere, Instant::now());
        table.corrections();
        assert!(table.confirmed(&channel_of(&name("door")), false));
        assert_eq!(table.corrections(), []);
    }

    #[test]
    fn channels_are_unsubscribed_one_slot_at_a_time() {
        let mut table = Table::of("id", Delivery::Nodes(Channels::Sharded));
        table.begin();
        let names = ["door", "window"].map(name);
        names.iter().for_each(|it| table.listen(it));
        done(&mut table);
        names.iter().for_each(|it| table.unlisten(it));
        let left = table.corrections();
        assert_eq!(left.iter().map(|it| it.channels.len()).collect::<Vec<_>>(), [3, 3]);
    }

    #[test]
    fn waiter_does_not_queue_if_subscribers_cannot_be_counted() {
        let mut table = Table::of("id", Delivery::Nodes(Channels::Plain));
        table.begin();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        assert_eq!(asked.channels, [channel_of(&name("door"))]);
        assert!(!table.permissions(&name("door")).queue);
        assert!(table.permissions(&Object::of(Kind::Write, "door")).queue);
    }

    #[test]
    fn table_reports_no_event_of_a_name_that_moved_away() {
        let mut table = table();
        table.listen(&name("door"));
        table.listen(&name("window"));
        for asked in table.corrections() {
            confirmed(&mut table, &asked);
        }
        table.forget(&name("door"));
        assert_eq!(
            events_of(&mut table),
            [Event::Subscribed(name("window"), SubscriptionLevel::Turns)]
        );
    }

    /// A table, and a server that replies late, rejects requests, and loses connections.
    struct Server {
        table: Table,
        chance: fastrand::Rng,
        now: Instant,
        asked: VecDeque<Correction>,
        subscribed: BTreeSet<String>,
        wanted: BTreeSet<Object>,
        received: BTreeMap<Object, SubscriptionLevel>,
        /// Whether the ACL allows the channels that only Leasehold uses.
        allows: bool,
    }

    impl Server {
        fn of(seed: u64) -> Self {
            Self {
                table: table(),
                chance: fastrand::Rng::with_seed(seed),
                now: Instant::now(),
                asked: VecDeque::new(),
                subscribed: BTreeSet::new(),
                wanted: BTreeSet::new(),
                received: BTreeMap::new(),
                allows: true,
            }
        }

        fn step(&mut self) {
            let names = ["door", "{door}", "window"];
            let one = name(names[self.chance.usize(..names.len())]);
            match self.chance.u32(..16) {
                0..3 => {
                    self.table.listen(&one);
                    self.wanted.insert(one);
                }
                3..5 => {
                    self.table.unlisten(&one);
                    self.wanted.remove(&one);
                    self.received.remove(&one);
                }
                5..8 => self.asked.extend(self.table.corrections()),
                8..13 => self.answer(),
                13 => self.connection_lost(),
                14 => self.allows = self.chance.bool(),
                _ => {
                    let time = self.chance.u64(..40);
                    self.pass(Duration::from_secs(time));
                }
            }
            self.receive();
        }

        /// Replies to the oldest request, perhaps by a rejection.
        fn answer(&mut self) {
            let Some(asked) = self.asked.pop_front() else { return };
            let own = |channel: &String| channel.starts_with("leasehold");
            let forbidden = asked.subscribe.is_some() && asked.channels.iter().any(own);
            match self.chance.u32(..8) {
                0 => self.table.not_done(&asked, Rejection::Passing, self.now),
                _ if forbidden && !self.allows => {
                    self.table.not_done(&asked, Rejection::Forbidden, self.now);
                }
                _ => self.execute(&asked),
            }
        }

        fn execute(&mut self, asked: &Correction) {
            match asked.subscribe {
                Some(_) => self.subscribed.extend(asked.channels.iter().cloned()),
                None => self.subscribed.retain(|it| !asked.channels.contains(it)),
            }
            confirmed(&mut self.table, asked);
        }

        fn connection_lost(&mut self) {
            self.subscribed.clear();
            self.asked.clear();
            self.table.end();
            self.table.begin();
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
            self.table.retry_denied(self.now);
        }

        fn receive(&mut self) {
            for event in events_of(&mut self.table) {
                match event {
                    Event::SubscriptionsLost => self.received.clear(),
                    Event::Subscribed(name, level) => drop(self.received.insert(name, level)),
                    Event::Freed { .. }
                    | Event::Changed { .. }
                    | Event::Ask { .. }
                    | Event::Back
                    | Event::Moved => {}
                }
            }
        }

        /// Confirms all requests.
        fn answer_all(&mut self) {
            self.allows = true;
            self.pass(Duration::from_secs(31));
            self.asked.extend(self.table.corrections());
            while let Some(asked) = self.asked.pop_front() {
                self.execute(&asked);
                self.asked.extend(self.table.corrections());
            }
            self.receive();
        }
    }

    #[test]
    fn subscriptions_finally_match_the_requested_names_for_any_seed() {
        for seed in 0..2_000 {
            let mut server = Server::of(seed);
            (0..200).for_each(|_| server.step());
            server.answer_all();
            let of = |object: &Object| {
                let name = &object.name;
                [channel_of(object), keys::queuers(name), keys::waiter(name, "id")]
            };
            let wanted: BTreeSet<String> = server.wanted.iter().flat_map(of).collect();
            assert_eq!(server.subscribed, wanted, "seed {seed}");
            for name in &server.wanted {
                assert_eq!(
                    server.received.get(name),
                    Some(&SubscriptionLevel::Turns),
                    "seed {seed}: {name}"
                );
            }
        }
    }
}
