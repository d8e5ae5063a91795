//! Finds the bodies of functions in Rust source. It skips comments, strings and characters, because
//! these may contain braces.

use std::ops::Range;

/// Returns the bodies of the functions of `text`, with their braces. A nested function is not
/// listed separately, because it is part of the outer body.
pub(crate) fn bodies(text: &str) -> Vec<Range<usize>> {
    let mut tokens = Tokens { text, at: 0 };
    let mut found = vec![];
    while let Some(token) = tokens.next() {
        // A `fn` without a name is a type.
        if token.is("fn") && tokens.next().is_some_and(Token::is_word) {
            found.extend(body(&mut tokens));
        }
    }
    found
}

/// Returns the body of the function whose name was read last, or `None` if the function has no
/// body.
fn body(tokens: &mut Tokens<'_>) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    loop {
        let token = tokens.next()?;
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            ";" if depth == 0 => return None,
            "{" if depth == 0 => return Some(token.at..end(tokens)?),
            _ => {}
        }
    }
}

/// Returns the end of the block whose opening brace was read last.
fn end(tokens: &mut Tokens<'_>) -> Option<usize> {
    let mut depth = 1_usize;
    while depth > 0 {
        match tokens.next()?.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
    }
    Some(tokens.at)
}

/// A word, or one character that is not part of a word.
#[derive(Clone, Copy)]
struct Token<'text> {
    text: &'text str,
    at: usize,
}

impl Token<'_> {
    fn is(self, word: &str) -> bool {
        self.text == word
    }

    fn is_word(self) -> bool {
        self.text.starts_with(is_of_word)
    }
}

fn is_of_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// The tokens of a text, without comments, strings and characters.
struct Tokens<'text> {
    text: &'text str,
    at: usize,
}

impl<'text> Tokens<'text> {
    fn rest(&self) -> &'text str {
        &self.text[self.at..]
    }

    /// Continues after the next `end`, or at the end of the text.
    fn skip_past(&mut self, end: &str) {
        let rest = self.rest();
        self.at += rest.find(end).map_or(rest.len(), |it| it + end.len());
    }

    /// Continues after a comment, which may contain other comments.
    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            match () {
                () if rest.starts_with("/*") => (depth, self.at) = (depth + 1, self.at + 2),
                () if rest.starts_with("*/") => (depth, self.at) = (depth - 1, self.at + 2),
                () => self.at += rest.chars().next().map_or(0, char::len_utf8),
            }
            if depth == 0 || self.rest().is_empty() {
                return;
            }
        }
    }

    /// Continues after a text that ends with `quote`. A quote after a backslash does not end it.
    fn skip_quoted(&mut self, quote: char) {
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, it)) = chars.next() {
            match it {
                '\\' => drop(chars.next()),
                it if it == quote => {
                    self.at += at + 1;
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }

    /// Continues after a character literal, or after the quote of a lifetime.
    fn skip_character(&mut self) {
        let mut chars = self.rest().chars().skip(1);
        match (chars.next(), chars.next()) {
            (Some('\\'), _) | (Some(_), Some('\'')) => self.skip_quoted('\''),
            _ => self.at += 1,
        }
    }

    /// If a raw string starts at this place, continues after it.
    fn skip_raw(&mut self) {
        let hashes = self.rest().bytes().take_while(|it| *it == b'#').count();
        if self.rest()[hashes..].starts_with('"') {
            self.at += hashes + 1;
            self.skip_past(&format!("\"{}", "#".repeat(hashes)));
        }
    }
}

impl<'text> Iterator for Tokens<'text> {
    type Item = Token<'text>;

    fn next(&mut self) -> Option<Token<'text>> {
        loop {
            let (rest, at) = (self.rest(), self.at);
            let first = rest.chars().next()?;
            if rest.starts_with("//") {
                self.skip_past("\n");
            } else if rest.starts_with("/*") {
                self.skip_block_comment();
            } else if first == '"' {
                self.skip_quoted('"');
            } else if first == '\'' {
                self.skip_character();
            } else if first.is_whitespace() {
                self.at += first.len_utf8();
            } else {
                let word = rest.find(|it| !is_of_word(it)).unwrap_or(rest.len());
                let text = &rest[..word.max(first.len_utf8())];
                self.at += text.len();
                if matches!(text, "r" | "br" | "cr") {
                    self.skip_raw();
                }
                return Some(Token { text, at });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        bodies(text).into_iter().map(|body| &text[body]).collect()
    }

    #[test]
    fn bodies_of_functions_are_found_with_their_braces() {
        let text = "const A: [u8; 1] = { [1] };\nimpl B { async fn c<T: D>(&self, _: [u8; 2]) -> E \
                    where T: F { if g { 1 } } }\nfn h() {}";
        assert_eq!(found(text), ["{ if g { 1 } }", "{}"]);
    }

    #[test]
    fn function_declaration_and_function_type_are_skipped() {
        let text = "trait A { fn b(c: [u8; 1]); }\nstruct D { e: fn(F) -> G }\nfn h() { 1 }";
        assert_eq!(found(text), ["{ 1 }"]);
    }

    #[test]
    fn nested_function_is_part_of_the_outer_function() {
        assert_eq!(found("fn a() { fn b() {} b() }"), ["{ fn b() {} b() }"]);
    }

    #[test]
    fn braces_in_comments_strings_and_characters_are_ignored() {
        for inside in [
            "// } é\n",
            "/* } /* } */ } */",
            r#""} \" }""#,
            r##"r#"} " }"#"##,
            r#"br"}\""#,
            "'}'",
            r"'\''; '}'",
            "b'}'",
            r"'\u{7d}'",
            "a::<'a, 'b>('}')",
            "'é'; '}'",
        ] {
            let text = format!("fn a() {{ {inside} }} }}");
            let body = format!("{{ {inside} }}");
            assert_eq!(found(&text), [body], "{inside}");
        }
        assert_eq!(found("// fn a() {}\n\"fn b() {}\""), Vec::<&str>::new());
    }
}
