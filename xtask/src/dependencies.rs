//! `cargo xtask dependencies`: checks that each dependency has a licence that is compatible with
//! ours, comes from the registry, occurs in one version, and builds with the oldest Rust that we
//! promise, and that the packages beside the workspace have lock files that are up to date.
//! `cargo deny` does more, but takes longer to build than everything else here together.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

/// Allowed licences: all they demand of a distributor is to keep their text with the program.
const LICENCES: [&str; 9] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that an engine linked into other programs must not bring along.
const BANNED: [&str; 4] = ["async-std", "openssl-sys", "smol", "tokio"];

/// Prints the problems and fails if there are any.
pub(crate) fn run(root: &Path) -> ExitCode {
    let told = metadata(root);
    let Some(packages) = told.as_ref().and_then(|told| told["packages"].as_array()) else {
        eprintln!("dependencies: cargo metadata fails");
        return ExitCode::from(2);
    };
    let mut found = check(packages);
    // CI builds the fuzz targets last, and the comparison with other engines not at all.
    for package in ["fuzz", "bench/compare/driver"] {
        if metadata(&root.join(package)).is_none() {
            found.push(format!(
                "{package}/Cargo.lock is not what the manifests ask for: build there"
            ));
        }
    }
    found.iter().for_each(|problem| println!("dependencies: {problem}"));
    println!("dependencies: {} packages, {} problems", packages.len(), found.len());
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns what `cargo metadata` says about the workspace in `dir`; `None` if it fails, as with a
/// lock file that is not up to date.
fn metadata(dir: &Path) -> Option<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--format-version", "1", "--all-features", "--locked"]);
    metadata.args(["--filter-platform", &host]).current_dir(dir);
    let output = metadata.output().ok().filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}

/// Returns the problems of packages that `cargo metadata` lists.
fn check(packages: &[Value]) -> Vec<String> {
    let text = |package: &Value, field: &str| package[field].as_str().unwrap_or("").to_owned();
    let is_ours = |package: &&Value| package["source"].is_null();
    let ours = packages.iter().filter(is_ours).map(|package| version(&package["rust_version"]));
    let oldest = ours.max().unwrap_or_default();
    let mut found = Vec::new();
    let mut versions = BTreeMap::<String, Vec<String>>::new();
    for package in packages.iter().filter(|package| !is_ours(package)) {
        let name = text(package, "name");
        if !text(package, "source").starts_with("registry+") {
            found.push(format!("{name} comes from {}, not the registry", package["source"]));
        }
        if !is_allowed(&text(package, "license")) {
            found.push(format!("{name} has the licence {}", package["license"]));
        }
        if BANNED.contains(&name.as_str()) {
            found.push(format!("{name} is not wanted in programs that embed the engine"));
        }
        if version(&package["rust_version"]) > oldest {
            found.push(format!("{name} needs Rust {}", package["rust_version"]));
        }
        versions.entry(name).or_default().push(text(package, "version"));
    }
    let twice = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    found.extend(twice.map(|(name, versions)| format!("{name} is there as {versions:?}")));
    found
}

/// Returns true if an allowed licence can be chosen in each part of `expression`.
fn is_allowed(expression: &str) -> bool {
    expression.replace('/', " OR ").split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')', ' ']);
        part.split(" OR ").any(|licence| LICENCES.contains(&licence.trim_matches(['(', ')', ' '])))
    })
}

/// Parses `"1.89"` or `"1.89.0"` into numbers that can be compared.
fn version(text: &Value) -> Vec<u32> {
    let parts = text.as_str().unwrap_or("").split('.').map(|part| part.parse().unwrap_or(0));
    let mut parts: Vec<u32> = parts.collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(change: &[(&str, Value)]) -> Vec<String> {
        let ours = json!({ "name": "ours", "source": null, "rust_version": "1.89" });
        let mut other = json!({ "name": "other", "version": "1.0.0", "license": "MIT OR GPL-3.0",
            "source": "registry+x", "rust_version": "1.88.1" });
        change.iter().for_each(|(field, value)| other[*field] = value.clone());
        check(&[ours, other])
    }

    #[test]
    fn each_rule_has_a_package_that_breaks_it() {
        assert_eq!(problems(&[]), [""; 0]);
        assert_eq!(problems(&[("license", json!("GPL-3.0"))]).len(), 1);
        assert_eq!(problems(&[("license", Value::Null)]).len(), 1);
        assert_eq!(problems(&[("source", json!("git+x"))]).len(), 1);
        assert_eq!(problems(&[("rust_version", json!("1.90"))]).len(), 1);
        assert_eq!(problems(&[("name", json!("tokio"))]).len(), 1);
        let one = json!({ "name": "a", "version": "1", "license": "MIT", "source": "registry+x" });
        let mut other = one.clone();
        other["version"] = json!("2");
        let ours = json!({ "name": "ours", "source": null, "rust_version": "1.89" });
        assert_eq!(check(&[ours, one, other]).len(), 1);
    }

    #[test]
    fn a_licence_can_be_chosen_or_not() {
        for good in ["MIT", "Unlicense/MIT", "(MIT OR GPL-2.0) AND Unicode-3.0"] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "MIT AND GPL-2.0", "(MIT OR Zlib) AND NCSA"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
