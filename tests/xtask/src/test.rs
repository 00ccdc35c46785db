//! `cargo xtask test`: every level of tests.

use crate::cargo::cargo;
use crate::examples;
use crate::metadata::Metadata;
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testbed::suite::Suite;
use testbed::{Kernel, Machine, Topology, host};

/// Packages whose tests need a machine: those of the first are run inside it, those of the others boot their own.
const IN_A_MACHINE: &str = "rxe-tests";
const WITH_MACHINES: [(&str, Level); 3] = [
    ("testbed", Level::Testbed),
    ("interop", Level::Interop),
    ("connectx", Level::Connectx),
];

/// The test binary of that package which needs two hosts.
const OF_TWO_HOSTS: &str = "two_hosts";

/// Binaries of tests whose names start so try the ways to the kernel where they matter: unless
/// a way is asked for, one run of them on each kernel is enough.
const OWN_WAY: &str = "robust_";

/// What the tests in a machine find in their environment: the way to the kernel that they are to take.
const PATH_VARIABLE: &str = "UVERBS_TEST_PATH";
/// What the tests that boot machines find in their environment: the kernel's name.
const KERNEL_VARIABLE: &str = "UVERBS_TEST_KERNEL";

/// What is run when neither kernel nor path is given: every kernel, and every path on one of them.
const MATRIX: [(&str, Way); 6] = [
    ("6.1", Way::Auto),
    ("6.12", Way::Auto),
    ("newest", Way::Auto),
    ("6.12", Way::Ioctl),
    ("6.12", Way::InvokeWrite),
    ("6.12", Way::Write),
];

/// Run the tests.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Which tests.
    #[arg(long, value_enum, default_value_t = Level::All)]
    pub(crate) level: Level,
    /// Kernel of the rxe and interop tests: 6.1, 6.12 or newest; all of them unless given.
    #[arg(long)]
    pub(crate) kernel: Vec<String>,
    /// The way to the kernel that the rxe tests take.
    #[arg(long, value_enum)]
    pub(crate) path: Vec<Way>,
    /// Time limit of each rxe test, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,
    /// Run the rxe tests that are marked to be ignored, too.
    #[arg(long)]
    pub(crate) include_ignored: bool,
    /// Run only tests whose names hold one of these texts.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
}

/// A level of tests: what they need.
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
    /// Debian's own RDMA programs on the other end, in machines.
    Interop,
    /// The software ConnectX under the stock mlx5 drivers and Debian's programs, in machines.
    Connectx,
    /// All of them.
    All,
}

/// A way to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Way {
    /// The one that the library takes by itself.
    Auto,
    /// ioctl with attributes.
    Ioctl,
    /// Legacy commands inside ioctl.
    InvokeWrite,
    /// write(2).
    Write,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let since = Instant::now();
    let mut failed = Vec::new();
    for level in [
        Level::Unit,
        Level::Fake,
        Level::Testbed,
        Level::Rxe,
        Level::Interop,
        Level::Connectx,
    ] {
        if ![level, Level::All].contains(&options.level) {
            continue;
        }
        if let Err(error) = one_level(level, options) {
            eprintln!("error: {error:#}");
            failed.push(level.name());
        }
    }
    let minutes = since.elapsed().as_secs_f64() / 60.0;
    if failed.is_empty() {
        host::say(format_args!(
            "is done: every test passed, in {minutes:.1} min"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    bail!("failed: {} (after {minutes:.1} min)", failed.join(", "))
}

fn one_level(level: Level, options: &Options) -> anyhow::Result<()> {
    let filters: Vec<_> = options.filters.iter().map(String::as_str).collect();
    match level {
        Level::Unit => {
            cargo(
                &with_filters(
                    &[
                        "test",
                        "--workspace",
                        "--all-features",
                        "--exclude",
                        IN_A_MACHINE,
                        "--lib",
                        "--bins",
                    ],
                    &filters,
                ),
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
            let args = ["test", "--workspace", "--all-features", "--test", "*"];
            let machines = [IN_A_MACHINE]
                .into_iter()
                .chain(WITH_MACHINES.map(|(package, _)| package));
            let exclude: Vec<_> = machines
                .flat_map(|package| ["--exclude", package])
                .collect();
            cargo(
                &with_filters(&[&args[..], &exclude].concat(), &filters),
                &[],
            )
        }
        Level::Testbed | Level::Interop | Level::Connectx => {
            let package = WITH_MACHINES
                .iter()
                .find(|(_, of)| *of == level)
                .map_or("", |(package, _)| package);
            require(package)?;
            // The other two boot every kernel by themselves.
            let kernels = if level == Level::Interop {
                kernels(options)
            } else {
                vec!["all"]
            };
            for kernel in kernels {
                let args = [
                    "test",
                    "--package",
                    package,
                    "--test",
                    "*",
                    "--",
                    "--include-ignored",
                    "--test-threads",
                    "1",
                ];
                cargo(
                    &[&args[..], &filters].concat(),
                    &[(KERNEL_VARIABLE, kernel)],
                )?;
            }
            Ok(())
        }
        Level::Rxe | Level::All => {
            let tests = in_machines(options);
            let examples = examples::run(&kernels(options), &options.filters);
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

fn kernels(options: &Options) -> Vec<&str> {
    if options.kernel.is_empty() {
        return Kernel::all().map(Kernel::name).collect();
    }
    options.kernel.iter().map(String::as_str).collect()
}

/// Kernels and ways to run the rxe tests with.
fn combinations(options: &Options) -> Vec<(&str, Way)> {
    if options.kernel.is_empty() && options.path.is_empty() {
        return MATRIX.to_vec();
    }
    let ways = if options.path.is_empty() {
        &[Way::Auto][..]
    } else {
        &options.path
    };
    kernels(options)
        .into_iter()
        .flat_map(|kernel| ways.iter().map(move |way| (kernel, *way)))
        .collect()
}

fn in_machines(options: &Options) -> anyhow::Result<()> {
    require(IN_A_MACHINE)?;
    let built = testbed::cargo::build(&["test", "--no-run", "--package", IN_A_MACHINE])?;
    let (binaries, programs): (Vec<_>, Vec<_>) = built.into_iter().partition(|built| built.is_test);
    let mut failed = Vec::new();
    for (kernel, way) in combinations(options) {
        // The programs of the package are what its tests start.
        let machine = programs
            .iter()
            .fold(Machine::new(Kernel::named(kernel)?), |machine, program| {
                machine.with_binary(&program.path, &program.name)
            });
        let once = options.path.is_empty() && way != Way::Auto;
        let asked = binaries
            .iter()
            .filter(|binary| !once || !binary.name.starts_with(OWN_WAY));
        for binary in asked {
            println!(
                "\n     Running {} (kernel {kernel}, path {})",
                binary.name,
                way.name()
            );
            let suite = Suite::new(&binary.name, &binary.path).filters(&options.filters);
            let suite = suite
                .env(PATH_VARIABLE, way.name())
                .timeout(Duration::from_secs(options.timeout));
            let topology = if binary.name == OF_TWO_HOSTS {
                Topology::TwoHosts
            } else {
                Topology::OneHost
            };
            let summary = suite
                .include_ignored(options.include_ignored)
                .run(&machine.clone().topology(topology))?;
            if !summary.is_ok() {
                failed.push(format!(
                    "{} on {kernel} by {}: {} tests",
                    binary.name,
                    way.name(),
                    summary.failures.len()
                ));
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}", failed.join("; "))
    }
}

fn require(package: &str) -> anyhow::Result<()> {
    let metadata = Metadata::read()?;
    metadata
        .member(package)
        .map(drop)
        .with_context(|| format!("this workspace has no package {package}"))
}

impl Options {
    /// Every level, every kernel, every path.
    pub(crate) fn everything() -> Self {
        Self {
            level: Level::All,
            kernel: Vec::new(),
            path: Vec::new(),
            timeout: 120,
            include_ignored: false,
            filters: Vec::new(),
        }
    }
}

impl Level {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Way {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
