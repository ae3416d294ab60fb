//! Runs the command lines of `tests/cmd/*.txt` and compares what they print.
//!
//! ```text
//! # comment
//! % mkdir NAME               make a directory
//! % write NAME               make a file of the `<` lines that follow
//! % flip NAME OFFSET         flip a bit of a file; NAME may be `DIR/*.END`: the first such file
//! $ cleave ARGUMENTS         run the program; "double quotes" keep blanks
//! < a line of input          \t \r \\ \xNN are decoded
//! | a line of its output     unprintable bytes are shown as \xNN
//! \ no newline               the output's last line has no end
//! ! a line of its errors
//! ? 2                        its exit status, if it is not 0
//! ```
//!
//! With `CLEAVE_REWRITE=1` the `|`, `\`, `!` and `?` lines are written anew; read the difference.

use crate::common::{Dir, run};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn commands_print_what_the_transcripts_say() {
    let rewrite = std::env::var_os("CLEAVE_REWRITE").is_some();
    let mut different = Vec::new();
    let files = transcripts();
    assert!(files.len() >= 8, "the transcripts are found");
    for file in files {
        let expected = fs::read_to_string(&file).unwrap();
        let actual = replay(&file, &expected);
        if actual == expected {
            continue;
        }
        if rewrite {
            fs::write(&file, &actual).unwrap();
        }
        different.push(first_difference(&file, &expected, &actual));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn transcripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn first_difference(file: &Path, expected: &str, actual: &str) -> String {
    let mut line = 1;
    let (mut left, mut right) = (expected.lines(), actual.lines());
    loop {
        let (one, other) = (left.next(), right.next());
        if one != other {
            let name = file.file_name().unwrap().to_string_lossy();
            return format!(
                "{name}, line {line}:\n  expected: {one:?}\n  is:       {other:?}\n\
                 CLEAVE_REWRITE=1 writes the transcript anew"
            );
        }
        line += 1;
    }
}

/// Runs a transcript and returns it with what really happened.
fn replay(file: &Path, text: &str) -> String {
    let dir = Dir::new(&format!("transcript-{}", file.file_stem().unwrap().to_string_lossy()));
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with(['|', '!', '?', '\\']) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        let Some((mark @ ("$" | "%"), rest)) = line.split_once(' ') else { continue };
        let mut input = Vec::new();
        while let Some(given) = lines.next_if(|line| line.starts_with('<')) {
            out.push_str(given);
            out.push('\n');
            input.extend(unescape(given[1..].strip_prefix(' ').unwrap_or_default()));
            input.push(b'\n');
        }
        let words = words(rest);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (mark, words.as_slice()) {
            ("%", words) => prepare(&dir, words, &input),
            (_, ["cleave", arguments @ ..]) => out.push_str(&observe(&dir, arguments, &input)),
            _ => panic!("not a command: {line}"),
        }
    }
    out
}

fn prepare(dir: &Dir, words: &[&str], input: &[u8]) {
    match words {
        ["mkdir", name] => fs::create_dir_all(dir.path().join(name)).unwrap(),
        ["write", name] => fs::write(dir.path().join(name), input).unwrap(),
        ["flip", name, offset] => {
            let path = find(dir, name);
            let mut bytes = fs::read(&path).unwrap();
            bytes[offset.parse::<usize>().unwrap()] ^= 1;
            // A new file: other links to the old one keep the right bytes.
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        _ => panic!("not a preparation: {words:?}"),
    }
}

fn find(dir: &Dir, name: &str) -> PathBuf {
    let Some((folder, end)) = name.split_once('*') else { return dir.path().join(name) };
    let mut found: Vec<PathBuf> = fs::read_dir(dir.path().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    found.sort();
    found.into_iter().next().unwrap()
}

fn observe(dir: &Dir, arguments: &[&str], input: &[u8]) -> String {
    let output = run(dir, arguments, input);
    let mut out = String::new();
    show(&mut out, '|', &output.stdout);
    show(&mut out, '!', &output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(code) => writeln!(out, "? {code}").unwrap(),
        None => writeln!(out, "? {}", output.status).unwrap(),
    }
    out
}

fn show(out: &mut String, mark: char, bytes: &[u8]) {
    let (text, ended) = match bytes.strip_suffix(b"\n") {
        Some(text) => (text, true),
        None if bytes.is_empty() => return,
        None => (bytes, false),
    };
    for line in text.split(|&byte| byte == b'\n') {
        let line = steady(&escape(line));
        writeln!(out, "{}", format!("{mark} {line}").trim_end()).unwrap();
    }
    if !ended {
        out.push_str("\\ no newline\n");
    }
}

/// Replaces what differs from run to run: times, rates, the numbers of files and how many.
fn steady(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(String::from).collect();
    for at in 1..words.len() {
        let decimal = words[at - 1].contains('.') && words[at - 1].parse::<f64>().is_ok();
        if decimal && words[at].trim_end_matches([',', ':']) == "s" {
            words[at - 1] = "TIME".into();
        }
        if words[at - 1] == "added" {
            words[at] = "SOME".into();
        }
        if words[at].ends_with("Z,") && words[at - 1].split('-').count() == 3 {
            (words[at - 1], words[at]) = ("DATE".into(), "TIME,".into());
        }
        let is_count = words[at - 1].trim_start_matches('(').parse::<u64>().is_ok();
        if is_count && matches!(words[at].as_str(), "file," | "files,") {
            words[at - 1] = "(SOME".into();
            words[at] = "files,".into();
            words[at + 1] = "SOME".into();
        }
        if let Some((dir, name)) = words[at].rsplit_once('/')
            && let Some((number, end)) = name.split_once('.')
            && number.len() == 8
        {
            words[at] = format!("{dir}/NUMBER.{end}");
        }
    }
    // How much comes back depends on the blocks of the file system.
    if let [.., size, unit, came, back] = &mut words[..]
        && (came.as_str(), back.as_str()) == ("came", "back")
    {
        (*size, *unit) = ("SOME".into(), "BYTES".into());
    }
    let line = words.join(" ");
    for job in ["compacted", "collected", "reorganized", "converted"] {
        if line.starts_with(&format!("{job} in ")) {
            return format!("{job} in TIME s: SIZES");
        }
    }
    match line.rsplit_once('(') {
        Some((before, rate)) if rate.ends_with("/s)") => format!("{before}(RATE/s)"),
        _ => line,
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                // A tab is what many lines are about: it stays visible as it is.
                '\t' => out.push('\t'),
                c if c.is_control() => write!(out, "\\x{:02x}", u32::from(c)).unwrap(),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| write!(out, "\\x{byte:02x}").unwrap());
    }
    out
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let (byte, taken) = match after.as_bytes() {
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', ..] => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            _ => panic!("not an escape: \\{after}"),
        };
        out.push(byte);
        rest = &after[taken..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_string());
        } else {
            words.extend(part.split_whitespace().map(String::from));
        }
    }
    words
}
