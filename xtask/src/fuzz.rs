//! `cargo xtask fuzz`: every decoder of the engine under libFuzzer, for some seconds each, or, for
//! CI, for a number of inputs that depend on neither the clock nor earlier runs. Needs a C++
//! compiler, no other toolchain: the instrumentation is part of the stable one. All that is built
//! and found stays in `target/fuzz`.
//!
//! `fuzz/corpus` has a folder for each target, of inputs that reach code which the seeds that the
//! program makes do not. It is made anew from what was found with libFuzzer's
//! `-set_cover_merge=1 -use_counters=0`, seeds first; an input that broke something is added too.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The compiler flags of cargo-fuzz except for the sanitizer, because the engine has next to no
/// `unsafe` code.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The limit of a target's run.
#[derive(Clone, Copy)]
enum Extent {
    /// Seconds of random inputs, which extend the corpus of earlier runs.
    Seconds(u32),
    /// A number of inputs, which are the same in each run of a build.
    Inputs(u32),
}

/// Runs all targets, or those named, for 30 seconds each or as long as `--seconds` or `--inputs`
/// says.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let (extent, names) = match arguments {
        ["--seconds", number, names @ ..] => (number.parse().map(Extent::Seconds), names),
        ["--inputs", number, names @ ..] => (number.parse().map(Extent::Inputs), names),
        names => (Ok(Extent::Seconds(30)), names),
    };
    let Ok(extent) = extent else {
        eprintln!("fuzz: `{}` is not a number", arguments[1]);
        return ExitCode::from(2);
    };
    match Fuzzer::build(root).and_then(|fuzzer| fuzzer.run_all(extent, names)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Fuzzer {
    program: PathBuf,
    /// The corpora of earlier runs on this machine, one folder per target.
    found: PathBuf,
    /// Real files that the fuzzing program wrote.
    seeds: PathBuf,
    /// The inputs in `fuzz/corpus`: they reach code that the seeds do not, or once broke a target.
    kept: PathBuf,
}

impl Fuzzer {
    fn build(root: &Path) -> io::Result<Fuzzer> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target).join("fuzz");
        // Named, so that the flags are not for build scripts.
        let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
        build.args(["--target", &host]).current_dir(root);
        build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target);
        if !build.status()?.success() {
            return Err(io::Error::other("the program does not build"));
        }
        let program = target.join(host).join("release/cleavedb-fuzz");
        let seeds = target.join("seeds");
        if seeds.exists() {
            fs::remove_dir_all(&seeds)?;
        }
        if !Command::new(&program).env("CLEAVEDB_FUZZ_SEEDS", &seeds).status()?.success() {
            return Err(io::Error::other("the seeds cannot be made"));
        }
        let (found, kept) = (target.join("corpus"), root.join("fuzz/corpus"));
        Ok(Fuzzer { program, found, seeds, kept })
    }

    /// Runs all targets; returns true if none failed.
    fn run_all(&self, extent: Extent, names: &[&str]) -> io::Result<bool> {
        let mut targets = Vec::new();
        for entry in fs::read_dir(&self.seeds)? {
            targets.push(entry?.file_name().to_string_lossy().into_owned());
        }
        targets.sort();
        if let Some(unknown) = names.iter().find(|name| !targets.iter().any(|it| it == *name)) {
            let known = targets.join(", ");
            return Err(io::Error::other(format!("there is no target `{unknown}`; try {known}")));
        }
        targets.retain(|target| names.is_empty() || names.contains(&target.as_str()));
        let mut broken = Vec::new();
        for target in &targets {
            if !self.run_one(target, extent)? {
                broken.push(target.as_str());
            }
        }
        match broken.as_slice() {
            [] => println!("fuzz: {} targets passed", targets.len()),
            _ => println!("fuzz: broken: {}", broken.join(", ")),
        }
        Ok(broken.is_empty())
    }

    fn run_one(&self, target: &str, extent: Extent) -> io::Result<bool> {
        let found = self.found.join(target);
        let mut run = Command::new(&self.program);
        run.env("CLEAVEDB_FUZZ_TARGET", target).arg(format!("-artifact_prefix={target}-"));
        match extent {
            Extent::Seconds(number) => {
                fs::create_dir_all(&found)?;
                run.arg(format!("-max_total_time={number}")).arg(found);
            }
            // libFuzzer writes what it finds to the first folder, and begins with all of them. An
            // empty one keeps what earlier runs found out of this one.
            Extent::Inputs(number) => {
                run.args([format!("-runs={number}"), String::from("-seed=1")]);
                let nothing = self.found.with_file_name("nothing");
                if nothing.exists() {
                    fs::remove_dir_all(&nothing)?;
                }
                fs::create_dir_all(&nothing)?;
                run.arg(nothing);
            }
        }
        // A length of 20 KB holds each of the seeds; one input takes milliseconds.
        run.args(["-timeout=30", "-rss_limit_mb=4096", "-max_len=20000", "-verbosity=0"]);
        run.arg(self.seeds.join(target));
        run.args([self.kept.join(target)].iter().filter(|folder| folder.exists()));
        let log = self.found.with_file_name(format!("{target}.log"));
        run.stdout(fs::File::create(&log)?).stderr(fs::File::options().append(true).open(&log)?);
        run.current_dir(self.found.with_file_name(""));
        let passed = run.status()?.success();
        println!("{} {target}", if passed { "passed" } else { "BROKEN" });
        if !passed {
            let text = fs::read(&log)?;
            let last = text.len().saturating_sub(4000);
            println!(
                "{}\nfuzz: all of it is in {}",
                String::from_utf8_lossy(&text[last..]),
                log.display()
            );
        }
        Ok(passed)
    }
}
