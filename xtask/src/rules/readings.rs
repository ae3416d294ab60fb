//! Readings of the clock are not subtracted from each other: any time may pass between the one that
//! a decision was made on and the next, and a difference below zero panics.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "readings";

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files.iter().filter(|file| file.path.starts_with("engine/src/")) {
        let tokens = file.production();
        let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
        for (at, token) in tokens.iter().enumerate() {
            if words[at..].starts_with(&["now", "(", ")"]) && is_subtracted(&words, at) {
                let message = "use `Clock::since` or `Clock::left`, which can't overflow";
                report.error(RULE, file.path, token.line, message.to_owned());
            }
        }
    }
}

/// Returns true for `… now() - …` and `… - a.b.now()`.
fn is_subtracted(words: &[&str], at: usize) -> bool {
    let behind = words.get(at + 3..at + 5).unwrap_or_default();
    let is_path = |word: &&&str| {
        [".", "&", "*"].contains(*word) || word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let before = words[..at].iter().rev().find(|word| !is_path(word));
    behind.first() == Some(&"-") && behind.last() != Some(&">") || before == Some(&"-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(text: &str) -> usize {
        errors_of(check, &[("engine/src/background/log_sync.rs", text)]).len()
    }

    #[test]
    fn subtracting_a_reading_is_an_error() {
        for text in ["due - clock.now()", "self.env.clock.now() - begun", "a() - self.c.now()"] {
            assert_eq!(errors(&format!("fn f() {{ {text}; }}")), 1, "{text}");
        }
    }

    #[test]
    fn all_else_is_fine() {
        for text in [
            "clock.now() + time",
            "let now = clock.now(); due - now",
            "clock.since(begun)",
            "until.saturating_sub(self.now())",
        ] {
            assert_eq!(errors(&format!("fn f() {{ {text}; }}")), 0, "{text}");
        }
        assert_eq!(errors("trait C { fn now() -> Duration; }"), 0);
        assert_eq!(errors("#[cfg(test)]\nmod tests { fn f() { clock.now() - begun; } }"), 0);
    }
}
