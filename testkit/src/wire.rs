//! A small Redis client that shares no code with Leasehold.
//!
//! A client must not be tested with itself. This client blocks, uses RESP2, and repeats no request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server on this machine.
///
/// After an error, the connection must not be used again, because the reply to an earlier request
/// may still arrive.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to `port` of 127.0.0.1. The timeout of the connection and of each reply is five
    /// seconds.
    ///
    /// # Panics
    ///
    /// If no server listens on the port; see [`try_open`](Self::try_open).
    #[track_caller]
    pub fn open(port: u16) -> Self {
        Self::try_open(port, PATIENCE)
            .unwrap_or_else(|error| panic!("cannot connect to port {port}: {error}"))
    }

    /// Connects to `port` of 127.0.0.1. The timeout of the connection and of each reply is
    /// `max_wait`.
    ///
    /// # Errors
    ///
    /// If no server listens on the port.
    pub fn try_open(port: u16, max_wait: Duration) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, max_wait)?;
        stream.set_read_timeout(Some(max_wait))?;
        stream.set_write_timeout(Some(max_wait))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and returns the reply, which may be an error.
    ///
    /// # Panics
    ///
    /// If the connection breaks or the reply does not come in time; see
    /// [`try_command`](Self::try_command).
    #[track_caller]
    pub fn command(&mut self, words: &[&str]) -> Reply {
        self.try_command(words).unwrap_or_else(|error| panic!("no reply to {words:?}: {error}"))
    }

    /// Sends a command and returns the reply, which may be an error.
    ///
    /// # Errors
    ///
    /// If the connection breaks or the reply does not come in time.
    pub fn try_command(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.send(words)?;
        self.next_reply()
    }

    /// Sends a command. [`next_reply`](Self::next_reply) returns the reply.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(request.as_bytes())
    }

    /// Waits for a reply, or for the next message of a subscription.
    ///
    /// # Errors
    ///
    /// If the connection breaks or no reply comes in time.
    pub fn next_reply(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }

    /// A second handle of the connection, with which another thread can close it.
    pub(crate) fn stream(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }
}

/// A reply of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A string that is not text.
    Bytes(Vec<u8>),
    /// An error. The first word is its code.
    Error(String),
    /// Several replies in one.
    List(Vec<Self>),
    /// Nil: a missing key, or an operation that did not happen.
    Nil,
    /// A number.
    Number(i64),
    /// A string, or a status such as `OK`.
    Text(String),
}

impl Reply {
    /// The text of this reply.
    ///
    /// # Panics
    ///
    /// If this reply is not a text.
    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("expected a text, got {other:?}"),
        }
    }

    /// The number in this reply.
    ///
    /// # Panics
    ///
    /// If this reply is not a number. A text of digits is not a number.
    #[track_caller]
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("expected a number, got {other:?}"),
        }
    }

    /// The replies in this list.
    ///
    /// # Panics
    ///
    /// If this reply is not a list.
    #[track_caller]
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            other => panic!("expected a list, got {other:?}"),
        }
    }

    /// The texts in this list.
    ///
    /// # Panics
    ///
    /// If this reply is not a list of texts.
    #[track_caller]
    pub fn texts(&self) -> Vec<&str> {
        self.list().iter().map(Self::text).collect()
    }

    /// The message of this error.
    ///
    /// # Panics
    ///
    /// If this reply is not an error.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(message) => message,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// Returns whether this reply is nil.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Returns whether this reply is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

fn read_reply(from: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(from)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| nonsense(&line))?;
    match kind {
        "+" => Ok(Reply::Text(rest.into())),
        "-" => Ok(Reply::Error(rest.into())),
        ":" => Ok(Reply::Number(rest.parse().map_err(|_| nonsense(&line))?)),
        "$" => read_string(from, read_length(rest)?),
        "*" => read_list(from, read_length(rest)?),
        _ => Err(nonsense(&line)),
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    // A line without an end means that the connection was closed.
    let line = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Reads a length, where -1 means nil.
fn read_length(text: &str) -> io::Result<Option<usize>> {
    match text {
        "-1" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| nonsense(text)),
    }
}

fn read_string(from: &mut impl Read, length: Option<usize>) -> io::Result<Reply> {
    let Some(length) = length else { return Ok(Reply::Nil) };
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8(bytes).map_or_else(|error| Reply::Bytes(error.into_bytes()), Reply::Text))
}

fn read_list(from: &mut impl BufRead, length: Option<usize>) -> io::Result<Reply> {
    let Some(length) = length else { return Ok(Reply::Nil) };
    (0..length).map(|_| read_reply(from)).collect::<io::Result<_>>().map(Reply::List)
}

fn nonsense(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {line:?}"))
}

/// The timeout of a reply if a test does not set one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_reply_is_read() {
        assert_eq!(read("+OK\r\n"), Reply::Text("OK".into()));
        assert_eq!(read("-ERR no\r\n"), Reply::Error("ERR no".into()));
        assert_eq!(read(":-7\r\n"), Reply::Number(-7));
        assert_eq!(read("$4\r\na\r\nb\r\n"), Reply::Text("a\r\nb".into()));
        assert_eq!(read("$-1\r\n"), Reply::Nil);
        assert_eq!(read("*-1\r\n"), Reply::Nil);
        let list = read("*2\r\n:1\r\n*1\r\n$1\r\nx\r\n");
        assert_eq!(list.list()[0].number(), 1);
        assert_eq!(list.list()[1].texts(), ["x"]);
    }

    #[test]
    fn string_with_invalid_utf8_is_kept_unchanged() {
        let mut raw: &[u8] = b"$2\r\n\xff\x00\r\n";
        assert_eq!(read_reply(&mut raw).unwrap(), Reply::Bytes(vec![0xff, 0]));
    }

    #[test]
    fn truncated_reply_is_an_error() {
        for part in ["", "+O", "$4\r\nab", "*2\r\n:1\r\n"] {
            let error = read_reply(&mut part.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{part:?}");
        }
    }

    #[test]
    #[should_panic(expected = "expected a number, got Text(\"7\")")]
    fn error_names_the_unexpected_kind_of_a_reply() {
        Reply::Text("7".into()).number();
    }

    fn read(raw: &str) -> Reply {
        read_reply(&mut raw.as_bytes()).unwrap()
    }
}
