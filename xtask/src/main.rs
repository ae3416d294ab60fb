//! The automation of the repository: `cargo xtask tidy`, `ci`, and the library for C.

mod ci;
mod dependencies;
mod examples;
mod fuzz;
mod golden;
mod install_c;
mod instructions;
mod lane;
mod modules;
mod paths;
mod repo;
mod report;
mod rules;
mod rust_file;
mod sanitize_c;
mod sanitize_rust;
mod side_command;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy [DIR]   the rules of the house: floors, doors, sizes, headers, documents; of another tree
  ci           tidy, dependencies, format, lints, documents, tests, instructions, a sanitizer, the
               package, fuzz, and the Cassandra module; stops at the first red
  instructions [--record] [PATH…]: what each hot path takes in instructions, beside what it may
  install-c    --prefix DIR [--leveldb-link]: headers and libraries for C programs
  dependencies licences, sources, versions and the oldest Rust of what comes from elsewhere
  examples     the examples of the engine, run
  fuzz         [--seconds N | --inputs N] [TARGET…]: every decoder of the engine, 30 seconds each
  golden       the golden stores of the engine that are missing, written
  sanitize-c   the C programs under sanitizers
  sanitize-rust [thread|address] [ARGUMENTS of cargo test]: the engine under sanitizers";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["tidy", folder] => tidy::run(Path::new(folder)),
        ["ci"] => ci::run(&root()),
        ["dependencies"] => dependencies::run(&root()),
        ["examples"] => examples::run(&root()),
        ["fuzz", rest @ ..] => fuzz::run(&root(), rest),
        ["golden"] => golden::run(&root()),
        ["instructions", rest @ ..] => instructions::run(&root(), rest),
        ["install-c", rest @ ..] => install_c::run(&root(), rest),
        ["sanitize-c"] => sanitize_c::run(&root()),
        ["sanitize-rust", rest @ ..] => sanitize_rust::run(&root(), rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The root of the repository, one above this crate.
fn root() -> PathBuf {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root.parent().unwrap_or(crate_root).to_path_buf()
}
