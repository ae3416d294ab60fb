//! Programs in C and C++ use the library as strangers would.

use crate::support::{compile, fresh, include_dir, library, library_dir, run};
use std::process::Command;

fn compile_and_run(source: &str, arguments: &[&str]) -> String {
    let name = source.split('.').next().unwrap_or(source).replace('/', "-");
    let name = name.as_str();
    let (dir, libraries) = (fresh(name), library_dir(name));
    let program = dir.join("program");
    let include = format!("-I{}", include_dir().display());
    let link = format!("-L{}", libraries.display());
    compile(source, &program, &[&include, &link, "-lcleavedb", "-ldl"]);
    let mut command = Command::new(&program);
    command.arg(&dir).args(arguments).env("LD_LIBRARY_PATH", &libraries).env("TEST_TMPDIR", &dir);
    String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
}

#[test]
fn every_function_of_leveldb() {
    assert_eq!(compile_and_run("leveldb_face.c", &[]), "ok\n");
}

#[test]
fn every_function_of_ours() {
    assert_eq!(compile_and_run("own_face.c", &[]), "ok\n");
}

#[test]
fn conditional_writes_and_transactions() {
    assert_eq!(compile_and_run("transactions.c", &[]), "ok\n");
}

#[test]
fn values_that_expire() {
    assert_eq!(compile_and_run("expiry.c", &[]), "ok\n");
}

#[test]
fn compaction_filters() {
    assert_eq!(compile_and_run("filters.c", &[]), "ok\n");
}

#[test]
fn operands_that_are_merged() {
    assert_eq!(compile_and_run("merge.c", &[]), "ok\n");
}

#[test]
fn the_example_of_merging() {
    let expected = "visits: 3\nlast words: …, two, three\nlongest: grasshopper\n";
    assert_eq!(compile_and_run("examples/merge.c", &[]), expected);
}

#[test]
fn ranges_that_are_deleted() {
    assert_eq!(compile_and_run("delete_range.c", &[]), "ok\n");
}

#[test]
fn the_example_of_ranges() {
    let expected = "240 measurements\n72 measurements from day 7 on\n\
                    48 measurements and a summary\n0 are left\n";
    assert_eq!(compile_and_run("examples/delete_range.c", &[]), expected);
}

#[test]
fn sorted_files_are_ingested() {
    assert_eq!(compile_and_run("ingest.c", &[]), "ok\n");
}

#[test]
fn the_example_of_ingest() {
    let expected = "1000 articles are in the shop\n";
    assert_eq!(compile_and_run("examples/ingest.c", &[]), expected);
}

#[test]
fn backups_and_restores() {
    assert_eq!(compile_and_run("backup.c", &[]), "ok\n");
}

#[test]
fn the_example_of_backups() {
    let expected = "7 points are kept of 10\nday 9: 1000 orders, all of them sound\n\
                    day 6 is back, beside what goes on: 700 orders\n";
    assert_eq!(compile_and_run("examples/backup.c", &[]), expected);
}

#[test]
fn the_change_feed() {
    assert_eq!(compile_and_run("changes.c", &[]), "ok\n");
}

#[test]
fn the_example_of_changes() {
    let expected = "1 put default/ada = Lovelace\n2 put default/grace = Hopper\n\
                    3 put default/grace = Murray Hopper\n4 deleted default/ada\n\
                    the next session goes on behind 4\n5 put default/alan = Turing\n";
    assert_eq!(compile_and_run("examples/changes.c", &[]), expected);
}

#[test]
fn the_example_of_transactions() {
    let expected = "ada has 100, not 90\nthe second time it is a conflict: yes\ngrace has 20\n";
    assert_eq!(compile_and_run("examples/transactions.c", &[]), expected);
}

#[test]
fn the_example_of_expiry() {
    let expected = "ada: 30 minutes\nbob: 5 minutes\noperator: stays\nbob: 60 minutes\n\
                    ada: stays\neve: none\ngrace: 1 minutes\neve logs in: yes\n";
    assert_eq!(compile_and_run("examples/expiry.c", &[]), expected);
}

#[test]
fn the_example_of_compaction_filters() {
    let expected = "written: 300 letters, 0 in the new form\n\
                    beside a snapshot: 300 letters, 0 in the new form\n\
                    compacted: 200 letters, 200 in the new form\n";
    assert_eq!(compile_and_run("examples/compaction_filter.c", &[]), expected);
}

#[test]
fn the_example_of_encryption() {
    let expected = "ingested: 1\nwithout the key: refused\nwith it: unreadable on the disk\n\
                    with the former key: refused\nwith the new one: unreadable on the disk\n";
    assert_eq!(compile_and_run("examples/encryption.c", &[]), expected);
}

#[test]
fn the_example_of_the_tree_in_memory() {
    assert_eq!(compile_and_run("examples/pinned_tree.c", &[]), "pinned: yes\n5000 words\n");
}

#[test]
fn misuse_is_refused() {
    assert_eq!(compile_and_run("misuse.c", &[]), "ok\n");
}

#[test]
fn edges_hold() {
    assert_eq!(compile_and_run("edges.c", &[]), "ok\n");
}

#[test]
fn callbacks_may_be_wrong() {
    assert_eq!(compile_and_run("callbacks.cpp", &[]), "ok\n");
}

#[test]
fn processes_and_threads_come_and_go() {
    assert_eq!(compile_and_run("lifetimes.c", &[]), "ok\n");
}

#[test]
fn sessions_need_few_descriptors() {
    // More with e.g. CLEAVEDB_SESSIONS=5000.
    let count = std::env::var("CLEAVEDB_SESSIONS").unwrap_or("300".to_owned());
    assert_eq!(compile_and_run("sessions.c", &[&count]), "ok\n");
}

#[test]
fn two_copies_in_one_process() {
    let copy = fresh("a-copy").join("libcopy.so");
    std::fs::copy(library(), &copy).expect("a copy of the library");
    let paths = [library(), copy].map(|path| path.display().to_string());
    assert_eq!(compile_and_run("two_copies.c", &[&paths[0], &paths[1]]), "ok\n");
}

#[test]
fn many_threads() {
    assert_eq!(compile_and_run("threads.c", &[]), "ok\n");
}

#[test]
fn random_calls_never_crash() {
    // More with e.g. CLEAVEDB_FUZZ_CALLS=1000000 CLEAVEDB_FUZZ_SEED=7.
    let from_env = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let calls = from_env("CLEAVEDB_FUZZ_CALLS", "20000");
    let first: u64 = from_env("CLEAVEDB_FUZZ_SEED", "1").parse().expect("a number");
    for seed in first..first + 3 {
        let said = compile_and_run("fuzz.c", &[&seed.to_string(), &calls]);
        assert!(said.starts_with("ok"), "seed {seed}: {said}");
    }
}

#[test]
fn the_headers_are_cplusplus_too() {
    assert_eq!(compile_and_run("cplusplus.cpp", &[]), "ok\n");
}
