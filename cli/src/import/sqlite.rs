//! Tables of SQLite, which the program `sqlite3` reads: it is on most machines, and always knows
//! the files it wrote, whereas a copy of SQLite in this program would take longer to build than all
//! else.
//!
//! It prints key and value in hexadecimal, so any bytes come through, in the order of the keys'
//! bytes.

use super::input::ImportInput;
use super::source::{ImportPair, Source};
use crate::text::{self, shown_key};
use cleavedb::{Error, ErrorKind, Result};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Stands for a key that is NULL, as no hexadecimal text does.
const NULL_KEY: &str = "-";
/// The largest floating-point number that is finite.
const LARGEST: &str = "1.7976931348623157e308";
/// More columns than SQLite allows a table.
const MAX_COLUMNS: usize = 32_768;

/// Which rows become pairs, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowChoice {
    pub(crate) table: String,
    /// The column with the key; `None` for the first one.
    pub(crate) key: Option<String>,
    /// The columns with the value; empty for all others.
    pub(crate) values: Vec<String>,
}

/// A table that is read.
pub(crate) struct SqliteSource {
    child: Child,
    input: ImportInput,
    file: PathBuf,
    line: Vec<u8>,
    before: Option<Vec<u8>>,
    is_begun: bool,
}

impl SqliteSource {
    pub(crate) fn open(file: &Path, choice: &RowChoice) -> Result<Self> {
        if !file.is_file() {
            return Err(Error::not_found("there is no file of SQLite")
                .in_file(file)
                .advise("check the path"));
        }
        let query =
            query(choice, &columns(file, &choice.table)?).map_err(|error| error.in_file(file))?;
        let mut child = run(file, &query)?;
        let stdout = child.stdout.take().ok_or_else(|| Error::internal("there is no pipe"))?;
        let input = ImportInput::new(Box::new(stdout), Path::new("sqlite3"), None);
        let (line, file) = (Vec::new(), file.to_path_buf());
        Ok(SqliteSource { child, input, file, line, before: None, is_begun: false })
    }

    /// Fails if the program did.
    fn end(&mut self) -> Result<()> {
        let mut told = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let read = stderr.by_ref().take(1 << 16).read_to_string(&mut told);
            read.map_err(|error| Error::io("read", Path::new("sqlite3"), error))?;
        }
        let status = self.child.wait();
        let status = status.map_err(|error| Error::io("run", Path::new("sqlite3"), error))?;
        if status.success() {
            return Ok(());
        }
        let what = format!("sqlite3 failed: {}", told.trim());
        Err(Error::new(ErrorKind::Io, what).in_file(&self.file))
    }
}

fn run(file: &Path, query: &str) -> Result<Child> {
    let mut command = Command::new("sqlite3");
    // No file of settings is read, and the separator is the one that is expected here.
    command.args(["-readonly", "-batch", "-list", "-noheader", "-separator", "\t"]);
    // Behind `./` a name is neither an option nor anything else that SQLite has names for.
    command.args(["-init", "/dev/null"]).arg(Path::new(".").join(file)).arg(query);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let told = Error::io("run", Path::new("sqlite3"), error);
        if missing { told.advise("install the program sqlite3 (Debian: sqlite3)") } else { told }
    })
}

/// Returns the columns of a table.
fn columns(file: &Path, table: &str) -> Result<Vec<String>> {
    let query = format!("SELECT hex(name) FROM pragma_table_info({})", quoted(table, '\''));
    let mut child = run(file, &query)?;
    let stdout = child.stdout.take().ok_or_else(|| Error::internal("there is no pipe"))?;
    let input = ImportInput::new(Box::new(stdout), Path::new("sqlite3"), None);
    let (line, path) = (Vec::new(), file.to_path_buf());
    let mut source = SqliteSource { child, input, file: path, line, before: None, is_begun: true };
    let mut names = Vec::new();
    while names.len() < MAX_COLUMNS && source.input.read_line(&mut source.line)? {
        let name = text::unhex(&source.line)?;
        names.push(String::from_utf8_lossy(&name).into_owned());
    }
    source.end()?;
    if names.is_empty() {
        return Err(Error::not_found(format!("there is no table {table:?}"))
            .in_file(file)
            .advise("list them with: sqlite3 FILE .tables"));
    }
    Ok(names)
}

/// Returns text in quotes, which are doubled within.
fn quoted(text: &str, quote: char) -> String {
    let doubled = text.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

/// Returns the query for keys and values in hexadecimal.
fn query(choice: &RowChoice, columns: &[String]) -> Result<String> {
    let known = |name: &String| {
        let column = columns.iter().find(|column| *column == name);
        column.ok_or_else(|| {
            Error::invalid_argument(format!("the table has no column {name:?}"))
                .advise(format!("choose one with --key or --value: {}", columns.join(", ")))
        })
    };
    let key = choice.key.as_ref().map_or(Ok(&columns[0]), known)?;
    let values = choice.values.iter().map(known).collect::<Result<Vec<_>>>()?;
    let others = columns.iter().filter(|column| *column != key).collect::<Vec<_>>();
    let value = match (values.as_slice(), others.as_slice()) {
        ([one], _) | ([], [one]) => bytes(&quoted(one, '"')),
        ([], _) => object(&columns.iter().collect::<Vec<_>>()),
        (several, _) => object(several),
    };
    let (key, table) = (quoted(key, '"'), quoted(&choice.table, '"'));
    let key_bytes = bytes(&key);
    Ok(format!(
        "SELECT CASE WHEN {key} IS NULL THEN '{NULL_KEY}' ELSE hex({key_bytes}) END, \
         hex({value}) FROM {table} ORDER BY {key_bytes}"
    ))
}

/// Returns the expression for the bytes of a column.
fn bytes(column: &str) -> String {
    let digits = digits(column);
    format!("CAST(CASE typeof({column}) WHEN 'real' THEN {digits} ELSE {column} END AS BLOB)")
}

/// Returns the expression for the digits of a column's floating-point number: 15 of them, as SQLite
/// shows it, where these are its own, and else all 17 that tell it from every other number.
///
/// Whether they are is found by a division of two numbers that are exact, which rounds as it must;
/// SQLite's reading of digits does not always. With an exponent, 17 are taken without asking.
fn digits(column: &str) -> String {
    format!(
        "(SELECT CASE WHEN instr(short, 'e') = 0 AND replace(short, '.', '') / \
         CAST('1e' || (length(short) - instr(short, '.')) AS REAL) = number \
         THEN short ELSE long END FROM (SELECT printf('%!.15g', {column}) AS short, \
         printf('%!.17g', {column}) AS long, {column} AS number))"
    )
}

/// Returns the expression for a JSON object of columns, in which bytes are `{"hex":"…"}`.
fn object(columns: &[&String]) -> String {
    let members: Vec<String> = columns
        .iter()
        .map(|name| {
            let (text, column) = (quoted(name, '\''), quoted(name, '"'));
            let digits = digits(&column);
            // JSON has no word for the infinities, which SQLite writes in a way of its own.
            format!(
                "{text}, CASE WHEN typeof({column}) = 'blob' \
                 THEN json_object('hex', lower(hex({column}))) \
                 WHEN typeof({column}) = 'real' AND abs({column}) <= {LARGEST} \
                 THEN json({digits}) ELSE {column} END"
            )
        })
        .collect();
    format!("json_object({})", members.join(", "))
}

impl Source for SqliteSource {
    fn next_part(&mut self) -> Result<Option<String>> {
        let is_first = !self.is_begun;
        self.is_begun = true;
        Ok(is_first.then(String::new))
    }

    fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
        if !self.input.read_line(&mut self.line)? {
            return self.end().map(|()| false);
        }
        let (key, value) = match self.line.iter().position(|&byte| byte == b'\t') {
            Some(tab) => (&self.line[..tab], &self.line[tab + 1..]),
            None => (self.line.as_slice(), [].as_slice()),
        };
        let advice = "choose a column with --key that no two rows share";
        if key == NULL_KEY.as_bytes() {
            let what = "a row has NULL for its key";
            return Err(Error::invalid_argument(what).in_file(&self.file).advise(advice));
        }
        let key = text::unhex(key)?;
        if self.before.as_ref() == Some(&key) {
            let what = format!("two rows have the key {}", shown_key(&key));
            return Err(Error::invalid_argument(what).in_file(&self.file).advise(advice));
        }
        pair.set(&key, &text::unhex(value)?);
        self.before = Some(key);
        Ok(true)
    }

    fn ascends(&self) -> bool {
        true
    }

    fn share(&self) -> Option<f64> {
        None
    }
}

impl Drop for SqliteSource {
    fn drop(&mut self) {
        // It may still print rows that nobody wants; if it has ended, there is nothing to kill.
        let _ = (self.child.kill(), self.child.wait());
    }
}
