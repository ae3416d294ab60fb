//! Reads records in any of the formats; errors name the line.

use super::Format;
use super::csv_rows::CsvRows;
use super::lines::Lines;
use cleavedb::{Error, Result};
use std::io::BufRead;
use std::path::PathBuf;

/// One key and its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The fields of a row that become the key and the value.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// The key's column or field. `None` means CSV's first column, or JSON's field `key`.
    pub(crate) key: Option<String>,
    /// The value's columns or fields. Empty means the rest of the row, see [`read`].
    pub(crate) values: Vec<String>,
    /// True if backslashes in TSV are plain characters.
    pub(crate) raw: bool,
}

/// A stream of records.
pub(crate) trait Records {
    /// Returns the next record, or `None` at the end.
    fn next(&mut self) -> Result<Option<Record>>;

    /// Returns the number of lines (CSV: rows) read without error, empty ones included.
    fn count(&self) -> u64;
}

/// Returns the records of `input`, which errors call `name`.
///
/// If no value fields are named, the value is: in TSV all after the first tab; in CSV the other
/// column if there are two, else the row as a JSON object; in JSON lines the field `value` of an
/// object that has just `key` and `value`, else the whole line. If one field is named, the value is
/// its text; if several are, a JSON object of them.
pub(crate) fn read(
    format: Format,
    input: Box<dyn BufRead>,
    name: PathBuf,
    fields: Fields,
) -> Result<Box<dyn Records>> {
    Ok(match format {
        Format::Csv => Box::new(CsvRows::new(input, name, &fields)?),
        Format::Tsv | Format::Jsonl | Format::Hex => {
            Box::new(Lines::new(format, input, name, fields))
        }
    })
}

/// Returns the error with its line number added and its advice kept.
pub(crate) fn at_line(line: u64, error: &Error) -> Error {
    let told = Error::invalid_argument(format!("line {line}: {}", error.message()));
    match error.advice() {
        Some(advice) => told.advise(advice),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::write_pair;
    use std::io::Cursor;

    fn fields(key: Option<&str>, values: &[&str]) -> Fields {
        let values = values.iter().map(|value| value.to_string()).collect();
        Fields { key: key.map(String::from), values, raw: false }
    }

    fn all(format: Format, text: &str, fields: Fields) -> Result<Vec<(String, String)>> {
        let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
        let mut records = read(format, input, "in".into(), fields)?;
        let mut out = Vec::new();
        while let Some(record) = records.next()? {
            let text = |bytes| String::from_utf8(bytes).unwrap();
            out.push((text(record.key), text(record.value)));
        }
        Ok(out)
    }

    fn one(format: Format, text: &str, fields: Fields) -> (String, String) {
        let mut records = all(format, text, fields).unwrap();
        assert_eq!(records.len(), 1, "{text}");
        records.remove(0)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.into(), value.into())
    }

    #[test]
    fn any_bytes_round_trip_in_each_format_that_is_written() {
        let key: Vec<u8> = (0..=255).collect();
        for value in [b"".to_vec(), b"plain \"text\"\t\\ \r\n".to_vec(), key.clone()] {
            for format in [Format::Tsv, Format::Jsonl, Format::Hex] {
                let mut line = String::new();
                write_pair(format, &key, Some(&value), &mut line);
                assert_eq!(line.matches('\n').count(), 1);
                let input = Box::new(Cursor::new(line.into_bytes()));
                let mut records = read(format, input, "in".into(), Fields::default()).unwrap();
                let expected = Record { key: key.clone(), value: value.clone() };
                assert_eq!(records.next().unwrap(), Some(expected));
                assert_eq!(records.next().unwrap(), None);
            }
        }
    }

    #[test]
    fn tsv_splits_at_the_first_tab() {
        assert_eq!(one(Format::Tsv, "a\tb\tc\r\n", Fields::default()), pair("a", "b\tc"));
        let raw = Fields { raw: true, ..Fields::default() };
        assert_eq!(one(Format::Tsv, "a\tC:\\new\n", raw), pair("a", "C:\\new"));
        let two = all(Format::Tsv, "a\t1\n\nb\t", Fields::default()).unwrap();
        assert_eq!(two, [pair("a", "1"), pair("b", "")]);
    }

    #[test]
    fn csv_chooses_columns() {
        let two = "id,name\n7,\"a, \"\"b\"\"\"\n";
        assert_eq!(one(Format::Csv, two, Fields::default()), pair("7", "a, \"b\""));
        let three = "id,name,size\n7,x,3\n";
        let row = r#"{"id":"7","name":"x","size":"3"}"#;
        assert_eq!(one(Format::Csv, three, Fields::default()), pair("7", row));
        assert_eq!(one(Format::Csv, three, fields(Some("name"), &["size"])), pair("x", "3"));
        let some = r#"{"size":"3","id":"7"}"#;
        assert_eq!(one(Format::Csv, three, fields(None, &["size", "id"])), pair("7", some));
    }

    #[test]
    fn json_lines_choose_fields() {
        let own = r#"{"key":"a","value":"1\n2"}"#;
        assert_eq!(one(Format::Jsonl, own, Fields::default()), pair("a", "1\n2"));
        let row = r#"{"id": 7, "b": {"z": 1, "a": 2.50}}"#;
        assert_eq!(one(Format::Jsonl, row, fields(Some("id"), &[])), pair("7", row));
        assert_eq!(
            one(Format::Jsonl, row, fields(Some("id"), &["b"])),
            pair("7", r#"{"z": 1, "a": 2.50}"#)
        );
        assert_eq!(
            one(Format::Jsonl, row, fields(Some("id"), &["b", "id"])),
            pair("7", r#"{"b":{"z": 1, "a": 2.50},"id":7}"#)
        );
    }

    #[test]
    fn bad_lines_are_named_by_their_number() {
        let cases = [
            (Format::Tsv, "a\t1\nb\n", "line 2: there is no tab"),
            (Format::Tsv, "a\t\\q\n", "line 1: the escape \\q is unknown"),
            (Format::Hex, "00\t0\n", "line 1: \"0\" is not hexadecimal"),
            (Format::Jsonl, "{\"key\":\"a\",\"value\":1}\n{", "line 2: "),
            (Format::Jsonl, "{\"value\":1}", "line 1: the object has no field \"key\""),
            (Format::Jsonl, "{\"key\":[],\"value\":1}", "line 1: the key must be"),
            (Format::Csv, "a,b\n1,2\n3\n", "line 3: this row has 1 field, the header has 2"),
            (Format::Csv, "", "the file has no header"),
        ];
        for (format, text, expected) in cases {
            let error = all(format, text, Fields::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error} does not say {expected}");
        }
        let error = all(Format::Csv, "a,b\n", fields(Some("c"), &[])).unwrap_err().to_string();
        assert!(error.contains("the columns are a, b"), "{error}");
    }
}
