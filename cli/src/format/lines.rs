//! Reads the formats with one record a line: TSV, hexadecimal, JSON lines.

use super::read::{Fields, Record, Records, at_line};
use super::{Format, json_string, sniff};
use crate::text;
use cleavedb::{Error, Result};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::mem;
use std::path::PathBuf;

/// The longest text of a record in bytes: a value of 1 GiB with every byte escaped fits, and a file
/// without newlines does not fill the memory. JSON escapes a byte with six, as `\u0000`, where the
/// other formats take at most four.
pub(super) const MAX_RECORD_TEXT: u64 = 7 << 30;

/// The records of a text, line by line. Empty lines are skipped.
pub(super) struct Lines {
    format: Format,
    input: Box<dyn BufRead>,
    name: PathBuf,
    fields: Fields,
    buffer: Vec<u8>,
    /// Number of the line in the buffer.
    line: u64,
    good: u64,
    is_bad: bool,
}

impl Lines {
    pub(super) fn new(
        format: Format,
        input: Box<dyn BufRead>,
        name: PathBuf,
        fields: Fields,
    ) -> Self {
        Lines { format, input, name, fields, buffer: Vec::new(), line: 0, good: 0, is_bad: false }
    }

    /// Reads a line into the buffer, without its newline; returns false at the end of the text.
    fn advance(&mut self) -> Result<bool> {
        self.buffer.clear();
        let mut limited = self.input.by_ref().take(MAX_RECORD_TEXT);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|error| Error::io("read", &self.name, error))?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if read as u64 == MAX_RECORD_TEXT {
            return Err(Error::invalid_argument("the line is longer than the largest record"));
        }
        if self.buffer.last() == Some(&b'\r') && !self.fields.raw {
            self.buffer.pop();
        }
        Ok(true)
    }

    fn parse(&self) -> Result<Record> {
        match self.format {
            Format::Jsonl => parse_json(&self.buffer, &self.fields),
            Format::Hex => parse_pair(&self.buffer, text::unhex),
            _ if self.fields.raw => parse_pair(&self.buffer, |text| Ok(text.to_vec())),
            _ => parse_pair(&self.buffer, unescaped),
        }
    }
}

impl Records for Lines {
    fn next(&mut self) -> Result<Option<Record>> {
        self.is_bad = false;
        while self.advance().map_err(|error| error.in_file(&self.name))? {
            if !self.buffer.is_empty() {
                let located = |error| at_line(self.line, &error).in_file(&self.name);
                let record = self.parse().and_then(Record::checked).map_err(located);
                self.is_bad = record.is_err();
                self.good = if self.is_bad { self.good } else { self.line };
                return record.map(Some);
            }
            self.good = self.line;
        }
        Ok(None)
    }

    fn count(&self) -> u64 {
        self.good
    }

    fn skip(&mut self, lines: u64) -> Result<()> {
        while self.line < lines && self.advance().map_err(|error| error.in_file(&self.name))? {}
        self.good = self.line;
        Ok(())
    }

    fn pass_bad(&mut self) -> Option<Vec<u8>> {
        if !mem::take(&mut self.is_bad) {
            return None;
        }
        self.good = self.line;
        let mut text = mem::take(&mut self.buffer);
        text.push(b'\n');
        Some(text)
    }
}

/// Returns the bytes that escaped text of a file stands for.
pub(super) fn unescaped(text: &[u8]) -> Result<Vec<u8>> {
    text::unescape(text).map_err(|error| {
        error.advise(
            "write \\\\ for a backslash, or load with --raw, which takes all as it is; the escapes \
             are \\t \\n \\r \\0 \\\\ \\\" \\xNN",
        )
    })
}

fn parse_pair(line: &[u8], decode: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Record> {
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or_else(|| {
        Error::invalid_argument("there is no tab between a key and a value")
            .advise(sniff::without_tab(line))
    })?;
    Ok(Record { key: decode(&line[..tab])?, value: decode(&line[tab + 1..])? })
}

type JsonObject<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

fn parse_json(line: &[u8], fields: &Fields) -> Result<Record> {
    let object: JsonObject<'_> = serde_json::from_slice(line).map_err(|error| {
        // The parser gets one line at a time, so its own line number is of no use.
        let why = error.to_string().replace(" at line 1 column ", ", column ");
        Error::invalid_argument(format!("this is not a JSON object: {why}"))
            .advise(sniff::not_an_object(line))
    })?;
    let key = match &fields.key {
        None => key_bytes(field(&object, "key")?)?,
        Some(template) => template.fill(|name, key| {
            key.extend_from_slice(&key_bytes(field(&object, name)?)?);
            Ok(())
        })?,
    };
    let value = match fields.values.as_slice() {
        [] if is_own(&object) => bytes(field(&object, "value")?)?,
        [] => line.to_vec(),
        [one] => bytes(field(&object, one)?)?,
        several => {
            let member = |name: &String| {
                Ok(format!("{}:{}", json_string(name), field(&object, name)?.get()))
            };
            let members = several.iter().map(member).collect::<Result<Vec<_>>>()?;
            format!("{{{}}}", members.join(",")).into_bytes()
        }
    };
    Ok(Record { key, value })
}

/// Returns true for an object as `cleave dump` writes it.
fn is_own(object: &JsonObject<'_>) -> bool {
    object.len() == 2 && object.contains_key("key") && object.contains_key("value")
}

fn field<'a>(object: &JsonObject<'a>, name: &str) -> Result<&'a RawValue> {
    object.get(name).copied().ok_or_else(|| {
        let names: Vec<&str> = object.keys().map(AsRef::as_ref).collect();
        Error::invalid_argument(format!("the object has no field {name:?}"))
            .advise(format!("choose one with --key or --value: {}", names.join(", ")))
    })
}

/// Returns a string's text, the bytes of `{"hex":"…"}`, or the JSON text of anything else.
fn bytes(raw: &RawValue) -> Result<Vec<u8>> {
    let json = raw.get();
    if json.starts_with('"') {
        let text: String = serde_json::from_str(json).map_err(|error| {
            Error::invalid_argument(format!("this string is not valid text: {error}"))
        })?;
        return Ok(text.into_bytes());
    }
    match hex_of(json) {
        Some(digits) => text::unhex(digits.as_bytes()),
        None => Ok(json.as_bytes().to_vec()),
    }
}

fn hex_of(json: &str) -> Option<String> {
    let mut object: BTreeMap<String, String> = serde_json::from_str(json).ok()?;
    (object.len() == 1).then(|| object.remove("hex"))?
}

fn key_bytes(raw: &RawValue) -> Result<Vec<u8>> {
    let json = raw.get();
    if json == "null" || json.starts_with('[') || json.starts_with('{') && hex_of(json).is_none() {
        return Err(Error::invalid_argument("the key must be a string or a number"));
    }
    bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cleavedb::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

    /// A dump in JSON lines of the largest value, all of it zeroes, could not be loaded: the bound
    /// counted five bytes for each. Now it is above what the dump writes for any byte.
    #[test]
    fn the_largest_record_fits_with_every_byte_escaped() {
        let escaped = (0..0x80).map(|byte| json_string(&char::from(byte).to_string()).len() - 2);
        let widest = escaped.max().unwrap() as u64;
        assert_eq!(widest, 6);
        let around = r#"{"key":"","value":""}"#.len() as u64 + 1;
        let longest = widest * (MAX_KEY_BYTES as u64 + MAX_VALUE_BYTES as u64) + around;
        assert!(longest < MAX_RECORD_TEXT, "{longest}");
    }
}
