//! `cargo xtask tidy`: the rules of the house, applied to every file that git knows or would add.

use std::path::Path;
use std::process::ExitCode;

use crate::repo::Repo;
use crate::rules;

/// Prints the findings and fails if there is an error among them.
pub(crate) fn run(root: &Path) -> ExitCode {
    let repo = match Repo::load(root) {
        Ok(repo) => repo,
        Err(error) => {
            eprintln!("tidy: the files cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    let report = rules::check_all(&repo);
    for note in &report.notes {
        println!("note: {note}");
    }
    for error in &report.errors {
        println!("{error}");
    }
    match report.errors.len() {
        0 => {
            println!("tidy: {} files in order", repo.paths().count());
            ExitCode::SUCCESS
        }
        count => {
            println!("tidy: {count} to put right");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let repo = Repo::load(&crate::root()).unwrap();
        let report = rules::check_all(&repo);
        let found: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "cargo xtask tidy says:\n{}", found.join("\n"));
    }
}
