//! The part of HTTP/1 that `ui` and `elect` need. The parser is strict, and each connection has one
//! request.

use std::{
    collections::VecDeque, convert::Infallible, future::Future, net::SocketAddr, sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, spawn},
    time::{sleep, timeout},
};

use crate::exit::Exit;

/// The highest number of connections at the same time, and the longest time of one connection.
const CONNECTIONS: usize = 64;
const LONGEST: Duration = Duration::from_secs(10);

/// The pause after a failed `accept`, for example because no file descriptor was left.
const PAUSE: Duration = Duration::from_millis(100);

/// The highest number of bytes in the head of a request, and in its body.
const HEAD: usize = 8 * 1024;
const BODY: usize = 64 * 1024;

pub(crate) trait Site: Send + Sync + 'static {
    fn respond(&self, request: &Request, peer: SocketAddr)
    -> impl Future<Output = Response> + Send;
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Exit> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Exit::os("listen on", &address.to_string(), &error))
}

pub(crate) async fn serve(listener: TcpListener, site: impl Site) -> Infallible {
    let (mut open, site) = (VecDeque::<JoinHandle<()>>::new(), Arc::new(site));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        open.retain(|it| !it.is_finished());
        // Clients that send no request must not block other clients, so the oldest connection is
        // closed.
        if open.len() == CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let site = Arc::clone(&site);
        open.push_back(spawn(async move {
            // If the request takes longer than `LONGEST`, the connection is closed.
            drop(timeout(LONGEST, talk(stream, peer, &*site)).await);
        }));
    }
}

async fn talk(mut stream: TcpStream, peer: SocketAddr, site: &impl Site) {
    let response = match Request::read(&mut stream).await {
        Ok(request) => site.respond(&request, peer).await,
        Err(response) => response,
    };
    response.write(&mut stream).await;
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Returns the value of a header, by its name in lower case, or `None` if the header is missing
    /// or repeated.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(it, _)| it == name);
        let (_, value) = all.next()?;
        all.next().is_none().then_some(value)
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(it, _)| it == name)
    }

    /// Reads a request. If the request is invalid, returns the response to send, as an error.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, Response> {
        let mut bytes = vec![];
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
                break at;
            }
            if bytes.len() >= HEAD {
                return Err(Response::error("431 Request Header Fields Too Large"));
            }
            more(stream, &mut bytes).await?;
        };
        let mut request = Self::head(&bytes[..end]).ok_or_else(Response::bad)?;
        let length = request.length()?;
        request.body = bytes.split_off(end + 4);
        while request.body.len() < length {
            more(stream, &mut request.body).await?;
        }
        // Bytes after the body are ignored, even if they are a second request.
        request.body.truncate(length);
        Ok(request)
    }

    fn head(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let [method, path, version] = [words.next()?, words.next()?, words.next()?];
        if words.next().is_some()
            || !["HTTP/1.0", "HTTP/1.1"].contains(&version)
            || !path.starts_with('/')
        {
            return None;
        }
        let headers: Option<_> = lines.map(header).collect();
        let (method, path) = (method.to_owned(), path.to_owned());
        Some(Self { method, path, headers: headers?, body: vec![] })
    }

    fn length(&self) -> Result<usize, Response> {
        if self.has("transfer-encoding") {
            return Err(Response::error("501 Not Implemented"));
        }
        if !self.has("content-length") {
            return Ok(0);
        }
        let text = self.header("content-length").ok_or_else(Response::bad)?;
        if text.is_empty() || !text.bytes().all(|it| it.is_ascii_digit()) {
            return Err(Response::bad());
        }
        match text.parse() {
            Ok(length) if length <= BODY => Ok(length),
            _ => Err(Response::error("413 Content Too Large")),
        }
    }
}

async fn more(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Result<(), Response> {
    let mut chunk = [0; 4096];
    match stream.read(&mut chunk).await {
        Ok(0) | Err(_) => Err(Response::bad()),
        Ok(count) => {
            bytes.extend_from_slice(&chunk[..count]);
            Ok(())
        }
    }
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
    let is_valid = !name.is_empty()
        && name.bytes().all(is_letter)
        && !value.bytes().any(|it| it.is_ascii_control() && it != b'\t');
    is_valid.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: &'static str,
    kind: &'static str,
    /// The nonce of the scripts and styles that the page may use.
    nonce: Option<String>,
    /// The methods that the path allows, if the request has another method.
    allow: Option<&'static str>,
    body: String,
    /// Whether the body is sent. The length of the body is always in the head.
    has_body: bool,
}

impl Response {
    pub(crate) fn page(body: String, nonce: String) -> Self {
        Self {
            status: "200 OK",
            kind: "text/html",
            nonce: Some(nonce),
            allow: None,
            has_body: true,
            body,
        }
    }

    pub(crate) fn json(status: &'static str, body: &serde_json::Value) -> Self {
        Self {
            status,
            kind: "application/json",
            nonce: None,
            allow: None,
            has_body: true,
            body: body.to_string(),
        }
    }

    pub(crate) fn error(status: &'static str) -> Self {
        Self {
            status,
            kind: "text/plain",
            nonce: None,
            allow: None,
            has_body: true,
            body: format!("{status}\n"),
        }
    }

    /// Returns the response to a HEAD request.
    pub(crate) fn without_body(self) -> Self {
        Self { has_body: false, ..self }
    }

    /// Rejects a method other than `allowed`.
    pub(crate) fn not_allowed(allowed: &'static str) -> Self {
        Self { allow: Some(allowed), ..Self::error("405 Method Not Allowed") }
    }

    fn bad() -> Self {
        Self::error("400 Bad Request")
    }

    /// Writes the response. A failure is ignored, because the client may have disconnected.
    pub(crate) async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) {
        let allowed = match &self.nonce {
            Some(nonce) => format!(
                "script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
                 connect-src 'self'; "
            ),
            None => String::new(),
        };
        let allow = self.allow.map(|methods| format!("Allow: {methods}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{allow}\
             Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\n\
             Content-Security-Policy: default-src 'none'; {allowed}base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
        );
        let body = if self.has_body { self.body.as_bytes() } else { b"" };
        let written = stream.write_all(&[head.as_bytes(), body].concat()).await;
        drop(written);
        drop(stream.shutdown().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(text: &str) -> &'static str {
        match Request::read(&mut text.as_bytes()).await {
            Ok(_) => "200 OK",
            Err(response) => response.status,
        }
    }

    #[tokio::test]
    async fn http_request_is_parsed_with_its_body() {
        let text = "POST /force HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{} GET / HTTP/1.1";
        let request = Request::read(&mut text.as_bytes()).await.unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/force"));
        assert_eq!((request.header("host"), request.body.as_slice()), (Some("a"), &b"{} "[..]));
        assert_eq!(request.header("origin"), None);
    }

    #[tokio::test]
    async fn malformed_http_request_is_refused() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.0\r\n\r\n", "200 OK"),
            ("GET / HTTP/2.0\r\n\r\n", "400 Bad Request"),
            ("GET  / HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1 x\r\nHost: a\r\n\r\n", "400 Bad Request"),
            ("GET http://a/ HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\n", "400 Bad Request"),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\na", "400 Bad Request"),
            ("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\na", "400 Bad Request"),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
                "400 Bad Request",
            ),
            ("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", "413 Content Too Large"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "501 Not Implemented"),
        ] {
            assert_eq!(status(text).await, expected, "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000));
        assert_eq!(status(&long).await, "431 Request Header Fields Too Large");
    }
}
