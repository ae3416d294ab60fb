//! The command line: the list of commands, and the arguments that several of them share. Arguments
//! of one command are in that command's file.

use crate::cmd;
use crate::format::Format;
use crate::text;
use clap::{Args, Parser, Subcommand};
use cleavedb::{DEFAULT_KEYSPACE, Durability, Error, Options};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Inspect, fill, check and measure CleaveDB databases.
#[derive(Parser)]
#[command(name = "cleave", version, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Cli {
    /// The file with an encrypted database's keys, 64 hexadecimal digits on each line, the current
    /// one first [default: the one that CLEAVE_KEY_FILE names]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Exit status: 0 success; 1 a key does not exist or is not as expected, or damage or something
unusual was found; 2 an error, or something could not be verified.
To begin, run `cleave demo`: it shows the database on real data and cleans up after itself.";

#[derive(Subcommand)]
pub(crate) enum Command {
    Put(cmd::put::Put),
    Get(cmd::get::Get),
    Del(cmd::del::Del),
    Cas(cmd::cas::Cas),
    Merge(cmd::merge::Merge),
    Ttl(cmd::ttl::TtlArgs),
    Scan(cmd::scan::Scan),
    Count(cmd::count::CountArgs),
    Changes(cmd::changes::ChangesArgs),
    Load(cmd::load::Load),
    Sort(cmd::sort::Sort),
    Ingest(cmd::ingest::Ingest),
    Import(cmd::import::Import),
    Dump(cmd::dump::Dump),
    Export(cmd::export::Export),
    Keyspaces(cmd::keyspaces::Keyspaces),
    Stats(cmd::stats::StatsArgs),
    Top(cmd::top::TopArgs),
    Metrics(cmd::metrics::Metrics),
    Space(cmd::space::Space),
    Hot(cmd::hot::Hot),
    Doctor(cmd::doctor::DoctorArgs),
    Report(cmd::report::ReportArgs),
    #[command(visible_aliases = ["scrub", "verify"])]
    Check(cmd::check::Check),
    Repair(cmd::repair::Repair),
    Compact(cmd::compact::Compact),
    Gc(cmd::gc::Gc),
    Pause(cmd::pause::PauseArgs),
    Resume(cmd::pause::ResumeArgs),
    Reorganize(cmd::reorganize::Reorganize),
    Convert(cmd::convert::ConvertArgs),
    RotateKey(cmd::rotate_key::RotateKey),
    Checkpoint(cmd::checkpoint::Checkpoint),
    Backup(cmd::backup::Backup),
    Backups(cmd::backups::BackupsArgs),
    Restore(cmd::restore::Restore),
    Inspect(cmd::inspect::Inspect),
    Bench(Box<cmd::bench::Bench>),
    Shell(cmd::shell::Shell),
    Demo(cmd::demo::Demo),
    Completions(cmd::completions::Completions),
    Man(cmd::man::Man),
}

/// The database and the keyspace that a command works on.
#[derive(Args)]
pub(crate) struct Target {
    /// The database's directory
    pub(crate) dir: PathBuf,

    /// The keyspace
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    pub(crate) keyspace: String,
}

/// The option `--create` of commands that write to a keyspace.
#[derive(Args, Clone, Copy)]
pub(crate) struct CreateKeyspace {
    /// Create the keyspace if it does not exist; a new database is created with it anyway
    #[arg(long)]
    pub(crate) create: bool,
}

/// The option `--pin-tree`.
#[derive(Args, Clone, Copy)]
pub(crate) struct PinTree {
    /// Keep the tree in memory, in at most this much, and load it at first
    #[arg(long, value_name = "SIZE", value_parser = text::parse_size, default_value = "0",
          hide_default_value = true)]
    pub(crate) pin_tree: usize,
}

impl PinTree {
    /// Returns `options` with the bound that was given.
    pub(crate) fn apply(self, options: Options) -> Options {
        Options { pin_tree: self.pin_tree as u64, ..options }
    }
}

/// The text that records are read from.
#[derive(Args)]
pub(crate) struct TextInput {
    /// The file to read; standard input if it is `-` or absent
    pub(crate) file: Option<PathBuf>,

    /// The input format [default: by the file's extension; tsv for standard input]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// The column or field (JSON lines) that holds the key, or several in a template, such as
    /// '{country}/{id}' [default: the first column; "key"]
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,

    /// The column or field that holds the value; several become a JSON object
    #[arg(long, value_name = "NAME")]
    pub(crate) value: Vec<String>,

    /// Take backslashes in TSV as plain characters, not as escapes
    #[arg(long)]
    pub(crate) raw: bool,

    /// The first line names the columns, which it does in CSV anyway
    #[arg(long)]
    pub(crate) header: bool,

    /// The first line is a row, and the columns are called 1, 2, 3 and so on
    #[arg(long, conflicts_with = "header")]
    pub(crate) no_header: bool,

    /// The character between columns [default: a comma in CSV, a tab in TSV]
    #[arg(long, value_name = "CHARACTER", value_parser = text::parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
}

impl TextInput {
    /// Returns the file to read; `None` is standard input.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| *file != Path::new("-"))
    }
}

/// The option `--hex`.
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

/// The option `--durability`.
#[derive(Args, Clone, Copy)]
pub(crate) struct Durable {
    /// What a write survives once it is acknowledged: `buffered` nothing, `os` the end of the
    /// process, `sync` a power cut, `every:100ms` as `os`, and a power cut 100 ms later
    /// [default: os]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) durability: Option<Durability>,
}
