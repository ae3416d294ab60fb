//! The helpers of all tests of the command: a directory of their own and the real program.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// A directory that is removed when the test has passed.
pub(crate) struct Dir(PathBuf);

impl Dir {
    /// An empty directory of this name.
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// The program, to be run in `dir`.
pub(crate) fn cleave(dir: &Dir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cleave"));
    command.args(args).current_dir(dir.path());
    command
}

/// Starts the program, and returns it with its input and its output.
pub(crate) fn start(
    dir: &Dir,
    args: &[&str],
    stderr: Stdio,
) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let mut command = cleave(dir, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, input, output)
}

/// Runs the program with `input` to its end.
pub(crate) fn run(dir: &Dir, args: &[&str], input: &[u8]) -> Output {
    let mut command = cleave(dir, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that does not read all of it closes the pipe; that is no failure here.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Runs the program, which must succeed, and returns what it printed.
pub(crate) fn ok(dir: &Dir, args: &[&str], input: &[u8]) -> Vec<u8> {
    let output = run(dir, args, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cleave {args:?}: {}\n{stderr}", output.status);
    output.stdout
}

/// Runs the program, which must fail with exit status 2, and returns what it told.
pub(crate) fn fails(dir: &Dir, args: &[&str], input: &[u8]) -> String {
    let output = run(dir, args, input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "cleave {args:?}: {told}");
    told
}

/// Runs the program with an output that nobody reads any more, and returns its exit status and what
/// it told.
pub(crate) fn unread(dir: &Dir, args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = cleave(dir, args);
    command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read all of it closes the pipe; that is no failure here.
    let _ = child.stdin.take().unwrap().write_all(input);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (child.wait().unwrap().code(), told)
}

/// Text with a record for each of these numbers.
pub(crate) fn lines(numbers: Range<u32>) -> String {
    numbers.map(|number| format!("key{number:04}\tvalue {number}\n")).collect()
}

/// How many notes of interrupted loads there are in the database `DB`.
pub(crate) fn notes(dir: &Dir) -> usize {
    let left = fs::read_dir(dir.path().join("DB")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("loading-")).count()
}
