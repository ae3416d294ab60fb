//! What the command writes about itself: completions for shells, and manual pages.

use crate::common::{Dir, ok};

const COMMANDS: [&str; 6] = ["put", "space", "check", "reorganize", "completions", "man"];

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    let dir = Dir::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(ok(&dir, &["completions", shell], b"")).unwrap();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
}

/// Bash itself takes the script, and completes with it.
#[test]
fn bash_completes_a_command_that_was_begun() {
    let dir = Dir::new("bash-completions");
    let script = ok(&dir, &["completions", "bash"], b"");
    std::fs::write(dir.path().join("script"), script).unwrap();
    let words = "source ./script; COMP_WORDS=(cleave reo); COMP_CWORD=1; \
                 _cleave cleave reo cleave; echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash")
        .args(["--norc", "-c", words])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "reorganize", "{output:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = Dir::new("man");
    ok(&dir, &["man", "pages/new"], b"");
    let page = |name: &str| {
        std::fs::read_to_string(dir.path().join("pages/new").join(format!("{name}.1"))).unwrap()
    };
    let overview = page("cleave");
    for command in COMMANDS {
        assert!(overview.contains(command), "{command}");
        assert!(page(&format!("cleave-{command}")).contains(".SH SYNOPSIS"), "{command}");
    }
}
