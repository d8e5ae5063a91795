//! Makes text from servers fit for a log: on one line, and not too long.

/// The number of characters after which a text is cut.
const SHOWN: usize = 200;

/// Escapes the control characters of `text`, and cuts a long text.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(SHOWN) {
        match is_plain(character) {
            true => shown.push(character),
            false => shown.extend(character.escape_default()),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        shown += "…";
    }
    shown
}

/// Returns whether `character` is safe in a log. Unsafe characters move the cursor or hide text.
fn is_plain(character: char) -> bool {
    let turns_text = matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns_text && character != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_plain_server_text_is_unchanged() {
        for text in ["", "ERR no such key", "ключ 🔒", &"x".repeat(SHOWN)] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(shown("a\nb\u{1b}[31m\u{202e}c"), r"a\nb\u{1b}[31m\u{202e}c");
    }

    #[test]
    fn long_server_text_is_cut() {
        let long = shown(&"🔒".repeat(1_000_000));
        assert_eq!(long.chars().count(), SHOWN + 1);
        assert!(long.ends_with('…'));
    }
}
