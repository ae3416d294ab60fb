//! No Rust file lies about that the compiler never sees.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files.iter().filter(|file| !file.is_reached) {
        let message = "no `mod` line leads here; add one or delete the file".to_owned();
        report.error("dead file", file.path, 0, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn a_file_that_no_module_names_is_an_error() {
        let files = [
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "mod b; // mod c;"),
            ("a/src/b.rs", ""),
            ("a/src/c.rs", ""),
        ];
        let found = errors_of(check, &files);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a/src/c.rs: dead file"));
    }
}
