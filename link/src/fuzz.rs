//! Feeds random bytes and texts to the parsers of replies and URLs.
//!
//! `make fuzz SEEDS=n` runs many seeds, and `make fuzz SEED=x` repeats one seed.

use fastrand::Rng;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redis::Value;

use crate::{
    address::{secret::Secret, settings::Settings, url::target},
    pipe::frames::{Frame, Frames, LONGEST},
};

/// The number of seeds if `SEEDS` is not set.
const FEW: u64 = 2_000;

/// Runs `check` once for each seed. By default, `FEW` fixed seeds are used. `SEEDS=n` selects 100 ×
/// n random seeds, and `SEED=x` selects one seed.
fn with_seeds(check: impl Fn(&mut Rng)) {
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let asked_for = setting("LEASEHOLD_SEEDS");
    let base = setting("LEASEHOLD_BASE");
    let base = base.unwrap_or_else(|| asked_for.map_or(0, |_| fastrand::u64(..) >> 16));
    let seeds = match setting("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        // With `SEEDS=n`, `make fuzz` also tests a whole client n times. Each of these tests takes
        // as long as 100 seeds in this file.
        None => base..base + asked_for.map_or(FEW, |seeds| 100 * seeds),
    };
    for seed in seeds.clone() {
        let seen = std::panic::AssertUnwindSafe(|| check(&mut Rng::with_seed(seed)));
        assert!(std::panic::catch_unwind(seen).is_ok(), "seed {seed}: make fuzz SEED={seed}");
    }
    println!("seeds {seeds:?}");
}

/// Returns a random reply, which may be nested.
fn reply(random: &mut Rng, depth: u32) -> Vec<u8> {
    let text = |random: &mut Rng| -> String {
        let length = random.usize(..20);
        (0..length).map(|_| random.alphanumeric()).collect()
    };
    let parts = |kind: char, each: usize, random: &mut Rng| {
        let count = random.usize(..4);
        let mut bytes = format!("{kind}{count}\r\n").into_bytes();
        (0..each * count).for_each(|_| bytes.extend(reply(random, depth + 1)));
        bytes
    };
    match random.u8(..if depth > 3 { 9 } else { 13 }) {
        0 => format!(":{}\r\n", random.i64(..)).into(),
        1 => format!("+{}\r\n", text(random)).into(),
        2 => format!("-ERR {}\r\n", text(random)).into(),
        3 => "_\r\n".into(),
        4 => format!("#{}\r\n", random.choice(['t', 'f']).unwrap_or('t')).into(),
        5 => format!(",{}\r\n", random.i16(..)).into(),
        6 => "$-1\r\n".into(),
        7 => {
            let body = [text(random), "\r\n:1\r\n".into(), text(random)].concat();
            format!("${}\r\n{body}\r\n", body.len()).into()
        }
        8 => {
            let body = format!("txt:{}", text(random));
            format!("={}\r\n{body}\r\n", body.len()).into()
        }
        9 | 10 => parts('*', 1, random),
        11 => parts('~', 1, random),
        _ => parts('%', 2, random),
    }
}

/// Changes `bytes` at up to three random places.
fn spoil(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(..4) {
        let at = random.usize(..=bytes.len());
        let odd = random.choice(b":+-_#,($=!*~>%|0123456789\r\n\xff \0").copied().unwrap_or(0);
        match random.u8(..5) {
            0 => bytes.insert(at, odd),
            1 => bytes.truncate(at),
            2 => bytes.splice(at..at, *b"\r\n").for_each(drop),
            3 => bytes.splice(at..at, *b"*99999999\r\n").for_each(drop),
            _ if at < bytes.len() => bytes[at] = odd,
            _ => {}
        }
    }
}

/// Reads `bytes` in pieces of up to `size`. Returns the frames, and the error if the bytes are
/// invalid.
fn take(random: &mut Rng, bytes: &[u8], size: usize) -> (Vec<Frame>, Option<String>) {
    let (mut frames, mut taken, mut at) = (Frames::default(), vec![], 0);
    while at < bytes.len() {
        let end = (at + random.usize(1..=size)).min(bytes.len());
        frames.space(end - at).extend_from_slice(&bytes[at..end]);
        at = end;
        loop {
            match frames.take() {
                Ok(Some(frame)) => taken.push(frame),
                Ok(None) => break,
                Err(reason) => return (taken, Some(reason)),
            }
        }
        assert!(frames.kept() <= LONGEST + size, "{} bytes are buffered", frames.kept());
    }
    (taken, None)
}

#[test]
fn reply_is_parsed_the_same_for_any_split_of_its_bytes() {
    with_seeds(|random| {
        let replies: Vec<_> = (0..random.usize(1..6)).map(|_| reply(random, 0)).collect();
        let parse = |reply: &Vec<u8>| redis::parse_redis_value(reply).map(Frame::Value);
        // If the parser of the `redis` crate rejects a sample, the check ends. This parser does not
        // accept every text that looks like a number.
        let Ok(parsed) = replies.iter().map(parse).collect::<Result<Vec<_>, _>>() else { return };
        for size in [1, 7, 10_000] {
            let (taken, refused) = take(random, &replies.concat(), size);
            assert_eq!((&taken, refused), (&parsed, None));
        }
    });
}

#[test]
fn corrupt_reply_fails_the_same_for_any_split_of_its_bytes() {
    with_seeds(|random| {
        let mut bytes = [reply(random, 0), reply(random, 0)].concat();
        spoil(random, &mut bytes);
        let (whole, refused) = take(random, &bytes, 100_000);
        let (pieces, refused_in_pieces) = take(random, &bytes, 3);
        assert_eq!(whole, pieces);
        assert_eq!(refused.is_some(), refused_in_pieces.is_some(), "{refused:?}");
        if whole.is_empty() && refused.is_none() {
            let parsed = redis::parse_redis_value(&bytes);
            assert!(parsed.is_err(), "the parser of `redis` found a whole reply: {parsed:?}");
        }
        if let Some(reason) = refused {
            assert!(reason.len() < 100 && !reason.contains(char::is_control), "{reason:?}");
        }
    });
}

/// Returns a text of unusual characters.
fn odd_text(random: &mut Rng) -> String {
    let odd: Vec<char> = "ab1:/?#[]@!$&'()*+,;=%. \\\t\n\0é🔒\u{202e}".chars().collect();
    (0..random.usize(..8)).filter_map(|_| random.choice(&odd).copied()).collect()
}

#[test]
fn url_with_unusual_parts_shows_no_password() {
    const SECRET: &str = "hunter2";
    with_seeds(|random| {
        let [a, b, c, d] = [(); 4].map(|()| odd_text(random));
        let scheme = random.choice([
            "redis://",
            "rediss://",
            "unix://",
            "redis:",
            "http://",
            "",
            "redis-sentinel://",
        ]);
        let scheme = scheme.unwrap_or_default();
        // The secret is only in the password, which ends before the host.
        let url = format!("{scheme}u:{a}{SECRET}{b}@host{c}/{}{d}", random.u8(..20));
        let url =
            if scheme == "unix://" { format!("unix:///x?pass={a}{SECRET}{b}&{c}") } else { url };
        let shown = match target(&url, &Settings::default()) {
            Ok(target) => format!("{target:?} {}", target.place),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains(SECRET), "{url:?}: {shown}");
        assert!(!shown.contains(char::is_control), "{url:?}: {shown:?}");
    });
}

#[test]
fn escaped_password_is_decoded() {
    with_seeds(|random| {
        let password = format!("x{}", odd_text(random));
        let escaped = utf8_percent_encode(&password, NON_ALPHANUMERIC);
        let read = target(&format!("redis://:{escaped}@host"), &Settings::default()).unwrap();
        assert_eq!(read.password, Some(Secret::from(password)));
    });
}

/// The parser is recursive, so it must reject replies that are nested too deeply.
#[test]
fn endlessly_nested_reply_is_refused_without_stack_overflow() {
    for depth in [50, 1_000, LONGEST / 4 - 1] {
        let bytes = ["*1\r\n".repeat(depth).into_bytes(), b":1\r\n".to_vec()].concat();
        let (taken, refused) = take(&mut Rng::with_seed(1), &bytes, 100_000);
        let is_array = |frame: &Frame| matches!(frame, Frame::Value(Value::Array(_)));
        assert!(taken.first().map_or_else(|| refused.is_some(), is_array), "{depth}");
    }
}
