//! Recognizes input that is not what it is read as, so that an error can say what to type instead.

use cleavedb::{Error, Result};
use std::path::Path;

/// The first bytes of files that `load` does not read, what these are, and how they become text.
/// `FILE` stands for the file.
const BINARY: [(&[u8], &str, &str); 8] = [
    (b"\x1f\x8b", "compressed by gzip", "gunzip -c FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat FILE"),
    (b"BZh", "compressed by bzip2", "bunzip2 -c FILE"),
    (b"\xfd7zXZ\0", "compressed by xz", "xzcat FILE"),
    (b"PK\x03\x04", "a ZIP archive", "unzip -p FILE"),
    (b"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    (b"ORC", "an ORC file", "duckdb -csv -c \"FROM 'FILE'\""),
];

/// Refuses what is not text by its first bytes.
pub(crate) fn refuse_binary(first: &[u8], name: &Path) -> Result<()> {
    // A key may begin with these letters: then text follows, which it does not in a file of these.
    let is_binary = |magic: &[u8]| {
        first.starts_with(magic)
            && (!magic.is_ascii() || first.iter().take(64).any(|byte| is_control(*byte)))
    };
    if is_binary(b"CLEAVEDB") {
        return Err(Error::invalid_argument("this is a file of CleaveDB, not text")
            .in_file(name)
            .advise("`cleave ingest DIR FILE` takes sorted files, `cleave dump DIR` makes text"));
    }
    if first.starts_with(b"SQLite format 3\0") {
        let file = name.display();
        return Err(Error::invalid_argument("this is a SQLite database, not text")
            .in_file(name)
            .advise(format!("`cleave import --from sqlite --table TABLE {file} DIR` takes it")));
    }
    let parquet = (&b"PAR1"[..], "a Parquet file", "duckdb -csv -c \"FROM 'FILE'\"");
    let mut kinds = BINARY.iter().chain([&parquet]);
    let Some((_, what, command)) = kinds.find(|(magic, _, _)| is_binary(magic)) else {
        return Ok(());
    };
    let command = command.replace("FILE", &name.display().to_string());
    Err(Error::invalid_argument(format!("this is {what}, not text"))
        .in_file(name)
        .advise(format!("{command} | cleave load DIR --format csv (or what it holds)")))
}

fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Returns what to type instead for a line without a tab.
pub(super) fn without_tab(line: &[u8]) -> String {
    match trimmed(line).first() {
        Some(b'{') => "this looks like JSON lines: --format jsonl".into(),
        Some(b'[') => ARRAY.into(),
        _ => match separator(line) {
            Some(',') => "this looks like CSV: --format csv".into(),
            Some(other) => format!("this looks like CSV: --format csv --delimiter '{other}'"),
            None => "write key<TAB>value on each line, or choose another --format".into(),
        },
    }
}

/// Returns what to type instead for a line that is no JSON object.
pub(super) fn not_an_object(line: &[u8]) -> String {
    match trimmed(line) {
        [b'[', ..] => ARRAY.into(),
        [b'{', ..] => "write one JSON object on each line; `jq -c . FILE` makes lines of \
                       objects that go over several"
            .into(),
        _ if line.contains(&b'\t') => "this looks like TSV: --format tsv".into(),
        _ if separator(line).is_some() => "this looks like CSV: --format csv".into(),
        _ => "write one JSON object on each line".into(),
    }
}

const ARRAY: &str = "this looks like a JSON array: \
                     jq -c '.[]' FILE | cleave load DIR --format jsonl --key FIELD";

/// Returns what to type instead for a header that seems to be a single column, if it looks like
/// something else.
pub(super) fn other_than_one_column(header: &[u8]) -> Option<String> {
    match trimmed(header).first()? {
        b'{' => return Some("this looks like JSON lines: --format jsonl".into()),
        b'[' => return Some(ARRAY.into()),
        _ => {}
    }
    if header.contains(&b'\t') {
        return Some("this looks like TSV: --format tsv --header".into());
    }
    let other = separator(header)?;
    Some(format!("the columns seem to be separated otherwise: --delimiter '{other}'"))
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.trim_ascii()
}

/// Returns the separator of columns that a line without tabs most likely has.
fn separator(line: &[u8]) -> Option<char> {
    [',', ';', '|'].into_iter().find(|it| line.contains(&(*it as u8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named_with_a_command_that_reads_it() {
        let told = |first: &[u8]| refuse_binary(first, Path::new("in")).unwrap_err().to_string();
        let sqlite = told(b"SQLite format 3\0\x10\0");
        assert!(sqlite.contains("`cleave import --from sqlite --table TABLE in DIR`"));
        assert!(told(b"PAR1\x15\x04").contains("duckdb -csv -c \"FROM 'in'\" | cleave load"));
        assert!(told(b"\x1f\x8b\x08").contains("gunzip -c in"));
        assert!(told(b"\xff\xfek\0").contains("iconv"));
        assert!(told(b"CLEAVEDBTABL\x01\0").contains("cleave ingest"));
        for text in
            [&b""[..], b"PAR1\t15\n", b"ORC\tx", b"BZh,2\r\n", b"\xef\xbb\xbfid", b"CLEAVEDB\t1\n"]
        {
            assert!(refuse_binary(text, Path::new("in")).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn lines_of_another_format_are_recognized() {
        assert!(without_tab(b" {\"a\":1}").contains("--format jsonl"));
        assert!(without_tab(b"[{").contains("jq -c '.[]'"));
        assert!(without_tab(b"1,2").contains("--format csv"));
        assert!(without_tab(b"1;2").contains("--delimiter ';'"));
        assert!(without_tab(b"word").contains("key<TAB>value"));
        assert!(not_an_object(b"1,2").contains("--format csv"));
        assert!(not_an_object(b"a\tb").contains("--format tsv"));
        assert!(not_an_object(b"{").contains("jq -c ."));
        assert_eq!(other_than_one_column(b"id"), None);
        assert!(other_than_one_column(b"id;name").unwrap().contains("--delimiter ';'"));
        assert!(other_than_one_column(b"id\tname").unwrap().contains("--header"));
    }
}
