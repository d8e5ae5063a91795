//! Tests that the simulated server replies as Redis does. Both servers get the same commands, from
//! several clients in either protocol, and the tests compare every byte of the replies.
//!
//! The random leases are chosen so that a difference of a few seconds does not show in a reply.
//! Values that depend on a clock are left out: see [`same`].

mod speaking;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use leasehold_twin::{Refusal, Twin};
use speaking::{ENDED, Speaker, before, packed, shown};
use testkit::Redis;
use tokio::time::advance;

/// A client of the real server, with a counterpart at the simulated server.
struct Real {
    stream: TcpStream,
    asked: u64,
}

impl Real {
    fn to(redis: &Redis) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, asked: 0 }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.asked += 1;
        let marker = format!("marker-{}", self.asked);
        let mut bytes = if words.is_empty() { vec![] } else { packed(words) };
        bytes.extend(packed(&["PING", &marker]));
        if self.stream.write_all(&bytes).is_err() {
            return ENDED.into();
        }
        let (mut bytes, mut buffer) = (vec![], [0; 4096]);
        loop {
            if let Some(shown) = before(&bytes, &marker) {
                return shown;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return shown(&bytes) + ENDED,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return shown(&bytes) + ENDED;
                }
                Err(error) => panic!("{error}: only {:?} came", shown(&bytes)),
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

/// Both servers, with the same clients at each server.
struct Both {
    redis: Redis,
    twin: Twin,
    clients: Vec<(Real, Speaker)>,
    asked: Vec<String>,
}

impl Both {
    fn start(redis: Redis, seed: u64) -> Self {
        Self { redis, twin: Twin::new(seed), clients: vec![], asked: vec![] }
    }

    /// Connects a client to both servers. Returns the number of the client.
    async fn connect(&mut self) -> usize {
        self.clients.push((Real::to(&self.redis), Speaker::to(&self.twin).await));
        self.clients.len() - 1
    }

    /// Sends a request to both servers, and compares the bytes that all clients receive.
    async fn ask(&mut self, client: usize, words: &[&str]) {
        let brief = |word: &&str| word.chars().take(60).collect::<String>().replace('\n', " ");
        let brief: Vec<_> = words.iter().map(brief).collect();
        self.asked.push(format!("{client}: {}", brief.join(" ")));
        // On a real server, no two commands have the same time. So the virtual time advances before
        // each command.
        advance(Duration::from_millis(1)).await;
        let (real, twin) = &mut self.clients[client];
        let (real, twin) = (real.ask(words), twin.ask_words(words).await);
        let real_ended = real.ends_with(ENDED);
        // Channels and elements of sets have no order in Redis.
        let (real, twin) = match words {
            ["UNSUBSCRIBE" | "SUNSUBSCRIBE"]
            | ["SSCAN", ..]
            | ["PUBSUB", "CHANNELS" | "SHARDCHANNELS", ..] => (sorted(&real), sorted(&twin)),
            _ => (real, twin),
        };
        self.compare(client, &real, &twin);
        if real_ended {
            self.clients[client] = (Real::to(&self.redis), Speaker::to(&self.twin).await);
        }
        for other in 0..self.clients.len() {
            if other != client {
                self.listen(other).await;
            }
        }
    }

    async fn listen(&mut self, client: usize) {
        let (real, twin) = &mut self.clients[client];
        let (real, twin) = (real.ask(&[]), twin.received().await);
        let ended = real.ends_with(ENDED);
        self.compare(client, &real, &twin);
        if ended {
            self.clients[client] = (Real::to(&self.redis), Speaker::to(&self.twin).await);
        }
    }

    fn compare(&self, client: usize, real: &str, twin: &str) {
        let recent = self.asked[self.asked.len().saturating_sub(20)..].join("\n");
        assert_eq!(same(twin), same(real), "twin and Redis to client {client} after\n{recent}");
    }
}

fn sorted(answer: &str) -> String {
    let mut words: Vec<_> = answer.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

/// Each lease is a multiple of this number of milliseconds, plus half of this number.
const UNIT: i64 = 100_000;

/// Returns a reply without the parts that depend on a clock.
fn same(answer: &str) -> String {
    let word = |word: &str| {
        let lease = word.strip_prefix(':').and_then(|number| number.parse::<i64>().ok());
        if let Some(lease) = lease.filter(|lease| *lease > UNIT) {
            return format!(":{}..", lease / UNIT * UNIT);
        }
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let clock = digits && word.len() == 16 && word.starts_with('1');
        let shorter = word.strip_prefix(',').unwrap_or(word);
        let double = shorter.len() == 16 && shorter.starts_with('1') && shorter != word;
        if clock || double { "(clock)".into() } else { word.to_owned() }
    };
    answer.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

// The commands.

/// Returns a random word for a command. Some of the words are valid, and some are not.
fn pick(random: &mut Rng, from: &[&str]) -> String {
    (*random.choice(from).unwrap()).to_owned()
}

const KEYS: [&str; 7] = ["a", "h1", "h2", "s1", "z1", "z2", "l1"];
const FIELDS: [&str; 4] = ["f", "g", "one:1", ""];
const NUMBERS: [&str; 8] = ["0", "1", "-1", "7", "x", "01", "9223372036854775807", "1.5"];
const SCORES: [&str; 11] =
    ["0", "1", "-1.5", "inf", "-inf", "2.25", "1e20", "9007199254740993", "0.1", "x", "3"];
const BOUNDS: [&str; 9] = ["-inf", "+inf", "(1", "1", "(-1.5", "3", "x", "(x", "1e20"];
const CHANNELS: [&str; 4] = ["c1", "c2", "redisson_lock__channel:{h1}", "leasehold_client:one"];

fn lease(random: &mut Rng) -> String {
    (UNIT * random.i64(1..9) + UNIT / 2).to_string()
}

/// The shapes of commands. A word of one letter is a placeholder for a random word: see `command`.
const SHAPES: &[&str] = &[
    "DEL K K",
    "UNLINK K",
    "EXISTS K K K",
    "TYPE K",
    "PTTL K",
    "PERSIST K",
    "PEXPIRE K T",
    "PEXPIRE K T NX",
    "PEXPIRE K T XX",
    "PEXPIRE K N ODD",
    "PEXPIRE K 0",
    "PEXPIRE K -5",
    "SET K F",
    "SET K N PX T",
    "SET K F NX",
    "SET K N XX PX T",
    "SET K F KEEPTTL",
    "SET K F PX 0",
    "SET K F PX N NX XX",
    "SET K F ODD",
    "GET K",
    "INCR K",
    "INCRBY K N",
    "DECR K",
    "DECRBY K N",
    "GETRANGE K N N",
    "HSET K F N",
    "HSET K F N F N",
    "HSET K F",
    "HSET K F N F",
    "HSETNX K F N",
    "HGET K F",
    "HDEL K F",
    "HDEL K F F",
    "HEXISTS K F",
    "HMGET K F F",
    "HLEN K",
    "HGETALL K",
    "HSCAN K 0",
    "HSCAN K N",
    "HSCAN K 0 MATCH o* COUNT N",
    "HSCAN K 0 ODD",
    "HINCRBY K F N",
    "HKEYS K",
    "HVALS K",
    "SADD K F",
    "SADD K F N",
    "SREM K F F",
    "SISMEMBER K F",
    "SCARD K",
    "SSCAN K 0",
    "SSCAN K 0 MATCH o*",
    "ZADD K S F",
    "ZADD K S F S F",
    "ZADD K NX S F",
    "ZADD K XX S F S F",
    "ZADD K XX CH S F",
    "ZADD K NX XX S F",
    "ZADD K S",
    "ZADD K S F S",
    "ZREM K F F",
    "ZSCORE K F",
    "ZCARD K",
    "ZCOUNT K B B",
    "ZRANK K F",
    "ZRANGE K N N",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE K 0 -1 ODD",
    "ZRANGEBYSCORE K B B",
    "ZRANGEBYSCORE K B B WITHSCORES",
    "ZRANGEBYSCORE K B B LIMIT N N",
    "ZRANGEBYSCORE K -inf +inf WITHSCORES LIMIT 1 2",
    "ZPOPMIN K",
    "ZPOPMIN K N",
    "ZREMRANGEBYSCORE K B B",
    "LPUSH K F N",
    "RPUSH K F",
    "LRANGE K N N",
    "LRANGE K 0 -1",
    "LREM K N F",
    "LLEN K",
    "LINDEX K N",
    "LPOP K",
    "SUBSCRIBE C",
    "SUBSCRIBE C C",
    "UNSUBSCRIBE C",
    "UNSUBSCRIBE",
    "PUBLISH C F",
    "SSUBSCRIBE C",
    "SSUBSCRIBE C C",
    "SUNSUBSCRIBE C",
    "SUNSUBSCRIBE",
    "SPUBLISH C F",
    "PUBSUB SHARDNUMSUB C",
    "PUBSUB SHARDCHANNELS",
    "CLUSTER SLOTS",
    "CLUSTER INFO",
    "ASKING",
    "READONLY",
    "READWRITE",
    "WAIT 0 N",
    "PUBSUB NUMSUB C C",
    "PUBSUB NUMSUB",
    "PUBSUB CHANNELS",
    "PUBSUB CHANNELS c?",
    "PUBSUB ODD",
    "PING",
    "PING F",
    "PING F F",
    "ECHO F",
    "SELECT 0",
    "SELECT 16",
    "SELECT N",
    "CLIENT SETNAME F",
    "CLIENT GETNAME",
    "CLIENT ODD",
    "CLIENT",
    "SCRIPT EXISTS F",
    "SCRIPT ODD",
    "SCRIPT",
    "SCRIPT LOAD",
    "SCRIPT FLUSH ODD",
    "SCRIPT LOAD ODD(",
    "EVALSHA F N K",
    "EVALSHA F 0",
    "ODD F N",
    "GET",
    "HGET K",
    "AUTH wrong",
    "AUTH no body",
    "ACL WHOAMI",
    "HELLO 4",
    "HELLO x",
    "HELLO 3 ODD",
    "FLUSHALL ODD",
    "ROLE",
    "INFO nothing",
];

fn command(random: &mut Rng, shape: &str) -> Vec<String> {
    let mut words = vec![];
    for word in shape.split(' ') {
        words.push(match word {
            "K" => pick(random, &KEYS),
            "F" => pick(random, &FIELDS),
            "N" => pick(random, &NUMBERS),
            "S" => pick(random, &SCORES),
            "B" => pick(random, &BOUNDS),
            "C" => pick(random, &CHANNELS),
            "T" => lease(random),
            other => other.to_owned(),
        });
    }
    words
}

/// Scripts about values, errors and permissions.
const SCRIPTS: &[&str] = &[
    "return {1, 2.9, -1.5, true, 'text', {ok='fine'}, {err='bad thing'}, nil, 4}",
    "return {1, false, 3, {4, {5}}}",
    "return 2^53 * 8",
    "return {2^63, -(2^70), 1/0}",
    "return {KEYS, ARGV, #KEYS, #ARGV}",
    "return redis.call(ARGV[1], KEYS[1])",
    "return redis.pcall(ARGV[1], KEYS[1])",
    "return {redis.pcall(ARGV[1], KEYS[1])}",
    "local reply = redis.call('HGETALL', KEYS[1])\nreturn {#reply, reply}",
    "redis.call('SET', KEYS[1], ARGV[1])\n\nreturn redis.call('HGET', KEYS[1], 'f')",
    "local found = redis.call('GET', KEYS[1])\nif not found then return 'none' end return found",
    "return type(redis.call('TYPE', KEYS[1])) .. redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "return redis.call('ZSCORE', KEYS[1], ARGV[1])",
    "return redis.call('ZPOPMIN', KEYS[1])",
    "return redis.call('SET', KEYS[1], 0.1)",
    "return redis.call('SET', KEYS[1], 2^60)",
    "return redis.call('INCRBY', KEYS[1], 3)",
    "return redis.call('PUBLISH', ARGV[1], KEYS[1])",
    "local done, problem = pcall(redis.call, 'HGET', KEYS[1], 'f')\nreturn {tostring(done), problem}",
    "local done, problem = pcall(error, 'mine')\nreturn {tostring(done), problem}",
    "local done, problem = pcall(function() local n = nil; return n.x end)\nreturn problem",
    "local function f() return redis.call('HGET', KEYS[1], 'f') end\n\nlocal r = f()\nreturn r",
    "error('boom')",
    "error('boom', 0)",
    "error({err='MINE own error'})",
    "local none\nreturn none.field",
    "return redis.error_reply('CODE words')",
    "return redis.error_reply('-CODE words')",
    "return redis.error_reply('word')",
    "return redis.status_reply('PONG of mine')",
    "return redis.sha1hex(ARGV[1])",
    "global = 1",
    "return missing",
    "return print",
    "return no sense",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('GET')",
    "return redis.call('NOPE', 1)",
    "return redis.pcall('NOPE', 1).err",
    "return redis.call('SUBSCRIBE', 'c')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('PING')",
    "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])",
    "redis.call('SELECT', 1) redis.call('SET', 'only there', 1)",
    "return {string.match('owner|12|300', '^(.*)|(%d+)|(%d+)$')}",
    "return string.format('%06d', ARGV[1])",
    "return tostring(redis.call('GET', 'none')) .. tostring(tonumber('x')) .. tostring(10 / 4)",
    "return function() end",
    "return",
    "local t = {} for i = 1, 3 do t[i] = i * 1.5 end return t",
    "return {unpack({1, 2, 3}, 2)}",
];

const IN_SCRIPTS: [&str; 9] =
    ["GET", "HGETALL", "TYPE", "DEL", "ZPOPMIN", "PTTL", "LLEN", "HLEN", "INCR"];

fn evaluation(random: &mut Rng) -> Vec<String> {
    let text = (*random.choice(SCRIPTS).unwrap()).to_owned();
    let argument = match random.u8(..4) {
        0 => pick(random, &CHANNELS),
        1 => pick(random, &FIELDS),
        _ => pick(random, &IN_SCRIPTS),
    };
    let count = pick(random, &["1", "1", "1", "1", "1", "0", "2", "3", "-1", "x"]);
    vec!["EVAL".into(), text, count, pick(random, &KEYS), argument]
}

// The project's own scripts.

/// A script of the store, and the keys and arguments that its header names.
struct Own {
    text: String,
    keys: Named,
    arguments: Named,
}

/// Names in a header. Some names occur once, and the other names are repeated as a group.
struct Named {
    once: Vec<String>,
    each: Vec<String>,
}

impl Named {
    /// Parses lines such as `--   KEYS[1]  lock  meaning`. If the index contains a letter, the name
    /// is repeated.
    fn read(text: &str, array: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.strip_prefix("--   "));
        let lines = lines.filter_map(|line| line.strip_prefix(array)?.split_once(']'));
        let name = |rest: &str| rest.split_whitespace().next().unwrap().to_owned();
        let (each, once): (Vec<_>, Vec<_>) =
            lines.partition(|(place, _)| place.contains(char::is_alphabetic));
        let names = |lines: Vec<(&str, &str)>| lines.iter().map(|(_, it)| name(it)).collect();
        Self { once: names(once), each: names(each) }
    }

    fn repeated(&self, times: usize) -> impl Iterator<Item = &String> {
        self.once.iter().chain((0..times).flat_map(|_| &self.each))
    }
}

fn lua_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_lua = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|it| it == "lua");
    let mut paths: Vec<_> = entries.filter(is_lua).collect();
    paths.sort();
    paths
}

/// Returns each script of the store, after the shared code that it calls. Code for several kinds of
/// objects is in the files next to the folders of the kinds. Code for one kind is in the file
/// `prelude.lua` of its folder.
fn own_scripts() -> Vec<Own> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/store/redis/kinds");
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let (folders, parts): (Vec<_>, Vec<_>) = lua_in(&root).into_iter().partition(|it| it.is_dir());
    let parts: Vec<_> = parts.iter().map(read).collect();
    let of_kind = |folder: &PathBuf| {
        let (preludes, scripts): (Vec<_>, Vec<_>) =
            lua_in(folder).into_iter().partition(|path| path.ends_with("prelude.lua"));
        let parts: Vec<_> = parts.iter().cloned().chain(preludes.iter().map(read)).collect();
        scripts.iter().map(|path| Own::read(&read(path), &parts)).collect::<Vec<_>>()
    };
    folders.iter().flat_map(of_kind).collect()
}

/// Returns whether `script` calls a function of `part`.
fn calls(script: &str, part: &str) -> bool {
    let functions = part.lines().filter_map(|line| line.strip_prefix("local function "));
    let mut names = functions.filter_map(|line| line.split_once('(')).map(|(name, _)| name);
    names.any(|name| script.contains(&format!("{name}(")))
}

impl Own {
    fn read(script: &str, parts: &[String]) -> Self {
        let before = parts.iter().filter(|part| calls(script, part)).map(String::as_str);
        let work = "local function work(KEYS, ARGV) return {KEYS[1], ARGV[1]} end\n";
        let work = script.contains("work(").then_some(work);
        let text = before.chain(work).chain([script]).collect();
        let (keys, arguments) = (Named::read(script, "KEYS["), Named::read(script, "ARGV["));
        Self { text, keys, arguments }
    }

    fn call(&self, random: &mut Rng) -> Vec<String> {
        let odd = random.u8(..20) == 0;
        let rounds = random.usize(1..4);
        let mut keys: Vec<_> =
            self.keys.repeated(rounds).map(|name| key(random, name, odd)).collect();
        if self.keys.each.is_empty() {
            // Some scripts also accept fewer keys.
            keys.truncate(random.usize(1..=keys.len()));
        }
        // The two servers have different clocks, and a yield window depends on the clock. So both
        // scripts get the same time.
        let (second, micros) = (1_700_000_000 + random.u32(..4), random.u32(..1_000_000));
        let moment = format!("{{'{second}', '{micros}'}}");
        let text = self.text.replace("redis.pcall('TIME')", &moment);
        let text = text.replace("redis.call('TIME')", &moment);
        let mut words = vec!["EVAL".to_owned(), text, keys.len().to_string()];
        words.extend(keys);
        words.extend(self.arguments.repeated(rounds).map(|name| argument(random, name)));
        words
    }
}

/// Returns a key of the kind that the header calls `name`. If `odd` is true, returns any key.
fn key(random: &mut Rng, name: &str, odd: bool) -> String {
    match name {
        _ if odd => pick(random, &KEYS),
        "queue" | "writers" | "held" | "withdrawn" => pick(random, &["z1", "z2"]),
        "tokens" | "counter" | "semaphore" | "latch" => pick(random, &["a", "n1"]),
        "set" => "s1".into(),
        "receipt" | "lease" => pick(random, &["r1", "r2"]),
        _ => pick(random, &["h1", "h2", "door"]),
    }
}

const OWNERS: [&str; 3] = ["one:1", "one:2", "other:1"];

/// Returns a value of the kind that the header calls `name`.
fn argument(random: &mut Rng, name: &str) -> String {
    let owner = |random: &mut Rng| pick(random, &OWNERS);
    match name {
        "owner" => owner(random),
        "ttl" if random.bool() => "0".into(),
        // The real server does not support TTLs of fields.
        "field_ttl" => "0".into(),
        "ttl" | "rest" | "lease" | "refused" | "counts" => lease(random),
        "idle" if random.bool() => "0".into(),
        "idle" => lease(random),
        // Small multiples of this value must not be near a multiple of `UNIT`. Otherwise, a small
        // difference between the clocks would show in a reply.
        "interval" => "131000".into(),
        "spacing" => "131000000".into(),
        "before" | "place" if random.bool() => String::new(),
        "before" | "place" => {
            format!("{}|{}|{}", owner(random), random.u8(..3), lease(random))
        }
        "channel" => "redisson_lock__channel:{h1}".into(),
        "queuers" => "c1".into(),
        "id" => pick(random, &["id-1", "id-2", "id-3"]),
        "change" => pick(random, &["set", "set_if_absent", "add", "give_back"]),
        "mode" => pick(random, &["read", "write", "forget"]),
        "verb" => pick(
            random,
            &[
                "SET", "HSET", "HDEL", "DEL", "PEXPIRE", "SADD", "SREM", "compare", "insert",
                "absent", "remove",
            ],
        ),
        // The set has at most one element, because Redis returns elements in any order.
        "element" => "one:1".into(),
        "writer" => format!("{}:write", owner(random)),
        "permits" => pick(random, &["1", "2", "7", "-3"]),
        "clients" => "leasehold_client:".into(),
        "wait" => pick(random, &["0", "1000000000000"]),
        "passes" | "count" => random.u8(..4).to_string(),
        _ => pick(random, &["0", "1", "", "c1", "one:1", "150000"]),
    }
}

// The comparisons.

/// Returns servers with two RESP3 clients and one RESP2 client.
async fn three(seed: u64) -> Both {
    let mut both = Both::start(Redis::start(), seed);
    for client in 0..3 {
        both.connect().await;
        if client < 2 {
            both.clients[client].0.ask(&["HELLO", "3"]);
            both.clients[client].1.ask("HELLO 3").await;
        }
    }
    both
}

/// How many commands are compared in each test.
const STEPS: usize = 8_000;

async fn ask_all(both: &mut Both, client: usize, words: &[String]) {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    both.ask(client, &words).await;
}

#[tokio::test(start_paused = true)]
async fn simulated_server_replies_to_commands_like_redis() {
    let mut both = three(1).await;
    let mut random = Rng::with_seed(fastrand_seed());
    for _ in 0..STEPS {
        let shape = random.choice(SHAPES).unwrap();
        let words = command(&mut random, shape);
        let client = random.usize(..3);
        ask_all(&mut both, client, &words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn simulated_server_runs_scripts_like_redis() {
    let mut both = three(2).await;
    let mut random = Rng::with_seed(fastrand_seed());
    for _ in 0..STEPS {
        let words = match random.u8(..3) {
            0 => {
                let shape = random.choice(SHAPES).unwrap();
                command(&mut random, shape)
            }
            _ => evaluation(&mut random),
        };
        // The third client uses RESP2. While this client is subscribed, its scripts are rejected.
        let client = random.usize(..3);
        ask_all(&mut both, client, &words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn store_scripts_do_the_same_on_redis_and_simulated_server() {
    let mut both = three(3).await;
    let (own, mut random) = (own_scripts(), Rng::with_seed(fastrand_seed()));
    assert!(own.len() >= 6);
    let subscriptions = [
        "SUBSCRIBE c1",
        "UNSUBSCRIBE c1",
        "SUBSCRIBE leasehold_client:one",
        "SUBSCRIBE redisson_lock__channel:{h1} c1",
        "UNSUBSCRIBE",
    ];
    let looks = [
        "HGETALL h1",
        "HGETALL h2",
        "ZRANGE z1 0 -1 WITHSCORES",
        "PTTL h1",
        "PTTL z1",
        "DEL h1",
        "DEL z1",
        "HGET h1 one:1",
        "PERSIST h1",
        "SET h2 1",
        "LPUSH z2 1",
        "DEL h2 z2",
    ];
    for _ in 0..STEPS {
        let client = random.usize(..2);
        let words = match random.u8(..8) {
            0 => subscriptions[random.usize(..subscriptions.len())]
                .split(' ')
                .map(str::to_owned)
                .collect(),
            1 => looks[random.usize(..looks.len())].split(' ').map(str::to_owned).collect(),
            _ => own[random.usize(..own.len())].call(&mut random),
        };
        ask_all(&mut both, client, &words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn simulated_acl_matches_redis_and_changes_at_once() {
    let mut both = three(4).await;
    let (own, mut random) = (own_scripts(), Rng::with_seed(fastrand_seed()));
    both.ask(0, &["ACL", "SETUSER", "limited", "reset", "on", ">secret", "+@all", "~*", "&*"])
        .await;
    let rules = [
        "+@all",
        "-@all",
        "+@write",
        "-@write",
        "+@read",
        "-@scripting",
        "+eval",
        "-hget",
        "+hget",
        "-script|load",
        "+script",
        "-publish",
        "+publish",
        "-subscribe",
        "+subscribe",
        "+ping",
        "resetkeys",
        "~*",
        "~h*",
        "~z1",
        "resetchannels",
        "&*",
        "&c*",
        "&c1",
        "odd",
        "+odd",
        "+@odd",
        "-client",
        "+client|setname",
        "-@pubsub",
    ];
    for _ in 0..STEPS / 2 {
        let words: Vec<String> = match random.u8(..8) {
            0 => {
                let rule = *random.choice(&rules).unwrap();
                let words = ["ACL", "SETUSER", "limited", rule];
                // The comparison itself needs these permissions.
                let words = [&words[..], &["+ping", "+auth"]].concat();
                both.ask(0, &words).await;
                continue;
            }
            1 => evaluation(&mut random),
            2 => own[random.usize(..own.len())].call(&mut random),
            3 => ["AUTH", "limited", "secret"].map(str::to_owned).into(),
            _ => {
                let shape = random.choice(SHAPES).unwrap();
                command(&mut random, shape)
            }
        };
        ask_all(&mut both, 1, &words).await;
    }
}

#[tokio::test(start_paused = true)]
async fn key_expires_on_redis_and_simulated_server() {
    let mut both = three(5).await;
    let brief = ["SET a 1 PX 30", "HSET h1 f 1", "PEXPIRE h1 30", "ZADD z1 1 a", "PEXPIRE z1 30"];
    for command in brief {
        both.ask(0, &command.split(' ').collect::<Vec<_>>()).await;
    }
    std::thread::sleep(Duration::from_millis(60));
    advance(Duration::from_millis(60)).await;
    for command in ["EXISTS a h1 z1", "PTTL a", "HGETALL h1", "ZADD z1 XX 1 a", "TYPE z1", "INCR a"]
    {
        both.ask(0, &command.split(' ').collect::<Vec<_>>()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn hash_field_expires_on_redis_and_simulated_server() {
    let mut both = Both::start(Redis::start_with_field_ttls(), 9);
    both.connect().await;
    let mut ask = async |commands: &[&str]| {
        for command in commands {
            both.ask(0, &command.split(' ').collect::<Vec<_>>()).await;
        }
    };
    ask(&[
        "HPEXPIRE h1 500 FIELDS 1 f",
        "HSET h1 f 1 g 2 i 3",
        "HSET h2 f 1",
        "HPEXPIRE h1 500 FIELDS 3 f none i",
        "HPEXPIRE h2 500 FIELDS 1 f",
        "HSET h1 i 4",
        "HINCRBY h1 f 1",
        "HINCRBY h1 new 1",
        "HPEXPIRE h1 500 FIELDS 1",
        "HPEXPIRE h1 x FIELDS 1 f",
        "SET s1 1",
        "HPEXPIRE s1 500 FIELDS 1 f",
    ])
    .await;
    std::thread::sleep(Duration::from_millis(700));
    advance(Duration::from_millis(700)).await;
    ask(&["HGETALL h1", "HEXISTS h1 f", "EXISTS h1 h2", "HSET h1 f 5", "HSETNX h2 f 6"]).await;
    ask(&["HGETALL h1", "HGETALL h2"]).await;
}

#[tokio::test(start_paused = true)]
async fn wait_command_without_replicas_replies_like_redis() {
    let mut both = three(8).await;
    let asked = [
        "SET a 1",
        "WAIT 0 0",
        "WAIT 0 10",
        "WAIT 1 10",
        "WAIT 1",
        "WAIT x 1",
        "WAIT 1 x",
        "WAIT 1 -1",
    ];
    for command in asked {
        both.ask(0, &command.split(' ').collect::<Vec<_>>()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pexpire_options_match_between_redis_and_simulated_server() {
    let mut both = three(7).await;
    both.ask(0, &["SET", "a", "1"]).await;
    for option in [
        "150000 GT",
        "150000 XX",
        "150000 LT",
        "250000 NX",
        "350000 GT",
        "250000 GT",
        "450000 LT",
        "150000 LT",
        "250000 XX",
        "150000 NX",
        "150000 NX XX",
        "150000 GT LT",
        "150000 NX GT",
    ] {
        let words: Vec<_> = ["PEXPIRE", "a"].into_iter().chain(option.split(' ')).collect();
        both.ask(0, &words).await;
        both.ask(0, &["PTTL", "a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rejections_match_between_redis_and_simulated_server() {
    let mut both = three(6).await;
    both.ask(0, &["HSET", "h1", "one:1", "1"]).await;
    let (own, mut random) = (own_scripts(), Rng::with_seed(fastrand_seed()));
    let faults: [(&[&str], &[&str], Refusal); 3] = [
        (&["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"], Refusal::Oom),
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"], Refusal::ReadOnly),
        (
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
            Refusal::NoReplicas,
        ),
    ];
    for (harm, mend, refusal) in faults {
        both.redis.command(harm);
        both.twin.refuse(refusal, 1_000);
        for _ in 0..STEPS / 20 {
            let words = match random.u8(..3) {
                0 => evaluation(&mut random),
                1 => own[random.usize(..own.len())].call(&mut random),
                _ => {
                    let shape = random.choice(SHAPES).unwrap();
                    command(&mut random, shape)
                }
            };
            if !["ROLE", "INFO", "WAIT"].contains(&words[0].as_str()) {
                ask_all(&mut both, 0, &words).await;
            }
        }
        both.redis.command(mend);
        both.twin.refuse(refusal, 0);
    }
}

/// Returns the seed of the random commands. Another seed sends other commands.
fn fastrand_seed() -> u64 {
    let given = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(7)
}
