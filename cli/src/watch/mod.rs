//! Samples the server for `leasehold top` and `leasehold ui`.
//!
//! A round has two halves. The first half reads the objects of the table again, and begins with the
//! object that was read least recently. The second half reads the next pages of `SCAN`, and the
//! objects on these pages. Each half has a tenth of the interval, and the pause after a round lasts
//! at least four times as long as the round. So a server spends at most a fifth of its time on this
//! process, even if the server is slow. A pass over many keys takes many rounds.

pub(crate) mod table;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use leasehold::{Client, Error, Inspection, Name, NameCursor, ObjectKind};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep},
};

use self::table::{Event, Row, Seen, Table, Tally};
use crate::{
    exit::Exit,
    inspect::{odd, process},
};

/// The number of objects that are read at the same time. Redis executes the commands of 16 objects
/// in about a millisecond, during which other clients wait.
const AT_ONCE: usize = 16;

/// How often the health of the server is checked.
const CHECK: Duration = Duration::from_secs(5);

/// The state of the server, as far as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The time at which this process began to read.
    pub(crate) started: SystemTime,
    /// The time of this sample, since `started`.
    pub(crate) now: Duration,
    /// How long the round of this sample took.
    pub(crate) took: Duration,
    pub(crate) rows: Vec<Row>,
    pub(crate) events: Vec<Event>,
    /// The time, the grants, the releases and the losses of each of the last rounds.
    pub(crate) history: Vec<table::Bin>,
    /// The counts of the last whole pass over the keys. During the first pass, the counts so far.
    pub(crate) tally: Tally,
    /// How long the last whole pass took. `None` during the first pass.
    pub(crate) pass: Option<Duration>,
    /// The number of losses since the start.
    pub(crate) lost: u64,
    /// Hazards of the server, with remedies.
    pub(crate) hazards: Vec<String>,
    pub(crate) server: String,
    pub(crate) error: Option<String>,
}

impl Sample {
    /// Returns how many grants per second the samples have shown.
    pub(crate) fn rate(&self) -> f64 {
        self.rows.iter().fold(0.0, |all, row| all + row.rate)
    }
}

/// The samples of a task that reads the server until this value is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    samples: watch::Receiver<Arc<Sample>>,
    forced: mpsc::UnboundedSender<(Name, String)>,
}

impl Watch {
    pub(crate) fn start(client: Client, pattern: &str, interval: Duration) -> Self {
        let sampler = Sampler::new(client, pattern.to_owned(), interval);
        let (sender, samples) = watch::channel(Arc::new(sampler.sample()));
        let (forced, of_users) = mpsc::unbounded_channel();
        tokio::spawn(sampler.run(sender, of_users));
        Self { samples, forced }
    }

    pub(crate) fn last(&self) -> Arc<Sample> {
        Arc::clone(&self.samples.borrow())
    }

    /// Waits for another sample. Fails if the task has panicked.
    pub(crate) async fn changed(&mut self) -> Result<(), Exit> {
        let changed = self.samples.changed().await;
        changed.map_err(|error| Exit::os("sample", "server", &error))
    }

    pub(crate) fn forced(&self, name: Name, owner: String) {
        // `send` fails only if the task has ended. Its table then needs no update.
        drop(self.forced.send((name, owner)));
    }
}

#[derive(Debug)]
struct Sampler {
    client: Client,
    pattern: String,
    interval: Duration,
    start: Instant,
    started: SystemTime,
    cursor: NameCursor,
    table: Table,
    /// The start of the current pass over the keys, and the duration of the last whole pass.
    pass: (Duration, Option<Duration>),
    checked: Option<Duration>,
    hazards: Vec<String>,
    server: String,
    took: Duration,
    error: Option<String>,
}

impl Sampler {
    fn new(client: Client, pattern: String, interval: Duration) -> Self {
        Self {
            client,
            pattern,
            interval,
            start: Instant::now(),
            started: date(),
            cursor: NameCursor::default(),
            table: Table::default(),
            pass: (Duration::ZERO, None),
            checked: None,
            hazards: vec![],
            server: String::new(),
            took: Duration::ZERO,
            error: None,
        }
    }

    async fn run(
        mut self,
        samples: watch::Sender<Arc<Sample>>,
        mut forced: mpsc::UnboundedReceiver<(Name, String)>,
    ) {
        loop {
            let start = Instant::now();
            let ended = self.round(start).await;
            if ended.is_err() {
                // The servers may have changed, so the cursor may be invalid. So the pass starts
                // again.
                self.cursor = NameCursor::default();
                self.table.restart_pass();
                self.pass.0 = self.now();
            }
            self.error = ended.err().map(|error| error.to_string());
            while let Ok((name, owner)) = forced.try_recv() {
                self.table.forced(&name, &owner, self.now());
            }
            self.took = start.elapsed();
            self.table.end_round(self.now());
            if samples.send(Arc::new(self.sample())).is_err() {
                return;
            }
            let pause = self.interval.saturating_sub(self.took).max(self.took * 4);
            tokio::select! {
                () = sleep(pause) => {}
                () = samples.closed() => return,
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn round(&mut self, start: Instant) -> Result<(), Error> {
        if self.checked.is_none_or(|at| self.now() >= at + CHECK) {
            self.check().await;
        }
        let (began, share) = (self.now(), self.interval / 10);
        self.read_again(start + share).await?;
        self.search(began, Instant::now() + share).await
    }

    async fn check(&mut self) {
        let health = self.client.health().await;
        self.hazards = health.findings.iter().map(ToString::to_string).collect();
        self.hazards.extend(health.unavailable_reason);
        let nodes: Vec<_> = health.nodes.iter().map(|node| node.server.as_str()).collect();
        self.server = nodes.join(", ");
        if let Some(version) = health.server_version {
            self.server += &format!(" (Redis {version})");
        }
        self.checked = Some(self.now());
    }

    async fn read_again(&mut self, until: Instant) -> Result<(), Error> {
        for names in self.table.longest_unread().chunks(AT_ONCE) {
            self.read(names).await?;
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Continues the pass over the keys, in the round that began at `began`.
    async fn search(&mut self, began: Duration, until: Instant) -> Result<(), Error> {
        loop {
            let mut names = self.client.next_names(&self.pattern, &mut self.cursor).await?;
            self.table.count_names(names.len());
            names.retain(|name| !self.table.count_known(name, began));
            for names in names.chunks(AT_ONCE) {
                for seen in self.read(names).await? {
                    self.table.count(&seen);
                }
            }
            if self.cursor.is_done() {
                self.cursor = NameCursor::default();
                self.table.end_pass();
                self.pass = (self.now(), Some(self.now().saturating_sub(self.pass.0)));
                return Ok(());
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Reads these objects into the table. If the connection fails, the whole read fails. If one
    /// object cannot be read, its row shows the error.
    async fn read(&mut self, names: &[Name]) -> Result<Vec<Seen>, Error> {
        let mut reads = JoinSet::new();
        for name in names {
            let (client, name) = (self.client.clone(), name.clone());
            reads.spawn(async move { (client.inspect(&name).await, name) });
        }
        let mut all = vec![];
        while let Some(read) = reads.join_next().await {
            // If the read panicked, stderr has its message. The next round reads the object again.
            let Ok((found, name)) = read else { continue };
            let seen = match found {
                Ok(found) => seen(name, found),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => Seen { error: Some(error.to_string()), ..Seen::absent(name) },
            };
            self.table.update(&seen, self.now());
            all.push(seen);
        }
        Ok(all)
    }

    fn sample(&self) -> Sample {
        Sample {
            started: self.started,
            now: self.now(),
            took: self.took,
            rows: self.table.rows().cloned().collect(),
            events: self.table.events().cloned().collect(),
            history: self.table.history().cloned().collect(),
            tally: self.table.tally().clone(),
            pass: self.pass.1,
            lost: self.table.lost(),
            hazards: self.hazards.clone(),
            server: self.server.clone(),
            error: self.error.clone(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "people read the dates; nothing is measured by them")]
fn date() -> SystemTime {
    SystemTime::now()
}

fn seen(name: Name, found: Option<Inspection>) -> Seen {
    let is_data = |found: &Inspection| found.kind != ObjectKind::Number && found.may_be_foreign();
    let Some(found) = found.filter(|found| !is_data(found)) else { return Seen::absent(name) };
    let odd = odd(&found).iter().map(|it| it.text).collect();
    // A writer that is also a reader has two holds with one owner.
    let mut owners = HashSet::new();
    let holders = found.holders.iter().filter(|it| owners.insert(it.owner()));
    let holders = holders.map(|it| table::Holder {
        owner: it.owner().as_str().to_owned(),
        remaining: it.remaining(),
        process: process(it),
    });
    let waiters = found.waiters.iter().map(|it| table::Waiting {
        owner: it.owner.as_str().to_owned(),
        waited: it.waited,
        is_overdue: it.is_overdue,
    });
    Seen {
        kind: Some(found.kind.to_string()),
        holders: holders.collect(),
        waiters: waiters.collect(),
        waiting: found.waiting(),
        number: found.number,
        token: found.token,
        odd,
        ..Seen::absent(name)
    }
}
