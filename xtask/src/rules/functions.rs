//! How long a function may be: a ratchet. Those that are longer are listed by name and length;
//! the list may only shrink, and nothing on it may grow.

use std::collections::BTreeMap;

use crate::lexer::{Kind, Token};
use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::{RustFile, closing};

const RULE: &str = "function length";
const LIMIT: usize = 70;
/// Lines of `path function lines # reason`.
const LIST: &str = "xtask/long_functions.txt";

pub(crate) fn check(repo: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    let mut listed = listed(repo, report);
    for file in files {
        for (name, line, length) in functions(&file.production()) {
            let allowed = listed.get_mut(&(file.path.to_owned(), name.to_owned()));
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

struct Entry {
    line: usize,
    length: usize,
    longest: usize,
}

fn listed(repo: &Repo, report: &mut Report) -> BTreeMap<(String, String), Entry> {
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
                let entry = Entry { line: at + 1, length, longest: 0 };
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

/// Name, first line and length of each function with a body.
fn functions<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut out = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if !(pair[0].is_ident("fn") && pair[1].kind == Kind::Ident) {
            continue;
        }
        let mut open = at + 2;
        while open < tokens.len() && !tokens[open].is('{') && !tokens[open].is(';') {
            // An array type in the signature has a semicolon of its own.
            let skip = tokens[open].is('(') || tokens[open].is('[');
            open = if skip { closing(tokens, open) + 1 } else { open + 1 };
        }
        if open < tokens.len() && tokens[open].is('{') {
            let last = tokens[closing(tokens, open)].line;
            out.push((pair[1].text, pair[0].line, last - pair[0].line + 1));
        }
    }
    out
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
