//! Runs one hot path of the engine, so that its instructions can be counted one by one:
//! `cargo xtask instructions` runs this below callgrind, once for each path.
//!
//! What is counted is what the whole process does while it is in [`measured_part`]: callgrind sets
//! its counts to zero where that function is entered and writes them out where it returns. Set-up
//! before it ends with no background work due. The data, their order and the settings are the same
//! in each run; nothing depends on the time.

mod data;
mod paths;

use paths::PATHS;
use std::path::Path;
use std::process::ExitCode;

/// The part of a run that is counted, known to callgrind by its name: neither inlined nor left by
/// a jump.
#[inline(never)]
fn measured_part(work: &mut dyn FnMut() -> cleavedb::Result<()>) -> cleavedb::Result<()> {
    let outcome = work();
    std::hint::black_box(&outcome);
    outcome
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["list"] => {
            PATHS.iter().for_each(|(name, _)| println!("{name}"));
            ExitCode::SUCCESS
        }
        [name, dir] => match PATHS.iter().find(|(known, _)| known == name) {
            Some((_, run)) => match run(Path::new(dir)) {
                Ok(operations) => {
                    println!("operations {operations}");
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    eprintln!("{name}: {error}");
                    ExitCode::FAILURE
                }
            },
            None => {
                eprintln!("there is no path `{name}`; `list` names them");
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("usage: cleavedb-instructions list | PATH DIR, where DIR does not exist yet");
            ExitCode::from(2)
        }
    }
}
