//! No line of code is wider than a reader's window, and Rust is indented with spaces.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const WIDTH: usize = 100;
const EXTENSIONS: [&str; 6] = ["rs", "py", "sh", "c", "h", "java"];

pub(crate) fn check(repo: &Repo, _: &[RustFile<'_>], report: &mut Report) {
    let code = EXTENSIONS.into_iter().flat_map(|extension| repo.texts_with(extension));
    for (path, text) in code {
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > WIDTH {
                let message = format!("{columns} columns, the limit is {WIDTH}; break the line");
                report.error("columns", path, at + 1, message);
            }
            if line.contains('\t') && path.ends_with(".rs") {
                let message = "a tab; use spaces, or `\\t` in a literal".to_owned();
                report.error("tabs", path, at + 1, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn wide_lines_are_errors_counted_in_characters() {
        let (fits, wide) = ("é".repeat(100), "é".repeat(101));
        assert_eq!(errors_of(check, &[("a.rs", &fits), ("b.md", &wide)]), [""; 0]);
        assert_eq!(errors_of(check, &[("a.rs", &wide), ("c.py", &wide)]).len(), 2);
    }

    #[test]
    fn tabs_are_errors_in_rust() {
        assert_eq!(errors_of(check, &[("a.rs", "\tfn"), ("b.sh", "\tls")]).len(), 1);
    }
}
