//! Limits the length of files; test code does not count.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "file size";
const LOOK_FOR_A_SEAM: usize = 500;
const HARD_LIMIT: usize = 800;

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files {
        let lines = file.production_lines();
        if lines > HARD_LIMIT {
            let message = format!("{lines} production lines, the limit is {HARD_LIMIT}; split it");
            report.error(RULE, file.path, 0, message);
        } else if lines > LOOK_FOR_A_SEAM {
            let message = format!("{lines} production lines; look for a seam");
            report.note(RULE, file.path, 0, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(production: usize, test: usize) -> usize {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(test));
        let text = "// a\n".repeat(production) + &tests;
        errors_of(check, &[("engine/src/a.rs", &text)]).len()
    }

    #[test]
    fn only_production_lines_count() {
        assert_eq!(errors(801, 0), 1);
        assert_eq!(errors(800, 1000), 0);
    }

    #[test]
    fn a_long_file_is_noted_before_it_is_refused() {
        let text = "\n".repeat(501);
        let repo = Repo::of(&[("a.rs", &text)]);
        let mut report = Report::default();
        check(&repo, &repo.rust_files(), &mut report);
        assert_eq!((report.errors.len(), report.notes.len()), (0, 1));
    }
}
