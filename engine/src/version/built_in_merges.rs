//! The merge operators that every build knows, by name.
//!
//! None of them loses an operand, and with each the result is the same however operands are
//! grouped, so that what a read sees does not depend on when flushes and compactions happened.

use crate::base::error::{Error, Result};
use crate::base::key::MAX_VALUE_BYTES;
use crate::version::merge_operator::MergeOperator;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The names of the built-in merge operators, for
/// [`KeyspaceOptions::merge_operator`](crate::KeyspaceOptions::merge_operator).
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("merge-operators"))?;
/// use cleavedb::{KeyspaceOptions, merge_operators};
/// let merge_operator = Some(merge_operators::ADD.to_owned());
/// let options = KeyspaceOptions { merge_operator, ..Default::default() };
/// let counters = db.create_keyspace_with("counters", options)?;
/// counters.merge("visits", "1")?;
/// counters.merge("visits", "41")?;
/// assert_eq!(counters.get("visits")?.unwrap(), "42");
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub mod merge_operators {
    /// Adds integers. Values and operands are decimal text, such as `-7`; a key without a value
    /// counts as 0, and so does an empty value. The sum is exact however large it gets on the way.
    /// A read fails while the sum does not fit 64 bits with a sign, or while the value that was put
    /// is not a number; no operand is lost by that.
    pub const ADD: &str = "cleavedb.Add";
    /// Appends the operand to the value, of which the last MiB is kept. `cleavedb.Append:N` keeps
    /// the last `N` bytes instead, from 1 to 1 GiB.
    pub const APPEND: &str = "cleavedb.Append";
    /// Keeps the greatest of value and operands, compared byte by byte.
    pub const MAX: &str = "cleavedb.Max";
    /// Keeps the least of value and operands, compared byte by byte.
    pub const MIN: &str = "cleavedb.Min";
    /// Unites sets. A set is text with one member on each line, each ending in a line feed; the
    /// result has them sorted by bytes, each once. The last line feed of an operand may be missing,
    /// so that a single member can be merged as it is. Empty lines are no members.
    pub const UNION: &str = "cleavedb.Union";
}

/// The names of built-in operators begin with this.
const PREFIX: &str = "cleavedb.";
/// The bytes that [`merge_operators::APPEND`] keeps.
const APPEND_KEEPS: usize = 1 << 20;

/// Returns true if only built-in operators may have this name.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the built-in operator of this name.
pub fn built_in(name: &str) -> Option<Arc<dyn MergeOperator>> {
    Some(match name {
        merge_operators::ADD => Arc::new(Add),
        merge_operators::MAX => Arc::new(Extreme { name: merge_operators::MAX, greatest: true }),
        merge_operators::MIN => Arc::new(Extreme { name: merge_operators::MIN, greatest: false }),
        merge_operators::UNION => Arc::new(Union),
        merge_operators::APPEND => Arc::new(Append { name: name.to_owned(), keep: APPEND_KEEPS }),
        _ => {
            let keep = name.strip_prefix(merge_operators::APPEND)?.strip_prefix(':')?;
            // One way to write each number, because the name is compared.
            let number: usize = keep.parse().ok().filter(|it: &usize| it.to_string() == keep)?;
            let keep = Some(number).filter(|it| (1..=MAX_VALUE_BYTES).contains(it))?;
            Arc::new(Append { name: name.to_owned(), keep })
        }
    })
}

/// Adds integers in decimal text. Sums are worked out with 128 bits: as many operands as there are
/// sequence numbers, each of 64 bits, can't overflow these, so the order never matters.
struct Add;

/// Returns the number that is written in `text`.
fn number(text: &[u8]) -> Result<i128> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let shown = text[..text.len().min(40)].escape_ascii();
        Error::invalid_argument(format!("\"{shown}\" is not a decimal integer"))
    })
}

fn sum(numbers: impl Iterator<Item = Result<i128>>) -> Result<i128> {
    let mut sum = 0i128;
    for number in numbers {
        let next = sum.checked_add(number?);
        sum = next.ok_or_else(|| Error::invalid_argument("the sum overflows 128 bits"))?;
    }
    Ok(sum)
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        merge_operators::ADD
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let base = base.filter(|base| !base.is_empty());
        let sum = sum(base.into_iter().chain(operands.iter().copied()).map(number))?;
        match i64::try_from(sum) {
            Ok(sum) => Ok(sum.to_string().into_bytes()),
            Err(_) => Err(Error::invalid_argument(format!("the sum {sum} does not fit 64 bits"))),
        }
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let sum = sum([older, newer].into_iter().map(number)).ok()?;
        Some(sum.to_string().into_bytes())
    }

    fn check(&self, _: &[u8], operand: &[u8]) -> Result<()> {
        match i64::try_from(number(operand)?) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::invalid_argument("the operand does not fit 64 bits")),
        }
    }
}

/// Appends bytes, and keeps the last ones.
struct Append {
    name: String,
    keep: usize,
}

impl Append {
    /// Returns the last bytes of `parts`, one behind the other.
    fn tail<'a>(&self, parts: impl DoubleEndedIterator<Item = &'a [u8]>) -> Vec<u8> {
        let (mut room, mut kept) = (self.keep, Vec::new());
        for part in parts.rev() {
            let taken = &part[part.len() - part.len().min(room)..];
            room -= taken.len();
            kept.push(taken);
            if room == 0 {
                break;
            }
        }
        kept.reverse();
        kept.concat()
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let parts: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Ok(self.tail(parts.into_iter()))
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(self.tail([older, newer].into_iter()))
    }
}

/// Keeps the greatest value, or the least.
struct Extreme {
    name: &'static str,
    greatest: bool,
}

impl MergeOperator for Extreme {
    fn name(&self) -> &str {
        self.name
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let all = base.into_iter().chain(operands.iter().copied());
        let found = if self.greatest { all.max() } else { all.min() };
        Ok(found.unwrap_or_default().to_vec())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(if self.greatest { older.max(newer) } else { older.min(newer) }.to_vec())
    }
}

/// Unites sets of lines.
struct Union;

fn united<'a>(sets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let members = sets.flat_map(|set| set.split(|&byte| byte == b'\n'));
    let members: BTreeSet<&[u8]> = members.filter(|member| !member.is_empty()).collect();
    let mut out = Vec::new();
    for member in members {
        out.extend_from_slice(member);
        out.push(b'\n');
    }
    out
}

impl MergeOperator for Union {
    fn name(&self) -> &str {
        merge_operators::UNION
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok(united(base.into_iter().chain(operands.iter().copied())))
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(united([older, newer].into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(name: &str, base: Option<&str>, operands: &[&str]) -> String {
        let operands: Vec<&[u8]> = operands.iter().map(|it| it.as_bytes()).collect();
        match built_in(name).unwrap().full(b"k", base.map(str::as_bytes), &operands) {
            Ok(value) => String::from_utf8(value).unwrap(),
            Err(error) => format!("error: {}", error.message()),
        }
    }

    #[test]
    fn operators_do_what_their_names_say() {
        let rows = [
            ("cleavedb.Add", None, &["1", "+2", "-10"][..], "-7"),
            ("cleavedb.Add", Some("40"), &["2"], "42"),
            ("cleavedb.Add", Some(""), &["2"], "2"),
            ("cleavedb.Add", Some("forty"), &["2"], "error: \"forty\" is not a decimal integer"),
            ("cleavedb.Add", Some("9223372036854775807"), &["1", "-1"], "9223372036854775807"),
            (
                "cleavedb.Add",
                Some("9223372036854775807"),
                &["1"],
                "error: the sum 9223372036854775808 does not fit 64 bits",
            ),
            ("cleavedb.Append", Some("ab"), &["c", "", "d"], "abcd"),
            ("cleavedb.Append:3", Some("ab"), &["c", "d"], "bcd"),
            ("cleavedb.Append:1", None, &["ab", ""], "b"),
            ("cleavedb.Max", Some("b"), &["a", "ba"], "ba"),
            ("cleavedb.Max", None, &["a"], "a"),
            ("cleavedb.Min", Some("b"), &["a", "ba"], "a"),
            ("cleavedb.Min", None, &["b"], "b"),
            ("cleavedb.Union", Some("b\nd\n"), &["c", "a\nb"], "a\nb\nc\nd\n"),
            ("cleavedb.Union", None, &["\n"], ""),
        ];
        for (name, base, operands, expected) in rows {
            assert_eq!(full(name, base, operands), expected, "{name} {base:?} {operands:?}");
        }
    }

    /// However neighbours are combined, the value is the same: else it would depend on when a
    /// compaction happened.
    #[test]
    fn groups_do_not_matter() {
        let cases: [(&str, &[&str]); 4] = [
            ("cleavedb.Add", &["9223372036854775807", "9223372036854775807", "-7", "12", "-20"]),
            ("cleavedb.Append:5", &["abc", "", "defg", "hijklmnop", "q"]),
            ("cleavedb.Max", &["b", "", "c", "ca", "a"]),
            ("cleavedb.Union", &["b\na", "", "c\n", "a", "z\ny\n"]),
        ];
        for (name, operands) in cases {
            let operator = built_in(name).unwrap();
            for base in [None, Some("5"), Some("-9223372036854775808")] {
                let expected = full(name, base, operands);
                for at in 0..operands.len() - 1 {
                    let (older, newer) = (operands[at].as_bytes(), operands[at + 1].as_bytes());
                    let one = operator.partial(b"k", older, newer).unwrap();
                    let one = String::from_utf8(one).unwrap();
                    let mut fewer = operands.to_vec();
                    fewer.splice(at..at + 2, [&one[..]]);
                    assert_eq!(full(name, base, &fewer), expected, "{name} {base:?} {fewer:?}");
                }
                for at in 1..operands.len() {
                    let (first, rest) = operands.split_at(at);
                    let before = full(name, base, first);
                    if !before.starts_with("error") {
                        assert_eq!(full(name, Some(&before), rest), expected, "{name} {before}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_exact() {
        for name in ["cleavedb.Append:0", "cleavedb.Append:+1", "cleavedb.Append:", "cleavedb.add"]
        {
            assert!(built_in(name).is_none(), "{name}");
        }
        assert_eq!(built_in("cleavedb.Append:77").unwrap().name(), "cleavedb.Append:77");
        for name in ["1.5", "", " 1", "9223372036854775808", "\u{0661}"] {
            assert!(built_in("cleavedb.Add").unwrap().check(b"k", name.as_bytes()).is_err());
        }
    }
}
