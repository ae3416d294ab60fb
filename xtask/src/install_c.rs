//! `cargo xtask install-c`: the library for C, laid out below a prefix as other C libraries are.
//!
//! ```text
//! include/leveldb/c.h  include/cleavedb/c.h
//! lib/libcleavedb.so.VERSION  ◄── libcleavedb.so.0 (the loader's name)  ◄── libcleavedb.so
//! lib/libcleavedb.a           lib/pkgconfig/cleavedb.pc
//! lib/libleveldb.so …         only with --leveldb-link: programs of LevelDB find us there
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The library names that programs linked to LevelDB load: the linker name, the soname of the
/// project, and that of Debian.
const LEVELDB_NAMES: [&str; 3] = ["libleveldb.so", "libleveldb.so.1", "libleveldb.so.1d"];

/// Reads the arguments and installs.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let (prefix, link) = match arguments {
        ["--prefix", prefix] => (prefix, false),
        ["--prefix", prefix, "--leveldb-link"] | ["--leveldb-link", "--prefix", prefix] => {
            (prefix, true)
        }
        _ => {
            eprintln!("usage: cargo xtask install-c --prefix DIR [--leveldb-link]");
            return ExitCode::from(2);
        }
    };
    match install(root, Path::new(prefix), link) {
        Ok(()) => {
            println!("installed in {prefix}; compile with `pkg-config --cflags --libs cleavedb`");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("install-c: {error}");
            ExitCode::FAILURE
        }
    }
}

fn install(root: &Path, prefix: &Path, leveldb_link: bool) -> io::Result<()> {
    let built = build(root)?;
    let version = version(root)?;
    // Absolute, since it is written into the pkg-config file.
    std::fs::create_dir_all(prefix)?;
    let prefix = prefix.canonicalize()?;
    let source = root.join("bindings/c");
    for header in ["leveldb/c.h", "cleavedb/c.h"] {
        copy(&source.join("include").join(header), &prefix.join("include").join(header))?;
    }
    let library = prefix.join("lib");
    let full_name = format!("libcleavedb.so.{version}");
    copy(&built.join("libcleavedb.so"), &library.join(&full_name))?;
    copy(&built.join("libcleavedb.a"), &library.join("libcleavedb.a"))?;
    link(&library, "libcleavedb.so.0", &full_name)?;
    link(&library, "libcleavedb.so", "libcleavedb.so.0")?;
    if leveldb_link {
        LEVELDB_NAMES.iter().try_for_each(|name| link(&library, name, "libcleavedb.so.0"))?;
    }
    let template = std::fs::read_to_string(source.join("cleavedb.pc.in"))?;
    let prefix = prefix.display().to_string();
    let text = template.replace("@PREFIX@", &prefix).replace("@VERSION@", &version);
    std::fs::create_dir_all(library.join("pkgconfig"))?;
    std::fs::write(library.join("pkgconfig/cleavedb.pc"), text)
}

/// Builds the library and returns its directory.
fn build(root: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--release", "--locked", "--package", "cleavedb-c"];
    let status = Command::new(cargo).args(arguments).current_dir(root).status()?;
    if !status.success() {
        return Err(io::Error::other("the library can't be built"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok(target.unwrap_or_else(|| root.join("target")).join("release"))
}

/// Returns the version in the workspace's manifest.
fn version(root: &Path) -> io::Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = version.and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| io::Error::other("Cargo.toml has no version"))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("{}: {error}", to.display()));
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // A running program may have the old one mapped: it keeps it, the name gets a new file.
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).map(|_| ()).map_err(failed)
}

fn link(dir: &Path, name: &str, target: &str) -> io::Result<()> {
    let path = dir.join(name);
    let _ = std::fs::remove_file(&path);
    std::os::unix::fs::symlink(target, path)
}
