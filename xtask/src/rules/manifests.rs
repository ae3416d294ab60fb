//! Every dependency has its reason in a comment, behind it or in the line above.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

pub(crate) fn check(repo: &Repo, _: &[RustFile<'_>], report: &mut Report) {
    for (path, text) in repo.texts_with("toml") {
        if path.rsplit('/').next() != Some("Cargo.toml") {
            continue;
        }
        let mut in_dependencies = false;
        let mut explained = false;
        let mut nested = 0i32;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let (code, comment) = split_comment(line);
            if nested == 0 && code.starts_with('[') {
                // `[dependencies.x]` is a dependency by itself.
                in_dependencies = is_dependency_table(code, "dependencies]");
                let is_single = is_dependency_table(code, "dependencies.");
                complain(is_single && !explained && comment.is_none(), path, at, code, report);
            } else if nested == 0 && in_dependencies && !code.is_empty() {
                let inherits = code.replace(' ', "").contains("workspace=true");
                let reason = explained || inherits || comment.is_some();
                complain(!reason, path, at, code.split(['=', '.']).next().unwrap_or(code), report);
            }
            nested += depth(code);
            explained = code.is_empty() && comment.is_some();
        }
    }
}

fn is_dependency_table(header: &str, ending: &str) -> bool {
    let table = header.trim_start_matches('[');
    let kinds = ["", "dev-", "build-", "workspace."];
    let table = match table.strip_prefix("target.") {
        Some(rest) => rest.rsplit_once("'.").map_or(rest, |(_, table)| table),
        None => table,
    };
    kinds.iter().any(|kind| table.strip_prefix(kind).is_some_and(|rest| rest.starts_with(ending)))
}

fn complain(wrong: bool, path: &str, at: usize, name: &str, report: &mut Report) {
    if wrong {
        let message = format!("`{}` gives no reason; add `# why` behind it", name.trim());
        report.error("dependencies", path, at + 1, message);
    }
}

/// Splits a line into code and comment; a `#` in quotes begins no comment.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => {
                let comment = line[at + 1..].trim();
                return (line[..at].trim(), Some(comment).filter(|comment| !comment.is_empty()));
            }
            _ => {}
        }
    }
    (line, None)
}

fn depth(code: &str) -> i32 {
    let count = |set: [char; 2]| code.matches(|c| set.contains(&c)).count() as i32;
    count(['[', '{']) - count([']', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(text: &str) -> Vec<String> {
        errors_of(check, &[("a/Cargo.toml", text)])
    }

    #[test]
    fn a_dependency_without_a_reason_is_an_error() {
        let found = errors("[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\nc = \"1\" # why\n");
        assert_eq!(
            found,
            ["a/Cargo.toml:4: dependencies: `b` gives no reason; add `# why` behind it"]
        );
        for table in ["[dev-dependencies]", "[target.'cfg(a = \"x.y\")'.dependencies]"] {
            assert_eq!(errors(&format!("{table}\nb = \"1\"")).len(), 1, "{table}");
        }
        assert_eq!(errors("[workspace.dependencies]\nb = \"1\" #\n").len(), 1);
        assert_eq!(errors("[dependencies.b]\nversion = \"1\"\n").len(), 1);
    }

    #[test]
    fn reasons_stand_behind_or_above() {
        let text = "[dependencies]\n# why\nb = { version = \"1\", features = [\n \"#\",\n] }\n\
                    c.workspace = true\nd = { workspace = true }\n# why\n[build-dependencies.e]\n\
                    version = \"1\"\n[features]\nf = []\n";
        assert_eq!(errors(text), [""; 0]);
    }
}
