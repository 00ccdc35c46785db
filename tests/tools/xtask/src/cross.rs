//! `cargo xtask cross`: what needs no machine of its own, as programs of other machines, which QEMU
//! runs here.

use anyhow::bail;
use clap::{Args, ValueEnum};
use std::process::{Command, ExitCode};
use std::time::Instant;
use testbed::host::{self, Tool};

/// What is run: the stack, and the tests that run it on the fake kernel, on rings and on the
/// answers of liars.
const PACKAGES: [&str; 9] = [
    "uverbs-uapi",
    "uverbs-core",
    "uverbs-rxe",
    "uverbs-mlx5",
    "uverbs-any",
    "uverbs-fake",
    "uverbs",
    "fake-tests",
    "hostile-tests",
];

/// The heart of it.
const SHARE: [&str; 4] = ["uverbs-core", "uverbs-rxe", "uverbs-mlx5", "fake-tests"];

/// These look at `/proc/self/maps` while they run. QEMU puts that together from two tables which
/// other threads change meanwhile.
const ONE_THREAD: &str = "hostile-tests";

/// How many cases a property has, unless its test says otherwise.
const CASES: &str = "32";

/// Makes tests take fewer of many like cases.
const THINNED: &str = "UVERBS_TEST_THINNED";

/// Tests that need what programs run by QEMU have not, by a part of their names, and what that is.
const LACKING: [(&str, &str); 1] = [(
    "discover::tests::forks::the_kernel_does_it",
    "flags in /proc/self/smaps, which QEMU makes up without them",
)];

/// The same, of what programs of s390x have not: its processor reaches registers by instructions of
/// their own, so nothing is opened there that needs them.
const WITHOUT_REGISTERS: [&str; 19] = [
    "adapter::tests::completion_queues_are_told_of_pages_with_large_numbers",
    "adapter::tests::contexts_are_opened_without_firmware_commands_too",
    "adapter::tests::initiators_take_requests_of_their_streams_alone",
    "adapter::tests::the_device_carries_a_request",
    "adapter::tests::the_device_compresses",
    "adapter::tests::the_devices_number_comes_again",
    "adapter::tests::the_kernel_chooses_doorbells",
    "hw::mmio::tests::stores_stay_inside",
    "no_number_of_doorbells_is_believed_that_cannot_be",
    "no_number_of_mlx5_makes_the_library_allocate_by_it",
    "panics_after_a_call_of_mlx5_frees_nothing_that_it_has",
    "raw::tests::",
    "records_and_registers_are_stored_to_by_all",
    "sq::tests::",
    "thread::tests::queue_pairs_take_turns_and_whoever_comes_second_rings",
    "uar::tests::",
    "unreported::",
    "values::",
    "var::tests::a_page_is_taken_mapped_and_given_back",
];

/// Run what needs no machine of its own as programs of other machines, by QEMU: those whose bytes
/// have the other order, and those with other instructions.
///
/// QEMU, the target of the toolchain and a linker are installed if they are missing. An x86
/// processor keeps the order of accesses that others may change, and so does QEMU on it: what comes
/// of such changes is looked for by `cargo xtask loom` and `cargo xtask miri`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Which machines: all of them unless given.
    #[arg(long, value_enum)]
    machine: Vec<Foreign>,
    /// Only these packages.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES)]
    package: Vec<String>,
    /// Take fewer of many like cases.
    #[arg(long)]
    thinned: bool,
    /// Run only tests whose names hold one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    /// The rings, what threads share, and the stack on the fake kernel, on the machine with the
    /// weak order.
    pub(crate) fn share() -> Self {
        Self {
            machine: vec![Foreign::Aarch64],
            package: SHARE.map(str::to_owned).to_vec(),
            thinned: true,
            filters: Vec::new(),
        }
    }
}

/// Another machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Foreign {
    /// 64 bits, little-endian, the order of accesses is weak.
    Aarch64,
    /// 64 bits, big-endian; no program can reach a device's registers by loads and stores.
    S390x,
    /// 64 bits, big-endian, with registers.
    Powerpc64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let machines = match options.machine.as_slice() {
        [] => Foreign::value_variants(),
        asked => asked,
    };
    host::ensure(&[Tool::QemuUser])?;
    let mut results = Vec::new();
    for &machine in machines {
        host::ensure(machine.tools())?;
        for (test, why) in machine.lacking() {
            println!("left out as {}: {test} ({why})", machine.name());
        }
        for package in PACKAGES {
            if !options.package.is_empty() && !options.package.iter().any(|name| name == package) {
                continue;
            }
            host::say(format_args!("runs {package} as {}", machine.name()));
            let since = Instant::now();
            let result = host::run(&mut emulated(machine, package, options));
            if let Err(error) = &result {
                eprintln!("error: {package} as {}: {error}", machine.name());
            }
            results.push((machine, package, result.is_ok(), since.elapsed().as_secs()));
        }
    }
    for (machine, package, passed, seconds) in &results {
        let word = if *passed { "ok" } else { "FAILED" };
        println!(
            "{:<10} {package:<14} {word:<6} {seconds:>5} s",
            machine.name()
        );
    }
    if results.iter().any(|(_, _, passed, _)| !passed) {
        bail!("tests failed on other machines");
    }
    Ok(ExitCode::SUCCESS)
}

fn emulated(machine: Foreign, package: &str, options: &Options) -> Command {
    let target = machine.target();
    let mut command = testbed::cargo::command();
    command
        .args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"])
        .args(["--all-features", "--target", target, "--package", package])
        .arg("--")
        .args(&options.filters)
        .args(machine.lacking().flat_map(|(test, _)| ["--skip", test]));
    if package == ONE_THREAD {
        command.args(["--test-threads", "1"]);
    }
    let name = target.replace('-', "_").to_uppercase();
    command
        .env(format!("CARGO_TARGET_{name}_LINKER"), machine.linker())
        .env(format!("CARGO_TARGET_{name}_RUNNER"), machine.runner());
    if options.thinned {
        command.env(THINNED, "1").env("PROPTEST_CASES", CASES);
    }
    command
}

impl Foreign {
    /// As QEMU calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::S390x => "s390x",
            Self::Powerpc64 => "ppc64",
        }
    }

    /// Tests that it cannot carry out, by a part of their names, and why.
    fn lacking(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let registers = if self == Self::S390x {
            &WITHOUT_REGISTERS[..]
        } else {
            &[]
        };
        let why = "a device's registers, which programs of s390x do not reach";
        LACKING
            .into_iter()
            .chain(registers.iter().map(move |test| (*test, why)))
    }

    /// Where Rust has musl for a machine, the toolchain links by itself, and what it links needs
    /// nothing beside it.
    fn target(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-musl",
            Self::S390x => "s390x-unknown-linux-gnu",
            Self::Powerpc64 => "powerpc64-unknown-linux-gnu",
        }
    }

    fn linker(self) -> &'static str {
        match self {
            Self::Aarch64 => "rust-lld",
            Self::S390x => "s390x-linux-gnu-gcc",
            Self::Powerpc64 => "powerpc64-linux-gnu-gcc",
        }
    }

    /// What runs its programs. Those of glibc find their loader and libraries where Debian has them
    /// for linkers.
    fn runner(self) -> &'static str {
        match self {
            Self::Aarch64 => "qemu-aarch64",
            Self::S390x => "qemu-s390x -L /usr/s390x-linux-gnu",
            Self::Powerpc64 => "qemu-ppc64 -L /usr/powerpc64-linux-gnu",
        }
    }

    fn tools(self) -> &'static [Tool] {
        match self {
            Self::Aarch64 => &[Tool::RustTarget("aarch64-unknown-linux-musl")],
            Self::S390x => &[
                Tool::RustTarget("s390x-unknown-linux-gnu"),
                Tool::S390xLinker,
            ],
            Self::Powerpc64 => &[
                Tool::RustTarget("powerpc64-unknown-linux-gnu"),
                Tool::Powerpc64Linker,
            ],
        }
    }
}
