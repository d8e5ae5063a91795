//! A process with a real Leasehold client, which executes commands. Each command is one line of
//! JSON.
//!
//! This program is the counterpart of `leasehold.interop.Main` in Java, with the same flags,
//! commands and replies. It reads commands from stdin, and each command names a thread. A thread is
//! a task that keeps the guards of its holds. The end of stdin kills the process, like a crash, so
//! its holds stay until their leases end.

mod either;

use std::collections::HashMap;
use std::io::Write;
use std::process::exit;
use std::time::{Duration, Instant, SystemTime};

use either::{AnyGuard, AnyLock};
use leasehold::{Client, Owner, Release, Replicas, Semaphore, SemaphoreGuard, WaitStrategy};
use serde_json::{Value, json};
use testkit::Connection;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{JoinSet, block_in_place};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let flags = Flags::of_command_line();
    let client = match connect(&flags).await {
        Ok(client) => client,
        Err(error) => return say(&json!({ "ready": false, "message": error.to_string() })),
    };
    say(&json!({ "ready": true, "id": client.id() }));

    let mut tasks: HashMap<String, UnboundedSender<Command>> = HashMap::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let command = Command(serde_json::from_str(&line).expect("a command is a line of JSON"));
        let thread = command.text("thread").to_owned();
        let task = tasks.entry(thread).or_insert_with(|| {
            let (sender, mut commands) = unbounded_channel::<Command>();
            let mut task = Task::new(client.clone(), flags.clone());
            tokio::spawn(async move {
                while let Some(command) = commands.recv().await {
                    task.obey(command).await;
                }
            });
            sender
        });
        task.send(command).expect("the task runs until the process ends");
    }
    exit(0);
}

async fn connect(flags: &Flags) -> leasehold::Result<Client> {
    let mut builder = Client::builder();
    if let Some(ttl) = flags.number("watchdog-ms") {
        builder = builder.ttl(Duration::from_millis(ttl));
    }
    if let Some(number) = flags.number("database") {
        builder = builder.database(u32::try_from(number).expect("`database` fits into 32 bits"));
    }
    if let (Some(user), Some(password)) = (flags.text("user"), flags.text("password")) {
        builder = builder.credentials(user, password);
    }
    if let Some(count) = flags.number("replicas") {
        let count = u32::try_from(count).expect("`replicas` fits into 32 bits");
        builder = builder.replicated(Replicas::at_least(count));
    }
    builder.connect(flags.text("url").expect("the command line has `--url`")).await
}

/// A task that replaces a Java thread. It executes one command after the other, and keeps its
/// guards.
struct Task {
    client: Client,
    flags: Flags,
    guards: HashMap<String, Vec<AnyGuard>>,
    permits: HashMap<String, Vec<SemaphoreGuard>>,
}

/// A value, or the exception that Java would throw.
type Outcome = Result<Value, (&'static str, String)>;

impl Task {
    fn new(client: Client, flags: Flags) -> Self {
        Self { client, flags, guards: HashMap::new(), permits: HashMap::new() }
    }

    async fn obey(&mut self, command: Command) {
        let began_at = now();
        if command.text("op") == "lost" {
            // The task of this thread can execute other commands while the spawned task waits.
            let lost = self.held(&command.held_as()).map(AnyGuard::lost);
            tokio::spawn(async move {
                let outcome = match lost {
                    Some(lost) => Ok(json!(format!("{:?}", lost.await))),
                    None => Err(("NotHeld", "no guard".to_owned())),
                };
                answer(&command, began_at, outcome);
            });
            return;
        }
        let outcome = self.perform(&command).await;
        answer(&command, began_at, outcome);
    }

    async fn perform(&mut self, command: &Command) -> Outcome {
        match command.text("kind") {
            "semaphore" => return self.perform_on_semaphore(command).await,
            "latch" => return self.perform_on_latch(command).await,
            _ => {}
        }
        let name = &command.held_as();
        let lock = self.lock(command).map_err(failed)?;
        Ok(match command.text("op") {
            "lock" => {
                let asked = Instant::now();
                let entered = match self.again(command).await {
                    Some(entered) => entered,
                    None => lock.acquire().await,
                };
                self.entered(name, asked, Some(entered.map_err(failed)?))
            }
            "tryLock" => {
                let asked = Instant::now();
                let entered = match (self.again(command).await, command.duration("wait_ms")) {
                    (Some(entered), _) => Some(entered.map_err(failed)?),
                    (None, None) => lock.try_acquire().await.map_err(failed)?,
                    (None, Some(max_wait)) => match lock.acquire_within(max_wait).await {
                        Err(leasehold::Error::TimedOut { .. }) => None,
                        entered => Some(entered.map_err(failed)?),
                    },
                };
                self.entered(name, asked, entered)
            }
            "unlock" => {
                let guard = self.guards.get_mut(name).and_then(Vec::pop);
                let guard = guard.ok_or_else(|| ("NotHeld", "no guard".to_owned()))?;
                match guard.release().await.map_err(failed)? {
                    Release::NotHeld { reason, holder, .. } => {
                        let holder = holder.map(|holder| holder.to_string()).unwrap_or_default();
                        return Err(("NotHeld", format!("{reason:?} {holder}")));
                    }
                    _ => json!(true),
                }
            }
            "forceUnlock" => json!(lock.force_release().await.map_err(failed)?),
            "isLocked" => json!(lock.is_locked().await.map_err(failed)?),
            "isHeldByThread" => {
                let number = command.number("thread_id").expect("the command has `thread_id`");
                let owner = Owner::new(format!("{}:{number}", self.client.id()))
                    .expect("the owner is valid");
                json!(lock.held_by(&owner).await.map_err(failed)? > 0)
            }
            "isHeldByCurrentThread" => json!(self.count(name, &lock).await? > 0),
            "getHoldCount" => json!(self.count(name, &lock).await?),
            "remainTimeToLive" => match lock.holder().await.map_err(failed)? {
                Some(holder) => json!(holder.remaining().map_or(-1, millis)),
                None => json!(-2),
            },
            "token" => {
                let guard = self.held(name).ok_or_else(|| ("NotHeld", "no guard".to_owned()))?;
                json!(guard.token())
            }
            "waiting" => json!(self.client.stats().waiting),
            "crowd" => self.contend(&Gate::Lock(lock), command).await,
            op => panic!("unknown op `{op}`"),
        })
    }

    async fn perform_on_semaphore(&mut self, command: &Command) -> Outcome {
        let name = command.text("name");
        let semaphore = self.client.semaphore(name).map_err(failed)?;
        let signed = command.0["permits"].as_i64().unwrap_or(1);
        let permits = u32::try_from(signed).unwrap_or_default();
        Ok(match command.text("op") {
            "acquire" => {
                let asked = Instant::now();
                let entered = match command.duration("wait_ms") {
                    None => Some(semaphore.acquire(permits).await.map_err(failed)?),
                    Some(max_wait) => match semaphore.acquire_within(permits, max_wait).await {
                        Err(leasehold::Error::TimedOut { .. }) => None,
                        entered => Some(entered.map_err(failed)?),
                    },
                };
                self.has_permits(name, asked, entered)
            }
            "tryAcquire" => {
                let asked = Instant::now();
                let entered = semaphore.try_acquire(permits).await.map_err(failed)?;
                self.has_permits(name, asked, entered)
            }
            "release" => json!(self.gives_back(&semaphore, permits).await?),
            "trySetPermits" => json!(semaphore.set_if_absent(permits).await.map_err(failed)?),
            "addPermits" => json!(semaphore.add(signed).await.map_err(failed).is_ok()),
            "drainPermits" => json!(semaphore.drain().await.map_err(failed)?),
            "availablePermits" => json!(semaphore.available().await.map_err(failed)?),
            "delete" => json!(semaphore.delete().await.map_err(failed)?),
            "crowd" => self.contend(&Gate::Semaphore(semaphore), command).await,
            op => panic!("unknown op `{op}`"),
        })
    }

    /// Like Redisson's `release(n)`. If the task has a guard with this number of permits, releases
    /// this guard. Otherwise, adds permits to the semaphore.
    async fn gives_back(
        &mut self,
        semaphore: &Semaphore,
        permits: u32,
    ) -> Result<bool, (&'static str, String)> {
        let guards = self.permits.entry(semaphore.name().to_string()).or_default();
        let Some(at) = guards.iter().position(|guard| guard.permits() == permits) else {
            return Ok(semaphore.add(permits.into()).await.map_err(failed).is_ok());
        };
        match guards.swap_remove(at).release().await.map_err(failed)? {
            Release::NotHeld { reason, .. } => Err(("NotHeld", format!("{reason:?}"))),
            _ => Ok(true),
        }
    }

    fn has_permits(&mut self, name: &str, asked: Instant, guard: Option<SemaphoreGuard>) -> Value {
        let value = attempt(asked, guard.is_some());
        self.permits.entry(name.to_owned()).or_default().extend(guard);
        value
    }

    async fn perform_on_latch(&self, command: &Command) -> Outcome {
        let latch = self.client.latch(command.text("name")).map_err(failed)?;
        Ok(match command.text("op") {
            "await" => {
                let asked = Instant::now();
                let passed = match command.duration("wait_ms") {
                    None => latch.wait().await,
                    Some(max_wait) => latch.wait_within(max_wait).await,
                };
                match passed {
                    Err(leasehold::Error::TimedOut { .. }) => attempt(asked, false),
                    passed => passed.map(|()| attempt(asked, true)).map_err(failed)?,
                }
            }
            "countDown" => json!(latch.count_down().await.map_err(failed).is_ok()),
            "trySetCount" => {
                let count = command.number("count").and_then(|it| u32::try_from(it).ok());
                json!(latch.set(count.expect("the command has `count`")).await.map_err(failed)?)
            }
            "getCount" => json!(latch.count().await.map_err(failed)?),
            "delete" => json!(latch.delete().await.map_err(failed)?),
            op => panic!("unknown op `{op}`"),
        })
    }

    fn lock(&self, command: &Command) -> leasehold::Result<AnyLock> {
        let (kind, name) = (command.text("kind"), command.text("name"));
        let mut lock = AnyLock::new(&self.client, kind, name)?;
        if let Some(lease) = command.duration("lease_ms") {
            lock = lock.lease(lease);
        }
        if kind == "spin" {
            // The pauses are those of Redisson's exponential backoff.
            let (first, longest) = (Duration::from_millis(1), Duration::from_millis(128));
            lock = lock.wait_strategy(WaitStrategy::Polling { initial: first, max: longest });
        }
        Ok(lock)
    }

    /// Reenters a hold of this task, or acquires a read hold under the task's write hold.
    async fn again(&self, command: &Command) -> Option<leasehold::Result<AnyGuard>> {
        if let Some(guard) = self.held(&command.held_as()) {
            return Some(guard.reenter().await);
        }
        let name = command.text("name");
        let writing = self.held(&format!("write {name}"))?;
        let lock = self.client.read_write_lock(name);
        match (command.text("kind"), lock) {
            ("read", Ok(lock)) => Some(writing.acquire_read_with(&lock).await),
            _ => None,
        }
    }

    /// A guard of this task for `name`, if this guard is held.
    fn held(&self, name: &str) -> Option<&AnyGuard> {
        self.guards.get(name)?.iter().find(|guard| guard.is_held())
    }

    fn entered(&mut self, name: &str, asked: Instant, guard: Option<AnyGuard>) -> Value {
        let value = attempt(asked, guard.is_some());
        self.guards.entry(name.to_owned()).or_default().extend(guard);
        value
    }

    /// The hold count of this task in Redis.
    async fn count(&self, name: &str, lock: &AnyLock) -> Result<u32, (&'static str, String)> {
        match self.held(name) {
            Some(guard) => lock.held_by(guard.owner()).await.map_err(failed),
            None => Ok(0),
        }
    }

    /// Increments a counter by a read and a write, like `Crowd` in Java.
    async fn contend(&self, gate: &Gate, command: &Command) -> Value {
        let began = Instant::now();
        let limit = command.number("seconds").map(Duration::from_secs);
        let mut members = JoinSet::new();
        for _ in 0..command.number("threads").expect("the command has `threads`") {
            members.spawn(member(
                gate.clone(),
                Round {
                    kind: command.text("kind").to_owned(),
                    port: self.flags.counter_port(),
                    counter: command.text("counter").to_owned(),
                    hold: Duration::from_micros(command.number("hold_us").unwrap_or(0)),
                    rest: Duration::from_micros(command.number("rest_us").unwrap_or(0)),
                    rounds: command.number("rounds").unwrap_or(u64::MAX),
                    until: limit.map(|limit| began + limit),
                    stubborn: command.0["stubborn"] == true,
                    until_stopped: command.0["until_stopped"] == true,
                },
            ));
        }
        let done = members.join_all().await;
        json!({
            "done": done.iter().map(|it| it.done).collect::<Vec<_>>(),
            "total": done.iter().map(|it| it.done).sum::<u64>(),
            "max_wait_ms": done.iter().map(|it| millis(it.max_wait)).max(),
            "total_wait_ms": millis(done.iter().map(|it| it.total_wait).sum()),
            "elapsed_ms": millis(began.elapsed()),
            "refusals": done.iter().flat_map(|it| &it.refusals).collect::<Vec<_>>(),
        })
    }
}

/// The result of an attempt that began at `asked`.
fn attempt(asked: Instant, acquired: bool) -> Value {
    let (acquired_at, waited) = (now(), asked.elapsed());
    let mut value = json!({ "acquired": acquired, "waited_ms": millis(waited) });
    if acquired {
        value["acquired_at"] = acquired_at.into();
    }
    value
}

/// The lock or the semaphore that excludes contenders.
#[derive(Clone)]
enum Gate {
    Lock(AnyLock),
    Semaphore(Semaphore),
}

/// A hold of a contender.
enum Inside {
    Lock(AnyGuard),
    Semaphore(SemaphoreGuard),
}

impl Gate {
    async fn enter(&self) -> leasehold::Result<Inside> {
        Ok(match self {
            Self::Lock(lock) => Inside::Lock(lock.acquire().await?),
            Self::Semaphore(semaphore) => Inside::Semaphore(semaphore.acquire(1).await?),
        })
    }
}

impl Inside {
    fn token(&self) -> Option<u64> {
        match self {
            Self::Lock(guard) => guard.token(),
            Self::Semaphore(_) => None,
        }
    }

    async fn leave(self) -> leasehold::Result<Release> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Semaphore(guard) => guard.release().await,
        }
    }
}

struct Round {
    kind: String,
    port: u16,
    counter: String,
    hold: Duration,
    rest: Duration,
    rounds: u64,
    until: Option<Instant>,
    stubborn: bool,
    until_stopped: bool,
}

impl Round {
    fn is_over(&self, redis: &mut Connection) -> bool {
        let over = format!("{}:over", self.counter);
        let mut reported = || block_in_place(|| redis.command(&["EXISTS", &over])).number() == 1;
        self.until.is_some_and(|until| Instant::now() >= until) || self.until_stopped && reported()
    }

    fn is_made(&self, redis: &mut Connection) {
        if self.until_stopped {
            let made = format!("{}:rust", self.counter);
            block_in_place(|| redis.command(&["INCR", &made])).number();
        }
    }

    async fn work(&self, redis: &mut Connection, token: Option<u64>) {
        if let Some(token) = token {
            let tokens = format!("{}:tokens", self.counter);
            block_in_place(|| redis.command(&["RPUSH", &tokens, &token.to_string()])).number();
        }
        match self.kind.as_str() {
            "read" => self.look(redis).await,
            "write" => {
                self.nobody_reads(redis);
                self.add(redis).await;
                self.nobody_reads(redis);
            }
            _ => self.add(redis).await,
        }
    }

    /// Reads the counter, waits, and writes the counter plus one.
    async fn add(&self, redis: &mut Connection) {
        let seen = block_in_place(|| redis.command(&["GET", &self.counter]));
        let next = if seen.is_nil() {
            1
        } else {
            seen.text().parse::<u64>().expect("the counter is a number") + 1
        };
        self.rest_a_while().await;
        let set = block_in_place(|| redis.command(&["SET", &self.counter, &next.to_string()]));
        assert_eq!(set.text(), "OK");
    }

    /// Checks that the counter does not change while the contender holds a read lock.
    async fn look(&self, redis: &mut Connection) {
        let (readers, beside) = (self.readers(), format!("{}:beside", self.counter));
        if block_in_place(|| redis.command(&["INCR", &readers])).number() > 1 {
            block_in_place(|| redis.command(&["SET", &beside, "seen"]));
        }
        let seen = block_in_place(|| redis.command(&["GET", &self.counter]));
        self.rest_a_while().await;
        let again = block_in_place(|| redis.command(&["GET", &self.counter]));
        assert_eq!(
            format!("{seen:?}"),
            format!("{again:?}"),
            "no thread writes while another one reads"
        );
        block_in_place(|| redis.command(&["DECR", &readers])).number();
    }

    fn nobody_reads(&self, redis: &mut Connection) {
        let reading = block_in_place(|| redis.command(&["GET", &self.readers()]));
        assert!(
            reading.is_nil() || reading.text() == "0",
            "no thread reads while another one writes"
        );
    }

    fn readers(&self) -> String {
        format!("{}:readers", self.counter)
    }

    async fn rest_a_while(&self) {
        if !self.hold.is_zero() {
            tokio::time::sleep(self.hold).await;
        }
    }
}

#[derive(Default)]
struct Done {
    done: u64,
    max_wait: Duration,
    total_wait: Duration,
    refusals: Vec<String>,
}

async fn member(gate: Gate, round: Round) -> Done {
    let mut redis = Connection::open(round.port);
    let mut done = Done::default();
    while done.done < round.rounds && !round.is_over(&mut redis) {
        let asked = Instant::now();
        let inside = done.enters_at_last(&gate, &round).await;
        let waited = asked.elapsed();
        round.work(&mut redis, inside.token()).await;
        round.is_made(&mut redis);
        done.leaves_or_forgets(inside, &round).await;

        done.done += 1;
        done.max_wait = done.max_wait.max(waited);
        done.total_wait += waited;
        if !round.rest.is_zero() {
            tokio::time::sleep(round.rest).await;
        }
    }
    done
}

impl Done {
    async fn enters_at_last(&mut self, gate: &Gate, round: &Round) -> Inside {
        loop {
            match gate.enter().await {
                Ok(inside) => return inside,
                Err(error) => self.refused(error, round),
            }
        }
    }

    async fn leaves_or_forgets(&mut self, inside: Inside, round: &Round) {
        if let Err(error) = inside.leave().await.and_then(Release::into_result) {
            self.refused(error, round);
        }
    }

    fn refused(&mut self, error: leasehold::Error, round: &Round) {
        assert!(round.stubborn, "a contending task failed: {error}");
        self.refusals.push(error.to_string());
    }
}

struct Command(Value);

impl Command {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// The key of the guards of this command. The two sides of a read-write lock have different
    /// keys.
    fn held_as(&self) -> String {
        let name = self.text("name");
        match self.text("kind") {
            side @ ("read" | "write") => format!("{side} {name}"),
            _ => name.to_owned(),
        }
    }

    fn number(&self, field: &str) -> Option<u64> {
        self.0[field].as_u64()
    }

    fn duration(&self, field: &str) -> Option<Duration> {
        self.number(field).map(Duration::from_millis)
    }
}

/// The `--name value` pairs of the command line.
#[derive(Clone)]
struct Flags(HashMap<String, String>);

impl Flags {
    fn of_command_line() -> Self {
        let mut words = std::env::args().skip(1);
        let mut flags = HashMap::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            let known = KNOWN.iter().any(|known| name.strip_prefix("--") == Some(known));
            // An unknown setting is an error, because a test would rely on its effect.
            assert!(known, "Leasehold has no setting for {name}");
            flags.insert(name[2..].to_owned(), value);
        }
        Self(flags)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).map(|text| text.parse().expect("the value is a number"))
    }

    fn counter_port(&self) -> u16 {
        let url = self.text("counter-url").or_else(|| self.text("url"));
        let url = url.expect("the command line has `--url`").trim_end_matches('/');
        url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the URL has a port")
    }
}

fn failed(error: leasehold::Error) -> (&'static str, String) {
    let class = match &error {
        leasehold::Error::Lost { .. } => "Lost",
        leasehold::Error::Forbidden { .. } => "Forbidden",
        leasehold::Error::NotReady { .. } => "NotReady",
        leasehold::Error::Refused { .. } => "Refused",
        leasehold::Error::Unavailable { .. } => "Unavailable",
        _ => "Error",
    };
    (class, error.to_string())
}

fn answer(command: &Command, began_at: u64, outcome: Outcome) {
    let (id, at) = (&command.0["id"], now());
    say(&match outcome {
        Ok(value) => {
            json!({ "id": id, "ok": true, "value": value, "began_at": began_at, "at": at })
        }
        Err((error, message)) => json!({
            "id": id, "ok": false, "error": error, "message": message,
            "began_at": began_at, "at": at,
        }),
    });
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // If the test has ended, the pipe is closed, and the write fails.
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The wall clock in microseconds, as in Java.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is later than 1970");
    u64::try_from(since.as_micros()).expect("the microseconds since 1970 fit into 64 bits")
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

const KNOWN: [&str; 7] =
    ["url", "watchdog-ms", "database", "user", "password", "counter-url", "replicas"];
