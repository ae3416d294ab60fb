//! One Rust file, taken apart: tokens, comments, and which lines are test code.

use std::ops::RangeInclusive;

use crate::lexer::{Comment, Kind, Token, lex};

/// A Rust file.
pub(crate) struct RustFile<'a> {
    /// Path from the root of the repository.
    pub(crate) path: &'a str,
    /// All of it.
    pub(crate) text: &'a str,
    /// Its code.
    pub(crate) tokens: Vec<Token<'a>>,
    /// Its comments.
    pub(crate) comments: Vec<Comment<'a>>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl<'a> RustFile<'a> {
    /// Takes `text` apart; `is_test` if all of it is compiled for tests only.
    pub(crate) fn new(path: &'a str, text: &'a str, is_test: bool) -> Self {
        let (tokens, comments) = lex(text);
        let whole = is_test || inner_attribute_is_test(&tokens);
        let test_lines =
            if whole { vec![1..=text.lines().count().max(1)] } else { test_items(&tokens) };
        RustFile { path, text, tokens, comments, test_lines }
    }

    /// True if that line is compiled for tests only.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// How many lines are not test code.
    pub(crate) fn production_lines(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.is_test_line(*line)).count()
    }

    /// The tokens that are not test code.
    pub(crate) fn production(&self) -> Vec<Token<'a>> {
        self.tokens.iter().filter(|token| !self.is_test_line(token.line)).copied().collect()
    }
}

/// Where the bracket at `open` closes, or the last token.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if ['(', '[', '{'].iter().any(|c| token.is(*c)) {
            depth += 1;
        } else if [')', ']', '}'].iter().any(|c| token.is(*c)) {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len().saturating_sub(1)
}

/// True if an attribute, given what is between its brackets, limits its item to tests.
fn attribute_is_test(inner: &[Token<'_>]) -> bool {
    match inner {
        [word] => word.is_ident("test"),
        [cfg, open, condition @ .., _] if cfg.is_ident("cfg") && open.is('(') => {
            requires_test(condition)
        }
        _ => false,
    }
}

/// True if a `cfg` condition holds in test builds only: `test`, `all(test, …)`, `any(test)`.
fn requires_test(condition: &[Token<'_>]) -> bool {
    match condition {
        [word] => word.is_ident("test"),
        [word, open, inner @ .., _] if open.is('(') && word.is_ident("all") => {
            members(inner).into_iter().any(requires_test)
        }
        [word, open, inner @ .., _] if open.is('(') && word.is_ident("any") => {
            members(inner).into_iter().all(requires_test)
        }
        _ => false,
    }
}

fn members<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let (mut out, mut from, mut depth) = (Vec::new(), 0, 0usize);
    for (at, token) in tokens.iter().enumerate() {
        if token.is('(') {
            depth += 1;
        } else if token.is(')') {
            depth = depth.saturating_sub(1);
        } else if token.is(',') && depth == 0 {
            out.push(&tokens[from..at]);
            from = at + 1;
        }
    }
    out.push(&tokens[from..]);
    out.retain(|member| !member.is_empty());
    out
}

fn inner_attribute_is_test(tokens: &[Token<'_>]) -> bool {
    let mut at = 0;
    while let [hash, bang, open, ..] = &tokens[at..] {
        if !(hash.is('#') && bang.is('!') && open.is('[')) {
            return false;
        }
        let close = closing(tokens, at + 2);
        if attribute_is_test(&tokens[at + 3..close]) {
            return true;
        }
        at = close + 1;
    }
    false
}

fn test_items(tokens: &[Token<'_>]) -> Vec<RangeInclusive<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at + 1 < tokens.len() {
        if !(tokens[at].is('#') && tokens[at + 1].is('[')) {
            at += 1;
            continue;
        }
        let close = closing(tokens, at + 1);
        if attribute_is_test(&tokens[at + 2..close]) {
            let end = item_end(tokens, close + 1);
            out.push(tokens[at].line..=tokens[end].line);
            at = end + 1;
        } else {
            at = close + 1;
        }
    }
    out
}

/// The last token of the item, field, arm or statement that begins at `at`.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    while at + 1 < tokens.len() && tokens[at].is('#') && tokens[at + 1].is('[') {
        at = closing(tokens, at + 1) + 1;
    }
    let last = tokens.len().saturating_sub(1);
    let is_item = tokens.get(at).is_some_and(|first| {
        const WORDS: [&str; 15] = [
            "pub", "fn", "mod", "struct", "enum", "union", "impl", "trait", "use", "const",
            "static", "type", "unsafe", "extern", "async",
        ];
        first.kind == Kind::Ident && (WORDS.contains(&first.text) || first.text == "macro_rules")
    });
    let is_use = tokens[at.min(last)..].iter().take(6).any(|token| token.is_ident("use"))
        && !tokens[at.min(last)..].iter().take(6).any(|token| token.is('{'));
    while at < last {
        let token = &tokens[at];
        if token.is(';') || (!is_item && token.is(',')) {
            return at;
        } else if token.is('{') && !is_use {
            return closing(tokens, at);
        } else if token.is('(') || token.is('[') || token.is('{') {
            at = closing(tokens, at);
        } else if token.is('}') || token.is(')') || token.is(']') {
            return at.saturating_sub(1);
        }
        at += 1;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(text: &str) -> Vec<usize> {
        let file = RustFile::new("x.rs", text, false);
        (1..=text.lines().count()).filter(|line| file.is_test_line(*line)).collect()
    }

    #[test]
    fn modules_functions_and_uses_of_tests_are_found() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n\
                    #[cfg(all(test, unix))]\nuse x::{\n y,\n};\n#[test]\nfn d() {\n}\nfn e() {}";
        assert_eq!(test_lines(text), [2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn a_condition_that_only_allows_tests_is_told_from_one_that_mentions_them() {
        assert_eq!(test_lines("#[cfg(not(test))]\nfn a() {}"), [0; 0]);
        assert_eq!(test_lines("#[cfg(any(test, feature = \"sim\"))]\nfn a() {}"), [0; 0]);
        assert_eq!(test_lines("#[cfg(any(test, all(test, unix)))]\nfn a() {}"), [1, 2]);
        assert_eq!(test_lines("#![cfg(test)]\nfn a() {}"), [1, 2]);
    }

    #[test]
    fn fields_generics_and_arrays_end_where_they_should() {
        let text = "struct S {\n #[cfg(test)]\n a: u8,\n b: u8,\n}\n#[cfg(test)]\n\
                    fn f<A, B>(a: A, b: [u8; 2]) -> B {\n}\nfn g() {}";
        assert_eq!(test_lines(text), [2, 3, 6, 7, 8]);
        assert_eq!(test_lines("#[cfg(test)]\nconst A: [u8; 2] = [\n 1, 2];\nfn g() {}"), [1, 2, 3]);
        assert_eq!(test_lines("fn f() { g(1, #[cfg(test)] 2) }\nfn h() {}"), [1]);
    }
}
