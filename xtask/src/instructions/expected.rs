//! The expected counts: the file that holds them, and what is said of a count that differs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The percentage by which a count may differ. Runs of one program spread over less than half of
/// it; `bench/record` has the figures.
const TOLERANCE: u64 = 5;

/// What begins the line that says where the counts are from.
const ENVIRONMENT: &str = "# counted with ";
const HEAD: &str = "# Instructions for each operation of the hot paths, of x86-64 processors.\n\
                    # `cargo xtask instructions --record` writes this file.\n";

/// Instructions for each operation, by the name of the path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    environment: String,
    by_path: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads the text of a file; the error says which line is wrong.
    pub(super) fn parse(text: &str) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for (at, line) in text.lines().enumerate() {
            if let Some(environment) = line.strip_prefix(ENVIRONMENT) {
                counts.environment = environment.to_owned();
            } else if !line.trim().is_empty() && !line.starts_with('#') {
                let wrong = || format!("line {}: `{line}` is not a path and a count", at + 1);
                let (name, count) = line.split_once(' ').ok_or_else(wrong)?;
                let count: u64 = count.trim().parse().map_err(|_| wrong())?;
                if count == 0 || counts.by_path.insert(name.to_owned(), count).is_some() {
                    return Err(wrong() + " that is there once");
                }
            }
        }
        Ok(counts)
    }

    /// Returns the text of the file.
    pub(super) fn text(&self, environment: &str) -> String {
        let lines = self.by_path.iter().map(|(name, count)| format!("{name:<16}{count:>10}\n"));
        format!("{HEAD}{ENVIRONMENT}{environment}\n\n{}", lines.collect::<String>())
    }

    /// Returns what the counts were counted with.
    pub(super) fn environment(&self) -> &str {
        &self.environment
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        self.by_path.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &str, count: u64) {
        self.by_path.insert(name.to_owned(), count);
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    /// Drops the counts of all other paths.
    pub(super) fn keep_only(&mut self, names: &[String]) {
        self.by_path.retain(|name, _| names.contains(name));
    }
}

/// A count beside the expected one.
#[derive(Debug)]
pub(super) struct CountVerdict {
    name: String,
    expected: Option<u64>,
    counted: u64,
}

impl CountVerdict {
    pub(super) fn of(name: &str, expected: Option<u64>, counted: u64) -> CountVerdict {
        CountVerdict { name: name.to_owned(), expected, counted }
    }

    /// Returns true if the count must not stay so.
    pub(super) fn is_red(&self) -> bool {
        self.expected.is_none_or(|expected| self.counted * 100 > expected * (100 + TOLERANCE))
    }

    /// Returns what to do, if there is something; profiles are in `folder`.
    pub(super) fn advice(&self, folder: &Path) -> Option<String> {
        let CountVerdict { name, counted, .. } = self;
        let Some(expected) = self.expected else {
            return Some(format!("nothing is expected of {name}; record it (--record {name})"));
        };
        if self.is_red() {
            let profile = folder.join(format!("{name}.profile"));
            return Some(format!(
                "{name} takes {counted} instructions, more than {TOLERANCE} % above the expected \
                 {expected}; `callgrind_annotate {}` shows where they are; if that is the price \
                 of something, record it (--record {name}) and say of what in the commit",
                profile.display()
            ));
        }
        (counted * 100 < expected * (100 - TOLERANCE)).then(|| {
            format!(
                "{name} takes {counted} instructions, more than {TOLERANCE} % below the expected \
                 {expected}; record it (--record {name}), so that it stays so"
            )
        })
    }
}

impl fmt::Display for CountVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CountVerdict { name, counted, .. } = self;
        match self.expected {
            Some(expected) => {
                let ratio = *counted as f64 / expected as f64;
                write!(out, "{name:<16}{expected:>10}{counted:>10}{ratio:>8.3}")
            }
            None => write!(out, "{name:<16}{:>10}{counted:>10}{:>8}", "-", "-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut counts = Counts::default();
        counts.set("put-inline", 5848);
        counts.set("a-path-of-a-long-name", 1);
        let text = counts.text("rustc 1.95.0, glibc 2.36");
        let read = Counts::parse(&text).unwrap();
        assert_eq!(read.environment(), "rustc 1.95.0, glibc 2.36");
        assert_eq!(read.by_path, counts.by_path);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for line in ["get", "get x", "get -1", "get 0", "get 1 2"] {
            let error = Counts::parse(&format!("# a\n\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 3: `get"), "{error}");
        }
        assert!(Counts::parse("get 1\nput 1\nget 1\n").unwrap_err().starts_with("line 3"));
    }

    #[test]
    fn only_a_count_beyond_the_tolerance_is_red() {
        let verdict = |counted| CountVerdict::of("get", Some(1000), counted);
        let advice = |counted| verdict(counted).advice(Path::new("t")).unwrap_or_default();
        assert!(!verdict(1050).is_red() && advice(1050).is_empty());
        assert!(verdict(1051).is_red() && advice(1051).contains("t/get.profile"));
        assert!(!verdict(950).is_red() && advice(950).is_empty());
        assert!(!verdict(949).is_red() && advice(949).contains("below"));
        assert_eq!(verdict(1100).to_string(), "get                   1000      1100   1.100");
    }

    #[test]
    fn a_path_without_an_expected_count_is_red() {
        let verdict = CountVerdict::of("get", None, 1000);
        assert!(verdict.is_red() && verdict.advice(Path::new("t")).unwrap().contains("--record"));
    }

    #[test]
    fn paths_that_are_gone_are_dropped() {
        let mut counts = Counts::parse("get 1\nput 2\n").unwrap();
        counts.keep_only(&["put".to_owned()]);
        assert_eq!(counts.names().collect::<Vec<_>>(), ["put"]);
    }
}
