//! Reads records in any of the formats; errors name the line.

use super::Format;
use super::lines::Lines;
use super::rows::Rows;
use super::sniff;
use super::template::KeyTemplate;
use cleavedb::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};
use std::io::BufRead;
use std::path::PathBuf;

/// One key and its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Record {
    /// Returns the record if a store takes it. One that is too long would fail the whole batch in
    /// which it is written.
    pub(super) fn checked(self) -> Result<Record> {
        let too_long = |what: &str, len: usize, most: usize| {
            let told = format!("a {what} of {len} bytes is over the limit of {most}");
            Err(Error::invalid_argument(told).advise("correct the line and load again"))
        };
        match (self.key.len(), self.value.len()) {
            (len, _) if len > MAX_KEY_BYTES => too_long("key", len, MAX_KEY_BYTES),
            (_, len) if len > MAX_VALUE_BYTES => too_long("value", len, MAX_VALUE_BYTES),
            _ => Ok(self),
        }
    }
}

/// The fields of a row that become the key and the value, and how they are written.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// The key's columns or fields. `None` means the first column, or JSON's field `key`.
    pub(crate) key: Option<KeyTemplate>,
    /// The value's columns or fields. Empty means the rest of the row, see [`read`].
    pub(crate) values: Vec<String>,
    /// True if backslashes in TSV, and carriage returns before newlines, are plain characters.
    pub(crate) raw: bool,
    /// True if the first line names the columns, and false if it is a row already. `None` means
    /// true in CSV; in TSV, that there are no columns, but a key and all that follows it.
    pub(crate) header: Option<bool>,
    /// What separates columns. `None` means a comma in CSV, a tab in TSV.
    pub(crate) delimiter: Option<u8>,
}

/// A stream of records.
pub(crate) trait Records {
    /// Returns the next record, or `None` at the end. After an error of one line, the next call
    /// goes on behind it.
    fn next(&mut self) -> Result<Option<Record>>;

    /// Returns the number of lines (CSV: rows) read without error, empty ones included.
    fn count(&self) -> u64;

    /// Reads over lines until this many were read; there may be fewer.
    fn skip(&mut self, lines: u64) -> Result<()>;

    /// Counts the bad line, whose error [`Records::next`] has just returned, as read, and returns
    /// its text. Returns `None` if the error was not about one line: then there is no going on.
    fn pass_bad(&mut self) -> Option<Vec<u8>>;

    /// Returns the names of the columns, if there are columns.
    fn columns(&self) -> &[String] {
        &[]
    }

    /// Returns the header that a file of lines of this text needs.
    fn heading(&self) -> Option<Vec<u8>> {
        None
    }
}

/// Returns the records of `input`, which errors call `name`.
///
/// If no value fields are named, the value is: in TSV all after the first tab; in CSV the other
/// column if there are two, else the row as a JSON object; in JSON lines the field `value` of an
/// object that has just `key` and `value`, else the whole line. If one field is named, the value is
/// its text; if several are, a JSON object of them.
pub(crate) fn read(
    format: Format,
    mut input: Box<dyn BufRead>,
    name: PathBuf,
    fields: Fields,
) -> Result<Box<dyn Records>> {
    let first = input.fill_buf().map_err(|error| Error::io("read", &name, error))?;
    sniff::refuse_binary(first, &name)?;
    // Editors of some systems begin every text with this mark, which is no part of it.
    if first.starts_with("\u{feff}".as_bytes()) {
        input.consume("\u{feff}".len());
    }
    let has_columns = format == Format::Csv || format == Format::Tsv && fields.header.is_some();
    if has_columns {
        return Ok(Box::new(Rows::new(format, input, name, fields)?));
    }
    refuse_columns(format, &fields)?;
    Ok(Box::new(Lines::new(format, input, name, fields)))
}

/// Refuses settings of columns for a format that has none.
fn refuse_columns(format: Format, fields: &Fields) -> Result<()> {
    let has_names = fields.key.is_some() || !fields.values.is_empty();
    let refuse = |what: &str, advice: &str| Err(Error::invalid_argument(what).advise(advice));
    match format {
        Format::Tsv if has_names || fields.delimiter.is_some() => refuse(
            "TSV has no columns with names: a line is a key, a tab, and the value",
            "with --header, the first line names the columns; with --no-header, they are 1, 2, 3",
        ),
        Format::Hex if has_names || fields.header.is_some() || fields.delimiter.is_some() => {
            refuse("hexadecimal lines have no columns", "leave --key, --value and --header out")
        }
        Format::Jsonl if fields.header.is_some() || fields.delimiter.is_some() => refuse(
            "JSON lines have neither a header nor a delimiter",
            "leave --header, --no-header and --delimiter out",
        ),
        _ => Ok(()),
    }
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
        let key = key.map(|key| KeyTemplate::parse(key).unwrap());
        Fields { key, values, ..Fields::default() }
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
    fn rows_with_and_without_a_header() {
        let table = |header| Fields { header: Some(header), ..fields(Some("{2}-{1}"), &["3"]) };
        let csv = "7,x,\"a \"\"b\"\"\"\n";
        assert_eq!(one(Format::Csv, csv, table(false)), pair("x-7", "a \"b\""));
        let tsv = "1\t2\t3\n7\tx\t\"a\\t\n";
        assert_eq!(one(Format::Tsv, tsv, table(true)), pair("x-7", "\"a\t"));
        let raw = Fields { raw: true, ..table(true) };
        assert_eq!(one(Format::Tsv, tsv, raw), pair("x-7", "\"a\\t"));
        let semicolons = Fields { delimiter: Some(b';'), ..Fields::default() };
        assert_eq!(one(Format::Csv, "id;name\n7;a,b\n", semicolons), pair("7", "a,b"));
        // The mark of a text's encoding is not part of the first name.
        let marked = "\u{feff}id,name\n7,x\n";
        assert_eq!(one(Format::Csv, marked, fields(Some("id"), &[])), pair("7", "x"));
        assert_eq!(one(Format::Tsv, "\u{feff}a\tb\n", Fields::default()), pair("a", "b"));
    }

    #[test]
    fn keys_are_made_of_several_fields() {
        let csv = "country,id,name\nDE,7,Bonn\n";
        let key = || fields(Some("{country}/{id}"), &["name"]);
        assert_eq!(one(Format::Csv, csv, key()), pair("DE/7", "Bonn"));
        let json = r#"{"id": 7, "country": "DE", "name": "Bonn"}"#;
        assert_eq!(one(Format::Jsonl, json, key()), pair("DE/7", "Bonn"));
        // Of two columns that are both in the key, both are in the value.
        let both = one(Format::Csv, "a,b\n1,2\n", fields(Some("{a}{b}"), &[]));
        assert_eq!(both, pair("12", r#"{"a":"1","b":"2"}"#));
        let error = all(Format::Jsonl, r#"{"country":"DE"}"#, key()).unwrap_err().to_string();
        assert!(error.contains("no field \"id\""), "{error}");
    }

    /// What follows a bad line is read, and the bad lines make a text of their own.
    #[test]
    fn bad_lines_can_be_passed() {
        let cases = [
            (Format::Tsv, "a\t1\nb\nc\t3\n\\q\t4\n", "b\n\\q\t4\n", None),
            (
                Format::Jsonl,
                "{\"key\":1,\"value\":1}\n{\n{\"key\":3,\"value\":3}\n[]",
                "{\n[]\n",
                None,
            ),
            (Format::Csv, "k,v\n1,1\n2\n3,3\n\"4,\",\"\",5\n", "2\n\"4,\",,5\n", Some("k,v\n")),
        ];
        for (format, text, expected, heading) in cases {
            let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
            let mut records = read(format, input, "in".into(), Fields::default()).unwrap();
            let (mut good, mut bad) = (0, Vec::new());
            loop {
                match records.next() {
                    Ok(None) => break,
                    Ok(Some(_)) => good += 1,
                    Err(_) => bad.extend(records.pass_bad().expect("a line is bad")),
                }
            }
            assert_eq!(String::from_utf8(bad).unwrap(), expected);
            assert_eq!((good, records.count()), (2, 4), "{format:?}");
            assert_eq!(records.heading().as_deref(), heading.map(str::as_bytes));
            assert!(records.pass_bad().is_none());
            let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
            let mut rest = read(format, input, "in".into(), Fields::default()).unwrap();
            rest.skip(2).unwrap();
            assert_eq!(rest.count(), 2);
            assert!(rest.next().unwrap().is_some(), "{format:?}: the third line");
        }
    }

    /// A quote that nothing closed took in the rest of the file, as the CSV parser ends such a row
    /// with the text, and the load told of no error. Now the row is a bad one, and the lines that
    /// `--rejects` keeps of it are bad ones again.
    #[test]
    fn a_quote_that_is_not_closed_is_a_bad_row() {
        let text = "k,v\n1,\"a\n\"\n2,\"b\n3,\"\"c\n";
        for text in [text, text.trim_end()] {
            let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
            let mut records = read(Format::Csv, input, "in".into(), Fields::default()).unwrap();
            assert_eq!(records.next().unwrap().unwrap().value, b"a\n");
            let error = records.next().unwrap_err().to_string();
            assert!(error.contains("line 4: a quote is not closed"), "{error}");
            assert_eq!(records.pass_bad().unwrap(), b"2,\"b\n3,\"\"c\n");
            assert_eq!((records.next().unwrap(), records.count()), (None, 2));
        }
        let refused = |text, header| {
            let fields = Fields { header, ..Fields::default() };
            all(Format::Csv, text, fields).unwrap_err().to_string()
        };
        for (text, header) in [("k,\"v\n1,2\n", None), ("1,\"", Some(false))] {
            let error = refused(text, header);
            assert!(error.contains("line 1: a quote is not closed"), "{error}");
        }
        assert!(refused("", None).contains("no header"));
        for closed in ["k,v\n1,\"a\"", "\n\nk,\"v\"\r\n1,\"a\"\n\n", "k,v\r1,a\r"] {
            assert_eq!(one(Format::Csv, closed, Fields::default()), pair("1", "a"));
        }
    }

    /// With or without columns, TSV is the same text. With them, a carriage return within a field
    /// ended the row, and the rest of it became another one. Now only one before a newline belongs
    /// to the end of a row, and with `--raw` none does.
    #[test]
    fn a_carriage_return_in_tsv_is_a_character_like_others() {
        let text = "a\t1\r2\r\n\r\nb\t\r3\nc\t4\r";
        let raw_text = text.replace("\r\n\r\n", "\r\n");
        for (text, raw) in [(text, false), (&raw_text, true)] {
            let plain = all(Format::Tsv, text, Fields { raw, ..Fields::default() }).unwrap();
            let end = if raw { "\r" } else { "" };
            let one = format!("1\r2{end}");
            assert_eq!(plain[..2], [pair("a", &one), pair("b", "\r3")]);
            assert_eq!(plain[2..], [pair("c", &format!("4{end}"))]);
            let fields = |header| Fields { raw, header: Some(header), ..Fields::default() };
            assert_eq!(all(Format::Tsv, text, fields(false)).unwrap(), plain, "{raw}");
            let text = format!("k\tv\r\n{text}");
            let fields = Fields { values: vec!["v".into()], ..fields(true) };
            assert_eq!(all(Format::Tsv, &text, fields).unwrap(), plain, "{raw}");
        }
    }

    /// A bad row was named by a line too low where lines end in CR LF or are empty: the parser
    /// counts a newline when it reads the row after it.
    #[test]
    fn a_bad_row_is_named_by_the_line_where_it_begins() {
        for (text, line) in [
            ("k,v\r\n1,\"a\r\nb\"\r\n2\r\n", 4),
            ("k,v\n\n\n1,a\n\n2\n", 6),
            ("k,v\n1,a\n2,\"b\n\n\",3\n", 3),
            ("k,v\n1,a\n2", 3),
        ] {
            let error = all(Format::Csv, text, Fields::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}: ")), "{error}: {text:?}");
        }
    }

    /// A key that no store takes is a bad line like others, and what is around it is read.
    #[test]
    fn a_key_that_is_too_long_is_a_bad_line() {
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for (format, text) in [
            (Format::Tsv, format!("{long}\t1\n{}\t2\n", &long[1..])),
            (Format::Csv, format!("key,value\n{long},1\n{},2\n", &long[1..])),
            (Format::Jsonl, format!("{{\"key\":\"{long}\",\"value\":1}}\n{{\"key\":2}}\n")),
        ] {
            let input = Box::new(Cursor::new(text.into_bytes()));
            let mut records = read(format, input, "in".into(), Fields::default()).unwrap();
            let error = records.next().unwrap_err().to_string();
            assert!(error.contains("a key of 65537 bytes is over the limit of 65536"), "{error}");
            assert!(records.pass_bad().is_some_and(|line| line.len() > MAX_KEY_BYTES));
            assert!(records.next().unwrap().is_some(), "{format:?}");
            assert!(records.next().unwrap().is_none(), "{format:?}");
        }
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
        let advice = |format, text, fields| {
            all(format, text, fields).unwrap_err().advice().unwrap_or_default().to_owned()
        };
        assert!(advice(Format::Tsv, "a\tC:\\w\n", Fields::default()).contains("--raw"));
        assert!(advice(Format::Tsv, "a\t1\n", fields(Some("a"), &[])).contains("--header"));
        assert!(advice(Format::Csv, "a;b\n", Fields::default()).contains("--delimiter ';'"));
    }
}
