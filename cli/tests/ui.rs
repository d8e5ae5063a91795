//! `leasehold ui`, by plain HTTP. `make browser` tests the page in a browser.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use testkit::{Cluster, Connection, Redis, acl_rules_in, eventually};
use tokio::time::Instant;

use crate::common::{Process, SOON, command, fill, leasehold, ms};

const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
const OTHER: &str = "2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c:17";

/// A running `leasehold ui`, its address, and its token.
struct Ui {
    process: Process,
    address: String,
    token: String,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Ui {
    fn start(redis: &Redis, words: &[&str]) -> Self {
        let fixed = ["ui", "--listen", "127.0.0.1:0", "--interval", "100ms"];
        Self::of(leasehold(redis, &[&fixed, words].concat()))
    }

    fn of(process: Process) -> Self {
        let url = process.wait_for("http://").trim().to_owned();
        let (address, token) = url["http://".len()..].split_once('/').unwrap();
        let (address, token) = (address.to_owned(), token.trim_start_matches("#token=").to_owned());
        Self { process, address, token }
    }

    fn send(&self, text: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }

    fn state(&self) -> Value {
        let reply = self.get("/state");
        assert_eq!(reply.status, 200, "{reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    }

    /// Requests a release by force. `changed` replaces or removes some of the correct headers.
    fn force(&self, body: &str, changed: &[(&str, Option<&str>)]) -> Reply {
        let origin = format!("http://{}", self.address);
        let mut headers = vec![
            ("Host", self.address.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/json"),
            ("X-Leasehold-Token", self.token.as_str()),
        ];
        for (name, value) in changed {
            headers.retain(|it| it.0 != *name);
            headers.extend(value.map(|value| (*name, value)));
        }
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        self.send(&format!(
            "POST /force HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ))
    }
}

fn row<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    state["rows"].as_array().unwrap().iter().find(|row| row["name"] == name)
}

#[test]
fn ui_page_is_one_file_with_a_strict_content_policy() {
    let redis = Redis::start();
    let ui = Ui::start(&redis, &[]);
    let reply = ui.get("/");
    assert_eq!(reply.status, 200);
    let nonce = reply.head.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(reply.body.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
    assert!(reply.head.contains("default-src 'none'") && !reply.head.contains("unsafe"));
    assert!(reply.head.contains("frame-ancestors 'none'"), "{}", reply.head);
    let foreign = reply.body.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!foreign.contains(word), "{word}");
    }
    assert_ne!(ui.get("/").head, reply.head, "a nonce is used once");
}

#[test]
fn ui_state_shows_holds_waiters_and_changes() {
    let redis = Redis::start();
    redis.command(&["HSET", "legacy", OWNER, "1"]);
    redis.command(&["SET", "page", "text"]);
    let ui = Ui::start(&redis, &[]);
    eventually("the first pass ends", SOON, || ui.state()["pass_ms"].is_u64());
    let holder = leasehold(&redis, &["run", "--ttl", "1s", "door", "-c", "echo ready; read line"]);
    holder.wait_for("ready");
    let _waiting = leasehold(&redis, &["run", "door", "true"]);
    let mut state = Value::Null;
    eventually("the state shows the waiter", SOON, || {
        state = ui.state();
        row(&state, "door").is_some_and(|door| door["waiting"] == 1)
    });
    let door = row(&state, "door").unwrap();
    assert_eq!((&door["held"], &door["holders"][0]["exact"]), (&1.into(), &true.into()));
    let odd = &row(&state, "legacy").unwrap()["odd"];
    assert_eq!(odd[0], "hold never expires");
    assert!(row(&state, "page").is_none(), "the state does not show data of another program");
    let granted = |state: &Value| state["events"].to_string().contains("granted");
    assert!(granted(&state) && state["lost"] == 0, "{state}");

    eventually("the state shows the process of the holder", SOON, || {
        let process = row(&ui.state(), "door").unwrap()["holders"][0]["process"].to_string();
        process.contains("leasehold run ") && process.contains(&format!("(pid {})", holder.pid()))
    });

    // The holder was killed, so its lease expires.
    holder.signal(Signal::KILL);
    eventually("the state counts the loss", SOON, || {
        state = ui.state();
        state["lost"] == 1
    });
    let events = state["events"].as_array().unwrap();
    let expired = events.iter().find(|event| event["change"] == "expired").unwrap();
    assert_eq!(expired["name"], "door");
}

#[test]
fn ui_shows_locks_of_every_node_of_a_cluster() {
    let cluster = Cluster::start();
    let url = cluster.url();
    for number in 0..8 {
        let mut lock = command(&["lock", "--ttl", "10m", &format!("door:{number}")]);
        lock.env("REDIS_URL", &url);
        assert_eq!(Process::of(lock).ended().code, 0);
    }
    let mut ui = command(&["ui", "--listen", "127.0.0.1:0", "--interval", "100ms"]);
    ui.env("REDIS_URL", &url);
    let ui = Ui::of(Process::of(ui));
    eventually("the state shows all holds", SOON, || ui.state()["held"] == 8);
}

/// If a site rebinds its DNS name to 127.0.0.1, its page sends that name as the `Host`.
#[test]
fn ui_refuses_a_request_with_a_foreign_host_header() {
    let redis = Redis::start();
    let ui = Ui::start(&redis, &["--host", "wall.example"]);
    for (host, status) in [
        ("127.0.0.1:8379", 200),
        ("localhost:9000", 200),
        ("[::1]:80", 200),
        ("10.1.2.3", 200),
        ("wall.example:8379", 200),
        ("evil.example", 421),
        ("evil.example:8379", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1@evil.example", 421),
        ("", 421),
        ("localhost\r\nHost: localhost", 421),
    ] {
        for path in ["/", "/state"] {
            let reply = ui.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(reply.status, status, "{host:?}");
        }
    }
    assert_eq!(ui.send("GET / HTTP/1.1\r\n\r\n").status, 421);
    for (text, status) in [("GET /x", 404), ("OPTIONS /force", 405), ("GET /force", 405)] {
        let reply = ui.send(&format!("{text} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(reply.status, status, "{text}");
    }
}

#[test]
fn ui_forced_release_needs_the_option_a_token_and_the_origin() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    let body = format!(r#"{{"name":"door","owners":["{OWNER}"]}}"#);
    let reads = Ui::start(&redis, &[]);
    assert_eq!((reads.force(&body, &[]).status, reads.token.as_str()), (403, ""));
    assert_eq!(reads.state()["may_force"], false);

    let ui = Ui::start(&redis, &["--allow-force"]);
    assert_eq!((ui.token.len(), &ui.state()["may_force"]), (32, &true.into()));
    assert!(!ui.get("/").body.contains(&ui.token) && !ui.get("/state").body.contains(&ui.token));
    for changed in [
        ("X-Leasehold-Token", None),
        ("X-Leasehold-Token", Some("")),
        ("X-Leasehold-Token", Some("00000000000000000000000000000000")),
        ("Origin", None),
        ("Origin", Some("null")),
        ("Origin", Some("http://evil.example")),
        // A site on another port of this machine.
        ("Origin", Some("http://127.0.0.1:1")),
        ("Content-Type", Some("text/plain")),
        ("Content-Type", None),
    ] {
        assert_eq!(ui.force(&body, &[changed]).status, 403, "{changed:?}");
    }
    let evil = [("Host", Some("evil.example")), ("Origin", Some("http://evil.example"))];
    assert_eq!(ui.force(&body, &evil).status, 421);
    assert_eq!(ui.force("{}", &[]).status, 400);
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 1);
}

#[test]
fn ui_force_releases_only_the_owners_that_the_page_showed() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    let ui = Ui::start(&redis, &["--allow-force"]);
    eventually("the state shows the hold", SOON, || ui.state()["held"] == 1);
    let old = ui.force(&format!(r#"{{"name":"door","owners":["{OTHER}"]}}"#), &[]);
    assert_eq!(old.status, 409, "{old:?}");
    assert!(
        old.body.contains(
            "the holders released the lock meanwhile; use `leasehold show` to see the present ones"
        ),
        "{}",
        old.body
    );
    assert_eq!(redis.command(&["EXISTS", "door"]).number(), 1);

    let waiting = leasehold(&redis, &["run", "door", "true"]);
    eventually("the state shows the waiter", SOON, || ui.state()["waiting"] == 1);
    let released = ui.force(&format!(r#"{{"name":"door","owners":["{OWNER}"]}}"#), &[]);
    assert_eq!((released.status, released.body), (200, format!(r#"{{"released":["{OWNER}"]}}"#)));
    assert_eq!(waiting.ended().code, 0, "the release was published");
    eventually("the events list the forced release", SOON, || {
        ui.state()["events"].to_string().contains("forced")
    });
    ui.process.signal(Signal::TERM);
    let ended = ui.process.ended();
    assert_eq!(ended.code, 143);
    assert!(ended.err.contains("released by force for 127.0.0.1:"), "{}", ended.err);
}

#[test]
fn ui_does_not_start_with_allow_force_on_a_network_address() {
    let redis = Redis::start();
    let ended = leasehold(&redis, &["ui", "--listen", "0.0.0.0:0", "--allow-force"]).ended();
    assert_eq!(ended.code, 64);
    assert!(ended.err.contains("unencrypted; listen on 127.0.0.1"), "{}", ended.err);
}

#[test]
fn ui_shows_locks_and_hazards_to_the_acl_user_of_the_guide() {
    let redis = Redis::start();
    let rights = acl_rules_in(include_str!("../../docs/guide/command-inspect.md"), "ops");
    let words: Vec<_> = [&["ACL", "SETUSER", "ops"], &rights[0][..]].concat();
    assert_eq!(redis.command(&words).text(), "OK");
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru", "maxmemory", "1gb"]);
    let mut ui = command(&["ui", "--listen", "127.0.0.1:0", "--interval", "100ms"]);
    ui.env("REDIS_URL", format!("redis://ops:secret@127.0.0.1:{}/", redis.port()));
    let ui = Ui::of(Process::of(ui));
    eventually("the state shows the hold", SOON, || ui.state()["held"] == 1);
    let state = ui.state();
    assert!(state["hazards"].to_string().contains("volatile-lru"), "{state}");
    assert!(!state.to_string().contains("secret"), "{state}");
}

#[test]
fn silent_http_client_does_not_block_the_page() {
    let redis = Redis::start();
    let ui = Ui::start(&redis, &[]);
    let _silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&ui.address).unwrap()).collect();
    assert_eq!(ui.get("/").status, 200);
}

#[test]
fn ui_counts_a_writer_with_a_read_hold_as_one_holder() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", "mode", "write", &format!("{OWNER}:write"), "1", OWNER, "1"]);
    redis.command(&["SET", &format!("{{door}}:{OWNER}:rwlock_timeout:1"), "1"]);
    let ui = Ui::start(&redis, &[]);
    eventually("the history has more than 5 samples", SOON, || {
        ui.state()["history"].as_array().unwrap().len() > 5
    });
    let shown = ui.state();
    assert_eq!(shown["rows"][0]["held"], 1, "{shown:#}");
    assert_eq!(shown["events"].as_array().unwrap().len(), 0, "{shown:#}");
}

#[test]
fn ui_state_reports_an_unreachable_server_until_it_is_back() {
    let redis = Redis::start();
    let ui = Ui::start(&redis, &[]);
    eventually("the first pass ends", SOON, || ui.state()["pass_ms"].is_u64());
    redis.pause();
    eventually("the state reports that the server does not reply", SOON, || {
        ui.state()["error"].is_string()
    });
    redis.resume();
    eventually("the state no longer reports an error", SOON, || ui.state()["error"].is_null());
    redis.stop();
    eventually("the state reports that the server is unreachable", SOON, || {
        ui.state()["error"].is_string()
    });
    redis.start_again();
    redis.command(&["HSET", "door", OWNER, "1"]);
    eventually("the state shows the hold again, without an error", SOON, || {
        let state = ui.state();
        state["error"].is_null() && state["held"] == 1
    });
}

#[test]
fn ui_state_has_the_fields_that_the_guide_lists() {
    let redis = Redis::start();
    redis.command(&["HSET", "door", OWNER, "1"]);
    redis.command(&["RPUSH", "redisson_lock_queue:{door}", OTHER]);
    let ui = Ui::start(&redis, &[]);
    eventually("the state shows the hold", SOON, || ui.state()["held"] == 1);
    redis.command(&["HSET", "gate", OWNER, "1"]);
    eventually("the state has an event", SOON, || ui.state()["events"][0].is_object());
    let state = ui.state();
    let door = row(&state, "door").unwrap();
    let guide = include_str!("../../docs/guide/command-inspect.md");
    let guide = guide.split("### The page's data").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut count = 0;
    for (prefix, object) in [
        ("", &state),
        ("rows[].", door),
        ("rows[].holders[].", &door["holders"][0]),
        ("rows[].waiters[].", &door["waiters"][0]),
        ("events[].", &state["events"][0]),
    ] {
        for field in object.as_object().unwrap().keys() {
            assert!(guide.contains(&format!("| `{prefix}{field}` | ")), "{prefix}{field}");
            count += 1;
        }
    }
    assert_eq!(
        guide.matches("\n| `").count(),
        count,
        "the guide lists a field that does not exist"
    );
}

#[test]
fn redis_stays_responsive_while_ui_reads_100000_keys() {
    let redis = Redis::start();
    fill(&redis, 100_000);
    redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]);
    redis.command(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    let ui = Ui::of(leasehold(&redis, &["ui", "--listen", "127.0.0.1:0"]));
    redis.command(&["CONFIG", "RESETSTAT"]);
    redis.command(&["SLOWLOG", "RESET"]);
    let (start, mut connection) = (Instant::now(), Connection::open(redis.port()));
    let mut longest = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(12) {
        let asked = Instant::now();
        connection.command(&["PING"]);
        longest = longest.max(asked.elapsed());
        std::thread::sleep(ms(5));
    }
    let (elapsed, state) = (start.elapsed(), ui.state());
    let stats = redis.command(&["INFO", "commandstats"]).text().to_owned();
    let micros = |line: &str| line.split("usec=").nth(1)?.split(',').next()?.parse::<u64>().ok();
    let used = Duration::from_micros(stats.lines().filter_map(micros).sum());
    let share = used.as_secs_f64() / elapsed.as_secs_f64();
    let slow = redis.command(&["SLOWLOG", "GET", "-1"]);
    let slowest = slow.list().iter().map(|it| it.list()[2].number()).max().unwrap_or_default();
    println!(
        "{} keys read in {elapsed:?}, a round of {} ms; the server used {:.1} %, its slowest command \
         took {slowest} µs, and a PING at most {longest:?}",
        state["keys"],
        state["sample_ms"],
        100.0 * share
    );
    assert!(state["keys"].as_u64().unwrap() > 500, "{}", state["keys"]);
    assert!(share < 0.25, "{stats}");
    // Each pause lasts at least four times as long as the round before it.
    let rounds = state["history"].as_array().unwrap().len() as f64;
    let busy = rounds * state["sample_ms"].as_f64().unwrap() / 1_000.0;
    assert!(busy < 0.4 * elapsed.as_secs_f64(), "{busy} s in {rounds} rounds");
    assert!(!stats.contains("cmdstat_keys") && slowest < 100_000, "{slowest} µs");
    assert!(longest < ms(500), "{longest:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", ui.process.pid())).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
    println!("leasehold uses {memory} kB");
    assert!(memory < 80_000, "{memory} kB");
    assert!(state["rows"].as_array().unwrap().len() <= 500);
}
