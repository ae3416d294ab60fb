//! The findings of the rules.

use std::fmt;

/// One place that breaks a rule, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// Path from the root of the repository.
    pub(crate) path: String,
    /// The line, counted from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// The problem and what to do about it.
    pub(crate) message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}: {}", self.path, self.rule, self.message),
            line => write!(out, "{}:{line}: {}: {}", self.path, self.rule, self.message),
        }
    }
}

/// The findings of all rules.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Errors; each makes the run fail.
    pub(crate) errors: Vec<Violation>,
    /// Notes, with which the run passes.
    pub(crate) notes: Vec<Violation>,
}

impl Report {
    /// Adds an error.
    pub(crate) fn error(&mut self, rule: &'static str, path: &str, line: usize, message: String) {
        self.errors.push(Violation { path: path.to_owned(), line, rule, message });
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, rule: &'static str, path: &str, line: usize, message: String) {
        self.notes.push(Violation { path: path.to_owned(), line, rule, message });
    }

    /// Sorts the findings by place and removes repetitions.
    pub(crate) fn sort(&mut self) {
        for findings in [&mut self.errors, &mut self.notes] {
            findings.sort();
            findings.dedup();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_place_rule_and_advice() {
        let mut report = Report::default();
        report.error("tabs", "b.rs", 3, "use spaces".into());
        report.error("title", "a.md", 0, "add one".into());
        report.error("tabs", "b.rs", 3, "use spaces".into());
        report.sort();
        let lines: Vec<_> = report.errors.iter().map(Violation::to_string).collect();
        assert_eq!(lines, ["a.md: title: add one", "b.rs:3: tabs: use spaces"]);
    }
}
