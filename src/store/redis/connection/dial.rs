//! Makes one connection, ready for commands, and says what was in the way.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError, Value,
    aio::MultiplexedConnection, cmd,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{
    loan::Loan,
    settings::Settings,
    target::{Address, Target},
    wire::{OnPush, Wire},
};
use crate::error::Error;

/// A connection, and what carries its bytes as long as it is polled.
pub(super) type Dialled = (Arc<Wire>, Pin<Box<dyn Future<Output = ()> + Send>>);

/// Bytes both ways.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A script that the server is told when a connection is made.
#[derive(Clone, Debug)]
pub(crate) struct Preload {
    pub(crate) text: &'static str,
}

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
                Some(tls.map_err(|reason| connect_error(&target.address, reason))?)
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
    pub(super) fn server(&self) -> String {
        self.target.address.to_string()
    }

    /// Connects, logs in and loads the scripts, within the connect timeout.
    pub(super) async fn dial(&self, on_push: Option<OnPush>) -> Result<Dialled, Error> {
        let dialled = timeout(self.limit, self.connect(on_push)).await;
        let late = |_| self.silence();
        let dialled = dialled.map_err(late).and_then(|dialled| dialled);
        dialled.map_err(|Obstacle(reason)| connect_error(&self.target.address, reason))
    }

    fn silence(&self) -> Obstacle {
        let hint = match &self.target.address {
            Address::Tcp { tls: true, .. } => ": does this port speak TLS?",
            _ => "",
        };
        Obstacle(format!("no answer within {:?}{hint}", self.limit))
    }

    async fn connect(&self, on_push: Option<OnPush>) -> Result<Dialled, Obstacle> {
        let stream = self.logged_in(self.stream().await?).await?;
        let wire = Arc::<Wire>::default();
        let mut driver: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(Arc::clone(&wire).carry(stream, on_push));
        tokio::select! {
            biased;
            greeted = self.greet(&wire) => greeted.map(|()| (wire, driver)),
            () = &mut driver => Err(hung_up()),
        }
    }

    /// Says who we are by the client crate's own means, which know every way in.
    async fn logged_in(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Obstacle> {
        let (loan, lent) = Loan::of(stream);
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connected = MultiplexedConnection::new_with_config(&self.login(), lent, config).await;
        drop(connected.map_err(|error| self.refusal(&error))?);
        loan.back().ok_or_else(hung_up)
    }

    /// Why the server did not let us in.
    fn refusal(&self, error: &RedisError) -> Obstacle {
        let words = error.to_string();
        match error.kind() {
            ErrorKind::Parse => Obstacle(format!("this is not Redis: {error}")),
            ErrorKind::RESP3NotSupported => Obstacle("the server is older than Redis 6".into()),
            ErrorKind::AuthenticationFailed => Obstacle("user or password is wrong".into()),
            // rustls puts the words of the other side's alert here.
            ErrorKind::Io if words.contains("alert") => Obstacle(format!("TLS: {words}")),
            ErrorKind::Io => hung_up(),
            _ if words.contains("database") || words.contains("DB index") => {
                let detail = error.detail().unwrap_or(&words);
                Obstacle(format!("database {}: {detail}", self.target.database))
            }
            _ => refused(error),
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
        }
    }

    #[cfg(feature = "tls")]
    async fn secured(&self, stream: TcpStream) -> Result<Box<dyn Stream>, Obstacle> {
        match &self.tls {
            Some(tls) => Ok(Box::new(tls.over(stream).await.map_err(Obstacle)?)),
            None => Ok(Box::new(stream)),
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn secured(&self, stream: TcpStream) -> Result<Box<dyn Stream>, Obstacle> {
        Ok(Box::new(stream))
    }

    fn login(&self) -> RedisConnectionInfo {
        let mut login = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("leasehold", env!("CARGO_PKG_VERSION"))
            .set_db(self.target.database.into());
        if let Some(user) = &self.target.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.target.password {
            login = login.set_password(password.text());
        }
        login
    }

    /// Says who we are, and hands over the scripts. Both are courtesies: a user
    /// without the permission can do without.
    async fn greet(&self, wire: &Wire) -> Result<(), Obstacle> {
        let scripts = self.preloads.iter().map(load);
        let commands: Vec<Cmd> = [named(&self.client_name)].into_iter().chain(scripts).collect();
        // The first command also shows whether we were let in at all.
        match wire.call_all(&commands).await.map_err(|_| hung_up())?.into_iter().next() {
            Some(Value::ServerError(error)) if error.code() == "NOAUTH" => {
                Err(self.refusal(&error.into()))
            }
            _ => Ok(()),
        }
    }
}

fn load(script: &Preload) -> Cmd {
    let mut command = cmd("SCRIPT");
    command.arg("LOAD").arg(script.text);
    command
}

fn named(client_name: &str) -> Cmd {
    let mut command = cmd("CLIENT");
    command.arg("SETNAME").arg(client_name);
    command
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

fn connect_error(address: &Address, reason: String) -> Error {
    Error::Connect { server: address.to_string(), reason }
}

/// Why there is no connection, in words for a person.
struct Obstacle(String);

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

fn hung_up() -> Obstacle {
    let words = "the server closed the connection at once: it may have too many clients, \
                 or speak TLS on this port";
    Obstacle(words.into())
}

fn refused(error: &RedisError) -> Obstacle {
    let words = error.detail().unwrap_or_default();
    Obstacle(match error.code() {
        Some("WRONGPASS") => format!("user or password is wrong: WRONGPASS {words}"),
        Some("NOAUTH") => format!("a password is needed: NOAUTH {words}"),
        Some(code) => format!("{code} {words}"),
        None => error.to_string(),
    })
}

impl fmt::Debug for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
