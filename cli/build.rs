//! Tells the tests whether the programs and libraries are there that they compare with.

use std::path::Path;
use std::process::{Command, Stdio};

const LEVELDB: &str = "/usr/include/leveldb/c.h";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LEVELDB}");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(has_leveldb, has_sqlite)");
    if Path::new(LEVELDB).exists() {
        println!("cargo::rustc-cfg=has_leveldb");
    }
    let sqlite = Command::new("sqlite3").arg("-version").stdout(Stdio::null()).status();
    if sqlite.is_ok_and(|status| status.success()) {
        println!("cargo::rustc-cfg=has_sqlite");
    }
}
