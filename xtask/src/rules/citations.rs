//! Every invariant of the design is cited where the engine upholds it, and in a test.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "invariants";
const COUNT: usize = 12;
const TABLE: &str = "docs/invariants.md";

pub(crate) fn check(repo: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    // Until the engine is whole, what upholds the others may not be there yet.
    if !repo.engine_is_complete() {
        return;
    }
    for number in 1..=COUNT {
        if !files.iter().any(|file| upholds(file, number)) {
            let message = format!("no comment in engine/src says `I{number}` where it is upheld");
            report.error(RULE, TABLE, 0, message + "; add one there");
        }
        if !files.iter().any(|file| tests(file, number)) {
            let message = format!("no test cites I{number}; name one `i{number:02}_…` that fails");
            report.error(RULE, TABLE, 0, message + " when the invariant is broken");
        }
    }
}

fn upholds(file: &RustFile<'_>, number: usize) -> bool {
    let word = format!("I{number}");
    file.path.starts_with("engine/src/")
        && file
            .comments
            .iter()
            .any(|comment| !file.is_test_line(comment.line) && has_word(comment.text, &word))
}

/// A comment with `I5`, a name such as `i5_free_last` or `i05_…` of a test or of its file.
fn tests(file: &RustFile<'_>, number: usize) -> bool {
    let word = format!("I{number}");
    let prefixes = [format!("i{number}_"), format!("i{number:02}_")];
    let is_named = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let file_name = file.path.rsplit('/').next().unwrap_or_default();
    let in_comment = |line, text| file.is_test_line(line) && has_word(text, &word);
    file.comments.iter().any(|comment| in_comment(comment.line, comment.text))
        || file.tokens.iter().any(|token| file.is_test_line(token.line) && is_named(token.text))
        || (is_named(file_name) && file.is_test_line(1))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(source: &str, tests: &str) -> Vec<String> {
        errors_of(
            check,
            &[
                ("engine/Cargo.toml", ""),
                ("engine/src/lib.rs", "mod db;"),
                ("engine/src/db/mod.rs", source),
                ("engine/tests/crash.rs", tests),
            ],
        )
    }

    fn all() -> String {
        (1..=COUNT).map(|number| format!("// I{number}: held.\n")).collect()
    }

    #[test]
    fn an_invariant_nobody_upholds_or_tests_is_an_error() {
        assert_eq!(errors(&all(), &all()), [""; 0]);
        let without = all().replace("I7:", "");
        assert!(errors(&without, &all())[0].contains("no comment in engine/src says `I7`"));
        assert!(errors(&all(), &without)[0].contains("no test cites I7"));
        // I11 is not I1.
        let without = all().replace("I1:", "");
        assert_eq!(errors(&without, &without).len(), 2);
    }

    #[test]
    fn the_name_of_a_test_cites_and_test_code_upholds_nothing() {
        let named = all().replace("// I7: held.", "fn i07_flipped_bits() {}");
        assert_eq!(errors(&all(), &named), [""; 0]);
        let inside = format!("#[cfg(test)]\nmod tests {{\n{}}}", all());
        assert_eq!(errors(&inside, "").len(), COUNT);
    }

    #[test]
    fn a_partial_engine_is_not_judged() {
        assert_eq!(errors_of(check, &[("engine/src/lib.rs", "")]), [""; 0]);
    }
}
