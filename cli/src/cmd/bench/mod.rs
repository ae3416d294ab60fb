//! `cleave bench`: the workloads known by db_bench's names, and the core workloads of YCSB,
//! measured and verified.
//!
//! Keys are numbers as 16 digits, those below `--num` and those that YCSB's workloads insert. Every
//! value carries the hash of its key ([`values`]), so each read is checked at almost no cost: a
//! fast wrong answer is no figure.

mod collect;
mod conditional;
mod follow;
mod keys;
mod measure;
mod mix;
mod owner;
mod report;
mod tally;
mod values;
mod worker;
mod workload;
mod zipf;

use crate::args::{Durable, PinTree, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place::{self, PathKind};
use crate::text::parse_size;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use cleavedb::{
    Codec, CollectDiscardable, Db, GcOptions, Keyspace, Options, Result, Separation, StaleTrigger,
    WriteOptions,
};
use std::thread;
use std::time::Duration;
use values::ValueSource;
use workload::{LoadArgs, Workload};

/// Measure workloads; creates the database if it does not exist, and keeps it
///
/// For comparable figures, start with a new directory. The threads share the operations. A store
/// with keys that `bench` has not written is refused, since workloads overwrite and delete.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    target: Target,

    /// The workloads, in the order in which they run
    #[arg(value_enum, value_delimiter = ',',
          default_values = ["fillrandom", "readrandom", "readmissing", "readseq"])]
    workloads: Vec<Workload>,

    #[command(flatten)]
    load: LoadArgs,

    #[command(flatten)]
    store: StoreArgs,

    /// Run in a store that has other keys, too
    #[arg(long)]
    force: bool,

    /// Print one JSON object per workload, and {"stats":…} at the end
    #[arg(long)]
    json: bool,
}

/// The most MiB of a size: as many bytes as the engine takes for any, 16 TiB.
const MOST_MIB: u64 = 1 << 24;

/// Returns what parses a size in MiB.
fn mib() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(..=MOST_MIB)
}

/// The settings of the store. Those of value GC that are not given stay as the last opening of the
/// database had them, and those of a keyspace as they are.
#[derive(Args)]
struct StoreArgs {
    #[command(flatten)]
    durable: Durable,

    /// Size of the block cache, in MiB
    #[arg(long, value_name = "MIB", value_parser = mib())]
    cache_mb: Option<u64>,

    #[command(flatten)]
    pin_tree: PinTree,

    /// Size of a memtable, in MiB
    #[arg(long, value_name = "MIB", value_parser = mib())]
    memtable_mb: Option<u64>,

    /// Size of a table, in MiB
    #[arg(long, value_name = "MIB", value_parser = mib())]
    table_mb: Option<u64>,

    /// Size of level 1, in MiB; each deeper level is ten times larger
    #[arg(long, value_name = "MIB", value_parser = mib())]
    level_base_mb: Option<u64>,

    /// Bits of filter per key; 0 writes no filters
    #[arg(long, value_name = "BITS")]
    filter_bits: Option<u32>,

    /// Size from which values are separated; 0 separates all, `never` none
    #[arg(long, value_name = "SIZE", value_parser = parse_threshold)]
    threshold: Option<Threshold>,

    /// When values are separated: at_write, at_flush, off for never, or auto
    #[arg(long, value_name = "POLICY", value_parser = parse_separation)]
    separation: Option<Separation>,

    /// Codec of table blocks: none, lz4, zstd
    #[arg(long, value_name = "CODEC", value_parser = parse_codec)]
    block_codec: Option<Codec>,

    /// Codec of separated values: none, lz4, zstd
    #[arg(long, value_name = "CODEC", value_parser = parse_codec)]
    value_codec: Option<Codec>,

    /// What is written expires after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    ttl: Option<u64>,

    /// Ceiling of the store's space, as a multiple of its live bytes
    #[arg(long, value_name = "RATIO")]
    max_space_amplification: Option<f64>,

    /// Space to which the store settles, as a multiple of its live bytes
    #[arg(long, value_name = "RATIO")]
    settled_space_amplification: Option<f64>,

    /// Garbage that is allowed whatever the ceiling says, in MiB
    #[arg(long, value_name = "MIB", value_parser = mib())]
    space_allowance_mb: Option<u64>,

    /// Share of garbage from which segments are discardable: collected though the bounds hold
    #[arg(long, value_name = "SHARE")]
    discardable_ratio: Option<f64>,

    /// The same for segments of which holes would free this share
    #[arg(long, value_name = "SHARE")]
    punch_ratio: Option<f64>,

    /// When discardable segments are collected: idle, while nobody writes, or always
    #[arg(long, value_name = "WHEN")]
    collect_discardable: Option<CollectDiscardable>,

    /// Switch automatic value GC off
    #[arg(long)]
    no_gc: bool,

    /// Never punch holes, only move live values
    #[arg(long)]
    no_punch: bool,

    /// Memory for the update table, in MiB; 0 switches it off
    #[arg(long, value_name = "MIB", value_parser = mib())]
    update_table_mb: Option<u64>,

    /// Stale entries from which a table is compacted early: off, share:0.5, entries:1000
    #[arg(long, value_name = "TRIGGER")]
    early_compaction: Option<StaleTrigger>,

    /// Leave values that scans find strewn where they are
    #[arg(long)]
    no_scan_order: bool,

    /// The most that compaction and value GC write per second, in MiB
    #[arg(long, value_name = "MIB", value_parser = mib())]
    background_mb: Option<u64>,
}

impl StoreArgs {
    fn options(&self) -> Options {
        let mut options = Options::default();
        options.cache_bytes = self.cache_mb.map_or(options.cache_bytes, |mib| mib << 20);
        options.background_bytes_per_second = self.background_mb.map(|mib| mib << 20);
        options.update_table_bytes =
            self.update_table_mb.map_or(options.update_table_bytes, |mib| mib << 20);
        options.early_compaction = self.early_compaction.unwrap_or(options.early_compaction);
        options.scan_order = !self.no_scan_order;
        self.pin_tree.apply(options)
    }

    /// Sets the options of value GC that were given. The two that can only be switched off are on
    /// otherwise; the others stay as they are.
    fn set_gc(&self, gc: &mut GcOptions) {
        gc.automatic = !self.no_gc;
        gc.punch = !self.no_punch;
        gc.max_space_amplification =
            self.max_space_amplification.unwrap_or(gc.max_space_amplification);
        gc.settled_space_amplification =
            self.settled_space_amplification.unwrap_or(gc.settled_space_amplification);
        gc.space_allowance_bytes =
            self.space_allowance_mb.map_or(gc.space_allowance_bytes, |mib| mib << 20);
        gc.discardable_ratio = self.discardable_ratio.unwrap_or(gc.discardable_ratio);
        gc.punch_ratio = self.punch_ratio.unwrap_or(gc.punch_ratio);
        gc.collect_discardable = self.collect_discardable.unwrap_or(gc.collect_discardable);
    }
}

#[derive(Debug, Clone, Copy)]
enum Threshold {
    Bytes(usize),
    Never,
}

/// The state that the threads of all workloads share.
struct BenchPlan<'a> {
    db: &'a Db,
    keyspace: Keyspace,
    load: &'a LoadArgs,
    values: ValueSource,
    write_options: WriteOptions,
    duration: Option<Duration>,
}

pub(crate) fn run(args: &Bench) -> Outcome {
    let (dir, store) = (&args.target.dir, &args.store);
    let values = ValueSource::new(args.load.value_size, args.load.compression_ratio);
    if !args.force && place::look(dir)? == PathKind::Database {
        // An opening for writing records the options of value GC, which are the owner's.
        let db = open::read_only(dir)?;
        owner::refuse_other_stores(&db, &values)?;
        db.close()?;
    }
    let db = open::to_fill_with(dir, store.options(), |gc| store.set_gc(gc))?;
    let plan = BenchPlan {
        db: &db,
        keyspace: keyspace(&db, args)?,
        load: &args.load,
        values,
        write_options: WriteOptions::new().durability(args.store.durable.durability),
        duration: args.load.duration.map(Duration::from_secs),
    };
    let mut out = Output::new();
    for (turn, &workload) in args.workloads.iter().enumerate() {
        let report = measure::measure(&plan, workload, turn as u64)?;
        out.line(if args.json { report.to_json() } else { report.to_text() })?;
        out.flush()?;
    }
    stay_idle(args.load.idle);
    let stats = db.stats();
    if args.json {
        out.line(format!("{{\"stats\":{}}}", stats.to_json()))?;
    } else {
        out.line(format!("\n{}", stats.to_string().trim_end()))?;
    }
    out.finish()?;
    drop(plan);
    db.close()?;
    Ok(Status::Done)
}

/// Sleeps. The last workload's report shows to a program that watches that this has begun.
#[expect(clippy::disallowed_methods, reason = "time passing is all that is waited for")]
fn stay_idle(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}

/// Opens the keyspace and sets the options that were given; the others stay as they are.
fn keyspace(db: &Db, args: &Bench) -> Result<Keyspace> {
    let store = &args.store;
    let name = &args.target.keyspace;
    let keyspace = db.open_or_create_keyspace(name)?;
    let mut options = keyspace.options();
    if let Some(mib) = store.memtable_mb {
        options.memtable_bytes = mib << 20;
    }
    options.table_bytes = store.table_mb.map_or(options.table_bytes, |mib| mib << 20);
    options.level_base_bytes =
        store.level_base_mb.map_or(options.level_base_bytes, |mib| mib << 20);
    options.filter_bits_per_key = store.filter_bits.unwrap_or(options.filter_bits_per_key);
    match store.threshold {
        Some(Threshold::Never) => options.separation = Separation::Off,
        Some(Threshold::Bytes(bytes)) => {
            options.separation = Separation::AtWrite;
            options.separation_threshold = bytes;
        }
        None => {}
    }
    options.separation = store.separation.unwrap_or(options.separation);
    options.default_ttl = store.ttl.map(Duration::from_secs).or(options.default_ttl);
    options.block_codec = store.block_codec.unwrap_or(options.block_codec);
    options.value_codec = store.value_codec.unwrap_or(options.value_codec);
    keyspace.set_options(options)?;
    Ok(keyspace)
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    if text == "never" { Ok(Threshold::Never) } else { parse_size(text).map(Threshold::Bytes) }
}

pub(crate) fn parse_separation(text: &str) -> Result<Separation, String> {
    let unknown = || "the policies are at_write, at_flush, off and auto".to_owned();
    Separation::from_name(text).ok_or_else(unknown)
}

fn parse_codec(text: &str) -> Result<Codec, String> {
    match text {
        "none" => Ok(Codec::None),
        "lz4" => Ok(Codec::Lz4),
        "zstd" if Codec::Zstd.is_available() => Ok(Codec::Zstd),
        "zstd" => Err("this build lacks zstd: build it with the feature `zstd`".into()),
        _ => Err("the codecs are none, lz4 and zstd".into()),
    }
}
