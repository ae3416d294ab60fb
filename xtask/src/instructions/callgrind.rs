//! Runs a path below callgrind, and reads what that has counted.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The function within which is counted; see `bench/instructions/src/main.rs`. The counts are
/// written out, and begin anew, where it is entered and where it returns, so those of the measured
/// part are the second that are written.
const MEASURED: &str = "cleavedb_instructions::measured_part";

/// Settings of the C library, with which it uses the same code on every x86-64 processor: of the
/// copies, those that all have, and never the single instruction that copies byte by byte, which
/// counts as one for each byte. Names that a version of the library does not know are ignored.
const LIBRARY_SETTINGS: &str = "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-AVX_Fast_Unaligned_Load,\
    -AVX512VL,-ERMS:\
    glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff";

/// The file system in memory that each Linux has. The engine appends through mappings there, as on
/// ext4 and XFS; on the file systems of containers it might not.
const MEMORY: &str = "/dev/shm";

/// The way to count.
pub(super) struct Callgrind {
    program: PathBuf,
    /// The folder of the profiles.
    folder: PathBuf,
}

/// Returns an error that says what to do, unless there is a valgrind.
pub(super) fn check_for_valgrind() -> io::Result<()> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(format!(
            "valgrind cannot be run ({error}); install it, as ./test does on Debian and Ubuntu \
             (apt-get install valgrind libc6-dbg)"
        ))),
    }
}

impl Callgrind {
    /// Prepares to count the paths of a program, with profiles in a folder.
    pub(super) fn new(program: &Path, folder: &Path) -> io::Result<Callgrind> {
        std::fs::create_dir_all(folder)?;
        Ok(Callgrind { program: program.to_owned(), folder: folder.to_owned() })
    }

    /// Returns the folder of the profiles.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the names of all paths.
    pub(super) fn paths(&self) -> io::Result<Vec<String>> {
        let listed = printed(Command::new(&self.program).arg("list"))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Counts a path; returns the instructions for each operation. Its profile stays.
    pub(super) fn count(&self, name: &str) -> io::Result<u64> {
        let stores = Path::new(MEMORY);
        let stores = if stores.is_dir() { stores.to_owned() } else { std::env::temp_dir() };
        let store = stores.join(format!("cleavedb-instructions-{}-{name}", std::process::id()));
        let out = self.folder.join(name);
        let dump = |number: u32| self.folder.join(format!("{name}.{number}"));
        // An older one must not be taken for that of this run.
        let _ = std::fs::remove_file(dump(2));
        let ran = printed(
            Command::new("valgrind")
                .args(["--tool=callgrind", "--quiet"])
                .arg(format!("--dump-before={MEASURED}"))
                .arg(format!("--dump-after={MEASURED}"))
                .arg(format!("--callgrind-out-file={}", out.display()))
                .arg(&self.program)
                .args([name.as_ref(), store.as_os_str()])
                .env("GLIBC_TUNABLES", LIBRARY_SETTINGS),
        );
        // If it is not there, the path has failed, which is said.
        let _ = std::fs::remove_dir_all(&store);
        let ran = ran?;
        let profile = std::fs::read_to_string(dump(2)).map_err(|error| {
            io::Error::other(format!("{name}: callgrind has counted no {MEASURED}: {error}"))
        })?;
        let counted = per_operation(&ran, &profile)
            .ok_or_else(|| io::Error::other(format!("{name}: there is no count in {ran:?}")))?;
        std::fs::write(self.folder.join(format!("{name}.profile")), without_open_calls(&profile))?;
        for dump in [out, dump(1), dump(2)] {
            std::fs::remove_file(dump)?;
        }
        Ok(counted)
    }
}

/// Runs a command; returns what it prints. The error has what it says of one.
fn printed(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_owned();
    let failed = |why: String| io::Error::other(format!("{}: {why}", program.to_string_lossy()));
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}\n{said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the instructions for each operation, rounded, of what the program has printed and of
/// the profile.
fn per_operation(printed: &str, profile: &str) -> Option<u64> {
    let number = |text: &str, key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
    };
    let operations = number(printed, "operations ").filter(|operations| *operations > 0)?;
    let instructions = number(profile, "totals:").filter(|instructions| *instructions > 0)?;
    Some((instructions + operations / 2) / operations)
}

/// Returns the profile without the calls under way when it was begun, which have a count of zero:
/// `callgrind_annotate` takes their cost for one of the calling function itself.
fn without_open_calls(profile: &str) -> String {
    let mut kept = String::with_capacity(profile.len());
    let mut lines = profile.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if line.starts_with("calls=0 ") {
            // The cost of the call is in the next line.
            lines.next();
        } else {
            kept.push_str(line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_an_operation_rounded() {
        let profile = "version: 1\nfn=(1) a\n3 24\n\ntotals: 24999\n";
        assert_eq!(per_operation("operations 10\n", profile), Some(2500));
        assert_eq!(per_operation("operations 10000\n", profile), Some(2));
        for (printed, profile) in
            [("", profile), ("operations 0\n", profile), ("operations 10\n", "totals: 0\n")]
        {
            assert_eq!(per_operation(printed, profile), None);
        }
    }

    #[test]
    fn calls_under_way_are_left_out() {
        let profile = "fn=(1) main\n4 9\ncfn=(2)\ncalls=0 7\n4 5000\ncalls=3 8\n5 30\n\n";
        let kept = "fn=(1) main\n4 9\ncfn=(2)\ncalls=3 8\n5 30\n\n";
        assert_eq!(without_open_calls(profile), kept);
    }
}
