//! Tells the tests whether the programs and libraries are there that they compare with.

use std::path::Path;
use std::process::{Command, Stdio};

const LEVELDB: &str = "/usr/include/leveldb/c.h";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LEVELDB}");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(has_leveldb, has_ldb, has_lmdb, has_sqlite)");
    if Path::new(LEVELDB).exists() {
        println!("cargo::rustc-cfg=has_leveldb");
    }
    for (program, argument, name) in [
        ("sqlite3", "-version", "has_sqlite"),
        ("ldb", "--version", "has_ldb"),
        ("mdb_dump", "-V", "has_lmdb"),
    ] {
        if Command::new(program).arg(argument).stdout(Stdio::null()).status().is_ok() {
            println!("cargo::rustc-cfg={name}");
        }
    }
}
