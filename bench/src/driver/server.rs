//! Figures that the servers report.

use std::sync::Arc;

use testkit::{Redis, Reply};

/// The servers of a case. Most cases have one server.
#[derive(Debug)]
pub(super) struct Servers(Vec<Arc<Redis>>);

impl Servers {
    pub(super) fn new(all: Vec<Arc<Redis>>) -> Self {
        Self(all)
    }

    pub(super) fn one(redis: Redis) -> Self {
        Self(vec![Arc::new(redis)])
    }

    /// The server of a case that has only one server.
    pub(super) fn first(&self) -> &Redis {
        &self.0[0]
    }

    fn each<T>(&self, ask: impl Fn(&Redis) -> T) -> impl Iterator<Item = T> {
        self.0.iter().map(move |redis| ask(redis))
    }

    fn tell(&self, words: &[&str]) {
        self.each(|redis| redis.command(words)).for_each(drop);
    }
}

/// The processor time that the servers have used, in seconds.
pub(super) fn cpu_seconds(servers: &Servers) -> f64 {
    servers.each(cpu_seconds_of).sum()
}

fn cpu_seconds_of(redis: &Redis) -> f64 {
    let reply = redis.command(&["INFO", "cpu"]);
    let figure = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name, "used_cpu_sys" | "used_cpu_user")
            .then(|| value.trim().parse::<f64>().ok())?
    };
    reply.text().lines().filter_map(figure).sum()
}

/// The number of commands that the servers have executed, including those that scripts call. The
/// request for this number does not count. All other requests of the driver count.
pub(super) fn commands(servers: &Servers) -> u64 {
    servers.each(|redis| redis.calls().total()).sum()
}

/// Turns on the slow log for commands of 10 µs and more.
pub(super) fn watch_slow_commands(servers: &Servers) {
    servers.tell(&["CONFIG", "SET", "slowlog-log-slower-than", "10"]);
    servers.tell(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    servers.tell(&["SLOWLOG", "RESET"]);
}

/// The duration of the longest script since `watch_slow_commands`, in µs. If no script took longer
/// than 10 µs, returns 10.
pub(super) fn longest_script(servers: &Servers) -> f64 {
    servers.each(longest_script_of).fold(10.0, f64::max)
}

fn longest_script_of(redis: &Redis) -> f64 {
    let reply = redis.command(&["SLOWLOG", "GET", "100000"]);
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    reply.list().iter().filter_map(script_micros).fold(10.0, f64::max)
}

/// The duration of a slow log entry if it is a script. An entry is: id, time, µs, arguments,
/// client.
fn script_micros(entry: &Reply) -> Option<f64> {
    let [_, _, micros, arguments, ..] = entry.list() else { return None };
    let Reply::Text(command) = arguments.list().first()? else { return None };
    let command = command.to_lowercase();
    (command == "eval" || command == "evalsha").then(|| micros.number() as f64)
}

/// The number of keys on all servers.
pub(super) fn keys(servers: &Servers) -> i64 {
    servers.each(|redis| redis.command(&["DBSIZE"]).number()).sum()
}

/// The TTL of the only key whose name contains `part`, in ms.
pub(super) fn pttl(servers: &Servers, part: &str) -> Option<i64> {
    let redis = servers.first();
    let found = redis.command(&["KEYS", &format!("*{part}*")]);
    let ends = |key: &&str| Some(redis.command(&["PTTL", key]).number()).filter(|ttl| *ttl > 0);
    found.texts().iter().find_map(ends)
}

/// Creates a semaphore `name` with `permits` permits. An expirable semaphore has the same key.
pub(super) fn fill(servers: &Servers, name: &str, permits: u32) {
    servers.first().command(&["SET", name, &permits.to_string()]);
}

/// Creates a rate limiter `name` with `rate` permits for each 100 ms.
pub(super) fn limit(servers: &Servers, name: &str, rate: u32) {
    let rate = rate.to_string();
    let fields = ["rate", &rate, "interval", "100", "type", "0", "keepAliveTime", "0"];
    servers.first().command(&[&["HSET", name], &fields[..]].concat());
}

/// The number of acquired permits of the expirable semaphore `name`.
pub(super) fn taken(servers: &Servers, name: &str) -> i64 {
    servers.first().command(&["ZCARD", &format!("{{{name}}}:timeout")]).number()
}

pub(super) fn clear(servers: &Servers) {
    servers.tell(&["FLUSHALL"]);
}
