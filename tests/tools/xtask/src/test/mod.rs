//! `cargo xtask test`: every level of tests.

mod boots;
pub(crate) mod inside;
pub(crate) mod old_rxe;

use crate::cargo::cargo;
use crate::coverage::record;
use crate::examples;
use crate::metadata::Metadata;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use testbed::{Function, Kernel, Processor, host};

/// The package whose unit tests can report the commands that they request, and the package of tests
/// on the fake kernel that can.
const COMMANDS: &str = "uverbs-core";
const SAYING: &str = "fake-tests";

/// Machines without KVM do not run at an even speed, and among two thousand tests one may exceed a
/// time limit.
const TRIES: usize = 2;

/// The kernel used when tests are to be quick.
const QUICK_KERNEL: &str = "6.12";

/// What they leave out of each level.
const LEFT_OUT: [(Level, &str); 5] = [
    (
        Level::Rxe,
        "other kernels and ways to the kernel, robustness, two hosts, the examples",
    ),
    (
        Level::Mlx5,
        "other kernels and ways to the kernel, the verbs of every device, RoCE functions, the examples",
    ),
    (
        Level::Interop,
        "other kernels; UC, UD and shared receive queues; what libibverbs requests of the kernel, call by call; the library for C programs",
    ),
    (
        Level::Connectx,
        "the software ConnectX under Debian's programs, and its bytes beside libmlx5's",
    ),
    (Level::Testbed, "the machines themselves"),
];

/// Run the tests: those that take minutes, or one level, or all of them (`--full`)
///
/// Without `--level` and `--full` these are the unit tests, those on the fake kernel, and on Linux
/// 6.12 the verbs on rxe, what only mlx5 has on a software ConnectX, and ping-pongs with Debian's
/// programs. The last lines of the output say what was left out.
#[derive(Args, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Level of tests to run completely.
    #[arg(long, value_enum)]
    pub(crate) level: Option<Level>,
    /// Every level.
    #[arg(long, conflicts_with = "level")]
    pub(crate) full: bool,
    /// Also fail if a test is flaky, that is, passes only when retried: for releases.
    #[arg(long)]
    pub(crate) steady: bool,
    /// Kernel of the rxe, mlx5 and interop tests: 5.10, 6.1, 6.12 or newest; by default all but
    /// 5.10.
    #[arg(long)]
    pub(crate) kernel: Vec<String>,
    /// The path to the kernel that the rxe and mlx5 tests use.
    #[arg(long, value_enum)]
    pub(crate) path: Vec<Way>,
    /// Kind of the software ConnectX functions of the mlx5 tests: ib or roce.
    #[arg(long, value_name = "KIND")]
    pub(crate) function: Vec<Function>,
    /// The processor of the rxe tests' machines. Any but x86-64 is for that level only.
    #[arg(long, value_enum, default_value_t = On::X86_64)]
    pub(crate) machine: On,
    /// Every kernel with every path (and every kind of function), where they are not specified,
    /// instead of a selection.
    #[arg(long)]
    pub(crate) all: bool,
    /// The software ConnectX of the mlx5 tests ends at the first incorrect use that no test has
    /// announced.
    #[arg(long)]
    pub(crate) strict: bool,
    /// The mlx5 tests open devices with the fixed doorbells of kernels before 5.7.
    #[arg(long)]
    pub(crate) fixed_doorbells: bool,
    /// Time limit of each test in a machine, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,
    /// How many times a test in a machine may be run until it passes. A test that passes only when
    /// retried is reported as flaky.
    #[arg(long, value_name = "TIMES", default_value_t = TRIES)]
    pub(crate) tries: usize,
    /// Also run tests in machines that are marked as ignored.
    #[arg(long)]
    pub(crate) include_ignored: bool,
    /// Record what the unit, fake, rxe and mlx5 tests request of their kernels, for the page of
    /// `cargo xtask coverage`.
    #[arg(long)]
    pub(crate) seen: bool,
    /// Leave out what differs little from what is run: Debian's programs and the examples on other
    /// kernels, some of these programs, and paths to the kernel that the other driver's tests take.
    #[arg(skip)]
    pub(crate) selected: bool,
    /// Where to copy the line counts of tests in machines; the tests are built for that then.
    #[arg(skip)]
    pub(crate) counts: Option<PathBuf>,
    /// Run only tests whose names contain one of these texts.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
}

/// A level: a set of tests that need the same things.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Level {
    /// Inside the crates; they need nothing.
    Unit,
    /// The whole stack on the fake kernel; they need nothing.
    Fake,
    /// The machines themselves.
    Testbed,
    /// The whole stack on the rxe driver of stock kernels, in machines.
    Rxe,
    /// The whole stack on the mlx5 drivers of stock kernels and the software ConnectX, in machines.
    Mlx5,
    /// Debian's own RDMA programs on the other end, in machines.
    Interop,
    /// The software ConnectX under the stock mlx5 drivers and Debian's programs, in machines.
    Connectx,
}

/// The processor of machines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum On {
    /// 64-bit x86.
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// A path to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Way {
    /// The one that the library chooses by itself.
    Auto,
    /// ioctl with attributes.
    Ioctl,
    /// Legacy commands inside ioctl.
    InvokeWrite,
    /// write(2).
    Write,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.machine != On::X86_64 && options.level != Some(Level::Rxe) {
        bail!("only the level rxe has machines with other processors than x86-64");
    }
    let since = Instant::now();
    let mut failed = Vec::new();
    let mut unsteady = Vec::new();
    for level in options.levels() {
        if let Err(error) = one_level(level, options, &mut unsteady) {
            eprintln!("error: {error:#}");
            failed.push(level.name());
        }
    }
    let minutes = since.elapsed().as_secs_f64() / 60.0;
    for name in &unsteady {
        host::say(format_args!(
            "calls {name} flaky: it passed only when it was retried alone"
        ));
    }
    if options.steady && !unsteady.is_empty() {
        failed.push(format!("steadiness ({} tests)", unsteady.len()));
    }
    if options.is_quick() {
        host::say(left_out());
    }
    if failed.is_empty() {
        host::say(format_args!(
            "is done: every test passed, in {minutes:.1} min"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    bail!("failed: {} (after {minutes:.1} min)", failed.join(", "))
}

/// What was not run, and the command that runs it, one line per level.
fn left_out() -> String {
    let lines = LEFT_OUT.map(|(level, what)| {
        format!(
            "\n      cargo xtask test --level {:<9} {what}",
            level.name()
        )
    });
    format!(
        "left out some tests; `cargo xtask test --full` runs all, `.ci/run` also lints, sanitizers and the interpreter:{}",
        lines.concat()
    )
}

/// Runs a level, all of it or what is `selected`; with `steady`, a flaky test is a failure.
pub(crate) fn level(level: Level, selected: bool, steady: bool) -> anyhow::Result<()> {
    let options = Options {
        steady,
        selected,
        ..Options::of(level)
    };
    run(&options).map(drop)
}

/// Runs a level; adds the names of flaky tests.
fn one_level(level: Level, options: &Options, unsteady: &mut Vec<String>) -> anyhow::Result<()> {
    let filters: Vec<_> = options.filters.iter().map(String::as_str).collect();
    match level {
        Level::Unit => {
            if options.seen {
                let args = ["test", "--package", COMMANDS, "--lib"];
                let requests = record::cargo_requests(&with_filters(&args, &filters))?;
                return requests.write("unit", "", options.is_part());
            }
            let args = [
                "test",
                "--no-fail-fast",
                "--workspace",
                "--all-features",
                "--lib",
                "--bins",
            ];
            let exclude = excluding(inside::PACKAGES);
            cargo(
                &with_filters(&[&args[..], &exclude].concat(), &filters),
                &[],
            )?;
            cargo(
                &with_filters(
                    &["test", "--workspace", "--all-features", "--doc"],
                    &filters,
                ),
                &[],
            )
        }
        Level::Fake => {
            let args = [
                "test",
                "--no-fail-fast",
                "--workspace",
                "--all-features",
                "--test",
                "*",
            ];
            let machines = boots::PACKAGES.map(|(package, _)| package);
            let exclude = excluding(inside::PACKAGES.into_iter().chain(machines));
            if options.seen {
                let args = ["test", "--package", SAYING, "--test", "*"];
                let requests = record::cargo_requests(&with_filters(&args, &filters))?;
                return requests.write("fake", "", options.is_part());
            }
            cargo(
                &with_filters(&[&args[..], &exclude].concat(), &filters),
                &[],
            )
        }
        Level::Testbed | Level::Interop | Level::Connectx => {
            boots::run(level, options, unsteady, &filters)
        }
        Level::Mlx5 => {
            let tests = inside::mlx5(options, unsteady);
            if options.is_quick() {
                return tests;
            }
            let examples = examples::mlx5::run(&some_kernels(options), &options.filters);
            tests.and(examples)
        }
        Level::Rxe => {
            let tests = inside::rxe(options, unsteady);
            if options.machine != On::X86_64 || options.is_quick() {
                return tests;
            }
            let examples = examples::run(&some_kernels(options), &options.filters);
            tests.and(examples)
        }
    }
}

fn with_filters<'a>(args: &[&'a str], filters: &[&'a str]) -> Vec<&'a str> {
    if filters.is_empty() {
        args.to_vec()
    } else {
        [args, &["--"], filters].concat()
    }
}

/// Arguments that exclude packages.
fn excluding<'a>(packages: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    packages
        .into_iter()
        .flat_map(|package| ["--exclude", package])
        .collect()
}

fn kernels(options: &Options) -> Vec<&str> {
    if options.kernel.is_empty() && options.is_quick() {
        return vec![QUICK_KERNEL];
    }
    if options.kernel.is_empty() {
        return Kernel::usual().map(Kernel::name).collect();
    }
    options.kernel.iter().map(String::as_str).collect()
}

/// The kernels of what differs little between them.
fn some_kernels(options: &Options) -> Vec<&str> {
    if options.selected && options.kernel.is_empty() {
        return vec![QUICK_KERNEL];
    }
    kernels(options)
}

fn require(package: &str) -> anyhow::Result<()> {
    let metadata = Metadata::read()?;
    metadata
        .member(package)
        .map(drop)
        .with_context(|| format!("this workspace has no package {package}"))
}

impl Options {
    /// Whether neither a level nor all of them is requested.
    fn is_quick(&self) -> bool {
        self.level.is_none() && !self.full
    }

    fn levels(&self) -> Vec<Level> {
        match self.level {
            Some(level) => vec![level],
            None if self.full => Level::value_variants().to_vec(),
            None => Level::QUICK.to_vec(),
        }
    }

    /// Whether less than everything is run on each kernel.
    fn is_part(&self) -> bool {
        !(self.filters.is_empty() && self.path.is_empty() && self.function.is_empty())
            || self.fixed_doorbells
            || self.machine != On::X86_64
    }

    /// Everything of a level.
    pub(crate) fn of(level: Level) -> Self {
        Self {
            level: Some(level),
            full: false,
            steady: false,
            kernel: Vec::new(),
            path: Vec::new(),
            function: Vec::new(),
            machine: On::X86_64,
            all: false,
            strict: false,
            fixed_doorbells: false,
            timeout: 120,
            tries: TRIES,
            include_ignored: false,
            seen: false,
            selected: false,
            counts: None,
            filters: Vec::new(),
        }
    }
}

impl Level {
    /// What takes minutes and shows the most.
    const QUICK: [Self; 5] = [Self::Unit, Self::Fake, Self::Rxe, Self::Mlx5, Self::Interop];

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl On {
    fn processor(self) -> Processor {
        match self {
            Self::X86_64 => Processor::Amd64,
            Self::Aarch64 => Processor::Arm64,
        }
    }
}

impl Way {
    const ALL: [Self; 4] = [Self::Auto, Self::Ioctl, Self::InvokeWrite, Self::Write];

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_quick_run_leaves_out_is_listed_with_its_command() {
        let text = left_out();
        let whole = [Level::Unit, Level::Fake];
        for level in Level::value_variants() {
            let command = format!("--level {} ", level.name());
            assert_eq!(text.contains(&command), !whole.contains(level), "{text}");
        }
        assert!(text.contains("--full"), "{text}");
    }
}
