//! Splits Rust text into tokens and comments: enough to tell code from comments and literals, and
//! to follow paths, attributes and braces. It is no parser and never fails; text that does not
//! compile only yields odd tokens.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word: identifier or keyword, raw ones without their `r#`.
    Ident,
    /// One character of punctuation.
    Punct,
    /// A string or byte string of any form, with its quotes.
    Text,
    /// A character, byte or number.
    Scalar,
    /// `'a`
    Lifetime,
}

/// A piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its characters.
    pub(crate) text: &'a str,
    /// Where it begins, counted from 1.
    pub(crate) line: usize,
}

impl Token<'_> {
    /// True for this word.
    pub(crate) fn is_ident(&self, word: &str) -> bool {
        self.kind == Kind::Ident && self.text == word
    }

    /// True for this punctuation.
    pub(crate) fn is(&self, punct: char) -> bool {
        self.kind == Kind::Punct && self.text.starts_with(punct)
    }
}

/// A comment, documentation or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comment<'a> {
    /// With its slashes.
    pub(crate) text: &'a str,
    /// Where it begins, counted from 1.
    pub(crate) line: usize,
}

/// The tokens and the comments of `text`, each in order.
pub(crate) fn lex(text: &str) -> (Vec<Token<'_>>, Vec<Comment<'_>>) {
    let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new(), comments: Vec::new() };
    lexer.run();
    (lexer.tokens, lexer.comments)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
    comments: Vec<Comment<'a>>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.comment(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.comment(block_comment_len(rest));
            } else if let Some(len) = text_literal_len(rest) {
                self.token(Kind::Text, 0, len);
            } else if let Some(len) = char_literal_len(rest) {
                self.token(Kind::Scalar, 0, len);
            } else if next == '\'' {
                self.token(Kind::Lifetime, 0, 1 + word_len(&rest[1..]));
            } else if next.is_ascii_digit() {
                self.token(Kind::Scalar, 0, number_len(rest));
            } else if rest.starts_with("r#") && word_len(&rest[2..]) > 0 {
                self.token(Kind::Ident, 2, 2 + word_len(&rest[2..]));
            } else if word_len(rest) > 0 {
                self.token(Kind::Ident, 0, word_len(rest));
            } else if next.is_whitespace() {
                self.advance(next.len_utf8());
            } else {
                self.token(Kind::Punct, 0, next.len_utf8());
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, len: usize) {
        let passed = &self.text[self.at..self.at + len];
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at += len;
    }

    fn token(&mut self, kind: Kind, from: usize, len: usize) {
        let text = &self.rest()[from..len];
        self.tokens.push(Token { kind, text, line: self.line });
        self.advance(len);
    }

    fn comment(&mut self, len: usize) {
        let text = &self.rest()[..len];
        self.comments.push(Comment { text, line: self.line });
        self.advance(len);
    }
}

fn word_len(text: &str) -> usize {
    let starts = |c: char| c == '_' || c.is_alphabetic();
    if !text.starts_with(starts) {
        return 0;
    }
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

fn number_len(text: &str) -> usize {
    let digits = |text: &str| {
        text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len())
    };
    let whole = digits(text);
    let fraction = &text[whole..];
    // `1.5` is one number; in `1..5` and `1.max(2)` the dot belongs to what follows.
    if fraction.starts_with('.') && fraction[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return whole + 1 + digits(&fraction[1..]);
    }
    whole
}

fn block_comment_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match &bytes[at..(at + 2).min(bytes.len())] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The length of a string literal at the start of `text`: `"…"`, `b"…"`, `c"…"`, `r#"…"#`, …
fn text_literal_len(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let quoted = text.strip_prefix(prefix);
        quoted.is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let open = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = text[open..].find(&close).map(|found| open + found + close.len());
        return Some(end.unwrap_or(text.len()));
    }
    (hashes == 0).then(|| open + escaped_len(&text[open..], '"'))
}

fn char_literal_len(text: &str) -> Option<usize> {
    let open = if text.starts_with("b'") { 2 } else { 1 };
    let inner = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let first = inner.chars().next()?;
    let closed = inner[first.len_utf8()..].starts_with('\'');
    // `'a'` is a character, `'a` a lifetime.
    (first == '\\' || closed).then(|| open + escaped_len(inner, '\''))
}

/// Bytes up to and with the closing quote, which a backslash protects.
fn escaped_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        lex(text).0.iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let (tokens, comments) = lex("a /* b /* c */ */ \"d // e\" r#\"f \" g\"# // h\ni");
        let texts: Vec<_> = tokens.iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(texts, [("a", 1), ("\"d // e\"", 1), ("r#\"f \" g\"#", 1), ("i", 2)]);
        assert_eq!(comments.len(), 2);
        assert_eq!(comments[1], Comment { text: "// h", line: 1 });
    }

    #[test]
    fn lines_are_counted_inside_literals_and_comments() {
        let (tokens, _) = lex("\"a\nb\" /*\n*/ c");
        assert_eq!(tokens[1].line, 3);
    }

    #[test]
    fn quotes_of_lifetimes_characters_and_numbers() {
        assert_eq!(
            words("<'a> 'b' '\\'' b'\\n' '\"'"),
            ["<", "'a", ">", "'b'", "'\\''", "b'\\n'", "'\"'"]
        );
        assert_eq!(
            words("0..10 1.5 0x_ff r#type br\"x\\\""),
            ["0", ".", ".", "10", "1.5", "0x_ff", "type", "br\"x\\\""]
        );
        assert_eq!(words("\"a\\\"b\" c"), ["\"a\\\"b\"", "c"]);
    }

    #[test]
    fn unfinished_text_ends_the_lexer_quietly() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'", "b'", "'\\", "r#", "é", "r"] {
            lex(text);
        }
    }
}
