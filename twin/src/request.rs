//! Parses commands from the bytes of a client.

use std::ops::Range;

use super::number;

/// The highest number of bytes in a word. Redis has the same default.
const LONGEST: i64 = 512 * 1024 * 1024;

/// The highest number of words in one command.
const MOST: i64 = 1024 * 1024;

/// What the bytes of a client begin with.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// A complete command. `first` has stored the positions of its words. The number is the length
    /// of the command in bytes.
    Whole(usize),
    /// An incomplete command: more bytes must come.
    Part,
    /// Invalid bytes. The client gets this error and is disconnected.
    Nonsense(String),
}

/// Reads the first command of `bytes`, and stores the positions of its words in `words`.
pub(super) fn first(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Request {
    words.clear();
    match bytes.first() {
        None => Request::Part,
        Some(b'*') => list(bytes, words).unwrap_or_else(|odd| odd),
        Some(_) => inline(bytes, words),
    }
}

fn list(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Result<Request, Request> {
    let (count, mut at) = header(bytes, 0, MOST, "invalid multibulk length")?;
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Request::Part),
            Some(b'$') => {}
            Some(other) => {
                let other = char::from(*other);
                return Err(Request::Nonsense(format!("expected '$', got '{other}'")));
            }
        }
        let (length, from) = header(bytes, at, LONGEST, "invalid bulk length")?;
        let length =
            usize::try_from(length).map_err(|_| Request::Nonsense("invalid bulk length".into()))?;
        if bytes.len() < from + length + 2 {
            return Ok(Request::Part);
        }
        words.push(from..from + length);
        at = from + length + 2;
    }
    Ok(Request::Whole(at))
}

/// Parses the number in the line that begins at `at`. Also returns where the next line begins.
fn header(bytes: &[u8], at: usize, most: i64, odd: &'static str) -> Result<(i64, usize), Request> {
    let digits = &bytes[at + 1..];
    let Some(end) = digits.iter().position(|byte| *byte == b'\r') else {
        return Err(if digits.len() > 64 { Request::Nonsense(odd.into()) } else { Request::Part });
    };
    if digits.len() < end + 2 {
        return Err(Request::Part);
    }
    let number = number::integer(&digits[..end]).filter(|number| *number <= most);
    number.map(|number| (number, at + end + 3)).ok_or_else(|| Request::Nonsense(odd.into()))
}

/// Parses an inline command: a line of words.
fn inline(bytes: &[u8], words: &mut Vec<Range<usize>>) -> Request {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Request::Part };
    let mut start = None;
    for (at, byte) in bytes[..=end].iter().enumerate() {
        match (byte.is_ascii_whitespace(), start) {
            (true, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    Request::Whole(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> (Request, Vec<String>) {
        let mut words = vec![];
        let request = first(bytes.as_bytes(), &mut words);
        (request, words.into_iter().map(|word| bytes[word].to_owned()).collect())
    }

    #[test]
    fn command_is_parsed_when_all_its_bytes_have_arrived() {
        let whole = "*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n";
        let (request, words) = read(whole);
        assert_eq!(request, Request::Whole(whole.len()));
        assert_eq!(words, ["ECHO", "a\r\n"]);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]).0, Request::Part, "{length}");
        }
        assert_eq!(read("PING  x\r\nrest"), (Request::Whole(9), vec!["PING".into(), "x".into()]));
    }

    #[test]
    fn error_names_an_invalid_command() {
        assert_eq!(read("*x\r\n").0, Request::Nonsense("invalid multibulk length".into()));
        assert_eq!(read("*1\r\n$-5\r\n").0, Request::Nonsense("invalid bulk length".into()));
        assert_eq!(read("*1\r\n+x\r\n").0, Request::Nonsense("expected '$', got '+'".into()));
    }
}
