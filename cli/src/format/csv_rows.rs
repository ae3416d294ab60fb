//! Reads CSV with a header.

use super::json_string;
use super::read::{Fields, Record, Records};
use cleavedb::{Error, Result};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use std::io::BufRead;
use std::path::PathBuf;

/// The columns of a row that become the value.
enum ValueColumns {
    /// The text of this column.
    One(usize),
    /// A JSON object of these columns, with their quoted names.
    Object(Vec<(usize, String)>),
}

/// The rows of a CSV text below its header.
pub(super) struct CsvRows {
    reader: Reader<Box<dyn BufRead>>,
    name: PathBuf,
    key: usize,
    value: ValueColumns,
    row: ByteRecord,
    count: u64,
}

impl CsvRows {
    /// Reads the header and finds the columns.
    pub(super) fn new(input: Box<dyn BufRead>, name: PathBuf, fields: &Fields) -> Result<Self> {
        let mut reader = ReaderBuilder::new().from_reader(input);
        let header = reader.byte_headers().map_err(|error| told(error, &name))?.clone();
        if header.is_empty() {
            return Err(Error::invalid_argument("the file has no header")
                .in_file(&name)
                .advise("the first line of a CSV file names its columns"));
        }
        let columns: Vec<String> =
            header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let find = |wanted: &String| find(&columns, wanted).map_err(|error| error.in_file(&name));
        let key = fields.key.as_ref().map_or(Ok(0), find)?;
        let object = |indexes: &mut dyn Iterator<Item = usize>| {
            ValueColumns::Object(indexes.map(|at| (at, json_string(&columns[at]))).collect())
        };
        let value = match fields.values.as_slice() {
            [] if columns.len() == 2 => ValueColumns::One(1 - key),
            [] => object(&mut (0..columns.len())),
            [one] => ValueColumns::One(find(one)?),
            several => {
                let found = several.iter().map(find).collect::<Result<Vec<_>>>()?;
                object(&mut found.into_iter())
            }
        };
        Ok(CsvRows { reader, name, key, value, row: ByteRecord::new(), count: 0 })
    }

    fn value(&self) -> Result<Vec<u8>> {
        let columns = match &self.value {
            ValueColumns::One(at) => return Ok(self.row[*at].to_vec()),
            ValueColumns::Object(columns) => columns,
        };
        let mut members = Vec::with_capacity(columns.len());
        for (at, quoted) in columns {
            let text = std::str::from_utf8(&self.row[*at]).map_err(|_| self.not_text(quoted))?;
            members.push(format!("{quoted}:{}", json_string(text)));
        }
        Ok(format!("{{{}}}", members.join(",")).into_bytes())
    }

    fn not_text(&self, quoted: &str) -> Error {
        let line = self.row.position().map_or(0, |position| position.line());
        Error::invalid_argument(format!("line {line}: column {quoted} is not UTF-8 text"))
            .in_file(&self.name)
            .advise("choose a single column with --value: its bytes are stored as they are")
    }
}

impl Records for CsvRows {
    fn next(&mut self) -> Result<Option<Record>> {
        let more = self.reader.read_byte_record(&mut self.row);
        if !more.map_err(|error| told(error, &self.name))? {
            return Ok(None);
        }
        let record = Record { key: self.row[self.key].to_vec(), value: self.value()? };
        self.count += 1;
        Ok(Some(record))
    }

    fn count(&self) -> u64 {
        self.count
    }
}

fn find(columns: &[String], wanted: &String) -> Result<usize> {
    columns.iter().position(|column| column == wanted).ok_or_else(|| {
        Error::invalid_argument(format!("the header has no column {wanted:?}"))
            .advise(format!("the columns are {}", columns.join(", ")))
    })
}

fn told(error: csv::Error, name: &std::path::Path) -> Error {
    let message = match error.into_kind() {
        ErrorKind::Io(error) => return Error::io("read", name, error),
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.map_or(0, |pos| pos.line());
            let s = if len == 1 { "" } else { "s" };
            format!("line {line}: this row has {len} field{s}, the header has {expected_len}")
        }
        other => format!("this is not CSV: {other:?}"),
    };
    Error::invalid_argument(message).in_file(name).advise("correct the line and load again")
}
