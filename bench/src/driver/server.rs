//! What the server itself says about its work.

use testkit::{Redis, Reply};

/// Seconds of processor time that the server has used so far.
pub(super) fn cpu_seconds(redis: &Redis) -> f64 {
    let reply = redis.command(&["INFO", "cpu"]);
    let figure = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name, "used_cpu_sys" | "used_cpu_user")
            .then(|| value.trim().parse::<f64>().ok())?
    };
    reply.text().lines().filter_map(figure).sum()
}

/// How many commands it has run so far, those inside scripts too, this question
/// not. Whatever else the driver asks between two of these is counted.
pub(super) fn commands(redis: &Redis) -> u64 {
    redis.calls().total()
}

/// Lets it note every command of 10 µs and more, from now on.
pub(super) fn watch_slow_commands(redis: &Redis) {
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "10"]);
    redis.command(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    redis.command(&["SLOWLOG", "RESET"]);
}

/// The duration in µs of the longest script since then, or 10 if none took longer.
pub(super) fn longest_script(redis: &Redis) -> f64 {
    let reply = redis.command(&["SLOWLOG", "GET", "100000"]);
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    reply.list().iter().filter_map(script_micros).fold(10.0, f64::max)
}

/// An entry is id, time, µs, arguments, client.
fn script_micros(entry: &Reply) -> Option<f64> {
    let [_, _, micros, arguments, ..] = entry.list() else { return None };
    let Reply::Text(command) = arguments.list().first()? else { return None };
    let command = command.to_lowercase();
    (command == "eval" || command == "evalsha").then(|| micros.number() as f64)
}

/// How many keys there are.
pub(super) fn keys(redis: &Redis) -> i64 {
    redis.command(&["DBSIZE"]).number()
}

/// Milliseconds until the one key that contains `part` ends.
pub(super) fn pttl(redis: &Redis, part: &str) -> Option<i64> {
    let found = redis.command(&["KEYS", &format!("*{part}*")]);
    let ends = |key: &&str| Some(redis.command(&["PTTL", key]).number()).filter(|ttl| *ttl > 0);
    found.texts().iter().find_map(ends)
}

/// Makes so many permits called `name`, of a semaphore, or of one whose permits expire.
pub(super) fn fill(redis: &Redis, name: &str, permits: u32) {
    redis.command(&["SET", name, &permits.to_string()]);
}

/// How many permits that expire are taken of those called `name`.
pub(super) fn taken(redis: &Redis, name: &str) -> i64 {
    redis.command(&["ZCARD", &format!("{{{name}}}:timeout")]).number()
}

/// Forgets everything.
pub(super) fn clear(redis: &Redis) {
    redis.command(&["FLUSHALL"]);
}
