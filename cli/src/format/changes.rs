//! Changes as text, which `cleave changes` and the shell print.
//!
//! ```text
//! text   SEQNO<TAB>put<TAB>KEYSPACE<TAB>KEY<TAB>VALUE[<TAB>DEADLINE_MS]
//!        SEQNO<TAB>merge<TAB>KEYSPACE<TAB>KEY<TAB>OPERAND
//!        SEQNO<TAB>del<TAB>KEYSPACE<TAB>KEY
//!        SEQNO<TAB>delrange<TAB>KEYSPACE<TAB>LOWER<TAB>UPPER     [ ( before the lower, ] ) before
//!                                the upper end say whether it belongs to the range; - is no end
//!        SEQNO<TAB>ingest<TAB>KEYSPACE<TAB>LOWER<TAB>UPPER       as delrange, with the first and
//!                                the last key
//!        SEQNO<TAB>commit<TAB>N          behind the N changes of each commit
//! json   one object per commit: {"first_seqno":N,"last_seqno":N,"changes":[…]}
//! ```
//!
//! Names, keys and values are escaped as in `text`. A keyspace that was dropped shows as `#ID`.

use crate::format::json_bytes;
use crate::text;
use cleavedb::{ChangeBatch, Changed, Error, ErrorKind, KeyChange, Result};
use std::fmt::Write;
use std::ops::Bound;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the lines of a batch, each with its newline.
pub(crate) fn lines(batch: &ChangeBatch) -> Result<String> {
    let mut out = String::new();
    for change in batch {
        let KeyChange { seqno, key, what, .. } = change;
        let keyspace = match change.keyspace {
            Some(name) => text::escape(name.as_bytes()),
            None => format!("#{}", change.keyspace_id),
        };
        let key = text::escape(key);
        match what {
            Changed::Put { value, deadline } => {
                let value = text::escape(value);
                push(&mut out, format_args!("{seqno}\tput\t{keyspace}\t{key}\t{value}"));
                if let Some(deadline) = deadline {
                    push(&mut out, format_args!("\t{}", millis(deadline)));
                }
                out.push('\n');
            }
            Changed::Merge { operand } => {
                let operand = text::escape(operand);
                push(&mut out, format_args!("{seqno}\tmerge\t{keyspace}\t{key}\t{operand}\n"));
            }
            Changed::DeleteRange { lower, upper } => {
                let (lower, upper) = (end(lower, "[", "("), end(upper, "]", ")"));
                push(&mut out, format_args!("{seqno}\tdelrange\t{keyspace}\t{lower}\t{upper}\n"));
            }
            Changed::Ingested { lower, upper } => {
                let (lower, upper) = (end(lower, "[", "("), end(upper, "]", ")"));
                push(&mut out, format_args!("{seqno}\tingest\t{keyspace}\t{lower}\t{upper}\n"));
            }
            Changed::Delete => push(&mut out, format_args!("{seqno}\tdel\t{keyspace}\t{key}\n")),
            _ => return Err(unknown(&change)),
        }
    }
    push(&mut out, format_args!("{}\tcommit\t{}\n", batch.last_seqno(), batch.len()));
    Ok(out)
}

/// Returns a batch as a line of JSON, with its newline.
pub(crate) fn json(batch: &ChangeBatch) -> Result<String> {
    let mut out = String::new();
    let (first, last) = (batch.first_seqno(), batch.last_seqno());
    push(&mut out, format_args!("{{\"first_seqno\":{first},\"last_seqno\":{last},\"changes\":["));
    for (index, change) in batch.iter().enumerate() {
        let KeyChange { seqno, keyspace_id, .. } = change;
        let separator = if index > 0 { "," } else { "" };
        let keyspace = change.keyspace.map_or("null".into(), |name| json_bytes(name.as_bytes()));
        let key = json_bytes(change.key);
        push(
            &mut out,
            format_args!(
                "{separator}{{\"seqno\":{seqno},\"keyspace\":{keyspace},\
                 \"keyspace_id\":{keyspace_id},\"key\":{key},"
            ),
        );
        match change.what {
            Changed::Put { value, deadline } => {
                let deadline = deadline.map_or("null".into(), |at| millis(at).to_string());
                let value = json_bytes(value);
                push(
                    &mut out,
                    format_args!("\"kind\":\"put\",\"value\":{value},\"deadline_ms\":{deadline}}}"),
                );
            }
            Changed::Merge { operand } => {
                let operand = json_bytes(operand);
                push(&mut out, format_args!("\"kind\":\"merge\",\"operand\":{operand}}}"));
            }
            Changed::DeleteRange { lower, upper } => {
                let (lower, upper) = (json_end(lower), json_end(upper));
                push(
                    &mut out,
                    format_args!("\"kind\":\"delrange\",\"lower\":{lower},\"upper\":{upper}}}"),
                );
            }
            Changed::Ingested { lower, upper } => {
                let (lower, upper) = (json_end(lower), json_end(upper));
                push(
                    &mut out,
                    format_args!("\"kind\":\"ingest\",\"lower\":{lower},\"upper\":{upper}}}"),
                );
            }
            Changed::Delete => out.push_str("\"kind\":\"del\"}"),
            _ => return Err(unknown(&change)),
        }
    }
    out.push_str("]}\n");
    Ok(out)
}

/// Returns an end of a range with the bracket that says whether it belongs to the range, or `-`.
fn end(end: Bound<&[u8]>, closed: &str, open: &str) -> String {
    match end {
        Bound::Included(key) => format!("{closed}{}", text::escape(key)),
        Bound::Excluded(key) => format!("{open}{}", text::escape(key)),
        Bound::Unbounded => "-".into(),
    }
}

fn json_end(end: Bound<&[u8]>) -> String {
    match end {
        Bound::Included(key) => format!("{{\"key\":{},\"included\":true}}", json_bytes(key)),
        Bound::Excluded(key) => format!("{{\"key\":{},\"included\":false}}", json_bytes(key)),
        Bound::Unbounded => "null".into(),
    }
}

/// Returns a deadline in milliseconds since 1970.
fn millis(deadline: SystemTime) -> u128 {
    deadline.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis())
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all");
}

fn unknown(change: &KeyChange<'_>) -> Error {
    let what = format!("change {} is of a kind that this command does not know", change.seqno);
    Error::new(ErrorKind::Unsupported, what).advise("use a newer build")
}
