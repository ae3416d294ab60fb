//! Finds the Rust files that the compiler reaches from the roots of each crate along `mod` lines.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, ExprLit, ItemMod, Lit, Meta};

use crate::repo::Repo;
use crate::rust_file::RustFile;

/// Returns every file that is reached, and whether it is compiled for tests only.
pub(crate) fn reachable<'a>(repo: &Repo, files: &[RustFile<'a>]) -> BTreeMap<&'a str, bool> {
    let files = files.iter().map(|file| (file.path, file)).collect();
    let mut walk = ModuleWalk { files, found: BTreeMap::new() };
    for manifest in repo.paths().filter(|path| path.rsplit('/').next() == Some("Cargo.toml")) {
        let folder = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        for (root, is_test) in roots(repo, folder) {
            walk.visit(&root, true, is_test);
        }
    }
    walk.found
}

/// Returns the files that cargo compiles as crates of the package in `folder`.
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

/// Returns the paths `path = "src/x.rs"` of the targets in a manifest.
fn target_path(line: &str) -> Option<&str> {
    let value = line.trim().strip_prefix("path")?.trim_start().strip_prefix('=')?.trim_start();
    let path = value.strip_prefix('"')?.split('"').next()?;
    path.ends_with(".rs").then_some(path)
}

struct ModuleWalk<'r, 'a> {
    files: BTreeMap<&'a str, &'r RustFile<'a>>,
    found: BTreeMap<&'a str, bool>,
}

impl ModuleWalk<'_, '_> {
    fn visit(&mut self, path: &str, is_root: bool, is_test: bool) {
        let Some((&path, &file)) = self.files.get_key_value(path) else { return };
        // Reached for production once is reached for production; otherwise the first visit counts.
        match self.found.get(path) {
            Some(known) if !*known || is_test => return,
            _ => self.found.insert(path, is_test),
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        let children =
            if is_root || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
        let mut declarations = Declarations::default();
        declarations.visit_file(&file.syntax);
        for (inside, module) in declarations.found {
            let is_test = is_test || file.is_test_line(module.mod_token.span.start().line);
            if let Some(given) = given_path(module) {
                self.visit(&join(folder, &given), false, is_test);
                continue;
            }
            let at = inside.iter().fold(children.clone(), |at, part| join(&at, part));
            for end in ["", "/mod"] {
                self.visit(&join(&at, &format!("{}{end}.rs", module.ident)), false, is_test);
            }
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// A visitor that collects the `mod name;` lines of a file.
#[derive(Default)]
struct Declarations<'ast> {
    /// The inline modules around the current place.
    inside: Vec<String>,
    /// The modules found, each with the inline modules around it.
    found: Vec<(Vec<String>, &'ast ItemMod)>,
}

impl<'ast> Visit<'ast> for Declarations<'ast> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if module.content.is_none() {
            self.found.push((self.inside.clone(), module));
            return;
        }
        self.inside.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.inside.pop();
    }
}

/// Returns the path that `#[path = "…"]` before a module gives, if any.
fn given_path(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
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
        let files: Vec<_> =
            repo.rust_texts().map(|(path, text)| RustFile::new(path, text)).collect();
        let found = reachable(&repo, &files);
        let tests: Vec<_> =
            found.iter().filter(|(_, test)| **test).map(|(path, _)| *path).collect();
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
