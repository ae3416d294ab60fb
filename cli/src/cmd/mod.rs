//! One file per command: its arguments and what it does with the engine.

pub(crate) mod backup;
pub(crate) mod backups;
pub(crate) mod bench;
pub(crate) mod cas;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod count;
pub(crate) mod del;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod hot;
pub(crate) mod import;
pub(crate) mod ingest;
pub(crate) mod inspect;
pub(crate) mod keyspaces;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod metrics;
pub(crate) mod pause;
pub(crate) mod put;
pub(crate) mod reorganize;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod rotate_key;
pub(crate) mod scan;
pub(crate) mod shell;
pub(crate) mod sort;
mod sorting;
pub(crate) mod space;
pub(crate) mod stats;
pub(crate) mod top;
pub(crate) mod ttl;

use crate::args::Command;
use crate::outcome::Outcome;

/// Runs `command` to its end.
pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Put(args) => put::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Del(args) => del::run(&args),
        Command::Cas(args) => cas::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Ttl(args) => ttl::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Changes(args) => changes::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Sort(args) => sort::run(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Keyspaces(args) => keyspaces::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Space(args) => space::run(&args),
        Command::Hot(args) => hot::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Gc(args) => gc::run(&args),
        Command::Pause(args) => pause::pause(&args),
        Command::Resume(args) => pause::resume(&args),
        Command::Reorganize(args) => reorganize::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::RotateKey(args) => rotate_key::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Backups(args) => backups::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
