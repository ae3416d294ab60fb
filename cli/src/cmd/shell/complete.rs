//! What Tab completes in the shell: commands, their options, keyspaces, keys and files.

use super::{help, words};
use crate::cmd::scan::ScanWalk;
use crate::text;
use cleavedb::{Db, Error, Keyspace, ReadOptions};
use std::fs;

/// Keys that are offered at most: more fill the screen, and none of them is chosen.
const MOST_KEYS: u64 = 100;

/// Commands whose first word is a key, or the beginning of keys.
const OF_KEYS: [&str; 11] =
    ["append", "cas", "count", "del", "expire", "get", "incr", "merge", "persist", "put", "ttl"];

/// Returns where the word under completion begins, and what it can become.
pub(super) fn complete(line: &str, db: &Db, keyspace: &Keyspace) -> (usize, Vec<String>) {
    let start = last_word(line);
    // A word that is not whole yet may have an open quote or half an escape.
    let typed = line[start..].strip_prefix('"').unwrap_or(&line[start..]);
    let Ok(typed) = text::unescape(typed.as_bytes()) else { return (start, Vec::new()) };
    let Ok(before) = words::split(&line.as_bytes()[..start]) else { return (start, Vec::new()) };
    let before: Vec<String> =
        before.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let Some((verb, arguments)) = before.split_first() else {
        return (start, that_begin(help::verbs().map(str::to_owned), &typed));
    };
    let verb = verb.to_ascii_lowercase();
    if typed.starts_with(b"--") {
        let options = help::options(&verb).into_iter().map(str::to_owned);
        return (start, that_begin(options, &typed));
    }
    let candidates = match (verb.as_str(), arguments) {
        ("help", []) => that_begin(help::verbs().map(str::to_owned), &typed),
        ("use", []) => that_begin(db.keyspaces().into_iter(), &typed),
        ("ingest", _) => files(&String::from_utf8_lossy(&typed)),
        (verb, []) if OF_KEYS.contains(&verb) => keys(keyspace, &typed),
        ("scan" | "delrange", [.., option])
            if ["--from", "--to", "--prefix"].contains(&option.as_str()) =>
        {
            keys(keyspace, &typed)
        }
        _ => Vec::new(),
    };
    (start, candidates.iter().map(|word| quoted(word.as_bytes())).collect())
}

/// Returns where the last word of a line begins, quotes and escapes considered.
fn last_word(line: &str) -> usize {
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, letter) in line.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => start = at + 1,
            _ => {}
        }
    }
    start
}

fn that_begin(names: impl Iterator<Item = String>, typed: &[u8]) -> Vec<String> {
    names.filter(|name| name.as_bytes().starts_with(typed)).collect()
}

/// Returns keys that begin so, as they are typed without quotes. If reading fails, none are
/// offered: the command itself will say why.
fn keys(keyspace: &Keyspace, typed: &[u8]) -> Vec<String> {
    let walk = ScanWalk {
        prefix: Some(typed.to_vec()),
        limit: Some(MOST_KEYS),
        keys_only: true,
        ..ScanWalk::default()
    };
    let mut found = Vec::new();
    let walked = walk.run(keyspace, &ReadOptions::new(), |key, _| {
        found.extend(String::from_utf8(key.to_vec()));
        Ok::<_, Error>(())
    });
    walked.map_or(Vec::new(), |_| found)
}

/// Returns files whose paths begin so.
fn files(typed: &str) -> Vec<String> {
    let (dir, _) =
        typed.rsplit_once('/').map_or(("", typed), |(dir, _)| typed.split_at(dir.len() + 1));
    let listed = fs::read_dir(if dir.is_empty() { "." } else { dir });
    let names = listed.into_iter().flatten().flatten().filter_map(|entry| {
        let slash = if entry.file_type().ok()?.is_dir() { "/" } else { "" };
        Some(format!("{dir}{}{slash}", entry.file_name().to_str()?))
    });
    let mut files = that_begin(names, typed.as_bytes());
    files.sort();
    files
}

/// Returns a word as it is typed: escaped, and in quotes where it needs them.
fn quoted(word: &[u8]) -> String {
    let escaped = text::escape(word).replace('"', "\\\"");
    let needs = escaped.is_empty() || escaped.starts_with('#') || escaped.contains(' ');
    if needs { format!("\"{escaped}\"") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_completed_by_what_stands_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = cleavedb::open(dir.path()).unwrap();
        let keyspace = db.open_or_create_keyspace("cities").unwrap();
        for key in ["DE/1", "DE/2", "FR/1", "two words", "say \"hi\"", "tab\t"] {
            keyspace.put(key, "x").unwrap();
        }
        let expect = |line: &str, start: usize, words: &[&str]| {
            let (at, found) = complete(line, &db, &keyspace);
            assert_eq!((at, found.iter().map(String::as_str).collect()), (start, words.to_vec()));
        };
        expect("ge", 0, &["get"]);
        expect("sa", 0, &["savepoint"]);
        expect("get D", 4, &["DE/1", "DE/2"]);
        expect("GET tw", 4, &["\"two words\""]);
        expect("get \"two w", 4, &["\"two words\""]);
        expect("del say", 4, &["\"say \\\"hi\\\"\""]);
        expect("get ta", 4, &["tab\\t"]);
        expect("put DE/1 D", 9, &[]);
        expect("scan --prefix F", 14, &["FR/1"]);
        expect("scan --p", 5, &["--prefix"]);
        expect("put a b --i", 8, &["--if-absent"]);
        expect("use c", 4, &["cities"]);
        expect("use ", 4, &["cities", "default"]);
        expect("help rot", 5, &[]);
        expect("help rol", 5, &["rollback"]);
        expect("get \\", 4, &[]);
        let file = dir.path().join("sorted one");
        fs::write(&file, "").unwrap();
        let typed = format!("ingest {}/so", dir.path().display());
        expect(&typed, 7, &[&format!("\"{}\"", file.display())]);
    }
}
