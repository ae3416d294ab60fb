//! Golden cases for unit tests of deciders: text files that hold facts and the decision.
//!
//! A case is some lines of facts, a line `----`, and the decision. Cases are separated by empty
//! lines; lines that begin with `#` say what the case shows. `REWRITE=1 cargo test -p cleavedb
//! --lib golden` writes the decisions into the files, for review as a diff.

use std::path::Path;

/// Runs the cases of `file`, a path below `engine/src`: `decide` turns facts into a decision.
/// Panics at the first decision that is not the one in the file.
pub fn golden(file: &str, decide: impl Fn(&[&str]) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let found = rewritten(&text, decide);
    assert!(!found.trim().is_empty(), "{file} has no cases");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &found).unwrap();
        return;
    }
    if let Some((number, expected, found)) = first_difference(&text, &found) {
        panic!("{file}:{number} expects\n  {expected}\nfound\n  {found}");
    }
}

/// Returns the cases of `text` with the decisions that `decide` makes.
fn rewritten(text: &str, decide: impl Fn(&[&str]) -> String) -> String {
    let cases = text.split("\n\n").map(str::trim).filter(|case| !case.is_empty());
    let results = cases.map(|case| {
        let facts = case.split("\n----").next().unwrap_or_default();
        let lines: Vec<&str> = facts.lines().filter(|line| !line.starts_with('#')).collect();
        format!("{facts}\n----\n{}", decide(&lines).trim_end())
    });
    results.collect::<Vec<String>>().join("\n\n") + "\n"
}

/// Returns the number and the content of the first line that differs.
fn first_difference<'a>(is: &'a str, should: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let lines = is.lines().count().max(should.lines().count());
    let line = |text: &'a str, index| text.lines().nth(index).unwrap_or("(the end)");
    let pairs = (0..lines).map(|index| (index + 1, line(is, index), line(should, index)));
    pairs.into_iter().find(|(_, is, should)| is != should)
}

/// Splits `name=value`; the value of a bare `name` is empty.
pub fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

/// Parses a number with a unit of bytes: `12k`, `3M`, `1.5G`.
pub fn number(text: &str) -> u64 {
    let units = [("k", 10), ("M", 20), ("G", 30)];
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (digits, bits) = unit.unwrap_or((text, &0));
    (digits.parse::<f64>().expect(text) * f64::from(1 << bits)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_file_that_differs_by_a_line_is_found() {
        let text = "# Why.\na b\n----\n2\n\na\nb c\n----\nold\n";
        let found = rewritten(text, |lines| {
            lines.iter().map(|line| line.split(' ').count()).sum::<usize>().to_string()
        });
        assert_eq!(found, "# Why.\na b\n----\n2\n\na\nb c\n----\n3\n");
        assert_eq!(first_difference(text, &found), Some((9, "old", "3")));
        assert_eq!(first_difference(&found, &found), None);
        assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, "(the end)", "b")));
    }

    #[test]
    fn golden_numbers_have_units() {
        assert_eq!(["7", "2k", "1.5M"].map(number), [7, 2 << 10, 3 << 19]);
    }
}
