//! The shell as a person meets it, on a terminal.

use crate::common::{Dir, cleave, ok};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

/// Runs the shell on a terminal of its own, and types each of `lines` at a prompt; they must end
/// it. Returns what the terminal was shown, and the exit status.
fn converse(dir: &Dir, arguments: &[&str], lines: &[&str]) -> (String, Option<i32>) {
    let own_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own_end).unwrap();
    unlockpt(&own_end).unwrap();
    let name = ptsname(&own_end, Vec::new()).unwrap();
    let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let open = || Stdio::from(File::options().read(true).write(true).open(name).unwrap());
    let words = [&["shell", "DB"], arguments].concat();
    let mut shell = {
        let mut command = cleave(dir, &words);
        command.env("TERM", "xterm").env("XDG_STATE_HOME", dir.path().join("state"));
        command.env("PAGER", "cat").env("NO_COLOR", "1");
        command.stdin(open()).stdout(open()).stderr(open());
        // Dropping the command closes its end, so that reading ends when the shell does.
        command.spawn().unwrap()
    };
    let mut terminal = File::from(own_end);
    let (mut shown, mut answered) = (String::new(), 0);
    let mut lines = lines.iter();
    let mut buffer = [0; 4096];
    // At the end, the system reports an error instead of an end.
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        shown += std::str::from_utf8(&buffer[..read]).unwrap();
        // What is typed before the prompt goes to the terminal, which knows other keys.
        let last_line = shown[answered..].rsplit_once('\n').map_or("", |(_, line)| line);
        if last_line.contains("> ") {
            answered = shown.len();
            // Without a line that ends it, a shell gets the end of input, so that no test hangs.
            terminal.write_all(lines.next().unwrap_or(&"\x04").as_bytes()).unwrap();
        }
    }
    let status = shell.wait().unwrap();
    (shown, status.code())
}

/// `use` and `-k` created a keyspace whatever was typed, and the next command wrote to it.
#[test]
fn a_mistyped_keyspace_is_not_created() {
    let dir = Dir::new("terminal-typo");
    let keyspaces = |dir: &Dir| {
        let listed = String::from_utf8(ok(dir, &["keyspaces", "DB"], b"")).unwrap();
        let names = listed.lines().map(|line| line.split(' ').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    ok(&dir, &["put", "DB", "-k", "people", "ada", "Ada"], b"");
    let (shown, status) =
        converse(&dir, &[], &["use peopel\n", "use people\n", "get ada\n", "quit\n"]);
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("ERR there is no keyspace \"peopel\""), "{shown}");
    assert!(shown.contains("use peopel --create"), "{shown}");
    assert!(shown.contains("cleave:people> ") && shown.contains("\r\nAda\r\n"), "{shown}");
    let (shown, status) = converse(&dir, &["-k", "peopel"], &[]);
    assert_eq!(status, Some(2), "{shown}");
    assert!(shown.contains("choose one with -k: default, people"), "{shown}");
    assert_eq!(keyspaces(&dir), ["default", "people"]);
    converse(&dir, &[], &["use cities --create\n", "put a 1\n", "\x04"]);
    assert_eq!(keyspaces(&dir), ["cities", "default", "people"]);
}

#[test]
fn lines_are_completed_kept_and_given_up() {
    let dir = Dir::new("terminal-lines");
    // Tab completes a command and a key; Ctrl-C gives a line up; the arrow brings one back.
    let lines =
        ["put quite-long 7\n", "ge\tqui\t\n", "del quite-long\x03", "\x1b[A\x1b[A\n", "\x04"];
    let (shown, status) = converse(&dir, &[], &lines);
    assert_eq!(status, Some(0), "{shown}");
    assert_eq!(shown.matches("\r\n7\r\n").count(), 1, "{shown}");
    assert_eq!(shown.matches("\r\nOK\r\n").count(), 2, "{shown}");
    assert_eq!(ok(&dir, &["get", "DB", "quite-long"], b""), b"7\n");
    let history = dir.path().join("state/cleave/shell_history");
    let kept = fs::read_to_string(&history).unwrap();
    assert!(kept.contains("get quite-long\n") && !kept.contains("del"), "{kept}");
    // What is typed to an encrypted database is not written down.
    fs::remove_file(&history).unwrap();
    fs::write(dir.path().join("key"), "8f".repeat(32)).unwrap();
    ok(&dir, &["put", "SECRET", "a", "1", "--key-file", "key"], b"");
    fs::rename(dir.path().join("DB"), dir.path().join("OLD")).unwrap();
    fs::rename(dir.path().join("SECRET"), dir.path().join("DB")).unwrap();
    let (shown, _) = converse(&dir, &["--key-file", "key"], &["get a\n", "quit\n"]);
    assert!(shown.contains("\r\n1\r\n"), "{shown}");
    assert!(!history.exists());
}

#[test]
fn help_is_there_by_command() {
    let dir = Dir::new("terminal-help");
    let (shown, _) = converse(&dir, &[], &["help ttl\n", "help tttl\n", "quit\n"]);
    assert!(shown.contains("ttl KEY ") && !shown.contains("expire KEY"), "{shown}");
    assert!(shown.contains("there is no command \"tttl\""), "{shown}");
}
