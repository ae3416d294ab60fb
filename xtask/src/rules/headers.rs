//! Every Rust file begins with a comment on its purpose.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files {
        let first = file.text.lines().next().unwrap_or_default();
        let says_something = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
        if !says_something {
            let message = "the first line is no `//!`; say what the file is for, its place in the \
                           data's way and the invariants it upholds";
            report.error("header", file.path, 1, message.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn a_file_without_a_header_is_an_error() {
        let files = [("a/mod.rs", "use b;"), ("b.rs", "//!\n"), ("c.rs", "//! What c is for.\n")];
        assert_eq!(errors_of(check, &files).len(), 2);
    }
}
