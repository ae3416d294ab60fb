//! One Rust file as the rules see it: its syntax, its tokens and comments, and which lines are
//! test code.

use std::ops::RangeInclusive;

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token as token};

/// A Rust file.
pub(crate) struct RustFile<'a> {
    /// Path from the root of the repository.
    pub(crate) path: &'a str,
    /// The whole text.
    pub(crate) text: &'a str,
    /// The items; empty if the file cannot be parsed.
    pub(crate) syntax: syn::File,
    /// All tokens in order, including those in macros.
    pub(crate) tokens: Vec<SourceText<'a>>,
    /// The lines of all comments, including documentation.
    pub(crate) comments: Vec<SourceText<'a>>,
    /// Line and reason if the file cannot be parsed.
    pub(crate) broken: Option<(usize, String)>,
    /// True if the file is a module of a crate.
    pub(crate) is_reached: bool,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A token (a group is its two brackets and what is between them), or one line of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceText<'a> {
    /// The text as it is written.
    pub(crate) text: &'a str,
    /// The line, counted from 1.
    pub(crate) line: usize,
}

impl<'a> RustFile<'a> {
    /// Parses `text`.
    pub(crate) fn new(path: &'a str, text: &'a str) -> Self {
        let (attrs, items) = (Vec::new(), Vec::new());
        let nothing = syn::File { shebang: None, frontmatter: None, attrs, items };
        let parsed = text.parse::<TokenStream>().map_err(syn::Error::from);
        let parsed = parsed.and_then(|stream| Ok((syn::parse2(stream.clone())?, stream)));
        let (syntax, stream, broken) = match parsed {
            Ok((syntax, stream)) => (syntax, stream, None),
            Err(error) => {
                let line = error.span().start().line;
                (nothing, TokenStream::new(), Some((line, error.to_string())))
            }
        };
        let mut tokens = Vec::new();
        flatten(text, stream, &mut tokens);
        let mut tests = TestCode::default();
        tests.visit_file(&syntax);
        let comments = if broken.is_none() { comments(text, &tokens) } else { Vec::new() };
        let test_lines = tests.lines;
        RustFile { path, text, syntax, tokens, comments, broken, is_reached: false, test_lines }
    }

    /// Marks the file as part of a crate; with `is_test`, all of it is compiled for tests only.
    pub(crate) fn reached(&mut self, is_test: bool) {
        self.is_reached = true;
        if is_test {
            self.test_lines = vec![1..=usize::MAX];
        }
    }

    /// Returns true if the line is compiled for tests only.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Returns the number of lines that are not test code.
    pub(crate) fn production_lines(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.is_test_line(*line)).count()
    }

    /// Returns the tokens that are not test code.
    pub(crate) fn production(&self) -> Vec<SourceText<'a>> {
        self.tokens.iter().filter(|token| !self.is_test_line(token.line)).copied().collect()
    }
}

/// Puts all tokens in one row. Documentation, which the parser turns into attributes, is left out.
fn flatten<'a>(text: &'a str, stream: TokenStream, out: &mut Vec<SourceText<'a>>) {
    for tree in stream {
        let source = |span: proc_macro2::Span| SourceText {
            text: &text[span.byte_range()],
            line: span.start().line,
        };
        let whole = source(tree.span());
        match tree {
            _ if whole.text.starts_with("//") || whole.text.starts_with("/*") => {}
            TokenTree::Group(group) => {
                out.push(source(group.span_open()));
                flatten(text, group.stream(), out);
                out.push(source(group.span_close()));
            }
            _ => out.push(whole),
        }
    }
}

/// Returns the lines between the tokens that are not blank.
fn comments<'a>(text: &'a str, tokens: &[SourceText<'a>]) -> Vec<SourceText<'a>> {
    let (mut out, mut at, mut line) = (Vec::new(), 0, 1);
    let end = SourceText { text: &text[text.len()..], line: 0 };
    for token in tokens.iter().chain([&end]) {
        let start = token.text.as_ptr().addr() - text.as_ptr().addr();
        for (number, gap) in text[at..start].split('\n').enumerate() {
            if !gap.trim().is_empty() {
                out.push(SourceText { text: gap.trim(), line: line + number });
            }
        }
        at = start + token.text.len();
        line = token.line + token.text.matches('\n').count();
    }
    out
}

/// A visitor that finds the lines of all code that an attribute limits to tests.
#[derive(Default)]
struct TestCode<'ast> {
    /// The nodes around the current place, the innermost last.
    around: Vec<&'ast dyn Spanned>,
    lines: Vec<RangeInclusive<usize>>,
}

/// A node that an attribute can stand before.
macro_rules! nodes_with_attributes {
    ($($visit:ident: $node:ident,)*) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            self.around.push(node);
            visit::$visit(self, node);
            self.around.pop();
        })*
    };
}

impl<'ast> Visit<'ast> for TestCode<'ast> {
    nodes_with_attributes! {
        visit_item: Item,
        visit_impl_item: ImplItem,
        visit_trait_item: TraitItem,
        visit_foreign_item: ForeignItem,
        visit_stmt: Stmt,
        visit_expr: Expr,
        visit_arm: Arm,
        visit_field: Field,
        visit_field_value: FieldValue,
        visit_field_pat: FieldPat,
        visit_variant: Variant,
        visit_fn_arg: FnArg,
        visit_generic_param: GenericParam,
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if requires_test(&attribute.meta, true) {
            let lines = self.around.last().map(|node| {
                let span = node.span();
                span.start().line..=span.end().line
            });
            // Before nothing: an inner attribute of the whole file.
            self.lines.push(lines.unwrap_or(1..=usize::MAX));
        }
    }
}

/// Returns true if an attribute, or a condition in it, holds in test builds only: `test`,
/// `cfg(test)`, `all(test, …)`, `any(test)`.
fn requires_test(meta: &Meta, is_attribute: bool) -> bool {
    let Meta::List(list) = meta else { return meta.path().is_ident("test") };
    let conditions = list.parse_args_with(Punctuated::<Meta, token![,]>::parse_terminated);
    let requires: Vec<bool> =
        conditions.into_iter().flatten().map(|inner| requires_test(&inner, false)).collect();
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("cfg") if is_attribute => requires == [true],
        Some("all") if !is_attribute => requires.contains(&true),
        Some("any") if !is_attribute => !requires.contains(&false),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(text: &str) -> Vec<usize> {
        let file = RustFile::new("x.rs", text);
        assert_eq!(file.broken, None);
        (1..=text.lines().count()).filter(|line| file.is_test_line(*line)).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text =
            "//! a\nuse b /* c\n /* d */ */ ::e;\n/// f\nconst G: &str = r#\"h // \"\n\"#; // i\n";
        let file = RustFile::new("x.rs", text);
        let words = |pieces: &[SourceText<'_>]| -> Vec<(String, usize)> {
            pieces.iter().map(|piece| (piece.text.to_owned(), piece.line)).collect()
        };
        let expected = [("//! a", 1), ("/* c", 2), ("/* d */ */", 3), ("/// f", 4), ("// i", 6)];
        assert_eq!(words(&file.comments), expected.map(|(text, line)| (text.to_owned(), line)));
        let last = file.tokens.len() - 2;
        assert_eq!(file.tokens[last], SourceText { text: "r#\"h // \"\n\"#", line: 5 });
        assert_eq!(file.tokens[..3].iter().map(|token| token.text).collect::<String>(), "useb:");
    }

    #[test]
    fn what_cannot_be_parsed_is_told_with_its_line() {
        for text in ["fn a() {}\nfn (", "\n\"abc", "\nfn a() { /* b"] {
            assert_eq!(RustFile::new("x.rs", text).broken.unwrap().0, 2, "{text}");
        }
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
