//! No file names a place that exists on one machine only.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

/// The word is written in two halves, so that this file passes its own rule.
const PLACES: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp/bash", "_jobs"),
];

pub(crate) fn check(repo: &Repo, _: &[RustFile<'_>], report: &mut Report) {
    for (path, text) in repo.texts() {
        for (at, line) in text.lines().enumerate() {
            if let Some(place) = PLACES.into_iter().find(|place| names(line, place)) {
                let message = format!("`{place}` is a path of one machine; write a relative one");
                report.error("machine paths", path, at + 1, message);
            }
        }
    }
}

/// Returns true if `place` begins a path in `line`: `a/place/` and `$X/place/` are other paths.
fn names(line: &str, place: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.)}>]*~".contains(c);
    line.match_indices(place).any(|(at, _)| !line[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn a_path_of_one_machine_is_an_error_in_any_file() {
        for place in PLACES {
            for text in [format!("cd {place}x"), format!("\"{place}\""), format!("[a]({place}b)")] {
                assert_eq!(errors_of(check, &[("a.txt", &text)]).len(), 1, "{text}");
            }
            let inner = format!("docs{place}x https://a.org{place} ${{D}}{place}");
            assert_eq!(errors_of(check, &[("a.txt", &inner)]), [""; 0]);
        }
    }
}
