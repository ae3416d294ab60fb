//! Compiles the C programs of `programs/` and runs them with the library under test.
//!
//! `CLEAVEDB_C_LIBRARY` names another library than the one of this build, and
//! `CLEAVEDB_C_FLAGS` more arguments for the compiler, such as a sanitizer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A fresh directory below the build's own.
pub fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory in the build directory");
    dir
}

/// The shared library under test. Cargo builds none for tests, so this asks it to, once.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| std::env::var_os("CLEAVEDB_C_LIBRARY").map_or_else(build, PathBuf::from))
        .clone()
}

fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the build directory");
    let is_release = std::env::current_exe().is_ok_and(|it| it.starts_with(target.join("release")));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--package", "cleavedb-c", "--target-dir"]).arg(target);
    cargo.args(is_release.then_some("--release"));
    run(&mut cargo);
    target.join(if is_release { "release" } else { "debug" }).join("libcleavedb.so")
}

/// A directory with the library under the names that linkers and loaders ask for.
pub fn library_dir(name: &str) -> PathBuf {
    let dir = fresh(&format!("{name}-lib"));
    for link in ["libcleavedb.so", "libcleavedb.so.0"] {
        std::os::unix::fs::symlink(library(), dir.join(link)).expect("a link");
    }
    dir
}

fn source_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of our headers.
pub fn include_dir() -> PathBuf {
    source_dir().join("include")
}

/// Compiles a program of `programs/`, or one whose path begins with `examples/`, to `program` with
/// these arguments.
pub fn compile(source: &str, program: &Path, arguments: &[&str]) {
    let (compiler, standard) = match source.ends_with(".cpp") {
        true => ("c++", "-std=c++11"),
        false => ("cc", "-std=gnu99"),
    };
    let folder = if source.starts_with("examples/") { "" } else { "tests/programs" };
    let flags = std::env::var("CLEAVEDB_C_FLAGS").unwrap_or_default();
    let mut command = Command::new(compiler);
    command.args([standard, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg(source_dir().join(folder).join(source)).arg("-o").arg(program);
    command.args(flags.split_whitespace()).args(arguments);
    run(&mut command);
}

/// Runs a command that has to succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
