//! The paths that code names, in `use` lines and elsewhere, written out in full:
//! `use std::{fs, time::Instant}` names `std::fs` and `std::time::Instant`.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::UseTree;
use syn::visit::{self, Visit};

/// A path of at least two segments, or any path that is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// The segments, such as `["std", "fs"]`; `super` and `self` are not resolved yet.
    pub(crate) segments: Vec<String>,
    /// The line in which it ends.
    pub(crate) line: usize,
    /// True for `path::*`.
    pub(crate) is_glob: bool,
    /// True if it is in a `use` line.
    pub(crate) is_import: bool,
    /// Number of inline modules around it.
    pub(crate) inline_depth: usize,
}

/// Returns all paths in this file, including those in test code.
pub(crate) fn named_paths(syntax: &syn::File) -> Vec<NamedPath> {
    let mut paths = Paths::default();
    paths.visit_file(syntax);
    paths.found
}

#[derive(Default)]
struct Paths {
    inline_depth: usize,
    found: Vec<NamedPath>,
}

impl Paths {
    fn add(&mut self, segments: Vec<String>, end: Span, is_glob: bool, is_import: bool) {
        if is_import || segments.len() > 1 {
            let (line, inline_depth) = (end.start().line, self.inline_depth);
            self.found.push(NamedPath { segments, line, is_glob, is_import, inline_depth });
        }
    }

    fn add_use(&mut self, tree: &UseTree, mut segments: Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                segments.push(path.ident.to_string());
                self.add_use(&path.tree, segments);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_use(item, segments.clone()));
            }
            UseTree::Glob(glob) => self.add(segments, glob.star_token.span, true, true),
            UseTree::Name(syn::UseName { ident })
            | UseTree::Rename(syn::UseRename { ident, .. }) => {
                if ident != "self" || segments.is_empty() {
                    segments.push(ident.to_string());
                }
                self.add(segments, ident.span(), false, true);
            }
        }
    }

    /// Collects each `a::b::c` in the arguments of a macro, whose syntax is not known.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::<proc_macro2::Ident>::new(), 0);
        for tree in tokens {
            let goes_on = colons == 2;
            colons = match &tree {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons + 1,
                _ => 0,
            };
            match tree {
                TokenTree::Ident(word) if goes_on => path.push(word),
                _ if colons > 0 => {}
                other => {
                    self.add_words(std::mem::take(&mut path));
                    match other {
                        TokenTree::Ident(word) => path.push(word),
                        TokenTree::Group(group) => self.add_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.add_words(path);
    }

    fn add_words(&mut self, words: Vec<proc_macro2::Ident>) {
        let Some(last) = words.last().map(|word| word.span()) else { return };
        self.add(words.iter().map(ToString::to_string).collect(), last, false, false);
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inline_depth += 1;
        visit::visit_item_mod(self, module);
        self.inline_depth -= 1;
    }

    fn visit_item_use(&mut self, line: &'ast syn::ItemUse) {
        self.add_use(&line.tree, Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add_words(path.segments.iter().map(|segment| segment.ident.clone()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let name =
            |path: NamedPath| path.segments.join("::") + if path.is_glob { "::*" } else { "" };
        named_paths(&syn::parse_file(text).unwrap()).into_iter().map(name).collect()
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
            paths("fn f() { let a: crate::x::Y<T> = V::<u8>::new(b::C); e.g(super::d::<E>()) }"),
            ["crate::x::Y", "V::new", "b::C", "super::d"]
        );
        assert_eq!(
            paths("fn f() -> impl Iterator + use<'_> { std::fs::read(p) }"),
            ["std::fs::read"]
        );
    }

    #[test]
    fn paths_that_macros_are_given_are_found() {
        assert_eq!(
            paths("fn f() { assert!(a == b::c(d::E::<f::G>::h), \"i::j\"); k::l![m: n, ::o::p] }"),
            ["b::c", "d::E", "f::G", "k::l", "o::p"]
        );
    }

    #[test]
    fn inline_modules_are_counted() {
        let text = "use a::b; mod m { use super::c; } use d::e;";
        let found = named_paths(&syn::parse_file(text).unwrap());
        let depths: Vec<_> = found.iter().map(|path| path.inline_depth).collect();
        assert_eq!(depths, [0, 1, 0]);
    }
}
