//! TLS over a connection, by rustls.

use std::{io, sync::Arc};

use rustls_native_certs::load_native_certs;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, CertificateError, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::{address::settings::TlsSettings, connect_failure::ConnectFailure, shown::shown};

/// Makes TLS streams.
pub(super) struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Reads the certificates and the key in `settings`.
    ///
    /// # Errors
    ///
    /// If a certificate or a key is unusable. The error names the unusable part.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(settings)?);
        let config = match &settings.client {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("the client certificate", certificate)?;
                let key = PrivateKeyDer::from_pem_slice(key.bytes());
                let key =
                    key.map_err(|error| format!("the key of the client certificate: {error}"))?;
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("client certificate and key: {error}"))?
            }
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Returns the name that the certificate of the server at `host` must have.
    pub(crate) fn called(host: &str) -> Result<ServerName<'static>, String> {
        let called = ServerName::try_from(host.to_owned());
        called.map_err(|_| format!("`{}` cannot be a name in a certificate", shown(host)))
    }

    pub(crate) async fn over(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, ConnectFailure> {
        let called = Self::called(host).map_err(ConnectFailure::lasting)?;
        let secured = self.connector.connect(called, stream).await;
        secured.map_err(|error| {
            let words = format!("TLS: {}", words_of(&error));
            if is_lasting(&error) {
                ConnectFailure::lasting(words)
            } else {
                ConnectFailure::passing(words)
            }
        })
    }
}

/// Returns whether `error` lasts until a person changes a certificate, a setting or the port. A
/// failure of the network is not an error of rustls, and counts as temporary.
fn is_lasting(error: &io::Error) -> bool {
    matches!(
        error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()),
        Some(
            rustls::Error::InvalidMessage(_)
                | rustls::Error::InvalidCertificate(_)
                | rustls::Error::AlertReceived(_)
                | rustls::Error::PeerIncompatible(_)
        )
    )
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Returns why the TLS handshake failed. If the text of rustls is unclear, a clearer text replaces
/// it.
fn words_of(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => "the server does not use TLS on this port".into(),
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{error}; set ca_certificates to the authority of the server")
        }
        _ if error.to_string().contains("CaUsedAsEndEntity") => format!(
            "{error}: the server uses the certificate of an authority; create a server \
             certificate that the authority signs"
        ),
        _ if error.to_string().contains("CertificateRequired") => {
            format!("{error}; set client_certificate")
        }
        _ if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake".into()
        }
        _ => error.to_string(),
    }
}

/// Returns the authorities in `settings`, or else those of the system.
fn roots(settings: &TlsSettings) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match &settings.authorities {
        Some(pem) => {
            for certificate in certificates("the CA certificates", pem)? {
                roots.add(certificate).map_err(|error| format!("the CA certificates: {error}"))?;
            }
        }
        None => {
            let (added, _) = roots.add_parsable_certificates(load_native_certs().certs);
            if added == 0 {
                return Err("this system has no trusted authorities; set ca_certificates".into());
            }
        }
    }
    Ok(roots)
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(found) if found.is_empty() => {
            Err(format!("{what}: the PEM text contains no certificate"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{what}: {error}")),
    }
}
