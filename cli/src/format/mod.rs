//! Keys and values as text, which `scan` and `dump` write and `load` reads.
//!
//! ```text
//! tsv    key<TAB>value          escaped as in `text`: any bytes survive, one record is one line
//! hex    hexkey<TAB>hexvalue    two digits a byte
//! jsonl  {"key":K,"value":V}    K and V are strings, or {"hex":"…"} for bytes that are no text
//! csv    read only: a header, then rows
//! ```

pub(crate) mod changes;
mod lines;
pub(crate) mod read;
mod row_text;
mod rows;
pub(crate) mod sniff;
pub(crate) mod template;

use crate::text;

/// A way to write records as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// key TAB value, with escapes
    Tsv,
    /// Rows under a header
    Csv,
    /// One JSON object per line
    Jsonl,
    /// hexkey TAB hexvalue
    Hex,
}

/// Writes one pair and a newline to `line`, which is emptied first. Without a value, only the key
/// is written.
pub(crate) fn write_pair(format: Format, key: &[u8], value: Option<&[u8]>, line: &mut String) {
    line.clear();
    match format {
        Format::Tsv => {
            text::escape_into(key, line);
            if let Some(value) = value {
                line.push('\t');
                text::escape_into(value, line);
            }
        }
        Format::Hex => {
            line.push_str(&text::hex(key));
            if let Some(value) = value {
                line.push('\t');
                line.push_str(&text::hex(value));
            }
        }
        Format::Jsonl => {
            line.push_str("{\"key\":");
            line.push_str(&json_bytes(key));
            if let Some(value) = value {
                line.push_str(",\"value\":");
                line.push_str(&json_bytes(value));
            }
            line.push('}');
        }
        Format::Csv => unreachable!("nothing writes CSV"),
    }
    line.push('\n');
}

/// Returns bytes as a JSON string, or as `{"hex":"…"}` if they are not UTF-8 text.
fn json_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => json_string(text),
        Err(_) => format!("{{\"hex\":\"{}\"}}", text::hex(bytes)),
    }
}

/// Returns `text` in quotes, escaped for JSON.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
