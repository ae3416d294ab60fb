//! This program once more, running one of its ignored tests, to be killed.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a child was asked to do, besides where.
pub fn job() -> Option<(std::path::PathBuf, String)> {
    let dir = std::env::var_os("CLEAVEDB_CHILD_DIR")?;
    Some((dir.into(), std::env::var("CLEAVEDB_CHILD_HOW").unwrap_or_default()))
}

/// Tells the parent something. Seen at once, as the pipe has no buffer on this side.
pub fn tell(word: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {word}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Sleeps until it is killed.
pub fn wait_to_be_killed() -> ! {
    loop {
        std::thread::park();
    }
}

/// A running child; killed at the end.
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

    /// The same with at most so many descriptors.
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

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it tells next.
    pub fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("it lives").expect("text");
            if let Some((_, word)) = line.split_once("child: ") {
                return word.to_owned();
            }
        }
    }

    /// SIGKILL; returns what it had told by then.
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
        // Ended already, if all went well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
