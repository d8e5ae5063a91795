//! Makes one connection, ready for commands, and says what was in the way.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use redis::{Cmd, Value};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{
    ending::Ending,
    login::{Login, Preload},
    obstacle::Obstacle,
    settings::Settings,
    stream::Stream,
    target::{Address, Target},
    wire::{OnPush, Wire},
};
use crate::{domain::About, error::Error};

/// A connection, what carries its bytes as long as it is polled, and whom it leads to.
pub(super) struct Dialled {
    pub(super) wire: Arc<Wire>,
    pub(super) driver: Driver,
    pub(super) about: About,
}

/// Carries the bytes of a connection, and says why that is over.
pub(super) type Driver = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// Knows how to reach one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    target: Target,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    client_name: String,
    preloads: Vec<Preload>,
    limit: Duration,
}

impl Dialer {
    /// A dialer for `target`, whose connections are called `client_name` and know
    /// the scripts in `preloads`.
    pub(crate) fn new(
        target: Target,
        settings: &Settings,
        client_name: String,
        preloads: Vec<Preload>,
    ) -> Result<Self, Error> {
        #[cfg(feature = "tls")]
        let tls = match &target.address {
            Address::Tcp { host, tls: true, .. } => {
                let tls = Tls::new(host, &settings.tls);
                Some(tls.map_err(|why| Obstacle::lasting(why).before(target.address.to_string()))?)
            }
            _ => None,
        };
        Ok(Self {
            target,
            #[cfg(feature = "tls")]
            tls,
            client_name,
            preloads,
            limit: settings.connect_timeout,
        })
    }

    /// Where the server listens.
    pub(crate) fn server(&self) -> String {
        self.target.address.to_string()
    }

    /// Connects, logs in and loads the scripts, within the connect timeout.
    pub(super) async fn dial(&self, on_push: Option<OnPush>) -> Result<Dialled, Error> {
        let dialled = timeout(self.limit, self.connect(on_push)).await;
        let late = |_| self.silence();
        let dialled = dialled.map_err(late).and_then(|dialled| dialled);
        dialled.map_err(|obstacle| obstacle.before(self.server()))
    }

    /// Connects, asks `commands` and hangs up, within the connect timeout.
    pub(crate) async fn ask_once(&self, commands: &[Cmd]) -> Result<Vec<Value>, Error> {
        let Dialled { wire, mut driver, .. } = self.dial(None).await?;
        let asked = async {
            tokio::select! {
                biased;
                Ok(replies) = wire.call_all(commands) => Ok(replies),
                ending = &mut driver => Err(Obstacle::from(ending)),
            }
        };
        let asked = timeout(self.limit, asked).await.unwrap_or_else(|_| Err(self.silence()));
        asked.map_err(|obstacle| obstacle.before(self.server()))
    }

    fn silence(&self) -> Obstacle {
        let hint = match &self.target.address {
            Address::Tcp { tls: true, .. } => ": does this port speak TLS?",
            _ => "",
        };
        Obstacle::passing(format!("no answer within {:?}{hint}", self.limit))
    }

    async fn connect(&self, on_push: Option<OnPush>) -> Result<Dialled, Obstacle> {
        let stream = self.stream().await?;
        let wire = Arc::<Wire>::default();
        let mut driver: Driver = Box::pin(Arc::clone(&wire).carry(stream, on_push));
        let Self { target, client_name, preloads, .. } = self;
        let login = Login { target, client_name, preloads };
        tokio::select! {
            biased;
            Some(met) = login.on(&wire) => met.map(|about| Dialled { wire, driver, about }),
            ending = &mut driver => Err(ending.into()),
        }
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Obstacle> {
        match &self.target.address {
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                watch_over(&stream)?;
                self.secured(stream).await
            }
            #[cfg(test)]
            Address::Made(connector) => Ok(connector.connect().await?),
        }
    }

    #[cfg(feature = "tls")]
    async fn secured(&self, stream: TcpStream) -> Result<Box<dyn Stream>, Obstacle> {
        match &self.tls {
            Some(tls) => Ok(Box::new(tls.over(stream).await.map_err(Obstacle::passing)?)),
            None => Ok(Box::new(stream)),
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn secured(&self, stream: TcpStream) -> Result<Box<dyn Stream>, Obstacle> {
        Ok(Box::new(stream))
    }
}

/// Lets the kernel find out that the other side is gone.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(1));
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_retries(3);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(3)))?;
    Ok(())
}
