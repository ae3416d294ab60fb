//! Child processes to be killed: the test program, run again for one of its ignored tests.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Returns the directory and the variant of the test that this child was started with, or `None`
/// if this process is not a child.
pub fn job() -> Option<(std::path::PathBuf, String)> {
    let dir = std::env::var_os("CLEAVEDB_CHILD_DIR")?;
    Some((dir.into(), std::env::var("CLEAVEDB_CHILD_HOW").unwrap_or_default()))
}

/// Sends a word to the parent. It arrives at once, because the output is flushed.
pub fn tell(word: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {word}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Sleeps until the process is killed.
pub fn wait_to_be_killed() -> ! {
    loop {
        std::thread::park();
    }
}

/// A running child, which is killed on drop.
pub struct Running {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Runs the ignored test `name` of this program on `dir`.
    pub fn start(name: &str, dir: &Path, how: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        Self::run(&mut Command::new(program), name, dir, how)
    }

    /// Does the same as `start`, with a limit of `descriptors` open file descriptors.
    pub fn limited(name: &str, dir: &Path, how: &str, descriptors: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n \"$1\" && shift && exec \"$@\"", "sh", descriptors]);
        Self::run(shell.arg(program), name, dir, how)
    }

    fn run(command: &mut Command, name: &str, dir: &Path, how: &str) -> Self {
        let mut process = command
            .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
            .env("CLEAVEDB_CHILD_DIR", dir)
            .env("CLEAVEDB_CHILD_HOW", how)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        Running { process, lines }
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next word of the child.
    pub fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("it lives").expect("text");
            if let Some((_, word)) = line.split_once("child: ") {
                return word.to_owned();
            }
        }
    }

    /// Kills the child with SIGKILL. Returns the words that it had sent and that were not read.
    pub fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ended");
        let rest: Vec<_> = self.lines.by_ref().map_while(Result::ok).collect();
        let told = rest.iter().filter_map(|line| line.split_once("child: "));
        told.map(|(_, word)| word.to_owned()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails if the child has ended already, as it has in a test that passes.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
