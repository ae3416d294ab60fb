//! No unfinished business in the tree: neither in code nor in a note to oneself.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

/// The words are written in two halves, so that this file passes its own rule.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// The extensions of text files; of Rust files only the comments are checked.
const EXTENSIONS: [&str; 8] = ["md", "toml", "sh", "py", "c", "h", "java", "yml"];

pub(crate) fn check(repo: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files {
        for pair in file.tokens.windows(2) {
            let found = MACROS.into_iter().find(|name| pair[0].text == *name);
            if let Some(name) = found.filter(|_| pair[1].text == "!") {
                let message = format!("`{name}!` is for the way there; finish it or take it out");
                report.error("unfinished", file.path, pair[0].line, message);
            }
        }
        for comment in &file.comments {
            note(file.path, comment.line, comment.text, report);
        }
    }
    let others = EXTENSIONS.into_iter().flat_map(|extension| repo.texts_with(extension));
    for (path, text) in others {
        for (at, line) in text.lines().enumerate() {
            note(path, at + 1, line, report);
        }
    }
}

fn note(path: &str, line: usize, text: &str, report: &mut Report) {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    if let Some(word) = words.find(|word| NOTES.contains(word)) {
        let message = format!("`{word}`: do it now, or open an issue and name it here instead");
        report.error("unfinished", path, line, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn notes_are_errors_in_comments_and_documents() {
        for note in NOTES {
            let comment = format!("//! A.\n/* b\n {note}: c */\nfn f() {{}}");
            let found = errors_of(check, &[("a.rs", &comment)]);
            assert!(found[0].starts_with("a.rs:3: unfinished"), "{found:?}");
            assert_eq!(errors_of(check, &[("a.md", note)]).len(), 1);
            let literal = format!("fn f() {{ g(\"{note}\") }} // {note}S {note}_LIST");
            assert_eq!(errors_of(check, &[("a.rs", &literal)]), [""; 0]);
        }
    }

    #[test]
    fn macros_of_unfinished_code_are_errors() {
        for name in MACROS {
            let text = format!("fn f() {{ {name}!() }}");
            assert_eq!(errors_of(check, &[("a.rs", &text)]).len(), 1);
        }
        assert_eq!(errors_of(check, &[("a.rs", "// todo!()\nfn todo() {}")]), [""; 0]);
    }
}
