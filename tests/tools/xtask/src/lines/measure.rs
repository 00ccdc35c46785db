//! Runs tests that count their lines, and merges the counts.

use super::Level;
use crate::test::{self, inside};
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::Function;
use testbed::cargo::{Built, MUSL, workspace};
use testbed::host;

/// Makes cargo build instrumented programs for the guest, in a folder of their own. Programs that
/// run on the host are built for the same target, so that everything is compiled once.
pub(crate) const COUNTING: [&str; 4] = [
    "--config",
    "target.x86_64-unknown-linux-musl.rustflags=[\"-Cinstrument-coverage\"]",
    "--target-dir",
    "target/lines",
];

/// The variable that says where counts are written. Processes of one program add to the same file.
pub(crate) const VARIABLE: &str = "LLVM_PROFILE_FILE";
pub(crate) const FILE: &str = "%m.profraw";

/// The stack, and the tests that run it on the fake kernel, on rings and against hostile kernels.
const HERE: [&str; 13] = [
    "test",
    "--lib",
    "--tests",
    "--features=uverbs/tokio",
    "--package=uverbs-core",
    "--package=uverbs-rxe",
    "--package=uverbs-mlx5",
    "--package=uverbs-any",
    "--package=uverbs-fake",
    "--package=uverbs",
    "--package=fake-tests",
    "--package=hostile-tests",
    "--no-fail-fast",
];

/// Time limit of each test in a machine, in seconds.
const PATIENCE: u64 = 300;

/// Runs the tests of a level, and keeps their counts.
pub(super) fn run(level: Level, kernel: &str) -> anyhow::Result<()> {
    let counts = counts(level);
    if counts.exists() {
        fs::remove_dir_all(&counts).with_context(|| counts.display().to_string())?;
    }
    fs::create_dir_all(&counts).with_context(|| counts.display().to_string())?;
    let of = match level {
        Level::Here => return here(&counts),
        Level::Rxe => test::Level::Rxe,
        Level::Mlx5 => test::Level::Mlx5,
    };
    let mut options = test::Options::of(of);
    options.kernel = vec![kernel.to_owned()];
    options.function = vec![Function::Ib, Function::Roce];
    options.counts = Some(counts.clone());
    // Instrumented programs are slower, and make system calls of their own.
    options.timeout = PATIENCE;
    options.tries = 1;
    let passed = match of {
        test::Level::Mlx5 => inside::mlx5(&options, &mut Vec::new()),
        _ => inside::rxe(&options, &mut Vec::new()),
    };
    if let Err(error) = passed {
        // Whether tests pass is for `cargo xtask test` to report; some measure time or count system
        // calls.
        host::say(format_args!(
            "has counted, though not all passed: {error:#}"
        ));
    }
    if files(&counts)?.is_empty() {
        bail!("the tests of {level:?} counted nothing");
    }
    Ok(())
}

fn here(counts: &Path) -> anyhow::Result<()> {
    let mut command = testbed::cargo::command();
    command
        .args(HERE)
        .args(["--target", MUSL])
        .args(COUNTING)
        .env(VARIABLE, counts.join(FILE));
    host::say("runs the tests that need no machine, counting lines");
    Ok(host::run(&mut command)?)
}

/// The instrumented programs.
fn programs(level: Level) -> anyhow::Result<Vec<Built>> {
    let packages = match level {
        Level::Here => {
            let args = [&HERE[..], &["--no-run", "--profile", "dev"], &COUNTING].concat();
            return Ok(testbed::cargo::build(&args)?);
        }
        Level::Rxe => inside::OF_RXE,
        Level::Mlx5 => inside::OF_MLX5,
    };
    let (tests, _) = inside::build(&packages, true)?;
    Ok(tests)
}

fn folder() -> PathBuf {
    workspace().join("target/lines")
}

fn counts(level: Level) -> PathBuf {
    folder().join("counts").join(format!("{level:?}"))
}

/// The files in a folder; none if it does not exist.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// All counts, in llvm-cov's `lcov` format.
pub(super) fn merged() -> anyhow::Result<String> {
    let mut profiles = Vec::new();
    let mut programs = Vec::new();
    for level in Level::ALL {
        let counted = files(&counts(level))?;
        if counted.is_empty() {
            continue;
        }
        profiles.extend(counted);
        programs.extend(self::programs(level)?);
    }
    if profiles.is_empty() {
        bail!("nothing was counted yet");
    }
    let tools = host::llvm_tools()?;
    let merged = folder().join("merged.profdata");
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge
        // A process that is killed while it writes leaves a broken file, which is reported.
        .args(["merge", "--sparse", "--failure-mode=all", "--output"])
        .arg(&merged)
        .args(&profiles);
    host::run(&mut merge)?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export
        .args(["export", "--format=lcov", "--skip-functions"])
        .arg("--instr-profile")
        .arg(&merged);
    for program in &programs {
        export.arg("--object").arg(&program.path);
    }
    Ok(host::capture(&mut export)?)
}
