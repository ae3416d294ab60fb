//! Names the shared library for the loader: programs ask for `libcleavedb.so.0`. And looks whether
//! LevelDB itself is there for the tests that compare with it.

const LEVELDB: &str = "/usr/include/leveldb/c.h";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LEVELDB}");
    println!("cargo:rustc-check-cfg=cfg(has_leveldb)");
    if std::path::Path::new(LEVELDB).exists() {
        println!("cargo:rustc-cfg=has_leveldb");
    }
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcleavedb.so.0");
    }
}
