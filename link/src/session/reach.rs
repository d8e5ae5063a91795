//! Opens a stream to an address by TCP, TLS or a unix socket, and makes a wire of the stream.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};

use crate::pipe::connector::Connector;
#[cfg(feature = "tls")]
use crate::session::tls::Tls;
use crate::{
    address::{
        resolver::Resolver,
        settings::Settings,
        target::{Address, Place},
    },
    connect_failure::ConnectFailure,
    error::Error,
    pipe::{
        ending::Ending,
        stream::Stream,
        wire::{OnPush, Wire},
    },
};

/// Carries the bytes of a connection, and returns why the connection ended.
pub(crate) type Driver = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// Opens streams to servers.
#[derive(Debug)]
pub(crate) struct Reach {
    resolver: Resolver,
    /// Opens streams to simulated servers. If unset, the network is used.
    connector: Option<Connector>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl Reach {
    /// Returns a `Reach` for `place`, and for the servers that its sentinels or nodes announce.
    ///
    /// # Errors
    ///
    /// If the certificates are invalid, or if certificates are set without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn to(place: &Place, settings: &Settings) -> Result<Arc<Self>, Error> {
        let somebody_speaks = place.addresses().iter().any(Address::speaks_tls);
        let speak_tls = match place {
            Place::Sentinels(watched) => watched.tls,
            Place::At(_) | Place::Among(_) => somebody_speaks,
        };
        if !speak_tls && !somebody_speaks && settings.tls.is_given() {
            return Err(ConnectFailure::lasting(NO_TLS_URL).before(place.to_string()));
        }
        let tls = speak_tls.then(|| Tls::new(&settings.tls)).transpose();
        let tls = tls.map_err(|why| ConnectFailure::lasting(why).before(place.to_string()))?;
        Ok(Arc::new(Self {
            resolver: settings.resolver.clone(),
            connector: settings.connector.clone(),
            tls,
        }))
    }

    /// Returns a `Reach` that opens streams to a simulated server.
    pub(crate) fn simulated(connector: Connector) -> Arc<Self> {
        Arc::new(Self {
            resolver: Resolver::default(),
            connector: Some(connector),
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Returns a `Reach` that opens streams to the sentinels in `place`. Sentinels without TLS
    /// settings of their own use the settings of the servers.
    ///
    /// # Errors
    ///
    /// If the certificates are invalid, or certificates are set without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn to_sentinels(
        self: &Arc<Self>,
        place: &Place,
        settings: &Settings,
    ) -> Result<Arc<Self>, Error> {
        let (own, lasts) =
            (&settings.sentinel_tls, |why| ConnectFailure::lasting(why).before(place.to_string()));
        let tls = match place.addresses().iter().any(Address::speaks_tls) {
            false if own.is_given() => return Err(lasts(NOT_SPOKEN.into())),
            false => return Ok(Arc::clone(self)),
            true if self.tls.is_some() && !own.is_given() => return Ok(Arc::clone(self)),
            true => Tls::new(&own.or(&settings.tls)),
        };
        let tls = tls.map_err(|why| lasts(format!("settings of the sentinels: {why}")))?;
        Ok(Arc::new(Self {
            resolver: self.resolver.clone(),
            connector: settings.connector.clone(),
            tls: Some(tls),
        }))
    }

    /// Returns this `Reach`, because without TLS, sentinels use the same kind of streams as
    /// servers.
    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unnecessary_wraps, reason = "with TLS it looks")]
    pub(crate) fn to_sentinels(
        self: &Arc<Self>,
        _place: &Place,
        _settings: &Settings,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::clone(self))
    }

    /// Returns a `Reach` for `place`, and for the servers that its sentinels or nodes announce.
    #[cfg(not(feature = "tls"))]
    pub(crate) fn to(_place: &Place, settings: &Settings) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            resolver: settings.resolver.clone(),
            connector: settings.connector.clone(),
        }))
    }

    /// Fails if `place` has a host with TLS whose name no certificate can contain.
    #[cfg(feature = "tls")]
    pub(crate) fn can_reach(&self, place: &Place) -> Result<(), Error> {
        let is_named = |address: &Address| match address {
            Address::Tcp { host, tls: true, .. } => Tls::called(host).map(drop),
            _ => Ok(()),
        };
        let all = place.addresses().iter().try_for_each(is_named);
        all.map_err(|why| ConnectFailure::lasting(why).before(place.to_string()))
    }

    /// Never fails, because without TLS no place needs a certificate.
    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "with TLS it looks")]
    pub(crate) fn can_reach(&self, _place: &Place) -> Result<(), Error> {
        Ok(())
    }

    /// Opens a wire to `address`. Bytes move only while the driver is polled.
    pub(crate) async fn open(
        &self,
        address: &Address,
        on_push: Option<OnPush>,
    ) -> Result<(Arc<Wire>, Driver), ConnectFailure> {
        let stream = self.stream(address).await?;
        let wire = Arc::<Wire>::default();
        let driver: Driver = Box::pin(Arc::clone(&wire).drive(stream, on_push));
        Ok((wire, driver))
    }

    async fn stream(&self, address: &Address) -> Result<Stream, ConnectFailure> {
        if let Some(connector) = &self.connector {
            return Ok(connector.connect(address.to_string()).await?);
        }
        match address {
            Address::Unix(path) => Ok(UnixStream::connect(path).await?.into()),
            Address::Tcp { host, port, tls } => {
                let stream = self.resolver.connect(host, *port).await?;
                watch_over(&stream)?;
                match tls {
                    true => self.secured(stream, host).await,
                    false => Ok(stream.into()),
                }
            }
        }
    }

    #[cfg(feature = "tls")]
    async fn secured(&self, stream: TcpStream, host: &str) -> Result<Stream, ConnectFailure> {
        let tls = self.tls.as_ref().ok_or_else(no_tls)?;
        Ok(Stream::of(tls.over(stream, host).await?))
    }

    #[cfg(not(feature = "tls"))]
    async fn secured(&self, _stream: TcpStream, _host: &str) -> Result<Stream, ConnectFailure> {
        Err(no_tls())
    }
}

#[cfg(feature = "tls")]
const NO_TLS_URL: &str = "ca_certificates or client_certificate is set, but the URL has no TLS; \
                          write rediss://, rediss-cluster:// or rediss-sentinel://";

#[cfg(feature = "tls")]
const NOT_SPOKEN: &str = "sentinel_ca_certificates or sentinel_client_certificate is set, but the \
                          sentinels use no TLS; write rediss-sentinel://, or set sentinel_tls";

/// Returns the failure for an announced address with TLS, if this client uses no TLS. The client
/// never sends unencrypted data instead.
fn no_tls() -> ConnectFailure {
    ConnectFailure::lasting("the server announced an address with TLS, but this client uses no TLS")
}

/// Returns the failure of a server at `address` that has not replied within `limit`.
pub(crate) fn silence(limit: Duration, address: &Address) -> ConnectFailure {
    let hint = match address {
        Address::Tcp { tls: true, .. } => "; does this port use TLS?",
        _ => "",
    };
    ConnectFailure::passing(format!("no reply within {limit:?}{hint}"))
}

/// Sets `TCP_NODELAY`. Also sets the keepalive and the timeout by which the kernel detects a dead
/// peer.
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
