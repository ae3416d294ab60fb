//! Tests of the command's completions for shells and manual pages, and of what the documents say
//! about its output.

use crate::common::{Dir, ok, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const COMMANDS: [&str; 14] = [
    "put",
    "cas",
    "ttl",
    "changes",
    "space",
    "hot",
    "check",
    "reorganize",
    "convert",
    "backup",
    "backups",
    "restore",
    "completions",
    "man",
];

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let dir = Dir::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(ok(&dir, &["completions", shell], b"")).unwrap();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
}

/// Bash itself takes the script, and completes with it.
#[test]
fn bash_completes_a_command_that_was_begun() {
    let dir = Dir::new("bash-completions");
    let script = ok(&dir, &["completions", "bash"], b"");
    fs::write(dir.path().join("script"), script).unwrap();
    let words = "source ./script; COMP_WORDS=(cleave reo); COMP_CWORD=1; \
                 _cleave cleave reo cleave; echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash")
        .args(["--norc", "-c", words])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "reorganize", "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = Dir::new("man");
    ok(&dir, &["man", "pages/new"], b"");
    let page = |name: &str| {
        fs::read_to_string(dir.path().join("pages/new").join(format!("{name}.1"))).unwrap()
    };
    let overview = page("cleave");
    for command in COMMANDS {
        assert!(overview.contains(command), "{command}");
        assert!(page(&format!("cleave-{command}")).contains(".SH SYNOPSIS"), "{command}");
    }
}

/// The names of all fields of `value`, at every depth.
fn field_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                field_names(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
        _ => {}
    }
}

/// Each name that the first column of a table in `section` has in backticks.
fn tabled_names(section: &str) -> BTreeSet<String> {
    let first_cells =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let quoted = first_cells.flat_map(|cell| cell.split('`').step_by(2));
    quoted.map(str::to_owned).collect()
}

/// A field that was added to an output, or renamed, was missing from docs/json.md, which programs
/// are written by. Now each field of an output is a word of the output's section, and each name in
/// the section's tables is a field.
#[test]
fn every_field_of_json_is_described() {
    let dir = Dir::new("json-fields");
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/json.md");
    let document = fs::read_to_string(document).unwrap();
    let bench = "bench DB --json fillseq,ycsba --num 100 --settle --readers 1 --collect \
                 --follow visible";
    ok(&dir, &bench.split(' ').collect::<Vec<_>>(), b"");
    ok(&dir, &["compact", "DB"], b"");
    let backup = ok(&dir, &["backup", "DB", "backup", "--json"], b"");
    let restore = ok(&dir, &["restore", "backup", "restored", "--json"], b"");
    let outputs = [
        ("bench", run(&dir, &bench.split(' ').collect::<Vec<_>>(), b"").stdout),
        ("stats", ok(&dir, &["stats", "DB", "--json"], b"")),
        ("space", ok(&dir, &["space", "DB", "--json"], b"")),
        ("changes", ok(&dir, &["changes", "DB", "--json"], b"")),
        ("hot", ok(&dir, &["hot", "DB", "--json"], b"")),
        ("convert", ok(&dir, &["convert", "DB", "--json"], b"")),
        ("check", damaged_check(&dir)),
        ("backup", backup),
        ("restore", restore),
        ("backups", damaged_backup(&dir)),
    ];
    for (command, output) in outputs {
        let title = format!("## `cleave {command} --json`\n");
        let section = document.split(&title).nth(1).unwrap().split("\n## ").next().unwrap();
        let mut names = BTreeSet::new();
        let lines = std::str::from_utf8(&output).unwrap().lines();
        for line in lines.filter(|line| !line.starts_with("{\"stats\"")) {
            field_names(&serde_json::from_str(line).unwrap(), &mut names);
        }
        let words: BTreeSet<&str> =
            section.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
        for name in &names {
            assert!(words.contains(name.as_str()), "{command}: {name} is not described");
        }
        for name in tabled_names(section) {
            assert!(names.contains(&name), "{command}: {name} is described but not printed");
        }
    }
}

/// Returns the output of `check` for a store with a damaged table.
fn damaged_check(dir: &Dir) -> Vec<u8> {
    let files = fs::read_dir(dir.path().join("DB")).unwrap().map(|file| file.unwrap().path());
    let mut tables = files.filter(|file| file.extension().is_some_and(|it| it == "tbl"));
    let table = tables.next().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();
    let output = run(dir, &["check", "DB", "--json"], b"");
    assert_eq!(output.status.code(), Some(1));
    output.stdout
}

/// Returns the outputs about a backup whose only point cannot be read: its list, its verification,
/// and its list with another point.
fn damaged_backup(dir: &Dir) -> Vec<u8> {
    let path = dir.path().join("backup/00000001.point");
    let mut bytes = fs::read(&path).unwrap();
    bytes[50] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = run(dir, &["backups", "backup", "verify", "--json"], b"");
    assert_eq!(output.status.code(), Some(1));
    ok(dir, &["backup", "restored", "backup"], b"");
    let list = ok(dir, &["backups", "backup", "--json"], b"");
    let deleted = ok(dir, &["backups", "backup", "delete", "1", "--json"], b"");
    [output.stdout, list, deleted].concat()
}
