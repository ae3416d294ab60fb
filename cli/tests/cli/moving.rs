//! Tests of imports and exports, against the programs and libraries of the other stores.

use crate::common::{Dir, cleave, ok, run};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores")
}

fn store(name: &str) -> String {
    stores().join(name).to_str().unwrap().to_string()
}

/// Compiles the program that uses LevelDB's own library.
fn leveldb_program(dir: &Dir) -> PathBuf {
    let program = dir.path().join("leveldb");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/leveldb.c");
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(source).arg("-lleveldb").status();
    assert!(compiled.unwrap().success());
    program
}

fn run_program(program: &Path, arguments: &[&str], input: &[u8], dir: &Dir) -> String {
    let script = dir.path().join("script");
    fs::write(&script, input).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir.path())
        .stdin(fs::File::open(script).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Puts, deletions and compactions of a store with some thousand keys.
fn script(mut seed: u64) -> String {
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut script = String::new();
    for number in 0..6000 {
        let key = format!("{:06x}", random(3000));
        match random(10) {
            0 | 1 => writeln!(script, "d {key}").unwrap(),
            2 if number % 50 == 0 => writeln!(script, "w\nc").unwrap(),
            3 if number % 97 == 0 => {
                writeln!(script, "p {key} {}", "ab12".repeat(random(20_000) as usize)).unwrap();
            }
            _ => {
                writeln!(script, "p {key} {}", "0f".repeat(random(200) as usize)).unwrap();
            }
        }
        if random(20) == 0 {
            script.push_str("w\n");
        }
    }
    script.push_str("p  00\nw\n");
    script
}

/// What LevelDB's own library wrote is what is imported, and what is exported is what it reads.
#[test]
#[cfg_attr(not(has_leveldb), ignore = "LevelDB is missing; install libleveldb-dev")]
fn leveldb_itself_agrees_on_imports_and_exports() {
    let dir = Dir::new("moving-leveldb");
    let program = leveldb_program(&dir);
    for seed in 1..4 {
        let (from, db, to) = (format!("from{seed}"), format!("db{seed}"), format!("to{seed}"));
        let expected = run_program(&program, &["fill", &from], script(seed).as_bytes(), &dir);
        assert!(expected.lines().count() > 1000);
        let output = run(&dir, &["import", "--from", "leveldb", &from, &db], b"");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        assert!(told.contains("verified "), "{told}");
        let dumped = ok(&dir, &["dump", &db, "--format", "hex"], b"");
        assert!(String::from_utf8(dumped).unwrap() == expected, "seed {seed}: imported");
        ok(&dir, &["export", "--to", "leveldb", &db, &to], b"");
        assert!(run_program(&program, &["read", &to], b"", &dir) == expected, "exported");
    }
}

/// A log that a power cut left too short: what LevelDB finds in it is what is imported.
#[test]
#[cfg_attr(not(has_leveldb), ignore = "LevelDB is missing; install libleveldb-dev")]
fn leveldb_itself_agrees_on_logs_that_were_cut_short() {
    let dir = Dir::new("moving-cut");
    let program = leveldb_program(&dir);
    let all = run_program(&program, &["fill", "whole"], script(9).as_bytes(), &dir);
    let whole = dir.path().join("whole");
    let files = fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().path());
    let log = files.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap();
    let bytes = fs::metadata(&log).unwrap().len();
    assert!(bytes > 10_000, "the script leaves much in the log");
    let mut shorter = 0;
    for cut in (0..16).map(|part| bytes * part / 16 + part % 9) {
        let (name, db) = (format!("cut-{cut}"), format!("db-{cut}"));
        let store = dir.path().join(&name);
        copy(&whole, &store);
        let log = fs::File::options().write(true).open(store.join(log.file_name().unwrap()));
        log.unwrap().set_len(cut).unwrap();
        // First, because LevelDB writes to the store when it opens it.
        ok(&dir, &["import", "--from", "leveldb", &name, &db], b"");
        let imported = ok(&dir, &["dump", &db, "--format", "hex"], b"");
        let expected = run_program(&program, &["read", &name], b"", &dir);
        assert!(String::from_utf8(imported).unwrap() == expected, "{cut} of {bytes} bytes");
        shorter += u64::from(expected != all);
    }
    assert!(shorter > 8, "{shorter}");
}

/// LevelDB goes on with an exported store as with one of its own.
#[test]
#[cfg_attr(not(has_leveldb), ignore = "LevelDB is missing; install libleveldb-dev")]
fn leveldb_writes_to_a_store_that_was_exported() {
    let dir = Dir::new("moving-on");
    let program = leveldb_program(&dir);
    ok(&dir, &["load", "DB"], b"a\t1\nb\t2\n");
    ok(&dir, &["export", "--to", "leveldb", "DB", "OUT"], b"");
    let found = run_program(&program, &["fill", "OUT"], b"p 61 39\nd 62\nw\nc\n", &dir);
    assert_eq!(found, "61\t39\n");
    ok(&dir, &["export", "--to", "leveldb", "DB", "EMPTY/DIR", "-k", "default"], b"");
    ok(&dir, &["del", "DB", "a", "b"], b"");
    ok(&dir, &["export", "--to", "leveldb", "DB", "NOTHING"], b"");
    assert_eq!(run_program(&program, &["read", "NOTHING"], b"", &dir), "");
}

#[test]
#[cfg_attr(not(has_leveldb), ignore = "LevelDB is missing; install libleveldb-dev")]
fn a_store_that_is_open_elsewhere_is_refused() {
    let dir = Dir::new("moving-locked");
    let program = leveldb_program(&dir);
    let mut holder = Command::new(&program)
        .args(["hold", "held"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    let output = run(&dir, &["import", "--from", "leveldb", "held", "DB"], b"");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("another process has this store open"), "{told}");
    assert!(!dir.path().join("DB").exists());
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    ok(&dir, &["import", "--from", "leveldb", "held", "DB"], b"");
}

/// One store in each format of tables, with a range that was deleted and what its log holds.
#[test]
fn stores_of_rocksdb_are_imported_with_their_column_families() {
    let dir = Dir::new("moving-rocksdb");
    let mut expected = String::new();
    for number in 0..60 {
        match number {
            1 => expected.push_str("key001\tnewest\n"),
            25 => expected.push_str("key025\tback again\n"),
            3 | 20..30 | 40..45 => {}
            _ => {
                let value = format!("old {number} ").repeat(4);
                writeln!(expected, "key{number:03}\t{value}").unwrap();
            }
        }
    }
    for name in ["rocksdb-2", "rocksdb-5", "rocksdb-6"] {
        ok(&dir, &["import", "--from", "rocksdb", &store(name), name], b"");
        let dumped = String::from_utf8(ok(&dir, &["dump", name], b"")).unwrap();
        assert_eq!(dumped, expected, "{name}");
        let people = ok(&dir, &["scan", name, "-k", "people"], b"");
        let expected = "ada\tAda Lovelace\ngrace\tGrace Hopper\n";
        assert_eq!(String::from_utf8(people).unwrap(), expected, "{name}");
    }
}

/// Keys that were put after a range around them had been deleted were missing, and the import was
/// said to be verified. The deepest level has them, with the sequence number 0, and a table above
/// still has the range in full. Now the range ends with the table that holds it, as for RocksDB.
#[test]
fn a_range_that_rocksdb_deleted_ends_with_its_table() {
    let dir = Dir::new("moving-clipped");
    ok(&dir, &["import", "--from", "rocksdb", &store("rocksdb-clipped"), "DB"], b"");
    let mut expected = String::new();
    for number in (0..8).chain(12..20) {
        writeln!(expected, "key{number:03}\t{}", format!("new {number} ").repeat(40)).unwrap();
    }
    assert_eq!(String::from_utf8(ok(&dir, &["dump", "DB"], b"")).unwrap(), expected);
}

/// RocksDB's own tool prints what the reader of its files finds.
#[test]
#[cfg_attr(not(has_ldb), ignore = "RocksDB's tool ldb is missing; install rocksdb-tools")]
fn what_ldb_prints_is_what_its_files_hold() {
    let dir = Dir::new("moving-ldb");
    for name in ["rocksdb-2", "rocksdb-5"] {
        let (read, dumped) = (format!("read-{name}"), format!("dumped-{name}"));
        ok(&dir, &["import", "--from", "rocksdb", &store(name), &read], b"");
        // The tool writes to the store, so it gets a copy.
        let copied = dir.path().join(name);
        copy(&stores().join(name), &copied);
        for family in ["default", "people"] {
            let printed = Command::new("ldb")
                .arg(format!("--db={}", copied.display()))
                .arg(format!("--column_family={family}"))
                .args(["dump", "--hex"])
                .output()
                .unwrap();
            assert!(printed.status.success(), "{printed:?}");
            let import = ["import", "--from", "ldb-dump", "-", &dumped, "-k", family];
            ok(&dir, &import, &printed.stdout);
            let dump = |db: &str| ok(&dir, &["dump", db, "-k", family], b"");
            assert_eq!(dump(&dumped), dump(&read));
            assert!(!dump(&read).is_empty());
        }
    }
}

#[test]
#[cfg_attr(not(has_lmdb), ignore = "LMDB's tools are missing; install lmdb-utils")]
fn what_mdb_dump_prints_is_imported_with_all_its_databases() {
    let dir = Dir::new("moving-lmdb");
    let lmdb = |program: &str, arguments: &[&str], input: &[u8]| {
        run_program(Path::new(program), arguments, input, &dir)
    };
    fs::create_dir(dir.path().join("old")).unwrap();
    let header = "VERSION=3\nformat=bytevalue\ntype=btree\n";
    let people = "database=people\nHEADER=END\n 616461\n 4164610a\n 65\n \nDATA=END\n";
    let numbers = "database=numbers\nintegerkey=1\nHEADER=END\n 0001000000000000\n 31\n \
                   0100000000000000\n 32\nDATA=END\n";
    let dump = format!("{header}{people}{header}{numbers}");
    lmdb("mdb_load", &["old"], dump.as_bytes());
    let printed = lmdb("mdb_dump", &["-a", "old"], b"");
    ok(&dir, &["import", "--from", "lmdb-dump", "-", "DB"], printed.as_bytes());
    let scan = |keyspace: &str| ok(&dir, &["scan", "DB", "--hex", "-k", keyspace], b"");
    assert_eq!(scan("people"), b"616461\t4164610a\n65\t\n");
    assert_eq!(scan("numbers"), b"0001000000000000\t31\n0100000000000000\t32\n");
}

#[test]
fn a_backup_of_badger_gives_the_newest_versions_and_their_times() {
    let dir = Dir::new("moving-badger");
    let backup = store("badger/backup");
    ok(&dir, &["import", "--from", "badger", &backup, "DB"], b"");
    let expected = fs::read_to_string(stores().join("badger/expected.tsv")).unwrap();
    assert_eq!(String::from_utf8(ok(&dir, &["dump", "DB"], b"")).unwrap(), expected);
    assert_ne!(ok(&dir, &["ttl", "DB", "key07"], b""), b"never\n");
    assert_eq!(ok(&dir, &["ttl", "DB", "key08"], b""), b"never\n");
    // The same from a pipe, which is verified by what was read.
    let mut command = cleave(&dir, &["import", "--from", "badger", "-", "PIPED"]);
    let output = command.stdin(fs::File::open(&backup).unwrap()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("verified "), "{told}");
    assert_eq!(String::from_utf8(ok(&dir, &["dump", "PIPED"], b"")).unwrap(), expected);
    let bytes = fs::read(&backup).unwrap();
    let output = run(&dir, &["import", "--from", "badger", "-", "CUT"], &bytes[..bytes.len() - 9]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("the backup ends within a list"), "{told}");
}

#[test]
#[cfg_attr(not(has_sqlite), ignore = "the program sqlite3 is missing; install it")]
fn tables_of_sqlite_are_imported_by_column_or_as_json() {
    let dir = Dir::new("moving-sqlite");
    let mut sqlite = Command::new("sqlite3");
    sqlite.current_dir(dir.path()).arg("people.db").arg(
        "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, photo BLOB, \"a \"\"b\" REAL); \
         INSERT INTO people VALUES(1, 'Ada', x'00ff', 1.5), (2, 'Grace', NULL, NULL), \
         (10, 'Ö' || char(10), x'', 3), (11, 'Ada', NULL, 0); CREATE TABLE two(k, v); \
         INSERT INTO two VALUES(x'ff00', 'v'), ('text', 7), (5, NULL)",
    );
    assert!(sqlite.status().unwrap().success());
    let import = |more: &[&str]| {
        let arguments = ["import", "--from", "sqlite", "people.db", "DB"];
        run(&dir, &[&arguments, more].concat(), b"")
    };
    let scan =
        |keyspace: &str| String::from_utf8(ok(&dir, &["scan", "DB", "-k", keyspace], b"")).unwrap();
    assert!(import(&["--table", "people"]).status.success());
    let rows = scan("default");
    let first = rows.lines().next().unwrap().split_once('\t').unwrap();
    assert_eq!(first.0, "1");
    let json: serde_json::Value = serde_json::from_str(&first.1.replace("\\\\", "\\")).unwrap();
    let expected =
        serde_json::json!({"id": 1, "name": "Ada", "photo": {"hex": "00ff"}, "a \"b": 1.5});
    assert_eq!(json, expected);
    let names = ["--table", "people", "-k", "names", "--key", "id", "--value", "name"];
    assert!(import(&names).status.success());
    assert_eq!(scan("names"), "1\tAda\n10\tÖ\\n\n11\tAda\n2\tGrace\n");
    assert!(import(&["--table", "two", "-k", "two"]).status.success());
    assert_eq!(scan("two"), "5\t\ntext\t7\n\\xff\\x00\tv\n");
    let refused = [
        (["--table", "people", "-k", "a", "--key", "name"], "two rows have the key \"Ada\""),
        (["--table", "people", "-k", "b", "--key", "photo"], "a row has NULL for its key"),
        (["--table", "people", "-k", "c", "--key", "nope"], "the table has no column \"nope\""),
        (["--table", "no 'table", "-k", "d", "--key", "id"], "there is no table"),
    ];
    for (arguments, expected) in refused {
        let output = import(&arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told.contains(expected), "{told}");
    }
}

/// Numbers with more than 15 digits lost the others, and numbers that differ in them became the
/// same key: SQLite shows 15 where it makes text of a number. Nothing told of it, as both sides of
/// the comparison were read in that way. A file whose name begins with a dash was taken for an
/// option.
#[test]
#[cfg_attr(not(has_sqlite), ignore = "the program sqlite3 is missing; install it")]
fn numbers_of_sqlite_keep_all_their_digits() {
    let dir = Dir::new("moving-sqlite-numbers");
    let mut sqlite = Command::new("sqlite3");
    sqlite.current_dir(dir.path()).arg("./-numbers.db").arg(
        "CREATE TABLE n(short REAL, \"r\"\"s\" REAL); INSERT INTO n VALUES(0.1, 19.99), \
         (0.1 + 0.2, 2.0 / 3), (0.3, -5e21), (1.0 / 3, -2.5), (1e22, 1e999), (7, NULL)",
    );
    assert!(sqlite.status().unwrap().success());
    let import = |more: &[&str]| {
        let common = ["import", "--from", "sqlite", "--table", "n"];
        ok(&dir, &[&common, more, &["--", "-numbers.db", "DB"]].concat(), b"");
    };
    let scan =
        |keyspace: &str| String::from_utf8(ok(&dir, &["scan", "DB", "-k", keyspace], b"")).unwrap();
    import(&[]);
    let expected = "0.1\t19.99\n0.3\t-5.0e+21\n0.30000000000000004\t0.66666666666666663\n\
                    0.33333333333333331\t-2.5\n1.0e+22\tInf\n7.0\t\n";
    assert_eq!(scan("default"), expected);
    import(&["-k", "rows", "--key", "short", "--value", "short", "--value", "r\"s"]);
    let rows = scan("rows");
    for (row, expected) in rows.lines().zip([
        serde_json::json!({"short": 0.1, "r\"s": 19.99}),
        serde_json::json!({"short": 0.3, "r\"s": -5e21}),
        serde_json::json!({"short": 0.1 + 0.2, "r\"s": 2.0 / 3.0}),
        serde_json::json!({"short": 1.0 / 3.0, "r\"s": -2.5}),
    ]) {
        let json = row.split_once('\t').unwrap().1.replace("\\\\", "\\");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), expected);
    }
    assert_eq!(rows.lines().count(), 6);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// An import that met damage says where, keeps what came before it, and goes on once the file is
/// whole again.
#[test]
fn damage_is_named_and_an_import_goes_on_behind_it() {
    let dir = Dir::new("moving-damage");
    let damaged = dir.path().join("damaged");
    copy(&stores().join("leveldb"), &damaged);
    let table = fs::read_dir(&damaged).unwrap().map(|entry| entry.unwrap().path());
    let table =
        table.filter(|path| path.extension().is_some_and(|end| end == "ldb")).max().unwrap();
    let whole = fs::read(&table).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();
    let import = ["import", "--from", "leveldb", "damaged", "DB"];
    let output = run(&dir, &import, b"");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("the checksum of a block does not match"), "{told}");
    assert!(told.contains("damaged/") && told.contains(" at byte "), "{told}");
    assert!(told.contains("--resume goes on"), "{told}");
    let stored = ok(&dir, &["count", "DB"], b"");
    assert!(stored != b"0\n" && stored != b"101\n");
    fs::write(&table, whole).unwrap();
    let told = String::from_utf8(run(&dir, &import, b"").stderr).unwrap();
    assert!(told.contains("has pairs already"), "{told}");
    let output = run(&dir, &[&import[..], &["--resume"]].concat(), b"");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("went on behind "), "{told}");
    assert_eq!(ok(&dir, &["count", "DB"], b""), b"101\n");
}
