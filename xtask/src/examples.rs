//! `cargo xtask examples`: runs the examples of the engine. Each of them checks what it shows, so
//! one that fails is red.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Examples that measure, and need arguments.
const MEASUREMENTS: [&str; 2] = ["follow_speed", "ingest_speed"];

/// Returns the names of the examples that `folder` has, in order.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|it| it == "rs") && !MEASUREMENTS.contains(&name) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Runs all of them, up to the first that fails.
pub(crate) fn run(root: &Path) -> ExitCode {
    let folder = root.join("engine/examples");
    let names = match names(&folder) {
        Ok(names) if !names.is_empty() => names,
        found => {
            eprintln!("examples: there are none in {}: {found:?}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    // Those of the whole workspace, because the engine alone would be built with fewer features of
    // its dependencies, so once more.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "--locked", "--workspace", "--examples"];
    if !Command::new(cargo).args(build).current_dir(root).status().is_ok_and(|it| it.success()) {
        eprintln!("examples: they do not build");
        return ExitCode::FAILURE;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let programs = root.join(target).join("debug/examples");
    for name in &names {
        println!("== example {name}");
        match Command::new(programs.join(name)).current_dir(root).status() {
            Ok(status) if status.success() => {}
            _ => {
                eprintln!("examples: {name} failed");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("examples: {} ran", names.len());
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_and_measurements_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = names(&root.join("engine/examples")).unwrap();
        assert!(found.len() >= 10 && found.contains(&"quickstart".to_owned()), "{found:?}");
        assert!(!found.contains(&"ingest_speed".to_owned()));
        assert!(root.join("engine/examples/ingest_speed.rs").exists());
    }
}
