//! The command line: the list of commands, and the arguments that several of them share. Arguments
//! of one command are in that command's file.

use crate::cmd;
use crate::text;
use clap::{Args, Parser, Subcommand};
use cleavedb::{DEFAULT_KEYSPACE, Durability, Error};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Look into, fill, check and measure a CleaveDB database.
#[derive(Parser)]
#[command(name = "cleave", version, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "Exit status: 0 done, 1 not found or damaged, 2 error or not verified.\n\
    New here? `cleave demo` shows everything on real data and cleans up.";

#[derive(Subcommand)]
pub(crate) enum Command {
    Put(cmd::put::Put),
    Get(cmd::get::Get),
    Del(cmd::del::Del),
    Scan(cmd::scan::Scan),
    Load(cmd::load::Load),
    Dump(cmd::dump::Dump),
    Stats(cmd::stats::StatsArgs),
    Space(cmd::space::Space),
    Check(cmd::check::Check),
    Compact(cmd::compact::Compact),
    Gc(cmd::gc::Gc),
    Reorganize(cmd::reorganize::Reorganize),
    Checkpoint(cmd::checkpoint::Checkpoint),
    Inspect(cmd::inspect::Inspect),
    Bench(cmd::bench::Bench),
    Shell(cmd::shell::Shell),
    Demo(cmd::demo::Demo),
    Completions(cmd::completions::Completions),
    Man(cmd::man::Man),
}

/// Which database, and which keyspace of it.
#[derive(Args)]
pub(crate) struct Target {
    /// The database's directory
    pub(crate) dir: PathBuf,

    /// The keyspace
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    pub(crate) keyspace: String,
}

/// Keys and values as hexadecimal digits.
#[derive(Args, Clone, Copy)]
pub(crate) struct Hex {
    /// Keys and values are given and printed as hexadecimal digits
    #[arg(long)]
    pub(crate) hex: bool,
}

impl Hex {
    /// Returns the bytes that an argument stands for: as typed, or decoded from hexadecimal.
    pub(crate) fn bytes(self, argument: &OsStr) -> Result<Vec<u8>, Error> {
        let typed = argument.as_encoded_bytes();
        if self.hex { text::unhex(typed) } else { Ok(typed.to_vec()) }
    }
}

/// When a write counts as done.
#[derive(Args, Clone, Copy)]
pub(crate) struct Durable {
    /// When a write counts as done: `buffered` (in memory), `os` (survives a killed process),
    /// `sync` (survives a power cut), `every:100ms` (synced that often) [default: os]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) durability: Option<Durability>,
}
