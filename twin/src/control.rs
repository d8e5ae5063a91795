//! What a test can do to a server.

use super::{
    Twin,
    core::{Core, Executed, clients::Connection, replica},
    data::{Entry, Value},
    delay::Delay,
    faults::{Cut, Reach, Refusal},
};

impl Twin {
    /// Stops the server as SIGSTOP does: it takes in what is sent, and executes it
    /// when it goes on, even for those who have gone meanwhile.
    pub fn stop(&self) {
        self.core().faults.stopped = true;
    }

    /// Lets a stopped server go on. Who is served first is left to chance.
    pub fn resume(&self) {
        let mut core = self.core();
        core.faults.stopped = false;
        core.wake_all();
        drop(core);
        self.shared.resumed.notify_waiters();
    }

    /// Kills the server: all connections end, and new ones are refused. What a replica
    /// had not applied yet is lost to it.
    pub fn kill(&self) {
        let mut core = self.core();
        (core.faults.dead, core.faults.stopped) = (true, false);
        core.connections().iter().for_each(|connection| core.cut(connection.id, Cut::Whole));
        core.unfollow();
    }

    /// Starts a killed server again, with its data and without its scripts. If it lost
    /// its data as well, call [`forget_everything`](Self::forget_everything) before.
    pub fn restart(&self) {
        let mut core = self.core();
        core.faults.dead = false;
        core.run = core.random.u64(..);
        core.scripts.clear();
        drop(core);
        self.shared.resumed.notify_waiters();
        replica::follow_again(&self.shared);
    }

    /// Cuts the server off from other servers, and from no client.
    pub fn isolate(&self) {
        self.core().faults.isolated = true;
    }

    /// Ends what [`isolate`](Self::isolate) began.
    pub fn rejoin(&self) {
        self.core().faults.isolated = false;
        self.shared.resumed.notify_waiters();
    }

    /// How long requests and replies are on their way from now on.
    pub fn delay(&self, requests: Delay, replies: Delay) {
        let mut core = self.core();
        (core.faults.requests, core.faults.replies) = (requests, replies);
    }

    /// What becomes of those who want to connect from now on.
    pub fn reach(&self, reach: Reach) {
        self.core().faults.reach = reach;
    }

    /// Cuts the connections that are wanted, and says how many these were.
    pub fn cut(&self, cut: Cut, wanted: impl Fn(&Connection) -> bool) -> usize {
        let mut core = self.core();
        let hit: Vec<_> = core.connections().into_iter().filter(wanted).collect();
        hit.iter().for_each(|connection| core.cut(connection.id, cut));
        hit.len()
    }

    /// Refuses so many of a thousand commands from now on, each by chance: 1 000 are
    /// all, 0 is none any more.
    ///
    /// Refusals of writes reach into scripts: until its first write a script is
    /// refused all of them, or none.
    pub fn refuse(&self, refusal: Refusal, per_mille: u32) {
        self.core().faults.refusals.insert(refusal, per_mille);
    }

    /// Refuses every command with these words from now on, but for those that say who the client
    /// is. `None` ends it. Line breaks become spaces: a reply has one line.
    pub fn fail(&self, words: Option<&str>) {
        let line = |words: &str| words.replace(['\r', '\n'], " ");
        self.core().faults.failing = words.map(line);
    }

    /// Deletes a key as if it had never been there. Returns whether it was.
    pub fn delete(&self, key: &str) -> bool {
        self.write(key, |core, now| core.database(0).delete(key.as_bytes(), now))
    }

    /// Puts a text under a key, without an end.
    pub fn set_text(&self, key: &str, text: &[u8]) {
        let entry = Entry { value: Value::Text(text.to_vec()), ends: None };
        self.write(key, |core, _| core.database(0).put(key.as_bytes(), entry));
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

    /// Loses so many of a thousand messages to subscribers from now on.
    pub fn lose_messages(&self, per_mille: u32) {
        self.core().faults.lost = per_mille;
    }

    /// Forgets all data and all scripts, as a server that has crashed and keeps
    /// nothing. The connections stay; see [`cut`](Self::cut).
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

    /// Moves the clock that `TIME` shows, by microseconds in either direction. Leases
    /// are not counted by it.
    pub fn step_clock(&self, micros: i64) {
        let mut core = self.core();
        core.faults.step = core.faults.step.saturating_add(micros);
    }

    /// Changes the rights of a user by rules as `ACL SETUSER` has them. Its
    /// subscribers that must not listen any more are cut off.
    ///
    /// # Panics
    ///
    /// If one of the rules is none.
    #[track_caller]
    pub fn user(&self, name: &str, rules: &str) {
        let changed = self.core().set_user(name, rules.split_whitespace());
        changed.unwrap_or_else(|refused| panic!("{rules:?}: {refused:?}"));
    }

    /// Tells each command that is executed from now on. It happens in the middle of
    /// it: the closure must not call the server.
    pub fn watch(&self, watcher: impl FnMut(&Executed<'_>) + Send + 'static) {
        self.core().watcher = Some(Box::new(watcher));
    }

    /// From now on this many replicas seem to have all that is written, at once, beside those
    /// that there are.
    pub fn acknowledge_as(&self, replicas: usize) {
        let mut core = self.core();
        core.tick();
        core.faults.replicas = replicas;
        core.unblock();
    }

    /// Makes a replica the master. The old master becomes its replica: it keeps its
    /// connections, refuses writes, and has forgotten what the new one has not heard
    /// of as soon as that reaches it.
    pub fn promote(&self) {
        replica::promote(&self.shared, true);
    }

    /// As [`promote`](Self::promote), while the old master goes on and knows nothing
    /// of it.
    pub fn secede(&self) {
        replica::promote(&self.shared, false);
    }

    /// Makes this server a replica of `master`, `lag` behind it.
    pub fn follow(&self, master: &Self, lag: Delay) {
        replica::follow(&self.shared, &master.shared, lag);
    }
}
