//! The paths that code names, in `use` lines and elsewhere, written out in full:
//! `use std::{fs, time::Instant}` names `std::fs` and `std::time::Instant`.

use crate::lexer::{Kind, Token};
use crate::rust_file::closing;

/// A path of at least two segments, or any path that is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// `["std", "fs"]`; what `super` and `self` stand for is not resolved yet.
    pub(crate) segments: Vec<String>,
    /// Where it ends.
    pub(crate) line: usize,
    /// `path::*`
    pub(crate) is_glob: bool,
    /// In a `use` line.
    pub(crate) is_import: bool,
    /// How many inline modules are around it.
    pub(crate) inline_depth: usize,
}

/// All paths in these tokens.
pub(crate) fn named_paths(tokens: &[Token<'_>]) -> Vec<NamedPath> {
    let mut out = Vec::new();
    let mut modules: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        modules.retain(|close| at <= *close);
        let inline_depth = modules.len();
        let token = &tokens[at];
        if token.is_ident("mod") && tokens.get(at + 2).is_some_and(|next| next.is('{')) {
            modules.push(closing(tokens, at + 2));
        } else if token.is_ident("use") && !tokens.get(at + 1).is_some_and(|next| next.is('<')) {
            let mut tree = Tree { tokens, at: at + 1, inline_depth, out: Vec::new() };
            tree.read(&[]);
            at = tree.at;
            out.append(&mut tree.out);
            continue;
        } else if token.kind == Kind::Ident && is_separator(tokens, at + 1) {
            let (segments, end) = straight(tokens, at);
            let line = tokens[end - 1].line;
            if segments.len() > 1 {
                let (is_glob, is_import) = (false, false);
                out.push(NamedPath { segments, line, is_glob, is_import, inline_depth });
            }
            at = end;
            continue;
        }
        at += 1;
    }
    out
}

fn is_separator(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(tokens.get(at..at + 2), Some([a, b]) if a.is(':') && b.is(':'))
}

/// `a::b::c` from `at`: its segments and the first token behind it.
fn straight(tokens: &[Token<'_>], mut at: usize) -> (Vec<String>, usize) {
    let mut segments = vec![tokens[at].text.to_owned()];
    at += 1;
    while is_separator(tokens, at) {
        let Some(next) = tokens.get(at + 2).filter(|next| next.kind == Kind::Ident) else { break };
        segments.push(next.text.to_owned());
        at += 3;
    }
    (segments, at)
}

struct Tree<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    inline_depth: usize,
    out: Vec<NamedPath>,
}

impl Tree<'_, '_> {
    /// Reads one branch of a `use` tree below `prefix`.
    fn read(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        if is_separator(self.tokens, self.at) {
            self.at += 2;
        }
        while let Some(token) = self.tokens.get(self.at) {
            if token.is('{') {
                self.at += 1;
                return self.read_group(&segments);
            } else if token.is('*') {
                self.at += 1;
                return self.leaf(segments, token.line, true);
            } else if token.kind != Kind::Ident {
                return;
            }
            if token.text != "self" || segments.is_empty() {
                segments.push(token.text.to_owned());
            }
            self.at += 1;
            if is_separator(self.tokens, self.at) {
                self.at += 2;
                continue;
            }
            if self.tokens.get(self.at).is_some_and(|next| next.is_ident("as")) {
                self.at += 2;
            }
            return self.leaf(segments, token.line, false);
        }
    }

    fn read_group(&mut self, prefix: &[String]) {
        while let Some(token) = self.tokens.get(self.at) {
            if token.is('}') {
                self.at += 1;
                return;
            } else if token.is(',') {
                self.at += 1;
            } else {
                let before = self.at;
                self.read(prefix);
                if self.at == before {
                    return;
                }
            }
        }
    }

    fn leaf(&mut self, segments: Vec<String>, line: usize, is_glob: bool) {
        let inline_depth = self.inline_depth;
        self.out.push(NamedPath { segments, line, is_glob, is_import: true, inline_depth });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::lex;

    fn paths(text: &str) -> Vec<String> {
        let name =
            |path: NamedPath| path.segments.join("::") + if path.is_glob { "::*" } else { "" };
        named_paths(&lex(text).0).into_iter().map(name).collect()
    }

    #[test]
    fn use_trees_are_written_out() {
        assert_eq!(
            paths("use std::{fs, io::{self, Read as R}, time::*};"),
            ["std::fs", "std::io", "std::io::Read", "std::time::*"]
        );
        assert_eq!(
            paths("pub use self::a::B; use ::x::y; use super::*; use z;"),
            ["self::a::B", "x::y", "super::*", "z"]
        );
    }

    #[test]
    fn paths_in_code_are_found() {
        assert_eq!(
            paths("let a: crate::x::Y<T> = Vec::<u8>::new(); b.c(super::d::<E>())"),
            ["crate::x::Y", "super::d"]
        );
        assert_eq!(
            paths("fn f() -> impl Iterator + use<'_> { std::fs::read(p) }"),
            ["std::fs::read"]
        );
    }

    #[test]
    fn inline_modules_are_counted() {
        let found = named_paths(&lex("use a::b; mod m { use super::c; } use d::e;").0);
        let depths: Vec<_> = found.iter().map(|path| path.inline_depth).collect();
        assert_eq!(depths, [0, 1, 0]);
    }
}
