//! Each type has a name of its own, so that a search for the name finds one thing. The rule
//! does not apply to types of tests and of macros.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "type names";

/// The crates within which the names of types must differ.
const SOURCES: [&str; 5] =
    ["engine/src/", "bindings/c/src/", "cli/src/", "bench/instructions/src/", "xtask/src/"];

/// Names that stand for one thing in several builds, and why.
const ALLOWED: [(&str, &str); 1] =
    [("Seat", "of a simulation; a build without simulations has an empty one in its place")];

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    let mut first: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for file in files.iter().filter(|file| SOURCES.iter().any(|dir| file.path.starts_with(dir))) {
        let mut types = TypeNames::default();
        types.visit_file(&file.syntax);
        for (name, line) in types.found {
            if file.is_test_line(line) || ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
                continue;
            }
            let (path, at) = *first.entry(name.clone()).or_insert((file.path, line));
            if (path, at) != (file.path, line) {
                let message = format!("{path}:{at} also defines a `{name}`; rename one of them");
                report.error(RULE, file.path, line, message);
            }
        }
    }
}

/// Finds the names of types and their lines. Associated types are named by their trait.
#[derive(Default)]
struct TypeNames {
    found: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        self.found.extend(name.map(|name| (name.to_string(), name.span().start().line)));
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(a: &str, b: &str) -> Vec<String> {
        errors_of(check, &[("engine/src/base/a.rs", a), ("cli/src/b.rs", b)])
    }

    #[test]
    fn a_second_type_of_a_name_is_an_error() {
        let found = errors("enum Place {}", "\nfn f() { struct Place; }");
        assert_eq!(
            found,
            ["engine/src/base/a.rs:1: type names: cli/src/b.rs:2 also defines a `Place`; rename \
                 one of them"]
        );
        for text in ["trait Place {}", "type Place = u8;", "union Place { a: u8 }"] {
            assert_eq!(errors(text, "mod m { pub struct Place; }").len(), 1, "{text}");
        }
    }

    #[test]
    fn tests_associated_types_and_the_listed_are_fine() {
        assert_eq!(errors("struct A;", "#[cfg(test)]\nmod tests { struct A; }"), [""; 0]);
        assert_eq!(errors("struct Item;", "impl Iterator for X { type Item = u8; }"), [""; 0]);
        assert_eq!(errors("struct Seat;", "enum Seat {}"), [""; 0]);
        assert_eq!(errors("struct A;", "use x::A;\nfn f(a: A) {}"), [""; 0]);
    }
}
