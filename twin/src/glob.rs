//! Patterns with `*`, `?`, `[…]` and `\`, as Redis matches them.

/// Returns whether `text` matches `pattern`.
pub(super) fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
    match first {
        b'*' => (0..=text.len()).any(|from| is_like(rest, &text[from..])),
        b'?' => text.split_first().is_some_and(|(_, after)| is_like(rest, after)),
        b'[' => text.split_first().is_some_and(|(byte, after)| {
            let (among, rest) = class(rest, *byte);
            among && is_like(rest, after)
        }),
        b'\\' if !rest.is_empty() => starts(rest[0], &rest[1..], text),
        literal => starts(*literal, rest, text),
    }
}

fn starts(literal: u8, rest: &[u8], text: &[u8]) -> bool {
    text.split_first().is_some_and(|(byte, after)| *byte == literal && is_like(rest, after))
}

/// Matches `byte` with the class at the start of `pattern`. Returns the result, and the pattern
/// after the class.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (inverted, mut rest) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [b']', after @ ..] => return (found != inverted, after),
            [b'\\', one, after @ ..] => {
                found |= *one == byte;
                after
            }
            [from, b'-', to, after @ ..] if *to != b']' => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                after
            }
            [one, after @ ..] => {
                found |= *one == byte;
                after
            }
            [] => return (found != inverted, rest),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_pattern_matches_like_in_redis() {
        let is = |pattern: &str, text: &str| is_like(pattern.as_bytes(), text.as_bytes());
        assert!(is("*", "") && is("a*c", "abbc") && is("a?c", "abc") && is("[a-c]x", "bx"));
        assert!(is("[^a]x", "bx") && is(r"\*", "*") && is("lock:{*}", "lock:{a}"));
        assert!(!is("a*c", "ab") && !is("?", "") && !is("[^a]", "a") && !is(r"\*", "x"));
    }
}
