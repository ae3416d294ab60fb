//! Bytes as text and back: escapes that keep one record on one line, hexadecimal, sizes, rates.
//!
//! An escaped text is valid UTF-8 without control characters. Backslash, tab, newline and carriage
//! return become `\\ \t \n \r`; every other control character and every byte that is not valid
//! UTF-8 becomes `\xNN`, and so does U+FEFF, which at the beginning of a text is taken for a mark
//! of its encoding. [`unescape`] reverses exactly this, so any bytes survive.

use cleavedb::{Error, Result};

/// Appends `bytes`, escaped, to `out`.
pub(crate) fn escape_into(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                c if c.is_control() || c == '\u{feff}' => {
                    let mut utf8 = [0; 4];
                    c.encode_utf8(&mut utf8).bytes().for_each(|byte| escape_byte(byte, out));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape_byte(byte, out));
    }
}

fn escape_byte(byte: u8, out: &mut String) {
    out.push_str("\\x");
    push_hex(byte, out);
}

/// Returns `bytes`, escaped.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    out
}

/// Returns a key for a message: escaped, in quotes, and cut if it is long.
pub(crate) fn shown_key(key: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let rest = if key.len() > SHOWN_BYTES { "…" } else { "" };
    format!("\"{}{rest}\"", escape(&key[..key.len().min(SHOWN_BYTES)]))
}

/// Returns the bytes that `text` stands for. It accepts `\0` and `\"` beyond what [`escape`]
/// writes.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, taken) = unescape_one(&rest[at + 1..])?;
        out.push(byte);
        rest = &rest[at + 1 + taken..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Returns the byte after a backslash, and how many characters of `rest` it took.
pub(crate) fn unescape_one(rest: &[u8]) -> Result<(u8, usize)> {
    let byte = match rest.first() {
        Some(b'\\') => b'\\',
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b'0') => 0,
        Some(b'"') => b'"',
        Some(b'x') => {
            let digits = rest.get(1..3).and_then(|digits| unhex(digits).ok());
            let digits =
                digits.ok_or_else(|| Error::invalid_argument("\\x needs two hex digits"))?;
            return Ok((digits[0], 3));
        }
        other => {
            let seen = other.map(|&byte| escape(&[byte])).unwrap_or_default();
            return Err(Error::invalid_argument(format!("the escape \\{seen} is unknown")).advise(
                "the escapes are \\t \\n \\r \\0 \\\\ \\\" \\xNN; write \\\\ for a backslash",
            ));
        }
    };
    Ok((byte, 1))
}

fn push_hex(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Returns `bytes` in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    bytes.iter().for_each(|&byte| push_hex(byte, &mut out));
    out
}

/// Returns the bytes that hexadecimal `text` stands for.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| {
        Error::invalid_argument(format!("{:?} is not hexadecimal", String::from_utf8_lossy(text)))
            .advise("write two digits 0-9 a-f for each byte, such as 00ff")
    })
}

/// Parses a number of bytes with an optional unit: `4096`, `4k`, `64MiB`, `1G`.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err("a size is a number and one of k, M, G, such as 64M".into()),
    };
    let number: usize = digits.parse().map_err(|_| "a size starts with a whole number")?;
    number.checked_mul(1 << shift).ok_or_else(|| "this size is too large".into())
}

/// Parses a count with an optional unit: `4096`, `10k`, `1M`. Unlike those of sizes, units are
/// powers of ten.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err("a count is a whole number, perhaps with k, M or G, such as 10M".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a count starts with a whole number")?;
    number.checked_mul(unit).ok_or_else(|| "this count is too large".into())
}

/// Parses what separates columns: one character, or `\t` for a tab.
pub(crate) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("a delimiter is one ASCII character, such as ';', or \\t for a tab".into()),
    }
}

/// Formats `bytes` for people, in the units of the engine's statistics.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// Formats `count` with a space between groups of three digits.
pub(crate) fn human_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Formats `count` with its noun in the right number: `1 key`, `2 keys`, `0 entries`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let number = human_count(count);
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("{number} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns the rate per second of `amount` done in `seconds`.
pub(crate) fn per_second(amount: u64, seconds: f64) -> f64 {
    amount as f64 / seconds.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_escaping() {
        let all: Vec<u8> = (0..=255).chain("ä€\u{85}🙂".bytes()).chain([0xe2, 0x82]).collect();
        let text = escape(&all);
        assert!(text.chars().all(|c| !c.is_control()));
        assert_eq!(unescape(text.as_bytes()).unwrap(), all);
        assert_eq!(escape("a\tb\\\n\u{1}ä".as_bytes()), "a\\tb\\\\\\n\\x01ä");
        // A dump whose first key began with this mark was loaded without it.
        assert_eq!(escape("\u{feff}a".as_bytes()), "\\xef\\xbb\\xbfa");
    }

    #[test]
    fn bad_escapes_and_digits_are_refused() {
        for bad in ["\\", "\\q", "\\x", "\\x1", "\\xg0", "a\\x+1"] {
            assert!(unescape(bad.as_bytes()).is_err(), "{bad}");
        }
        for bad in ["0", "zz", "0x", "+1", "ä"] {
            assert!(unhex(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(unhex(b"00fFa0").unwrap(), [0, 255, 160]);
        assert_eq!(hex(&[0, 255, 160]), "00ffa0");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("17"), Ok(17));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        for bad in ["", "k", "4x", "-1", "99999999999G", "1.5k"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("2M"), Ok(2_000_000));
        for bad in ["", "M", "4x", "-1", "99999999999999G", "1.5k", "4MiB"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
        let delimiters = [";", "\\t", "\t"].map(|text| parse_delimiter(text).unwrap());
        assert_eq!(delimiters, *b";\t\t");
        for bad in ["", "ä", "::", "\n", "\""] {
            assert!(parse_delimiter(bad).is_err(), "{bad:?}");
        }
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human_count(1_234_567), "1 234 567");
        assert_eq!(human_count(12), "12");
        let nouns = [counted(1, "entry"), counted(2, "table entry"), counted(1_000, "key")];
        assert_eq!(nouns, ["1 entry", "2 table entries", "1 000 keys"]);
        assert_eq!(counted(0, "record"), "0 records");
    }
}
