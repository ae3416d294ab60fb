//! `unsafe` is allowed only at the border to the operating system and to other languages.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const ALLOWED: [&str; 6] = [
    "bench/compare/driver/src/c/",
    "engine/src/env/mapped.rs",
    "engine/src/env/os.rs",
    "engine/src/env/uring.rs",
    "engine/tests/fork.rs",
    "bindings/c/",
];

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files {
        if ALLOWED.iter().any(|path| file.path.starts_with(path)) {
            continue;
        }
        for token in file.tokens.iter().filter(|token| token.text == "unsafe") {
            let places = ALLOWED.join(", ");
            let message = format!("`unsafe` is for {places}; find a safe way or move it there");
            report.error("unsafe", file.path, token.line, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn unsafe_elsewhere_is_an_error() {
        let text = "#![deny(unsafe_code)] // unsafe\nfn f() { unsafe { g() } }";
        let found = errors_of(check, &[("engine/src/cache.rs", text)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("engine/src/cache.rs:2: unsafe"));
        assert_eq!(errors_of(check, &[("engine/src/env/os.rs", text)]), [""; 0]);
        assert_eq!(errors_of(check, &[("bindings/c/src/db.rs", text)]), [""; 0]);
    }
}
