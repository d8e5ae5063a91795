//! Finds replies in a stream of bytes. When more bytes come, the search continues where it stopped.
//! The parser of the `redis` crate clears some kilobytes of memory for each reply, so this file
//! parses the most common kinds of reply itself.
//!
//! The longest allowed reply limits the size of the buffer. A pushed message may be longer, because
//! its sender chooses the length. A message that is too long is skipped while its bytes arrive.

use redis::Value;

/// The longest allowed reply to a request, in bytes. Most replies have less than 100 bytes.
pub(crate) const LONGEST: usize = 256 * 1024;

/// The largest length that a part of a reply or a push may declare. Redis has the same limit.
const LONGEST_DECLARED: usize = 512 * 1024 * 1024;

/// A received reply or push.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Value(Value),
    /// A push that was too long for the buffer, with its length in bytes.
    PassedOver(usize),
}

/// The received bytes that are not parsed yet.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Where the first frame begins.
    begin: usize,
    scan: Scan,
}

impl Frames {
    /// Returns the buffer for the next bytes, with space for `more` bytes.
    pub(crate) fn space(&mut self, more: usize) -> &mut Vec<u8> {
        self.bytes.drain(..self.begin);
        self.begin = 0;
        self.bytes.shrink_to(LONGEST);
        self.bytes.reserve(more);
        &mut self.bytes
    }

    /// Removes and returns the first frame, or returns `None` if the frame is incomplete.
    pub(crate) fn take(&mut self) -> Result<Option<Frame>, String> {
        let bytes = &self.bytes[self.begin..];
        let end = self.scan.end(bytes)?;
        if self.scan.kept() > LONGEST || self.scan.thrown > 0 {
            return self.pass_over(end);
        }
        let Some(end) = end else { return Ok(None) };
        let value = read(&bytes[..end])?;
        self.begin += end;
        self.scan = Scan::default();
        Ok(Some(Frame::Value(value)))
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.bytes.len() - self.begin
    }

    /// Discards the received part of a push that is too long. Returns `PassedOver` when the whole
    /// push was discarded. Fails if the frame is a reply, or if one of its lines is too long.
    fn pass_over(&mut self, end: Option<usize>) -> Result<Option<Frame>, String> {
        let come = self.bytes.len() - self.begin;
        let is_push = self.scan.thrown > 0 || self.bytes.get(self.begin) == Some(&b'>');
        if !is_push || self.scan.looked > LONGEST {
            return Err(format!("a reply is longer than {LONGEST} bytes"));
        }
        let gone = end.unwrap_or_else(|| self.scan.at.min(come));
        self.begin += gone;
        self.scan.throw(gone);
        let passed_over = |_| Frame::PassedOver(std::mem::take(&mut self.scan).thrown);
        Ok(end.map(passed_over))
    }
}

/// How far the first frame has been parsed.
#[derive(Debug)]
struct Scan {
    /// Where the next line of the frame begins. This position may be after the received bytes.
    at: usize,
    /// How many bytes of the line at `at` were already searched for its end.
    looked: usize,
    /// How many parts of the frame are still to be parsed.
    missing: usize,
    /// How many bytes of the frame were discarded.
    thrown: usize,
}

impl Default for Scan {
    fn default() -> Self {
        Self { at: 0, looked: 0, missing: 1, thrown: 0 }
    }
}

impl Scan {
    /// Returns where the first frame of `bytes` ends, if the frame is complete.
    fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        while self.missing > 0 {
            let Some(line) = self.line(bytes)? else { return Ok(None) };
            self.at += line.len() + 2;
            self.looked = 0;
            self.missing -= 1;
            self.announce(line)?;
        }
        Ok((self.at <= bytes.len()).then_some(self.at))
    }

    /// Returns the next line without its line break, if the line is complete.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, String> {
        let Some(rest) = bytes.get(self.at..) else { return Ok(None) };
        match rest.first() {
            None => return Ok(None),
            Some(kind) if !KINDS.contains(kind) => return Err(foreign_kind(*kind)),
            Some(_) => {}
        }
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let Some(end) = rest[self.looked..].iter().position(is_end) else {
            self.looked = rest.len();
            return Ok(None);
        };
        let end = self.looked + end;
        self.looked = end;
        match &rest[end..] {
            [b'\r', b'\n', ..] => Ok(Some(&rest[..end])),
            [b'\r'] => Ok(None),
            _ => Err("a line of the reply does not end with CR LF".into()),
        }
    }

    /// Records the lengths that `line` declares.
    fn announce(&mut self, line: &[u8]) -> Result<(), String> {
        let Some((kind, length)) = line.split_first() else { return Ok(()) };
        match kind {
            b'$' | b'=' | b'!' => self.at += count(length)?.map_or(0, |bytes| bytes + 2),
            b'*' | b'~' | b'>' => self.missing += count(length)?.unwrap_or(0),
            b'%' => self.missing += 2 * count(length)?.unwrap_or(0),
            b'|' => self.missing += 2 * count(length)?.unwrap_or(0) + 1,
            _ => {}
        }
        Ok(())
    }

    /// Returns how many bytes of the frame must be in the buffer to continue.
    fn kept(&self) -> usize {
        self.at + self.looked
    }

    /// Records that `gone` bytes were removed from the beginning of the frame.
    fn throw(&mut self, gone: usize) {
        self.at -= gone;
        self.thrown += gone;
    }
}

const KINDS: &[u8] = b":+-_#,($=!*~>%|";

/// Explains which other kind of server may send a reply that begins with `byte`.
fn foreign_kind(byte: u8) -> String {
    match byte {
        // The first byte of a TLS alert, and of a TLS handshake.
        0x15 | 0x16 => "the port uses TLS".into(),
        b'H' | b'<' => "the port may belong to a web server".into(),
        byte => format!(
            "a reply begins with {:?}, which is not a type of the Redis protocol",
            char::from(byte)
        ),
    }
}

/// Parses a length, or returns `None` for nil.
fn count(digits: &[u8]) -> Result<Option<usize>, String> {
    match digits {
        b"-1" => return Ok(None),
        [b'0'..=b'9', ..] => {}
        _ => return Err("a length in a reply is not a number".into()),
    }
    let count = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    let count = count.filter(|count| *count <= LONGEST_DECLARED);
    count.map(Some).ok_or_else(|| "a length in a reply is not a number, or is too large".into())
}

fn read(frame: &[u8]) -> Result<Value, String> {
    match number(frame).or_else(|| bulk(frame)).or_else(|| list(frame)) {
        Some(value) => Ok(value),
        // The error text of the parser has several lines, so this short text replaces it.
        None => redis::parse_redis_value(frame).map_err(|_| "a reply is malformed".into()),
    }
}

/// Parses an integer, such as `:1`: the most common kind of reply.
fn number(frame: &[u8]) -> Option<Value> {
    let digits = frame.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    str::from_utf8(digits).ok()?.parse().ok().map(Value::Int)
}

/// Parses a bulk string, such as the reply to a granted lock. `frame` must end with the string.
/// Returns `None` for nil and for another kind of reply.
fn bulk(frame: &[u8]) -> Option<Value> {
    let rest = frame.strip_prefix(b"$")?.strip_suffix(b"\r\n")?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    Some(Value::BulkString(rest[length + 1..].to_vec()))
}

/// Parses a list of numbers and strings, such as the state of a held lock.
fn list(frame: &[u8]) -> Option<Value> {
    let (length, mut rest) = line(frame.strip_prefix(b"*")?)?;
    let length = count(length).ok()??;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (begin, behind) = line(rest)?;
        let text = match begin.split_first()? {
            (b'$', length) => count(length).ok()?? + 2,
            _ => 0,
        };
        let (part, next) = rest.split_at_checked(rest.len() - behind.len() + text)?;
        parts.push(number(part).or_else(|| bulk(part))?);
        rest = next;
    }
    (parts.len() == length).then_some(Value::Array(parts))
}

/// Splits `bytes` into the first line and the rest.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((bytes[..end].strip_suffix(b"\r")?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One reply of each kind, and nested replies.
    const REPLIES: [&str; 20] = [
        ":1\r\n",
        ":-2\r\n",
        "+OK\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "_\r\n",
        "#t\r\n",
        ",3.25\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "$5\r\nhe\r\no\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "=7\r\ntxt:abc\r\n",
        "!9\r\nERR wrong\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n:29999\r\n*2\r\n$4\r\n8c:1\r\n$1\r\n1\r\n",
        "%1\r\n+key\r\n*1\r\n:1\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n$9\r\nsubscribe\r\n$4\r\ndoor\r\n:1\r\n",
        "|1\r\n+ttl\r\n:3600\r\n:7\r\n",
    ];

    /// Returns the first frame of `bytes`, if all bytes arrive at once.
    fn first(bytes: &[u8]) -> Result<Option<Frame>, String> {
        let mut frames = Frames::default();
        frames.space(0).extend_from_slice(bytes);
        frames.take()
    }

    /// Feeds `bytes` in pieces of `size`. Returns all frames, and the highest number of buffered
    /// bytes.
    fn in_pieces(bytes: &[u8], size: usize) -> (Vec<Frame>, usize) {
        let (mut frames, mut taken, mut most) = (Frames::default(), vec![], 0);
        for piece in bytes.chunks(size) {
            frames.space(piece.len()).extend_from_slice(piece);
            while let Some(frame) = frames.take().unwrap() {
                taken.push(frame);
            }
            most = most.max(frames.kept());
        }
        (taken, most)
    }

    fn parsed(reply: &str) -> Frame {
        Frame::Value(redis::parse_redis_value(reply.as_bytes()).unwrap())
    }

    #[test]
    fn reply_reader_returns_the_same_values_as_the_redis_crate() {
        for reply in [
            ":1\r\n",
            ":-7\r\n",
            "$2\r\nab\r\n",
            "$2\r\n\r\n\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*3\r\n:29871\r\n$3\r\na:1\r\n:1\r\n",
            "*2\r\n$-1\r\n:1\r\n",
            "*2\r\n*1\r\n:1\r\n:1\r\n",
            "*1\r\n+OK\r\n",
            "*1\r\n$4\r\n\r\n:1\r\n",
            "_\r\n",
        ] {
            let parsed = redis::parse_redis_value(reply.as_bytes()).unwrap();
            assert_eq!(read(reply.as_bytes()).unwrap(), parsed, "{reply:?}");
        }
    }

    #[test]
    fn reply_of_each_kind_is_parsed_from_pieces_of_any_size() {
        let all: Vec<_> = REPLIES.iter().map(|reply| parsed(reply)).collect();
        for size in [1, 2, 3, 7, 1_000] {
            assert_eq!(in_pieces(REPLIES.concat().as_bytes(), size).0, all, "{size}");
        }
    }

    #[test]
    fn parser_waits_for_the_rest_of_an_incomplete_reply() {
        for reply in REPLIES {
            for length in 0..reply.len() {
                assert_eq!(first(&reply.as_bytes()[..length]), Ok(None), "{length} of {reply:?}");
            }
        }
    }

    #[test]
    fn invalid_reply_is_refused_at_once() {
        let odd = ["H", "\r", "\n", "+a\n", "+a\rb", "$x\r\n", "*+1\r\n", "$-2\r\n", ":one\r\n"];
        for bytes in odd.into_iter().chain(["$2\r\nabcd"]) {
            assert!(first(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        let endless = format!("${}\r\n", usize::MAX);
        assert!(first(endless.as_bytes()).is_err());
    }

    #[test]
    fn oversized_reply_is_refused_by_its_length() {
        assert!(first(format!("${LONGEST}\r\n").as_bytes()).is_err());
        assert!(first(format!("*2\r\n:1\r\n${LONGEST}\r\n").as_bytes()).is_err());
        assert!(first(&vec![b'+'; LONGEST + 1]).is_err());
        assert!(first(&[b">2\r\n+", &*vec![b'+'; LONGEST]].concat()).is_err());
        assert!(first("*1000000\r\n".repeat(LONGEST / 10 + 1).as_bytes()).is_err());
        let long = format!("${0}\r\n{1}\r\n", LONGEST - 20, "x".repeat(LONGEST - 20));
        assert!(matches!(first(long.as_bytes()), Ok(Some(Frame::Value(_)))));
    }

    #[test]
    fn oversized_push_is_skipped_and_not_buffered() {
        let body = "\r\n:7\r\n".repeat(LONGEST);
        let long = format!(">3\r\n+message\r\n+door\r\n${}\r\n{body}\r\n", body.len());
        let all = format!(":1\r\n{long}:2\r\n");
        for size in [1_000, 16 * 1_024, all.len()] {
            let (frames, most) = in_pieces(all.as_bytes(), size);
            assert_eq!(frames, [parsed(":1\r\n"), Frame::PassedOver(long.len()), parsed(":2\r\n")]);
            assert!(most <= LONGEST + size || size == all.len(), "{most}");
        }
    }

    #[test]
    fn parser_of_a_long_reply_does_not_restart_at_each_piece() {
        // If the parser began again at each piece, this test would take minutes.
        let reply = format!("*{}\r\n{}", LONGEST / 8, ":1\r\n".repeat(LONGEST / 8));
        assert_eq!(in_pieces(reply.as_bytes(), 1).0.len(), 1);
    }
}
