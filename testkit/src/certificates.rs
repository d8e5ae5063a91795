//! Certificates for servers with TLS: new ones for each server, or for several servers that trust
//! each other.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, fs};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The certificate of an authority, and a certificate and key for servers and for one client. Each
/// file has a name and a content.
#[derive(Clone)]
pub(crate) struct Certificates(Vec<(&'static str, String)>);

/// Debug texts omit the certificates, which fill pages.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let ca = authority();
        let mut files = vec![(CA_CERT, ca.pem()), (TRUSTED, ca.pem())];
        for (subject, usage, cert_file, key_file) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth, SERVER_CERT, SERVER_KEY),
            ("client", ExtendedKeyUsagePurpose::ClientAuth, CLIENT_CERT, CLIENT_KEY),
        ] {
            let key = new_key();
            let cert = leaf(subject, usage).signed_by(&key, &ca).expect("the CA can sign");
            files.extend([(cert_file, cert.pem()), (key_file, key.serialize_pem())]);
        }
        Self(files)
    }

    /// New certificates. Servers use the certificate of the authority itself.
    pub(crate) fn self_signed() -> Self {
        let (ca, mut all) = (authority(), Self::new());
        for (name, pem) in &mut all.0 {
            match *name {
                CA_CERT | TRUSTED | SERVER_CERT => *pem = ca.pem(),
                SERVER_KEY => *pem = ca.key().serialize_pem(),
                _ => {}
            }
        }
        all
    }

    /// Adds the authority of `others` to the authorities that servers trust.
    pub(crate) fn trusting(mut self, others: &Self) -> Self {
        let ca = others.0.iter().find(|(name, _)| *name == CA_CERT);
        let (_, ca) = ca.expect("the files contain the CA certificate");
        let trusted = self.0.iter_mut().find(|(name, _)| *name == TRUSTED);
        *trusted.map(|(_, pem)| pem).expect("the files contain the trusted authorities") += ca;
        self
    }

    pub(crate) fn write_to(&self, dir: &Path) {
        for (name, pem) in &self.0 {
            fs::write(dir.join(name), pem).expect("the server's directory is writable");
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // If two authorities had the same name, clients would confuse them and report a bad signature.
    let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("testkit CA {} of {}", number, std::process::id());
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, new_key()).expect("a CA can sign itself")
}

fn leaf(subject: &str, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("these names are valid");
    params.distinguished_name.push(DnType::CommonName, subject);
    params.extended_key_usages = vec![usage];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has random bytes for a key")
}

static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

pub(crate) const CA_CERT: &str = "ca.pem";
/// The file with the authorities that a server trusts.
pub(crate) const TRUSTED: &str = "trusted.pem";
pub(crate) const CLIENT_CERT: &str = "client.pem";
pub(crate) const CLIENT_KEY: &str = "client.key";
pub(crate) const SERVER_CERT: &str = "server.pem";
pub(crate) const SERVER_KEY: &str = "server.key";
