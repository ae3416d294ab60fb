//! A command that runs beside others, with its output in a file. It ends with us, however we end,
//! and so does everything that it started.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the arguments in a group of processes of its own. That group ends once our end of the
/// standard input is closed, as it is when we end, even by a signal: first by TERM, so that servers
/// shut down, and what is left 20 seconds later by KILL.
const WITH_US: &str = r#"
exec 3<&0 </dev/null
(trap '' TERM; cat <&3; kill -TERM 0; sleep 20; kill -KILL 0) >/dev/null 2>&1 &
watch=$!
exec 3<&-
"$@"
status=$?
kill -KILL "$watch"
exit "$status"
"#;

/// A command under way.
pub(crate) struct SideCommand {
    child: Child,
    begun: Instant,
    output: PathBuf,
}

impl SideCommand {
    /// Begins the command. What it prints goes to the file `output`.
    pub(crate) fn begin(command: &Command, output: &Path) -> io::Result<SideCommand> {
        if let Some(folder) = output.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(output)?;
        let errors = file.try_clone()?;
        let child = spawn(command, file.into(), errors.into())?;
        Ok(SideCommand { child, begun: Instant::now(), output: output.to_owned() })
    }

    /// Returns our end of the standard input, once. The command ends when that is dropped.
    pub(crate) fn hold(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for the end of the command; returns whether it passed, and how long ago it began.
    pub(crate) fn wait(&mut self) -> (bool, Duration) {
        // Our end of its standard input stays open meanwhile: `Child::wait` would close it.
        let input = self.child.stdin.take();
        let passed = self.child.wait().is_ok_and(|status| status.success());
        drop(input);
        (passed, self.begun.elapsed())
    }

    /// Returns what the command has printed so far.
    pub(crate) fn printed(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Begins the program of `command` with its arguments, environment and folder.
fn spawn(command: &Command, output: Stdio, errors: Stdio) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", WITH_US, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).process_group(0);
    shell.stdin(Stdio::piped()).stdout(output).stderr(errors).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

    fn output(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("cleavedb-xtask-{}-{name}/log", std::process::id()))
    }

    fn in_root(words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir("/");
        command
    }

    fn run(command: &[&str], name: &str) -> (bool, String) {
        let path = output(name);
        let mut beside = SideCommand::begin(&in_root(command), &path).unwrap();
        let (passed, _) = beside.wait();
        let printed = beside.printed();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        (passed, printed)
    }

    #[test]
    fn the_outcome_and_all_that_was_printed_are_told() {
        let both = ["sh", "-c", "pwd; echo two >&2"];
        assert_eq!(run(&both, "passes"), (true, "/\ntwo\n".to_owned()));
        assert_eq!(run(&["sh", "-c", "echo x; exit 3"], "fails"), (false, "x\n".to_owned()));
        assert!(!run(&["/there/is/no/such/program"], "missing").0);
    }

    #[test]
    fn nothing_is_read_from_us() {
        assert_eq!(run(&["cat"], "input"), (true, String::new()));
    }

    /// Guards against nodes that outlive a run: the pipe has an end only once every process that
    /// may write to it is gone, the grandchild too.
    #[test]
    fn what_is_ended_leaves_no_process_behind() {
        let (mut ours, theirs) = io::pipe().unwrap();
        let errors = theirs.try_clone().unwrap();
        let endless = ["sh", "-c", "echo begun; tail -f /dev/null & tail -f /dev/null"];
        let mut child = spawn(&in_root(&endless), theirs.into(), errors.into()).unwrap();
        let mut begun = [0; 6];
        ours.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"begun\n");
        drop(child.stdin.take());
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(15), "{status}");
        ours.read_to_end(&mut Vec::new()).unwrap();
    }
}
