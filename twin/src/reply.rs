//! The replies of the server, and their bytes in either protocol.

use std::borrow::Cow;

use super::number;

/// A reply, before its protocol is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(Cow<'static, str>),
    /// An error, with its code as the first word.
    Error(Cow<'static, str>),
    Int(i64),
    Bulk(Vec<u8>),
    /// A text for a person.
    Verbatim(String),
    Double(f64),
    Nil,
    /// A missing list. RESP3 does not distinguish it from other missing values.
    NilList,
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    /// Members and scores: pairs in RESP3, alternating elements in RESP2.
    Scored(Vec<(Vec<u8>, f64)>),
    /// A push, which the server sends without a request. In RESP2 it is a list.
    Push(Vec<Self>),
    /// No further reply: the command has already sent its reply.
    Said,
}

/// The result of a command. An error is also a reply.
pub(super) type Answer = Result<Reply, Reply>;

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

impl Reply {
    pub(super) const OK: Self = Self::Status(Cow::Borrowed("OK"));

    pub(super) fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(text.into())
    }

    pub(super) fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn flag(flag: bool) -> Self {
        Self::Int(flag.into())
    }

    pub(super) fn bulks<B: AsRef<[u8]>>(bulks: impl IntoIterator<Item = B>) -> Self {
        Self::List(bulks.into_iter().map(Self::bulk).collect())
    }

    pub(super) fn or_nil(bytes: Option<impl AsRef<[u8]>>) -> Self {
        bytes.map_or(Self::Nil, Self::bulk)
    }

    /// Writes the reply in the form of `protocol`.
    pub(super) fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let new = protocol == Protocol::Resp3;
        match self {
            Self::Status(text) => line(out, b'+', text.as_bytes()),
            Self::Error(text) => line(out, b'-', one_line(text).as_bytes()),
            Self::Int(number) => head(out, b':', *number),
            Self::Bulk(bytes) => block(out, b'$', b"", bytes),
            Self::Verbatim(text) if new => block(out, b'=', b"txt:", text.as_bytes()),
            Self::Verbatim(text) => block(out, b'$', b"", text.as_bytes()),
            Self::Double(number) if new => line(out, b',', number::written(*number).as_bytes()),
            Self::Double(number) => block(out, b'$', b"", number::written(*number).as_bytes()),
            Self::Nil | Self::NilList if new => out.extend_from_slice(b"_\r\n"),
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::NilList => out.extend_from_slice(b"*-1\r\n"),
            Self::List(items) => list(out, b'*', items, protocol),
            Self::Push(items) => list(out, if new { b'>' } else { b'*' }, items, protocol),
            Self::Map(pairs) => map(out, pairs, protocol),
            Self::Scored(pairs) => scored(out, pairs, protocol),
            Self::Said => {}
        }
    }
}

fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\r', '\n']) {
        true => Cow::Owned(text.replace(['\r', '\n'], " ")),
        false => Cow::Borrowed(text),
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, kind: u8, number: i64) {
    line(out, kind, number.to_string().as_bytes());
}

fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    match u8::try_from(length) {
        Ok(digit) if digit < 10 => out.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
        _ => line(out, kind, length.to_string().as_bytes()),
    }
}

fn block(out: &mut Vec<u8>, kind: u8, prefix: &[u8], bytes: &[u8]) {
    length(out, kind, prefix.len() + bytes.len());
    out.extend_from_slice(prefix);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn list(out: &mut Vec<u8>, kind: u8, items: &[Reply], protocol: Protocol) {
    length(out, kind, items.len());
    items.iter().for_each(|item| item.write(protocol, out));
}

fn map(out: &mut Vec<u8>, pairs: &[(Reply, Reply)], protocol: Protocol) {
    match protocol {
        Protocol::Resp3 => length(out, b'%', pairs.len()),
        Protocol::Resp2 => length(out, b'*', pairs.len() * 2),
    }
    for (key, value) in pairs {
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

fn scored(out: &mut Vec<u8>, pairs: &[(Vec<u8>, f64)], protocol: Protocol) {
    let nested = protocol == Protocol::Resp3;
    length(out, b'*', if nested { pairs.len() } else { pairs.len() * 2 });
    for (member, score) in pairs {
        if nested {
            length(out, b'*', 2);
        }
        block(out, b'$', b"", member);
        Reply::Double(*score).write(protocol, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(reply: &Reply) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut out = vec![];
            reply.write(protocol, &mut out);
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn each_kind_of_reply_is_written_in_resp2_and_resp3() {
        assert_eq!(both(&Reply::Nil), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(&Reply::Double(1.5)), ["$3\r\n1.5\r\n", ",1.5\r\n"]);
        assert_eq!(both(&Reply::Verbatim("x".into())), ["$1\r\nx\r\n", "=5\r\ntxt:x\r\n"]);
        let pair = (Reply::bulk("k"), Reply::Int(12));
        assert_eq!(
            both(&Reply::Map(vec![pair])),
            ["*2\r\n$1\r\nk\r\n:12\r\n", "%1\r\n$1\r\nk\r\n:12\r\n"]
        );
        let pairs = Reply::Scored(vec![(b"m".to_vec(), 2.0)]);
        assert_eq!(both(&pairs), ["*2\r\n$1\r\nm\r\n$1\r\n2\r\n", "*1\r\n*2\r\n$1\r\nm\r\n,2\r\n"]);
        let push = Reply::Push(vec![Reply::OK]);
        assert_eq!(both(&push), ["*1\r\n+OK\r\n", ">1\r\n+OK\r\n"]);
        assert_eq!(both(&Reply::error("ERR a\r\nb")), ["-ERR a  b\r\n"; 2]);
    }
}
