//! A master, its replicas, and the Sentinels that watch them.
//!
//! Each server and each Sentinel is a [`Redis`], which a test can pause, kill and start again. When
//! all servers run, commands make the Sentinels watch the primary. A Sentinel stores its state in a
//! file, and reads this file after a restart. Sentinels act by timers, so they take seconds to find
//! each other. If a replaced master comes back, Sentinels need about ten seconds to make it a
//! replica. During [`wait_until_agreed`](Sentinels::wait_until_agreed), they need less time.

mod events;
mod options;
mod view;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use crate::certificates::Certificates;
use crate::clock::{clock, eventually};
use crate::deployment::{announced_port, start_all};
use crate::links::Links;
use crate::options::Kind;
use crate::server::Redis;
use crate::wire::Reply;

pub use events::{Event, Events};
pub use options::SentinelsOptions;
use view::View;

/// A master with replicas and Sentinels that live as long as this value.
///
/// # Examples
///
/// ```
/// use testkit::Sentinels;
///
/// let redis = Sentinels::start();
/// let before = redis.master().port();
/// redis.fail_over();
/// assert_ne!(redis.master().port(), before);
/// ```
#[derive(Debug)]
pub struct Sentinels {
    // The Sentinels are dropped before the servers, so that no Sentinel sees a server vanish.
    sentinels: Vec<Redis>,
    servers: Vec<Redis>,
    links: Option<Links>,
    name: String,
}

impl Sentinels {
    /// Starts a master with two replicas and three Sentinels.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or a server does not start.
    pub fn start() -> Self {
        Self::options().start()
    }

    /// Returns the default settings.
    pub fn options() -> SentinelsOptions {
        SentinelsOptions::default()
    }

    /// The name of the service, by which Sentinels know the primary.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The master and the replicas. The first server was the master at the start.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The links between all servers and Sentinels.
    ///
    /// # Panics
    ///
    /// If the deployment was started without [`links`](SentinelsOptions::links).
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("the deployment was started without `.links()`")
    }

    /// Returns `127.0.0.1:PORT` of each Sentinel, for clients: the TLS port if Sentinels use TLS.
    pub fn addresses(&self) -> Vec<String> {
        let ports = (0..self.sentinels.len()).map(|number| self.sentinel_port(number));
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// `redis-sentinel://127.0.0.1:PORT,…/NAME` with all Sentinels, or `rediss-sentinel://…` if the
    /// servers use TLS. Passwords are not included.
    pub fn url(&self) -> String {
        let scheme = if self.servers[0].settings().tls { "rediss" } else { "redis" };
        format!("{scheme}-sentinel://{}/{}", self.addresses().join(","), self.name)
    }

    /// The port of the server with this index in [servers](Self::servers), as Sentinels know it.
    /// Sentinels return this port to clients.
    pub fn announced_port(&self, server: usize) -> u16 {
        announced_port(&self.servers[server], &server_name(server), self.links.as_ref())
    }

    /// Returns the current primary. Waits until all running Sentinels name the same server, and
    /// this server also reports that it is the primary.
    ///
    /// # Panics
    ///
    /// If the Sentinels and this server do not agree within 30 seconds.
    #[track_caller]
    pub fn master(&self) -> &Redis {
        &self.servers[self.master_number()]
    }

    /// The index of the [master](Self::master) in [servers](Self::servers).
    ///
    /// # Panics
    ///
    /// If the Sentinels do not agree within 30 seconds.
    #[track_caller]
    pub fn master_number(&self) -> usize {
        let mut found = None;
        eventually("the Sentinels agree on a server that is a primary", FAILOVER, || {
            found = self.agreed_master();
            found.is_some()
        });
        found.expect("the loop above found the primary")
    }

    /// The index of the server that one of the [sentinels](Self::sentinels) considers the master
    /// now. After a [cut](Links::split), this may be the old master. `None` if the Sentinel does
    /// not reply.
    pub fn master_seen_by(&self, sentinel: usize) -> Option<usize> {
        let port = view::master(&self.sentinels[sentinel], &self.name)?;
        (0..self.servers.len()).find(|server| self.announced_port(*server) == port)
    }

    /// Makes the Sentinels replace a healthy master, and returns the new master. The old master is
    /// demoted later, and takes writes until then.
    ///
    /// # Panics
    ///
    /// If the failover takes longer than 30 seconds.
    #[track_caller]
    pub fn fail_over(&self) -> &Redis {
        let old = self.master_number();
        let mut reply = Reply::Nil;
        eventually("a Sentinel begins a failover", FAILOVER, || {
            let running = self.sentinels.iter().find(|sentinel| sentinel.is_running());
            reply =
                running.expect("a Sentinel runs").command(&["SENTINEL", "FAILOVER", &self.name]);
            !reply.is_error()
        });
        self.wait_for_master_other_than(old)
    }

    /// Waits until the Sentinels agree on a master other than the server `old`, an index in
    /// [servers](Self::servers). Returns the new master.
    ///
    /// # Panics
    ///
    /// If the Sentinels do not agree within 30 seconds.
    #[track_caller]
    pub fn wait_for_master_other_than(&self, old: usize) -> &Redis {
        let mut new = None;
        eventually("the Sentinels agree on another primary", FAILOVER, || {
            new = self.agreed_master().filter(|new| *new != old);
            new.is_some()
        });
        &self.servers[new.expect("the loop above found the primary")]
    }

    /// Waits until every running Sentinel sees all others, the same master, and all other running
    /// servers as its connected replicas. Meanwhile, Sentinels send messages to each other four
    /// times as often as by default, and check servers ten times as often.
    ///
    /// # Panics
    ///
    /// If the Sentinels do not agree within a minute. The message shows the views of the Sentinels.
    #[track_caller]
    pub fn wait_until_agreed(&self) {
        let _hurried = Hurried::all(&self.sentinels);
        let started = clock();
        while !self.is_agreed() {
            let views: Vec<_> = self.views();
            assert!(started.elapsed() < AGREEMENT, "the Sentinels do not agree: {views:#?}");
            sleep(PAUSE);
        }
    }

    /// Subscribes to all events of all running Sentinels from now on.
    ///
    /// # Panics
    ///
    /// If a running Sentinel rejects the subscription.
    pub fn listen(&self) -> Events {
        Events::of(&self.sentinels)
    }

    /// Creates a [user](Redis::user) at every running server. A restarted server has lost this
    /// user. A user of [`Options::user`](crate::Options::user) survives a restart.
    ///
    /// # Panics
    ///
    /// For the same reasons as [`Redis::user`].
    #[track_caller]
    pub fn user(&self, name: &str, rights: &[&str]) {
        user_at(&self.servers, name, rights);
    }

    /// Creates a [user](Redis::user) at every running Sentinel.
    ///
    /// # Panics
    ///
    /// For the same reasons as [`Redis::user`].
    #[track_caller]
    pub fn sentinel_user(&self, name: &str, rights: &[&str]) {
        user_at(&self.sentinels, name, rights);
    }

    /// The certificate of the authority that signed the certificates of all servers and Sentinels.
    ///
    /// # Panics
    ///
    /// If the servers were started without TLS.
    pub fn ca_pem(&self) -> String {
        self.servers[0].ca_pem()
    }

    fn sentinel_port(&self, number: usize) -> u16 {
        announced_port(&self.sentinels[number], &sentinel_name(number), self.links.as_ref())
    }

    /// The view of each running Sentinel, if it replies.
    fn views(&self) -> Vec<Option<View>> {
        let running = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
        running.map(|sentinel| View::of(sentinel, &self.name)).collect()
    }

    /// The index of the server that all running Sentinels consider the master, if the server also
    /// reports that it is the master.
    fn agreed_master(&self) -> Option<usize> {
        let running = (0..self.sentinels.len()).filter(|it| self.sentinels[*it].is_running());
        let seen: Vec<_> = running.map(|sentinel| self.master_seen_by(sentinel)).collect();
        let master = (*seen.first()?)?;
        let agreed = seen.iter().all(|other| *other == Some(master));
        (agreed && view::is_master(&self.servers[master])).then_some(master)
    }

    fn is_agreed(&self) -> bool {
        let Some(master) = self.agreed_master() else { return false };
        let port = self.announced_port(master);
        let servers = self.servers.iter().enumerate();
        let mut replicas = servers.filter(|(it, server)| *it != master && server.is_running());
        let running = replicas.clone().count();
        let views = self.views();
        let others = views.len() - 1;
        let sees_all = |view: &View| view.is_complete(port, running, others);
        views.iter().all(|view| view.as_ref().is_some_and(sees_all))
            && replicas.all(|(_, replica)| view::follows(replica, port))
    }

    /// Makes a Sentinel watch the primary. All commands are sent in one write, because the Sentinel
    /// must have the credentials before it checks the primary.
    fn watch(&self, sentinel: &Redis, options: &SentinelsOptions) {
        let quorum = options.quorum.unwrap_or(options.sentinels / 2 + 1).to_string();
        let port = self.announced_port(0).to_string();
        let (down, timeout) = (millis(options.down_after), millis(options.failover_timeout));
        let syncs = options.replicas.max(1).to_string();
        let name = self.name.as_str();
        let mut set = vec!["SENTINEL", "SET", name, "down-after-milliseconds", &down];
        set.extend(["failover-timeout", &timeout, "parallel-syncs", &syncs]);
        let (user, password) = self.servers[0].settings().login();
        let login = [("auth-user", user), ("auth-pass", password)];
        set.extend(login.iter().filter_map(|(key, value)| Some([*key, (*value)?])).flatten());
        let monitor = ["SENTINEL", "MONITOR", name, "127.0.0.1", &port, &quorum];
        let mut connection = sentinel.access().open().expect("the Sentinel accepts connections");
        connection
            .send(&monitor)
            .and_then(|()| connection.send(&set))
            .expect("the Sentinel reads its input");
        for _ in 0..2 {
            assert_eq!(connection.next_reply().expect("the Sentinel replies").text(), "OK");
        }
    }
}

impl SentinelsOptions {
    /// Starts all servers and Sentinels, and waits until every Sentinel knows all others.
    ///
    /// # Panics
    ///
    /// If there is no Redis on this machine, or a server does not start with these settings.
    pub fn start(mut self) -> Sentinels {
        let links = self.linked.then(Links::default);
        self.certify();
        let members = self.server_options.clone().of_kind(Kind::Member);
        let servers = start_all(&names(self.replicas + 1, server_name), &members, links.as_ref());
        let watchers = self.sentinel_options.clone().of_kind(Kind::Sentinel);
        let sentinels = start_all(&names(self.sentinels, sentinel_name), &watchers, links.as_ref());
        let started = Sentinels { sentinels, servers, links, name: self.name.clone() };
        started.replicate();
        started.introduce(&self);
        started
    }

    /// Creates the certificates for all servers with TLS.
    fn certify(&mut self) {
        let (servers, sentinels) = (&mut self.server_options, &mut self.sentinel_options);
        assert!(sentinels.tls || !servers.tls, "Sentinels of servers with TLS need TLS, too");
        if !sentinels.tls {
            return;
        }
        sentinels.plain_among_servers = !servers.tls;
        let (one, other) = (Certificates::new(), Certificates::new());
        let (theirs, own) = match self.own_authority {
            true => (one.clone().trusting(&other), other.trusting(&one)),
            false => (one.clone(), one),
        };
        servers.certificates = Some(Arc::new(theirs));
        sentinels.certificates = Some(Arc::new(own));
    }
}

impl Sentinels {
    /// Makes the first server the master of the others.
    fn replicate(&self) {
        if self.links.is_some() {
            for (number, server) in self.servers.iter().enumerate() {
                let port = self.announced_port(number).to_string();
                let announced =
                    [("replica-announce-ip", "127.0.0.1"), ("replica-announce-port", &port)];
                server.configure(&announced);
            }
        }
        let (master, replicas) = self.servers.split_first().expect("the deployment has a primary");
        let port = self.announced_port(0);
        replicas.iter().for_each(|replica| replica.follow_at(master, port));
        replicas.iter().for_each(Redis::wait_until_synced);
    }

    /// Makes all Sentinels watch the primary, with shorter intervals until they know each other.
    fn introduce(&self, options: &SentinelsOptions) {
        for (number, sentinel) in self.sentinels.iter().enumerate() {
            let (user, password) = sentinel.settings().login();
            let port = self.sentinel_port(number).to_string();
            let ip = self.links.as_ref().map(|_| "127.0.0.1");
            let port = ip.map(|_| port.as_str());
            let known = [
                ("announce-ip", ip),
                ("announce-port", port),
                ("sentinel-user", user),
                ("sentinel-pass", password),
            ];
            for (key, value) in known.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                sentinel.own_command(&["SENTINEL", "CONFIG", "SET", key, value]);
            }
        }
        self.sentinels.iter().for_each(|sentinel| self.watch(sentinel, options));
        self.wait_until_agreed();
    }
}

/// Makes Sentinels use shorter intervals as long as this value exists.
struct Hurried<'a>(&'a [Redis]);

impl<'a> Hurried<'a> {
    fn all(sentinels: &'a [Redis]) -> Self {
        every(sentinels, "500", "1000");
        Self(sentinels)
    }
}

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        every(self.0, "2000", "10000");
    }
}

/// Sets the intervals at which Sentinels announce themselves and check servers. The unit is 1 ms.
/// Before Redis 7, these intervals cannot be set.
fn every(sentinels: &[Redis], hello: &str, look: &str) {
    for sentinel in sentinels {
        sentinel.ask(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", hello, "INFO-PERIOD", look]);
    }
}

#[track_caller]
fn user_at(servers: &[Redis], name: &str, rights: &[&str]) {
    for server in servers.iter().filter(|server| server.is_running()) {
        server.user(name, rights);
    }
}

fn names(count: usize, name: fn(usize) -> String) -> Vec<String> {
    (0..count).map(name).collect()
}

fn server_name(number: usize) -> String {
    format!("redis-{number}")
}

fn sentinel_name(number: usize) -> String {
    format!("sentinel-{number}")
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

const AGREEMENT: Duration = Duration::from_secs(60);
const FAILOVER: Duration = Duration::from_secs(30);
/// The pause between two checks of the Sentinels.
const PAUSE: Duration = Duration::from_millis(20);
