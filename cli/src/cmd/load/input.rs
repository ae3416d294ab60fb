//! The input of a load: where it comes from, its format, and how much of it was read.

use crate::args::TextInput;
use crate::format::Format;
use crate::format::read::{self, Fields, Records};
use crate::format::sniff;
use crate::format::template::KeyTemplate;
use crate::output::note;
use cleavedb::{Error, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const READ_BYTES: usize = 256 << 10;

/// The input text, and how much of it was read.
pub(crate) struct LoadInput {
    pub(crate) records: Box<dyn Records>,
    /// The file's path, or what errors call standard input.
    pub(super) name: PathBuf,
    /// What to type to get more distinct keys.
    pub(super) key_hint: Option<String>,
    /// True if it is a file or a pipe, so that nobody is typing it.
    pub(super) is_prepared: bool,
    consumed: Arc<AtomicU64>,
    bytes: Option<u64>,
}

impl LoadInput {
    pub(crate) fn open(args: &TextInput) -> Result<Self> {
        let file = args.file();
        let consumed = Arc::new(AtomicU64::new(0));
        let (source, name, bytes): (Box<dyn Read>, _, _) = match file {
            None => (Box::new(io::stdin()), Path::new("standard input"), None),
            Some(path) => {
                let failed = |error| Error::io("read", path, error);
                let file = File::open(path).map_err(failed)?;
                let metadata = file.metadata().map_err(failed)?;
                if metadata.is_dir() {
                    return Err(a_directory(path));
                }
                (Box::new(file), path, metadata.is_file().then_some(metadata.len()))
            }
        };
        let is_prepared = file.is_some() || !io::stdin().is_terminal();
        if !is_prepared {
            note!("reading records from the terminal; Ctrl-D at the beginning of a line ends");
        }
        let counted = LoadCount { source, consumed: Arc::clone(&consumed) };
        let mut buffered = Box::new(BufReader::with_capacity(READ_BYTES, counted));
        let format = match (args.format, file) {
            (Some(format), _) => format,
            (None, None) => Format::Tsv,
            (None, Some(path)) => {
                // A file that is no text needs no format, but another command.
                let first = buffered.fill_buf().map_err(|error| Error::io("read", path, error))?;
                sniff::refuse_binary(first, path)?;
                format_of(path)?
            }
        };
        let name = name.to_path_buf();
        let records = read::read(format, buffered, name.clone(), fields(args)?)?;
        let key_hint = key_hint(args, format, records.columns());
        Ok(LoadInput { records, name, key_hint, is_prepared, consumed, bytes })
    }

    pub(crate) fn share(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|&bytes| bytes > 0)?;
        Some(self.consumed.load(Ordering::Relaxed) as f64 / bytes as f64)
    }
}

fn fields(args: &TextInput) -> Result<Fields> {
    let header = match (args.header, args.no_header) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Ok(Fields {
        key: args.key.as_deref().map(KeyTemplate::parse).transpose()?,
        values: args.value.clone(),
        raw: args.raw,
        header,
        delimiter: args.delimiter,
    })
}

/// Returns what makes keys of several fields where `--key` did not.
fn key_hint(args: &TextInput, format: Format, columns: &[String]) -> Option<String> {
    if args.key.as_deref().is_some_and(|key| key.contains('{')) {
        return None;
    }
    match (format, columns) {
        (_, [first, second, _, ..]) => Some(format!("--key '{{{first}}}/{{{second}}}'")),
        (Format::Jsonl, _) => Some("--key '{FIELD}/{OTHER}'".into()),
        (Format::Tsv, []) => Some("--header --key '{COLUMN}/{OTHER}'".into()),
        _ => None,
    }
}

fn a_directory(path: &Path) -> Error {
    Error::invalid_argument("this is a directory, not a file of records")
        .in_file(path)
        .advise("the database comes first: `cleave load DIR FILE`")
}

fn format_of(path: &Path) -> Result<Format> {
    format_by_extension(path).ok_or_else(|| {
        Error::invalid_argument("the format is unknown: the file's extension names none")
            .in_file(path)
            .advise("name it with --format tsv, csv, jsonl or hex")
    })
}

/// Returns the format that the extension of a file names.
pub(super) fn format_by_extension(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        "tsv" | "txt" => Some(Format::Tsv),
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
        "hex" => Some(Format::Hex),
        _ => None,
    }
}

/// A reader that counts the bytes that pass, for the progress.
struct LoadCount {
    source: Box<dyn Read>,
    consumed: Arc<AtomicU64>,
}

impl Read for LoadCount {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
