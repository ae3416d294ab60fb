//! Which Rust files the compiler reaches: from the roots of each crate along `mod` lines.

use std::collections::BTreeMap;

use crate::lexer::{Kind, Token};
use crate::repo::Repo;
use crate::rust_file::{RustFile, closing};

/// Every file that is reached, and whether it is compiled for tests only.
pub(crate) fn reachable(repo: &Repo) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    for manifest in repo.paths().filter(|path| path.rsplit('/').next() == Some("Cargo.toml")) {
        let folder = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        for (root, is_test) in roots(repo, folder) {
            visit(repo, &root, true, is_test, &mut found);
        }
    }
    found
}

/// The files that cargo compiles as crates of the package in `folder`.
fn roots(repo: &Repo, folder: &str) -> Vec<(String, bool)> {
    let named = repo.text(&format!("{folder}Cargo.toml")).unwrap_or_default();
    let named: Vec<&str> = named.lines().filter_map(target_path).collect();
    let inside = repo.rust_texts().filter_map(|(path, _)| Some((path, path.strip_prefix(folder)?)));
    let mut out = Vec::new();
    for (path, local) in inside {
        let parts: Vec<&str> = local.split('/').collect();
        let is_root = match parts.as_slice() {
            ["src", "lib.rs" | "main.rs"] | ["build.rs"] => true,
            ["src", "bin", _] | ["src", "bin", _, "main.rs"] => true,
            ["tests" | "benches" | "examples", _] => true,
            ["tests" | "benches" | "examples", _, "main.rs"] => true,
            _ => named.contains(&local),
        };
        if is_root {
            out.push((path.to_owned(), matches!(parts[0], "tests" | "benches")));
        }
    }
    out
}

/// `path = "src/x.rs"` of a target in a manifest.
fn target_path(line: &str) -> Option<&str> {
    let value = line.trim().strip_prefix("path")?.trim_start().strip_prefix('=')?.trim_start();
    let path = value.strip_prefix('"')?.split('"').next()?;
    path.ends_with(".rs").then_some(path)
}

fn visit(
    repo: &Repo,
    path: &str,
    is_root: bool,
    is_test: bool,
    found: &mut BTreeMap<String, bool>,
) {
    // Reached for production once is reached for production; otherwise the first visit counts.
    match found.get(path) {
        Some(known) if !*known || is_test => return,
        _ => found.insert(path.to_owned(), is_test),
    };
    let Some(text) = repo.text(path) else { return };
    let file = RustFile::new(path, text, is_test);
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let children = if is_root || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
    for child in declarations(&file) {
        let at = child.inside.iter().fold(children.clone(), |at, part| join(&at, part));
        let candidates = match child.path {
            Some(given) => vec![join(folder, given)],
            None => ["", "/mod"].map(|end| join(&at, &format!("{}{end}.rs", child.name))).to_vec(),
        };
        let is_test = is_test || file.is_test_line(child.line);
        for candidate in candidates.iter().filter(|candidate| repo.has_file(candidate)) {
            visit(repo, candidate, false, is_test, found);
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

struct Declaration<'a> {
    name: &'a str,
    line: usize,
    /// The inline modules around it.
    inside: Vec<&'a str>,
    /// What a `path` attribute says.
    path: Option<&'a str>,
}

/// The `mod name;` lines of a file.
fn declarations<'a>(file: &RustFile<'a>) -> Vec<Declaration<'a>> {
    let tokens = &file.tokens;
    let mut out = Vec::new();
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut path = None;
    for at in 0..tokens.len() {
        open.retain(|(_, close)| at <= *close);
        if tokens[at].is('#') && tokens.get(at + 1).is_some_and(|next| next.is('[')) {
            path = path_attribute(&tokens[at + 2..closing(tokens, at + 1)]).or(path);
        }
        if !tokens[at].is_ident("mod") {
            continue;
        }
        let [name, next, ..] = &tokens[at + 1..] else { continue };
        if name.kind == Kind::Ident && next.is('{') {
            open.push((name.text, closing(tokens, at + 2)));
        } else if name.kind == Kind::Ident && next.is(';') {
            let inside = open.iter().map(|(name, _)| *name).collect();
            out.push(Declaration { name: name.text, line: name.line, inside, path: path.take() });
        }
    }
    out
}

fn path_attribute<'a>(inner: &[Token<'a>]) -> Option<&'a str> {
    match inner {
        [word, equals, value] if word.is_ident("path") && equals.is('=') => {
            Some(value.text.trim_matches('"'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed_through_folders_inline_modules_and_paths() {
        let repo = Repo::of(&[
            ("e/Cargo.toml", "[[bin]]\npath = \"tool/run.rs\""),
            ("e/src/lib.rs", "mod a;\nmod b { mod c; }\n#[path = \"odd.rs\"]\nmod d;"),
            ("e/src/a/mod.rs", "#[cfg(test)]\nmod tests;\nmod inner;"),
            ("e/src/a/inner.rs", "mod deep;"),
            ("e/src/a/inner/deep.rs", ""),
            ("e/src/a/tests.rs", "mod helper;"),
            ("e/src/a/tests/helper.rs", ""),
            ("e/src/b/c.rs", ""),
            ("e/src/odd.rs", ""),
            ("e/src/dead.rs", ""),
            ("e/tests/t.rs", "mod common;"),
            ("e/tests/common/mod.rs", ""),
            ("e/tool/run.rs", ""),
        ]);
        let found = reachable(&repo);
        let tests: Vec<_> = found.iter().filter(|(_, test)| **test).map(|(path, _)| path).collect();
        assert_eq!(
            tests,
            [
                "e/src/a/tests.rs",
                "e/src/a/tests/helper.rs",
                "e/tests/common/mod.rs",
                "e/tests/t.rs"
            ]
        );
        assert!(!found.contains_key("e/src/dead.rs"));
        assert_eq!(found.len(), 11);
    }
}
