//! The controls of a server for a test.

use std::collections::VecDeque;

use super::{
    Twin,
    core::{Core, Executed, clients::Connection, replica},
    data::{Entry, Value},
    delay::Delay,
    faults::{Cut, Reach, Refusal},
};

impl Twin {
    /// Stops the server as SIGSTOP does. The server still receives commands, and executes them when
    /// it continues, even if their clients have disconnected.
    pub fn stop(&self) {
        self.core().faults.stopped = true;
    }

    /// Lets a stopped server continue. The server then serves its clients in random order.
    pub fn resume(&self) {
        let mut core = self.core();
        core.faults.stopped = false;
        core.wake_all();
        drop(core);
        self.shared.resumed.notify_waiters();
    }

    /// Kills the server: all connections end, and the server refuses new connections. If the server
    /// is a replica, it loses the writes that it has not applied yet.
    pub fn kill(&self) {
        let mut core = self.core();
        (core.faults.dead, core.faults.stopped) = (true, false);
        core.connections().iter().for_each(|connection| core.cut(connection.id, Cut::Whole));
        core.unfollow();
    }

    /// Starts a killed server again, with its data and without its scripts. To lose the data, too,
    /// first call [`forget_everything`](Self::forget_everything).
    pub fn restart(&self) {
        let mut core = self.core();
        core.faults.dead = false;
        core.run = core.random.u64(..);
        core.scripts.clear();
        drop(core);
        self.shared.resumed.notify_waiters();
        replica::follow_again(&self.shared);
    }

    /// Returns how many connected replicas have received all data of this primary.
    pub fn online_replicas(&self) -> usize {
        self.core().followers().iter().filter(|it| it.is_online).count()
    }

    /// Cuts the server off from all other servers. Its clients still reach it.
    pub fn isolate(&self) {
        self.core().faults.isolated = true;
    }

    /// Ends the isolation that [`isolate`](Self::isolate) began.
    pub fn rejoin(&self) {
        self.core().faults.isolated = false;
        self.shared.resumed.notify_waiters();
    }

    /// Sets how long requests and replies travel from now on.
    pub fn delay(&self, requests: Delay, replies: Delay) {
        let mut core = self.core();
        (core.faults.requests, core.faults.replies) = (requests, replies);
    }

    /// Sets what happens to new connections from now on.
    pub fn reach(&self, reach: Reach) {
        self.core().faults.reach = reach;
    }

    /// Cuts the connections for which `wanted` returns true, and returns their number.
    pub fn cut(&self, cut: Cut, wanted: impl Fn(&Connection) -> bool) -> usize {
        let mut core = self.core();
        let hit: Vec<_> = core.connections().into_iter().filter(wanted).collect();
        hit.iter().for_each(|connection| core.cut(connection.id, cut));
        hit.len()
    }

    /// From now on, rejects `per_mille` of each 1,000 commands, at random. 0 ends the rejections.
    ///
    /// Rejections of writes also affect scripts. The server decides once for each script whether to
    /// reject its writes, before the first write.
    pub fn refuse(&self, refusal: Refusal, per_mille: u32) {
        self.core().faults.refusals.insert(refusal, per_mille);
    }

    /// From now on, rejects every command with the text `words`, except those of the login. `None`
    /// ends the rejections. Line breaks become spaces, because a reply has one line.
    pub fn fail(&self, words: Option<&str>) {
        let line = |words: &str| words.replace(['\r', '\n'], " ");
        self.core().faults.failing = words.map(line);
    }

    /// Deletes a key. Returns whether the key existed.
    pub fn delete(&self, key: &str) -> bool {
        self.write(key, |core, now| core.database(0).delete(key.as_bytes(), now))
    }

    /// Sets a key to a text, without a TTL.
    pub fn set_text(&self, key: &str, text: &[u8]) {
        let entry = Entry { value: Value::Text(text.to_vec()), ends: None };
        self.write(key, |core, _| core.database(0).put(key.as_bytes(), entry));
    }

    /// Inserts elements at the beginning of a list, in the given order.
    pub fn prepend(&self, key: &str, elements: impl IntoIterator<Item = Vec<u8>>) {
        let mut list: VecDeque<_> = elements.into_iter().collect();
        self.write(key, |core, now| {
            let before = core.database(0).find::<VecDeque<Vec<u8>>>(key.as_bytes(), now);
            list.extend(before.ok().flatten().into_iter().flat_map(std::mem::take));
            let entry = Entry { value: Value::List(list), ends: None };
            core.database(0).put(key.as_bytes(), entry);
        });
    }

    fn write<T>(&self, key: &str, change: impl FnOnce(&mut Core, i64) -> T) -> T {
        let mut core = self.core();
        core.tick();
        let now = core.now();
        let done = change(&mut core, now);
        core.note_keys(0, &[key.as_bytes()]);
        core.feed();
        done
    }

    /// From now on, loses `per_mille` of each 1,000 messages to subscribers, at random.
    pub fn lose_messages(&self, per_mille: u32) {
        self.core().faults.lost = per_mille;
    }

    /// Forgets all data and all scripts, like a server that crashed without persistence. The
    /// connections stay. To end them, call [`cut`](Self::cut).
    pub fn forget_everything(&self) {
        let mut core = self.core();
        core.tick();
        core.scripts.clear();
        core.clear();
        core.feed();
    }

    /// Forgets all scripts.
    pub fn flush_scripts(&self) {
        self.core().scripts.clear();
    }

    /// Moves the clock of `TIME` by this number of microseconds, forwards or backwards. TTLs do not
    /// depend on this clock.
    pub fn step_clock(&self, micros: i64) {
        let mut core = self.core();
        core.faults.step = core.faults.step.saturating_add(micros);
    }

    /// Changes the permissions of a user by the rules of `ACL SETUSER`. Subscribers that lose the
    /// permission for a channel are disconnected.
    ///
    /// # Panics
    ///
    /// If one of the rules is invalid.
    #[track_caller]
    pub fn user(&self, name: &str, rules: &str) {
        let changed = self.core().set_user(name, rules.split_whitespace());
        changed.unwrap_or_else(|refused| panic!("{rules:?}: {refused:?}"));
    }

    /// Calls `watcher` for each command from now on. The server is locked during the call, so the
    /// closure must not call the server.
    pub fn watch(&self, watcher: impl FnMut(&Executed<'_>) + Send + 'static) {
        self.core().watcher = Some(Box::new(watcher));
    }

    /// Adds this many imaginary replicas, which acknowledge every write at once.
    pub fn acknowledge_as(&self, replicas: usize) {
        let mut core = self.core();
        core.tick();
        core.faults.replicas = replicas;
        core.unblock();
    }

    /// Makes this replica the primary. The old primary becomes a replica of the new primary, keeps
    /// its connections, and rejects writes. When the data of the new primary arrives, the old
    /// primary loses the writes that the new primary has not received.
    pub fn promote(&self) {
        replica::promote(&self.shared, true);
    }

    /// Like [`promote`](Self::promote), but the old primary does not learn of the promotion. So it
    /// continues as a primary.
    pub fn secede(&self) {
        replica::promote(&self.shared, false);
    }

    /// Makes this server a replica of `master`. Writes reach this server after `lag`.
    pub fn follow(&self, master: &Self, lag: Delay) {
        replica::follow(&self.shared, &master.shared, lag);
    }
}
