//! What is to be heard, and what the server has confirmed: one is brought to the other.
//!
//! Pure: no I/O, told the time. A channel whose state is not what is wanted stays
//! *unsettled* until the server's answer settles it. So whatever gets lost on the way, a
//! reply, a message or a connection, the next look asks for what is missing then.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tokio::time::Instant;

use super::{
    super::{keys, replies},
    rights::{Refusals, Refused, Rights},
};
use crate::{
    domain::{Map, Name},
    store::{Event, Hears},
};

/// The wishes of one client and what became of them.
#[derive(Debug)]
pub(super) struct Table {
    client: String,
    names: Map<Name, Wish>,
    channels: HashMap<String, Channel>,
    /// Channels that may not be as they are wanted.
    unsettled: BTreeSet<String>,
    refusals: Refusals,
    /// Counts connections, and those who ask: answers to what was asked before count no more.
    connection: u64,
    /// What is to be told, in order.
    events: VecDeque<Event>,
}

/// A name that somebody waits for.
#[derive(Debug, Default)]
struct Wish {
    channels: Vec<String>,
    /// What was told last.
    hears: Hears,
}

#[derive(Debug)]
struct Channel {
    says: Says,
    state: State,
    /// Whether the server was asked to subscribe, and may do so yet: it may be heard though
    /// it is off.
    in_doubt: bool,
    /// Who wants it: `door` and `{door}` share the one of their releases.
    names: BTreeSet<Name>,
}

impl Channel {
    fn of(says: Says) -> Self {
        Self { says, state: State::Off, names: BTreeSet::new(), in_doubt: false }
    }

    /// What was asked for was not confirmed; it may have `failed`, and be done later.
    fn is_not_confirmed(&mut self, failed: bool) {
        match self.state {
            State::Asked => (self.state, self.in_doubt) = (State::Off, self.in_doubt || failed),
            State::Leaving if self.in_doubt => self.state = State::Off,
            State::Leaving => self.state = State::On,
            State::Off | State::On => {}
        }
    }
}

/// What a message on a channel is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Says {
    Released,
    /// Nothing is said: who listens is counted.
    Nothing,
    OurTurn,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Off,
    Asked,
    On,
    Leaving,
}

/// What to ask of the server.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Correction {
    /// Whether to subscribe: then for this name.
    pub(super) subscribe: Option<Name>,
    pub(super) channels: Vec<String>,
    connection: u64,
}

/// What became of a correction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    Done,
    /// We have no right to it.
    Forbidden,
    /// It may be otherwise later.
    Failed,
}

impl Table {
    pub(super) fn of(client: &str) -> Self {
        Self {
            client: client.to_owned(),
            names: Map::default(),
            channels: HashMap::new(),
            unsettled: BTreeSet::new(),
            refusals: Refusals::default(),
            connection: 0,
            events: VecDeque::new(),
        }
    }

    pub(super) fn listen(&mut self, name: &Name) {
        if !self.names.contains_key(name) {
            self.names.insert(name.clone(), Wish::default());
        }
        self.want(name);
        // Who wants it anew does not know yet.
        let hears = self.names.get(name).map(|wish| wish.hears).unwrap_or_default();
        if hears != Hears::Nothing {
            self.events.push_back(Event::Hears(name.clone(), hears));
        }
    }

    pub(super) fn unlisten(&mut self, name: &Name) {
        if let Some(wish) = self.names.remove(name) {
            self.give_up(name, wish.channels);
        }
    }

    pub(super) fn rights(&self, name: &Name) -> Rights {
        self.refusals.rights(name)
    }

    /// Notes that the server refuses us what we need for `name`.
    pub(super) fn refused(&mut self, name: &Name, what: Refused, now: Instant) {
        self.refusals.note(name, what, now);
        self.want(name);
    }

    /// Tries again what was refused long ago.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.refusals.forget(now).iter().for_each(|name| self.want(name));
    }

    /// Whether the releases of `name` reach us.
    pub(super) fn hears_releases(&self, name: &Name) -> bool {
        self.channels.get(&keys::channel(name)).is_some_and(|it| it.state == State::On)
    }

    /// Whether there is anything to hear.
    pub(super) fn is_quiet(&self) -> bool {
        self.channels.is_empty()
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes the channels of `name` those that its rights allow.
    fn want(&mut self, name: &Name) {
        let wanted = self.wanted(name);
        let Some(wish) = self.names.get_mut(name) else { return };
        let before = std::mem::take(&mut wish.channels);
        wish.channels = wanted.iter().map(|(channel, _)| channel.clone()).collect();
        let gone = before.into_iter().filter(|it| !wanted.iter().any(|(kept, _)| kept == it));
        let gone = gone.collect();
        self.give_up(name, gone);
        for (channel, says) in wanted {
            let entry = self.channels.entry(channel.clone()).or_insert_with(|| Channel::of(says));
            entry.says = says;
            entry.names.insert(name.clone());
            self.unsettled.insert(channel);
        }
        self.update(name);
    }

    fn wanted(&self, name: &Name) -> Vec<(String, Says)> {
        let Rights { queue, own_channels, releases } = self.refusals.rights(name);
        let mut wanted = Vec::new();
        if releases {
            wanted.push((keys::channel(name), Says::Released));
        }
        if releases && queue && own_channels {
            wanted.push((keys::queuers(name), Says::Nothing));
            wanted.push((keys::waiter(name, &self.client), Says::OurTurn));
        }
        wanted
    }

    fn give_up(&mut self, name: &Name, channels: Vec<String>) {
        for channel in channels {
            if let Some(entry) = self.channels.get_mut(&channel) {
                entry.names.remove(name);
                self.unsettled.insert(channel);
            }
        }
    }

    /// What to ask for now. What is asked for already is not asked for again.
    pub(super) fn corrections(&mut self) -> Vec<Correction> {
        let mut subscribe: BTreeMap<Name, Vec<String>> = BTreeMap::new();
        let mut unsubscribe = Vec::new();
        for name in std::mem::take(&mut self.unsettled) {
            let Some(channel) = self.channels.get_mut(&name) else { continue };
            match (channel.names.first(), channel.state) {
                (Some(_), State::On) => {}
                (None, State::Off) if !channel.in_doubt => drop(self.channels.remove(&name)),
                (Some(user), State::Off) => {
                    channel.state = State::Asked;
                    subscribe.entry(user.clone()).or_default().push(name);
                }
                (None, State::Off | State::On) => {
                    channel.state = State::Leaving;
                    unsubscribe.push(name);
                }
                (_, State::Asked | State::Leaving) => drop(self.unsettled.insert(name)),
            }
        }
        let connection = self.connection;
        let of = |subscribe, channels| Correction { subscribe, channels, connection };
        let mut all: Vec<_> =
            subscribe.into_iter().map(|(name, channels)| of(Some(name), channels)).collect();
        if !unsubscribe.is_empty() {
            all.push(of(None, unsubscribe));
        }
        all
    }

    /// Takes the answer to `asked`. What was confirmed was told before it.
    pub(super) fn answered(&mut self, asked: &Correction, answer: Answer, now: Instant) {
        if asked.subscribe.is_some() && answer != Answer::Forbidden {
            self.leave_unwanted(&asked.channels);
        }
        if asked.connection != self.connection {
            return;
        }
        for channel in &asked.channels {
            let Some(entry) = self.channels.get_mut(channel) else { continue };
            entry.is_not_confirmed(answer == Answer::Failed);
            // One who came back while we were leaving is still there.
            let names = entry.names.clone();
            names.iter().for_each(|name| self.update(name));
            // If UNSUBSCRIBE is forbidden, we stay subscribed.
            if asked.subscribe.is_some() || answer != Answer::Forbidden {
                self.unsettled.insert(channel.clone());
            }
        }
        if let (Answer::Forbidden, Some(name)) = (answer, &asked.subscribe) {
            self.refused(name, Refused::Subscription, now);
        }
    }

    /// What we asked to hear, and want no more, may reach us: also if it was asked for
    /// before this connection, and sent on it.
    fn leave_unwanted(&mut self, channels: &[String]) {
        for channel in channels {
            let fresh = || Channel::of(Says::Nothing);
            let entry = self.channels.entry(channel.clone()).or_insert_with(fresh);
            entry.in_doubt |= entry.names.is_empty();
            self.unsettled.insert(channel.clone());
        }
    }

    /// Nobody waits for the answers to what was asked: it is to be asked anew.
    pub(super) fn ask_anew(&mut self) {
        self.connection += 1;
        let mut names = BTreeSet::new();
        for (channel, entry) in &mut self.channels {
            if matches!(entry.state, State::Asked | State::Leaving) {
                entry.is_not_confirmed(true);
                names.extend(entry.names.iter().cloned());
                self.unsettled.insert(channel.clone());
            }
        }
        names.iter().for_each(|name| self.update(name));
    }

    /// Another connection begins, on which nothing is heard yet.
    pub(super) fn begin(&mut self) {
        self.silence();
        self.refusals.clear();
        let names: BTreeSet<Name> = self.names.keys().cloned().collect();
        names.iter().for_each(|name| self.want(name));
    }

    /// The connection is lost, and with it everything that was heard.
    pub(super) fn end(&mut self) {
        self.names.values_mut().for_each(|wish| wish.hears = Hears::Nothing);
        self.silence();
        self.events.push_back(Event::SubscriptionsLost);
    }

    /// Nothing is heard, and what was asked counts no more.
    fn silence(&mut self) {
        self.connection += 1;
        for (channel, entry) in &mut self.channels {
            (entry.state, entry.in_doubt) = (State::Off, false);
            self.unsettled.insert(channel.clone());
        }
    }

    /// Commands are answered again.
    pub(super) fn back(&mut self) {
        self.events.push_back(Event::Back);
    }

    /// The server has confirmed that we hear `channel`, or that we do not.
    pub(super) fn confirmed(&mut self, channel: &str, on: bool) {
        let Some(entry) = self.channels.get_mut(channel) else { return };
        (entry.state, entry.in_doubt) = (if on { State::On } else { State::Off }, false);
        self.unsettled.insert(channel.to_owned());
        let names = entry.names.clone();
        names.iter().for_each(|name| self.update(name));
    }

    /// Tells what is heard of `name` if that has changed.
    fn update(&mut self, name: &Name) {
        let Some(wish) = self.names.get_mut(name) else { return };
        let is_on = |it: &String| self.channels.get(it).is_some_and(|it| it.state == State::On);
        let hears = match wish.channels.len() {
            0 => Hears::Nothing,
            _ if !wish.channels.iter().all(is_on) => Hears::Nothing,
            1 => Hears::Releases,
            _ => Hears::Turns,
        };
        if std::mem::replace(&mut wish.hears, hears) != hears {
            self.events.push_back(Event::Hears(name.clone(), hears));
        }
    }

    /// Something was said on `channel`.
    pub(super) fn heard(&mut self, channel: &str, message: &redis::Value) {
        let Some(entry) = self.channels.get(channel) else { return };
        let names = entry.names.iter().cloned();
        match entry.says {
            Says::Released => {
                let queue_told = replies::queue_was_told(message);
                self.events.extend(names.map(|name| Event::Freed { name, queue_told }));
            }
            Says::OurTurn => {
                let after = replies::ask_after(message);
                self.events.extend(names.map(|name| Event::Ask { name, after }));
            }
            Says::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::Value;

    use super::*;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn table() -> Table {
        let mut table = Table::of("id");
        table.begin();
        table
    }

    /// Everything that is asked for now is done, and said.
    fn done(table: &mut Table) {
        for asked in table.corrections() {
            for channel in &asked.channels {
                table.confirmed(channel, asked.subscribe.is_some());
            }
            table.answered(&asked, Answer::Done, Instant::now());
        }
    }

    fn told(table: &mut Table) -> Vec<Event> {
        std::iter::from_fn(|| table.next_event()).collect()
    }

    /// A table that hears of the turn at `door`, as it was told.
    fn hearing() -> Table {
        let mut table = table();
        table.listen(&name("door"));
        done(&mut table);
        assert_eq!(told(&mut table), [Event::Hears(name("door"), Hears::Turns)]);
        table
    }

    #[test]
    fn what_is_wanted_is_asked_for_once_and_told_when_all_of_it_is_confirmed() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        assert_eq!((asked.subscribe.as_ref(), asked.channels.len()), (Some(&name("door")), 3));
        assert_eq!(table.corrections(), []);
        for channel in &asked.channels {
            assert_eq!(told(&mut table), []);
            table.confirmed(channel, true);
        }
        assert_eq!(told(&mut table), [Event::Hears(name("door"), Hears::Turns)]);
        table.answered(&asked, Answer::Done, Instant::now());
        assert_eq!(table.corrections(), []);
        assert!(table.hears_releases(&name("door")));
    }

    #[test]
    fn an_outage_is_told_and_everything_is_asked_for_anew() {
        let mut table = hearing();
        table.end();
        assert_eq!(told(&mut table), [Event::SubscriptionsLost]);
        assert!(!table.hears_releases(&name("door")));
        // however long it takes, and whatever fails meanwhile
        for asked in table.corrections() {
            table.answered(&asked, Answer::Failed, Instant::now());
        }
        table.begin();
        done(&mut table);
        assert_eq!(told(&mut table), [Event::Hears(name("door"), Hears::Turns)]);
    }

    #[test]
    fn a_refusal_that_passes_costs_nothing_but_another_question() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.answered(&asked, Answer::Failed, Instant::now());
        let [again] = table.corrections().try_into().unwrap();
        assert_eq!(asked, again);
        assert_eq!(told(&mut table), []);
    }

    #[test]
    fn a_refusal_that_stays_costs_one_right_and_is_tried_again_later() {
        let (mut table, now) = (table(), Instant::now());
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.answered(&asked, Answer::Forbidden, now);
        let [less] = table.corrections().try_into().unwrap();
        assert_eq!(less.channels, [keys::channel(&name("door"))]);
        table.confirmed(&less.channels[0], true);
        table.answered(&less, Answer::Done, now);
        assert_eq!(told(&mut table), [Event::Hears(name("door"), Hears::Releases)]);

        table.forgive(now + Duration::from_secs(29));
        assert_eq!(table.corrections(), []);
        table.forgive(now + Duration::from_secs(31));
        done(&mut table);
        assert_eq!(told(&mut table).last(), Some(&Event::Hears(name("door"), Hears::Turns)));
    }

    #[test]
    fn who_may_not_leave_a_channel_stays_and_does_not_ask_again_and_again() {
        let mut table = hearing();
        table.unlisten(&name("door"));
        let [leaves] = table.corrections().try_into().unwrap();
        table.answered(&leaves, Answer::Forbidden, Instant::now());
        assert_eq!(table.corrections(), []);

        // and hears at once when it comes back
        table.listen(&name("door"));
        assert_eq!(table.corrections(), []);
        assert_eq!(told(&mut table).last(), Some(&Event::Hears(name("door"), Hears::Turns)));
    }

    #[test]
    fn two_names_share_a_channel_until_the_last_one_leaves() {
        let (mut table, shared) = (hearing(), keys::channel(&name("door")));
        table.listen(&name("{door}"));
        done(&mut table);
        told(&mut table);
        table.heard(&shared, &Value::BulkString(b"00".to_vec()));
        assert_eq!(told(&mut table).len(), 2, "both are told");

        table.unlisten(&name("door"));
        done(&mut table);
        table.heard(&shared, &Value::BulkString(b"0".to_vec()));
        let freed = Event::Freed { name: name("{door}"), queue_told: false };
        assert_eq!(told(&mut table), [freed]);
        table.unlisten(&name("{door}"));
        done(&mut table);
        assert!(table.corrections().is_empty() && table.is_quiet());
    }

    #[test]
    fn an_answer_of_an_old_connection_settles_nothing() {
        let mut table = table();
        table.listen(&name("door"));
        let [old] = table.corrections().try_into().unwrap();
        table.end();
        table.begin();
        let [_new] = table.corrections().try_into().unwrap();
        for answer in [Answer::Failed, Answer::Forbidden, Answer::Done] {
            table.answered(&old, answer, Instant::now());
            assert_eq!(table.corrections(), [], "it is asked for already");
        }
        assert!(table.rights(&name("door")).queue);
    }

    #[test]
    fn who_leaves_and_comes_back_while_the_server_is_asked_hears_in_the_end() {
        let mut table = table();
        table.listen(&name("door"));
        let [asked] = table.corrections().try_into().unwrap();
        table.unlisten(&name("door"));
        assert_eq!(table.corrections(), []);
        asked.channels.iter().for_each(|channel| table.confirmed(channel, true));
        table.answered(&asked, Answer::Done, Instant::now());
        let [leaves] = table.corrections().try_into().unwrap();
        table.listen(&name("door"));
        leaves.channels.iter().for_each(|channel| table.confirmed(channel, false));
        table.answered(&leaves, Answer::Done, Instant::now());
        done(&mut table);
        assert_eq!(told(&mut table).last(), Some(&Event::Hears(name("door"), Hears::Turns)));
    }

    /// A server that takes its time, refuses, loses replies and connections; and what was
    /// told of it.
    struct Server {
        table: Table,
        chance: fastrand::Rng,
        now: Instant,
        asked: Vec<Correction>,
        subscribed: BTreeSet<String>,
        wanted: BTreeSet<Name>,
        heard: BTreeMap<Name, Hears>,
        /// What was done, and is said when it is no longer waited for.
        late: Vec<(String, bool)>,
        /// Whether our own channels are allowed.
        allows: bool,
    }

    impl Server {
        fn of(seed: u64) -> Self {
            Self {
                table: table(),
                chance: fastrand::Rng::with_seed(seed),
                now: Instant::now(),
                asked: Vec::new(),
                subscribed: BTreeSet::new(),
                wanted: BTreeSet::new(),
                heard: BTreeMap::new(),
                late: Vec::new(),
                allows: true,
            }
        }

        /// One thing happens.
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
                    self.heard.remove(&one);
                }
                5..8 => self.asked.extend(self.table.corrections()),
                8..13 => self.answer(),
                13 if self.chance.bool() => self.table.ask_anew(),
                13 => self.lose_the_connection(),
                14 => self.allows = self.chance.bool(),
                _ => {
                    let time = self.chance.u64(..40);
                    self.pass(Duration::from_secs(time));
                }
            }
            self.hear();
        }

        /// Answers what was asked first, or loses it, or its answer.
        fn answer(&mut self) {
            if self.asked.is_empty() {
                return;
            }
            let asked = self.asked.remove(0);
            let own = |channel: &String| channel.starts_with("leasehold");
            let forbidden = asked.subscribe.is_some() && asked.channels.iter().any(own);
            let answer = match self.chance.u32(..8) {
                0 => Answer::Failed,
                _ if forbidden && !self.allows => Answer::Forbidden,
                _ => Answer::Done,
            };
            let is_late = self.chance.u32(..4) == 0;
            if asked.connection == self.table.connection && answer == Answer::Done {
                self.execute(&asked);
            }
            if is_late && answer == Answer::Done {
                return self.table.answered(&asked, Answer::Failed, self.now);
            }
            self.catch_up();
            self.table.answered(&asked, answer, self.now);
        }

        fn execute(&mut self, asked: &Correction) {
            let on = asked.subscribe.is_some();
            for channel in &asked.channels {
                match on {
                    true => self.subscribed.insert(channel.clone()),
                    false => self.subscribed.remove(channel),
                };
                self.late.push((channel.clone(), on));
            }
        }

        /// What was done and has not been said is said, in order.
        fn catch_up(&mut self) {
            for (channel, on) in std::mem::take(&mut self.late) {
                self.table.confirmed(&channel, on);
            }
        }

        fn lose_the_connection(&mut self) {
            self.subscribed.clear();
            self.late.clear();
            self.table.end();
            self.table.begin();
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
            self.table.forgive(self.now);
        }

        fn hear(&mut self) {
            for event in told(&mut self.table) {
                match event {
                    Event::SubscriptionsLost => self.heard.clear(),
                    Event::Hears(name, hears) => drop(self.heard.insert(name, hears)),
                    Event::Freed { .. } | Event::Ask { .. } | Event::Back => {}
                }
            }
        }

        /// Nothing goes wrong any more, until nothing is asked for.
        fn settle(&mut self) {
            self.allows = true;
            while !self.asked.is_empty() {
                self.answer();
            }
            self.catch_up();
            self.pass(Duration::from_secs(31));
            for _ in 0..50 {
                for asked in self.table.corrections() {
                    self.execute(&asked);
                    self.catch_up();
                    self.table.answered(&asked, Answer::Done, self.now);
                }
            }
            self.hear();
        }
    }

    #[test]
    fn whatever_happens_it_ends_as_it_is_wanted() {
        for seed in 0..2_000 {
            let mut server = Server::of(seed);
            (0..200).for_each(|_| server.step());
            server.settle();
            let of =
                |name: &Name| [keys::channel(name), keys::queuers(name), keys::waiter(name, "id")];
            let wanted: BTreeSet<String> = server.wanted.iter().flat_map(of).collect();
            assert_eq!(server.subscribed, wanted, "seed {seed}");
            for name in &server.wanted {
                assert_eq!(server.heard.get(name), Some(&Hears::Turns), "seed {seed}: {name}");
            }
        }
    }

    #[test]
    fn what_is_subscribed_to_on_a_later_connection_is_left_if_nobody_wants_it() {
        // given a subscription that is asked for while the connection is away
        let (mut table, door) = (Table::of("me"), Name::new("door").unwrap());
        table.end();
        table.listen(&door);
        let asked = table.corrections().remove(0);

        // when nobody wants it any more, and it is sent on the next connection
        table.unlisten(&door);
        table.begin();
        assert!(table.corrections().is_empty());
        asked.channels.iter().for_each(|channel| table.confirmed(channel, true));
        table.answered(&asked, Answer::Done, Instant::now());

        // then it is left
        let left = table.corrections().remove(0);
        assert_eq!((left.subscribe.is_some(), left.channels.len()), (false, 3));
        left.channels.iter().for_each(|channel| table.confirmed(channel, false));
        table.answered(&left, Answer::Done, Instant::now());
    }

    #[test]
    fn what_is_wanted_again_meanwhile_is_heard() {
        let (mut table, door) = (Table::of("me"), Name::new("door").unwrap());
        table.listen(&door);
        let asked = table.corrections().remove(0);
        table.unlisten(&door);
        table.answered(&asked, Answer::Failed, Instant::now());
        table.listen(&door);
        let again = table.corrections().remove(0);
        again.channels.iter().for_each(|channel| table.confirmed(channel, true));
        table.heard(&keys::channel(&door), &Value::BulkString(b"0".to_vec()));
        let freed = Event::Freed { name: door, queue_told: false };
        let told: Vec<Event> = std::iter::from_fn(|| table.next_event()).collect();
        assert!(told.contains(&freed), "{told:?}");
    }
}
