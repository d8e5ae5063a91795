//! A client on the simulated server, with its process and its connections.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use leasehold_twin::Cut;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    task::AbortHandle,
    time::{Instant, Sleep, sleep_until},
};

use super::{permissions::Permissions, process::Process, scenario::TIMEOUT, site::Site};
use crate::{
    domain::Identity,
    engine::{Engine, simulation::gate::Gate},
    store::redis::{Connector, RedisStore, Settings},
};

pub(super) struct Peer {
    pub(super) id: String,
    pub(super) engine: Arc<Engine>,
    pub(super) gate: Gate,
    pub(super) permissions: Mutex<Permissions>,
    pub(super) process: Process,
    site: Site,
    is_dead: Arc<AtomicBool>,
    /// The tasks of the client, except those of its engine.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Peer {
    /// Connects the client with this `number`.
    pub(super) async fn connect(number: u32, site: &Site, permissions: Permissions) -> Self {
        let (id, gate) = (format!("client-{number}"), Gate::open());
        site.user(&id, &permissions.rules());
        let is_dead = Arc::<AtomicBool>::default();
        let settings = Settings {
            connect_timeout: TIMEOUT,
            command_timeout: TIMEOUT,
            user: Some(id.clone()),
            ..Settings::default()
        };
        let settings =
            Settings { connector: Some(connector(&id, site, &gate, &is_dead)), ..settings };
        let store = RedisStore::connect(&site.url(), &settings, &id).await.unwrap();
        let process = Process::default();
        let spawner = gate.spawner(&process.engine);
        let clock = process.clock(number);
        let engine = Engine::new(Identity::of(&*id), Arc::new(store), clock, spawner);
        let (permissions, tasks, site) = (Mutex::new(permissions), Mutex::default(), site.clone());
        Self { id, engine, gate, permissions, process, site, is_dead, tasks }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Aborts `task` when the process of this client dies.
    pub(super) fn owns(&self, task: AbortHandle) {
        self.tasks.lock().unwrap().push(task);
    }

    /// Kills the process of the client. Requests that it has sent still arrive.
    pub(super) fn dies(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.gate.close();
        self.cut(Cut::Replies);
        self.ends_its_tasks();
    }

    pub(super) fn ends_its_tasks(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }

    pub(super) fn cut(&self, cut: Cut) {
        for server in self.site.all() {
            server.cut(cut, |it| [&it.user, &it.host].contains(&&self.id));
        }
    }

    pub(super) fn is_given(&self, permissions: Permissions) {
        *self.permissions.lock().unwrap() = permissions;
        self.site.user(&self.id, &permissions.rules());
    }

    /// Returns the channels to which the client is subscribed.
    pub(super) fn channels(&self) -> Vec<String> {
        let servers = self.site.all().into_iter();
        let connections = servers.flat_map(|server| server.connections());
        let own = connections.filter(|connection| connection.user == self.id);
        own.flat_map(|connection| connection.channels).collect()
    }
}

/// Returns a connector that connects the client called `id` to the servers of the site.
fn connector(id: &str, site: &Site, gate: &Gate, is_dead: &Arc<AtomicBool>) -> Connector {
    let (id, site, gate) = (id.to_owned(), site.clone(), gate.clone());
    let is_dead = Arc::clone(is_dead);
    Connector::by_address(move |address| {
        let (id, site, gate) = (id.clone(), site.clone(), gate.clone());
        let is_dead = Arc::clone(&is_dead);
        async move {
            let stream = gate.pass(site.dial(&id, &address)).await?;
            match is_dead.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::NotConnected.into()),
                false => Ok(Behind { gate, stream, opens: None }),
            }
        }
    })
}

/// A stream from which a paused client reads nothing.
struct Behind {
    gate: Gate,
    stream: DuplexStream,
    opens: Option<Pin<Box<Sleep>>>,
}

impl Behind {
    fn passes(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.gate.opens() > Instant::now() {
            let opens = self.opens.insert(Box::pin(sleep_until(self.gate.opens())));
            ready!(opens.as_mut().poll(cx));
        }
        self.opens = None;
        Poll::Ready(())
    }
}

impl AsyncRead for Behind {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.passes(cx));
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Behind {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
