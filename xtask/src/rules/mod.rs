//! The rules of the house, one file each. A rule is a function from the repository to findings.

mod citations;
mod columns;
mod dead_files;
mod doors;
mod floors;
mod formats;
mod functions;
mod headers;
mod machine_paths;
mod manifests;
mod markdown;
mod readings;
mod removal;
mod sizes;
mod type_names;
mod unsafe_code;
mod words;

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

/// A rule; its name is the prefix of its findings.
type Rule = fn(&Repo, &[RustFile<'_>], &mut Report);

const RULES: [Rule; 17] = [
    floors::check,
    doors::check,
    readings::check,
    removal::check,
    sizes::check,
    functions::check,
    columns::check,
    type_names::check,
    headers::check,
    citations::check,
    formats::check,
    markdown::check,
    machine_paths::check,
    words::check,
    unsafe_code::check,
    manifests::check,
    dead_files::check,
];

/// Applies all rules.
pub(crate) fn check_all(repo: &Repo) -> Report {
    let files = repo.rust_files();
    let mut report = Report::default();
    for (file, (line, reason)) in
        files.iter().filter_map(|file| Some((file, file.broken.as_ref()?)))
    {
        report.error("syntax", file.path, *line, format!("{reason}; the rules cannot read it"));
    }
    for rule in RULES {
        rule(repo, &files, &mut report);
    }
    report.sort();
    report
}

/// Runs one rule over a small repository and returns its findings as lines.
#[cfg(test)]
fn errors_of(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let repo = Repo::of(files);
    let mut report = Report::default();
    rule(&repo, &repo.rust_files(), &mut report);
    report.sort();
    report.errors.iter().map(ToString::to_string).collect()
}
