//! Reads rows of columns: CSV, and TSV under a header.

use super::read::{Fields, Record, Records, at_line};
use super::row_text::RowText;
use super::{Format, json_string, sniff};
use crate::text;
use cleavedb::{Error, Result};
use csv::{ByteRecord, QuoteStyle, Reader, ReaderBuilder, Terminator, WriterBuilder};
use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// The columns of a row that become the value.
enum ValueColumns {
    /// The text of this column.
    One(usize),
    /// A JSON object of these columns, with their quoted names.
    Object(Vec<(usize, String)>),
}

/// How the fields of a row are written.
#[derive(Clone, Copy)]
struct RowStyle {
    delimiter: u8,
    /// True if a field may be in double quotes, as in CSV.
    quotes: bool,
    /// True if backslashes are escapes, and a carriage return before a newline belongs to that, as
    /// in TSV.
    escapes: bool,
}

/// The rows of a text, below its header if it has one.
pub(super) struct Rows {
    reader: Reader<RowText>,
    name: PathBuf,
    style: RowStyle,
    header: Option<ByteRecord>,
    columns: Vec<String>,
    fields: Fields,
    value: ValueColumns,
    row: ByteRecord,
    good: u64,
    is_bad: bool,
}

impl Rows {
    /// Reads the first row and finds the columns.
    pub(super) fn new(
        format: Format,
        input: Box<dyn BufRead>,
        name: PathBuf,
        fields: Fields,
    ) -> Result<Self> {
        let is_csv = format == Format::Csv;
        let delimiter = fields.delimiter.unwrap_or(if is_csv { b',' } else { b'\t' });
        let style = RowStyle { delimiter, quotes: is_csv, escapes: !is_csv && !fields.raw };
        let has_header = fields.header.unwrap_or(is_csv);
        // Names of columns have no carriage return at their end, though with --raw fields may.
        let text = RowText::new(input, !is_csv && (has_header || style.escapes));
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(style.quotes)
            // A carriage return alone ends a row of CSV, but not one of TSV.
            .terminator(if is_csv { Terminator::CRLF } else { Terminator::Any(b'\n') })
            .has_headers(has_header)
            // A row of another length is a bad row, after which the next one can be read.
            .flexible(true)
            .from_reader(text);
        let first = reader.byte_headers().map_err(|error| failed(error, &name))?.clone();
        reader.get_mut().strips_returns = style.escapes;
        let columns: Vec<String> = match has_header {
            true => first.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            false => (1..=first.len()).map(|number| number.to_string()).collect(),
        };
        if has_header {
            let checked = check_closed(reader.get_ref(), &first);
            let checked = checked.and_then(|()| check_header(&columns, is_csv));
            checked.map_err(|error| error.in_file(&name))?;
        }
        let value = value_columns(&columns, &fields).map_err(|error| error.in_file(&name))?;
        let header = has_header.then_some(first);
        let row = ByteRecord::new();
        Ok(Rows {
            reader,
            name,
            style,
            header,
            columns,
            fields,
            value,
            row,
            good: 0,
            is_bad: false,
        })
    }

    /// Reads the next row; returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.reader.get_mut().begin_row();
        let more = self.reader.read_byte_record(&mut self.row);
        more.map_err(|error| failed(error, &self.name))
    }

    fn parse(&self) -> Result<Record> {
        if self.reader.get_ref().is_unclosed() {
            return Err(not_closed());
        }
        let (len, expected) = (self.row.len(), self.columns.len());
        if len != expected {
            let has = text::counted(len as u64, "field");
            let other = if self.header.is_some() { "the header" } else { "the first one" };
            return Err(Error::invalid_argument(format!(
                "this row has {has}, {other} has {expected}"
            ))
            .advise("correct the line and load again"));
        }
        let key = match &self.fields.key {
            None => self.field(0)?.into_owned(),
            Some(template) => template.fill(|name, key| {
                key.extend_from_slice(&self.field(find(&self.columns, name)?)?);
                Ok(())
            })?,
        };
        Ok(Record { key, value: self.value()? })
    }

    /// Returns the bytes of column `at`.
    fn field(&self, at: usize) -> Result<Cow<'_, [u8]>> {
        let field = &self.row[at];
        match self.style.escapes {
            true => super::lines::unescaped(field).map(Cow::Owned),
            false => Ok(Cow::Borrowed(field)),
        }
    }

    fn value(&self) -> Result<Vec<u8>> {
        let columns = match &self.value {
            ValueColumns::One(at) => return Ok(self.field(*at)?.into_owned()),
            ValueColumns::Object(columns) => columns,
        };
        let mut members = Vec::with_capacity(columns.len());
        for (at, quoted) in columns {
            let field = self.field(*at)?;
            let text = std::str::from_utf8(&field).map_err(|_| not_text(quoted))?;
            members.push(format!("{quoted}:{}", json_string(text)));
        }
        Ok(format!("{{{}}}", members.join(",")).into_bytes())
    }

    /// Returns the text of a row, with its newline.
    fn written(&self, row: &ByteRecord) -> Option<Vec<u8>> {
        let quote = if self.style.quotes { QuoteStyle::Necessary } else { QuoteStyle::Never };
        let mut writer = WriterBuilder::new()
            .delimiter(self.style.delimiter)
            .quote_style(quote)
            .from_writer(Vec::new());
        writer.write_byte_record(row).ok()?;
        writer.into_inner().ok()
    }
}

impl Records for Rows {
    fn next(&mut self) -> Result<Option<Record>> {
        self.is_bad = false;
        if !self.advance()? {
            return Ok(None);
        }
        let record = self.parse().and_then(Record::checked).map_err(|error| {
            at_line(self.reader.get_ref().line_of(&self.row), &error).in_file(&self.name)
        });
        self.is_bad = record.is_err();
        self.good += u64::from(!self.is_bad);
        record.map(Some)
    }

    fn count(&self) -> u64 {
        self.good
    }

    fn skip(&mut self, lines: u64) -> Result<()> {
        while self.good < lines && self.advance()? {
            self.good += 1;
        }
        Ok(())
    }

    fn pass_bad(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.is_bad) {
            return None;
        }
        self.good += 1;
        let mut text = self.written(&self.row)?;
        if self.reader.get_ref().is_unclosed() {
            // The text has no quote at its end. With the one that was written, the row would load.
            text.truncate(text.len() - b"\"\n".len());
        }
        Some(text)
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn heading(&self) -> Option<Vec<u8>> {
        self.header.as_ref().and_then(|header| self.written(header))
    }
}

/// Refuses a header whose quote takes in the whole text.
fn check_closed(text: &RowText, header: &ByteRecord) -> Result<()> {
    // Of an empty text, nothing is read before its end either.
    match text.is_unclosed() && !header.is_empty() {
        true => Err(at_line(text.line_of(header), &not_closed())),
        false => Ok(()),
    }
}

fn check_header(columns: &[String], is_csv: bool) -> Result<()> {
    match columns {
        [] => Err(Error::invalid_argument("the file has no header")
            .advise("the first line names the columns, or give --no-header")),
        [one] if is_csv => match sniff::other_than_one_column(one.as_bytes()) {
            Some(advice) => {
                let what = format!("the header has a single column, {one:?}");
                Err(Error::invalid_argument(what).advise(advice))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Finds the columns of the value, and those of the key, too, so that a wrong name is told at once.
fn value_columns(columns: &[String], fields: &Fields) -> Result<ValueColumns> {
    let mut key = Some(0);
    if let Some(template) = &fields.key {
        let mut used = Vec::new();
        template.fill(|name, _| {
            used.push(find(columns, name)?);
            Ok(())
        })?;
        // Of two columns, the one that is not the key is the value, unless the key has both.
        key = used.first().copied().filter(|_| used.len() == 1);
    }
    let object = |indexes: &mut dyn Iterator<Item = usize>| {
        ValueColumns::Object(indexes.map(|at| (at, json_string(&columns[at]))).collect())
    };
    Ok(match (fields.values.as_slice(), key) {
        ([], Some(key)) if columns.len() == 2 => ValueColumns::One(1 - key),
        ([], _) => object(&mut (0..columns.len())),
        ([one], _) => ValueColumns::One(find(columns, one)?),
        (several, _) => {
            let found: Result<Vec<_>> = several.iter().map(|name| find(columns, name)).collect();
            object(&mut found?.into_iter())
        }
    })
}

fn find(columns: &[String], wanted: &str) -> Result<usize> {
    columns.iter().position(|column| column == wanted).ok_or_else(|| {
        Error::invalid_argument(format!("the header has no column {wanted:?}"))
            .advise(format!("the columns are {}", columns.join(", ")))
    })
}

fn not_closed() -> Error {
    Error::invalid_argument("a quote is not closed")
        .advise("end the field with \"; within quotes, each \" is written twice")
}

fn not_text(quoted: &str) -> Error {
    Error::invalid_argument(format!("column {quoted} is not UTF-8 text"))
        .advise("choose a single column with --value: its bytes are stored as they are")
}

fn failed(error: csv::Error, name: &Path) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            Error::invalid_argument(error.to_string())
                .in_file(name)
                .advise("correct it and load again; in CSV, perhaps a quote was left open")
        }
        csv::ErrorKind::Io(error) => Error::io("read", name, error),
        other => Error::invalid_argument(format!("these are no rows: {other:?}"))
            .in_file(name)
            .advise("correct the line and load again"),
    }
}
