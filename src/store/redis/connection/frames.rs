//! Finds the replies in a stream of bytes. What they say is read by the client
//! crate's parser.

use redis::Value;

/// The longest reply that is believed to be one.
const LONGEST: usize = 64 * 1024 * 1024;

/// Takes the first reply of `bytes`, and says how long it was. `None` if it is not
/// all there yet.
pub(super) fn first(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let Some(end) = end(bytes)? else { return Ok(None) };
    let frame = &bytes[..end];
    let value = match number(frame) {
        Some(number) => Value::Int(number),
        None => redis::parse_redis_value(frame).map_err(|error| error.to_string())?,
    };
    Ok(Some((value, end)))
}

/// The commonest reply by far, `:1` and the like.
fn number(frame: &[u8]) -> Option<i64> {
    let digits = frame.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the first reply of `bytes` ends, if it is all there.
fn end(bytes: &[u8]) -> Result<Option<usize>, String> {
    let (mut at, mut missing) = (0_usize, 1_usize);
    while missing > 0 {
        let Some(line) = line(&bytes[at..]) else { return short(bytes) };
        let Some((kind, length)) = line.split_first() else {
            return Err("an empty line".into());
        };
        at += line.len() + 2;
        missing -= 1;
        match kind {
            b':' | b'+' | b'-' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'=' | b'!' => at += count(length)?.map_or(0, |bytes| bytes + 2),
            b'*' | b'~' | b'>' => missing += count(length)?.unwrap_or(0),
            b'%' => missing += 2 * count(length)?.unwrap_or(0),
            b'|' => missing += 2 * count(length)?.unwrap_or(0) + 1,
            other => return Err(format!("a reply begins with {:?}", char::from(*other))),
        }
        if at > bytes.len() || missing > LONGEST {
            return short(bytes);
        }
    }
    Ok(Some(at))
}

/// More bytes are to come, unless there are too many already.
fn short(bytes: &[u8]) -> Result<Option<usize>, String> {
    match bytes.len() > LONGEST {
        true => Err(format!("a reply is longer than {LONGEST} bytes")),
        false => Ok(None),
    }
}

/// The first line, without its end.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    (bytes.get(end + 1) == Some(&b'\n')).then(|| &bytes[..end])
}

/// How long something is; `None` if it is not there at all.
fn count(digits: &[u8]) -> Result<Option<usize>, String> {
    let text = str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
    if text == Some("-1") {
        return Ok(None);
    }
    let count = text.and_then(|text| text.parse().ok()).filter(|count| *count <= LONGEST);
    count.map(Some).ok_or_else(|| format!("a length of {:?}", String::from_utf8_lossy(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, and what it is made of.
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

    #[test]
    fn each_kind_of_reply_is_read_as_the_parser_reads_it() {
        for reply in REPLIES {
            let read = redis::parse_redis_value(reply.as_bytes()).unwrap();
            // and what comes behind it is left alone
            let bytes = format!("{reply}+next\r\n");
            assert_eq!(first(bytes.as_bytes()), Ok(Some((read, reply.len()))), "{reply:?}");
        }
    }

    #[test]
    fn a_reply_that_is_not_all_there_is_waited_for() {
        for reply in REPLIES {
            for length in 0..reply.len() {
                assert_eq!(first(&reply.as_bytes()[..length]), Ok(None), "{length} of {reply:?}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_and_not_waited_for() {
        let odd = ["HTTP/1.1 400\r\n", "\r\n", "$x\r\n", "*+1\r\n", "$-2\r\n", ":one\r\n"];
        for bytes in odd {
            assert!(first(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        let endless = format!("${}\r\n", usize::MAX);
        assert!(first(endless.as_bytes()).is_err());
        let nested = "*1000000\r\n".repeat(70);
        assert_eq!(first(nested.as_bytes()), Ok(None), "only what comes is kept");
        assert!(first(&vec![b'+'; LONGEST + 1]).is_err());
    }

    #[test]
    fn random_bytes_are_refused_or_waited_for_and_never_a_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let length = random.usize(..24);
            let some = || random.choice(b":+-_#,($=!*~>%|0123456789\r\n\r\n\xff").copied();
            let bytes: Vec<u8> = std::iter::repeat_with(some).take(length).flatten().collect();
            if let Ok(Some((_, end))) = first(&bytes) {
                assert!(end <= bytes.len());
            }
        }
    }
}
