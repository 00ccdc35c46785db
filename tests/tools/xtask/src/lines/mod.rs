//! `cargo xtask lines`: which lines of the library the tests reach.

mod counts;
pub(crate) mod measure;
mod of_tests;
mod table;

use anyhow::bail;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use testbed::cargo::MUSL;
use testbed::host::{Tool, ensure};

/// Count the lines of the library that tests execute, and fail if they are too few.
///
/// The tests are rebuilt as static instrumented programs, into target/lines. Lines of tests are not
/// counted: those of test modules, of test files, and of the fake kernel. A limit applies to the
/// driver layer and to each provider; the facade's figure is for information only.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where to run tests: everywhere by default. For places that are left out, the counts of their
    /// last run are kept.
    #[arg(long, value_enum)]
    level: Vec<Level>,
    /// Kernel of the machines.
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// Fail if the executed lines of the driver layer or of a provider are below this percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0)]
    at_least: f64,
    /// Print the lines that no test executes, of files whose path contains this text.
    #[arg(long, value_name = "PATH")]
    unreached: Option<String>,
    /// Run nothing; print what the last run counted.
    #[arg(long)]
    again: bool,
}

/// Where tests run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Level {
    /// Unit tests, tests on the fake kernel, and the seeds of the fuzzers, in processes on this
    /// machine.
    Here,
    /// On the rxe driver, in a machine.
    Rxe,
    /// On the mlx5 drivers and the software ConnectX, in a machine.
    Mlx5,
}

impl Level {
    const ALL: [Self; 3] = [Self::Here, Self::Rxe, Self::Mlx5];
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure(&[Tool::RustTarget(MUSL), Tool::LlvmTools])?;
    let levels = match options.level.as_slice() {
        [] => &Level::ALL[..],
        chosen => chosen,
    };
    let mut failed = Vec::new();
    for &level in levels.iter().filter(|_| !options.again) {
        // A test that fails does not invalidate what others executed.
        if let Err(error) = measure::run(level, &options.kernel) {
            eprintln!("error: {error:#}");
            failed.push(format!("{level:?}"));
        }
    }
    let counts = measure::merged()?;
    let lines = counts::of_the_library(&counts)?;
    if let Some(part) = &options.unreached {
        table::print_unreached(&lines, part);
    }
    let too_few = table::print(&lines, options.at_least);
    if !failed.is_empty() {
        bail!("tests failed ({})", failed.join(", "));
    }
    Ok(if too_few {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
