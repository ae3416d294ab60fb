//! Limits the length of functions by a ratchet: longer ones are listed by name and length; the list
//! may only shrink, and no function on it may grow.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "function length";
const LIMIT: usize = 70;
/// Lines of `path function lines # reason`.
const LIST: &str = "xtask/long_functions.txt";

pub(crate) fn check(repo: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    let mut listed = listed(repo, report);
    for file in files {
        let mut functions = Functions::default();
        functions.visit_file(&file.syntax);
        for (name, line, length) in functions.0 {
            if file.is_test_line(line) {
                continue;
            }
            let allowed = listed.get_mut(&(file.path.to_owned(), name.clone()));
            let limit = allowed.as_ref().map_or(LIMIT, |entry| entry.length);
            if length > limit {
                let message =
                    format!("`{name}` has {length} lines, the limit is {limit}; split it");
                report.error(RULE, file.path, line, message);
            }
            if let Some(entry) = allowed {
                entry.longest = entry.longest.max(length);
            }
        }
    }
    for ((path, name), entry) in listed {
        if entry.longest <= LIMIT {
            let message = format!("`{name}` of {path} needs no entry any more; delete this line");
            report.error(RULE, LIST, entry.line, message);
        } else if entry.longest < entry.length {
            let message = format!("`{name}` of {path} has {} lines now; write that", entry.longest);
            report.error(RULE, LIST, entry.line, message);
        }
    }
}

struct ListedFunction {
    line: usize,
    length: usize,
    longest: usize,
}

fn listed(repo: &Repo, report: &mut Report) -> BTreeMap<(String, String), ListedFunction> {
    let mut out = BTreeMap::new();
    for (at, text) in repo.text(LIST).unwrap_or_default().lines().enumerate() {
        let (entry, reason) = text.split_once('#').unwrap_or((text, ""));
        let words: Vec<&str> = entry.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [path, name, length]
                if !reason.trim().is_empty() && length.parse::<usize>().is_ok() =>
            {
                let length = length.parse().unwrap_or(LIMIT);
                let entry = ListedFunction { line: at + 1, length, longest: 0 };
                out.insert((path.to_string(), name.to_string()), entry);
            }
            _ => {
                let message = "not `path function lines # reason`; write it so".to_owned();
                report.error(RULE, LIST, at + 1, message);
            }
        }
    }
    out
}

/// Returns name, first line and length of each function with a body.
#[derive(Default)]
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        self.0.push((signature.ident.to_string(), first, last - first + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}(a: [u8; 2]) -> [u8; 2] {{\n{}}}\n", "\n".repeat(lines - 2))
    }

    fn errors(text: &str, list: &str) -> Vec<String> {
        errors_of(check, &[("a.rs", text), (LIST, list)])
    }

    #[test]
    fn a_function_over_the_limit_is_an_error() {
        assert_eq!(errors(&function("f", 70), ""), [""; 0]);
        let found = errors(&(function("e", 70) + &function("f", 71)), "");
        assert_eq!(
            found,
            ["a.rs:71: function length: `f` has 71 lines, the limit is 70; split it"]
        );
        let test = format!("#[cfg(test)]\nmod tests {{ {} }}", function("f", 90));
        assert_eq!(errors(&test, ""), [""; 0]);
    }

    #[test]
    fn the_list_only_shrinks() {
        let long = function("f", 80);
        assert_eq!(errors(&long, "a.rs f 80 # one table\n"), [""; 0]);
        assert!(errors(&long, "a.rs f 79 # one table")[0].contains("the limit is 79"));
        assert!(errors(&long, "a.rs f 85 # one table")[0].contains("has 80 lines now"));
        assert!(errors(&function("f", 9), "a.rs f 80 # x")[0].contains("delete this line"));
        assert!(errors("", "a.rs g 80 # x")[0].contains("delete this line"));
        assert!(errors("", "a.rs g 80")[0].contains("reason"));
    }
}
